"""Each theorem of the simplifier fires where its condition holds, nowhere else, and is true there.

A line of the table has an expression, and behind `if` where the theorem fires on it: letters stand for all
numbers of their range, `x(extent, multiple, least, offset)`, `y`, `z`, `w` are variables.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from layoutalg.codegen import expr
from layoutalg.codegen.expr.rules_bits import BIT_RULES
from layoutalg.codegen.expr.rules_order import MINUS_RULES, TRUTH_RULES
from layoutalg.codegen.expr.rules_sums import BASIC_RULES, SUM_RULES
from tests.draws.expressions import differ_at

RULES = {rule.name: rule for rule in (*BASIC_RULES, *SUM_RULES, *BIT_RULES, *MINUS_RULES, *TRUTH_RULES)}

SMALL = range(1, 10)
RANGES: dict[str, Any] = {
    "c": SMALL, "d": SMALL, "e": (2, 3, 4), "g": (2, 3, 4, 6, 8), "k": (1, 2, 3, 5), "m": range(1, 32),
    "n": range(7), "o": range(8), "p": (2, 4, 8, 16), "q": (2, 4, 8, 16), "r": (expr.Lt, expr.Le, expr.Eq),
    "s": (1, 2, 3, 4, 6, 8), "t": range(4),
}  # fmt: skip


def variable(name: str, extent: int = 20, of: int = 1, lo: int = 0, offset: int = 0) -> expr.Var:
    return expr.Var(name, extent, "let", lo, of, offset)


x, y, w = (partial(variable, name) for name in "xyw")


def of_two(kind: type, a: Any, b: Any) -> expr.Expr:
    node: expr.Expr = kind(expr.as_expr(a), expr.as_expr(b))
    return node


minus = partial(of_two, expr.Minus)
NAMES: dict[str, Any] = {
    "x": x, "y": y, "w": w, "z": partial(variable, "z", 4), "K": expr.Const, "minus": minus,
    "If": lambda p, a, b: expr.Select(expr.as_expr(p), *map(expr.as_expr, (a, b))),
    **{kind.__name__: partial(of_two, kind) for kind in RANGES["r"]},
    "difference": lambda t: (minus(x(), y()), minus(19, x()), minus(x(), variable("z", 4)), minus(7, x()))[t],
    "whole": lambda t, p: (x(64) * p, x(p), x(64 * p, p), x(64) * (3 * p))[t],
}  # fmt: skip

LINES = {
    "x -> c  if x can only be c": """
        x(c) // c
        x(9) % 1
        x(9) * 0
        x(4) & 8
        x(9) < 9
        x(20, 16, 16) + 1
        K(3) * 4 + 1""",
    "x + 0, x * 1, x // 1 -> x": """
        x() + 0
        0 + x()
        x() * 1
        1 * x()
        x() // 1
        (x() + y()) // 1""",
    "x << n -> x * 2^n,  x >> n -> x // 2^n": """
        x() << n
        x() >> n
        x() + y() << n
        x() + y() >> n""",
    "(a + c) + b -> a + b + c,  c * x -> x * c,  x * c * d -> x * (c * d)": """
        3 + x()
        x() + 3 + y()
        x() + 3 + 4
        x() + (y() + z())
        x() + (y() + 4) + 1
        x() + (y() + z()) + y(4)
        3 * x()
        x() * 3 * 4
        (x() + 1) * 3 * 4""",
    "x % c -> x  if x < c": """
        x(c) % d if c <= d
        x(9) % (y(4) + 9)
        x(9) % y(20, 1, d) if d >= 9""",
    "g * x // (g * d) -> x // d,  g * x % (g * d) -> x % d * g": """
        x() * c // d if gcd(c, d) > 1
        x() * c % d if gcd(c, d) > 1
        (x(9) * c + y(7) * d + c * d) // d if gcd(c, d) > 1
        (x(9) * c + y(7) * gcd(c, d)) % d if gcd(c, d) > 1""",
    "x // c // d -> x // (c * d),  x % c % d -> x % d,  x % c // d -> x // d % (c / d)": """
        x(200) // c // d
        x(200) % c % d if c % d == 0
        x(200) % c // d if c % d == 0""",
    "(a + b) // c -> a // c + b // c  if c | a": """
        (x(9) * d + y(9)) // c if d % c == 0
        (x(20, 2) + y(9)) // c if c <= 2
        (y(17) + x(9 * c, c)) // c
        (y(17) + (c * k + 1)) // c
        (x(4) * 3 + x(9) * c + y(3)) // c""",
    "(a + b) % c -> b % c  if c | a,  x * k % c -> x * (k % c) % c": """
        x() * d % c if d >= c
        (x(9) * d + y(9)) % c if d >= c
        (x(20, 2) + y(9)) % c if c <= 2
        (y(17) + x(9 * c, c)) % c
        (y(17) + (c * k + 1)) % c
        (x(4) * 3 + x(9) * c + y(3)) % c""",
    "(a + b) // c -> a // c,  (a + b) % c -> a % c + b  if g | a, g | c, b < g": """
        (x() * g + y(d)) // (g * e) if 1 < d <= g
        (x() * g + y(d)) % (g * e) if 1 < d <= g
        (y(g) + x(20 * g, g)) // (g * e)
        (x(9) * g + z() * (2 * g) + y(g)) % (g * e)
        (y(g // 2 + 1) + (g // 2 - 1) + 5 * g + x(9) * g) // (g * e)
        (x(9) * g + y(g) + 1) // (g * e) if 0
        (x() * 12 + y(6) * 18 + z()) // (6 * e)""",
    "x * c + x * d -> x * (c + d)": """
        x() * c + x() * d
        x() + x()
        x() * 3 + y() + x() + 2
        (x(64) & 24) + x(64) // 8 % 4 * 5
        x() * 3 + y() * 3 if 0""",
    "x // c * (c * k) -> x * k  if c | x": """
        x(200, c) // c * d if d % c == 0
        x(200) // c * c if c == 1
        x(200, c) // (2 * c) * c if 0
        (y(40) ^ y(40) * 2) * c // c * (c * k)""",
    "x // c % d * (c * k) + x % c * k -> x % (c * d) * k": """
        x(99) // g * (g * k) + x(99) % e * k if g == e
        x(99) // g * (g * k) + y(99) % g * k if 0
        x(99) % g * k + x(99) // g % e * (g * k)
        x(300) // (g * e) % 5 * (g * e * k) + z() + x(300) // g % e * (g * k)
        x(300) // (g * e) * (g * e * k) + (x(300) // g % e * (g * k) + 7)
        x(99) // 6 % 2 * 6 + x(99) % 3 if 0
        (x(300) & 56) * k + x(300) % 8 * k
        (x(300) & 40) * k + x(300) % 8 * k if 0
        x(300) // 64 * (64 * k) + (x(300) & 56) * k""",
    "(a + b) * c -> a * c + b * c": """
        (x() + y()) * c
        (x() * 2 + y() + 5) * 4""",
    "x ^ 0, x | 0 -> x,  x & x, x | x -> x,  x & m -> x  if x has no bit outside m": """
        x() ^ 0
        0 ^ x()
        x() | 0
        0 | x()
        x() & x()
        x() | x()
        (x() < 4) & (x() < 4)
        x(c) & m if x(c).facts.may & ~m == 0
        x(64, 8) & m if 0
        x(32, 8) & m if m & 24 == 24
        x() * 4 & 252
        x() ^ 1 if 0
        x() & y() if 0""",
    "c ^ x -> x ^ c,  x ^ c ^ y -> x ^ y ^ c,  x & c & d -> x & (c & d)": """
        5 ^ x()
        5 & x()
        5 | x()
        x() ^ 5 ^ y()
        x() ^ (y() ^ 5)
        x() ^ (y() ^ z())
        x(64) & m & 3
        x(64) & m & 12
        x(64) & m & 17""",
    "x ^ y ^ x -> y": """
        x() ^ x()
        x() ^ y() ^ x()
        y() ^ x() ^ x()
        x() ^ y() ^ x() ^ y()
        x() ^ 5 ^ 3
        x() ^ 5 ^ 5
        x() ^ y() ^ z() ^ y()
        5 ^ x() ^ 3""",
    "bits that x lacks leave the mask of x, copies of x that m lacks leave the product": """
        x(32, 8) & m if m & 7
        x(5) & m if m & 24
        x(4) * 5 & 3
        x(4) * 9 & 24
        x(4) * 17 & 48
        x(4) * 20 & 12
        x(4) * 68 & 192
        x(4) * 3 & 1 if 0
        x(5) * 5 & 3 if 0
        x(4) * 5 & 15 if 0""",
    "(a + b) & m -> (a & m) + (b & m)  if a, b disjoint;  (a ^ b) & m likewise": """
        x(8) * 8 + y(c) & m if c <= 8
        x(4) * 2 + y(2) + z() * 8 & m
        (x(32) ^ y(32) * 2) & m""",
    "a mask moves inside % // * by a power of two": """
        x(64) % p & m if m < p
        x(64) % 12 & 7 if 0
        x(64) * p & m
        x(64) * (3 * p) & m
        x(64) * 3 & 7 if 0
        (x(64) & m) // p
        (x(64) & m) % p
        (x(64) & 12) // 6 if 0
        (x(64) & 12) % 6 if 0""",
    "x & (2^n - 1) -> x % 2^n": """
        x(64) & m if m & (m + 1) == 0""",
    "(x // c & m) * c -> x & m * c,  x // c % d * c -> x & (d - 1) * c  for powers of two": """
        x(200) // p % q * p
        (x(200) // p & q + q // 2) * p
        x(64) // 4 % 8 * 8 if 0
        x(64) // 4 % 6 * 4 if 0
        x(64) // 3 % 4 * 3 if 0
        (x(64) // 4 & 5) * 8 if 0""",
    "a ^ b, a | b -> a + b  if disjoint": """
        x(8) * p ^ y(c) if c <= p
        x(8) * p | y(c) if c <= p
        y(p) ^ x(99, p)
        y(p) | x(99, p)
        x(p) + 32 ^ K(16)
        x(p) + 32 | K(16)""",
    "(a + b) ^ y -> (a ^ y) + b  if b is disjoint from a and y": """
        x(8) * 4 + 32 + y(4) * 128 ^ y(4)
        x(8) * 4 + 32 + y(4) * 128 ^ y(4) + 16
        x(8) * 4 + 32 + y(4) * 128 ^ w(16)
        y(4) + 16 ^ x(8) * 4 + z() * 512
        w(16) ^ x(8) * 4 + z() * 512
        x(8) * 4 + y(4) * 128 ^ y(4) * 4 + x(4) * 1024
        x(8) * 4 + y(9) ^ w(16) if 0
        x(8) * 4 ^ y(8) if 0
        x(8) * 4 + y(4) ^ w(16) if 0""",
    "a * g ^ b * g -> (a ^ b) * g  for a power of two g": """
        x(16) * c ^ y(16) * d if c % 2 == d % 2 == 0
        x(16) * c + 2 * d ^ y(16) * d + z() * 8 if c % 2 == d % 2 == 0
        x() * 4 ^ K(8) if 0
        x() * 4 + 1 ^ y() * 4 if 0""",
    "(a ^ b) // c -> a // c ^ b // c,  (a ^ b) % c -> a % c ^ b % c  for powers of two": """
        (whole(t, p) ^ y(99)) // p
        (whole(t, p) ^ y(99)) % p
        (y(99) ^ whole(t, p)) // p
        (y(99) ^ whole(t, p)) % p
        (x(9) ^ y(99)) // 8 if 0
        (x(9) ^ y(99)) % 8 if 0
        (x() * 6 ^ y()) // 6 if 0
        (x(5) ^ y()) % 6 if 0""",
    "x - 0 -> x": """
        minus(x(), 0)
        minus(x() * 3, 0)
        minus(x() + y(), 0)""",
    "(x + a) - (x + b) -> a - b": """
        minus(x() + c, y() + d)
        minus(x() * c + z(), x() * d + y(7))
        minus(x() * c + z() + 3, y(7) + z() * d + 1)
        minus(c + 30, x() + d)
        minus(x() + c, d + 3)
        minus(x(), x())
        minus(x() * 3, x() * 5)
        minus(x() + y(), y() + z())
        minus(x() + 1, y()) if 0
        minus(x(), y() + 1) if 0
        minus(x() * 3, y() * 3) if 0""",
    "a - b - c -> a - (b + c),  a - (b - c) -> a + c - b  if b - c is exact": """
        minus(minus(x(), y()), z() + c)
        minus(minus(c, y()), x(d))
        minus(x(), minus(d, z())) if d >= 3
        minus(x() + d, minus(y(40, 1, 20), x()))
        minus(x(), minus(z(), 1)) if 0
        minus(x(), minus(y(), z())) if 0""",
    "a * g - b * g -> (a - b) * g": """
        minus(x() * g, y() * (g * k))
        minus(g * 12, x() * (g * k))
        minus(x() * g + g, z() * (g * k) + y() * g)
        minus(x() * 3, y() * 4) if 0
        minus(x() * 4, 7) if 0
        minus(x(), y()) if 0""",
    "a - b < c -> a < b + c  if c > 0,  a - b <= c -> a <= b + c,  c < a - b -> b + c < a": """
        r(difference(t), K(2 * c - 1))
        r(K(2 * c - 1), difference(t))
        difference(t) < w(9, 1, 1)
        difference(t) <= w(9)
        difference(t) <= 0
        K(0) < difference(t)
        Eq(difference(t), 0)
        Eq(0, difference(t))
        z() < difference(t)
        difference(t) < z() if 0
        z() <= difference(t) if 0
        Eq(difference(t), z()) if 0
        difference(t) + 1 < 5 if 0""",
    "a - b + c < d -> a + c < b + d  if a - b is exact;  <= and == likewise": """
        r((19 - x()) * k + y() + c, K(30))
        r(K(30), (19 - x()) * k + y() + c)
        r((25 - x()) * k + z(), (y(40, 1, 20) - x()) * 2 + c)
        r(19 - x(), y() + c)
        minus(x(), y()) + z() < 9 if 0
        z() <= minus(x(), y()) * 2 if 0""",
    "(a - c) % d -> (a + e) % d  if a - c is exact, d | c + e": """
        (x(20, 1, 5) - e) * k % g
        ((x(20, 1, 5) - e) * k + z() + 2) % g
        (y() + (x(20, 1, 5) - e) * k + (9 - z())) % g
        minus(x(), 3) % 4 if 0
        (9 - z()) % 4 if 0
        (minus(x(), 3) + z()) % 4 if 0""",
    "x <= c -> x < c + 1,  c <= x -> c - 1 < x,  c == x -> x == c": """
        x() <= c
        K(c) <= x()
        Eq(c, x())
        x() < 5 if 0
        x() <= y() if 0
        Eq(x(), 5) if 0
        K(0) <= x() if 0""",
    "x // c < d -> x < c * d,  d < x // c -> (d + 1) * c - 1 < x,  x // c == 0 -> x < c": """
        x(50) // c < n
        K(n) < x(50) // c
        Eq(x(50) // (c + 1), 0)
        x() // 3 < y() if 0
        Eq(x() // 3, 1) if 0
        x() % 3 < 2 if 0""",
    "x < c -> x < c rounded up to x's congruence,  c - 1 < x -> likewise": """
        x(40, s, 0, o % s) < 3 * c if (o % s - 3 * c) % s != 0
        K(3 * c - 1) < x(40, s, 0, o % s) if (o % s - 3 * c) % s != 0""",
    "x + a < x + b -> a < b;  <= and == likewise": """
        r(x() + c, y() + d)
        r(x() + c, K(d + 5))
        r(K(d + 5), x() + c)
        r(x() * c + z(), x() * d + y(7))
        r(x() * c + z() + 3, y(7) + z() * d + 1)
        r(x(), x())
        x() + 1 < y() if 0
        x() < y() + 1 if 0
        x() * 3 < y() * 3 if 0""",
    "g * a + r < g * b + s -> a < b or a <= b  if r, s < g, by the order of r and s": """
        r(x() * g + c % g, y() * g + e % g)
        r(x() * g, K(5 * c + 1))
        r(K(5 * c + 1), x() * g)
        r(x() * g + z() * (3 * g), K(5 * c + 1))
        x() * (2 * p) + z() < 10 * p
        x() * (2 * p) + z() < y() * (2 * p)
        x() * (2 * p) + z() <= 10 * p + 3
        K(12 * p - 1) < x() * (2 * p) + z()
        K(10 * p) <= x() * (2 * p) + z()
        x() * (2 * p) <= y() * (2 * p) + z()
        x() * 8 + z() < y() * 8 + d if d % 8 == 0 or d % 8 > 3
        x() * 8 + z() + 4 <= y() * 8 + k if k < 4
        x() * 4 + z() < y() * 4 + w(4) if 0
        x() * 3 < y() * 4 if 0
        x() * 4 + z() + 1 < y() * 4 if 0
        x() * 4 < y() * 4 + z() if 0
        Eq(x() * 4 + z(), y() * 4) if 0""",
    "x if c else y -> x  if c is decided or x = y": """
        If(x() < 7, x(), y()) if 0
        If(x() < 20, x(), y())
        If(x() < 0, x(), y())
        If(x() < 7, y(), y())
        If(1, x(), y())
        If(0, x(), y())
        If(x() < 7, 3, 3)""",
}


def members(line: str) -> Iterator[tuple[expr.Expr, bool]]:
    """Every expression of a line, and whether the theorem fires on it."""
    letters = sorted(set(re.findall(r"\b[a-z]\b", line)) & RANGES.keys())
    text, _, condition = line.partition(" if ")
    names = {**NAMES}
    exec(f"from math import gcd\ndef make({', '.join(letters)}): return ({text}), ({condition or 1})", names)
    for numbers in itertools.product(*(RANGES[letter] for letter in letters)):
        yield names["make"](*numbers)


@pytest.mark.parametrize("name", LINES)
def test_a_theorem_fires_where_its_condition_holds_and_is_true_there(name: str) -> None:
    rule = RULES[name]
    for line in map(str.strip, LINES[name].split("\n")[1:]):
        for node, fires in members(line):
            out = rule.apply(node)
            assert (out is not None) == bool(fires), f"{line}: {node}  ->  {out}"
            if out is not None:
                assert not rule.roots or type(node) in rule.roots, f"the theorem is not tried on {node}"
                assert differ_at(node, out) is None, f"{node}  ->  {out}  differs at {differ_at(node, out)}"
                assert out != node, f"{node} is left as it is, for ever"


def test_every_theorem_has_lines() -> None:
    assert LINES.keys() == RULES.keys()
