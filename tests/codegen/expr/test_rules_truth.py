"""Each theorem about predicates, on a family it must fire on and on cases where its condition just fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

import pytest

from layoutalg.codegen.expr import Const, Eq, Expr, Le, Lt, Select, Var, as_expr
from layoutalg.codegen.expr.rules_order import TRUTH_RULES
from tests.draws.expressions import prove, refuse

RULES = {rule.name: rule for rule in TRUTH_RULES}
COMPARED: tuple[Callable[[Expr, Expr], Expr], ...] = (Lt, Le, Eq)
Family = Callable[[], Iterable[Expr]]


def x(extent: int = 20, of: int = 1) -> Var:
    return Var("x", extent, "thread", 0, of)


def y(extent: int = 20, of: int = 1) -> Var:
    return Var("y", extent, "param", 0, of)


def congruent(stride: int, offset: int) -> Var:
    return Var("x", 40, "let", 0, stride, offset)


Z = Var("z", 4, "loop")


def shared() -> Iterator[Expr]:
    for kind, c, d in product(COMPARED, range(1, 6), range(1, 6)):
        yield kind(x() + c, y() + d)
        yield kind(x() + c, Const(d + 5))
        yield kind(Const(d + 5), x() + c)
        yield kind(x() * c + Z, x() * d + y(7))
        yield kind(x() * c + Z + 3, y(7) + Z * d + 1)
    yield from (kind(x(), x()) for kind in COMPARED)


def factored() -> Iterator[Expr]:
    for kind, g in product(COMPARED, (2, 3, 4, 8)):
        for c, d in product(range(g), range(g)):
            yield kind(x() * g + c, y() * g + d)
        for bound in range(1, 60, 5):
            yield kind(x() * g, Const(bound))
            yield kind(Const(bound), x() * g)
            yield kind(x() * g + Z * (3 * g), Const(bound))
    for g in (4, 8):
        yield from (x() * g + Z < 5 * g, x() * g + Z < y() * g, x() * g + Z <= 5 * g + 3)
        yield from (Lt(Const(5 * g + g - 1), x() * g + Z), Le(Const(5 * g), x() * g + Z))
        yield x() * g <= y() * g + Z
    yield from (x() * 8 + Z < y() * 8 + d for d in (4, 5, 7))
    yield from (x() * 8 + Z + 4 <= y() * 8 + d for d in (0, 1, 3))


FAMILIES: dict[str, Family] = {
    "x <= c -> x < c + 1,  c <= x -> c - 1 < x,  c == x -> x == c": lambda: [
        e for c in range(1, 25) for e in (x() <= c, Le(Const(c), x()), Eq(Const(c), x()))
    ],
    "x // c < d -> x < c * d,  d < x // c -> (d + 1) * c - 1 < x,  x // c == 0 -> x < c": lambda: [
        e for c, d in product(range(1, 8), range(8))
        for e in (x(50) // c < d, Lt(Const(d), x(50) // c), Eq(x(50) // (c + 1), Const(0)))
    ],
    "x < c -> x < c rounded up to x's congruence,  c - 1 < x -> likewise": lambda: [
        e for s in (2, 3, 4, 6, 8) for o in range(s) for c in range(1, 40)
        if (o - c) % s for e in (congruent(s, o) < c, Lt(Const(c - 1), congruent(s, o)))
    ],
    "x + a < x + b -> a < b;  <= and == likewise": shared,
    "g * a + r < g * b + s -> a < b or a <= b  if r, s < g, by the order of r and s": factored,
    "x if c else y -> x  if c is decided or x = y": lambda: [
        Select(x() < 20, x(), y()), Select(x() < 0, x(), y()), Select(x() < 7, y(), y()),
        Select(Const(1), x(), y()), Select(Const(0), x(), y()), Select(x() < 7, as_expr(3), as_expr(3)),
    ],
}  # fmt: skip

REFUSED: dict[str, Family] = {
    "x < c -> x < c rounded up to x's congruence,  c - 1 < x -> likewise": lambda: [
        e for s in (1, 2, 3, 4, 6, 8) for o in range(s) for c in range(o or s, 40, s)
        for e in (congruent(s, o) < c, Lt(Const(c - 1), congruent(s, o)))
    ],
    "x <= c -> x < c + 1,  c <= x -> c - 1 < x,  c == x -> x == c": lambda: [
        x() < 5, x() <= y(), Eq(x(), Const(5)), Le(Const(0), x()),
    ],
    "x // c < d -> x < c * d,  d < x // c -> (d + 1) * c - 1 < x,  x // c == 0 -> x < c": lambda: [
        x() // 3 < y(), Eq(x() // 3, Const(1)), x() % 3 < 2,
    ],
    "x + a < x + b -> a < b;  <= and == likewise": lambda: [x() + 1 < y(), x() < y() + 1, x() * 3 < y() * 3],
    "g * a + r < g * b + s -> a < b or a <= b  if r, s < g, by the order of r and s": lambda: [
        x() * 4 + Z < y() * 4 + 1, x() * 4 + Z < y() * 4 + Var("w", 4), x() * 3 < y() * 4,
        x() * 4 + Z + 1 < y() * 4, x() * 4 < y() * 4 + Z, Eq(x() * 4 + Z, y() * 4),
    ],
    "x if c else y -> x  if c is decided or x = y": lambda: [Select(x() < 7, x(), y())],
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_theorem_holds_and_is_used_and_not_where_its_condition_fails(name: str) -> None:
    prove(RULES[name], FAMILIES[name]())
    refuse(RULES[name], REFUSED[name]() if name in REFUSED else ())


def test_every_family_has_a_rule() -> None:
    assert FAMILIES.keys() == RULES.keys() >= REFUSED.keys()
