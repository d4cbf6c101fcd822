"""Divides: the tile walks the layout's own indices, and every index is in one tile."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg.algebra import flat_divide, logical_divide, tiled_divide, zipped_divide
from layoutalg.compose import Tiler
from layoutalg.errors import ArgumentTypeError, DivisibilityError, NotInjectiveError, ShapeError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, modes, rank, size
from layoutalg.notation import parse, parse_tiler
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each

DIVIDES = (logical_divide, zipped_divide, tiled_divide, flat_divide)


@given(layouts(max_size=64), layouts(max_leaves=2, max_size=16))
@example(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
@example(Layout(10), Layout(4))
def test_logical_divide(layout: Layout, tile: Layout) -> None:
    try:
        result = logical_divide(layout, tile)
    except (DivisibilityError, NotInjectiveError):
        return
    first, second = modes(result)
    assert table(first) == [layout(i) for i in table(tile)]
    indices = zipped_divide(Layout(size(layout), 1), tile)
    assert table(result) == [layout(i) for i in table(indices)]
    assert set(range(size(layout))) <= set(table(indices)), "every index is in some tile"
    if 0 not in table(tile)[1:]:
        assert len(set(table(indices))) == size(indices), "and in only one"
    assert table(zipped_divide(layout, tile)) == table(result)
    assert size(second) == size(result) // size(tile)


@given(
    layouts(max_leaves=3, max_size=64), st.lists(st.sampled_from([1, 2, 3, 4, None]), min_size=1, max_size=3)
)
def test_the_four_divides_are_one_regrouped(layout: Layout, extents: list[int | None]) -> None:
    assume(rank(layout) >= len(extents) and isinstance(layout.shape, tuple))
    tiler = tuple(extents)
    try:
        parts = modes(logical_divide(layout, tiler))
    except DivisibilityError:
        return
    one = Layout(1)
    tiles = [one if t is None else p[0] for p, t in zip(parts, tiler, strict=False)]
    rests = [p if t is None else p[1] for p, t in zip(parts, tiler, strict=False)] + list(parts[len(tiler) :])
    zipped = zipped_divide(layout, tiler)
    assert [*modes(zipped[0])] == tiles and [*modes(zipped[1])] == rests
    assert [*modes(tiled_divide(layout, tiler))] == [zipped[0], *rests]
    assert [*modes(flat_divide(layout, tiler))] == [*tiles, *rests]


@each(
    ("divide", "layout", "tiler", "wanted"),
    [
        (logical_divide, "(4,2,3):(2,1,8)", "4:2", "((2,2),(2,3)):((4,1),(2,8))"),
        (
            logical_divide,
            "(9,(4,8)):(59,(13,1))",
            "(3:3,(2,4):(1,8))",
            "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))",
        ),
        (
            zipped_divide,
            "(9,(4,8)):(59,(13,1))",
            "(3:3,(2,4):(1,8))",
            "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))",
        ),
        (flat_divide, "(8,32):(1,8)", "(4,8)", "(4,8,2,4):(1,8,4,64)"),
        (tiled_divide, "(8,32,4):(1,8,256)", "(4,8)", "((4,8),2,4,4):((1,8),4,64,256)"),
        (zipped_divide, "((4,4),8):((1,16),4)", "((2,4),8)", "(((2,4),8),((2,1),1)):(((1,16),4),((2,0),0))"),
        (logical_divide, "10:1", "4", "(4,3):(1,4)"),
        (logical_divide, "(8,8):(1,8)", "_", "(8,8):(1,8)"),
    ],
)
def test_examples(divide: object, layout: str, tiler: str, wanted: str) -> None:
    assert str(divide(parse(layout), parse_tiler(tiler))) == wanted  # type: ignore[operator]


@given(composed_layouts(max_size=64), st.sampled_from([2, 4, Layout(2, 4)]))
def test_swizzled_layouts_are_divided_inside(layout: ComposedLayout, tiler: Tiler) -> None:
    for divide in DIVIDES:
        try:
            inner = divide(layout.inner, tiler)
        except DivisibilityError:
            continue
        assert divide(layout, tiler) == ComposedLayout(layout.outer, layout.offset, inner)


def test_bad_tilers() -> None:
    layout = Layout((8, 8))
    for divide in DIVIDES:
        with pytest.raises(ShapeError, match=r"the tiler has 3 modes, the layout 2"):
            divide(layout, (2, 2, 2))
        for bad in ("4:1", 2.0, True, (2, "4"), ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4))):
            with pytest.raises(ArgumentTypeError, match="a tiler is a layout, an extent, None or a tuple"):
                divide(layout, bad)  # type: ignore[arg-type]
        with pytest.raises(ShapeError, match="extent 0"):
            divide(layout, 0)
