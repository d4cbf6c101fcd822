"""Composition with coordinate strides: equal to the definition, or refused with a witness."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.algebra import flat_divide, logical_divide
from layoutalg.compose import axes_of, composition
from layoutalg.decide import same_function
from layoutalg.errors import DivisibilityError, UndecidedError
from layoutalg.layout import ArithTuple, Layout, ScaledBasis, coalesce, make_identity_layout, size
from layoutalg.notation import parse
from layoutalg.testing import layouts

PATHS = (((0,), (1,), (2,)), ((0,), (1, 0), (1, 1)), ((0, 0), (0, 1), (1,)))


@st.composite
def coordinate_layouts(draw: st.DrawFn) -> Layout:
    """A layout of any strategy whose strides move along modes that fit each other."""
    inner = draw(layouts(max_size=64, negative=True))
    paths = draw(st.sampled_from(PATHS))

    def along(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(along, part))
        return ScaledBasis(part, *draw(st.sampled_from(paths)))

    return Layout(inner.shape, along(inner.stride))


def bare(coordinate: Any) -> Any:
    """The coordinate without trailing zeros, which a stride that is not there leaves out."""
    if not isinstance(coordinate, tuple):
        return coordinate
    parts = list(map(bare, coordinate))
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts) or 0


def table(layout: Layout) -> list[Any]:
    return [bare(layout(i)) for i in range(size(layout))]


@given(coordinate_layouts(), layouts(max_size=64))
def test_composition_is_the_definition_or_a_witness(a: Layout, b: Layout) -> None:
    wanted = [bare(a(b(i))) for i in range(size(b))]
    try:
        result = composition(a, b)
    except DivisibilityError as error:
        assert error.witness is not None and 0 <= error.witness < size(b)
        assert str(a) in error.message
    except UndecidedError:
        pass
    else:
        assert table(result) == wanted


@given(coordinate_layouts())
def test_coalesce_text_and_slices_keep_the_function(layout: Layout) -> None:
    assert table(coalesce(layout)) == table(layout)
    assert same_function(layout, coalesce(layout))
    assert parse(str(layout)) == layout and hash(parse(str(layout))) == hash(layout)


@given(coordinate_layouts(), st.sampled_from((1, 2, 3, 4)))
def test_divides_are_those_of_the_indices(layout: Layout, tile: int) -> None:
    indices = logical_divide(Layout(size(layout), 1), tile)
    try:
        result = logical_divide(layout, tile)
    except (DivisibilityError, UndecidedError):
        return
    assert table(result) == [bare(layout(indices(i))) for i in range(size(indices))]


def test_refusals_name_the_layouts_and_the_coordinate() -> None:
    with pytest.raises(DivisibilityError) as several:
        composition(make_identity_layout((4, 8)), Layout(4, 5))
    assert several.value.message == (
        "composition((4,8):(1@0,1@1), 4:5): coordinate 1 of the result is (1,1), a step along several modes "
        "at once, which no scaled basis is"
    )
    assert several.value.witness == 1
    with pytest.raises(DivisibilityError) as carries:
        composition(make_identity_layout((4, 8)), Layout(6, 1))
    assert carries.value.message == (
        "composition((4,8):(1@0,1@1), 6:1): a digit of the first layout carries, so that no layout has the "
        "value (0,1) at coordinate 4 (index 4); the second layout's extents and strides must divide the "
        "first's extents"
    )


def test_flat_divide_of_a_nested_space() -> None:
    layout = make_identity_layout((8, (4, 2)))
    assert str(flat_divide(layout, (2, 4))) == "(2,4,4,2):(1@0,1@0@1,2@0,1@1@1)"


@given(coordinate_layouts())
def test_coordinates_are_numbers_and_back(layout: Layout) -> None:
    """Offsets of the numbers hold, field by field, the coordinates."""
    axes = axes_of(layout, 1 << 20)
    numbers = axes.numbers(layout)
    assert axes.coordinates(numbers) == layout
    for i in range(size(layout)):
        assert bare(sum(axes.along(numbers(i)), ArithTuple())) == bare(layout(i))


def test_one_mode_needs_no_width() -> None:
    layout = Layout((4, 2, 3), (ScaledBasis(3, 0, 1), 0, ScaledBasis(-12, 0, 1)))
    axes = axes_of(layout)
    assert axes.paths == ((0, 1),) and axes.numbers(layout) == Layout((4, 2, 3), (3, 0, -12))
    assert axes.coordinates(axes.numbers(layout)) == layout
    assert len(axes_of(make_identity_layout((2, 2))).paths) == 2 and axes_of(Layout(4)).paths == ()
