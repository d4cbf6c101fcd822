"""Nodes of index expressions: what operators build and refuse, identity, and the text of a node."""

from __future__ import annotations

import ast
import copy
import operator
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from layoutalg.codegen import expr
from layoutalg.codegen.expr.facts import Facts
from layoutalg.errors import ArgumentTypeError, IRError
from tests.draws.expressions import domain, expressions, values
from tests.sweeps import each

I, J, N = expr.Var("i", 8), expr.Var("j", 12, "unroll"), expr.Var("n", 100, "param", 1)  # noqa: E741

# --- building ------------------------------------------------------------------------------------------

OPERATORS: list[tuple[type, Callable[[Any, Any], Any]]] = [
    (expr.Add, operator.add), (expr.Mul, operator.mul), (expr.FloorDiv, operator.floordiv),
    (expr.Mod, operator.mod), (expr.Xor, operator.xor), (expr.And, operator.and_), (expr.Or, operator.or_),
    (expr.Lt, operator.lt), (expr.Le, operator.le),
]  # fmt: skip


@each(("kind", "apply"), OPERATORS)
def test_an_operator_builds_its_node(kind: type, apply: Callable[[Any, Any], Any]) -> None:
    assert apply(I, N) == kind(I, N)
    assert apply(I, 3) == apply(I, np.int64(3)) == kind(I, expr.Const(3))
    if apply(5, 3) == apply(3, 5):
        assert apply(5, I) == kind(expr.Const(5), I)
    with pytest.raises(ArgumentTypeError, match=r"1\.5 is a float"):
        apply(I, 1.5)


def test_comparisons_turn_around_and_equality_is_a_method() -> None:
    assert (I > 3) == expr.Lt(expr.Const(3), I) and (I >= 3) == expr.Le(expr.Const(3), I)
    assert I.eq(3) == expr.Eq(I, expr.Const(3))
    assert (expr.Var("i", 8) == I) is True and (expr.Var("i", 9) == I) is False  # structure, not a predicate
    assert (I == 3) is False


def refused() -> list[tuple[Callable[[], object], type[Exception], str]]:
    """What makes no node, and what is said of it."""
    calls: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: expr.as_expr(True), ArgumentTypeError, "True is a bool"),
        (lambda: expr.as_expr(-1), IRError, "constant -1: index values are >= 0"),
        (lambda: bool(I < 3), IRError, "'i < 3' is decided when the kernel runs"),
        (lambda: J - I, IRError, r"'j' - 'i' can be below 0: from at least 0 up to 7 are taken; minus\(a"),
        (lambda: 5 - I, IRError, "'5' - 'i' can be below 0"),
        (lambda: I - 1.5, ArgumentTypeError, r"1\.5 is a float"),  # type: ignore[operator]
        (lambda: expr.Var("v", 19, "let", 4, 16, 3), IRError, r"v in \[4, 19\) has no multiple of 16 plus 3"),
    ]
    calls += [(partial(operator.lshift, I, n), IRError, "shift amount") for n in (-1, 1.5, I)]
    calls += [
        (partial(kind, I, d), IRError, "division by zero")
        for d in (J, expr.Const(0), J % 2) for kind in (expr.FloorDiv, expr.Mod)
    ]  # fmt: skip
    for extent, lo, multiple in ((0, 0, 1), (8, 8, 1), (8, -1, 1), (8, 0, 0), (8, 5, 16), (16, 1, 16)):
        what = "no value" if multiple == 1 else f"no multiple of {multiple}"
        calls.append((partial(expr.Var, "v", extent, "let", lo, multiple), IRError, what))
    return calls


@each(("make", "kind", "said"), refused)
def test_what_makes_no_node_is_refused(make: Callable[[], object], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        make()


def test_a_difference_needs_a_proof_that_it_is_not_below_zero() -> None:
    assert expr.Minus(expr.Const(11), I) == 11 - I and expr.Minus(J + 7, I) == J + 7 - I
    assert expr.Minus(expr.Const(11), I).exact and not expr.Minus(I, J).exact
    assert (N - 1).facts == Facts(0, 98, 1, 0, 127, 0)
    assert (expr.Const(20) - I - 13) == expr.Minus(expr.Minus(expr.Const(20), I), expr.Const(13))


def test_a_range_starts_and_ends_on_its_multiple_or_at_an_offset_from_one() -> None:
    assert expr.Var("v", 100, "let", 5, 16).facts == Facts(16, 96, 16, 0, 112, 0)
    assert expr.Var("v", 100, "let", 5, 16, 3).facts == Facts(19, 99, 16, 3, 115, 3)
    assert expr.Var("v", 17, "let", 1, 16).facts.is_constant
    assert expr.Var("v", 20, "let", 5, 16, 3).facts.is_constant


def test_an_extent_may_be_an_expression() -> None:
    block, tiles = expr.Var("b", (N + 31) // 32 * N, "block"), expr.Var("t", N * 4, "block", 0, 4)
    assert block.facts.hi == 4 * 99 - 1
    assert (block // N).facts.hi == 3  # a block index over rows of n blocks: v // n < (n + 31) // 32
    assert (block // ((N + 31) // 32)).facts.hi == 98
    assert (block // (N + 1)).facts.hi == (4 * 99 - 1) // 2
    assert (tiles // expr.as_expr(4)).facts.hi == 98 and (tiles // 2).facts.divisible_by(2)


# --- identity ------------------------------------------------------------------------------------------


@given(expressions())
def test_equal_structure_is_equal_and_hashes_alike(node: expr.Expr) -> None:
    for other in (copy.deepcopy(node), pickle.loads(pickle.dumps(node))):
        assert other == node and hash(other) == hash(node) and other.facts == node.facts
    assert node != node + 1 and node != "x"


def test_an_operator_is_part_of_a_node_s_identity() -> None:
    nodes = {kind(I, N) for kind, _ in OPERATORS} | {expr.Shl(I, 1), expr.Shr(I, 1)}
    assert len(nodes) == len(OPERATORS) + 2


# --- text ----------------------------------------------------------------------------------------------

PYTHON: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitXor: operator.xor, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq,
}  # fmt: skip


def meaning(tree: ast.expr, env: dict[str, Any]) -> Any:
    """What Python's grammar makes of a text on arrays or on nodes, without running it."""

    def inner(part: ast.expr) -> Any:
        return meaning(part, env)

    match tree:
        case ast.Constant(int(value)):
            return value
        case ast.Name(name):
            return env[name]
        case ast.BinOp(left, op, right):
            return PYTHON[type(op)](inner(left), inner(right))
        case ast.Compare(left, [ast.Eq()], [right]) if isinstance(left := inner(left), expr.Expr):
            return left.eq(inner(right))
        case ast.Compare(left, [op], [right]):
            found = PYTHON[type(op)](inner(left), inner(right))
            return found if isinstance(found, expr.Expr) else found * 1
        case ast.Call(ast.Name("max"), [ast.BinOp(x, ast.Sub(), y), _], []):
            return expr.minus(inner(x), inner(y))
        case ast.IfExp(test, body, orelse):
            parts = inner(test), inner(body), inner(orelse)
            return expr.Select(*parts) if isinstance(parts[0], expr.Expr) else np.where(*parts)
    raise AssertionError(f"not the text of an index expression: {ast.unparse(tree)}")


@given(expressions())
def test_the_text_means_the_expression(node: expr.Expr) -> None:
    env = domain(node)
    named = {v.name: x for v, x in env.items()}
    read = meaning(ast.parse(expr.render(node), mode="eval").body, named)
    assert (np.broadcast_to(read, values(node, env).shape) == values(node, env)).all()


@each(
    "text",
    [
        "(i + 1) * 2 ^ i >> 1", "i // (j + 1) % 3", "i * (j * 3)", "(i < 4) & (j + 1 <= 7)",
        "(i & 1) == 0", "(i if i < 4 else j) + 1", "(i << 3) + j", "20 - (i - 0)",
        "(20 - i - 1) * 2 + (30 - j)", "max(i - (j + 1), 0) * 2", "max((i ^ 1) - (i << 2), 0)",
    ],
)  # fmt: skip
def test_text_has_the_parentheses_it_needs_and_no_more(text: str) -> None:
    built = meaning(ast.parse(text, mode="eval").body, {"i": I, "j": J})
    assert str(built) == expr.render(built) == text


def test_repr_is_a_constructor() -> None:
    for node in (I, expr.Const(3), I + 1, 9 - I, expr.Select(I < 3, I, J), I << 2):
        assert construct(ast.parse(repr(node), mode="eval").body) == node


def construct(tree: ast.expr) -> Any:
    match tree:
        case ast.Call(ast.Name(kind), [], keywords):
            return getattr(expr, kind)(**{k.arg: construct(k.value) for k in keywords if k.arg})
        case ast.Constant(value):
            return value
    raise AssertionError(ast.unparse(tree))
