"""Arithmetic of shapes and coordinates, against its definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.int_tuple import IntTuple, compatible, crd2idx, idx2crd, product
from layoutalg.shapes import ceil_div, crd2crd, shape_div
from layoutalg.strategies import layouts

shapes = layouts(max_size=96).map(lambda layout: layout.shape)


@given(shapes, st.integers(1, 30))
def test_tiles_cover(shape: IntTuple, tile: int) -> None:
    try:
        tiles = product(ceil_div(shape, tile))
    except DivisibilityError:
        return
    assert tiles * tile >= product(shape)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4))
def test_a_tuple_divides_mode_by_mode(pairs: list[tuple[int, int]]) -> None:
    extents, tiles = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    assert ceil_div(extents, tiles) == tuple(-(-a // b) for a, b in pairs)
    assert ceil_div(extents, tiles[:1])[1:] == extents[1:]  # type: ignore[index]
    products = tuple(a * b for a, b in pairs)
    assert shape_div(products, tiles) == extents


@given(shapes, st.integers(1, 100))
def test_a_number_is_taken_out_from_the_left(shape: IntTuple, tile: int) -> None:
    try:
        left = shape_div(shape, tile)
    except DivisibilityError:
        return
    if product(shape) % tile == 0:
        assert product(left) * tile == product(shape)
    assert left == ceil_div(shape, tile)


@given(shapes, shapes, st.data())
def test_renaming_keeps_the_index(source: IntTuple, target: IntTuple, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, product(source) - 1))
    if index < product(target):
        assert crd2idx(crd2crd(index, source, target), target) == index
    crd = idx2crd(index, source)
    if compatible(source, target) or compatible(target, source):
        assert crd2idx(crd2crd(crd, source, target), target) == index
    assert crd2crd(crd, source, product(source)) == index


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DivisibilityError, match="neither of 5 and 4 divides the other"):
        shape_div((5, 4), 4)
    with pytest.raises(ShapeError, match="the divisor has more modes"):
        ceil_div((4, 4), (2, 2, 2))
    with pytest.raises(DivisibilityError, match="neither of 2 and 3 divides the other"):
        ceil_div((2, 2), 3)
    with pytest.raises(ShapeError, match="must be positive"):
        ceil_div(4, 0)
    with pytest.raises(ShapeError, match="differ in rank"):
        crd2crd((1, 2), (4, 8), (4, 8, 2))
