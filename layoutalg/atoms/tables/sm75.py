"""sm_75: the first mma.sync of a whole warp, and the matrix loads that feed it.

ldmatrix reads 8 x 8 matrices of 16-bit elements.  Lane 8 i + r gives the address of row r of matrix i (of
as many matrices as there are; other lanes repeat the addresses, stride 0), and every lane receives one
register of each matrix: the core matrix, or with .trans its transpose.  In bits, lanes of the transpose hold
16 bits of rows 2 l and 2 l + 1, 256 bits apart.

movmatrix.trans transposes one matrix that is in registers already.

Source: PTX ISA 9.0, 9.7.14.5.3 (mma.m8n8k16), 9.7.14.5.7 (mma.m16n8k8), 9.7.14.5.15 (ldmatrix),
9.7.14.5.17 (movmatrix); CUTLASS, include/cute/atom/mma_traits_sm75.hpp, copy_traits_sm75.hpp.
"""

from __future__ import annotations

from layoutalg.atoms.atom import CopyAtom
from layoutalg.atoms.rows import MMARow, copy_atom
from layoutalg.layout import Layout

MMA_ATOMS: tuple[MMARow, ...] = (
    MMARow("SM75", (16, 8, 8), "f32 f16 f16 f32", "9.7.14.5.7"),
    MMARow("SM75", (16, 8, 8), "f16 f16 f16 f16", "9.7.14.5.7"),
    MMARow("SM75", (8, 8, 16), "s32 s8 s8 s32", "9.7.14.5.3"),
)
"""Half precision and bytes."""

_ROW_BITS, _MATRIX_BITS = 128, 1024


def matrix_rows(matrices: int) -> Layout:
    """(lane, bit) of the rows of `matrices` 8 x 8 matrices, 1, 2 or 4: a row a lane.

    >>> print(matrix_rows(2), matrix_rows(4))
    ((16,2),128):((128,0),1) (32,128):(128,1)
    """
    lanes = 8 * matrices
    if lanes == 32:
        return Layout((32, _ROW_BITS), (_ROW_BITS, 1))
    return Layout(((lanes, 32 // lanes), _ROW_BITS), ((_ROW_BITS, 0), 1))


def matrix_registers(matrices: int, *, transposed: bool) -> Layout:
    """(lane, bit) of one register a matrix: 32 bits of a row, or 16 bits of each of two rows.

    >>> print(matrix_registers(2, transposed=False), matrix_registers(1, transposed=True))
    (32,(32,2)):(32,(1,1024)) ((4,8),(16,2)):((256,16),(1,128))
    """
    if transposed:
        lanes, steps, part = (4, 8), (2 * _ROW_BITS, 16), ((16, 1), (2, _ROW_BITS))
        values = (*part, (matrices, _MATRIX_BITS)) if matrices > 1 else part
        return Layout((lanes, tuple(s for s, _ in values)), (steps, tuple(d for _, d in values)))
    if matrices == 1:
        return Layout((32, 32), (32, 1))
    return Layout((32, (32, matrices)), (32, (1, _MATRIX_BITS)))


def _ldmatrix(matrices: int, *, transposed: bool) -> CopyAtom:
    name = f"SM75_U16x{2 * matrices}_LDSM_T" if transposed else f"SM75_U32x{matrices}_LDSM_N"
    trans = ".trans" if transposed else ""
    return copy_atom(
        name,
        matrix_rows(matrices),
        matrix_registers(matrices, transposed=transposed),
        f"ldmatrix.sync.aligned.m8n8.x{matrices}{trans}.shared.b16",
        "sm_75",
        "9.7.14.5.15",
        reference="dst",
        src_op=f"ldmatrix.x{matrices}{trans}",
    )


COPY_ATOMS: tuple[CopyAtom, ...] = (
    *(_ldmatrix(matrices, transposed=t) for t in (False, True) for matrices in (1, 2, 4)),
    copy_atom(
        "SM75_U32x1_MOVM_T",
        matrix_registers(1, transposed=False),
        matrix_registers(1, transposed=True),
        "movmatrix.sync.aligned.m8n8.trans.b16",
        "sm_75",
        "9.7.14.5.17",
        reference="dst",
    ),
)
"""Matrix loads, and the transpose in registers.  CuTe's traits of the latter state the identity."""
