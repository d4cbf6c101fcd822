"""Periodic functions and residue sets: shortest form, equality, text, LaTeX, and agreement with sympy."""

from __future__ import annotations

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ShapeError
from layoutalg.symbolic import Periodic, ResidueSet
from tests.sweeps import each

N = sympy.Symbol("n")
TABLES = st.builds(
    lambda values, repeats, exceptions: (tuple(values * repeats), tuple(exceptions.items())),
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.integers(1, 4),
    st.dictionaries(st.integers(0, 20), st.integers(0, 2), max_size=3),
)


@given(TABLES)
def test_reduction_keeps_the_function(drawn: tuple[tuple[int, ...], tuple[tuple[int, int], ...]]) -> None:
    values, exceptions = drawn
    table, plain = Periodic(N, values, exceptions), {n: values[n % len(values)] for n in range(60)}
    plain |= dict(exceptions)
    assert {n: table.at(n) for n in range(60)} == plain
    assert Periodic(N, values * 3, exceptions) == table
    assert all(table.values != table.values[:p] * (len(table.values) // p) for p in _divisors(table.values))


def _divisors(values: tuple[int, ...]) -> list[int]:
    return [p for p in range(1, len(values)) if len(values) % p == 0]


@given(TABLES)
def test_the_set_and_its_sympy_form_agree(
    drawn: tuple[tuple[int, ...], tuple[tuple[int, int], ...]],
) -> None:
    table = Periodic(N, *drawn)
    found = table.where(lambda v: v == 1)
    condition, function = found.condition(), table.piecewise()
    for n in range(25):
        assert bool(condition.subs(N, n)) == found.holds(n) == (table.at(n) == 1)
        assert function.subs(N, n) == table.at(n)
    assert found.values(3, 20) == tuple(n for n in range(3, 20) if table.at(n) == 1)


@each(
    ("values", "exceptions", "text", "tex"),
    [
        ((0, 1), {}, "n odd", r"n \bmod 2 = 1"),
        ((1, 0), {}, "n even", r"n \bmod 2 = 0"),
        ((1,), {}, "every n", r"\text{True}"),
        ((0,), {}, "no n", r"\text{False}"),
        ((0,), {7: 1}, "n = 7", "n = 7"),
        ((1,), {7: 0, 9: 0}, "every n, but not n in {7, 9}", None),
        ((0, 0, 0, 1) * 2, {}, "n mod 4 = 3", r"n \bmod 4 = 3"),
        ((0, 1, 1, 0), {}, "n mod 4 in {1, 2}", r"n \bmod 4 \in \left\{1, 2\right\}"),
        ((0, 1), {0: 1, 3: 0}, "n odd, or n = 0, but not n = 3", None),
    ],
)
def test_one_line_and_latex(
    values: tuple[int, ...], exceptions: dict[int, int], text: str, tex: str | None
) -> None:
    table = tuple(bool(v) for v in values)
    found = ResidueSet(Periodic(N, table, tuple((n, bool(v)) for n, v in exceptions.items())))
    assert str(found) == text
    assert sympy.latex(found) == (sympy.latex(found.condition()) if tex is None else tex)


def test_equal_sets_are_equal() -> None:
    one = ResidueSet(Periodic(N, (False, True) * 16, ((3, True),)))
    other = ResidueSet(Periodic(N, (False, True)))
    assert one == other and hash(one) == hash(other)
    assert one != ResidueSet(Periodic(sympy.Symbol("m"), (False, True)))


def test_below_the_least_value_nothing_is_known() -> None:
    table = Periodic(N, (1, 2), ((0, 9), (4, 7)), 2)
    assert table.exceptions == ((4, 7),)
    with pytest.raises(ShapeError, match="n = 1: the answer is for n >= 2"):
        table.at(1)
    assert table.where(lambda v: v == 1).values(0, 9) == (2, 6, 8)


def test_a_set_begins_at_its_smallest_member() -> None:
    odd, some = (
        ResidueSet(Periodic(N, (False, True), (), 33), 1),
        Periodic(N, (False, True), ((1, False),), 1),
    )
    assert str(odd) == "n odd from n = 33 on" and odd.smallest == 33 and odd.begins
    assert odd == ResidueSet(Periodic(N, (False, True), tuple((n, False) for n in range(1, 33, 2)), 1))
    assert ResidueSet(some) == ResidueSet(Periodic(N, (False, True), (), 3), 1) and not ResidueSet(some).but
    assert [n for n in range(1, 40) if odd.holds(n)] == [33, 35, 37, 39] == list(odd.values(0, 40))
    with pytest.raises(ShapeError, match="n >= 1"):
        odd.holds(0)
    assert [bool(odd.condition().subs(N, n)) for n in (31, 33)] == [False, True]
    assert (odd & ResidueSet(Periodic(N, (True, False, False), (), 36), 0)).smallest == 39
    never = ResidueSet(Periodic(N, (False,)), 0)
    assert never.smallest is None and (odd & never).smallest is None and str(odd & never) == "no n"


def test_refused_values_are_nan() -> None:
    assert Periodic(N, (None, 7)).piecewise().subs(N, 2) is sympy.nan


def test_values_are_integers() -> None:
    with pytest.raises(ArgumentTypeError, match="an integer is needed"):
        Periodic(sympy.Symbol("n"), (5, 7)).at(1.5)  # type: ignore[arg-type]
