"""Arithmetic of shapes and coordinates, against its definitions."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, DivisibilityError, ShapeError
from layoutalg.layout import (
    IntTuple,
    ceil_div,
    compatible,
    congruent,
    coordinate_at,
    crd2crd,
    index_at,
    make_identity_layout,
    product,
    shape_div,
    weakly_congruent,
)
from layoutalg.testing import layouts
from tests.sweeps import each

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
        assert index_at(crd2crd(index, source, target), target) == index
    crd = coordinate_at(index, source)
    if compatible(source, target) or compatible(target, source):
        assert index_at(crd2crd(crd, source, target), target) == index
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


@each("question", [congruent, weakly_congruent, compatible])
@each("other", ["4", 1.5, True, None, (2, "x")], ids=str)
def test_what_is_no_shape_is_refused_on_either_side(question: Any, other: Any) -> None:
    """Text is refused before it meets a symbol, with which it would be compared by parsing it."""
    for shape in ((4, 6), sympy.Symbol("n", integer=True, positive=True)):
        for pair in ((other, shape), (shape, other)):
            with pytest.raises(ArgumentTypeError):
                question(*pair)


def test_trees_of_symbols_and_bases_are_compared() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    assert compatible(n * 4, (n, 4)) and congruent((n, 4), make_identity_layout((n, 4)).stride)
