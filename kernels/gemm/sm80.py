"""gemm_sm80: D = activation(alpha A B + beta C + bias) with mma.sync, as gemm_sm80_plan says.

The program, for `stages` = S tiles in flight by cp.async:

    copy tiles 0 .. S-2, one group each; wait for tile 0; load its first fragments
    for each tile of k:
        for each step of it:
            load the fragments of the step after this one (with one set of fragments: of this one)
            at the first step: start the copy of tile + S - 1 into the place that was read last
            at the last step, when the tile is read: wait for the next one, barrier
            multiply
    write D, see gemm_epilogue

Tiles at the edges are moved inward, and the ragged tile of k comes first: see gemm_sm80_side.

Without cp.async tiles go through registers, into one buffer (two barriers a tile) or two (one barrier).
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.codegen.expr import Const, Expr, Operand, Var
from layoutalg.codegen.instr import BAR, CLEAR, CP_COMMIT, CP_WAIT, MMA_SYNC, Mma
from layoutalg.codegen.program import Kernel, KernelBuilder, Reg
from layoutalg.kernels.gemm.epilogue import write_result
from layoutalg.kernels.gemm.parts import Part, declare_part
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.rasterize import declare_tile
from layoutalg.kernels.gemm.result import declare_result, statement
from layoutalg.kernels.gemm.sm80_plan import Sm80Config, mma_of, stored, tile_layout
from layoutalg.kernels.gemm.sm80_side import Side, least_extent, tile_order, tile_start
from layoutalg.kernels.gemm.suggest import checked


def build(p: GemmProblem, c: Sm80Config) -> Kernel:
    """The tile program of a configuration, for the problem's sizes and below: whole tiles; with `edges` sizes
    down to a tile, or to 1 where the problem itself has fewer rows or columns.  Its `contract` says which.

    `alpha` and `beta` are passed as the 32-bit words of floats (integers for integer products).  With splits
    the kernel writes the parts' `sums`, see gemm_parts.  Raises what `checked` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4)).name
    'gemm_sm80_f16'
    """
    checked(p, c)
    _, c = stored(p, c)
    size, mma = p.operand.nbytes, mma_of(p, c)
    k = KernelBuilder(f"gemm_sm80_{p.operand}", c.threads, notes=_notes(p, c), min_blocks=c.min_blocks)
    a_vec, b_vec, d_vec = c.a_bytes // size, c.b_bytes // size, c.result_vec

    def leading(name: str, value: int, vec: int) -> Expr:
        return k.constant(name, value) if c.static_ld else k.param(name, value, vec, multiple=vec)

    by_k = tuple(v for v, major in ((a_vec, p.a_major), (b_vec, p.b_major)) if major == "k")
    steps = {
        "m": a_vec if p.a_major == "mn" else 1,
        "n": max(d_vec, b_vec if p.b_major == "mn" else 1),
        "k": max(by_k, default=1),
    }
    if not c.edges:
        steps = {"m": c.tile_m, "n": c.tile_n, "k": c.tile_k}
    least = {
        "m": least_extent(p.m, c.tile_m, edges=c.edges), "n": least_extent(p.n, c.tile_n, edges=c.edges),
        "k": 1,
    }  # fmt: skip
    m, n, depth = (k.param(x, getattr(p, x), max(least[x], of), multiple=of) for x, of in steps.items())
    a = k.pointer("a", size, (leading("lda", p.lda, a_vec), 1), align_bytes=c.a_bytes)
    b = k.pointer("b", size, (leading("ldb", p.ldb, b_vec), 1), align_bytes=c.b_bytes)

    m0, n0 = declare_tile(k, m, n, (c.tile_m, c.tile_n), c.panel)
    row = tile_start(k, "a_row", m0, c.tile_m, m, edges=c.edges)
    column = tile_start(k, "b_row", n0, c.tile_n, n, edges=c.edges)
    warp = k.tid // 32
    part = declare_part(k, (depth + (c.tile_k - 1)) // c.tile_k, c.splits)
    result = declare_result(
        k, p, d_vec, m, n, first=(m0, n0) if c.edges else None, part=part.which, static=c.static_ld
    )

    def side(name: str, *, paired: bool) -> Side:
        rows = c.tile_n if paired else c.tile_m
        nbytes = c.b_bytes if paired else c.a_bytes
        layout = tile_layout(p, c, "b" if paired else "a")
        tile = k.shared_buffer(f"tile_{name}", size, layout, rows * c.tile_k * c.stages, 1024)
        staged = None
        if c.via == "registers":
            staged = k.reg(
                f"staged_{name}", rows * c.tile_k * size // (nbytes * c.threads), max(1, nbytes // 4)
            )
        major, first, extent = (p.b_major, column, n) if paired else (p.a_major, row, m)
        which, own = (warp // c.warps_m, c.warp_n) if paired else (warp % c.warps_m, c.warp_m)
        matrix = b if paired else a
        return Side(
            k, c, matrix, tile, major, rows, nbytes, first, extent, depth, which, own, paired, staged,
        )  # fmt: skip

    left, right = side("a", paired=False), side("b", paired=True)
    ra = k.reg("ra", c.fragments, c.warp_m // 16, 4)
    rb = k.reg("rb", c.fragments, c.warp_n // 16, 4)
    acc = k.reg("acc", c.warp_m // 16, c.warp_n // 8, mma.words[2])
    program = _Program(k, c, mma, left, right, ra, rb, acc, depth, part)
    with k.Unroll("i", acc.shape[0]) as i, k.Unroll("j", acc.shape[1]) as j:
        k.do(CLEAR[4 * mma.words[2]], acc[i, j])
    with part.work(k):
        if c.via == "cp.async":
            program.by_async_copies()
        else:
            program.through_registers()
    write_result(k, p, c, acc, result, (row, column))
    return k.build()


@dataclass(frozen=True, slots=True)
class _Program:
    """What the main loops share."""

    k: KernelBuilder
    c: Sm80Config
    mma: Mma
    left: Side
    right: Side
    ra: Reg
    rb: Reg
    acc: Reg
    depth: Var
    part: Part

    @property
    def steps(self) -> int:
        """Steps of 32 bytes of k in a tile."""
        return self.c.tile_k * self.left.size // 32

    def by_async_copies(self) -> None:
        """The main loop over a ring of tiles that cp.async fills."""
        k, c, stages, tiles = self.k, self.c, self.c.stages, self.part.tiles
        opening, second = tile_order(k, self.depth, c.tile_k, self.part, edges=c.edges)
        self.start_copies(opening, Const(0), ragged=c.edges)
        k.do(CP_COMMIT)
        for s in range(1, stages - 1):
            with k.If(Const(s) < tiles):
                self.start_copies(second + (s - 1), Const(s))
            k.do(CP_COMMIT)
        k.do(CP_WAIT, stages - 2)
        k.do(BAR)
        if self.c.fragments == 2:
            self.fragments(0, Const(0), 0)
        with k.For("kt", tiles) as kt:
            here, after, before = ((kt + x) % stages for x in (0, 1, stages - 1))
            for step in range(self.steps):
                last = step == self.steps - 1
                if c.fragments == 1:
                    self.fragments(0, here, step)
                elif not last:
                    self.fragments((step + 1) % 2, here, step + 1)
                if step == 0:
                    with k.If(kt + (stages - 1) < tiles):
                        self.start_copies(second + kt + (stages - 2), before)
                    k.do(CP_COMMIT)
                if last:
                    k.do(CP_WAIT, stages - 2)
                    k.do(BAR)
                    if c.fragments == 2:
                        self.fragments((step + 1) % 2, after, 0)
                self.multiply(step % c.fragments)
        k.do(CP_WAIT, 0)

    def through_registers(self) -> None:
        """The main loop over one tile or two that go through registers."""
        k, c, two, tiles = self.k, self.c, self.c.stages == 2, self.part.tiles
        opening, second = tile_order(k, self.depth, c.tile_k, self.part, edges=c.edges and c.ahead)
        if c.ahead:
            self.loads(opening, ragged=c.edges)
            self.stores(Const(0))
            k.do(BAR)
        with k.For("kt", tiles) as kt:
            here, after = (kt % 2, (kt + 1) % 2) if two else (Const(0), Const(0))
            if self.c.ahead:
                with k.If(kt + 1 < tiles):
                    self.loads(second + kt)
            else:
                self.loads(opening + kt, ragged=c.edges)
                self.stores(here)
                k.do(BAR)
            if self.c.fragments == 2:
                self.fragments(0, here, 0)
            for step in range(self.steps):
                if self.c.fragments == 1:
                    self.fragments(0, here, step)
                elif step + 1 < self.steps:
                    self.fragments((step + 1) % 2, here, step + 1)
                self.multiply(step % self.c.fragments)
            if self.c.ahead:
                if not two:
                    k.do(BAR)
                with k.If(kt + 1 < tiles):
                    self.stores(after)
            k.do(BAR)

    def start_copies(self, tile: Expr, stage: Operand, *, ragged: bool = False) -> None:
        """Start the copy of both operands' tile of k."""
        self.left.start_copy(tile, stage, ragged=ragged)
        self.right.start_copy(tile, stage, ragged=ragged)

    def loads(self, tile: Expr, *, ragged: bool = False) -> None:
        """Load both operands' tile of k into registers."""
        for side in (self.left, self.right):
            if side.staged is not None:
                side.load(tile, side.staged, ragged=ragged)

    def stores(self, stage: Operand) -> None:
        """Store both loaded tiles into shared memory."""
        for side in (self.left, self.right):
            if side.staged is not None:
                side.store(stage, side.staged)

    def fragments(self, which: int, stage: Operand, step: int) -> None:
        """Load both operands' fragments of a step."""
        self.left.fragments(self.ra, which, stage, step)
        self.right.fragments(self.rb, which, stage, step)

    def multiply(self, which: int) -> None:
        """Multiply the fragments of a step: one mma of its whole k, or two of half of it."""
        k, (a_words, b_words, _) = self.k, self.mma.words
        for half in range(2 // self.mma.cores):
            with k.Unroll("i", self.acc.shape[0]) as i, k.Unroll("j", self.acc.shape[1]) as j:
                a = self.ra.slice(which, i, half * a_words, count=a_words)
                b = self.rb.slice(which, j // 2, j % 2 * 2 + half * b_words, count=b_words)
                k.do(MMA_SYNC[self.mma], self.acc[i, j], a, b)


def _notes(p: GemmProblem, c: Sm80Config) -> list[str]:
    mma = mma_of(p, c)
    return [
        "",
        f"{statement(p, parts=c.splits > 1)}.",
        f"A block of {c.warps_m} x {c.warps_n} warps makes {c.tile_m} x {c.tile_n} of D, a warp "
        f"{c.warp_m} x {c.warp_n}, by {mma.ptx};",
        f"k goes by {c.tile_k} through {c.stages} tiles in shared memory.",
        f"Element (row, k) of a tile of A lies at {tile_layout(p, c, 'a')},",
        f"of B at {tile_layout(p, c, 'b')}.",
    ]
