"""A Split tells few points apart, by little work; that costs by it are right is held by those of programs."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.costs import split
from layoutalg.codegen.costs.split import MOST_KEYS, Axis, Digits, Evaluator, Split
from layoutalg.codegen.expr import Add, Const, Expr, Minus, Select, Var
from layoutalg.errors import IRError, ResourceError
from tests.sweeps import each

Array = np.ndarray[Any, Any]

AXES = {name: Axis(name, n, n) for name, n in (("high", 3), ("low", 6), ("warp", 4), ("lane", 8), ("i", 5))}
"""Digits of the variables below."""

BLOCK, TID, TURN, N, X = Var("block", 18), Var("tid", 32), Var("i", 5), Var("n", 30, "param", 1), Var("x", 60)
NAMES: Mapping[Var, Expr | Digits] = {
    BLOCK: ((AXES["high"], 6), (AXES["low"], 1)), TID: ((AXES["warp"], 8), (AXES["lane"], 1)),
    TURN: ((AXES["i"], 1),), N: Const(7), X: BLOCK * 2 + TURN * 5,
}  # fmt: skip


def points(*known: str) -> dict[Axis, Array]:
    """The points of some axes."""
    at = np.indices([AXES[name].extent for name in known]).reshape(len(known), -1)
    return {AXES[name]: values for name, values in zip(known, at, strict=True)}


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
    evaluator = Evaluator(names, points("high", "low"))
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
    at = points(*known)
    count = prod(AXES[name].extent for name in known)
    keys = [np.broadcast_to(np.asarray(k), (count,)) for k in Evaluator(NAMES, at).split(node).keys]
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
