"""gemm_simt: D = activation(alpha A B + beta C + bias) with fused multiply-adds, as gemm_simt_plan says.

One program for every configuration; what differs is data:

    via "global"     for each k: read this thread's elements of A and B, multiply
    stages 1         for each tile of k: load to registers, store to shared memory, barrier, multiply, barrier
    stages 2, ...    a ring: while tile t is multiplied, tile t + stages - 1 is on its way; one barrier a tile

In a ring the k past the matrix's edge lies in the first tile, so that the loop itself has no guards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from layoutalg.codegen.expr import Const, Expr, Minus, Var
from layoutalg.codegen.instr import BAR, CLEAR, CP_COMMIT, CP_WAIT, STG, STG_WHOLE, fma_outer
from layoutalg.codegen.program import Kernel, KernelBuilder, Reg
from layoutalg.kernels.gemm.parts import Part, declare_part
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.rasterize import declare_tile
from layoutalg.kernels.gemm.result import Finish, Result, declare_result, statement
from layoutalg.kernels.gemm.simt_plan import SimtConfig, half, multiples, thread_row
from layoutalg.kernels.gemm.simt_side import Side
from layoutalg.kernels.gemm.suggest import checked


def build(p: GemmProblem, c: SimtConfig) -> Kernel:
    """The tile program of a configuration, for the problem's sizes and below: what its `contract` says.

    With splits the kernel writes the parts' `sums`, see gemm_parts.  Raises what `checked` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 128, 8, 8, 8, 4)).name
    'gemm_simt_f32'
    """
    checked(p, c)
    notes = ["", f"{statement(p, parts=c.splits > 1)}."]
    k = KernelBuilder(f"gemm_simt_{p.operand}", c.threads, notes=notes, min_blocks=c.min_blocks)
    m, n, depth = (
        k.param(name, most, of, multiple=of)
        for name, most, of in zip("mnk", (p.m, p.n, p.k), multiples(p, c), strict=True)
    )
    m0, n0 = declare_tile(k, m, n, (c.tile_m, c.tile_n), c.panel)
    own_m, own_n = (k.let(name, at) for name, at in zip(("own_m", "own_n"), c.owner(k.tid), strict=True))
    left = _side(k, p, c, "a", m0, m, own_m)
    right = _side(k, p, c, "b", n0, n, own_n)
    part = declare_part(k, (depth + (c.tile_k - 1)) // c.tile_k, c.splits)
    result = declare_result(k, p, c.result_vec, m, n, part=part.which)
    words = p.operand.nbytes // 4
    ra, rb = k.reg("ra", c.fragments, c.thread_m * words), k.reg("rb", c.fragments, c.thread_n * words)
    acc = k.reg("acc", c.thread_m, c.thread_n * words)
    cleared = min(4, c.thread_n * words)
    with k.Unroll("i", c.thread_m) as i, k.Unroll("j", c.thread_n * words // cleared) as j:
        k.do(CLEAR[4 * cleared], acc.slice(i, j * cleared, count=cleared))
    program = _Program(k, c, p.operand.name, (left, right), (ra, rb), acc, depth, part)
    with part.work(k):
        if c.via == "global":
            program.direct()
        elif c.stages == 1:
            program.single()
        else:
            program.ring()
    _write(k, p, c, result, (m0 + own_m, n0 + own_n), (left, right), acc)
    return k.build()


def _side(
    k: KernelBuilder, p: GemmProblem, c: SimtConfig, name: str, first: Expr, extent: Var, own: Expr
) -> Side:
    """Declare an operand: its pointer, its tiles and what a tile passes through."""
    size = p.operand.nbytes
    major, leading = (p.a_major, p.lda) if name == "a" else (p.b_major, p.ldb)
    h = half(p, c, "a" if name == "a" else "b")
    ld: Expr
    if c.static_ld:
        ld = k.constant(f"ld{name}", leading)
    else:
        ld = k.param(f"ld{name}", leading, h.vector, multiple=h.vector)
    source = k.pointer(name, size, (ld, 1), align_bytes=h.vector * size)
    side = Side(k, c, h, major, source, first, extent, own)
    if h.via == "global":
        return side
    tile = k.shared_buffer(f"tile_{name}", size, h.layout, h.stage_elems * c.stages, 128)
    if h.via == "cp.async":
        return replace(side, tile=tile)
    return replace(side, tile=tile, staged=k.reg(f"staged_{name}", h.passes, h.vector * size // 4))


@dataclass(frozen=True, slots=True)
class _Program:
    k: KernelBuilder
    c: SimtConfig
    element: str
    sides: tuple[Side, Side]
    fragments: tuple[Reg, Reg]
    acc: Reg
    depth: Var
    part: Part

    def direct(self) -> None:
        with self.k.For("kk", self.depth, unroll=4) as kk:
            for side, into in zip(self.sides, self.fragments, strict=True):
                side.read(into, kk)
            self.multiply(0)

    def single(self) -> None:
        """One tile in shared memory, loaded when it is needed or while the one before is multiplied."""
        k, c = self.k, self.c
        trips, (first, second) = self.part.tiles, self.starts()
        bound = second if c.edges else None
        if c.ahead:
            self.load(first, bound)
            self.store(Const(0))
            k.do(BAR)
        with k.For("kt", trips) as kt:
            if c.ahead:
                with k.If(kt + 1 < trips):
                    self.load(second + kt * c.tile_k, None)
            else:
                self.load((self.part.first_tile + kt) * c.tile_k, self.depth if c.edges else None)
                self.store(Const(0))
                k.do(BAR)
            if c.fragments == 2:
                self.fetch(0, Const(0), 0)
            for step in range(c.tile_k):
                now = step % c.fragments
                if c.fragments == 1:
                    self.fetch(0, Const(0), step)
                elif step + 1 < c.tile_k:
                    self.fetch(1 - now, Const(0), step + 1)
                self.multiply(now)
            k.do(BAR)
            if c.ahead:
                with k.If(kt + 1 < trips):
                    self.store(Const(0))
                k.do(BAR)

    def ring(self) -> None:
        """Several tiles in shared memory; the last step of a tile waits for the next one."""
        k, c = self.k, self.c
        trips, (first, second) = self.part.tiles, self.starts()
        bound = second if c.edges else None
        self.load(first, bound)
        if self.copies:
            self.start(first, Const(0), bound)
            k.do(CP_COMMIT)
            for s in range(1, c.stages - 1):
                with k.If(Const(s) < trips):
                    self.start(second + (s - 1) * c.tile_k, Const(s), None)
                k.do(CP_COMMIT)
        self.store(Const(0))
        self.wait()
        if c.fragments == 2:
            self.fetch(0, Const(0), 0)
        with k.For("kt", trips) as kt:
            here, after, last = ((kt + x) % c.stages for x in (0, 1, c.stages - 1))
            for step in range(c.tile_k):
                now, at_end = step % c.fragments, step == c.tile_k - 1
                if c.fragments == 1:
                    self.fetch(0, here, step)
                if at_end:
                    if self.loads:
                        with k.If(kt + 1 < trips):
                            self.store(after)
                    self.wait()
                if c.fragments == 2:
                    self.fetch(1 - now, after if at_end else here, (step + 1) % c.tile_k)
                if step == 0 and self.loads:
                    with k.If(kt + 1 < trips):
                        self.load(second + kt * c.tile_k, None)
                if self.copies and step < self.copy_steps:
                    with k.If(kt + (c.stages - 1) < trips):
                        self.start(second + (kt + (c.stages - 2)) * c.tile_k, last, None, step)
                    if step == self.copy_steps - 1:
                        k.do(CP_COMMIT)
                self.multiply(now)
        if self.copies:
            k.do(CP_WAIT, 0)

    def starts(self) -> tuple[Expr, Expr]:
        """The k at which the first tile starts, and the second.

        The first tile of the whole k is the ragged one: it starts at 0, and `second` is no more than a tile.
        """
        k, tile_k, tile = self.k, self.c.tile_k, self.part.first_tile
        rest = k.let("rest", (self.depth + (tile_k - 1)) % tile_k + 1)
        second = k.let("second", rest + tile * tile_k)
        return Minus(second, Const(tile_k)), second

    @property
    def copies(self) -> bool:
        return any(side.h.via == "cp.async" for side in self.sides)

    @property
    def loads(self) -> bool:
        return any(side.h.via == "registers" for side in self.sides)

    def load(self, base: Expr, bound: Expr | None) -> None:
        for side in self.sides:
            if side.h.via == "registers":
                side.load(base, bound)

    def store(self, stage: Expr) -> None:
        for side in self.sides:
            if side.h.via == "registers":
                side.store(stage)

    @property
    def copy_steps(self) -> int:
        """Steps of k that start copies: copies that come one by one do not hold up the multiplications."""
        return min(self.c.spread, self.c.tile_k - 1)

    def start(self, base: Expr, stage: Expr, bound: Expr | None, step: int | None = None) -> None:
        """Start copying a tile, or a step's share of its passes."""
        copied = [side for side in self.sides if side.h.via == "cp.async"]
        total, first = sum(side.h.passes for side in copied), 0
        low, high = (0, total) if step is None else (total * s // self.copy_steps for s in (step, step + 1))
        for side in copied:
            mine = range(max(low, first), min(high, first + side.h.passes))
            if mine:
                side.start_copy(base, stage, bound, mine.start - first, len(mine))
            first += side.h.passes

    def wait(self) -> None:
        """Wait for this thread's copies of the oldest tile in flight, then for everybody's."""
        if self.copies:
            self.k.do(CP_WAIT, self.c.stages - 2)
        self.k.do(BAR)

    def fetch(self, which: int, stage: Expr, step: int) -> None:
        for side, into in zip(self.sides, self.fragments, strict=True):
            side.fetch(into, which, stage, step)

    def multiply(self, which: int) -> None:
        a, b = self.fragments
        product = fma_outer(self.c.thread_m, self.c.thread_n, self.element)
        self.k.do(product, self.acc, a[which], b[which])


def _write(
    k: KernelBuilder, p: GemmProblem, c: SimtConfig, r: Result, corner: tuple[Expr, Expr],
    sides: tuple[Side, Side], acc: Reg,
) -> None:  # fmt: skip
    """Store the sums, a vector of a row at a time; `corner` is the thread's first row and column."""
    v, words = c.result_vec, c.result_vec * p.operand.nbytes // 4
    finish = Finish(k, p, r, v, STG if r.part is None else STG_WHOLE)
    row0, col0 = k.let("row0", corner[0]), k.let("col0", corner[1])
    with k.Unroll("i", c.thread_m) as i, k.Unroll("j", c.thread_n // v) as j:
        row, column = row0 + thread_row(sides[0].h, i), col0 + thread_row(sides[1].h, j * v)
        finish.write(acc.slice(i, j * words, count=words), row, column)
