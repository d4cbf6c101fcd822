"""GEMM by wgmma with a tile for each block, in three ways to bring operands.

    threads     all threads copy a step of k through registers, 16 bytes at a time, and multiply it
    tma         one thread starts the copies of a step, `stages` - 1 steps ahead; all wait, and multiply
    roles       a warpgroup of its own copies, others multiply, one group of wgmma in flight (see pipeline)

Results leave the registers in the pairs that a wgmma left in each lane.  Operands are stored along k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from layoutalg import codegen as cg
from layoutalg.algebra import tile_to_shape
from layoutalg.arch import atom_layout
from layoutalg.atoms import make_tiled_copy, make_tiled_mma
from layoutalg.codegen.expr import Const, Expr, Operand, as_expr
from layoutalg.codegen.program import BarrierRef
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, Sm90Config
from layoutalg.kernels.ladder.arrays import declare
from layoutalg.layout import Layout

WARPGROUP, PAIR = 128, 2
"""The threads that execute a wgmma; the results that a lane has side by side."""


@dataclass(frozen=True, slots=True)
class Hopper(Sm90Config):
    """A block that computes one tile: `loop` is the way operands come, `consumers` warpgroups multiply."""

    through: Literal["tma", "shared"] = "shared"
    result_vec: int = PAIR
    loop: Literal["threads", "tma", "roles"] = "threads"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARPGROUP * (self.consumers + (self.loop == "roles"))

    def build(self, p: GemmProblem) -> cg.Program:
        """Return the program of a kernel, for any sizes.

        Raises UnsupportedError for operands along m or n.
        """
        return write(p, self)


def write(p: GemmProblem, c: Hopper) -> cg.Program:
    """Return the program of a kernel, for any sizes.  Raises UnsupportedError for operands along m or n."""
    if "mn" in (p.a_major, p.b_major):
        raise UnsupportedError("the first steps of gemm-sm90 take operands that are stored along k")
    k, kind = cg.Kernel(f"wgmma_{p.operand}", c.threads), p.operand.name.upper()
    x = declare(k, p, (1, PAIR, 8), (8, 8, PAIR))
    m, n, depth = x.extents
    block_n, block_m = k.grid((n, m), (c.tile_n, c.tile_m))
    mma = make_tiled_mma(f"SM90_64x{c.tile_n}x16_F32{kind}{kind}_SS")
    acc = k.get_slice(mma, 0).fragment_C("acc", (c.consumer_m, c.tile_n))
    swizzled, sides = atom_layout("Layout_K_SW128_Atom", p.operand), ((x.a, c.tile_m), (x.b, c.tile_n))
    a, b = rings = [
        k.shared(
            f"tile_{t.buffer.name}", p.operand, tile_to_shape(swizzled, (rows, c.tile_k)), stages=c.stages
        )
        for t, rows in sides
    ]
    sources = [
        cg.local_tile(t, (rows, c.tile_k), (block, None))
        for (t, rows), block in zip(sides, (block_m, block_n), strict=True)
    ]
    steps = k.let("steps", (depth + (c.tile_k - 1)) // c.tile_k)
    nbytes = (c.tile_m + c.tile_n) * c.tile_k * p.operand.nbytes
    if c.loop != "threads":
        maps = [k.tensor_map(f"load_{t.buffer.name}", t, (rows, c.tile_k), mode="128B") for t, rows in sides]

    def at(ring: cg.Tensor, stage: Expr) -> cg.Tensor:
        return ring if c.stages == 1 else ring[None, None, stage]

    def copy(step: Expr) -> None:
        """All threads copy a step of both operands."""
        lanes = Layout((c.threads // 8, 8), (8, 1))
        me = k.get_slice(make_tiled_copy("UniversalCopy<uint128_t>", p.operand, lanes, Layout((1, 8))))
        for source, ring in zip(sources, rings, strict=True):
            part = me.partition_S(source[None, None, step])
            k.store(k.load(part, where=part.inside), me.partition_D(ring))
        k.fence_async()
        k.do(cg.BAR)

    def fill(step: Expr, stage: Expr, full: BarrierRef) -> None:
        """Start the copies of a step of both operands, by one thread."""
        for box, source, ring in zip(maps, sources, rings, strict=True):
            k.tma_load(box, source[None, None, step], at(ring, stage), full)

    def multiply(step: Expr, stage: Expr, unfinished: int = 0) -> None:
        """Start the products of a stage, and wait until so many groups are unfinished."""
        me, group = k.get_slice(mma, k.thread % WARPGROUP), k.thread // WARPGROUP
        mine = cg.local_tile(at(a, stage), (c.consumer_m, c.tile_k), (group, 0))
        k.do(cg.WGMMA_FENCE)
        k.mma(mma, acc, me.partition_A(mine), me.partition_B(at(b, stage)), accumulate=step)
        k.do(cg.WGMMA_COMMIT)
        if unfinished:
            k.do(cg.WGMMA_WAIT, unfinished)
        else:
            k.warpgroup_wait(0, acc)

    def leave() -> None:
        """Store the sums, pair by pair."""
        me, group = k.get_slice(mma, k.thread % WARPGROUP), k.thread // WARPGROUP
        place = block_m * c.readers + group, block_n
        x.store(acc, lambda d: me.partition_C(cg.local_tile(d, (c.consumer_m, c.tile_n), place)), edges=True)

    def finish() -> None:
        k.warpgroup_wait(0, acc)
        leave()

    if c.loop == "roles":
        registers = (40, 232) if c.consumers == 2 else (0, 0)
        ring = cg.TmaRing(nbytes, 4 * c.consumers, registers=registers, lag=1)
        cg.pipeline(k, steps, c.stages, fill, partial(multiply, unfinished=1), tma=ring, end=finish)
        return k.build()
    if c.loop == "threads":
        with k.For("kt", steps) as kt:
            copy(kt)
            multiply(kt, Const(0))
            k.do(cg.BAR)
    else:
        full = k.mbarrier("full", 1, c.stages)
        k.init(full)

        def start(step: Operand) -> None:
            stage = as_expr(step) % c.stages
            k.expect(full[stage], nbytes)
            fill(as_expr(step), stage, full[stage])

        ahead = c.stages - 1
        with k.If(k.thread.eq(0)):
            for s in range(ahead):
                with k.If(Const(s) < steps):
                    start(s)
        with k.For("kt", steps) as kt:
            with k.If(k.thread.eq(0) & (kt + ahead < steps)):
                start(kt + ahead)
            k.wait(full[kt % c.stages], kt // c.stages % 2)
            multiply(kt, kt % c.stages)
            k.do(cg.BAR)
    leave()
    return k.build()
