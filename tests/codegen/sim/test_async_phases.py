"""A wait means one phase: what may be one too early or one too late is refused in every schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.instr import ARRIVE, NAMED_ARRIVE, NAMED_BARRIER, WARP_SYNC
from layoutalg.codegen.program import printed
from layoutalg.errors import SimulationError
from tests.async_programs import BYTES, TILES, Frame, Program

SCHEDULES = [("block", 0), *(("warp", seed) for seed in range(6))]


def watched(watch: Any, arrivals: int = 2) -> Program:
    """A ring of two stages by a producer and 64 consumers, and a warp that does what `watch` says with it."""
    f = Frame("watched", 128)
    k, tile = f.k, f.stages(2)
    full, empty = k.mbarrier("full", 1, 2), k.mbarrier("empty", arrivals, 2)
    k.init(full, empty)
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", TILES) as t:
            k.wait(empty[t % 2], (t // 2 + 1) % 2)
            k.expect(full[t % 2], BYTES)
            f.fetch(t, tile[None, None, t % 2], full[t % 2])
        with roles.role("consumer", 2):
            k.clear(f.total)
            with k.For("t", TILES) as t:
                k.wait(full[t % 2], t // 2 % 2)
                f.add(tile, t % 2)
                k.do(WARP_SYNC)
                with k.If((k.thread % 32).eq(0)):
                    k.do(ARRIVE, empty[t % 2])
            f.put()
        with roles.role("watcher", 1), k.For("t", TILES) as t:
            watch(k, t, full, empty)
    return f.program()


def runs(program: Program, group: Any, seed: int) -> None:
    arrays = {**program.given, "y": np.full(program.y.shape, np.nan, "f4")}
    cg.simulate(printed(program.kernel), arrays, group=group, seed=seed)
    np.testing.assert_array_equal(arrays["y"], program.y)


def takes_part(k: Any, t: Any, full: Any, empty: Any) -> None:
    with k.If(k.thread.eq(0)):
        k.wait(full[t % 2], t // 2 % 2)
        k.do(ARRIVE, empty[t % 2])


def arrives_alone(k: Any, t: Any, full: Any, empty: Any) -> None:
    """The first phase of each stage is not waited for: its parity is that of no phase at all."""
    with k.If(k.thread.eq(0)):
        with k.If(t >= 2):
            k.wait(full[t % 2], t // 2 % 2)
        k.do(ARRIVE, empty[t % 2])


def is_not_waited_for(k: Any, t: Any, full: Any, empty: Any) -> None:
    k.wait(full[t % 2], t // 2 % 2)


def one_lane_hands_back(k: Any, t: Any, full: Any, empty: Any) -> None:
    k.wait(full[t % 2], t // 2 % 2)
    with k.If(k.thread.eq(0)):
        k.do(ARRIVE, empty[t % 2])


@pytest.mark.parametrize(("group", "seed"), SCHEDULES)
def test_who_waits_and_hands_back_is_right(group: str, seed: int) -> None:
    runs(watched(takes_part, 3), group, seed)


LATE = "may come too late for phase 0 of full|waits for phase 2 of full.*before phase 1 is complete"
MIXED = r"too late for phase|loads a box into|has all of its|the copy for full is in flight"
EARLY = (
    "waits for phase 1 of full.*before phase 0 is complete|may come too late for the phase before the first"
)


@pytest.mark.parametrize(("group", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("watch", "arrivals", "said"),
    [(is_not_waited_for, 2, LATE), (one_lane_hands_back, 3, LATE), (arrives_alone, 3, EARLY)],
)
def test_a_phase_that_may_be_missed_or_taken_for_another(
    watch: Any, arrivals: int, said: str, group: str, seed: int
) -> None:
    with pytest.raises(SimulationError, match=said):
        runs(watched(watch, arrivals), group, seed)


def apart(waits: bool) -> Program:
    """One warp announces, another one waits until a stage is empty, and loads."""
    f = Frame("apart", 128, 4)
    k, tile, full, empty = f.k, f.stages(1), f.k.mbarrier("full"), f.k.mbarrier("empty", 2)
    k.init(full, empty)
    with k.roles() as roles:
        with roles.role("announcer", 1), k.If(k.thread.eq(0)), k.For("t", 4) as t:
            k.expect(full[0], BYTES)
            k.wait(full[0], t % 2)
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", 4) as t:
            if waits:
                k.wait(empty[0], (t + 1) % 2)
            f.fetch(t, tile, full[0])
            k.wait(full[0], t % 2)
        with roles.role("consumer", 2):
            k.clear(f.total)
            with k.For("t", 4) as t:
                k.wait(full[0], t % 2)
                f.add(tile)
                k.do(WARP_SYNC)
                with k.If((k.thread % 32).eq(0)):
                    k.do(ARRIVE, empty[0])
            f.put()
    return f.program()


@pytest.mark.parametrize(("group", "seed"), SCHEDULES)
def test_a_copy_orders_the_phase_that_its_bytes_complete(group: str, seed: int) -> None:
    runs(apart(waits=True), group, seed)
    with pytest.raises(SimulationError, match=MIXED):
        runs(apart(waits=False), group, seed)


def meetings(second: int, hands_over: bool) -> Any:
    """Two pairs of warps meet, each pair by itself: at barrier 1, and at the one of the `second` pair."""
    k = cg.Kernel("meetings", threads=128)
    with k.roles() as roles:
        with roles.role("first", 2), k.For("t", 2):
            k.do(NAMED_BARRIER, 1, 64)
            if hands_over:
                k.do(NAMED_ARRIVE, 2, 128)
                k.do(NAMED_BARRIER, 3, 128)
        with roles.role("second", 2), k.For("t", 2):
            if hands_over:
                k.do(NAMED_BARRIER, 2, 128)
            k.do(NAMED_BARRIER, second, 64)
            if hands_over:
                k.do(NAMED_ARRIVE, 3, 128)
    return k.build()


@pytest.mark.parametrize(("group", "seed"), SCHEDULES)
def test_who_meets_at_a_named_barrier_is_the_same_in_every_order(group: Any, seed: int) -> None:
    for second, hands_over in ((4, False), (1, True)):
        cg.simulate(printed(meetings(second, hands_over)), {}, group=group, seed=seed)
    with pytest.raises(SimulationError, match="may meet other threads at named barrier 1"):
        cg.simulate(printed(meetings(1, hands_over=False)), {}, group=group, seed=seed)
