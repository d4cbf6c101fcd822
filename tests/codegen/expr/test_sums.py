"""Views of an expression: terms, weights, contents and digits give back what they were taken from."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr, Var, terms, total, trees
from tests.draws.expressions import differ_at, domain, expressions, values

X, Y = Var("x", 300), Var("y", 9)


@given(expressions())
def test_views_give_back_what_they_were_taken_from(node: Expr) -> None:
    env = domain(node)
    table = values(node, env)
    parts, signed, d, c = (
        trees.weights(node),
        trees.signed_terms(node),
        trees.digit(node),
        trees.content(node),
    )
    assert differ_at(node, total(terms(node))) is None
    assert differ_at(node, trees.combination(parts)) is None
    assert all(weight >= 0 for weight in parts.values())
    assert signed[0][1] == 1 and np.array_equal(sum(values(t, env) * sign for t, sign in signed), table)
    assert (table == 0).all() if c == 0 else (table % c == 0).all()
    assert c == 0 or differ_at(node, trees.times(trees.divided(node, c), c)) is None
    assert differ_at(node, trees.times(d.unit, d.weight)) is None
    assert trees.scaled(node) == (node, 1) or differ_at(node, trees.times(*trees.scaled(node))) is None


def test_weights_collect_what_is_equal() -> None:
    assert trees.weights(X * 3 + Y + X + 5 + (Const(1) + Y * 2)) == {X: 4, Y: 3, trees.ONE: 6}
    assert trees.weights((X & 24) + X // 8 % 4 * 2) == {X // 8 % 4: 10}
    assert trees.combination({}) == Const(0)


def test_contents() -> None:
    nodes = X, X * 12, X * 12 + Y * 8, X * 12 + 8, Const(6), Const(0)
    assert [trees.content(e) for e in nodes] == [1, 12, 4, 4, 6, 0]
    assert str(trees.divided(X * 12 + Y * 8 + 4, 2)) == "x * 6 + y * 4 + 2"
    assert [n for n in range(20) if trees.is_power_of_two(n)] == [1, 2, 4, 8, 16]


def test_a_field_of_bits_is_a_digit() -> None:
    assert trees.digit(X & 24) == trees.digit(X // 8 % 4 * 8) == trees.Digit(X, 8, 4, 8)
    assert trees.digit((X & 24) * 5) == trees.Digit(X, 8, 4, 40)
    assert trees.digit(X & 40) == trees.Digit(X & 40, 1, None, 1)  # two fields are no digit
    assert trees.digit(X & 7) == trees.digit(X % 8)


@given(*(st.integers(1, 7) for _ in range(4)))
def test_digits_merge_exactly_where_one_continues_the_other(c: int, d: int, e: int, k: int) -> None:
    low, high = trees.Digit(X, c, d, k), trees.Digit(X, c * d, e, k * d)
    for top in (high, trees.Digit(X, c * d, None, k * d)):
        assert top.continues(low)
        merged, apart = top.merged(low), (top.unit, low.unit)
        whole = apart[0] * top.weight + apart[1] * low.weight
        assert differ_at(trees.times(merged.unit, merged.weight), whole) is None
    assert not high.continues(trees.Digit(Y, c, d, k))
    assert not high.continues(trees.Digit(X, c, d, k + 1))
