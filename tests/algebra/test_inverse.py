"""complement, right_inverse and left_inverse against the equations that define them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.algebra import complement, left_inverse, right_inverse
from layoutalg.errors import (
    DivisibilityError,
    NotInjectiveError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, filter, leaves, size
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each


@given(layouts(), st.integers(1, 300))
@example(Layout((4, 4), (1, 2)), 32)
@example(Layout((5, 2), (9, 10)), 48)
@example(Layout((2, 2, 2), (0, 1, 1)), 1)
@example(Layout(3, 2), 10)
@example(Layout((2, 2), (1, 3)), 8)
def test_complement_is_disjoint_ordered_and_covering(layout: Layout, target: int) -> None:
    moving = filter(layout)
    offsets = sorted(set(table(moving)))
    try:
        rest = complement(layout, target)
    except NotInjectiveError as error:
        assert error.a != error.b and error.a is not None and error.b is not None
        assert layout(error.a) == layout(error.b)
        assert len(offsets) < size(moving)
        return
    except DivisibilityError as error:
        assert len(offsets) == size(moving), "an injective layout whose gaps are no layout"
        assert error.witness is not None and not tiles_up_to(offsets, error.witness + 1)
        return
    assert len(offsets) == size(moving)
    other = table(rest)
    assert other == sorted(other) and all(d > 0 for s, d in leaves(rest) if s > 1)
    assert set(other) & set(offsets) == {0}
    sums = sorted(x + y for x in offsets for y in other)
    assert sums == list(range(len(sums))), "every offset once"
    assert len(sums) >= target
    step = leaves(rest)[-1][1]
    if step > max(offsets):
        assert len(sums) - step < target, "and not one step too many"


def tiles_up_to(offsets: list[int], length: int) -> bool:
    """Can [0, length) be covered once by shifts of `offsets`?  The least gap always forces the next shift."""
    covered = set(offsets)
    while True:
        gap = next(x for x in range(length + len(covered) + 1) if x not in covered)
        if gap >= length:
            return True
        moved = {gap + x for x in offsets}
        if moved & covered:
            return False
        covered |= moved


@given(layouts(negative=True))
@example(Layout((3, 5), (2, 7)))
@example(Layout((4, 8), (0, 1)))
@example(Layout((2, 4, 3), (1, 1, 2)))
def test_right_inverse_of_a_layout(layout: Layout) -> None:
    result = right_inverse(layout)
    assert isinstance(result, Layout)
    assert [layout(x) for x in table(result)] == list(range(size(result)))
    assert all(0 <= x < size(layout) for x in table(result))
    reached = set(table(layout))
    if size(result) == 1:
        assert not any(d == 1 for s, d in leaves(layout) if s > 1)
    if set(range(size(layout))) == reached:
        assert size(result) == size(layout), "a bijection is inverted whole"


@given(composed_layouts())
@example(ComposedLayout(Swizzle(1, 4, 3), 0, Layout((8, 8, 8), (64, 1, 8))))
@example(ComposedLayout(Swizzle(2, 0, 1), 0, Layout(6)))
def test_right_inverse_under_swizzles(layout: ComposedLayout) -> None:
    if layout.offset:
        with pytest.raises(DivisibilityError, match="no coordinate has the offset 0"):
            right_inverse(layout)
        return
    result = right_inverse(layout)
    assert [layout(x) for x in table(result)] == list(range(size(result)))
    assert all(0 <= x < size(layout) for x in table(result))


@given(st.one_of(layouts(), composed_layouts()))
@example(Layout((4, 8), (1, 5)))
@example(Layout((3, 5), (2, 7)))
@example(ComposedLayout(Swizzle(3, 0, 1), 0, Layout((4, 8), (8, 1))))
@example(ComposedLayout(Swizzle(1, 0, 1), 64, Layout((4, 8), (8, 1))))
def test_left_inverse(layout: AnyLayout) -> None:
    offsets = table(layout)
    try:
        result = left_inverse(layout)
    except NotInjectiveError as error:
        assert error.a is not None and error.b is not None and error.a != error.b
        assert layout(error.a) == layout(error.b)
        return
    except (DivisibilityError, UndecidedError):
        assert len(set(offsets)) == len(offsets)
        return
    assert [result(x) for x in offsets] == list(range(len(offsets)))


THROUGH = ComposedLayout(Layout((4, 4), (5, 1)), 0, ComposedLayout(Swizzle(1, 0, 1), 0, Layout(16)))


@each(
    ("call", "error", "word"),
    [
        (lambda: complement(Layout((4, 4), (1, 2)), 32), NotInjectiveError, "coordinates 2 and 4 share"),
        (lambda: complement(Layout((2, 2), (1, 3)), 8), DivisibilityError, "a second time"),
        (lambda: complement(ComposedLayout(Swizzle(2, 0, 2), 0, Layout(16)), 32), UnsupportedError, "inside"),
        (lambda: complement(Layout(4, -1), 8), UnsupportedError, "stride -1"),
        (lambda: left_inverse(Layout(4, -1)), UnsupportedError, "stride -1"),
        (lambda: complement(Layout(4), 0), ShapeError, "positive"),
        (lambda: right_inverse(THROUGH), UnsupportedError, "swizzles over one layout"),
    ],
)
def test_refusals(call: Callable[[], object], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        call()


def test_a_complement_inside_a_layout() -> None:
    assert str(complement(ComposedLayout(Layout(64, 2), 0, Layout(8)))) == "2:1"


def test_size_does_not_matter() -> None:
    n = 1 << 40
    tile = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((n, n), (n, 1)))
    back = right_inverse(tile)
    for x in (0, 1, 12345, n - 1, n, 7 * n + 991, n * n - 1):
        assert tile(back(x)) == x == left_inverse(tile)(x) * 0 + x
        assert left_inverse(tile)(tile(x)) == x
    assert str(complement(Layout((n, 8), (8, 1)), n * n)) == f"{n // 8}:{8 * n}"
