"""The driver: bottom-up, sums whole, each subexpression once, and loud about rules that chase each other."""

from __future__ import annotations

import pytest

from layoutalg.codegen.expr import Add, Const, Expr, Mul, Var, Xor, terms
from layoutalg.codegen.expr.rewrite import REWRITES_LIMIT, Rule, Rules, rewrite
from layoutalg.errors import IRError

X, Y = Var("x", 8), Var("y", 8)


def rule(name: str, *pairs: tuple[Expr, Expr]) -> Rule:
    return Rule(name, dict(pairs).get)


def test_operands_come_first_and_rules_in_order() -> None:
    seen: list[str] = []

    def look(node: Expr) -> Expr | None:
        seen.append(str(node))
        return None

    first = rule("first", (X * 2, X))
    assert rewrite((X * 2) ^ Y, Rules([first, rule("second", (X * 2, Y)), Rule("look", look)])) == Xor(X, Y)
    assert seen == ["x", "2", "y", "x ^ y"]


def test_a_rewrite_is_rewritten_again() -> None:
    chain = rule("chain", (X * 2, X * 3), (X * 3, X * 4))
    assert rewrite(X * 2 ^ X * 3, Rules([chain])) == Xor(X * 4, X * 4)


def test_a_sum_is_seen_whole() -> None:
    seen: list[list[str]] = []

    def look(node: Expr) -> Expr | None:
        if isinstance(node, Add):
            seen.append([str(t) for t in terms(node)])
        return None

    rewrite(X + Y * 2 + X * 3 + 1, Rules([Rule("look", look)]))
    assert seen == [["x", "y * 2", "x * 3", "1"]]


def test_an_equal_subexpression_is_done_once() -> None:
    seen: list[str] = []

    def look(node: Expr) -> Expr | None:
        seen.append(str(node))
        return None

    shared = (X * 2) ^ Y
    rewrite((shared * 3) ^ (shared // 2) ^ (shared % 4), Rules([Rule("look", look)]))
    assert seen.count("x * 2 ^ y") == 1


def test_rules_that_undo_each_other_are_named() -> None:
    """A table that loops is a mistake to be told, not an answer to be guessed."""
    there, back = rule("there", (X * 2, X * 3)), rule("back", (X * 3, X * 2))
    with pytest.raises(IRError, match=f"still changes after {REWRITES_LIMIT} rewrites, by '(there|back)'"):
        rewrite(Mul(X, Const(2)), Rules([there, back]))


def test_a_rule_that_changes_nothing_is_named() -> None:
    with pytest.raises(IRError, match=r"'x' still changes after .* by 'idle'"):
        rewrite(X, Rules([rule("idle", (X, X))]))


def test_nothing_to_do() -> None:
    node = (X + 3) * Y
    assert rewrite(node, Rules([])) is node
