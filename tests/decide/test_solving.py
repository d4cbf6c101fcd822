"""Solved equations against enumerated images."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import budget
from layoutalg.decide import aliasing, find_collision, find_coordinate, find_overlap, overlap
from layoutalg.errors import ArgumentTypeError, UndecidedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, layout_size
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each
from tests.work import counted

anything = st.one_of(layouts(negative=True), composed_layouts(), composed_layouts(power_of_two=True))
outside = composed_layouts(max_size=64).map(lambda inner: ComposedLayout(Layout((6, 4), (4, 1)), 0, inner))


@given(st.one_of(anything, outside), st.integers(-20, 200))
@example(Layout((3, 4, 5), (6, 10, 15)), 29)
@example(Layout((2, 2, 3), (2, 4, 3)), 5)
def test_a_coordinate_is_found_exactly_where_there_is_one(layout: AnyLayout, offset: int) -> None:
    values = table(layout)
    for wanted in (offset, values[-1], values[len(values) // 2] + 1):
        found = find_coordinate(layout, wanted)
        assert (found is None) == (wanted not in values)
        assert found is None or values[found] == wanted


@given(layouts(negative=True))
@example(Layout((5, 4), (3, 4)))
@example(Layout((3, 3, 3), (6, 10, 15)))
@example(Layout((2, 3), (1, 0)))
@example(Layout((4, 4), (-1, 3)))
def test_a_collision_is_found_where_there_is_one(layout: Layout) -> None:
    offsets = table(layout)
    pair = find_collision(layout)
    assert (pair is None) == (len(set(offsets)) == len(offsets))
    if pair is not None:
        a, b = pair
        assert 0 <= a < b < layout_size(layout) and offsets[a] == offsets[b]


@given(st.one_of(composed_layouts(), outside))
@example(ComposedLayout(Layout((4, 2), (1, 0)), 1, Layout((2, 3))))
@example(ComposedLayout(Layout((3, 5), (7, 1)), 2, Layout((5, 2), (2, 1))))
def test_a_collision_of_a_composed_layout_is_found(layout: ComposedLayout) -> None:
    offsets, pair = table(layout), find_collision(layout)
    assert (pair is None) == (len(set(offsets)) == len(offsets)) and pair == aliasing(layout).pair
    assert pair is None or (pair[0] < pair[1] and offsets[pair[0]] == offsets[pair[1]])
    with pytest.raises(ArgumentTypeError, match="with moving a plain layout is needed"):
        find_collision(layout, moving=True)


@each(
    ("layout", "collides"),
    [
        (Layout((1 << 40, 1 << 40), (1, 1 << 40)), False),
        (Layout((1 << 40, 1 << 40), ((1 << 40) + 1, 1)), False),
        (Layout((1 << 40, 1 << 40), (3, 7)), True),
        (Layout((7, 1 << 40, 3), (1 << 41, 7, 5)), True),
        (Layout((7, 1 << 40, 3), (1 << 50, 7, 5)), False),
        (Layout((7, 3, 1 << 40), (3, 7, 21)), False),
        (Layout((2, 3, 1 << 40, 5), (15, 10, 30, 6)), False),
        (Layout((2, 3, 1 << 40, 6), (15, 10, 30, 6)), True),
    ],
)
def test_the_size_of_a_layout_that_collides_does_not_matter(layout: Layout, collides: bool) -> None:
    pair = find_collision(layout)
    assert (pair is not None) == collides
    if pair is not None:
        assert layout(pair[0]) == layout(pair[1]) and pair[0] != pair[1]


@pytest.mark.deep
def test_the_search_for_a_collision_gives_up_by_name() -> None:
    """Subset sums without structure: no closed form is known, and none is pretended."""
    strides = tuple(3**20 + 7919 * k * k + 104729 * k**3 for k in range(60))
    hard = Layout((2,) * 60, strides)
    try:
        pair = find_collision(hard)
    except UndecidedError as error:
        assert error.budget == budget.UNITS and "is (2,2,2," in str(error)
    else:
        assert pair is not None and hard(pair[0]) == hard(pair[1])


@given(st.one_of(anything, outside), anything, st.integers(0, 60))
def test_layouts_meet_exactly_where_their_images_do(a: AnyLayout, b: AnyLayout, offset: int) -> None:
    if isinstance(b, Layout):
        b = ComposedLayout(Swizzle(0, 0, 0), offset, b)
    found = find_overlap(a, b)
    left, right = table(a), table(b)
    assert (found is None) == set(left).isdisjoint(right) == (not overlap(a, b))
    assert found is None or left[found[0]] == right[found[1]]


def test_large_layouts_take_no_longer() -> None:
    one = Layout((1 << 20, 1 << 20), (1, 1 << 21))
    other = ComposedLayout(Swizzle(0, 0, 0), 1 << 20, one)
    swizzled = ComposedLayout(Swizzle(3, 4, 3), 1 << 20, one)

    def questions() -> None:
        assert not overlap(one, other) and overlap(other, other)
        assert not overlap(one, swizzled)
        assert find_coordinate(one, (1 << 40) + 5) == 5 + (1 << 39)

    assert counted(questions)[1] < 10_000


def test_numbers_without_structure_are_solved_too() -> None:
    """Four modes that no stride chain orders: a search from the largest stride down would take hours."""
    odd = Layout((97, 89, 83, 79), (1000007, 1000999, 1003709, 1003993))
    assert find_coordinate(odd, odd((90, 0, 33, 70))) is not None
    assert find_coordinate(odd, odd((0, 0, 0, 70)) + 1) is None
    big = Layout((2053, 139371), (744857, 2383001))
    other = ComposedLayout(Swizzle(0, 0, 0), 1 << 35, Layout((98105, 347446), (869074, 66156)))
    there = find_overlap(big, other)
    assert there is not None and big(there[0]) > 1 << 35


def test_the_search_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Layout((2,) * 12, tuple(3**20 + 7919 * k * k + 104729 * k**3 for k in range(12)))
    monkeypatch.setattr(budget, "UNITS", 300)
    with pytest.raises(UndecidedError, match=r"does \(2,2,2,.* reach \d+\? .* budget of 300 units") as info:
        find_coordinate(odd, odd((1, 0) * 6))
    assert info.value.budget == 300
