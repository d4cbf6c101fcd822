"""A wait means one phase: what may be one too early or one too late is refused in every schedule."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.instr import NAMED_BARRIER
from layoutalg.codegen.program import printed
from layoutalg.errors import SimulationError
from tests.tiles.frame import BYTES, Frame, Program
from tests.tiles.one_block import ring

SCHEDULES = [("block", 0), *(("warp", seed) for seed in range(6))]


def takes_part(k: Any, t: Any, full: Any, empty: Any) -> None:
    with k.If(k.thread.eq(0)):
        k.wait(full[t % 2], t // 2 % 2)
        k.arrive(empty[t % 2])


def arrives_alone(k: Any, t: Any, full: Any, empty: Any) -> None:
    """The first phase of each stage is not waited for: its parity is that of no phase at all."""
    with k.If(k.thread.eq(0)):
        with k.If(t >= 2):
            k.wait(full[t % 2], t // 2 % 2)
        k.arrive(empty[t % 2])


def is_not_waited_for(k: Any, t: Any, full: Any, empty: Any) -> None:
    k.wait(full[t % 2], t // 2 % 2)


def one_lane_hands_back(k: Any, t: Any, full: Any, empty: Any) -> None:
    k.wait(full[t % 2], t // 2 % 2)
    with k.If(k.thread.eq(0)):
        k.arrive(empty[t % 2])


@pytest.mark.parametrize(("group", "seed"), SCHEDULES)
def test_who_waits_and_hands_back_is_right(group: str, seed: int) -> None:
    ring(128, watch=takes_part, arrivals=3).simulated(group, seed)


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
        ring(128, watch=watch, arrivals=arrivals).simulated(group, seed)


def apart(waits: bool) -> Program:
    """One warp announces, another one waits until a stage is empty, and loads."""
    f = Frame(128, 4, empty=2)
    k = f.k
    with k.roles() as roles:
        with roles.role("announcer", 1), k.If(k.thread.eq(0)), k.For("t", 4) as t:
            k.expect(f.full[0], BYTES)
            k.wait(f.full[0], t % 2)
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", 4) as t:
            if waits:
                k.wait(f.empty[0], (t + 1) % 2)
            f.fetch(t)
            k.wait(f.full[0], t % 2)
        with f.consuming(roles):
            f.add()
            f.release(0)
    return f.program()


@pytest.mark.parametrize(("group", "seed"), SCHEDULES)
def test_a_copy_orders_the_phase_that_its_bytes_complete(group: str, seed: int) -> None:
    apart(waits=True).simulated(group, seed)
    with pytest.raises(SimulationError, match=MIXED):
        apart(waits=False).simulated(group, seed)


def meetings(second: int, hands_over: bool) -> Any:
    """Two pairs of warps meet, each pair by itself: at barrier 1, and at the one of the `second` pair."""
    k = cg.Kernel("meetings", threads=128)
    with k.roles() as roles:
        with roles.role("first", 2), k.For("t", 2):
            k.do(NAMED_BARRIER, 1, 64)
            if hands_over:
                k.do(cg.NAMED_ARRIVE, 2, 128)
                k.do(NAMED_BARRIER, 3, 128)
        with roles.role("second", 2), k.For("t", 2):
            if hands_over:
                k.do(NAMED_BARRIER, 2, 128)
            k.do(NAMED_BARRIER, second, 64)
            if hands_over:
                k.do(cg.NAMED_ARRIVE, 3, 128)
    return k.build()


@pytest.mark.parametrize(("group", "seed"), SCHEDULES)
def test_who_meets_at_a_named_barrier_is_the_same_in_every_order(group: Any, seed: int) -> None:
    for second, hands_over in ((4, False), (1, True)):
        cg.simulate(printed(meetings(second, hands_over)), {}, group=group, seed=seed)
    with pytest.raises(SimulationError, match="may meet other threads at named barrier 1"):
        cg.simulate(printed(meetings(1, hands_over=False)), {}, group=group, seed=seed)
