"""Each theorem about differences, on a family it must fire on and on cases where its condition just fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from layoutalg.codegen.expr import Const, Eq, Expr, Le, Lt, Minus, Var, simplify
from layoutalg.codegen.expr.rules_order import MINUS_RULES
from tests.draws.expressions import differ_at, prove, refuse
from tests.sweeps import each

RULES = {rule.name: rule for rule in MINUS_RULES}
COMPARED: tuple[Callable[[Expr, Expr], Expr], ...] = (Lt, Le, Eq)
Family = Callable[[], Iterable[Expr]]


def x(extent: int = 20, lo: int = 0) -> Var:
    return Var("x", extent, "thread", lo)


def y(extent: int = 20, lo: int = 0) -> Var:
    return Var("y", extent, "param", lo)


Z = Var("z", 4, "loop")


def shared() -> Iterator[Expr]:
    for c, d in product(range(1, 6), repeat=2):
        yield Minus(x() + c, y() + d)
        yield Minus(x() * c + Z, x() * d + y(7))
        yield Minus(x() * c + Z + 3, y(7) + Z * d + 1)
        yield Minus(Const(c + 30), x() + d)
        yield Minus(x() + c, Const(d + 3))
    yield from (Minus(x(), x()), Minus(x() * 3, x() * 5), Minus(x() + y(), y() + Z))


def nested() -> Iterator[Expr]:
    for c, d in product((1, 5, 19, 30), repeat=2):
        yield Minus(Minus(x(), y()), Z + c)
        yield Minus(Minus(Const(c), y()), x(d))
        yield Minus(x(), Minus(Const(c + 3), Z))
        yield Minus(x() + d, Minus(y(40, 20), x()))


def factored() -> Iterator[Expr]:
    for g, k in product((2, 3, 4, 8), (1, 2, 3)):
        yield Minus(x() * g, y() * (g * k))
        yield Minus(Const(g * 12), x() * (g * k))
        yield Minus(x() * g + g, Z * (g * k) + y() * g)


def compared() -> Iterator[Expr]:
    for c in range(1, 24, 3):
        for difference in (Minus(x(), y()), Minus(Const(19), x()), Minus(x(), Z)):
            yield from (difference < c, difference <= c, Eq(difference, Const(c)))
            yield from (Lt(Const(c), difference), Le(Const(c), difference), Eq(Const(c), difference))
            yield from (difference < Var("w", 9, "let", 1), difference <= Var("w", 9, "let"))
    for difference in (Minus(x(), y()), Minus(Const(7), x())):
        yield from (
            difference <= 0,
            Lt(Const(0), difference),
            Eq(difference, Const(0)),
            Eq(Const(0), difference),
        )
        yield from (difference <= Z, Lt(Z, difference))


def compared_sums() -> Iterator[Expr]:
    for kind, c, k in product(COMPARED, (0, 5, 30), (1, 3)):
        yield kind((19 - x()) * k + y() + c, Const(30))
        yield kind(Const(30), (19 - x()) * k + y() + c)
        yield kind((25 - x()) * k + Z, (y(40, 20) - x()) * 2 + c)
        yield kind(Const(19) - x(), y() + c)


def remainders() -> Iterator[Expr]:
    for c, d, k in product((1, 3, 5), (2, 3, 4, 7), (1, 3, 4)):
        yield (x(20, 5) - c) * k % d
        yield ((x(20, 5) - c) * k + Z + 2) % d
        yield (y() + (x(20, 5) - c) * k + (Const(9) - Z)) % d


FAMILIES: dict[str, Family] = {
    "x - 0 -> x": lambda: [Minus(e, Const(0)) for e in (x(), y(), x() + y(), x() * 3)],
    "(x + a) - (x + b) -> a - b": shared,
    "a - b - c -> a - (b + c),  a - (b - c) -> a + c - b  if b - c is exact": nested,
    "a * g - b * g -> (a - b) * g": factored,
    "a - b < c -> a < b + c  if c > 0,  a - b <= c -> a <= b + c,  c < a - b -> b + c < a": compared,
    "a - b + c < d -> a + c < b + d  if a - b is exact;  <= and == likewise": compared_sums,
    "(a - c) % d -> (a + e) % d  if a - c is exact, d | c + e": remainders,
}

REFUSED: dict[str, Family] = {
    "(x + a) - (x + b) -> a - b": lambda: [Minus(x() + 1, y()), Minus(x(), y() + 1), Minus(x() * 3, y() * 3)],
    "a - b - c -> a - (b + c),  a - (b - c) -> a + c - b  if b - c is exact": lambda: [
        Minus(x(), Minus(Z, Const(1))), Minus(x(), Minus(y(), Z)),
    ],
    "a * g - b * g -> (a - b) * g": lambda: [
        Minus(x() * 3, y() * 4), Minus(x() * 4, Const(7)), Minus(x(), y()),
    ],
    "a - b < c -> a < b + c  if c > 0,  a - b <= c -> a <= b + c,  c < a - b -> b + c < a": lambda: [
        Minus(x(), y()) < Z, Le(Z, Minus(x(), y())), Eq(Minus(x(), y()), Z), Minus(x(), y()) + 1 < 5,
    ],
    "a - b + c < d -> a + c < b + d  if a - b is exact;  <= and == likewise": lambda: [
        Minus(x(), y()) + Z < 9, Le(Z, Minus(x(), y()) * 2),
    ],
    "(a - c) % d -> (a + e) % d  if a - c is exact, d | c + e": lambda: [
        Minus(x(), Const(3)) % 4, (Const(9) - Z) % 4, (Minus(x(), Const(3)) + Z) % 4,
    ],
}  # fmt: skip


@each("name", RULES)
def test_a_theorem_holds_and_is_used_and_not_where_its_condition_fails(name: str) -> None:
    prove(RULES[name], FAMILIES[name]())
    refuse(RULES[name], REFUSED[name]() if name in REFUSED else ())


def test_every_family_has_a_rule() -> None:
    assert FAMILIES.keys() == RULES.keys() >= REFUSED.keys()


def test_moving_a_difference_that_stops_at_zero_would_be_wrong() -> None:
    """The conditions are needed: without them each of these has a counterexample."""
    difference = Minus(x(), y())
    assert differ_at(difference < Z, Lt(x(), y() + Z)) is not None
    assert differ_at(difference + Z < 2, x() + Z < y() + 2) is not None
    assert differ_at(Minus(x(), Minus(y(), Z)), Minus(x() + Z, y())) is not None


def shortened() -> Iterator[tuple[Expr, str]]:
    o = Var("o", 97, "let", 0, 32)
    yield Minus(x() * 4 + 3, x() * 4), "3"
    yield Const(127) - o - x(), "127 - (o + x)"
    yield (Const(19) - x()) * 4 + 2 < 40, "9 < x"
    yield Minus(x(), Const(4)) < 4, "x < 8"
    yield Minus(x() * 8, Const(16)) // 8, "max(x - 2, 0)"
    yield (Const(96) - o) % 16 + x(), "x"
    yield (x(20, 3) - 3) * 7 % 4, "(x * 3 + 3) % 4"
    yield (y(40, 20) - x()) + 3 < y(40, 20), "3 < x"


@each(("node", "text"), list(shortened()))
def test_what_is_left_is_what_a_person_would_write(node: Expr, text: str) -> None:
    assert str(simplify(node)) == text
