"""The end of a GEMM: D = activation(alpha sums + beta C + bias), written from accumulator fragments.

    "shared"    16 rows of a warp go through shared memory, so that D is written (and C read) in rows of
                `result_vec` elements; a warp waits for nobody but itself
    "direct"    each lane writes its pairs as the mma left them: half a sector at a time

Sums are scaled in f32 (integers modulo 2^32) and rounded once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Const, Expr, Var, as_expr
from layoutalg.codegen.instr_float import ONE_F32, activate, add_scaled, pack, scale, unpack
from layoutalg.codegen.instr_sm75 import BAR, LDG, LDS, MOVE, STG, STS, WARP_SYNC
from layoutalg.codegen.simplify import simplify
from layoutalg.codegen.tile import Global, MemRef, Reg
from layoutalg.int_tuple import product
from layoutalg.kernels.gemm import GemmProblem
from layoutalg.kernels.gemm_sm80_plan import Sm80Config, stage_layout, stage_load_tv, stage_store_tv
from layoutalg.layout import modes


@dataclass(frozen=True, slots=True)
class Result:
    """What the end of a kernel writes: `m0`, `n0` is the corner of the block's tile, `m`, `n` the matrix.

    D starts at `first_row` of its buffer.
    """

    d: Global
    c: Global | None
    bias: Global | None
    alpha: Var
    beta: Var | None
    m0: Expr
    n0: Expr
    m: Var
    n: Var
    first_row: Expr


def write_result(k: KernelBuilder, p: GemmProblem, c: Sm80Config, acc: Reg, r: Result) -> None:
    """Write acc[row fragment][column fragment][words], as the configuration's `epilogue` says.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> from layoutalg.kernels.gemm_sm80 import build
    >>> kernel = build(gemm_problem(64, 64, 32), Sm80Config(64, 64, 32, 2, 2, 2))
    >>> [s.name for s in kernel.shared]
    ['tile_a', 'tile_b', 'stage']
    """
    if c.epilogue == "shared":
        _through_shared(k, p, c, acc, r)
    else:
        _direct(k, p, c, acc, r)


def _through_shared(k: KernelBuilder, p: GemmProblem, c: Sm80Config, acc: Reg, r: Result) -> None:
    lane, warp, vec = k.tid % 32, k.tid // 32, c.result_vec
    layout = stage_layout(c.warp_n, vec)
    elems = 16 * c.warp_n
    stage = k.shared("stage", 4, layout, elems * c.threads // 32, 1024, overlay=True)
    store, load = stage_store_tv(c.warp_n), stage_load_tv(c.warp_n, vec)
    parts, columns, rows = (product(m.shape) for m in modes(load[2]))
    words, part = Words(k, p, vec), min(vec, 4)
    m1 = k.let("m1", r.m0 + warp % c.warps_m * c.warp_m)
    n1 = k.let("n1", r.n0 + warp // c.warps_m * c.warp_n)

    def slot(at: Expr) -> MemRef:
        where = k.at(stage, simplify(at % 16), simplify(at // 16))
        return MemRef(where.buffer, simplify(where.index + warp * Const(4 * elems)))

    k.do(BAR)
    with k.Unroll("i", acc.shape[0]) as i:
        with k.Unroll("j", acc.shape[1]) as j:
            sums, place = words.sums(acc, i, j)
            with k.Unroll("h", 2) as h:
                pair = sums.slice(*place, h * 2, count=2)
                k.do(STS[8], slot(as_expr(store(lane, 0, (h, j)))), pair)
        k.do(WARP_SYNC)
        with k.Unroll("y", rows) as y, k.Unroll("x", columns) as x:
            with k.Unroll("e", parts) as e:
                taken = words.out.slice(e * part, count=part)
                k.do(LDS[4 * part], taken, slot(as_expr(load(lane, 0, (e, x, y)))))
            first = as_expr(load(lane, 0, (0, x, y)))
            row, column = simplify(first % 16), simplify(first // 16)
            words.write(r, m1 + row + i * 16, n1 + column)
        k.do(WARP_SYNC)


def _direct(k: KernelBuilder, p: GemmProblem, c: Sm80Config, acc: Reg, r: Result) -> None:
    lane, warp = k.tid % 32, k.tid // 32
    words = Words(k, p, 2)
    row0 = k.let("row0", r.m0 + warp % c.warps_m * c.warp_m + lane // 4)
    col0 = k.let("col0", r.n0 + warp // c.warps_m * c.warp_n + lane % 4 * 2)
    with k.Unroll("i", acc.shape[0]) as i, k.Unroll("j", acc.shape[1]) as j:
        sums, place = words.sums(acc, i, j)
        with k.Unroll("h", 2) as h:
            with k.Unroll("e", 2) as e:
                k.do(MOVE, words.out[e], sums[(*place, h * 2 + e)])
            words.write(r, row0 + i * 16 + h * 8, col0 + j * 8)


class Words:
    """`vec` results of a row in registers: sums, then what is stored."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, vec: int) -> None:
        self.k, self.p, self.vec = k, p, vec
        self.nbytes = vec * p.result.nbytes
        self.kind = "s32" if p.accumulator.name == "s32" else "f32"
        self.out = k.reg("out", vec)
        self.packed = k.reg("packed", max(1, self.nbytes // 4))
        self.pairs = k.reg("pairs", 4) if p.accumulator.name == "f16" else None

    def sums(self, acc: Reg, i: Expr, j: Expr) -> tuple[Reg, tuple[Expr, ...]]:
        """The four sums of a fragment as 32-bit numbers: a register array and the index they start at."""
        if self.pairs is None:
            return acc, (i, j)
        self.k.do(unpack(4, "f16"), self.pairs, acc[i, j])
        return self.pairs, ()

    def write(self, r: Result, row: Expr, column: Expr) -> None:
        """Finish the sums in `out` and store them at a row and column of D, where it has them."""
        k, vec, name = self.k, self.vec, self.p.result.name
        with k.If((row < r.m) & (column < r.n)):
            k.do(scale(vec, self.kind), self.out, r.alpha)
            if r.c is not None and r.beta is not None:
                k.do(LDG[self.nbytes], self.packed, k.at(r.c, row, column))
                k.do(add_scaled(vec, name), self.out, self.packed, r.beta)
            if r.bias is not None:
                k.do(LDG[self.nbytes], self.packed, k.at(r.bias, column))
                one = 1 if self.kind == "s32" else ONE_F32
                k.do(add_scaled(vec, name), self.out, self.packed, Const(one))
            if self.p.activation != "none":
                k.do(activate(vec, self.p.activation, self.kind), self.out)
            if name in ("f32", "s32"):
                k.do(STG[self.nbytes], k.at(r.d, r.first_row + row, column), self.out)
            else:
                k.do(pack(vec, name), self.packed, self.out)
                k.do(STG[self.nbytes], k.at(r.d, r.first_row + row, column), self.packed)
