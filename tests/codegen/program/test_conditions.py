"""What is known under conditions holds at every point where they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Eq, Expr, Le, Lt, Minus, Or, Var, evaluate, is_predicate, simplify
from layoutalg.codegen.program.conditions import Conditions
from tests.draws.expressions import SMALL_VARIABLES, domain, expressions, values

X, Y = Var("x", 100), Var("y", 64, "let", 0, 4)
FIRST, SECOND = SMALL_VARIABLES[:2]
COMPARED = (FIRST, FIRST * 4 + SECOND, FIRST + SECOND * 2 + 1, SMALL_VARIABLES[3] + FIRST * 8, FIRST % 3)


@st.composite
def predicates(draw: st.DrawFn) -> Expr:
    """Comparisons of few expressions, with constants and one another, so that some decide others."""

    def compared() -> Expr:
        x = draw(st.sampled_from(COMPARED))
        y: Expr = draw(st.one_of(st.integers(0, 60).map(Const), st.sampled_from(COMPARED)))
        pairs: tuple[Expr, ...] = (Lt(x, y), Lt(y, x), Le(x, y), Le(y, x), Eq(x, y))
        return draw(st.sampled_from(pairs))

    found = compared()
    for _ in range(draw(st.integers(0, 2))):
        found = found & compared() if draw(st.booleans()) else found | compared()
    return simplify(found)


def known_of(path: list[tuple[Expr, bool]]) -> Conditions:
    known = Conditions()
    for condition, holds in path:
        known = known.under(condition, holds)
    return known


@given(
    st.lists(st.tuples(predicates(), st.booleans()), max_size=3), predicates(), expressions(), expressions()
)
def test_what_is_decided_or_ordered_is_so_wherever_the_conditions_hold(
    path: list[tuple[Expr, bool]], asked: Expr, a: Expr, b: Expr
) -> None:
    known = known_of(path)

    def held(*parts: Expr) -> tuple[Any, ...]:
        """The values of these where the conditions hold."""
        env = domain(*parts, *(p for p, _ in path))
        here = np.ones(np.broadcast_shapes((), *(v.shape for v in env.values())), dtype=bool)
        for condition, holds in path:
            here = here & (values(condition, env) == holds)
        return tuple(values(part, env)[here] for part in parts)

    found, rest = known.decided(asked), known.condition(asked)
    wanted, left = held(asked, rest)
    assert found is None or (wanted == found).all()
    assert is_predicate(rest) and (left == wanted).all()
    for x, y in ((a, b), (FIRST, a), (a, COMPARED[1])):
        if known.orders(x, y):
            less, more = held(x, y)
            assert (less <= more).all()


@pytest.mark.parametrize(
    ("path", "asked", "decided"),
    [
        ([(X < 60, True)], X < 64, True),
        ([(X < 60, True)], Lt(Const(59), X), False),
        ([(X < 60, True)], X < 59, None),
        ([(X < 60, False)], X < 60, False),
        ([(X < 60, False)], X < 61, None),
        ([(Y < 50, False)], Y < 52, False),  # a multiple of 4 that is no less than 50 is no less than 52
        ([(Eq(X, Const(7)), True)], X < 8, True),
        ([((X < 60) & (Y < 8), True)], Y < 8, True),
        ([((X < 60) & (Y < 8), False)], Y < 8, None),
        ([((X < 60) | (Y < 8), False)], Y < 8, False),
        ([(X < Y, True)], X < Y, True),
        ([(X < Y, False)], X < Y, False),
        ([(X < 60, True), (X < 40, False)], Lt(Const(39), X), True),
    ],
)
def test_what_conditions_decide(path: list[tuple[Expr, bool]], asked: Expr, decided: bool | None) -> None:
    assert known_of(path).decided(simplify(asked)) is decided


def test_a_condition_keeps_what_is_not_known() -> None:
    known = Conditions().under(X < 60, True)
    assert known.condition((X < 64) & (Y < 8)) == (Y < 8)
    assert known.condition((Y < 8) | (X < 64)) == Const(1)
    assert known.condition((Y < 8) & Lt(Const(70), X)) == Const(0)
    assert known.condition(Or(Lt(Const(70), X), Lt(Const(80), X))) == Const(0)


def test_an_order_follows_from_intervals_of_parts() -> None:
    turn, slot = Var("turn", 16, "loop"), Var("slot", 4, "unroll")
    ahead = turn * 4 + slot + 4
    assert not Conditions().orders(ahead, Const(63))
    assert Conditions().under(simplify(turn + 1 < 16), True).orders(ahead, Const(63))
    assert evaluate(Minus(Const(63), ahead), {turn: 15, slot: 1}) == 0


def test_a_comparison_bounds_both_of_its_sides() -> None:
    """A vector that begins in front of a shift of less than a vector is not the first one."""
    at, shift = Var("at", 400, "let", 0, 4), Var("shift", 4, "let")
    inside = Conditions().under(simplify(at + 4 > shift + 4), True)
    assert inside.orders(Const(4), at) and not Conditions().orders(Const(4), at)
    assert Conditions().under(at <= shift, True).decided(at < 4) is True
    assert Conditions().under(at < shift, False).orders(at, shift) is False
