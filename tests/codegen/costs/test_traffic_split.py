"""A Split says of an expression what is so, at every point and for every value of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.codegen.costs import split
from layoutalg.codegen.costs.split import MOST_KEYS, Axis, Digits, Evaluator, Split, whole
from layoutalg.codegen.expr import Add, Const, Expr, Le, Lt, Minus, Select, Var, evaluate
from layoutalg.errors import IRError, ResourceError
from tests.draws.expressions import expressions
from tests.sweeps import each

Array = np.ndarray[Any, Any]

AXES = {name: Axis(name, n, n) for name, n in (("high", 3), ("low", 6), ("warp", 4), ("lane", 8), ("i", 5))}
"""Digits of the variables below."""

BLOCK, TID, TURN, N, X = Var("block", 18), Var("tid", 32), Var("i", 5), Var("n", 30, "param", 1), Var("x", 60)
NAMES: Mapping[Var, Expr | Digits] = {
    BLOCK: ((AXES["high"], 6), (AXES["low"], 1)), TID: ((AXES["warp"], 8), (AXES["lane"], 1)),
    TURN: ((AXES["i"], 1),), N: Const(7), X: BLOCK * 2 + TURN * 5,
}  # fmt: skip
LEAVES = (BLOCK, BLOCK, TID, TID, TURN, N, X)


def known_and_rest(known: tuple[str, ...]) -> tuple[dict[Axis, Array], dict[Var, Array]]:
    """The points of some axes, and every variable's values: arrays (points, rest)."""
    rest = [name for name in AXES if name not in known]
    shape = [AXES[name].extent for name in (*known, *rest)]
    at = dict(zip((*known, *rest), np.indices(shape).reshape(len(shape), -1), strict=True))
    count = prod(AXES[name].extent for name in known)
    table = {name: values.reshape(count, -1) for name, values in at.items()}
    values: dict[Var, Array] = {
        BLOCK: table["high"] * 6 + table["low"], TID: table["warp"] * 8 + table["lane"], TURN: table["i"],
        N: np.full_like(table["i"], 7),
    }  # fmt: skip
    values[X] = values[BLOCK] * 2 + values[TURN] * 5
    return {AXES[name]: table[name][:, 0] for name in known}, values


KNOWN = [tuple(n for n, on in zip(AXES, bits, strict=True) if on) for bits in product((0, 1), repeat=5)]
TABLES = {known: known_and_rest(known) for known in KNOWN}


def table(node: Expr, values: Mapping[Var, Array]) -> Array:
    """The values of an expression, (points, rest)."""
    return np.broadcast_to(np.asarray(evaluate(node, values), dtype=np.int64), values[TURN].shape)


def column(value: Any, count: int) -> Array:
    """An own part, bound or key at every point."""
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (count,))


def check_split(s: Split, keys: list[Any], values: Array, counts: Array) -> None:
    """Bounds, stride and keys of a Split against the true values where `counts`."""
    n = len(values)
    lo, hi, own = (column(v, n)[:, None] for v in (s.lo, s.hi, s.own))
    assert ((lo <= values) & (values <= hi) | ~counts).all()
    f = values - own
    assert (((f % s.stride if s.stride else f) == 0) | ~counts).all()
    columns = [column(k, n) for k in keys] or [np.zeros(n, dtype=np.int64)]
    _, group = np.unique(np.stack(columns, 1), axis=0, return_inverse=True)
    _, first = np.unique(group, return_index=True)
    twin = first[group.reshape(-1)]
    assert (counts == counts[twin]).all()
    assert ((f == f[twin]) | ~counts).all()


@pytest.mark.deep
@settings(deadline=None, max_examples=300)
@given(expressions(LEAVES, max_leaves=6), st.sampled_from(KNOWN), st.sampled_from((1, MOST_KEYS)))
def test_points_with_equal_keys_differ_by_their_own_parts(
    node: Expr, known: tuple[str, ...], most: int
) -> None:
    points, values = TABLES[known]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "MOST_KEYS", most)
        found = Evaluator(NAMES, points).split(node)
    assert len(found.keys) <= most + 1  # and where the points decide
    everywhere = np.ones(values[TURN].shape, dtype=bool)
    check_split(found, list(found.keys), table(node, values), everywhere)


@pytest.mark.deep
@settings(deadline=None, max_examples=300)
@given(
    expressions(LEAVES, max_leaves=4), expressions(LEAVES, max_leaves=3), expressions(LEAVES, max_leaves=3),
    st.sampled_from((Lt, Le)), st.booleans(), st.sampled_from(KNOWN),
)  # fmt: skip
def test_what_is_assumed_holds_in_the_lanes_that_matter(
    node: Expr, a: Expr, b: Expr, kind: type[Lt] | type[Le], wanted: bool, known: tuple[str, ...]
) -> None:
    points, values = TABLES[known]
    evaluator = Evaluator(NAMES, points)
    predicate = kind(a, b)
    condition = evaluator.split(predicate)
    for one in (node, a, b, a + node, node % 7):
        evaluator.split(one)  # what is known may depend on what is bounded now
    evaluator.assume(predicate, wanted)
    counts = (table(predicate, values) != 0) == wanted
    for one in (node, a, b, a + node, node % 7):
        found = evaluator.split(one)
        check_split(found, [*whole(condition), *found.keys], table(one, values), counts)


def chain(length: int) -> tuple[Expr, Mapping[Var, Expr | Digits]]:
    """Groups in a row, as a tile finds its own: each selection uses the one before twice, by its name."""
    names, x = dict(NAMES), TID
    for n in range(1, length + 1):
        link = Var(f"x{n}", 1 << 12)
        names[link] = Select(x < BLOCK * n, x + BLOCK % (n + 4), x)
        x = link
    return x, names


def work_of(length: int, patch: pytest.MonkeyPatch, *, assumed: bool = False) -> tuple[int, int]:
    """Operators that are evaluated, and keys in them, for a chain; or after a bound of what is not in it."""
    seen: list[int] = []
    settled = split._settled
    last, names = chain(length)
    evaluator = Evaluator(names, TABLES["high", "low"][0])
    if assumed:
        evaluator.split(last)

    def counted(s: Split) -> Split:
        seen.append(len(s.keys))
        return settled(s)

    patch.setattr(split, "_settled", counted)
    if assumed:
        evaluator.assume(TURN + BLOCK < 9, wanted=True)
    evaluator.split(last)
    patch.setattr(split, "_settled", settled)
    return len(seen), sum(seen)


def test_a_chain_of_selections_costs_what_its_links_do(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (work_of(n, monkeypatch) for n in (16, 32))
    assert 0 < long[0] <= 2 * short[0] + 8
    assert 0 < long[1] <= 2 * short[1] + 64
    assert long[1] <= 3 * MOST_KEYS * long[0]


def test_a_bound_leaves_what_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    again, _ = work_of(32, monkeypatch, assumed=True)
    assert 0 < again < 12 < 32 < work_of(32, monkeypatch)[0]


def classes(node: Expr, *known: str) -> int:
    """How many points are told apart."""
    points, values = TABLES[known]
    keys = [column(k, len(values[TURN])) for k in Evaluator(NAMES, points).split(node).keys]
    return len(np.unique(np.stack(keys, 1), axis=0)) if keys else 1


@each(
    ("node", "error", "word"),
    [
        (Add(Var("y", 3), BLOCK), IRError, "no value is given for y"),
        (BLOCK * (1 << 60), ResourceError, "int64"),
    ],
)
def test_what_has_no_value_or_does_not_fit_is_refused(node: Expr, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        Evaluator(NAMES, {AXES["low"]: np.arange(6)}).split(node)


@each(
    ("node", "known", "expected"),
    [
        (BLOCK * 5 + TID, "high low", 1), ((BLOCK + TID) // 4, "high low", 4),
        ((BLOCK * 4 + TID * 2) // 4, "high low", 1),  # what is divided is a multiple: nothing is carried
        ((BLOCK * 3 + TID * 2) // 4, "high low", 2), (BLOCK // 6, "low", 1), (BLOCK % 6, "high", 1),
        (BLOCK * 8 + TID % 8 < 100, "high low", 2),  # decided on both sides of one block
        (BLOCK * 8 + TID % 8 < 96, "high low", 1), (TID * 4 + TURN < 40, "i", 2),
        (TID * 4 + TURN * 4 < 40, "i", 5), (BLOCK * 16 ^ (TID & 7), "high low", 1),
        (BLOCK ^ 31, "high low", 1),  # all bits turned over: 31 - block
        (Minus(Const(20), BLOCK), "high", 1),
        (BLOCK ^ 5, "low", 3), (BLOCK | 5, "low", 3),  # the rest is even: the lowest bit is own
        (Minus(BLOCK * 8 + 7, TID % 8), "high low", 1), (Select(TID < 9, BLOCK, BLOCK + 3), "high low", 1),
        (X * 2 + TID, "high low i", 1),
    ],
)  # fmt: skip
def test_points_are_not_told_apart_for_nothing(node: Expr, known: str, expected: int) -> None:
    assert classes(node, *known.split()) == expected


@pytest.mark.parametrize("kind", [Lt, Le])
@pytest.mark.parametrize("wanted", [True, False])
def test_a_bound_of_a_sum_bounds_the_summand_that_varies(kind: type[Lt] | type[Le], wanted: bool) -> None:
    points, values = TABLES["high", "low", "i"]
    for c in (4, 17, 30):
        for predicate in (kind(TID + BLOCK, Const(c)), kind(Const(c), BLOCK + TID)):
            evaluator = Evaluator(NAMES, points)
            condition = evaluator.split(predicate)
            evaluator.assume(predicate, wanted)
            counts = (table(predicate, values) != 0) == wanted
            found = evaluator.split(TID)
            check_split(found, [*whole(condition), *found.keys], table(TID, values), counts)
            lo, hi = (column(x, len(counts)) for x in (found.lo, found.hi))
            assert (lo > 0).any() or (hi < 31).any()
