"""Numbers of a layout, coalescing and filtering."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given

from layoutalg.errors import ShapeError
from layoutalg.layout import (
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzle,
    coalesce,
    depth,
    filter,
    filter_zeros,
    leaves,
    merge_open,
    rank,
    size,
    span,
)
from layoutalg.layout.int_tuple import compatible_trees
from layoutalg.testing import composed_layouts, layouts, shapes
from tests.judges.brute import table


@given(layouts(negative=True))
@example(Layout((2, (1, 6)), (1, (7, 2))))
@example(Layout(1, 5))
@example(Layout(()))
def test_coalesce_keeps_the_function_and_nothing_merges(layout: Layout) -> None:
    result = coalesce(layout)
    assert table(result) == table(layout)
    assert depth(result) <= 1
    pairs = leaves(result)
    assert pairs == ((1, 0),) or all(s > 1 for s, _ in pairs)
    assert all(s * d != e for (s, d), (_, e) in itertools.pairwise(pairs))
    assert coalesce(result) == result


@given(layouts(), layouts())
def test_coalesced_forms_are_unique(a: Layout, b: Layout) -> None:
    assert (table(a) == table(b)) == (coalesce(a) == coalesce(b))


@given(layouts(), shapes())
def test_coalesce_by_profile(layout: Layout, profile: IntTuple) -> None:
    try:
        result = coalesce(layout, profile)
    except ShapeError:
        assert isinstance(profile, tuple)
        return
    assert table(result) == table(layout)
    if isinstance(profile, tuple):
        assert isinstance(layout.shape, tuple) and len(profile) <= len(layout.shape)
        assert compatible_trees(tuple(size(layout[i]) for i in range(rank(layout))), result.shape)


def test_profile_with_too_many_modes() -> None:
    with pytest.raises(ShapeError, match=r"coalesce \(4,8\):\(1,4\) by the profile \(1,1,1\)"):
        coalesce(Layout((4, 8)), (1, 1, 1))


@given(composed_layouts())
def test_coalesce_inside_a_swizzle(layout: ComposedLayout) -> None:
    assert table(coalesce(layout)) == table(layout)


@given(layouts(negative=True))
def test_span_and_filter(layout: Layout) -> None:
    offsets = table(layout)
    assert span(layout) == (min(offsets), max(offsets))
    assert set(table(filter(layout))) == set(offsets)
    assert all(d for _, d in leaves(filter(layout)) if filter(layout) != Layout(1))
    assert set(table(filter_zeros(layout))) == set(offsets)
    assert filter_zeros(layout).stride == layout.stride


@given(layouts())
@example(Layout((4, 1), (1, 0)))
@example(Layout((4, 1), (1, 7)))
@example(Layout((2, 3, 1), (3, 6, 18)))
def test_open_leaves_are_the_function_on_every_index(layout: Layout) -> None:
    extents, strides = merge_open(layout)
    for index in range(3 * size(layout) + 5):
        rest, total = index, 0
        for s, d in zip(extents, strides, strict=False):
            total += rest % s * d
            rest //= s
        assert total + rest * strides[-1] == layout(index)


def test_numbers() -> None:
    layout = Layout(((2, 4), 8), ((1, 16), 2))
    tile = ComposedLayout(Swizzle(1, 0, 2), 0, layout)
    assert (size(layout), rank(layout), depth(layout)) == (64, 2, 2) == (size(tile), rank(tile), depth(tile))
    assert (size(Layout(())), rank(Layout(())), rank(Layout(4))) == (1, 0, 1)
    nested = ComposedLayout(Layout(128), 0, tile)
    assert size(nested) == 64
