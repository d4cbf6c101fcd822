"""pipeline: a ring of tiles in shared memory that is filled while it is read, stated once.

    with `stages` = S, and tile t in stage t % S:
        for each tile t:  wait until the stage is free;  start the copies;  say which belong to the tile
        for each tile t:  wait until its copies are there;  consume(t, stage);  say that the stage is free

Two engines fill it.  With cp.async all threads do both, S - 1 tiles ahead:

        start the copies of tiles 0 .. S-2, a group each
        for each tile t:
            wait until its group is finished; barrier
            consume(t, stage)
            start the copies of tile t + S - 1 into the stage that was read last, if there is such a tile
        wait for all

The barrier does two things: it shows every thread what the others have copied, and it says that all have read
the stage that is filled next.

With TMA two roles do one each, and a pair of mbarriers per stage says what the barrier said:

        producer, one thread                         consumer, all of its threads
        for each tile t:                             for each tile t:
            wait(empty[s], round of t before)            wait(full[s], round of t)
            expect(full[s], bytes)                       consume(t, s)
            produce(t, s, full[s])                       one thread per warp: arrive(empty[s])

Source: CUTLASS, include/cutlass/gemm/collective/sm80_mma_multistage.hpp;
sm90_mma_tma_gmma_ss_warpspecialized.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from layoutalg.codegen.expr import Const, Expr, Operand, as_expr, simplify
from layoutalg.codegen.instr import BAR, CP_COMMIT, CP_WAIT, WARP, WARP_SYNC
from layoutalg.codegen.program import BarrierRef, Mbarrier
from layoutalg.errors import IRError

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder

Step: TypeAlias = "Callable[[Expr, Expr], None]"
"""The function that writes the statements for a tile and its stage."""

Fill: TypeAlias = "Callable[[Expr, Expr, BarrierRef], None]"
"""The same for TMA: the copies complete at a barrier."""


@dataclass(frozen=True, slots=True)
class TmaRing:
    """TMA fills the ring: `nbytes` per tile, the boxes of all its copies.

    A role of `producer` warps, one thread of which works, and behind it one of `consumer` warps; `registers`
    per thread of both, where setmaxnreg moves them.  With `lag` a consumer says that the stage of tile
    t - lag is free, when what it has started for tile t may still read the newer ones.
    """

    nbytes: int
    consumer: int
    producer: int = 4
    registers: tuple[int, int] = (0, 0)
    lag: int = 0


def pipeline(
    k: KernelBuilder,
    tiles: Operand,
    stages: int,
    produce: Any,
    consume: Step,
    *,
    tma: TmaRing | None = None,
    begin: Callable[[], None] | None = None,
    end: Callable[[], None] | None = None,
) -> None:
    """Write a pipeline of `stages` over `tiles`: `produce` copies a tile into a stage, `consume` reads it.

    `produce` is a Step, and with `tma` a Fill.  `begin` and `end` write what consumers do before and after
    the tiles; with TMA consumers are a role of their own, in which k.thread counts from 0.  Raises IRError
    for fewer than two stages.

    >>> from layoutalg.codegen.language.builder import KernelBuilder
    >>> k, seen = KernelBuilder("ring", 32), []
    >>> pipeline(k, 4, 3, lambda t, s: seen.append(f"copy {t} to {s}"), lambda t, s: seen.append(f"read {s}"))
    >>> print(*seen, sep="; ")
    copy 0 to 0; copy 1 to 1; read kt % 3; copy kt + 2 to (kt + 2) % 3
    """
    if stages < 2:
        raise IRError("pipeline", stages, f"a ring of {stages} stages: two or more are needed")
    if tma is not None:
        _by_tma(k, as_expr(tiles), stages, produce, consume, tma, begin, end)
        return
    if begin is not None:
        begin()
    _by_cp_async(k, as_expr(tiles), stages, produce, consume)
    if end is not None:
        end()


def _by_cp_async(k: KernelBuilder, count: Expr, stages: int, produce: Step, consume: Step) -> None:
    ahead = stages - 1
    for s in range(ahead):
        with k.If(Const(s) < count):
            produce(Const(s), Const(s))
        k.do(CP_COMMIT)
    with k.For(k.fresh("kt"), count) as kt:
        k.do(CP_WAIT, stages - 2)
        k.do(BAR)
        consume(kt, kt % stages)
        with k.If(kt + ahead < count):
            produce(kt + ahead, (kt + ahead) % stages)
        k.do(CP_COMMIT)
    k.do(CP_WAIT, 0)


def _by_tma(
    k: KernelBuilder, count: Expr, stages: int, produce: Fill, consume: Step, ring: TmaRing,
    begin: Callable[[], None] | None, end: Callable[[], None] | None,
) -> None:  # fmt: skip
    if not 0 <= ring.lag < stages:
        raise IRError(
            "pipeline", ring, f"a lag of {ring.lag} tiles in a ring of {stages} stages: fewer are needed"
        )
    full = k.mbarrier(k.fresh("full"), 1, stages)
    empty = k.mbarrier(k.fresh("empty"), ring.consumer, stages)
    k.init(full, empty)
    with k.roles() as roles:
        with (
            roles.role("producer", ring.producer, registers=ring.registers[0]),
            k.If(k.thread.eq(0)),
            k.For(k.fresh("kt"), count) as kt,
        ):
            stage, turn = simplify(kt % stages), kt // stages
            k.wait(empty[stage], (turn + 1) % 2)
            k.expect(full[stage], ring.nbytes)
            produce(kt, stage, full[stage])
        with roles.role("consumer", ring.consumer, registers=ring.registers[1]):
            if begin is not None:
                begin()
            with k.For(k.fresh("kt"), count) as kt:
                stage, turn = simplify(kt % stages), kt // stages
                k.wait(full[stage], turn % 2)
                consume(kt, stage)
                _release(k, kt, stages, empty, ring.lag)
            if end is not None:
                end()


def _release(k: KernelBuilder, kt: Expr, stages: int, empty: Mbarrier, lag: int) -> None:
    """Let one thread per warp say that the stage of tile kt - lag is free."""
    k.do(WARP_SYNC)
    first = (k.thread % WARP).eq(0)
    with k.If(first if not lag else first & (Const(lag) <= kt)):
        k.arrive(empty[(kt + (stages - lag)) % stages if lag else kt % stages])
