"""The core-matrix rule: nearly every fragment of a tensor core is built of one 8 x 4 pattern of registers.

The idea.  One register of a warp is a core matrix: 8 rows, 4 lanes per row, 32 bits per lane, which are
e = 32 / bits neighbours along a row (one element where it is as wide as a register or wider).

                 columns 0..e-1   e..2e-1   2e..3e-1   3e..4e-1
        row 0        lane 0       lane 1     lane 2     lane 3
        row 1        lane 4       lane 5     lane 6     lane 7
        ...

A larger operand is several core matrices, and its registers count them down the rows first: the row half of
A (rows 8 to 15) comes before the K half.  wgmma stacks four warps of 16 rows.  With columns-first indices,
element (r, c) of R rows at r + R c, all fragments follow:

>>> print(core_matrices(16, 16, 2), core_matrices(8, 16, 2), core_matrices(16, 8, 2))
((4,8),(2,2,2)):((32,1),(16,8,128)) ((4,8),(2,2)):((16,1),(8,64)) ((4,8),(2,2)):((32,1),(16,8))

are A, B and C of mma.m16n8k16 on 16-bit types.

Notes.  Modes of extent 1 are left out, as CuTe does by hand; what CuTe writes in another form is listed
where the rule is used.  Exceptions to the rule: dp4a and dp2a (one thread), and mma.m8n8k4 of sm_70.

Source: PTX ISA, "Warp-level matrix instructions", matrix fragments of mma.m8n8k16 to mma.m16n8k256;
"Asynchronous warpgroup-level matrix instructions", register fragments of wgmma.mma_async.m64nNk16.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.dtype import DType
from layoutalg.layout import Layout, concat


def neighbours(element: DType) -> int:
    """Elements that share one 32-bit register of a lane, at least 1.

    >>> from layoutalg.dtype import dtype
    >>> neighbours(dtype("s8")), neighbours(dtype("f64"))
    (4, 1)
    """
    return max(1, 32 // element.bits)


def core_matrices(rows: int, columns: int, e: int, *, keep: bool = False) -> Layout:
    """(thread, value) -> r + rows * c of a warp's operand; 8 or 16 rows, `e` neighbours per register.

    `keep` writes a single value mode as a tuple of one.

    >>> print(core_matrices(8, 4, 1), core_matrices(8, 32, 8, keep=True))
    ((4,8),1):((8,1),0) ((4,8),(8)):((64,1),(8))
    """
    return _fragment(
        (4, 8), (e * rows, 1), [(e, rows), (rows // 8, 8), (columns // (4 * e), 4 * e * rows)], keep
    )


def warpgroup_matrices(columns: int, e: int, *, keep: bool = False) -> Layout:
    """(thread, value) -> r + 64 c of a warpgroup's operand of 64 rows: four warps of 16.

    `keep` keeps value modes of extent 1.

    >>> print(warpgroup_matrices(96, 2), warpgroup_matrices(8, 1))
    ((4,8,4),(2,2,12)):((128,1,16),(64,8,512)) ((4,8,4),(2,2)):((64,1,16),(8,256))
    """
    values = [(e, 64), (2, 8), (columns // (4 * e), 256 * e)]
    if keep:
        return Layout(
            ((4, 8, 4), tuple(s for s, _ in values)), ((64 * e, 1, 16), tuple(d for _, d in values))
        )
    return _fragment((4, 8, 4), (64 * e, 1, 16), values, keep=False)


def _fragment(
    lanes: tuple[int, ...], steps: tuple[int, ...], values: list[tuple[int, int]], keep: bool
) -> Layout:
    return concat(Layout(lanes, steps), mode_of(values, keep=keep))


def mode_of(pairs: Sequence[tuple[int, int]], *, keep: bool = False) -> Layout:
    """A mode of these (extent, stride) without extents of 1; `keep` writes a single one as a tuple of one.

    >>> print(mode_of([(2, 8), (1, 4), (4, 1)]), mode_of([(4, 2)]), mode_of([(4, 2)], keep=True))
    (2,4):(8,1) 4:2 (4):(2)
    """
    held = [pair for pair in pairs if pair[0] > 1]
    if len(held) > 1 or (keep and held):
        return Layout(tuple(s for s, _ in held), tuple(d for _, d in held))
    return Layout(*held[0]) if held else Layout(1, 0)
