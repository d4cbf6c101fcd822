"""sm_89: mma.sync of 8-bit floating point, e4m3 and e5m2 in any pairing, sums in f32 or f16.

The fragments are those of bytes, by the core-matrix rule.

Source: PTX ISA 9.0, 9.7.14.5.10 (matrix fragments for mma.m16n8k32);
CUTLASS, include/cute/arch/mma_sm89.hpp.
"""

from __future__ import annotations

from layoutalg.atoms.rows import MMARow

_FLOATS = ("e4m3", "e5m2")

MMA_ATOMS: tuple[MMARow, ...] = tuple(
    MMARow("SM89", (16, 8, 32), f"{sums} {a} {b} {sums}", "9.7.14.5.10")
    for sums in ("f32", "f16")
    for a in _FLOATS
    for b in _FLOATS
)
"""By type of the sums, of A and of B."""
