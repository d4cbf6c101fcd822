"""The tree of a layout: what stays the same function, and where each mode goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ShapeError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    append,
    concat,
    depth,
    flatten,
    group,
    leaves,
    make_layout,
    modes,
    prepend,
    rank,
    replace,
    select,
    sort,
    unflatten,
)
from layoutalg.layout.int_tuple import compatible_trees
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each

anything = st.one_of(layouts(max_size=64), composed_layouts(max_size=64))


@given(anything)
def test_flattening_and_back_keeps_the_function(layout: AnyLayout) -> None:
    flat = flatten(layout)
    assert table(flat) == table(layout) and depth(flat) <= 1
    assert unflatten(flat, layout.shape) == layout


@given(anything, st.data())
def test_grouping_keeps_the_function(layout: AnyLayout, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, rank(layout) - 1))
    end = data.draw(st.integers(begin + 1, rank(layout)))
    bound = group(layout, begin, end)
    assert table(bound) == table(layout) and rank(bound) == rank(layout) - (end - begin) + 1
    if not isinstance(layout.shape, int):
        assert compatible_trees(bound.shape, concat(*modes(Layout(bound.shape))).shape)


@given(layouts(max_size=64), layouts(max_size=16))
def test_modes_are_put_and_found(layout: Layout, mode: Layout) -> None:
    last, first = append(layout, mode), prepend(layout, mode)
    assert modes(last) == (*modes(layout), mode) and modes(first) == (mode, *modes(layout))
    count = rank(layout)
    assert select(last, *range(count)) == concat(*modes(layout)) == select(first, *range(1, count + 1))
    assert replace(last, -1, layout)[count] == layout
    assert rank(append(layout, mode, rank=count + 2)) == count + 2
    assert append(layout, mode, rank=count) == layout == prepend(layout, mode, rank=count)


@given(anything)
def test_sorting_keeps_the_offsets(layout: AnyLayout) -> None:
    ordered = sort(layout)
    assert sorted(table(ordered)) == sorted(table(layout))
    inner = ordered.inner if isinstance(ordered, ComposedLayout) else ordered
    assert isinstance(inner, Layout)
    strides = [d for _, d in leaves(inner)]
    assert strides == sorted(strides)


def test_a_swizzle_stays_outside() -> None:
    tile = ComposedLayout(Swizzle(1, 0, 2), 4, Layout((2, 4)))
    assert str(append(tile, Layout(2, 8))) == "Sw<1,0,2> o 4 o (2,4,2):(1,2,8)"
    assert str(select(tile, 1)) == "Sw<1,0,2> o 4 o (4):(2)"


def test_making_layouts() -> None:
    assert make_layout(4) == Layout(4) and make_layout((4, 8), stride=(8, 1)) == Layout((4, 8), (8, 1))
    assert make_layout(Layout(4)) == Layout(4)
    assert make_layout(Layout(4), Layout((2, 2))) == Layout((4, (2, 2)), (1, (1, 2)))
    with pytest.raises(ArgumentTypeError, match="accepted are a shape"):
        make_layout(Layout(4), 8)


@each(
    "call",
    [
        lambda a: group(a, 1, 1),
        lambda a: group(a, 0, 4),
        lambda a: select(a, 3),
        lambda a: replace(a, 3, Layout(2)),
        lambda a: append(a, rank=1),
        lambda a: prepend(a, rank=2),
        lambda a: unflatten(a, (0, 0)),
    ],
)
def test_modes_that_are_not_there_are_refused(call: object) -> None:
    with pytest.raises(ShapeError):
        call(Layout((2, 3, 5)))  # type: ignore[operator]
