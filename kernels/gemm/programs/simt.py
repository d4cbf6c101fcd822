"""gemm_simt: products with fused multiply-adds, without tensor cores.

One program for every configuration; what differs is data.  The lanes of a warp and the warps of a block are
a TiledMMA of single multiply-adds; where a thread's rows lie is its permutation (see tiles):

    threads   rows: (lanes_m, warps_m):(2, 32)      columns: ((2, lanes_n / 2), warps_n)
    rows      of a thread: runs of `run`, next to the runs of the other lanes; of a warp: one piece

Copies move vectors along the stored rows.  Where a tile is stored the other way round than its matrix, they
go through registers, a vector load and a store of each element; or by cp.async, an element each: 8 k of 4
rows per warp, whole sectors of global memory.  Rows past the matrix's edge stand for row 0: what is
multiplied there is never stored.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial

from layoutalg.atoms import TiledMMA, make_tiled_copy_A, make_tiled_copy_B, make_tiled_mma
from layoutalg.codegen.expr import Const
from layoutalg.codegen.instr import CLEAR, LDS, STG, STG_WHOLE, fma_outer
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.dtype import DType
from layoutalg.kernels.gemm.choice import check_or_suggest
from layoutalg.kernels.gemm.epilogue import Output, statement
from layoutalg.kernels.gemm.problem import GemmProblem, stored_problem
from layoutalg.kernels.gemm.programs.mainloop import Mainloop, OperandPlan, operand_copy
from layoutalg.kernels.gemm.tiles import Side, SimtConfig, operand_tile
from layoutalg.layout import Layout

_FMA = {
    "f32": "UniversalFMA<float,float,float,float>", "f64": "UniversalFMA<double,double,double,double>"
}  # fmt: skip

WEAVE = 2
"""The lanes along n that come first in a warp, before those along m and the others along n."""


def tiled_mma(element: DType, c: SimtConfig) -> TiledMMA:
    """The multiply-adds of a block for one k: who multiplies which rows and columns.

    >>> from layoutalg.dtype import dtype
    >>> print(tiled_mma(dtype("f32"), SimtConfig(128, 128, 8, 8, 8, 4)).get_layoutA_TV())
    ((2,4,4,4,2),(1,((4,2),1))):((0,4,0,32,0),(0,((1,16),0)))
    """
    return _tiled_mma(
        element, (c.lanes_m, c.warps_m, c.run_m, c.thread_m),
        (c.lanes_n, c.warps_n, 16 // element.nbytes, c.thread_n),
    )  # fmt: skip


@cache
def _tiled_mma(element: DType, m: tuple[int, int, int, int], n: tuple[int, int, int, int]) -> TiledMMA:
    lanes_m, warps_m, _, _ = m
    lanes_n, warps_n, _, _ = n
    threads = Layout(
        ((lanes_m, warps_m), ((WEAVE, lanes_n // WEAVE), warps_n), 1),
        ((WEAVE, 32), ((1, WEAVE * lanes_m), 32 * warps_m), 0),
    )
    return make_tiled_mma(_FMA[element.name], threads, (_order(*m), _order(*n)))


def _order(lanes: int, warps: int, run: int, thread: int) -> Layout:
    """(lane, warp, element of a run, run) -> row of the block's tile."""
    shape = lanes, warps, run, thread // run
    return Layout(shape, (run, lanes * thread, 1, lanes * run))


@lru_cache(maxsize=256)
def operand_plan(p: GemmProblem, c: SimtConfig, side: Side) -> OperandPlan:
    """Return the copy, the storage and the reads of a tile of an operand.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(operand_plan(gemm_problem(128, 128, 128, "f32"), SimtConfig(128, 128, 8, 8, 8, 4), "a").layout)
    (128,8):(1,132)
    """
    tile, mma = operand_tile(p, c, side), tiled_mma(p.operand, c)
    make = make_tiled_copy_A if side == "a" else make_tiled_copy_B
    nbytes = 4 * tile.words
    read = make(f"UniversalCopy<uint{8 * nbytes}_t>", mma)
    return OperandPlan(tile, operand_copy(tile), read, LDS[nbytes], tile.layout)


def build(p: GemmProblem, c: SimtConfig) -> Kernel:
    """The tile program of a configuration, for the problem's sizes and below: what its `contract` says.

    With splits the kernel writes the parts' `sums`, see parts.  Raises what `check_or_suggest` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 128, 8, 8, 8, 4)).name
    'gemm_simt_f32'
    """
    check_or_suggest(p, c)
    notes = ["", f"{statement(p, parts=c.splits > 1)}."]
    k = KernelBuilder(f"gemm_simt_{p.operand}", c.threads, notes=notes, min_blocks=c.min_blocks)
    loop = Mainloop(k, p, c, partial(operand_plan, p, c), inward=False, align_bytes=128)
    part, (ra, rb) = loop.part.which, loop.fragments
    output = Output(
        k, stored_problem(p, c.splits), c.result_vec, loop.m, loop.n, part=part, batch=loop.batch,
        stores=STG if part is None else STG_WHOLE,
    )  # fmt: skip
    words = p.operand.nbytes // 4
    acc = k.reg("acc", c.thread_m, c.thread_n * words)
    cleared = min(4, c.thread_n * words)
    with k.Unroll("i", c.thread_m) as i, k.Unroll("j", c.thread_n * words // cleared) as j:
        k.do(CLEAR[4 * cleared], acc.slice(i, j * cleared, count=cleared))
    product = fma_outer(c.thread_m, c.thread_n, p.operand.name)
    # before the loop, whose fragments are at the same rows and columns
    tile = output.tile((Const(0), Const(0)), (c.tile_m, c.tile_n))
    own = k.get_slice(tiled_mma(p.operand, c)).partition_C(tile)
    loop.write(lambda which: k.do(product, acc, ra[which], rb[which]))
    v = c.result_vec
    mine = output.at_corner(own, loop.corner)
    with k.Unroll("i", c.thread_m) as i, k.Unroll("j", c.thread_n // v) as j:
        output.write(acc.slice(i, j * (v * words), count=v * words), mine.coordinate(0, i, j * v))
    return k.build()
