"""gemm_sm90 as it is before blocks compute tile after tile: one tile each, for the steps of its ladder.

    "threads"   all threads copy a step of k through registers, 16 bytes at a time, and multiply it
    "tma"       one thread starts the copies of a step, `stages` - 1 steps ahead; all wait, and multiply
    "roles"     a warpgroup of its own copies, others multiply, one group of wgmma in flight (see pipeline)

Results leave the registers in the pairs that a wgmma left in each lane.  Operands are stored along k.
"""

from __future__ import annotations

from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.expr import Const, Expr, Operand, as_expr
from layoutalg.codegen.instr import BAR, WGMMA_COMMIT, WGMMA_FENCE, WGMMA_WAIT
from layoutalg.codegen.language import KernelBuilder, Tensor, TmaRing, local_tile, pipeline
from layoutalg.codegen.program import BarrierRef, Kernel
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm.epilogue import Output
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.programs.sm90 import operand_layout, tiled_mma
from layoutalg.kernels.gemm.rasterize import declare_tile
from layoutalg.kernels.gemm.tiles import ROLE_REGISTERS, Sm90Config
from layoutalg.layout import Layout

PAIR = 2
"""The number of results that a lane has side by side."""


def build_first(p: GemmProblem, c: Sm90Config) -> Kernel:
    """The tile program of a step before "persistent".  Raises UnsupportedError for operands along m or n.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.ladder import LADDERS
    >>> build_first(gemm_problem(256, 256, 128, "bf16"), LADDERS["gemm-sm90"]["1 wgmma"]).threads
    128
    """
    if "mn" in (p.a_major, p.b_major):
        raise UnsupportedError("the first steps of gemm-sm90 take operands that are stored along k")
    return _First(p, c).write()


class _First:
    """The parts of the program, and their common state."""

    def __init__(self, p: GemmProblem, c: Sm90Config) -> None:
        roles = c.loop == "roles"
        self.k = k = KernelBuilder(f"gemm_sm90_{p.operand}", 128 * (c.consumers + roles))
        self.p, self.c = p, c
        m, n, depth = k.param("m", p.m), k.param("n", p.n, PAIR, PAIR), k.param("k", p.k, 8, 8)
        self.corner = declare_tile(k, m, n, (c.tile_m, c.tile_n), c.panel)
        self.steps = k.let("steps", (depth + (c.tile_k - 1)) // c.tile_k)
        self.sources, self.rings = [], []
        for name, extent, lead, rows in (("a", m, p.lda, c.tile_m), ("b", n, p.ldb, c.tile_n)):
            ld = k.param(f"ld{name}", lead, 8, 8)
            self.sources.append(k.tensor(name, p.operand, (extent, depth), (ld, 1)))
            layout = operand_layout("k", p.operand, rows)
            self.rings.append(k.shared(f"tile_{name}", p.operand, layout, stages=c.stages))
        self.boxes = [(c.tile_m, c.tile_k), (c.tile_n, c.tile_k)]
        self.nbytes = sum(rows * deep for rows, deep in self.boxes) * p.operand.nbytes
        self.output = Output(k, p, PAIR, m, n)
        self.mma = tiled_mma(p, c.tile_n)
        self.acc = k.get_slice(self.mma, 0).fragment_C("acc", (c.consumer_m, c.tile_n))
        if c.loop != "threads":
            self.maps = [
                k.tensor_map(f"load_{x.buffer.name}", x, box, mode="128B")
                for x, box in zip(self.sources, self.boxes, strict=True)
            ]

    def write(self) -> Kernel:
        """The whole program."""
        k, c = self.k, self.c
        if c.loop == "roles":
            ring = TmaRing(self.nbytes, 4 * c.consumers, registers=ROLE_REGISTERS[c.consumers], lag=1)
            pipeline(
                k, self.steps, c.stages, self._fill, self._multiply_late, tma=ring, end=self._leave_behind
            )
            return k.build()
        if c.loop == "threads":
            with k.For("kt", self.steps) as kt:
                self._copy(kt)
                k.fence_async()
                k.do(BAR)
                self._multiply(kt, Const(0))
                k.do(BAR)
        else:
            self._by_one_thread()
        self._leave()
        return k.build()

    def _by_one_thread(self) -> None:
        k, stages = self.k, self.c.stages
        full = k.mbarrier("full", 1, stages)
        k.init(full)

        def start(step: Operand) -> None:
            stage = as_expr(step) % stages
            k.expect(full[stage], self.nbytes)
            self._fill(as_expr(step), stage, full[stage])

        with k.If(k.thread.eq(0)):
            for s in range(stages - 1):
                with k.If(Const(s) < self.steps):
                    start(s)
        with k.For("kt", self.steps) as kt:
            with k.If(k.thread.eq(0) & (kt + (stages - 1) < self.steps)):
                start(kt + (stages - 1))
            k.wait(full[kt % stages], kt // stages % 2)
            self._multiply(kt, kt % stages)
            k.do(BAR)

    def _tile(self, i: int, stage: Expr) -> Tensor:
        """A stage of A or B."""
        return self.rings[i] if self.c.stages == 1 else self.rings[i][None, None, stage]

    def _place(self, i: int, step: Expr) -> Tensor:
        """A step of the block's rows of A, or columns of B."""
        rows, _ = self.boxes[i]
        return local_tile(self.sources[i], self.boxes[i], (self.corner[i] // rows, step))

    def _fill(self, step: Expr, stage: Expr, full: BarrierRef) -> None:
        for i in range(2):
            self.k.tma_load(self.maps[i], self._place(i, step), self._tile(i, stage), full)

    def _copy(self, step: Expr) -> None:
        threads = Layout((16 * self.c.consumers, 8), (8, 1))
        copy = make_tiled_copy("UniversalCopy<uint128_t>", self.p.operand, threads, Layout((1, 8)))
        me = self.k.get_slice(copy)
        for i in range(2):
            source = me.partition_S(self._place(i, step))
            self.k.store(self.k.load(source, where=source.inside), me.partition_D(self._tile(i, Const(0))))

    def _start_products(self, step: Expr, stage: Expr) -> None:
        k, c = self.k, self.c
        me, group = k.get_slice(self.mma, k.thread % 128), k.thread // 128
        mine = local_tile(self._tile(0, stage), (c.consumer_m, c.tile_k), (group, 0))
        k.do(WGMMA_FENCE)
        k.mma(self.mma, self.acc, me.partition_A(mine), me.partition_B(self._tile(1, stage)), accumulate=step)
        k.do(WGMMA_COMMIT)

    def _multiply(self, step: Expr, stage: Expr) -> None:
        self._start_products(step, stage)
        self.k.warpgroup_wait(0, self.acc)

    def _multiply_late(self, step: Expr, stage: Expr) -> None:
        self._start_products(step, stage)
        self.k.do(WGMMA_WAIT, 1)

    def _leave_behind(self) -> None:
        self.k.warpgroup_wait(0, self.acc)
        self._leave()

    def _leave(self) -> None:
        """Store the sums, pair by pair."""
        k, c = self.k, self.c
        group, thread = k.thread // 128, k.thread % 128
        rows, columns = self.corner
        tile = self.output.tile((rows + group * c.consumer_m, columns), (c.consumer_m, c.tile_n))
        there = k.get_slice(self.mma, thread).partition_C(tile)
        with k.Unroll("i", c.consumer_m // 64) as i, k.Unroll("j", c.tile_n // 8) as j, k.Unroll("h", 2) as h:
            self.output.write(self.acc.at((0, h, j), i, 0, values=PAIR), there.coordinate((0, h, j), i, 0))
