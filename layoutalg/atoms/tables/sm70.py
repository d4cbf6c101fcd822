"""sm_70: mma.m8n8k4 of half precision, four at once, each by a quad pair of 8 threads.

The threads of a quad pair are 4 neighbours and the 4 that are 16 lanes further on.  Each holds a row of a
row-major operand, or a column of half a column-major one:

    A row-major, or B column-major     (8,4):(1,8)              thread t: row t
    A column-major, or B row-major     ((4,2),4):((8,4),1)      thread t: column t % 4, rows 4 (t / 4) to +3

The letters of a name are BLAS's: TN is A row-major and B column-major.  Accumulators of f16 are rows; of
f32 each thread has 2 x 2 elements of 2 x 2 quadrants.  None of it follows the core-matrix rule.

Source: PTX ISA 9.0, 9.7.14.5.1 (matrix fragments for mma.m8n8k4 with .f16);
CUTLASS, include/cute/atom/mma_traits_sm70.hpp.
"""

from __future__ import annotations

from layoutalg.atoms.atom import MMAAtom
from layoutalg.atoms.rows import type_codes, types_of
from layoutalg.layout import Layout

QUAD_PAIR = Layout((4, 2), (1, 16))
"""Lanes of the first quad pair; the others are 4, 8 and 12 lanes further on."""

_ROWS = Layout((8, 4), (1, 8))
_COLUMNS = Layout(((4, 2), 4), ((8, 4), 1))
_SUMS = {
    "f16": Layout((8, 8), (1, 8)),
    "f32": Layout(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))),
}


def _mma(sums: str, order: str) -> MMAAtom:
    a_order, b_order = ("row" if order[0] == "T" else "col"), ("col" if order[1] == "N" else "row")
    types = f"{sums} f16 f16 {sums}"
    return MMAAtom(
        name=f"SM70_8x8x4_{type_codes(types)}_{order}",
        shape_mnk=(8, 8, 4),
        thr_layout=QUAD_PAIR,
        a_tv=_ROWS if a_order == "row" else _COLUMNS,
        b_tv=_ROWS if b_order == "col" else _COLUMNS,
        c_tv=_SUMS[sums],
        dtypes=types_of(types),
        source="PTX ISA 9.0, 9.7.14.5.1",
        arch="sm_70",
        ptx=f"mma.sync.aligned.m8n8k4.{a_order}.{b_order}.{types.replace(' ', '.')}",
    )


MMA_ATOMS: tuple[MMAAtom, ...] = tuple(
    _mma(sums, order) for sums in ("f16", "f32") for order in ("TN", "NT", "NN", "TT")
)
"""mma.m8n8k4 by type of the sums and order of the operands."""
