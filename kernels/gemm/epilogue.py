"""The end of a GEMM: D = activation(alpha sums + beta C + bias), written from accumulator fragments.

    "shared"    16 rows of a warp go through shared memory, so that D is written (and C read) in rows of
                `result_vec` elements; a warp waits for nobody but itself
    "direct"    each lane writes its pairs as the mma left them: half a sector at a time

What is done to a row's sums, gemm_result says.
"""

from __future__ import annotations

from layoutalg.codegen.expr import Const, Expr, as_expr, simplify
from layoutalg.codegen.instr import BAR, LDS, MOVE, STS, WARP_SYNC, unpack
from layoutalg.codegen.program import KernelBuilder, MemRef, Reg
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.result import Finish, Result
from layoutalg.kernels.gemm.sm80_plan import Sm80Config, stage_layout, stage_load_tv, stage_store_tv
from layoutalg.layout import modes, product


def write_result(
    k: KernelBuilder, p: GemmProblem, c: Sm80Config, acc: Reg, r: Result, corner: tuple[Expr, Expr]
) -> None:
    """Write acc[row fragment][column fragment][words], as the configuration's `epilogue` says.

    `corner` is the row and column of the block's tile.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.sm80 import build
    >>> kernel = build(gemm_problem(64, 64, 32), Sm80Config(64, 64, 32, 2, 2, 2))
    >>> [s.name for s in kernel.shared]
    ['tile_a', 'tile_b', 'stage']
    """
    if c.epilogue == "shared":
        _through_shared(k, p, c, acc, r, corner)
    else:
        _direct(k, p, c, acc, r, corner)


def _through_shared(
    k: KernelBuilder, p: GemmProblem, c: Sm80Config, acc: Reg, r: Result, corner: tuple[Expr, Expr]
) -> None:
    lane, warp, vec = k.tid % 32, k.tid // 32, c.result_vec
    layout = stage_layout(c.warp_n, vec)
    elems = 16 * c.warp_n
    stage = k.shared_buffer("stage", 4, layout, elems * c.threads // 32, 1024, overlay=True)
    store, load = stage_store_tv(c.warp_n), stage_load_tv(c.warp_n, vec)
    parts, columns, rows = (product(m.shape) for m in modes(load[2]))
    sums, finish, part = _Sums(k, p, vec), Finish(k, p, r, vec), min(vec, 4)
    m1 = k.let("m1", corner[0] + warp % c.warps_m * c.warp_m)
    n1 = k.let("n1", corner[1] + warp // c.warps_m * c.warp_n)

    def slot(at: Expr) -> MemRef:
        where = k.at(stage, simplify(at % 16), simplify(at // 16))
        return MemRef(where.buffer, simplify(where.index + warp * Const(4 * elems)))

    k.do(BAR)
    with k.Unroll("i", acc.shape[0]) as i:
        with k.Unroll("j", acc.shape[1]) as j:
            four, place = sums.of(acc, i, j)
            with k.Unroll("h", 2) as h:
                pair = four.slice(*place, h * 2, count=2)
                k.do(STS[8], slot(as_expr(store(lane, 0, (h, j)))), pair)
        k.do(WARP_SYNC)
        with k.Unroll("y", rows) as y, k.Unroll("x", columns) as x:
            with k.Unroll("e", parts) as e:
                taken = sums.out.slice(e * part, count=part)
                k.do(LDS[4 * part], taken, slot(as_expr(load(lane, 0, (e, x, y)))))
            first = as_expr(load(lane, 0, (0, x, y)))
            row, column = simplify(first % 16), simplify(first // 16)
            finish.write(sums.out, m1 + row + i * 16, n1 + column)
        k.do(WARP_SYNC)


def _direct(
    k: KernelBuilder, p: GemmProblem, c: Sm80Config, acc: Reg, r: Result, corner: tuple[Expr, Expr]
) -> None:
    lane, warp = k.tid % 32, k.tid // 32
    sums, finish = _Sums(k, p, 2), Finish(k, p, r, 2)
    row0 = k.let("row0", corner[0] + warp % c.warps_m * c.warp_m + lane // 4)
    col0 = k.let("col0", corner[1] + warp // c.warps_m * c.warp_n + lane % 4 * 2)
    with k.Unroll("i", acc.shape[0]) as i, k.Unroll("j", acc.shape[1]) as j:
        four, place = sums.of(acc, i, j)
        with k.Unroll("h", 2) as h:
            with k.Unroll("e", 2) as e:
                k.do(MOVE, sums.out[e], four[(*place, h * 2 + e)])
            finish.write(sums.out, row0 + i * 16 + h * 8, col0 + j * 8)


class _Sums:
    """The sums of fragments as 32-bit numbers, and registers `out` for `vec` of them that lie in a row."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, vec: int) -> None:
        self.k = k
        self.out = k.reg("out", vec)
        self.pairs = k.reg("pairs", 4) if p.accumulator.name == "f16" else None

    def of(self, acc: Reg, i: Expr, j: Expr) -> tuple[Reg, tuple[Expr, ...]]:
        """The four sums of a fragment: a register array and the index they start at."""
        if self.pairs is None:
            return acc, (i, j)
        self.k.do(unpack(4, "f16"), self.pairs, acc[i, j])
        return self.pairs, ()
