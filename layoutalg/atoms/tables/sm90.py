"""sm_90: wider mma.sync of f64, and stmatrix; wgmma is in layoutalg.atoms.tables.wgmma.

stmatrix is ldmatrix with source and destination exchanged.

Source: PTX ISA 9.0, 9.7.14.5.6 to 9.7.14.5.8 (matrix fragments), 9.7.14.5.16 (stmatrix);
CUTLASS, include/cute/arch/mma_sm90.hpp, copy_sm90.hpp.
"""

from __future__ import annotations

from layoutalg.atoms.atom import CopyAtom
from layoutalg.atoms.rows import MMARow, copy_atom
from layoutalg.atoms.tables.sm75 import matrix_registers, matrix_rows

_SECTIONS = {4: "9.7.14.5.6", 8: "9.7.14.5.7", 16: "9.7.14.5.8"}

MMA_ATOMS: tuple[MMARow, ...] = tuple(
    MMARow("SM90", (16, 8, k), f"{element} {element} {element} {element}", section)
    for element in ("f64", "c128")
    for k, section in _SECTIONS.items()
)
"""f64, and complex f64 in four instructions."""


def _stmatrix(matrices: int, *, transposed: bool) -> CopyAtom:
    name = f"SM90_U16x{2 * matrices}_STSM_T" if transposed else f"SM90_U32x{matrices}_STSM_N"
    trans = ".trans" if transposed else ""
    return copy_atom(
        name,
        matrix_registers(matrices, transposed=transposed),
        matrix_rows(matrices),
        f"stmatrix.sync.aligned.m8n8.x{matrices}{trans}.shared.b16",
        "sm_90",
        "9.7.14.5.16",
        dst_op=f"stmatrix.x{matrices}{trans}",
    )


COPY_ATOMS: tuple[CopyAtom, ...] = tuple(
    _stmatrix(matrices, transposed=t) for t in (False, True) for matrices in (1, 2, 4)
)
"""Matrix stores."""
