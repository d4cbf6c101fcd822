"""Products: copies of a layout that do not meet, laid out as the second layout says."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg.algebra import (
    blocked_product,
    complement,
    flat_product,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_product,
    zipped_product,
)
from layoutalg.errors import DivisibilityError, NotInjectiveError, ShapeError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, filter, modes, product, rank, size, span
from layoutalg.notation import parse, parse_tiler
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each

PRODUCTS = (logical_product, zipped_product, tiled_product, flat_product, blocked_product, raked_product)


@given(layouts(max_size=32), layouts(max_leaves=2, max_size=16))
@example(Layout((2, 2), (4, 1)), Layout(6))
@example(Layout(3, 0), Layout(4))
def test_logical_product(tile: Layout, copies: Layout) -> None:
    try:
        result = logical_product(tile, copies)
    except (DivisibilityError, NotInjectiveError):
        return
    first, second = modes(result)
    assert first == tile
    room = complement(tile, size(tile) * (span(copies)[1] + 1))
    assert table(second) == [room(i) for i in table(copies)]
    places = set(table(filter(tile)))
    shifts = set(table(second))
    assert len({p + s for p in places for s in shifts}) == len(places) * len(shifts), "copies do not meet"
    assert zipped_product(tile, copies) == result


@given(layouts(max_leaves=2, max_size=16, compact=True), layouts(max_leaves=2, max_size=16))
def test_blocked_and_raked_are_the_product_regrouped(tile: Layout, copies: Layout) -> None:
    assume(rank(tile) == rank(copies))
    try:
        blocked, raked = blocked_product(tile, copies), raked_product(tile, copies)
    except DivisibilityError:
        return
    whole = logical_product(tile, copies)
    for b, r, t, c in zip(modes(blocked), modes(raked), modes(tile), modes(copies), strict=True):
        assert (size(b[0]), size(b[1])) == (size(t), size(c)) == (size(r[1]), size(r[0]))
        assert (b[0], b[1]) == (r[1], r[0])
    assert sorted(table(blocked)) == sorted(table(raked)) == sorted(table(whole))


@each(
    ("function", "layout", "tiler", "wanted"),
    [
        (logical_product, "(2,2):(4,1)", "6:1", "((2,2),(2,3)):((4,1),(2,8))"),
        (logical_product, "(2,5):(5,1)", "(3:5,4:6)", "((2,3),(5,4)):((5,10),(1,30))"),
        (blocked_product, "(2,5):(5,1)", "(3,4):(1,3)", "((2,3),(5,4)):((5,10),(1,30))"),
        (raked_product, "(2,5):(5,1)", "(3,4):(1,3)", "((3,2),(4,5)):((10,5),(30,1))"),
        (blocked_product, "6:1", "(8,2):(1,8)", "((6,8),(1,2)):((1,6),(0,48))"),
        (flat_product, "(8,4):(4,1)", "8:4", "(8,4,8):(4,1,128)"),
        (tiled_product, "5:1", "(4,8):(0,1)", "(5,4,8):(1,0,5)"),
        (zipped_product, "(4,4):(1,4)", "(2,_)", "((4,4),(2,1)):((1,4),(4,0))"),
        (logical_product, "(4,4):(1,4)", "_", "(4,4):(1,4)"),
    ],
)
def test_examples(function: object, layout: str, tiler: str, wanted: str) -> None:
    assert str(function(parse(layout), parse_tiler(tiler))) == wanted  # type: ignore[operator]


@given(composed_layouts(max_size=32), st.sampled_from([Layout(2), Layout((2, 3), (3, 1))]))
def test_swizzled_layouts_are_multiplied_inside(layout: ComposedLayout, tiler: Layout) -> None:
    for function in PRODUCTS:
        try:
            inner = function(layout.inner, tiler)
        except (DivisibilityError, NotInjectiveError):
            continue
        assert function(layout, tiler) == ComposedLayout(layout.outer, layout.offset, inner)


@given(layouts(max_leaves=2, max_size=16, compact=True), st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_tile_to_shape_covers_and_is_dense(tile: Layout, shape: tuple[int, int]) -> None:
    assume(rank(tile) <= 2)
    result = tile_to_shape(tile, shape)
    for mode, part, target in zip(modes(result), (*modes(tile), Layout(1)), shape, strict=False):
        assert size(mode) >= target > size(mode) - size(part)
    assert sorted(table(result)) == list(range(size(result)))
    inside = [tuple(range(size(m))) for m in modes(tile)] + [(0,)] * (2 - rank(tile))
    assert [result(i, j) for j in inside[1] for i in inside[0]] == table(tile), "the first copy is the tile"


def test_tile_to_shape_in_an_order() -> None:
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    result = tile_to_shape(tile, (128, 128), (1, 0))
    assert str(result) == "Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,1024),(1,512))"
    assert sorted(table(result)) == list(range(product((128, 128))))


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="the layout has more modes than the shape"):
        tile_to_shape(Layout((2, 2)), 8)
    with pytest.raises(ShapeError, match="the tiler has 3 modes"):
        logical_product(Layout((2, 2)), (2, 2, 2))
    with pytest.raises(NotInjectiveError):
        logical_product(Layout((4, 4), (1, 2)), Layout(2))
    with pytest.raises(UnsupportedError, match="negative"):
        logical_product(Layout(4, -1), Layout(2))


def test_copies_of_one_mode_may_split() -> None:
    """The room that 4:2 leaves is (2,..):(1,8): 8 copies walk through both of its modes."""
    assert str(blocked_product(Layout(4, 2), Layout(8))) == "((4,(2,4))):((2,(1,8)))"
    assert str(raked_product(Layout((4, 2), (2, 8)), Layout(8))) == "(((2,4),4),(1,2)):(((1,16),2),(0,8))"
