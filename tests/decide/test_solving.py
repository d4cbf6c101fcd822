"""Solved equations against enumerated images."""

from __future__ import annotations

import pytest

from layoutalg import budget
from layoutalg.decide import find_collision, find_coordinate, find_overlap, overlap
from layoutalg.errors import ArgumentTypeError, UndecidedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.sweeps import each
from tests.work import counted


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


def test_a_moving_collision_is_one_of_a_plain_layout() -> None:
    with pytest.raises(ArgumentTypeError, match="a plain layout is needed"):
        find_collision(ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4)), moving=True)


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
