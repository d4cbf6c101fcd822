"""Clocks of agents, against the definition: sets of accesses that each thread, or the engines, know of.

The definition keeps, for every access, the set of threads that know of it, of those that know of it as
fenced, and of those that do so where it is in the shared memory of its own block.  A release hands over what
the releasing lanes know; an acquire adds it to the acquiring lanes.
"""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from layoutalg.codegen.sim.engines.knowledge import ALL_LANES, AgentClocks

PER_BLOCK, BLOCKS = 2, 2
WARPS = PER_BLOCK * BLOCKS
LANES = (0, 1, 5)
EVERY = range(32)

LANE_SETS = st.sampled_from((ALL_LANES, 1 << 0, 1 << 1, 1 << 5, (1 << 0) | (1 << 1)))
EVENTS = st.lists(
    st.tuples(st.just("write"), st.integers(0, WARPS - 1), st.sampled_from(LANES), st.just(0))
    | st.tuples(st.just("engine"), st.integers(0, WARPS - 1), LANE_SETS, st.just(0))
    | st.tuples(st.just("arrive"), st.integers(0, WARPS - 1), LANE_SETS, st.integers(0, 1))
    | st.tuples(st.just("wait"), st.integers(0, WARPS - 1), LANE_SETS, st.integers(0, 1))
    | st.tuples(st.just("fence"), st.integers(0, WARPS - 1), LANE_SETS, st.integers(0, 1))
    | st.tuples(st.just("warp"), st.integers(0, WARPS - 1), st.just(0), st.just(0))
    | st.tuples(st.just("block"), st.integers(0, BLOCKS - 1), st.just(0), st.just(0)),
    min_size=4,
    max_size=24,
)


def _block(thread: int) -> int:
    return thread // 32 // PER_BLOCK


def _threads(warp: int, lanes: int) -> set[int]:
    return {32 * warp + lane for lane in EVERY if lanes >> lane & 1}


class Definition:
    """Which accesses each thread knows of, and which of them as fenced, in any memory or in its block's own;
    the two barriers hold sets too."""

    def __init__(self) -> None:
        threads = range(32 * WARPS)
        self.known: list[set[int]] = [set() for _ in threads]
        self.fenced: list[set[int]] = [set() for _ in threads]
        self.near: list[set[int]] = [set() for _ in threads]
        self.barriers: list[tuple[set[int], set[int], set[int]]] = [
            (set(), set(), set()), (set(), set(), set())
        ]  # fmt: skip
        self.own: list[set[int]] = [set() for _ in threads]

    def meet(self, threads: set[int]) -> None:
        known = set().union(*(self.known[t] | self.own[t] for t in threads))
        fenced = set().union(*(self.fenced[t] for t in threads))
        near = set().union(*(self.near[t] for t in threads))
        for t in threads:
            self.known[t] |= known
            self.fenced[t] |= fenced
            self.near[t] |= near


@pytest.mark.deep
@settings(max_examples=200)
@example([("write", 0, 0, 0), ("arrive", 0, 1, 0), ("wait", 1, 1, 0), ("arrive", 1, 2, 1), ("wait", 2, 1, 1)])
@given(EVENTS)
def test_what_threads_know_is_what_the_definition_says(events: list[tuple[str, int, int, int]]) -> None:
    clocks, sets = AgentClocks(PER_BLOCK, BLOCKS, ["the engine"]), Definition()
    clocks.start()
    engine = clocks.first_engine
    barriers: list[Any] = [None, None]
    accesses: list[tuple[int, int]] = []  # the thread, or the engine's, and the epoch
    for what, warp, lanes, n in events:
        match what:
            case "write":
                thread = 32 * warp + lanes
                sets.own[thread].add(len(accesses))
                accesses.append((thread, int(clocks.now[warp])))
            case "engine":
                number = len(accesses)
                accesses.append((engine << 5, int(clocks.now[engine])))
                clocks.acquire(warp, lanes, clocks.engine_done(engine))
                earlier = {i for i, (who, _) in enumerate(accesses) if who == engine << 5 and i <= number}
                for t in _threads(warp, lanes):
                    sets.known[t] |= earlier
                    sets.fenced[t] |= earlier
            case "arrive":
                known = clocks.release(warp, lanes)
                barriers[n] = known if barriers[n] is None else (barriers[n].join(known), barriers[n])[1]
                for t in _threads(warp, lanes):
                    sets.barriers[n][0].update(sets.known[t] | sets.own[t])
                    sets.barriers[n][1].update(sets.fenced[t])
                    sets.barriers[n][2].update(sets.near[t])
            case "wait" if barriers[n] is not None:
                clocks.acquire(warp, lanes, barriers[n])
                for t in _threads(warp, lanes):
                    sets.known[t] |= sets.barriers[n][0]
                    sets.fenced[t] |= sets.barriers[n][1]
                    sets.near[t] |= sets.barriers[n][2]
            case "fence":
                clocks.fence_proxy(warp, lanes, cta=n == 1)
                for t in _threads(warp, lanes):
                    told_of = sets.known[t] | sets.own[t]
                    if n == 0:
                        sets.fenced[t] |= told_of
                    else:
                        sets.near[t] |= {i for i in told_of if _block(accesses[i][0]) == _block(t)}
            case "warp":
                clocks.sync_warps(numpy.array([warp]))
                sets.meet(_threads(warp, ALL_LANES))
            case "block":
                first = warp * PER_BLOCK
                clocks.sync_block(slice(first, first + PER_BLOCK))
                sets.meet(set(range(32 * first, 32 * (first + PER_BLOCK))))
    for number, (who, epoch) in enumerate(accesses):
        for thread in (32 * w + lane for w in range(WARPS) for lane in LANES):
            if thread == who:
                continue
            told = clocks.knows(thread, who, epoch)
            if who >> 5 < WARPS:
                assert clocks.knows(thread, who + (clocks.first_read << 5), epoch) == told, "as a read"
            assert told == (number in sets.known[thread]), (number, thread)
            if told and who >> 5 < clocks.first_engine:  # what is not ordered is refused for that
                fenced = number in sets.fenced[thread]
                assert clocks.visible(thread, who, epoch) == fenced, (number, thread)
                for rank in range(BLOCKS):
                    near = rank == _block(who) and number in sets.near[thread]
                    assert clocks.visible(thread, who, epoch, rank) == (fenced or near), (number, thread)
