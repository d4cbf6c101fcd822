"""Equations with digits in a box, against every point of the box: by the short search and by the lattice."""

from __future__ import annotations

import itertools
import random

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.budget import Budget
from layoutalg.decide.equation import Lattice, find_digits, find_relation

boxes = st.lists(st.tuples(st.integers(1, 40), st.integers(2, 6)), min_size=1, max_size=4)
signed = st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 6)), max_size=4)


def _sum(digits: tuple[int, ...] | list[int], strides: list[int]) -> int:
    return sum(x * d for x, d in zip(digits, strides, strict=True))


def _check_digits(found: list[int] | None, box: list[tuple[int, int]], target: int) -> None:
    """Digits are found exactly where a point of the box has the sum."""
    strides, extents = [d for d, _ in box], [s for _, s in box]
    assert (found is not None) == (
        target in {_sum(x, strides) for x in itertools.product(*map(range, extents))}
    )
    if found is not None:
        assert _sum(found, strides) == target
        assert all(0 <= x < s for x, s in zip(found, extents, strict=True))


def _check_relation(found: list[int] | None, box: list[tuple[int, int]]) -> None:
    """A relation is found exactly where two points of the box have one sum."""
    strides, extents = [d for d, _ in box], [s for _, s in box]
    sums = [_sum(x, strides) for x in itertools.product(*map(range, extents))]
    assert (found is not None) == (len(set(sums)) < len(sums))
    if found is not None:
        assert _sum(found, strides) == 0 and any(found)
        assert all(abs(k) < s for k, s in zip(found, extents, strict=True))


@given(signed, st.integers(-150, 250))
@example([(6, 5), (10, 5), (15, 5)], 29)
@example([(2, 3), (-4, 2), (6, 4), (3, 2)], 7)
@example([], 0)
def test_digits_are_found_exactly_where_there_are_some(box: list[tuple[int, int]], target: int) -> None:
    _check_digits(find_digits("?", [d for d, _ in box], [s for _, s in box], target), box, target)


@given(boxes, st.integers(0, 250))
@example([(6, 5), (10, 5), (15, 5)], 29)
@example([(7, 4)], 21)
def test_a_lattice_says_the_same_of_digits(box: list[tuple[int, int]], target: int) -> None:
    strides, extents = [d for d, _ in box], [s for _, s in box]
    lattice = Lattice(Budget("?"), strides, extents)
    _check_digits(lattice.between([0] * len(box), [s - 1 for s in extents], target), box, target)


@given(signed)
@example([(3, 5), (4, 4)])
@example([(-3, 5), (4, 4)])
@example([(1, 2), (0, 3)])
def test_a_relation_is_found_exactly_where_sums_repeat(box: list[tuple[int, int]]) -> None:
    _check_relation(find_relation("?", [d for d, _ in box], [s for _, s in box]), box)


@given(boxes.filter(lambda box: len(box) > 1))
@example([(3, 5), (4, 4)])
@example([(5, 4), (3, 4)])
def test_a_lattice_says_the_same_of_relations(box: list[tuple[int, int]]) -> None:
    strides, extents = [d for d, _ in box], [s for _, s in box]
    _check_relation(Lattice(Budget("?"), strides, extents).relation(extents), box)


sides = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 5)), min_size=2, max_size=8)


@given(boxes.filter(lambda box: len(box) > 1), st.lists(sides, min_size=1, max_size=4), st.integers(-20, 20))
def test_one_box_is_asked_after_the_other(
    box: list[tuple[int, int]], asked: list[list[tuple[int, int]]], target: int
) -> None:
    strides, extents = [d for d, _ in box], [s for _, s in box]
    lattice = Lattice(Budget("?"), strides, extents)
    for sides in asked:
        low = [sides[i % len(sides)][0] for i in range(len(box))]
        high = [a + sides[i % len(sides)][1] for i, a in enumerate(low)]
        inside = itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
        found = lattice.between(low, high, target)
        assert (found is not None) == any(_sum(x, strides) == target for x in inside)
        if found is not None:
            assert _sum(found, strides) == target
            assert all(a <= x <= b for a, x, b in zip(low, found, high, strict=True))


def test_large_numbers_are_no_harder() -> None:
    """Solutions that were put in are found, and no box of a tenth of them has one by chance."""
    draw = random.Random(7)
    for count in (2, 3, 4, 5):
        strides = [draw.randint(1 << 39, 1 << 40) for _ in range(count)]
        point = [draw.randint(0, 1 << 40 // count) for _ in range(count)]
        target = _sum(point, strides)
        found = find_digits("?", strides, [x + 1 for x in point], target)
        assert found is not None and _sum(found, strides) == target
        assert find_digits("?", strides, point, target) is None
