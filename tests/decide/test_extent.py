"""The ends of an image, against the table."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.compose import find_normal_form
from layoutalg.decide import cosize, extremes
from layoutalg.decide.extent import reached
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table


@given(st.one_of(composed_layouts(), composed_layouts(power_of_two=True)))
@example(ComposedLayout(Swizzle(3, 0, 12), 100, Layout((64, 8), (65, 1))))
@example(ComposedLayout(Swizzle(3, 0, 14), 0, Layout((64, 8), (512, 1 << 14))))
def test_the_ends_of_a_swizzled_image(layout: ComposedLayout) -> None:
    values = table(layout)
    assert extremes(layout) == (min(values), max(values))
    assert cosize(layout) == max(values) + 1
    assert find_normal_form(layout) is not None


@given(layouts(negative=True), st.integers(1, 200))
def test_the_set_of_sums(layout: Layout, length: int) -> None:
    least = min(table(layout))
    taken = {x - least for x in table(layout)}
    assert reached(layout, length) == sum(1 << x for x in taken if x < length)
