"""Lattice points in boxes, against every point of the box."""

from __future__ import annotations

import itertools
import random

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.budget import Budget
from layoutalg.lattice import Relations, find_kernel_point, find_point

boxes = st.lists(st.tuples(st.integers(1, 40), st.integers(2, 6)), min_size=1, max_size=4)


def _sum(digits: tuple[int, ...] | list[int], strides: list[int]) -> int:
    return sum(x * d for x, d in zip(digits, strides, strict=True))


@given(boxes, st.integers(0, 250))
@example([(6, 5), (10, 5), (15, 5)], 29)
@example([(7, 4)], 21)
def test_a_point_is_found_exactly_where_there_is_one(box: list[tuple[int, int]], target: int) -> None:
    strides, extents = [d for d, _ in box], [s for _, s in box]
    sums = {_sum(x, strides) for x in itertools.product(*map(range, extents))}
    found = find_point("?", strides, [s - 1 for s in extents], target)
    assert (found is not None) == (target in sums)
    if found is not None:
        assert _sum(found, strides) == target
        assert all(0 <= x < s for x, s in zip(found, extents, strict=True))


@given(boxes.filter(lambda box: len(box) > 1))
@example([(3, 5), (4, 4)])
@example([(5, 4), (3, 4)])
def test_a_kernel_point_is_found_exactly_where_sums_repeat(box: list[tuple[int, int]]) -> None:
    strides, extents = [d for d, _ in box], [s for _, s in box]
    sums = [_sum(x, strides) for x in itertools.product(*map(range, extents))]
    found = find_kernel_point("?", strides, extents)
    assert (found is not None) == (len(set(sums)) < len(sums))
    if found is not None:
        assert _sum(found, strides) == 0 and any(found)
        assert all(abs(k) < s for k, s in zip(found, extents, strict=True))


sides = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 5)), min_size=2, max_size=8)


@given(boxes.filter(lambda box: len(box) > 1), st.lists(sides, min_size=1, max_size=4))
def test_relations_are_found_in_one_box_after_the_other(
    box: list[tuple[int, int]], asked: list[list[tuple[int, int]]]
) -> None:
    strides, extents = [d for d, _ in box], [s for _, s in box]
    relations = Relations(Budget("?"), strides, extents)
    for sides in asked:
        low = [sides[i % len(sides)][0] for i in range(len(box))]
        high = [a + sides[i % len(sides)][1] for i, a in enumerate(low)]
        inside = itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
        found = relations.between(low, high)
        assert (found is not None) == any(_sum(x, strides) == 0 for x in inside)
        if found is not None:
            assert _sum(found, strides) == 0
            assert all(a <= x <= b for a, x, b in zip(low, found, high, strict=True))


def test_large_numbers_are_no_harder() -> None:
    """Solutions that were put in are found, and no box of a tenth of them has one by chance."""
    draw = random.Random(7)
    for count in (2, 3, 4, 5):
        strides = [draw.randint(1 << 39, 1 << 40) for _ in range(count)]
        point = [draw.randint(0, 1 << 40 // count) for _ in range(count)]
        target = _sum(point, strides)
        found = find_point("?", strides, point, target)
        assert found is not None and _sum(found, strides) == target
        assert find_point("?", strides, [x - 1 for x in point], target) is None
