"""Numbers of different sums, against the set of sums."""

from __future__ import annotations

import heapq
from itertools import permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import budget
from layoutalg.decide import Aliasing, aliasing, footprint, gaps, image_size
from layoutalg.decide.distinct import Mode, count_by_boxes, count_sums, joined
from layoutalg.errors import UndecidedError
from layoutalg.layout import Layout
from tests.work import counted


def _sums(modes: list[Mode]) -> set[int]:
    found = {0}
    for d, s in modes:
        found = {x + d * k for x in found for k in range(s)}
    return found


few = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=5)
long = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 120)), min_size=1, max_size=4)
scaled = st.tuples(few, st.integers(2, 5)).map(lambda x: [(d * x[1], s) for d, s in x[0]])


@given(st.one_of(few, long, scaled))
@example([(500, 20), (501, 20), (1001, 20)])
@example([(7, 12), (11, 13), (13, 15)])
@example([(6, 9), (10, 9), (15, 9), (1, 3)])
def test_the_count_is_that_of_the_set(modes: list[Mode]) -> None:
    wanted = len(_sums(modes))
    assert count_sums("?", modes) == wanted
    assert count_by_boxes("?", modes) == wanted
    assert _sums(joined(modes)) == _sums(modes)


@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(1, 7)), min_size=1, max_size=4))
def test_strides_of_any_sign(modes: list[tuple[int, int]]) -> None:
    layout = Layout(tuple(s for _, s in modes), tuple(d for d, _ in modes))
    assert image_size(layout) == len(_sums(modes))


@pytest.mark.parametrize(
    "modes",
    [
        [(30011, 1 << 13), (40009, 1 << 13), (50021, 1 << 14)],
        [(977, 1 << 7), (30011, 1 << 8), (40009, 1 << 9)],
    ],
    ids=str,
)
def test_every_order_of_the_modes_gives_the_count(modes: list[Mode]) -> None:
    """Other modes first are other boxes, other relations, and the same number."""
    counts = {count_by_boxes("?", list(order)) for order in permutations(modes)}
    assert len(counts) == 1 and counts == {count_sums("?", modes)}


def test_what_is_long_is_counted_as_far_as_it_is_not_linear() -> None:
    """Each extent adds its stride / gcd to the count, from the largest other stride on."""
    modes = [(30, 60), (42, 50), (70, 80)]
    wanted = len(_sums(modes))
    for i, (d, _) in enumerate(modes):
        longer = [(e, s + (10**9 if j == i else 0)) for j, (e, s) in enumerate(modes)]
        assert count_sums("?", longer) == wanted + 10**9 * d // 2


def _missed(strides: list[int]) -> int:
    """How many numbers are no sum of strides (gcd 1), from the least sum in each residue of the first."""
    first, *others = strides
    least = {0: 0}
    queue = [0]
    done: set[int] = set()
    while queue:
        x = heapq.heappop(queue)
        if x % first in done:
            continue
        done.add(x % first)
        for d in others:
            if x + d < least.get((x + d) % first, x + d + 1):
                least[(x + d) % first] = x + d
                heapq.heappush(queue, x + d)
    return sum(x // first for x in least.values())


@pytest.mark.parametrize("strides", [[7, 11, 13], [3011, 4009, 5021], [101, 311, 997, 1009]], ids=str)
def test_long_modes_miss_what_the_semigroup_misses_at_both_ends(strides: list[int]) -> None:
    extent = 1 << 20
    length = 1 + sum(strides) * (extent - 1)
    assert count_sums("?", [(d, extent) for d in strides]) == length - 2 * _missed(strides)


def test_size_does_not_matter() -> None:
    """2^40 elements and more take the work of boxes, which no count one by one does."""

    def questions() -> None:
        woven = Layout((1 << 13, 1 << 13, 1 << 14), (30011, -40009, 50021))
        taken = image_size(woven)
        assert taken == count_by_boxes("?", [(50021, 1 << 14), (40009, 1 << 13), (30011, 1 << 13)])
        assert footprint(woven).offsets == taken
        repeats = aliasing(woven)
        assert isinstance(repeats, Aliasing) and repeats.repeats == (1 << 40) - taken
        assert image_size(Layout((1000, 1000, 1000), (7, 11, 13))) == 30938
        assert image_size(Layout((1 << 20, 1 << 20, 8), (72, 72 << 20, 9))) == 1 << 43

    assert counted(questions)[1] < 700_000


def test_modes_that_go_on_with_others_leave_their_gaps() -> None:
    assert gaps(Layout((1 << 20, 2, 1 << 20), (2, 1 << 20, 1 << 30))) == (
        (1, ((1 << 20) + (1 << 19) - 1) * (1 << 20)),
        ((1 << 30) - 2 * ((1 << 20) + (1 << 19) - 1) - 1, (1 << 20) - 1),
    )


def test_beyond_the_budget_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "UNITS", 1000)
    layout = Layout((1 << 13, 1 << 13, 1 << 14), (30011, 40009, 50021))
    with pytest.raises(UndecidedError, match="how many offsets") as info:
        image_size(layout)
    assert info.value.budget == 1000 and str(layout) in str(info.value)
