"""Each theorem about sums, on a family it must fire on and on cases where its condition just fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from math import gcd

from layoutalg.codegen.expr import Const, Expr, Var
from layoutalg.codegen.expr.rewrite import Rule
from layoutalg.codegen.expr.rules_sums import BASIC_RULES, SUM_RULES
from tests.draws.expressions import prove, refuse
from tests.sweeps import each

RULES = {rule.name: rule for rule in (*BASIC_RULES, *SUM_RULES)}
SMALL = range(1, 13)
Family = Callable[[], Iterable[Expr]]


def x(extent: int, of: int = 1, lo: int = 0) -> Var:
    return Var("x", extent, "thread", lo, of)


def y(extent: int, of: int = 1) -> Var:
    return Var("y", extent, "unroll", 0, of)


Z = Var("z", 5, "loop")


def dividing() -> Iterator[tuple[int, int]]:
    return ((c, d) for c, d in product(SMALL, repeat=2) if c % d == 0)


def common_factors() -> Iterator[Expr]:
    for c, d in product(SMALL, repeat=2):
        if gcd(c, d) > 1:
            yield x(30) * c // d
            yield x(30) * c % d
            yield (x(9) * c + y(7) * d + c * d) // d
            yield (x(9) * c + y(7) * gcd(c, d)) % d


def nested() -> Iterator[Expr]:
    yield from (x(200) // c // d for c, d in product(SMALL, repeat=2))
    for c, d in dividing():
        yield x(200) % c % d
        yield x(200) % c // d


def sums_over(symbol: str) -> Iterator[Expr]:
    """Sums in which c divides one part by its weight, by its variable, or in part by a constant."""
    for c, k in product(range(2, 13), (1, 2, 3)):
        for s in (
            x(9) * (c * k) + y(17),
            y(17) + x(9 * c, c),
            y(17) + (c * k + 1),
            x(4) * 3 + x(9) * c + y(3),
        ):
            yield s // c if symbol == "//" else s % c


def low_parts() -> Iterator[Expr]:
    for g, k in product((2, 3, 4, 6, 8), (2, 3, 5)):
        c = g * k
        for low in (y(g), y(g // 2 + 1) + (g // 2 - 1), y(2)):
            for s in (
                x(30) * g + low,
                low + x(30 * g, g),
                x(9) * g + Z * (2 * g) + low,
                low + 5 * g + x(9) * g,
            ):
                yield s // c
                yield s % c
    yield from ((x(40) * 12 + y(6) * 18 + Z) // c for c in (12, 18, 36))


def digits() -> Iterator[Expr]:
    v = x(300)
    for c, d, k in product((2, 3, 4, 8), (2, 3, 4), (1, 3, 4)):
        yield v // c * (c * k) + v % c * k
        yield v % c * k + v // c % d * (c * k)
        yield v // (c * d) % 5 * (c * d * k) + Z + v // c % d * (c * k)
        yield v // (c * d) * (c * d * k) + (v // c % d * (c * k) + 7)
    yield from ((v & 56) * k + v % 8 * k for k in (1, 2, 5))
    yield from (v // 64 * (64 * k) + (v & 56) * k for k in (1, 2, 5))


FAMILIES: dict[str, Family] = {
    "x -> c  if x can only be c": lambda: [
        *(x(n) // n for n in SMALL), x(9) % 1, x(9) * 0, x(4) & 8, x(9) < 9, x(20, 16, 16) + 1,
        Const(3) * 4 + 1,
    ],
    "x + 0, x * 1, x // 1 -> x": lambda: [
        x(9) + 0, 0 + x(9), x(9) * 1, 1 * x(9), x(9) // 1, (x(9) + y(3)) // 1,
    ],
    "x << n -> x * 2^n,  x >> n -> x // 2^n": lambda: [
        e for v, n in product((x(70), x(9) + y(3)), range(7)) for e in (v << n, v >> n)
    ],
    "(a + c) + b -> a + b + c,  c * x -> x * c,  x * c * d -> x * (c * d)": lambda: [
        3 + x(9), (x(9) + 3) + y(3), (x(9) + 3) + 4, x(9) + (y(3) + Z), x(9) + (y(3) + 4) + 1,
        x(9) + (y(3) + Z) + y(4),
        3 * x(9), x(9) * 3 * 4, (x(9) + 1) * 3 * 4,
    ],
    "x % c -> x  if x < c": lambda: [
        *(x(n) % c for n, c in product(SMALL, SMALL) if n <= c), x(9) % (y(4) + 9),
        x(9) % Var("n", 20, "param", 9),
    ],
    "g * x // (g * d) -> x // d,  g * x % (g * d) -> x % d * g": common_factors,
    "x // c // d -> x // (c * d),  x % c % d -> x % d,  x % c // d -> x // d % (c / d)": nested,
    "(a + b) // c -> a // c + b // c  if c | a": lambda: sums_over("//"),
    "(a + b) % c -> b % c  if c | a,  x * k % c -> x * (k % c) % c": lambda: [
        *sums_over("%"), *(x(30) * k % c for c, k in product(range(2, 9), range(2, 30)) if k > c and k % c),
    ],
    "(a + b) // c -> a // c,  (a + b) % c -> a % c + b  if g | a, g | c, b < g": low_parts,
    "x * c + x * d -> x * (c + d)": lambda: [
        *(x(9) * c + x(9) * d for c, d in product(SMALL, repeat=2)), x(9) + x(9), x(9) * 3 + y(3) + x(9) + 2,
        (x(64) & 24) + x(64) // 8 % 4 * 5,
    ],
    "x // c * (c * k) -> x * k  if c | x": lambda: [
        e for c, k in product(range(1, 9), (1, 2, 5))
        for e in (x(200, c) // c * (c * k), (y(40) ^ y(40, 1) * 2) * c // c * (c * k))
    ],
    "x // c % d * (c * k) + x % c * k -> x % (c * d) * k": digits,
    "(a + b) * c -> a * c + b * c": lambda: [
        *((x(9) + y(3)) * c for c in SMALL), (x(9) * 2 + y(3) + 5) * 4,
    ],
}  # fmt: skip

REFUSED: dict[str, Family] = {
    "x // c * (c * k) -> x * k  if c | x": lambda: [
        e for c in range(2, 9) for e in (x(200) // c * c, x(200, c) // c * (c + 1), x(200, c) // (2 * c) * c)
    ],
    "x % c -> x  if x < c": lambda: [x(n + 1) % n for n in SMALL],
    "x // c // d -> x // (c * d),  x % c % d -> x % d,  x % c // d -> x // d % (c / d)": lambda: [
        e for c, d in product(SMALL, repeat=2) if c % d for e in (x(200) % c % d, x(200) % c // d)
    ],
    "(a + b) // c -> a // c + b // c  if c | a": lambda: [(x(9) * 6 + y(9)) // 4, (x(20, 2) + y(9)) // 4],
    "(a + b) % c -> b % c  if c | a,  x * k % c -> x * (k % c) % c": lambda: [
        (x(9) * 3 + y(9)) % 4, (x(20, 2) + y(9)) % 4,
    ],
    "(a + b) // c -> a // c,  (a + b) % c -> a % c + b  if g | a, g | c, b < g": lambda: [
        e for g, k in product((2, 3, 4, 8), (2, 3)) for s in (x(9) * g + y(g + 1), x(9) * g + y(g) + 1)
        for e in (s // (g * k), s % (g * k))
    ],
    "x // c % d * (c * k) + x % c * k -> x % (c * d) * k": lambda: [
        x(99) // 4 * 8 + x(99) % 4, x(99) // 4 * 4 + x(99) % 2, x(99) // 4 * 4 + y(99) % 4,
        x(99) // 6 % 2 * 6 + x(99) % 3, (x(99) & 40) + x(99) % 8,
    ],
}  # fmt: skip


@each("name", RULES)
def test_a_theorem_holds_and_is_used_and_not_where_its_condition_fails(name: str) -> None:
    prove(RULES[name], FAMILIES[name]())
    refuse(RULES[name], REFUSED[name]() if name in REFUSED else ())


def test_every_family_has_a_rule() -> None:
    assert FAMILIES.keys() == RULES.keys() >= REFUSED.keys()


def test_a_rule_is_a_record() -> None:
    assert all(isinstance(rule, Rule) for rule in RULES.values())
