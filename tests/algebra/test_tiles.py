"""Divides and products: tiles cover every index once, copies do not meet, and every form is one regrouped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg import algebra
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    LayoutAlgError,
    NotInjectiveError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.layout import (
    ComposedLayout,
    Layout,
    ScaledBasis,
    Swizzle,
    filter,
    make_identity_layout,
    modes,
    product,
    rank,
    size,
    span,
)
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each

DIVIDES = (algebra.logical_divide, algebra.zipped_divide, algebra.tiled_divide, algebra.flat_divide)
PRODUCTS = (algebra.logical_product, algebra.zipped_product, algebra.tiled_product, algebra.flat_product)
PAIRED = (algebra.blocked_product, algebra.raked_product)
ONE, TILE = Layout(1), ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
undefined = (DivisibilityError, NotInjectiveError)


@given(layouts(max_size=64), layouts(max_leaves=2, max_size=16))
@example(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
@example(Layout(10), Layout(4))
def test_logical_divide(layout: Layout, tile: Layout) -> None:
    try:
        result = algebra.logical_divide(layout, tile)
    except undefined:
        return
    first, second = modes(result)
    assert table(first) == [layout(i) for i in table(tile)]
    indices = algebra.zipped_divide(Layout(size(layout), 1), tile)
    assert table(result) == [layout(i) for i in table(indices)]
    assert set(range(size(layout))) <= set(table(indices)), "every index is in some tile"
    if 0 not in table(tile)[1:]:
        assert len(set(table(indices))) == size(indices), "and in only one"
    assert size(second) == size(result) // size(tile)


@given(layouts(max_size=32), layouts(max_leaves=2, max_size=16))
@example(Layout((2, 2), (4, 1)), Layout(6))
@example(Layout(3, 0), Layout(4))
def test_logical_product(tile: Layout, copies: Layout) -> None:
    try:
        first, second = modes(algebra.logical_product(tile, copies))
    except undefined:
        return
    assert first == tile
    room = algebra.complement(tile, size(tile) * (span(copies)[1] + 1))
    assert table(second) == [room(i) for i in table(copies)]
    places, shifts = set(table(filter(tile))), set(table(second))
    assert len({p + s for p in places for s in shifts}) == len(places) * len(shifts), "copies do not meet"


@pytest.mark.deep
@each(("forms", "keeps"), [(DIVIDES, 1), (PRODUCTS, 0)], ids=["divides", "products"])
@given(st.data())
def test_the_forms_are_one_regrouped(forms: Any, keeps: int, data: st.DataObject) -> None:
    """Modes without a tiler join the rests of a divide and the tiles of a product."""
    logical, zipped, tiled, flat = forms
    layout = data.draw(layouts(max_leaves=3, max_size=64))
    tiler: Any = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, None]), min_size=1, max_size=3)))
    assume(rank(layout) >= len(tiler) and isinstance(layout.shape, tuple))
    try:
        parts = modes(logical(layout, tiler))
        single = logical(layout, 2)
    except undefined:
        return
    sides: tuple[list[Layout], list[Layout]] = [], []
    for i, part in enumerate(parts):
        whole = i >= len(tiler) or tiler[i] is None
        pair = ([ONE, part] if keeps else [part, ONE]) if whole else [part[0], part[1]]
        for side in (0, 1) if i < len(tiler) else (keeps,):
            sides[side].append(pair[side])
    left, right = sides
    both = zipped(layout, tiler)
    assert [list(modes(both[0])), list(modes(both[1]))] == [left, right]
    assert [*modes(tiled(layout, tiler))] == [both[0], *right]
    assert [*modes(flat(layout, tiler))] == [*left, *right]
    assert zipped(layout, 2) == single and logical(layout, None) == layout
    assert [*modes(tiled(layout, 2))] == [single[0], *modes(single[1])]


@given(layouts(max_leaves=2, max_size=16, compact=True), layouts(max_leaves=2, max_size=16))
def test_blocked_and_raked_are_the_product_regrouped(tile: Layout, copies: Layout) -> None:
    assume(rank(tile) == rank(copies))
    try:
        blocked, raked = (operation(tile, copies) for operation in PAIRED)
    except DivisibilityError:
        return
    for b, r, t, c in zip(modes(blocked), modes(raked), modes(tile), modes(copies), strict=True):
        assert (size(b[0]), size(b[1])) == (size(t), size(c))
        assert (b[0], b[1]) == (r[1], r[0])
    assert sorted(table(blocked)) == sorted(table(algebra.logical_product(tile, copies)))


def test_copies_of_one_mode_may_split() -> None:
    """The room that 4:2 leaves is (2,..):(1,8): 8 copies walk through both of its modes."""
    assert str(algebra.blocked_product(Layout(4, 2), Layout(8))) == "((4,(2,4))):((2,(1,8)))"
    raked = algebra.raked_product(Layout((4, 2), (2, 8)), Layout(8))
    assert str(raked) == "(((2,4),4),(1,2)):(((1,16),2),(0,8))"


@given(composed_layouts(max_size=64), st.sampled_from([Layout(2, 4), Layout(2), Layout((2, 3), (3, 1))]))
def test_swizzled_layouts_are_cut_and_repeated_inside(layout: ComposedLayout, tiler: Layout) -> None:
    for operation in (*DIVIDES, *PRODUCTS, *PAIRED):
        try:
            inner = operation(layout.inner, tiler)
        except undefined:
            continue
        assert operation(layout, tiler) == ComposedLayout(layout.outer, layout.offset, inner)


@given(layouts(max_leaves=2, max_size=16, compact=True), st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_tile_to_shape_covers_and_is_dense(tile: Layout, shape: tuple[int, int]) -> None:
    assume(rank(tile) <= 2)
    result = algebra.tile_to_shape(tile, shape)
    for mode, part, target in zip(modes(result), (*modes(tile), ONE), shape, strict=False):
        assert size(mode) >= target > size(mode) - size(part)
    assert sorted(table(result)) == list(range(size(result)))
    inside = [tuple(range(size(m))) for m in modes(tile)] + [(0,)] * (2 - rank(tile))
    assert [result(i, j) for j in inside[1] for i in inside[0]] == table(tile), "the first copy is the tile"


def test_tile_to_shape_in_an_order() -> None:
    result = algebra.tile_to_shape(TILE, (128, 128), (1, 0))
    assert str(result) == "Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,1024),(1,512))"
    assert sorted(table(result)) == list(range(product((128, 128))))


def test_products_go_along_one_mode() -> None:
    every_second = Layout(4, ScaledBasis(2, 1))
    assert str(algebra.logical_product(every_second, Layout(6))) == "(4,(2,3)):(2@1,(1@1,8@1))"
    assert str(algebra.logical_product(Layout(4, ScaledBasis(1, 1)), Layout(3))) == "(4,3):(1@1,4@1)"
    tile = make_identity_layout((4, 8))
    by_mode = algebra.logical_product(tile, (Layout(2), Layout(3)))
    assert str(by_mode) == "((4,2),(8,3)):((1@0,4@0),(1@1,8@1))"
    assert str(algebra.blocked_product(make_identity_layout((4,)), Layout((3,)))) == "((4,3)):((1@0,4@0))"
    with pytest.raises(UnsupportedError, match="multiply mode by mode"):
        algebra.logical_product(tile, 2)
    with pytest.raises(UnsupportedError, match="copies are numbered, by integers"):
        algebra.logical_product(Layout(4), Layout(4, ScaledBasis(1, 0)))


BAD_TILERS: list[tuple[Any, type[LayoutAlgError], str]] = [
    ((2, 2, 2), ShapeError, "3 modes"),
    (0, ShapeError, "extent 0"),
    *((bad, ArgumentTypeError, "a tiler is") for bad in ("4:1", 2.0, True, (2, "4"), TILE)),
]


@each(("tiler", "error", "word"), BAD_TILERS)
def test_bad_tilers(tiler: Any, error: type[LayoutAlgError], word: str) -> None:
    for operation in (*DIVIDES, *PRODUCTS):
        with pytest.raises(error, match=word):
            operation(Layout((8, 8)), tiler)


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="modes"):
        algebra.tile_to_shape(Layout((2, 2)), 8)
    with pytest.raises(NotInjectiveError):
        algebra.logical_product(Layout((4, 4), (1, 2)), Layout(2))
    with pytest.raises(UnsupportedError, match="negative"):
        algebra.logical_product(Layout(4, -1), Layout(2))
    for operation in PAIRED:
        with pytest.raises(ArgumentTypeError, match="plain layout"):
            operation(Layout((2, 2)), 3)  # type: ignore[arg-type]
