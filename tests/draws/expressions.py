"""Helpers of the expression tests: whole domains, equality over them, random expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from layoutalg.codegen.expr import Const, Eq, Expr, Le, Lt, Minus, Select, Var, evaluate, variables

Environment = Mapping[Var, NDArray[np.int64]]


def possible(var: Var) -> NDArray[np.int64]:
    """Every value a variable can have."""
    return np.arange(var.facts.lo, var.facts.hi + 1, var.multiple, dtype=np.int64)


def domain(*nodes: Expr) -> Environment:
    """Every combination of the values of all variables, as broadcastable arrays."""
    names = sorted(frozenset().union(*map(variables, nodes)), key=lambda v: v.name)
    return dict(zip(names, np.meshgrid(*map(possible, names), indexing="ij", sparse=True), strict=True))


def values(node: Expr, env: Environment) -> NDArray[np.int64]:
    """The value at every point of a domain."""
    shape = np.broadcast_shapes((), *(v.shape for v in env.values()))
    return np.broadcast_to(np.asarray(evaluate(node, env), dtype=np.int64), shape)


def differ_at(a: Expr, b: Expr) -> dict[str, int] | None:
    """A point of the whole domain where two expressions differ, or None."""
    env = domain(a, b)
    wrong = np.argwhere(values(a, env) != values(b, env))
    if not len(wrong):
        return None
    return {v.name: int(possible(v)[i]) for v, i in zip(env, wrong[0], strict=True)}


def occurrences(node: Expr) -> int:
    """How often a variable is read."""
    return 1 if isinstance(node, Var) else sum(map(occurrences, node.children))


SMALL_VARIABLES = (
    Var("a", 8), Var("b", 12, "unroll"), Var("c", 20, "loop", 1), Var("d", 40, "let", 0, 8),
    Var("e", 7, "param", 3), Var("f", 24, "let", 3, 8, 3),
)  # fmt: skip
CONSTANTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 28, 31, 32, 33, 48, 56, 63, 64, 68)


def expressions(leaves: tuple[Var, ...] = SMALL_VARIABLES, max_leaves: int = 12) -> st.SearchStrategy[Expr]:
    """Index expressions in every operator; divisors are constants or variables that are never 0."""
    constant = st.sampled_from(CONSTANTS)
    divisor = st.one_of(constant, st.sampled_from([v for v in leaves if v.facts.lo > 0]))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        def build(make: Any, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Expr]:
            return st.builds(make, *parts)

        operand = st.one_of(inner, constant.map(Const))
        compared = st.one_of(*(build(kind, inner, operand) for kind in (Lt, Le, Eq)))
        predicate = st.one_of(
            compared,
            build(lambda p, q: p & q, compared, compared),
            build(lambda p, q: p | q, compared, compared),
        )
        return st.one_of(
            build(lambda a, b: a + b, operand, inner),
            build(Minus, operand, inner),
            build(Minus, inner, operand),
            build(lambda a, c: a * c, inner, constant),
            build(lambda a, b: a * b, inner, inner),
            build(lambda a, c: a // c, inner, divisor),
            build(lambda a, c: a % c, inner, divisor),
            build(lambda a, b: a ^ b, inner, operand),
            build(lambda a, b: a & b, operand, inner),
            build(lambda a, b: a | b, inner, operand),
            build(lambda a, n: a << n, inner, st.integers(0, 4)),
            build(lambda a, n: a >> n, inner, st.integers(0, 4)),
            build(Select, predicate, inner, operand),
            predicate,
        )

    return st.recursive(st.sampled_from(leaves), grow, max_leaves=max_leaves)
