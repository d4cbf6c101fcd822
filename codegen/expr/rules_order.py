"""Theorems about order: differences, comparisons and selections.

The idea.  `a - b` stops at 0, so that most of what holds of integers needs a condition: that the difference
is exact, which the facts of a and b prove, or that the other side of a comparison is above 0.

    (x + a) - (x + b) = a - b        always
    a - b < c         = a < b + c    if c > 0: where b is greater, both are true
    (a - b) + c < d   = a + c < b + d    if a - b is exact
    (a - c) % d       = (a + e) % d      if a - c is exact, for a constant c, where d divides c + e

A guard such as `tid * 4 + 3 < n * 4` compares multiples of 4 plus a small rest.  The quotients decide unless
they are equal, and then the rests do:

    g a + r < g b + s        is        a < b   if r >= s always,       a <= b   if r < s always

Constant bounds are written with <, the constant adjusted: x <= 7 is x < 8, and 4 i < 61 is 4 i < 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import gcd

from layoutalg.codegen.expr.nodes import Add, Const, Eq, Expr, FloorDiv, Le, Lt, Minus, Mod, Select
from layoutalg.codegen.expr.rewrite import theorem
from layoutalg.codegen.expr.trees import (
    ONE,
    cancelled,
    combination,
    content,
    divided,
    scaled,
    signed_terms,
    terms,
    times,
    total,
    weights,
)


@theorem("x - 0 -> x", Minus)
def _minus_zero(node: Expr) -> Expr | None:
    match node:
        case Minus(x, Const(0)):
            return x
    return None


@theorem("(x + a) - (x + b) -> a - b", Minus)
def _minus_terms(node: Expr) -> Expr | None:
    match node:
        case Minus(a, b):
            rest = cancelled(a, b)
            return Minus(*rest) if rest else None
    return None


@theorem("a - b - c -> a - (b + c),  a - (b - c) -> a + c - b  if b - c is exact", Minus)
def _minus_nested(node: Expr) -> Expr | None:
    match node:
        case Minus(Minus(a, b), c):
            return Minus(a, Add(b, c))
        case Minus(a, Minus(b, c) as inner) if inner.exact:
            return Minus(Add(a, c), b)
    return None


@theorem("a * g - b * g -> (a - b) * g", Minus)
def _minus_factor(node: Expr) -> Expr | None:
    match node:
        case Minus(a, b) if (g := gcd(content(a), content(b))) > 1:
            return times(Minus(divided(a, g), divided(b, g)), g)
    return None


@theorem("a - b < c -> a < b + c  if c > 0,  a - b <= c -> a <= b + c,  c < a - b -> b + c < a", Lt, Le, Eq)
def _compared(node: Expr) -> Expr | None:
    match node:
        case Lt(Minus(a, b), c) | Eq(Minus(a, b), c) if c.facts.lo > 0:
            return type(node)(a, Add(b, c))
        case Le(Minus(a, b), c):
            return Le(a, Add(b, c))
        case Lt(c, Minus(a, b)):
            return Lt(Add(b, c), a)
        case Le(c, Minus(a, b)) | Eq(c, Minus(a, b)) if c.facts.lo > 0:
            return type(node)(Add(b, c), a)
        case Eq(Minus(a, b), Const(0)) | Eq(Const(0), Minus(a, b)):
            return Le(a, b)
    return None


@theorem("a - b + c < d -> a + c < b + d  if a - b is exact;  <= and == likewise", Lt, Le, Eq)
def _compared_sums(node: Expr) -> Expr | None:
    match node:
        case Lt(a, b) | Le(a, b) | Eq(a, b):
            left, right = signed_terms(a), signed_terms(b)
            if any(sign < 0 for _, sign in (*left, *right)):
                return type(node)(_of_both(left, right), _of_both(right, left))
    return None


def _of_both(side: list[tuple[Expr, int]], other: list[tuple[Expr, int]]) -> Expr:
    """The sum of what a side adds, and of what the other one takes away."""
    return total([*(t for t, sign in side if sign > 0), *(t for t, sign in other if sign < 0)])


@theorem("(a - c) % d -> (a + e) % d  if a - c is exact, d | c + e", Mod)
def _minus_modulo(node: Expr) -> Expr | None:
    match node:
        case Mod(s, Const(d) as by):
            parts = terms(s)
            for n, t in enumerate(parts):
                match scaled(t):
                    case Minus(a, Const(c)) as difference, weight if difference.exact:
                        others = [*parts[:n], times(a, weight), *parts[n + 1 :]]
                        return Mod(total([*others, Const(-c * weight % d)]), by)
    return None


MINUS_RULES = (
    _minus_zero, _minus_terms, _minus_nested, _minus_factor, _compared, _compared_sums, _minus_modulo,
)  # fmt: skip
"""Differences."""


@theorem("x <= c -> x < c + 1,  c <= x -> c - 1 < x,  c == x -> x == c", Le, Eq)
def _constant_bound(node: Expr) -> Expr | None:
    match node:
        case Le(x, Const(c)):
            return Lt(x, Const(c + 1))
        case Le(Const(c), x) if c > 0:
            return Lt(Const(c - 1), x)
        case Eq(Const() as c, x):
            return Eq(x, c)
    return None


@theorem("x < c -> x < c rounded up to x's congruence,  c - 1 < x -> likewise", Lt)
def _rounded_bound(node: Expr) -> Expr | None:
    match node:
        case Lt(x, Const(c)) if up := _to_congruence(x, c):
            return Lt(x, Const(c + up))
        case Lt(Const(c), x) if up := _to_congruence(x, c + 1):
            return Lt(Const(c + up), x)
    return None


def _to_congruence(x: Expr, bound: int) -> int:
    """The distance from a bound up to the least number that x may be by its congruence."""
    return (x.facts.offset - bound) % x.facts.stride if x.facts.stride else 0


@theorem("x // c < d -> x < c * d,  d < x // c -> (d + 1) * c - 1 < x,  x // c == 0 -> x < c", Lt, Eq)
def _quotient_bound(node: Expr) -> Expr | None:
    match node:
        case Lt(FloorDiv(x, Const(c)), Const(d)):
            return Lt(x, Const(c * d))
        case Lt(Const(d), FloorDiv(x, Const(c))):
            return Lt(Const((d + 1) * c - 1), x)
        case Eq(FloorDiv(x, Const(c)), Const(0)):
            return Lt(x, Const(c))
    return None


@theorem("x + a < x + b -> a < b;  <= and == likewise", Lt, Le, Eq)
def _shared_terms(node: Expr) -> Expr | None:
    match node:
        case Lt(a, b) | Le(a, b) | Eq(a, b):
            rest = cancelled(a, b)
            return type(node)(*rest) if rest else None
    return None


@theorem("g * a + r < g * b + s -> a < b or a <= b  if r, s < g, by the order of r and s", Lt, Le, Eq)
def _shared_factor(node: Expr) -> Expr | None:
    match node:
        case Lt(a, b) | Le(a, b) | Eq(a, b):
            left, right = weights(a), weights(b)
            sizes = sorted((w for side in (left, right) for x, w in side.items() if x != ONE), reverse=True)
            for g in dict.fromkeys(accumulate(sizes, gcd)):
                if g == 1:
                    break
                low, rest = _low(left, g), _low(right, g)
                if low.facts.hi < g and rest.facts.hi < g:
                    return _decided(node, _high(left, g), low, _high(right, g), rest)
    return None


def _high(side: Mapping[Expr, int], g: int) -> Expr:
    """high of a sum g * high + low."""
    return combination({x: w // g for x, w in side.items() if x == ONE or w % g == 0})


def _low(side: Mapping[Expr, int], g: int) -> Expr:
    """low of a sum g * high + low: the terms whose weight g does not divide."""
    return combination({x: w % g if x == ONE else w for x, w in side.items() if w % g})


def _decided(node: Lt | Le | Eq, a: Expr, r: Expr, b: Expr, s: Expr) -> Expr | None:
    """g * a + r compared with g * b + s for r, s < g, where the rests can be told apart."""
    order = type(node)(r, s).facts
    if not order.is_constant:
        return None
    if isinstance(node, Eq):
        return Eq(a, b) if order.lo else Const(0)
    return Le(a, b) if order.lo else Lt(a, b)


@theorem("x if c else y -> x  if c is decided or x = y", Select)
def _select(node: Expr) -> Expr | None:
    match node:
        case Select(c, a, b) if c.facts.is_constant:
            return a if c.facts.lo else b
        case Select(_, a, b) if a == b:
            return a
    return None


TRUTH_RULES = (_constant_bound, _quotient_bound, _rounded_bound, _shared_terms, _shared_factor, _select)
"""Comparisons and selections."""
