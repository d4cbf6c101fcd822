"""The published hypothesis strategies draw what they promise and shrink to something readable."""

from __future__ import annotations

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from layoutalg.layout import (
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzle,
    depth,
    flatten_tree,
    leaves,
    product,
    size,
)
from layoutalg.testing.strategies import composed_layouts, int_tuples, layouts, shapes, swizzles
from tests.judges.brute import table


@given(int_tuples(st.integers(5, 7), max_leaves=3))
def test_int_tuples(value: IntTuple) -> None:
    leaves = flatten_tree(value)
    assert len(leaves) <= 3 and all(5 <= v <= 7 for v in leaves) and depth(Layout(value)) <= 3


@given(shapes(max_size=32), shapes(power_of_two=True))
def test_shapes(shape: IntTuple, power: IntTuple) -> None:
    assert product(shape) <= 32
    assert all(s & (s - 1) == 0 for s in flatten_tree(power))


@given(layouts(compact=True), layouts(power_of_two=True), layouts())
def test_layouts(compact: Layout, power: Layout, other: Layout) -> None:
    assert sorted(table(compact)) == list(range(size(compact)))
    assert all(s & (s - 1) == 0 and d & (d - 1) == 0 for s, d in leaves(power))
    assert all(d >= 0 for _, d in leaves(other))


@given(swizzles(max_bits=2, max_base=1, max_shift=2), composed_layouts(max_size=16, max_swizzles=1))
def test_swizzles_and_composed_layouts(swizzle: Swizzle, layout: ComposedLayout) -> None:
    assert swizzle.bits <= 2 and swizzle.base <= 1 and abs(swizzle.shift) <= 2
    assert size(layout) <= 16 and len(layout.swizzles) == 1


@pytest.mark.deep
def test_every_kind_is_drawn() -> None:
    find(layouts(negative=True), lambda a: any(d < 0 for _, d in leaves(a)))
    find(layouts(), lambda a: depth(a) >= 3)
    find(swizzles(), lambda s: s.bits > abs(s.shift))
    find(swizzles(), lambda s: s.shift < 0)
    find(composed_layouts(), lambda a: len(a.swizzles) == 2)


@pytest.mark.deep
def test_failures_shrink_to_something_readable() -> None:
    assert str(find(layouts(), lambda a: size(a) > 3)) == "4:0"
    tall = find(layouts(), lambda a: max(table(a)) >= 10 and len(leaves(a)) > 1)
    assert len(leaves(tall)) == 2 and size(tall) <= 3 and max(table(tall)) == 10
    assert str(find(swizzles(), lambda s: s.bits > 0)) == "Sw<1,0,1>"
    assert str(find(composed_layouts(), lambda a: table(a) != table(a.inner))) in (
        "Sw<0,0,0> o 1 o 1:0", "Sw<1,0,1> o 0 o 2:2", "Sw<1,0,-1> o 0 o 2:1",
    )  # fmt: skip
