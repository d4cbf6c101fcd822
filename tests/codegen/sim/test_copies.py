"""Copies in flight, against a queue of lists for each lane."""

from __future__ import annotations

import numpy
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen.sim.copies import CopyQueue
from layoutalg.codegen.sim.hazards import Array

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
    queue, every, landed = CopyQueue(2), numpy.ones(2, dtype=bool), []
    queue.start(every, lambda lanes: landed.append(lanes.tolist()))
    queue.clear()
    assert queue.never_committed() is None
    queue.commit(every)
    queue.wait(every, 0)
    assert not landed
