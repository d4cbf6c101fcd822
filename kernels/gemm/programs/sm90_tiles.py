"""The tiles of gemm-sm90 in shared memory, as TMA and wgmma have them, and the MMA that multiplies them."""

from __future__ import annotations

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import atom_layout
from layoutalg.atoms import TiledCopy, TiledMMA, make_tiled_copy, make_tiled_mma
from layoutalg.codegen.expr import Const, Expr, Var
from layoutalg.codegen.language import KernelBuilder, local_tile
from layoutalg.codegen.program import BarrierRef
from layoutalg.dtype import DType
from layoutalg.kernels.gemm.groups import BOX_ROWS as ROWS
from layoutalg.kernels.gemm.problem import GemmProblem, Major
from layoutalg.kernels.gemm.tiles import Sm90Config
from layoutalg.layout import AnyLayout, Layout

L2_PROMOTION_BYTES = 128
"""The bytes that the L2 fetches at least on a miss of an operand."""

TMA_BYTES = 16
"""The alignment of rows in global memory."""

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


def tiled_mma(p: GemmProblem, columns: int, *, crossed: bool = False) -> TiledMMA:
    """Return the MMA of a wgmma with 64 rows and `columns` columns, whose A is B where it is `crossed`."""
    kinds, depth = "".join(p.elements[::-1] if crossed else p.elements).upper(), 32 // p.operand.nbytes
    source = "RS" if p.by_registers else "SS"
    sums, order = p.accumulator.name.upper(), "_TN" if depth != 16 else ""
    return make_tiled_mma(f"SM90_{ROWS}x{columns}x{depth}_{sums}{kinds}_{source}{order}")


def box_copy(columns: int, element: DType) -> TiledCopy:
    """Return the copy by which 128 threads read a box of results: lanes side by side in rows, 16 bytes each.

    >>> from layoutalg.dtype import dtype
    >>> print(box_copy(64, dtype("bf16")).tiler)
    (16, 64)
    """
    lanes = columns * element.nbytes // 16
    threads = Layout((128 // lanes, lanes), (lanes, 1))
    return make_tiled_copy("UniversalCopy<uint128_t>", element, threads, Layout((1, 16 // element.nbytes)))


class OperandRing:
    """A, or B with its columns as rows: its tensor map, its ring in shared memory, how a tile is loaded.

    The map has a dimension for each mode of the batch that steps: one that all products share has none,
    since a map has no stride of 0.
    """

    def __init__(
        self, k: KernelBuilder, p: GemmProblem, c: Sm90Config, name: str, extents: tuple[Expr, Expr],
        batch: tuple[Var, ...],
    ) -> None:  # fmt: skip
        major, lead = (p.a_major, p.lda) if name == "a" else (p.b_major, p.ldb)
        first = (name == "a") != c.crossed
        rows, self.sharing = (c.tile_m, c.cluster_n) if first else (c.tile_n, c.cluster_m)
        element = p.operands[name == "b"]
        multiple = TMA_BYTES // element.nbytes
        ld = k.param(f"ld{name}", lead, multiple, multiple)
        strides = (ld, 1) if major == "k" else (1, ld)
        steps = {
            i: k.param(f"stride_{name}{i}", step, multiple, multiple)
            for i, step in enumerate(p.steps(name))
            if step
        }
        self.modes, own = tuple(steps), tuple(batch[i] for i in steps)
        high = box_rows(rows // self.sharing) if major == "k" else c.tile_k
        self.k, self.box = k, (high, c.tile_k, *(1,) * len(own))
        self.source = k.tensor(name, element, (*extents, *own), (*strides, *steps.values()))
        self.map = k.tensor_map(
            f"load_{name}", self.source, self.box, mode="128B", l2_promotion_bytes=L2_PROMOTION_BYTES
        )
        layout = operand_layout(major, element, rows)
        self.ring = k.shared(f"tile_{name}", element, layout, stages=c.stages)
        self.boxes, self.nbytes = rows // self.box[0], rows * c.tile_k * element.nbytes

    def load(
        self, tile: Expr, step: Expr, stage: Expr, full: BarrierRef, batch: tuple[Expr, ...] = (),
        row: Expr | None = None,
    ) -> None:  # fmt: skip
        """Start the copies of a tile of rows, from `row` on, and a step of k, of the product at `batch`, into
        a stage: the block's share of them."""
        k, own = self.k, self.boxes // self.sharing
        first = k.rank * own if self.sharing > 1 else Const(0)
        blocks = (1 << self.sharing) - 1 if self.sharing > 1 else None
        product = tuple(batch[i] for i in self.modes)
        for i in range(own):
            there = local_tile(self.ring[None, None, stage], self.box[:2], (first + i, 0))
            here = local_tile(self.source, self.box, (tile * self.boxes + first + i, step, *product))
            if row is not None:
                here = here.moved(row, *(Const(0),) * (len(self.box) - 1))
            k.tma_load(self.map, here, there, full, blocks=blocks)
