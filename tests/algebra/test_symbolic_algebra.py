"""The algebra in symbols: results for random values against the integers, and refusals."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sympy
from hypothesis import example, given
from hypothesis import strategies as st

import layoutalg
from layoutalg.algebra import complement, logical_divide
from layoutalg.compose import composition
from layoutalg.decide import same_function
from layoutalg.errors import (
    DivisibilityError,
    LayoutAlgError,
    NotInjectiveError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.layout import ComposedLayout, Layout, Swizzle, make_identity_layout, size, with_assumptions
from tests.draws.symbolic_cases import K, M, N, layout, numbers, put, table
from tests.judges.exports import PUBLIC

INTEGERS = (1, 2, 3, 4, 6, 8)


def _operands(name: str, draw: random.Random) -> tuple[Any, ...]:
    if name == "complement":
        a = layout(draw)
        return (a, draw.choice([None, 24, 8 * N * M * K, 4 * K * size(a), 16 * N, 8 * M, 9]))
    if name == "composition":
        kinds = (
            lambda: (layout(draw), layout(draw)),
            lambda: (layout(draw), layout(draw, INTEGERS, (0, 1, 2, 3, 4, 8))),
            lambda: (layout(draw, INTEGERS), layout(draw, INTEGERS, (0, 1, 2, 3, 4, 6, 8))),
        )
        return draw.choice(kinds)()
    if name == "blocked_product":
        return (layout(draw), layout(draw, (*INTEGERS, N), (1, 2, 4, N)))
    if name in ("logical_divide", "logical_product"):
        return (layout(draw), draw.choice([2, 4, Layout(4, 1), Layout(4, 2), Layout(N, 1)]))
    if name in ("upcast", "downcast"):
        return (layout(draw), draw.choice([1, 2, 3, 4, 8]))
    return (layout(draw),)


def _agrees(name: str, got: Any, operands: tuple[Any, ...]) -> bool:
    """Whether the symbolic result, with values put in, is the function of the integer result."""
    try:
        wanted = getattr(PUBLIC, name)(*operands)
    except LayoutAlgError:
        a, b = operands  # only a composition may know more in symbols, as the definition shows
        return name == "composition" and table(got) == [a(b(i)) for i in range(size(b))]
    if not isinstance(wanted, Layout):
        return bool(got == wanted)
    if name == "downcast":  # of several modes of stride 1 any may grow
        a, n = operands
        parts = sorted(x * n + i for x in table(a) for i in range(n)) if size(a) <= 4096 else None
        return size(wanted) == size(got) and (parts is None or sorted(table(got)) == parts)
    return size(wanted) == size(got) and (size(wanted) > 4096 or table(got) == table(wanted))


@pytest.mark.deep(only=("complement", "logical_divide", "logical_product", "blocked_product"))
@pytest.mark.parametrize(
    "name",
    ["coalesce", "filter", "filter_zeros", "complement", "composition", "logical_divide", "logical_product",
     "blocked_product", "upcast", "downcast"],
)  # fmt: skip
@given(st.integers(0, 1 << 32))
@example(0)
def test_results_are_right_for_all_values_that_satisfy_the_assumptions(name: str, seed: int) -> None:
    draw = random.Random(seed)
    operation, operands = getattr(PUBLIC, name), _operands(name, draw)
    for with_conditions in (False, True):
        try:
            result, conditions = (
                with_assumptions(operation, *operands) if with_conditions else (operation(*operands), ())
            )
        except UndecidedError as error:
            assert error.condition is not None or error.budget is not None
            continue
        except (DivisibilityError, NotInjectiveError, ShapeError, UnsupportedError):
            continue
        for _ in range(6):
            v = numbers(draw)
            if all(put(c, v) for c in conditions):
                assert _agrees(name, put(result, v), put(operands, v)), (operands, result, conditions, v)


def test_a_matrix_of_any_size_and_pitch_is_cut_into_tiles_without_a_condition() -> None:
    matrix = Layout((N, M), (K, 1))
    tiles = layoutalg.zipped_divide(matrix, (64, 32))
    assert str(tiles) == "((64,32),(ceiling(n/64),ceiling(m/32))):((k,1),(64*k,32))"
    boxes = layoutalg.zipped_divide(make_identity_layout((N, M)), (64, 32))
    assert boxes((1, 2), (3, 4)) == (193, 130)
    assert boxes(0, (K, 1)) == (64 * K, 32)


def test_static_extents_and_a_symbolic_pitch_have_all_of_the_integer_rules() -> None:
    a = Layout((6, 4), (K, 1))
    assert str(composition(a, Layout(12, 2))) == "(3,4):(2*k,1)"
    assert str(composition(Layout((6, 4), (K, 1)), Layout(2, 9))) == "2:3*k+1"


def test_carries_in_symbols_name_the_value_that_would_be_right() -> None:
    with pytest.raises(UndecidedError) as info:
        composition(Layout((6, 2), (1, K)), Layout((3, 2), (2, 3)))
    assert info.value.condition == sympy.Eq(K + 1, 7)
    assert "unless the value at coordinate 5 is right: Eq(k + 1, 7)" in info.value.message
    exact = composition(Layout((6, 2), (1, 6)), Layout((3, 2), (2, 3)))
    assert exact == Layout((3, 2), (2, 3))


@pytest.mark.parametrize(
    ("a", "b", "condition"),
    [
        (Layout((N, M), (M, 1)), Layout(4), sympy.Le(4, N)),
        (Layout((N, M), (M, 1)), Layout(2, 4), sympy.Eq(sympy.Mod(N, 4), 0)),
        (Layout((8, M), (M, 1)), Layout(N), sympy.Le(N, 8)),
        (Layout((N, M), (M, 1)), Layout((2, 2), (1, 1)), sympy.Le(2, N)),
    ],
)
def test_undecided_compositions_name_the_condition(a: Layout, b: Layout, condition: Any) -> None:
    with pytest.raises(UndecidedError) as info:
        composition(a, b)
    assert info.value.message.startswith(f"composition({a}, {b}): it is not decided whether {condition};")
    assert info.value.condition == condition
    assert with_assumptions(composition, a, b)[1][0] == condition


def test_refusals_in_symbols() -> None:
    with pytest.raises(ShapeError, match="step -n of the second layout is negative"):
        composition(Layout((N, 4)), Layout(3, -N))
    with pytest.raises(UnsupportedError, match="4 does not divide 6; in symbols, steps and extents"):
        composition(Layout((6, N), (N, 1)), Layout(N, 4))
    with pytest.raises(DivisibilityError, match="n is none of 2\\*n"):
        complement(Layout((2, 2), (N, N)), 8 * N)
    with pytest.raises(UnsupportedError, match="stride -1 is negative"):
        complement(Layout(N, -1), 8 * N)
    with pytest.raises(ShapeError, match="must be positive"):
        complement(Layout(N), -N)


def test_rounding_up_beside_a_mode_that_may_vanish_is_a_condition() -> None:
    """For n = 1 the integers leave n:2 out and round 9 up to 9, with it to 10."""
    with pytest.raises(UndecidedError) as info:
        complement(Layout(N, 2), 9)
    assert info.value.condition == sympy.Le(2, N)
    assert size(complement(Layout(1, 2), 9)) == 9
    two = sympy.Symbol("k", integer=True, positive=True) + 1
    assert str(complement(Layout(two, 2), 9)) == "(2,ceiling(9/(2*k+2))):(1,2*k+2)"


def test_sameness_in_symbols() -> None:
    assert same_function(Layout((N, 4)), Layout(4 * N))
    assert with_assumptions(same_function, Layout((N, 4), (1, K)), Layout((M, 4), (1, K))) == (
        True,
        (sympy.Eq(N, M),),
    )
    with pytest.raises(UndecidedError):
        same_function(Layout((N, 4), (1, K)), Layout((N, 4), (1, M)))
    with pytest.raises(UndecidedError, match="coalesce to as many modes"):
        same_function(Layout((N, 4), (1, K)), Layout(4 * N))


def test_a_layout_outside_takes_symbols_inside() -> None:
    composed = ComposedLayout(Layout((4, 8), (8, 1)), 0, Layout(N, 2))
    assert composed(3) == 17
    with pytest.raises(UnsupportedError, match="ComposedLayout under a swizzle of n:2: it has symbols"):
        ComposedLayout(Swizzle(1, 0, 2), 0, Layout(N, 2))


def test_division_of_a_multiple_needs_no_condition() -> None:
    assert str(logical_divide(Layout((64 * N, M), (M, 1)), 64)) == "(64,(n,m)):(m,(64*m,1))"
