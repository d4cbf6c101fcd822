"""sm_100: tcgen05.ld and tcgen05.st, which move an accumulator between tensor memory and registers.

A warp reads 16 or 32 lanes of tensor memory, and of each a run of columns, `.xN` times as long; who gets
what is a pattern of the shape:

    32x32b     lane l reads its own lane of tensor memory: a whole row of D per thread
    16x64b     lane l: row l / 4 + 8 (l % 2), column l / 2 % 2
    16x128b    lane l: row l / 4, column l % 4; register 1 is 8 rows further down
    16x256b    lane l: row l / 4, columns 2 (l % 4) and the next; then 8 rows further down: the core matrix

so that what 16x256b leaves in registers is what mma.sync and wgmma leave there.  Bits are counted along the
columns of a lane, lane after lane; as in CuTe every thread is shown the whole of tensor memory.

Source: PTX ISA 9.0, 9.7.16.2.3.1 (matrix fragments for shapes .32x32b to .16x256b); CUTLASS,
include/cute/atom/copy_traits_sm100.hpp.
"""

from __future__ import annotations

from layoutalg.atoms.atom import CopyAtom
from layoutalg.layout import Layout

MOST_REGISTERS = 128
"""32-bit registers that one tcgen05.ld or .st moves per lane."""

SHAPES: dict[str, tuple[int, int, int]] = {
    "32x32b": (32, 32, 1),
    "16x64b": (16, 64, 1),
    "16x128b": (16, 128, 2),
    "16x256b": (16, 256, 4),
}
"""Lanes of tensor memory, bits of each, and registers per thread of one repetition."""


def registers_of(shape: str, repeat: int) -> Layout:
    """(lane, bit of its registers) -> bit of what moves, lane after lane of tensor memory.

    >>> print(registers_of("16x256b", 1), registers_of("16x64b", 2))
    ((4,8),(64,2)):((64,256),(1,2048)) ((2,2,8),(32,2)):((1024,32,128),(1,64))
    """
    _, bits, _ = SHAPES[shape]
    row = bits * repeat
    threads, values = {
        "32x32b": ([(32, row)], [(32 * repeat, 1)]),
        "16x64b": ([(2, 8 * row), (2, 32), (8, row)], [(32, 1), (repeat, 64)]),
        "16x128b": ([(4, 32), (8, row)], [(32, 1), (2, 8 * row), (repeat, 128)]),
        "16x256b": ([(4, 64), (8, row)], [(64, 1), (2, 8 * row), (repeat, 256)]),
    }[shape]
    shape_of, strides = [], []
    for part in (threads, [v for v in values if v[0] > 1]):
        shape_of.append(part[0][0] if len(part) == 1 else tuple(n for n, _ in part))
        strides.append(part[0][1] if len(part) == 1 else tuple(d for _, d in part))
    return Layout(tuple(shape_of), tuple(strides))


def _atom(shape: str, repeat: int, *, load: bool) -> CopyAtom:
    lanes, bits, _ = SHAPES[shape]
    memory, held = Layout((32, lanes * bits * repeat), (0, 1)), registers_of(shape, repeat)
    kind = "ld" if load else "st"
    return CopyAtom(
        f"SM100_TMEM_{'LOAD' if load else 'STORE'}_{lanes}dp{bits}b{repeat}x",
        Layout(32),
        memory if load else held,
        held if load else memory,
        memory,
        "PTX ISA 9.0, 9.7.16.2.3.1",
        "sm_100",
        f"tcgen05.{kind}.sync.aligned.{shape}.x{repeat}.b32",
    )


COPY_ATOMS: tuple[CopyAtom, ...] = tuple(
    _atom(shape, 1 << j, load=load)
    for load in (True, False)
    for shape, (_, _, registers) in SHAPES.items()
    for j in range((MOST_REGISTERS // registers).bit_length())
)
"""Loads and stores of tensor memory, by shape and repetition."""
