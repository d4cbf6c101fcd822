"""Vector clocks, against the definition: two accesses race unless a chain of barriers orders them.

The definition keeps the whole history.  An access is ordered before a later one when the same thread did
both, or when both threads met at a barrier in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen.sim.hazards import Array, Clocks, Race, Shadow
from layoutalg.codegen.sim.machine import CopyQueue

WARPS = 3
THREADS = (0, 1, 32, 33, 64)
CELLS = 2

Event = tuple[str, int, int]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("read", "write", "copy", "land")),
        st.sampled_from(THREADS),
        st.integers(0, CELLS - 1),
    )
    | st.tuples(st.just("warp"), st.integers(0, WARPS - 1), st.just(0))
    | st.tuples(st.just("block"), st.just(0), st.just(0)),
    max_size=25,
)


@dataclass
class Done:
    """An access that has happened, and the threads that it is known to."""

    thread: int
    cell: int
    writes: bool
    pending: bool
    known: set[int]


def _define(events: list[Event]) -> int | None:
    """Number of the first event that races, by looking at everything that came before."""
    history: list[Done] = []
    for number, (what, who, cell) in enumerate(events):
        if what in {"warp", "block"}:
            for done in history:
                if not done.pending and (what == "block" or done.thread // 32 == who):
                    members = {t for t in THREADS if what == "block" or t // 32 == who}
                    done.known |= members
            continue
        if what == "land":
            for done in history:
                if done.pending and done.thread == who:
                    done.pending, done.known = False, {who}
            continue
        for done in history:
            meets = done.cell == cell and (done.writes or what != "read")
            if meets and (done.pending or who not in done.known):
                return number
        history.append(Done(who, cell, what != "read", what == "copy", {who}))
    return None


def _detect(events: list[Event]) -> int | None:
    """The same by clocks."""
    clocks = Clocks(WARPS)
    shadow = Shadow(CELLS * 4, 4, clocks)
    copies: list[tuple[int, int]] = []
    for number, (what, who, cell) in enumerate(events):
        place, thread = numpy.array([[cell]]), numpy.array([[who]])
        race: Race | None = None
        match what:
            case "warp":
                clocks.sync_warps(numpy.array([who]))
            case "block":
                clocks.sync_block()
            case "land":
                for t, c in [copy for copy in copies if copy[0] == who]:
                    shadow.land(numpy.array([[c]]), numpy.array([[t]]))
                copies = [copy for copy in copies if copy[0] != who]
            case "read":
                race = shadow.read(place, thread)
            case "write" | "copy":
                race = shadow.write(place, thread, pending=what == "copy")
                copies += [(who, cell)] if what == "copy" else []
        if race is not None:
            return number
    return None


@given(EVENTS)
@example([("read", 0, 0), ("read", 1, 0), ("write", 0, 0)])
@example([("read", 0, 0), ("warp", 0, 0), ("read", 1, 0), ("write", 1, 0)])
@example([("copy", 0, 0), ("block", 0, 0), ("read", 0, 0)])
@example([("copy", 0, 0), ("land", 0, 0), ("warp", 0, 0), ("read", 1, 0)])
@example([("write", 0, 0), ("warp", 0, 0), ("read", 32, 0)])
def test_clocks_find_the_first_race(events: list[Event]) -> None:
    assert _detect(events) == _define(events)


@given(EVENTS)
def test_the_verdict_does_not_depend_on_the_schedule(events: list[Event]) -> None:
    """Between two block barriers, warps may run in any order: whether there is a race stays the same."""
    phases: list[list[Event]] = [[]]
    for event in events:
        if event[0] == "block":
            phases.append([])
        else:
            phases[-1].append(event)

    def scheduled(warps: tuple[int, ...]) -> list[Event]:
        out: list[Event] = []
        for phase in phases:
            for warp in warps:
                out += [e for e in phase if (e[1] if e[0] == "warp" else e[1] // 32) == warp]
            out.append(("block", 0, 0))
        return out

    orders = ((0, 1, 2), (2, 1, 0), (1, 2, 0))
    assert len({_detect(scheduled(warps)) is None for warps in orders}) == 1


def _many(*values: int) -> Array:
    return numpy.array(values)[:, None]


def test_wide_accesses_touch_every_granule_and_a_broadcast_is_no_race_until_a_lane_writes() -> None:
    shadow = Shadow(64, 4, Clocks(2), first_byte=128)
    granules = shadow.granules(numpy.array([128, 144]), 16)
    assert granules.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert shadow.write(granules, _many(0, 1)) is None
    race = shadow.read(shadow.granules(numpy.array([156]), 4), _many(32))
    assert race == Race(0, "thread 1 wrote it, with no block barrier in between")
    clocks = Clocks(1)
    shadow = Shadow(64, 4, clocks)
    assert shadow.read(_many(3, 3, 3), _many(0, 1, 2)) is None
    race = shadow.write(_many(3), _many(0))
    assert race == Race(0, "lanes of warp 0 read it, with no warp or block barrier in between")
    clocks.sync_warps(numpy.array([0]))
    assert shadow.write(_many(3), _many(0)) is None


# --- copies in flight, against a queue of lists for each lane -----------------------------------------

LANES = 3
ALL = [True] * LANES
MASKS = st.lists(st.booleans(), min_size=LANES, max_size=LANES)
STEPS = st.lists(
    st.tuples(st.sampled_from(("start", "commit")), MASKS, st.just(0))
    | st.tuples(st.just("wait"), MASKS, st.integers(0, 2)),
    max_size=20,
)


@given(STEPS)
@example([("start", ALL, 0), ("commit", ALL, 0), ("commit", [False] * LANES, 0), ("wait", ALL, 1)])
def test_each_lane_has_a_queue_of_its_own(steps: list[tuple[str, list[bool], int]]) -> None:
    queue = CopyQueue(LANES)
    landed: list[list[int]] = [[] for _ in range(LANES)]
    opened: list[list[int]] = [[] for _ in range(LANES)]
    groups: list[list[list[int]]] = [[] for _ in range(LANES)]
    wanted: list[list[int]] = [[] for _ in range(LANES)]
    for number, (what, mask, newest) in enumerate(steps):
        active = numpy.array(mask)
        lanes = numpy.flatnonzero(active).tolist()
        if what == "start":

            def land(which: Array, number: int = number) -> None:
                for lane in numpy.flatnonzero(which).tolist():
                    landed[lane].append(number)

            queue.start(active, land)
            for lane in lanes:
                opened[lane].append(number)
        elif what == "commit":
            queue.commit(active)
            for lane in lanes:
                groups[lane].append(opened[lane])
                opened[lane] = []
        else:
            queue.wait(active, newest)
            for lane in lanes:
                due = len(groups[lane]) - newest
                wanted[lane] += [n for group in groups[lane][: max(0, due)] for n in group]
                groups[lane] = groups[lane][max(0, due) :]
        assert landed == wanted
    left = [n for n in range(LANES) if opened[n]]
    found = queue.never_committed()
    assert found in left if left else found is None


def test_a_new_block_starts_with_an_empty_queue() -> None:
    queue, every = CopyQueue(2), numpy.ones(2, dtype=bool)
    queue.start(every, lambda lanes: pytest.fail("the copy lands"))
    queue.clear()
    assert queue.never_committed() is None
    queue.commit(every)
    queue.wait(every, 0)
