"""Collisions against the table, and at sizes that nobody can enumerate."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from layoutalg.budget import UNITS
from layoutalg.errors import UndecidedError
from layoutalg.injective import find_collision
from layoutalg.layout import Layout, layout_size
from layoutalg.strategies import layouts
from tests.brute import table


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


@pytest.mark.parametrize(
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
def test_size_does_not_matter(layout: Layout, collides: bool) -> None:
    pair = find_collision(layout)
    assert (pair is not None) == collides
    if pair is not None:
        assert layout(pair[0]) == layout(pair[1]) and pair[0] != pair[1]


def test_the_search_gives_up_by_name() -> None:
    """Subset sums without structure: no closed form is known, and none is pretended."""
    strides = tuple(3**20 + 7919 * k * k + 104729 * k**3 for k in range(60))
    hard = Layout((2,) * 60, strides)
    try:
        pair = find_collision(hard)
    except UndecidedError as error:
        assert error.budget == UNITS and "is (2,2,2," in str(error)
    else:
        assert pair is not None and hard(pair[0]) == hard(pair[1])
