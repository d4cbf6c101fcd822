"""IntTuples: trees of integers, and coordinates read at any depth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ShapeError
from layoutalg.layout import (
    MAX_DEPTH,
    IntTuple,
    congruent_trees,
    coordinate_at,
    flatten_tree,
    index_at,
    normalize,
    product,
    to_text,
    unflatten_tree,
)
from layoutalg.layout.int_tuple import compatible_trees, prefix_product, tree_depth, weakly_congruent_trees
from layoutalg.testing import int_tuples, shapes
from tests.sweeps import each


def nested(levels: int) -> IntTuple:
    value: IntTuple = 1
    for _ in range(levels):
        value = (value,)
    return value


@given(int_tuples())
def test_flatten_and_unflatten_are_inverse(tree: IntTuple) -> None:
    flat = flatten_tree(tree)
    assert unflatten_tree(flat, tree) == tree
    assert product(tree) == math.prod(flat)
    assert congruent_trees(tree, tree) and weakly_congruent_trees(tree, tree)
    assert to_text(tree) == str(tree).replace(" ", "").replace(",)", ")")


@given(shapes(), st.integers(0, 600))
def test_a_coordinate_is_the_digits_of_an_index(shape: IntTuple, index: int) -> None:
    """The last digit is not reduced, so every index comes back, inside the shape or past it."""
    coordinate = coordinate_at(index, shape)
    assert congruent_trees(coordinate, shape)
    weight = index
    for digit, extent in zip(flatten_tree(coordinate)[:-1], flatten_tree(shape)[:-1], strict=True):
        assert digit == weight % extent
        weight //= extent
    assert flatten_tree(coordinate)[-1] == weight
    if all(s > 1 for s in flatten_tree(shape)):
        assert index_at(coordinate, shape) == index


@given(shapes())
def test_prefix_products_are_compact(shape: IntTuple) -> None:
    offsets = {index_at(i, shape, prefix_product(shape)) for i in range(product(shape))}
    assert offsets == set(range(product(shape)))


def test_a_coordinate_stops_at_any_depth() -> None:
    shape: IntTuple = ((2, 4), 8)
    assert index_at(47, shape) == index_at((7, 5), shape) == index_at(((1, 3), 5), shape) == 47


def test_arrays_and_symbols_run_through() -> None:
    import numpy as np
    import sympy

    x = np.arange(64)
    shape, stride = ((2, 4), 8), ((1, 16), 2)
    assert (index_at(x, shape, stride) == [index_at(i, shape, stride) for i in x]).all()
    n = sympy.Symbol("n", integer=True, nonnegative=True)
    assert index_at((n, 3), (4, 8), (8, 1)) == 8 * n + 3


@each(
    ("a", "b", "same", "weak", "fits"),
    [
        (24, (4, 6), False, True, True),
        ((4, 6), ((2, 2), 6), False, True, True),
        ((4, 6), 24, False, False, False),
        ((4, 6), (6, 4), True, True, False),
        ((4, (2, 3)), (4, 6), False, False, False),
        ((), (), True, True, True),
        (1, (), False, True, True),
    ],
)
def test_three_ways_to_fit(a: IntTuple, b: IntTuple, same: bool, weak: bool, fits: bool) -> None:
    assert (congruent_trees(a, b), weakly_congruent_trees(a, b), compatible_trees(a, b)) == (same, weak, fits)


def test_numpy_integers_become_int() -> None:
    import numpy as np

    value = normalize((np.int64(4), (np.uint8(2), 3)))
    assert value == (4, (2, 3)) and all(type(v) is int for v in flatten_tree(value))


@each("bad", [True, 2.0, "4", None, [4.0], (4, (False,)), (1, 2.5)])
def test_other_leaves_are_refused(bad: object) -> None:
    with pytest.raises(ArgumentTypeError):
        normalize(bad)


def test_numpy_bool_is_refused() -> None:
    import numpy as np

    with pytest.raises(ArgumentTypeError, match="bool"):
        normalize(np.bool_(True))


def test_deep_nesting_is_refused_by_name() -> None:
    assert tree_depth(normalize(nested(MAX_DEPTH))) == MAX_DEPTH
    for levels in (MAX_DEPTH + 1, 1000):
        with pytest.raises(ShapeError, match="nested deeper than 64 levels"):
            normalize(nested(levels))


@each(
    ("crd", "error"),
    [
        (-1, ShapeError),
        ((1, -2), ShapeError),
        ((1, 2, 3), ShapeError),
        (((1, 1), 0), ShapeError),
        (1.0, ArgumentTypeError),
        (True, ArgumentTypeError),
        ("1", ArgumentTypeError),
        (None, ArgumentTypeError),
    ],
)
def test_coordinates_that_do_not_fit(crd: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        index_at(crd, (4, 8))


def test_unflatten_counts() -> None:
    with pytest.raises(ShapeError, match=r"2 leaves do not fit the profile \(\(0,0\),0\)"):
        unflatten_tree((1, 2), ((0, 0), 0))
