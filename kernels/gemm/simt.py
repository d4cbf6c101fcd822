"""gemm_simt: products with fused multiply-adds, without tensor cores.

One program for every configuration; what differs is data.  The lanes of a warp and the warps of a block are
a TiledMMA of single multiply-adds; where a thread's rows lie is its permutation (see tiles):

    threads   rows: (lanes_m, warps_m):(weave, 32)      columns: ((weave, lanes_n / weave), warps_n)
    rows      of a thread: runs of `run`, next to the runs of the other lanes; of a warp: one piece

Copies move vectors along the stored rows.  Where a tile is stored the other way round than its matrix, they
go through registers, a vector load and a store of each element; or by cp.async, an element each: 8 k of 4
rows per warp, whole sectors of global memory.  Rows past the matrix's edge stand for row 0: what is
multiplied there is never stored.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal

from layoutalg.atoms import TiledMMA, make_tiled_copy_A, make_tiled_copy_B, make_tiled_mma
from layoutalg.codegen.expr import Const
from layoutalg.codegen.instr import CLEAR, LDG, LDS, STG, STG_WHOLE, fma_outer
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.dtype import DType
from layoutalg.kernels.gemm.epilogue import Output, statement
from layoutalg.kernels.gemm.mainloop import Mainloop, Operand, OperandPlan, operand_copy
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.rasterize import batch_strides, declare_batch, declare_tile
from layoutalg.kernels.gemm.splitk import declare_part, part_problem
from layoutalg.kernels.gemm.suggest import check_or_suggest
from layoutalg.kernels.gemm.tiles import SimtConfig, half
from layoutalg.kernels.gemm.validate import multiples
from layoutalg.layout import Layout

_FMA = {
    "f32": "UniversalFMA<float,float,float,float>", "f64": "UniversalFMA<double,double,double,double>"
}  # fmt: skip


def tiled_mma(element: DType, c: SimtConfig) -> TiledMMA:
    """The multiply-adds of a block for one k: who multiplies which rows and columns.

    >>> from layoutalg.dtype import dtype
    >>> print(tiled_mma(dtype("f32"), SimtConfig(128, 128, 8, 8, 8, 4)).get_layoutA_TV())
    ((2,4,4,4,2),(1,((4,2),1))):((0,4,0,32,0),(0,((1,16),0)))
    """
    return _tiled_mma(
        element, (c.lanes_m, c.warps_m, c.run_m, c.thread_m), (c.lanes_n, c.warps_n, c.run_n, c.thread_n),
        c.weave,
    )  # fmt: skip


@cache
def _tiled_mma(
    element: DType, m: tuple[int, int, int, int], n: tuple[int, int, int, int], weave: int
) -> TiledMMA:
    lanes_m, warps_m, _, _ = m
    lanes_n, warps_n, _, _ = n
    threads = Layout(
        ((lanes_m, warps_m), ((weave, lanes_n // weave), warps_n), 1),
        ((weave, 32), ((1, weave * lanes_m), 32 * warps_m), 0),
    )
    return make_tiled_mma(_FMA[element.name], threads, (_order(*m), _order(*n)))


def _order(lanes: int, warps: int, run: int, thread: int) -> Layout:
    """(lane, warp, element of a run, run) -> row of the block's tile."""
    shape = lanes, warps, run, thread // run
    return Layout(shape, (run, lanes * thread, 1, lanes * run))


@lru_cache(maxsize=256)
def operand_plan(p: GemmProblem, c: SimtConfig, side: Literal["a", "b"]) -> OperandPlan:
    """How a tile of an operand is copied, stored and read.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(operand_plan(gemm_problem(128, 128, 128, "f32"), SimtConfig(128, 128, 8, 8, 8, 4), "a").layout)
    (128,8):(1,132)
    """
    h, element, mma = half(p, c, side), p.operand, tiled_mma(p.operand, c)
    held = 1 if c.via == "global" else h.fragment
    make = make_tiled_copy_A if side == "a" else make_tiled_copy_B
    nbytes = held * element.nbytes
    return OperandPlan(
        h.rows, h.deep, h.major, element, h.via,
        operand_copy(h.via, element, h.major, h.vector, h.lanes_near, c.threads),
        make(f"UniversalCopy<uint{8 * nbytes}_t>", mma), (LDG if c.via == "global" else LDS)[nbytes],
        h.layout, h.stage_elems, h.vector, 1 if h.turned else h.vector, h.thread // held, nbytes // 4,
    )  # fmt: skip


def build(p: GemmProblem, c: SimtConfig) -> Kernel:
    """The tile program of a configuration, for the problem's sizes and below: what its `contract` says.

    With splits the kernel writes the parts' `sums`, see splitk.  Raises what `check_or_suggest` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 128, 8, 8, 8, 4)).name
    'gemm_simt_f32'
    """
    check_or_suggest(p, c)
    notes = ["", f"{statement(p, parts=c.splits > 1)}."]
    k = KernelBuilder(f"gemm_simt_{p.operand}", c.threads, notes=notes, min_blocks=c.min_blocks)
    m, n, depth = (
        k.param(name, most, of, multiple=of)
        for name, most, of in zip("mnk", (p.m, p.n, p.k), multiples(p, c), strict=True)
    )
    corner, batch = declare_tile(k, m, n, (c.tile_m, c.tile_n), c.panel), declare_batch(k, p)

    def operand(side: Literal["a", "b"]) -> Operand:
        plan, leading = operand_plan(p, c, side), p.lda if side == "a" else p.ldb
        first, extent = (corner[0], m) if side == "a" else (corner[1], n)
        ld = f"ld{side}"
        return Operand(
            k, plan, side, k.constant(ld, leading) if c.static_ld else k.param(
                ld, leading, plan.vector, multiple=plan.vector
            ), first, extent if c.edges else None, stages=c.stages, align_bytes=128,
            batch=batch, steps=batch_strides(k, p, side, plan.vector),
        )  # fmt: skip

    operands = operand("a"), operand("b")
    part = declare_part(k, (depth + (c.tile_k - 1)) // c.tile_k, c.splits)
    stored = p if part.which is None else part_problem(p)
    stores = STG if part.which is None else STG_WHOLE
    output = Output(k, stored, c.result_vec, m, n, part=part.which, batch=batch, stores=stores)
    words = p.operand.nbytes // 4
    ra, rb = (
        k.reg(f"r{name}", c.fragments, x.plan.fragments, x.plan.words)
        for name, x in zip("ab", operands, strict=True)
    )
    acc = k.reg("acc", c.thread_m, c.thread_n * words)
    cleared = min(4, c.thread_n * words)
    with k.Unroll("i", c.thread_m) as i, k.Unroll("j", c.thread_n * words // cleared) as j:
        k.do(CLEAR[4 * cleared], acc.slice(i, j * cleared, count=cleared))
    product = fma_outer(c.thread_m, c.thread_n, p.operand.name)

    def multiply(which: int) -> None:
        k.do(product, acc, ra[which], rb[which])

    # before the loop, whose fragments are at the same rows and columns
    tile = output.tile((Const(0), Const(0)), (c.tile_m, c.tile_n))
    own = k.get_slice(tiled_mma(p.operand, c)).partition_C(tile)
    Mainloop(k, c, operands, (ra, rb), depth, part, multiply, c.spread).write()
    v = c.result_vec
    mine = output.at_corner(own, corner)
    with k.Unroll("i", c.thread_m) as i, k.Unroll("j", c.thread_n // v) as j:
        output.write(acc.slice(i, j * (v * words), count=v * words), mine.coordinate(0, i, j * v))
    return k.build()
