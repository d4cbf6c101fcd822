"""Common vectors, alignment and null spaces."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.algebra import max_alignment, max_common_layout, max_common_vector, nullspace
from layoutalg.decide import extremes
from layoutalg.layout import ComposedLayout, Layout, Swizzle, leaves, size
from layoutalg.testing import layouts
from tests.judges.brute import table


@given(layouts(), layouts())
@example(Layout((4, 8), (1, 4)), Layout((4, 8), (1, 16)))
@example(Layout((16, 2)), Layout((4, 12)))
@example(Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1)))
def test_a_common_vector_lies_in_order_in_both(a: Layout, b: Layout) -> None:
    vector = max_common_layout(a, b)
    assert [a(i) for i in table(vector)] == [b(i) for i in table(vector)] == list(range(size(vector)))
    assert max(table(vector)) < min(size(a), size(b))
    assert max_common_vector(a, b) == size(vector)


@given(layouts(compact=True))
def test_a_compact_layout_has_all_in_common_with_itself(a: Layout) -> None:
    one_mode = max_common_vector(a, a)
    assert one_mode == size(a) or len([1 for s, _ in leaves(a) if s > 1]) > 1


@given(layouts(max_size=64, negative=True), st.integers(0, 9))
@example(Layout((2, 2), (-1, 4)), 0)
@example(Layout((4, 5), (2, 1)), 0)
def test_alignment_is_the_widest(a: Layout, offset: int) -> None:
    offset = max(offset, -extremes(a)[0])
    moved = ComposedLayout(Swizzle(0, 0, 0), offset, a)
    for layout in (a, moved):
        offsets = set(table(layout))
        fitting = [
            n
            for n in range(1, len(offsets) + 1)
            if all({x // n * n + j for j in range(n)} <= offsets for x in offsets)
        ]
        assert max_alignment(layout) == max(fitting)


@given(layouts())
def test_nullspace(a: Layout) -> None:
    null = nullspace(a)
    assert all(a(i) == 0 for i in table(null)) and len(set(table(null))) == size(null)
    moving = 1
    for s, d in leaves(a):
        moving *= s if d else 1
    assert moving * size(null) == size(a)
