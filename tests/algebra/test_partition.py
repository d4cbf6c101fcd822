"""Slices, tiles and shares, against their definition: layout(fixed and c) = offset + sublayout(c)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.algebra import domain_offset, local_partition, local_tile, slice_
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError
from layoutalg.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    layout_size,
    slice_and_offset,
)
from layoutalg.testing import layouts
from tests.judges.brute import table
from tests.sweeps import each


@given(layouts(max_size=64), st.data())
def test_an_offset_domain_counts_from_there(layout: Layout, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, layout_size(layout) - 1))
    same, offset = domain_offset(index, layout)
    assert same == layout and offset == layout(index)
    assert domain_offset(None, layout) == (layout, 0)


def test_a_swizzled_layout_keeps_the_offset_inside() -> None:
    tile = ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1)))
    row, outside = slice_and_offset((2, None), tile)
    assert outside == 0 and str(row) == "Sw<2,0,2> o 8 o (4):(1)"
    assert table(row) == [tile(2, j) for j in range(4)]
    moved, outside = domain_offset((1, 0), tile)
    assert outside == 0 and moved(1, 2) == tile(2, 2)


@given(layouts(max_leaves=2, max_size=36), st.data())
def test_tiles_make_up_the_layout(layout: Layout, data: st.DataObject) -> None:
    divisors = [d for d in range(1, 37) if layout_size(layout) % d == 0]
    tile = data.draw(st.sampled_from(divisors))
    found = []
    for j in range(layout_size(layout) // tile):
        try:
            part, offset = local_tile(layout, tile, j)
        except LayoutAlgError:
            return
        found += [offset + x for x in table(part)]
    assert found == table(layout)


@pytest.mark.parametrize("text", ["(8,32):(32,1)", "(8,32):(1,8)", "(8,32):(1,9)"])
def test_every_thread_has_its_share(text: str) -> None:
    from layoutalg.notation import parse

    layout = parse(text)
    assert isinstance(layout, Layout)
    threads = Layout((2, 4), (4, 1))
    found = []
    for t in range(8):
        part, offset = local_partition(layout, threads, t)
        i, j = divmod(t, 4)
        assert [offset + part(x, y) for y in range(8) for x in range(4)] == [
            layout(i + 2 * x, j + 4 * y) for y in range(8) for x in range(4)
        ]
        found += [offset + x for x in table(part)]
    assert sorted(found) == sorted(table(layout))


def test_a_projection_serves_three_operands() -> None:
    tiler, crd = (32, 16, 8), (1, 2, None)
    a, offset = local_tile(Layout((128, 64)), tiler, crd, proj=(1, None, 1))
    assert str(a) == "(32,8,8):(1,128,1024)" and offset == 32
    swizzled = ComposedLayout(Swizzle(2, 0, 3), 0, Layout((128, 64)))
    b, offset = local_tile(swizzled, tiler, crd, proj=(1, None, 1))
    assert offset == 0 and table(b) == [swizzled.swizzles[0](32 + x) for x in table(a)]


@each(
    "call",
    [
        lambda: slice_((1, None, 2), Layout((4, 8))),
        lambda: slice_((1, (None, 2)), Layout((4, 8))),
        lambda: domain_offset((1, 2, 3), Layout((4, 8))),
        lambda: slice_((-1, None), Layout((4, 8))),
        lambda: local_tile(Layout((4, 8)), (2, 2), (0, 0), proj=(1, 1, None)),
        lambda: local_partition(Layout((8, 8)), Layout((2, 2), (4, 1)), 2),
    ],
)
def test_coordinates_that_do_not_fit_are_refused(call: Any) -> None:
    with pytest.raises(ShapeError):
        call()


def test_threads_are_a_plain_layout() -> None:
    with pytest.raises(ArgumentTypeError, match="plain layout"):
        local_partition(Layout(8), 4, 0)  # type: ignore[arg-type]
