"""Views of an expression: terms, weights, contents and digits give back what they were taken from."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr, Var, terms, total
from layoutalg.codegen.expr.trees import (
    ONE,
    Digit,
    combination,
    content,
    digit,
    divided,
    is_power_of_two,
    scaled,
    signed_terms,
    times,
    weights,
)
from tests.expressions import differ_at, domain, expressions, values

X, Y = Var("x", 300), Var("y", 9)


@given(expressions())
def test_terms_add_up(node: Expr) -> None:
    assert differ_at(node, total(terms(node))) is None


@given(expressions())
def test_weights_combine(node: Expr) -> None:
    parts = weights(node)
    assert differ_at(node, combination(parts)) is None
    assert all(weight >= 0 for weight in parts.values())


def test_weights_collect_what_is_equal() -> None:
    assert weights(X * 3 + Y + X + 5 + (Const(1) + Y * 2)) == {X: 4, Y: 3, ONE: 6}
    assert weights((X & 24) + X // 8 % 4 * 2) == {X // 8 % 4: 10}
    assert combination({}) == Const(0)


@given(expressions())
def test_the_content_divides(node: Expr) -> None:
    c = content(node)
    found = np.unique(values(node, domain(node)))
    assert found.tolist() == [0] if c == 0 else (found % c == 0).all()
    if c:
        assert differ_at(node, times(divided(node, c), c)) is None


def test_contents() -> None:
    assert [content(e) for e in (X, X * 12, X * 12 + Y * 8, X * 12 + 8, Const(6), Const(0))] == [
        1,
        12,
        4,
        4,
        6,
        0,
    ]
    assert str(divided(X * 12 + Y * 8 + 4, 2)) == "x * 6 + y * 4 + 2"


@given(expressions())
def test_a_digit_is_its_node(node: Expr) -> None:
    d = digit(node)
    assert differ_at(node, times(d.unit, d.weight)) is None
    assert scaled(node) == (node, 1) or differ_at(node, times(*scaled(node))) is None


def test_a_field_of_bits_is_a_digit() -> None:
    assert digit(X & 24) == digit(X // 8 % 4 * 8) == Digit(X, 8, 4, 8)
    assert digit((X & 24) * 5) == Digit(X, 8, 4, 40)
    assert digit(X & 40) == Digit(X & 40, 1, None, 1)  # two fields are no digit
    assert digit(X & 7) == digit(X % 8)


@given(*(st.integers(1, 7) for _ in range(4)))
def test_digits_merge_exactly_where_one_continues_the_other(c: int, d: int, e: int, k: int) -> None:
    low, high = Digit(X, c, d, k), Digit(X, c * d, e, k * d)
    for top in (high, Digit(X, c * d, None, k * d)):
        assert top.continues(low)
        merged, apart = top.merged(low), (top.unit, low.unit)
        whole = apart[0] * top.weight + apart[1] * low.weight
        assert differ_at(times(merged.unit, merged.weight), whole) is None
    assert not high.continues(Digit(Y, c, d, k))
    assert not high.continues(Digit(X, c, d, k + 1))


def test_powers_of_two() -> None:
    assert [n for n in range(20) if is_power_of_two(n)] == [1, 2, 4, 8, 16]


@given(expressions())
def test_signed_terms_add_up(node: Expr) -> None:
    env, parts = domain(node), signed_terms(node)
    assert parts[0][1] == 1
    added = sum(values(t, env) * sign for t, sign in parts)
    assert np.array_equal(added, values(node, env))
