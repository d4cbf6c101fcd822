"""The tiles of gemm-sm90 in shared memory, as TMA and wgmma have them, and the MMA that multiplies them."""

from __future__ import annotations

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import atom_layout
from layoutalg.atoms import TiledCopy, TiledMMA, make_tiled_copy, make_tiled_mma
from layoutalg.dtype import DType
from layoutalg.kernels.gemm.groups import BOX_ROWS as ROWS
from layoutalg.kernels.gemm.problem import GemmProblem, Major
from layoutalg.layout import AnyLayout, Layout

ATOM_ROWS, MOST_SIDE = 8, 256
"""The rows of an atom of the 128-byte swizzle, and the most rows of a box."""


def box_rows(rows: int) -> int:
    """Rows of the highest boxes that rows of k are loaded in: whole atoms, as many as a box can have.

    >>> box_rows(256), box_rows(384)
    (256, 192)
    """
    return max(x for x in range(ATOM_ROWS, min(rows, MOST_SIDE) + 1, ATOM_ROWS) if rows % x == 0)


def operand_layout(major: Major, element: DType, rows: int) -> AnyLayout:
    """Return the layout of (row, k) in a stage as TMA writes and wgmma reads it, in the 128-byte swizzle.

    Stored along k it has boxes of `box_rows`; along rows boxes of 128 bytes of rows by as many k; one after
    the other.

    >>> from layoutalg.dtype import dtype
    >>> print(operand_layout("mn", dtype("f16"), 128))
    Sw<3,3,3> o 0 o (((64,1),2),((8,8),1)):(((1,0),4096),((64,512),0))
    """
    atom = atom_layout(f"Layout_{'K' if major == 'k' else 'MN'}_SW128_Atom", element)
    deep = 128 // element.nbytes
    return tile_to_shape(atom if major == "k" else tile_to_shape(atom, (deep, deep)), (rows, deep))


def tiled_mma(p: GemmProblem, columns: int) -> TiledMMA:
    """Return the MMA of a wgmma with 64 rows and `columns` columns."""
    kind, depth = p.operand.name.upper(), 32 // p.operand.nbytes
    source = "RS" if p.by_registers else "SS"
    return make_tiled_mma(
        f"SM90_{ROWS}x{columns}x{depth}_F32{kind}{kind}_{source}{'_TN' if depth != 16 else ''}"
    )


def box_copy(columns: int, element: DType) -> TiledCopy:
    """Return the copy by which 128 threads read a box of results: lanes side by side in rows, 16 bytes each.

    >>> from layoutalg.dtype import dtype
    >>> print(box_copy(64, dtype("bf16")).tiler)
    (16, 64)
    """
    lanes = columns * element.nbytes // 16
    threads = Layout((128 // lanes, lanes), (lanes, 1))
    return make_tiled_copy("UniversalCopy<uint128_t>", element, threads, Layout((1, 16 // element.nbytes)))
