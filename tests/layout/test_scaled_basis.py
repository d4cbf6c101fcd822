"""Scaled bases and coordinates that add: arithmetic, text, refusals, and layouts with such strides."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from layoutalg.algebra import local_tile, logical_divide, slice_, zipped_divide
from layoutalg.compose import composition
from layoutalg.decide import cosize, same_function
from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, UnsupportedError
from layoutalg.layout import (
    ArithTuple,
    ComposedLayout,
    Layout,
    ScaledBasis,
    Swizzle,
    coalesce,
    depth,
    filter,
    make_basis_like,
    make_identity_layout,
    rank,
    size,
    slice_and_offset,
    to_text,
)
from layoutalg.limits import Most
from layoutalg.notation import parse
from tests.sweeps import each

E0, E1, E10, E11 = ScaledBasis(1, 0), ScaledBasis(1, 1), ScaledBasis(1, 1, 0), ScaledBasis(1, 1, 1)


@each(
    ("modes", "text", "coordinate"),
    [
        ((0,), "5@0", (5,)),
        ((1,), "5@1", (0, 5)),
        ((0, 0), "5@0@0", ((5,),)),
        ((0, 1), "5@1@0", ((0, 5),)),
        ((1, 0), "5@0@1", (0, (5,))),
        ((1, 1), "5@1@1", (0, (0, 5))),
        ((2, 0, 1), "5@1@0@2", (0, 0, ((0, 5),))),
    ],
)
def test_text_and_coordinate_are_those_of_the_table_in_the_cute_documentation(
    modes: tuple[int, ...], text: str, coordinate: tuple[Any, ...]
) -> None:
    basis = ScaledBasis(5, *modes)
    assert (str(basis), basis.coordinate()) == (text, coordinate)
    assert repr(basis) == f"ScaledBasis(5, {', '.join(map(str, modes))})"
    assert parse(f"2:{text}") == Layout(2, basis)


def test_the_linear_combination_of_the_cute_documentation() -> None:
    """2*2@1@0 + 3*1@1 + 4*5@1 + 7*1@0@0 = ((7,4),23), from 0z_tma_tensors.md."""
    total = 2 * ScaledBasis(2, 0, 1) + 3 * E1 + 4 * ScaledBasis(5, 1) + 7 * ScaledBasis(1, 0, 0)
    assert total == ((7, 4), 23)
    assert str(total) == "((7,4),23)"
    assert repr(total) == "ArithTuple(((7, 4), 23))"


def test_zero_is_one_element() -> None:
    zero = ScaledBasis(0, 3)
    assert zero == 0 == ScaledBasis(0, 1) and not zero and hash(zero) == hash(0)
    assert 0 * E0 == 0 and E0 + 0 == E0 == 0 + E0
    assert ScaledBasis(1, 0) != ScaledBasis(1, 1) and ScaledBasis(1, 0) != 1 and E0 != (1,)


def test_multiples_of_one_basis_add_to_a_multiple() -> None:
    assert ScaledBasis(3, 1) == E1 + 2 * E1
    assert sum([E0, E1, E0]) == (2, 1)


def test_coordinates_add_leaf_by_leaf_and_scale() -> None:
    one = ArithTuple((1, (2, 3)))
    other = (4, (5,), 6)
    assert one + other == (5, (7, 3), 6) == other + one
    assert one + E11 == (1, (2, 4)) and E11 + one == one + E11
    assert one * 2 == 2 * one == (2, (4, 6))
    assert isinstance((one * 2)[1], ArithTuple)
    assert one + 0 == one
    assert pickle.loads(pickle.dumps(one)) == one


@each(
    "add",
    [
        lambda: E0 + 3,
        lambda: 3 + E0,
        lambda: E1 + E10,
        lambda: ArithTuple((1, 2)) + 3,
        lambda: ArithTuple((1, 2)) + ArithTuple((1, (1, 1))),
        lambda: np.int64(3) + E0,
    ],
)
def test_a_number_and_a_tuple_do_not_add(add: Any) -> None:
    with pytest.raises(ShapeError, match="do not add: where one has a number, the other has a tuple"):
        add()


@each("factor", [1.5, True, "2", None, E0, (1, 2), [2]])
def test_strides_are_not_multiplied_by_what_is_no_number(factor: Any) -> None:
    for value in (E0, ArithTuple((1, 2))):
        with pytest.raises(TypeError):
            value * factor
        with pytest.raises(TypeError):
            factor * value


@each(
    ("parts", "error", "word"),
    [
        *(
            (parts, ArgumentTypeError, "ScaledBasis has")
            for parts in ((1.5, 0), (True, 0), (1, 0.0), (1, True), ("1", 0), (None, 0), (E0, 0))
        ),
        *(
            ((1, *path), ShapeError, "1 to 64 modes")
            for path in ((), (-1,), (0, -2), (Most.DEPTH.number,), (0,) * (Most.DEPTH.number + 1))
        ),
    ],
)
def test_what_is_no_basis(parts: tuple[Any, ...], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        ScaledBasis(*parts)


def test_numpy_factors() -> None:
    basis = ScaledBasis(np.int64(3), np.int32(1))  # type: ignore[arg-type]
    assert type(basis.value) is int and type(basis.modes[0]) is int
    assert np.int64(3) * E1 == E1 * np.int64(3) == ScaledBasis(3, 1)
    first, second = make_identity_layout((4, 8))(np.arange(4), np.arange(4) + 4)
    assert first.tolist() == [0, 1, 2, 3] and second.tolist() == [4, 5, 6, 7]
    rows, columns = make_identity_layout((4, 8))(np.arange(32))
    assert rows.tolist() == [i % 4 for i in range(32)] and columns.tolist() == [i // 4 for i in range(32)]


def test_basis_like() -> None:
    assert make_basis_like(7) == 1
    assert to_text(make_basis_like((4, (2, 8), ()))) == "(1@0,(1@0@1,1@1@1),())"  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4,), (4, 8), (1, 8, 1), ((2, 3), 4), ((1, 2), (3, (1, 2)))])
def test_the_identity_sends_every_coordinate_to_itself(shape: Any) -> None:
    from layoutalg.layout import coordinate_at, product

    layout = make_identity_layout(shape)
    for i in range(product(shape)):
        crd = coordinate_at(i, shape)
        assert layout(i) == crd
        assert layout(*crd) == crd or len(shape) == 1
        assert isinstance(layout(i), ArithTuple)
    assert make_identity_layout(6) == Layout(6)


def test_a_coordinate_is_an_argument() -> None:
    data = Layout(((2, 4), 8), ((1, 16), 2))
    there = make_identity_layout(((2, 4), 8))
    assert [data(there(i)) for i in range(64)] == [data(i) for i in range(64)]


def test_size_rank_depth_slice_text_and_equality() -> None:
    layout = make_identity_layout((8, (4, 2)))
    assert (size(layout), rank(layout), depth(layout)) == (64, 2, 2)
    assert str(layout) == "(8,(4,2)):(1@0,(1@0@1,1@1@1))"
    assert parse(str(layout)) == layout
    assert layout[1] == Layout((4, 2), (E10, E11))
    rest, offset = slice_and_offset((3, (None, 1)), layout)
    assert (str(rest), str(offset)) == ("(4):(1@0@1)", "(3,(0,1))")
    assert str(slice_((None, (2, None)), layout)) == "(8,2):(1@0,1@1@1)"


def test_coalesce_filter_and_sameness() -> None:
    layout = Layout((2, 4, 3, 2), (E0, 2 * E0, 0, E1))
    assert str(coalesce(layout)) == "(8,3,2):(1@0,0,1@1)"
    assert str(filter(layout)) == "(8,2):(1@0,1@1)"
    assert same_function(layout, coalesce(layout))
    assert not same_function(make_identity_layout((4, 4)), Layout((4, 4), (E1, E0)))


def test_divides_of_a_coordinate_tensor_give_the_boxes() -> None:
    tensor = make_identity_layout((128, 64))
    boxes = zipped_divide(tensor, (32, 8))
    assert all(boxes(0, (i, j)) == (32 * i, 8 * j) for i in range(4) for j in range(8))
    tile, offset = local_tile(tensor, (32, 8), (1, 2))
    assert str(offset) == "(32,16)" and tile(3, 4) + offset == (35, 20)
    assert str(logical_divide(make_identity_layout((16,))[0], 4)) == "(4,4):(1@0,4@0)"


def test_a_layout_that_turns_coordinates_around() -> None:
    turned = Layout((4, 5), (E1, E0))
    assert [[turned(i, j) for j in range(5)] for i in range(4)] == [
        [(j, i) for j in range(5)] for i in range(4)
    ]


@pytest.mark.parametrize(
    ("stride", "why"),
    [
        ((E0, 3), "mixes the integer 3 with scaled bases"),
        ((3, -3, E0), "mixes"),
        ((E1, E10), "1@1 and 1@0@1 do not add"),
        ((ScaledBasis(1, 1, 0, 2), E10), "do not add, since a mode of a coordinate is either"),
    ],
)
def test_strides_that_do_not_add_are_refused(stride: Any, why: str) -> None:
    shape = (4, 8, 4)[: len(stride)]
    with pytest.raises(ShapeError, match=why):
        Layout(shape, stride)
    with pytest.raises(ParseError, match=why):
        parse(f"{to_text(shape)}:{to_text(stride)}")


def test_zero_strides_go_with_bases() -> None:
    layout = Layout((4, 3), (E0, 0))
    assert [layout(i) for i in (0, 3, 5)] == [(0,), (3,), (1,)]


def test_shapes_have_no_bases() -> None:
    with pytest.raises(ArgumentTypeError, match="shape has"):
        Layout(E0)  # type: ignore[arg-type]


IDENTITY = make_identity_layout((4, 8))


def test_swizzles_and_second_operands_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="under a swizzle of"):
        composition(Swizzle(1, 0, 2), IDENTITY)
    with pytest.raises(UnsupportedError, match="gives coordinates"):
        composition(Layout(32), IDENTITY)
    with pytest.raises(UnsupportedError, match="coordinates are not indices"):
        ComposedLayout(Layout(32), 0, IDENTITY)
    with pytest.raises(UnsupportedError, match="cosize"):
        cosize(composition(IDENTITY, ComposedLayout(Swizzle(1, 0, 2), 0, Layout(32))))


def test_a_swizzle_inside_is_exact() -> None:
    swizzled = ComposedLayout(Swizzle(1, 0, 2), 0, Layout(32))
    result = composition(IDENTITY, swizzled)
    assert [result(i) for i in range(32)] == [IDENTITY(swizzled(i)) for i in range(32)]


def test_importing_the_library_does_not_import_sympy() -> None:
    code = (
        "import sys, layoutalg as la; x = la.make_identity_layout((4, 8)); la.zipped_divide(x, (2, 2))(3);"
        "la.coalesce(la.parse('(2,4):(1@0,2@0)')); str(x); print('sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
