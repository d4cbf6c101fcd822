"""Products that read shared memory: wgmma of sm_90 and tcgen05 of sm_100, their types, shapes and places.

tcgen05.mma of sm_100: kinds, shapes, where the accumulator lies in tensor memory, scale factors of blocks.

The idea.  On Blackwell one thread starts a product, A and B lie in shared memory (A in tensor memory as
well), and D lies in tensor memory (TMEM): 128 lanes by 512 columns of 32 bits per SM, of which warp w of a
warpgroup reaches lanes 32 w to 32 w + 31.  Row i, column j of D goes to a lane and a column by one of seven
layouts, which depend on M, on how many CTAs work together, and on .ws:

    D   M = 128                 lane i                      column j
    F   M = 64                  lane 32 (i / 16) + i % 16   column j       half of the lanes are idle
    E   M = 64, .ws             lane i + 64 (j / (N/2))     column j mod N/2
    G   M = 32, .ws             lane i + 32 (j / (N/4))     column j mod N/4
    A   M = 256, two CTAs       as D, rows 128 and on in the second CTA
    B   M = 128, two CTAs       64 rows per CTA, as E        (C, of sparse A: as F)

Here an accumulator is a layout (row, column) -> lane + 128 column.

>>> print(*tmem_accumulator(64, 128))
F ((16,4),128):((1,32),128)
>>> print(check_tcgen05("mxf4nvf4", 128, 256).blocks)
(('ue8m0', 32), ('ue8m0', 16), ('ue4m3', 16))

Notes.  All of this is documented, none of it measured.  The shapes are those that CUTLASS asserts, a part of
those of PTX's table, which lets N step by 8 for M = 128 and by 16 for two CTAs as well.  Kernels for it are
not generated.

Source: PTX ISA 9.0, 9.7.16.2.1 (matrix shapes, table 39), 9.7.16.2.3 (data movement shapes), 9.7.16.10.5
(data path layouts), 9.7.16 (block scaling); CUTLASS, include/cute/arch/mma_sm100_umma.hpp (asserts),
include/cutlass/detail/sm100_blockscaled_layout.hpp (the atom of scale factors).

wgmma.mma_async: the types, shapes and operand sources that exist.

The idea.  D (64 x N) += A (64 x K) B (K x N), where K is 32 bytes of operand, N steps by 8 (by 16 past 32 for
integers), B lies in shared memory and A there or in registers.  Only 16-bit operands in shared memory may be
M-major or N-major; everything else is K-major.

>>> WGMMA_TYPES["bf16"].k, WGMMA_TYPES["s8"].n_sizes[:6], WGMMA_TYPES["tf32"].transposable
(16, (8, 16, 24, 32, 48, 64), False)

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation using
wgmma.mma_async", matrix shapes, syntax and description; integer N of 240 and 256: CUTLASS,
include/cute/arch/mma_sm90_gmma.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.arch.model import Provenance
from layoutalg.errors import DivisibilityError, UnknownNameError, UnsupportedError
from layoutalg.layout import Layout, span

WGMMA_M = 64
"""Rows of A and D of one instruction."""


@dataclass(frozen=True, slots=True)
class WgmmaType:
    """The limits that a type of A sets: the types of B, the accumulators, the sizes along N and K."""

    name: str
    k: int
    b_types: tuple[str, ...]
    accumulators: tuple[str, ...]
    n_sizes: tuple[int, ...]
    transposable: bool = False


_EVERY_8 = tuple(range(8, 257, 8))
_INTEGER = (8, 16, 24, *range(32, 257, 16))

_WGMMA = (
    WgmmaType("f16", 16, ("f16",), ("f32", "f16"), _EVERY_8, transposable=True),
    WgmmaType("bf16", 16, ("bf16",), ("f32",), _EVERY_8, transposable=True),
    WgmmaType("tf32", 8, ("tf32",), ("f32",), _EVERY_8),
    WgmmaType("e4m3", 32, ("e4m3", "e5m2"), ("f32", "f16"), _EVERY_8),
    WgmmaType("e5m2", 32, ("e4m3", "e5m2"), ("f32", "f16"), _EVERY_8),
    WgmmaType("s8", 32, ("s8", "u8"), ("s32",), _INTEGER),
    WgmmaType("u8", 32, ("s8", "u8"), ("s32",), _INTEGER),
    WgmmaType("b1", 256, ("b1",), ("s32",), _INTEGER),
)

WGMMA_TYPES: Mapping[str, WgmmaType] = MappingProxyType({t.name: t for t in _WGMMA})
"""By the type of A, read only."""


TMEM_LANES = 128
"""Lanes of the tensor memory of an SM."""

TMEM_COLUMNS = 512
"""Columns of 32 bits of each lane."""

DataPath: TypeAlias = Literal["A", "B", "D", "E", "F", "G"]
"""The data path: the lane and column of tensor memory that an element of a dense product goes to."""


@dataclass(frozen=True, slots=True)
class Tcgen05Kind:
    """A .kind of tcgen05.mma: types of operands and accumulator, extent along K, blocks that are scaled.

    `blocks` are (type of a scale factor, elements along K that share one); none where nothing is scaled.
    """

    name: str
    operands: tuple[str, ...]
    accumulators: tuple[str, ...]
    k: int
    blocks: tuple[tuple[str, int], ...] = ()
    provenance: Provenance = "documented"
    source: str = "PTX ISA 9.0, 9.7.16.2.1, table 39"

    @property
    def ptx(self) -> str:
        """The instruction's name."""
        return f"tcgen05.mma.kind::{self.name}{'.block_scale' if self.blocks else ''}"


_NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")

_TABLE = (
    Tcgen05Kind("f16", ("f16", "bf16"), ("f16", "f32"), 16),
    Tcgen05Kind("tf32", ("tf32",), ("f32",), 8),
    Tcgen05Kind("f8f6f4", _NARROW, ("f16", "f32"), 32),
    Tcgen05Kind("i8", ("s8", "u8"), ("s32",), 32),
    Tcgen05Kind("mxf8f6f4", _NARROW, ("f32",), 32, (("ue8m0", 32),)),
    Tcgen05Kind("mxf4", ("e2m1",), ("f32",), 64, (("ue8m0", 32),)),
    Tcgen05Kind("mxf4nvf4", ("e2m1",), ("f32",), 64, (("ue8m0", 32), ("ue8m0", 16), ("ue4m3", 16))),
)

TCGEN05_KINDS: Mapping[str, Tcgen05Kind] = MappingProxyType({kind.name: kind for kind in _TABLE})
"""Every kind by name, read only."""


def check_tcgen05(kind: str, m: int, n: int, *, ctas: int = 1, ws: bool = False) -> Tcgen05Kind:
    """The kind, if it multiplies M x N; `ctas` work together, `ws` is the weight-stationary form.

    Raises UnknownNameError for another kind, UnsupportedError with what there is for another shape.

    >>> check_tcgen05("f16", 128, 256).k
    16
    >>> check_tcgen05("f16", 128, 24)
    Traceback (most recent call last):
    layoutalg.errors.UnsupportedError: tcgen05.mma.kind::f16 of 128 x 24: with M = 128 N is a multiple of 16 \
from 16 to 256
    """
    known = TCGEN05_KINDS.get(kind)
    if known is None:
        raise UnknownNameError("kind of tcgen05.mma", kind, TCGEN05_KINDS)
    rows = _rows(known, ctas, ws)
    what = f"{known.ptx}{' with .ws' if ws else ''} of {m} x {n}"
    if m not in rows:
        group = {1: "one CTA", 2: "two CTAs"}.get(ctas, f"{ctas} CTAs")
        accepted = " or ".join(map(str, rows)) or "nothing"
        raise UnsupportedError(f"{what}: M of {group} is {accepted}")
    if ws:
        if n not in (64, 128, 256):
            raise UnsupportedError(f"{what}: N is 64, 128 or 256")
        return known
    step = 8 if known.blocks or m == 64 else 16
    step = {"i8": 16}.get(kind, step) if ctas == 1 else 16 if known.blocks else 32
    if n == 8 and kind == "i8" and ctas == 1:
        return known
    if n % step or not step <= n <= 256:
        raise UnsupportedError(f"{what}: with M = {m} N is a multiple of {step} from {step} to 256")
    return known


def _rows(kind: Tcgen05Kind, ctas: int, ws: bool) -> tuple[int, ...]:
    if ctas not in (1, 2) or (ws and (ctas == 2 or kind.blocks)):
        return ()
    if ws:
        return 32, 64, 128
    if ctas == 2:
        return 128, 256
    return (128,) if kind.blocks else (64, 128)


def tmem_accumulator(m: int, n: int, *, ctas: int = 1, ws: bool = False) -> tuple[DataPath, Layout]:
    """The data path of a dense M x N accumulator of 32 bits; (row, column) of one CTA -> lane + 128 column.

    Raises UnsupportedError for rows that no product has, DivisibilityError where N does not fold.

    >>> print(*tmem_accumulator(256, 64, ctas=2))
    A (128,64):(1,128)
    >>> print(*tmem_accumulator(32, 64, ws=True))
    G (32,(16,4)):(1,(128,32))
    """
    path: dict[tuple[int, int, bool], DataPath] = {
        (128, 1, False): "D", (128, 1, True): "D", (64, 1, False): "F", (64, 1, True): "E",
        (32, 1, True): "G", (256, 2, False): "A", (128, 2, False): "B",
    }  # fmt: skip
    letter = path.get((m, ctas, ws))
    if letter is None:
        raise UnsupportedError(
            f"no accumulator of {m} rows in {ctas} CTAs{' with .ws' if ws else ''}: one CTA has 64 or 128, "
            f"32 too with .ws, and two have 128 or 256"
        )
    folds = {"B": 2, "E": 2, "G": 4}.get(letter, 1)
    if n % folds:
        raise DivisibilityError(f"data path {letter} folds {n} columns {folds} times", lhs=n, rhs=folds)
    if letter == "F":
        return letter, Layout(((16, 4), n), ((1, 32), TMEM_LANES))
    if folds == 1:
        return letter, Layout((128, n), (1, TMEM_LANES))
    rows = TMEM_LANES // folds
    return letter, Layout((rows, (n // folds, folds)), (1, (TMEM_LANES, rows)))


def tmem_columns(layout: Layout) -> int:
    """Columns that an accumulator of 32 bits takes, of the 512; allocations are powers of two from 32 on.

    >>> tmem_columns(tmem_accumulator(64, 96, ws=True)[1])
    48
    """
    return span(layout)[1] // TMEM_LANES + 1
