"""cosize, equality, injectivity and surjectivity against tables, and at 2^40 elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.decide import (
    cosize,
    find_difference,
    find_offset_bit,
    image_size,
    is_bijective,
    is_injective,
    is_surjective,
    same_function,
)
from layoutalg.errors import ShapeError, UndecidedError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, coalesce, size, with_assumptions
from layoutalg.testing import composed_layouts, swizzles
from tests.judges.brute import table
from tests.work import counted


def test_layouts_of_different_sizes_are_not_comparable() -> None:
    assert not same_function(Layout(4), Layout(5))
    with pytest.raises(ShapeError, match="not comparable"):
        find_difference(Layout(4), Layout(5))
    n, m = sympy.symbols("n m", integer=True, positive=True)
    assert with_assumptions(find_difference, Layout(n), Layout(m)) == (None, (sympy.Eq(n, m),))


@given(composed_layouts(), swizzles())
@example(ComposedLayout(Swizzle(1, 0, 1), 2, Layout((2, 3), (1, 4))), Swizzle(1, 2, 2))
def test_equality_survives_a_detour(layout: ComposedLayout, swizzle: Swizzle) -> None:
    """The same function, written with two swizzles more, or with a coalesced inner layout."""
    if swizzle.is_involution:
        longer = ComposedLayout((*layout.swizzles, swizzle, swizzle), layout.offset, layout.inner)
        assert same_function(layout, longer)
    assert same_function(layout, coalesce(layout))
    other = ComposedLayout((swizzle, *layout.swizzles), layout.offset, layout.inner)
    assert same_function(layout, other) == (table(layout) == table(other))


def test_swizzles_that_happen_to_agree() -> None:
    """Sw<1,0,2> and Sw<1,0,1> differ as maps, and agree on offsets whose bits 1 and 2 agree."""
    inner = Layout((2, 3), (1, 14))
    a, b = (ComposedLayout(Swizzle(1, 0, s), 0, inner) for s in (1, 2))
    assert (table(a) == table(b)) == same_function(a, b)
    even = Layout((2, 2), (6, 8))
    a, b = (ComposedLayout(Swizzle(1, 0, s), 0, even) for s in (1, 2))
    assert table(a) == table(b) and same_function(a, b)


N = 1 << 20
BIG: dict[str, AnyLayout] = {
    "chained": Layout((N, N), (N, 1)),
    "padded": Layout((N, N), (N + 8, 1)),
    "swizzled": ComposedLayout(Swizzle(3, 4, 3), 0, Layout((N, N), (N, 1))),
    "swizzled with carries": ComposedLayout(Swizzle(3, 4, 3), 3, Layout((N, N), (N + 8, 1))),
    "swizzled mixed radix": ComposedLayout(Swizzle(3, 0, 3), 0, Layout((3 * N, 5 * N), (5 * N, 1))),
}


@pytest.mark.parametrize("name", BIG)
def test_size_does_not_matter(name: str) -> None:
    """Each question at 2^40 elements takes the time of a small one: a second would mean enumeration."""
    layout = BIG[name]
    other = ComposedLayout((Swizzle(1, 0, 2), Swizzle(1, 0, 2)), 0, layout)
    questions: tuple[Callable[[], object], ...] = (
        lambda: cosize(layout) >= size(layout),
        lambda: is_injective(layout),
        lambda: image_size(layout) == size(layout),
        lambda: same_function(layout, coalesce(layout)),
        lambda: same_function(layout, other),
    )
    whole = name in ("chained", "swizzled", "swizzled mixed radix")
    for question in questions:
        yes, steps = counted(question)
        assert yes and steps < 3_000
    for ask in (is_bijective, is_surjective):
        found, steps = counted(lambda ask=ask: ask(layout))  # type: ignore[misc]
        assert found == whole and steps < 3_000


def test_what_is_not_decided_is_said() -> None:
    odd = ComposedLayout(
        Layout((5, 1 << 18), (3, 7)), 0, ComposedLayout(Swizzle(3, 0, 3), 0, Layout(1 << 20))
    )
    for question in (cosize, is_injective, image_size):
        with pytest.raises(UndecidedError) as info:
            question(odd)
        assert info.value.budget == 1 << 16 and str(odd) in str(info.value)
    with pytest.raises(UnsupportedError, match="negative offset -3 is swizzled"):
        cosize(ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4, -1)))


WIDE = st.builds(
    lambda first, second, offset, inner: ComposedLayout((first, second), offset, inner),
    *(st.builds(Swizzle, st.integers(0, 3), st.integers(0, 3), st.sampled_from((9, 11, -10))),) * 2,
    st.sampled_from((0, 0, 1, 4096)),
    st.sampled_from(
        (Layout((16, 8), (512, 2)), Layout((8, 16), (1, 1024)), Layout((4, 2, 16), (2048, 1, 64)),
         Layout((16, 8), (514, 2)))
    ),
)  # fmt: skip
"""Swizzles whose period is beyond that of windows, so that matrices decide."""


@given(WIDE, WIDE, st.integers(0, 16))
def test_wide_swizzles_are_compared_as_matrices(a: ComposedLayout, b: ComposedLayout, bit: int) -> None:
    left, right = table(a), table(b)
    found = find_difference(a, b)
    assert (found is None) == (left == right) and (found is None or left[found] != right[found])
    at = find_offset_bit(a, bit)
    assert (at is None) == (not any(x >> bit & 1 for x in left)) and (at is None or left[at] >> bit & 1)


def test_wide_swizzles_are_compared_at_any_size() -> None:
    row = Layout((1 << 20, 1 << 20), (1 << 20, 1))
    whole = ComposedLayout(Swizzle(3, 4, 25), 0, row)
    parts = ComposedLayout((Swizzle(1, 4, 25), Swizzle(2, 5, 25)), 0, row)
    assert same_function(whole, parts) and find_difference(whole, row) == 1 << 9
    assert find_offset_bit(whole, 33) == 1 << 13 and find_offset_bit(row, 40) is None
