"""Slices against their definition: layout(fixed and free) = offset + rest(free)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.algebra import dice, slice_
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Coordinate,
    IntTuple,
    Layout,
    ScaledBasis,
    Swizzle,
    fit_coordinate,
    keeps_mode,
    make_identity_layout,
    product,
    size,
    slice_and_offset,
)
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each


def coordinates(draw: st.DrawFn, shape: IntTuple) -> Coordinate:
    """A coordinate inside `shape`, at any depth, with some modes kept."""
    kind = draw(st.sampled_from(("keep", "fix", "go down")))
    if kind == "go down" and isinstance(shape, tuple):
        return tuple(coordinates(draw, s) for s in shape)
    return None if kind == "keep" else draw(st.integers(0, product(shape) - 1))


def fill(crd: Coordinate, shape: IntTuple, rest: list[int]) -> Any:
    """`crd` with what it keeps taken from `rest`, the digits of a flat index of the rest."""
    if isinstance(crd, tuple) and isinstance(shape, tuple):
        return tuple(fill(c, s, rest) for c, s in zip(crd, shape, strict=True))
    return rest.pop(0) if crd is None else crd


def kept_sizes(crd: Coordinate, shape: IntTuple) -> list[int]:
    if isinstance(crd, tuple) and isinstance(shape, tuple):
        return [n for c, s in zip(crd, shape, strict=True) for n in kept_sizes(c, s)]
    return [product(shape)] if crd is None else []


@st.composite
def slices(draw: st.DrawFn) -> tuple[AnyLayout, Coordinate]:
    layout = draw(st.one_of(layouts(max_size=64), composed_layouts(max_size=64)))
    return layout, coordinates(draw, layout.shape)


@given(slices())
@example((Layout(()), ()))
@example((ComposedLayout(Swizzle(2, 0, 2), 3, Layout((4, (2, 2)), (4, (1, 2)))), (2, (None, 1))))
def test_a_slice_is_the_layout_where_it_is_open(pair: tuple[AnyLayout, Coordinate]) -> None:
    layout, crd = pair
    rest, offset = slice_and_offset(crd, layout)
    assert slice_(crd, layout) == rest and size(rest) * size(dice(crd, layout)) == size(layout)
    if keeps_mode(crd):
        listed = list(crd) if isinstance(crd, tuple) else crd
        assert layout(crd) == layout(listed) == rest
    sizes = kept_sizes(crd, layout.shape)
    assert keeps_mode(crd) == bool(sizes)
    values = []
    for i in range(product(tuple(sizes))):
        digits = []
        for n in sizes:
            digits.append(i % n)
            i //= n
        values.append(layout(fill(crd, layout.shape, digits)) - offset)
    assert table(rest) == values
    assert offset == 0 or isinstance(layout, Layout)


def test_kept_modes_move_up_one_level() -> None:
    layout = Layout(((2, 4), (3, 5)))
    for crd, text, offset in (
        (((None, 1), None), "(2,(3,5)):(1,(8,24))", 2),
        ((None, (None, 2)), "((2,4),3):((1,2),8)", 48),
        ((5, None), "((3,5)):((8,24))", 5),
        ((7, 2), "():()", 23),
        (9, "():()", 9),
        (None, "((2,4),(3,5)):((1,2),(8,24))", 0),
    ):
        rest, found = slice_and_offset(crd, layout)
        assert (str(rest), found) == (text, offset)


@pytest.mark.parametrize("crd", [(1,), (None, (1, None)), (1, None, 2), (-1, None)])
def test_a_coordinate_that_does_not_fit(crd: Any) -> None:
    with pytest.raises(ShapeError):
        slice_and_offset(crd, Layout((4, 8)))


@each(
    ("crd", "error", "word"),
    [
        ((4, 0), ShapeError, "outside of 0 to 3"),
        ((0, -1), ShapeError, "outside of 0 to 7"),
        (32, ShapeError, "outside of 0 to 31"),
        ((0, 0, 0), ShapeError, "does not fit the shape"),
        ((0, (1, 2)), ShapeError, "does not fit the shape 8"),
        ((slice(1, 2), 0), ArgumentTypeError, "slice"),
        (1.0, ArgumentTypeError, "float"),
        (True, ArgumentTypeError, "bool"),
    ],
)
def test_coordinates_are_held_to_the_shape(crd: Any, error: type[LayoutAlgError], word: str) -> None:
    with pytest.raises(error, match=word):
        fit_coordinate(crd, (4, 8), "T")


def test_what_a_call_with_none_gives() -> None:
    layout = Layout((4, 8), (8, 1))
    assert layout(None) is layout and layout(None, None) == layout
    assert layout(None, 0) == layout(None, 3) == layout(None, numpy.int64(3)) == Layout((4,), (8,))
    assert Layout((4, 8), (8, -1))(None, 3) == Layout((4,), (8,))
    assert make_identity_layout((4, 8))(None, 2) == Layout((4,), (ScaledBasis(1, 0),))
    for crd in ((None, 1, 2), (None, (1, 2)), ((None, 1), 2)):
        with pytest.raises(ShapeError, match="does not fit"):
            Layout((4, 8))(*crd)
    for bad in ((None, "x"), (None, 1.5), ["x", 1], [1.5, 2]):
        with pytest.raises(ArgumentTypeError):
            Layout((4, 8))(bad)


def test_lists_are_coordinates() -> None:
    layout = Layout((4, (2, 8)), (16, (8, 1)))
    assert layout([1, [1, 3]]) == layout((1, (1, 3))) == layout(1, [1, 3]) == 27
    assert (layout([numpy.arange(4), [1, 3]]) == layout(numpy.arange(4), (1, 3))).all()
    swizzled = ComposedLayout(Swizzle(2, 0, 3), 0, layout)
    assert swizzled([1, [1, 3]]) == swizzled(1, (1, 3))
    deep: Any = 1
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(ShapeError, match="nested deeper"):
        layout(deep)
