"""Theorems about differences: what both parts share leaves, and a comparison takes the other part over.

The idea.  `a - b` stops at 0, so that most of what holds of integers needs a condition: that the difference
is exact, which the facts of a and b prove, or that the other side of a comparison is above 0.

    (x + a) - (x + b) = a - b        always
    a - b < c         = a < b + c    if c > 0: where b is greater, both are true
    (a - b) + c < d   = a + c < b + d    if a - b is exact
    (a - c) % d       = (a + e) % d      if a - c is exact, for a constant c, where d divides c + e
"""

from __future__ import annotations

from math import gcd

from layoutalg.codegen.expr.nodes import Add, Const, Eq, Expr, Le, Lt, Minus, Mod
from layoutalg.codegen.expr.rewrite import Rule
from layoutalg.codegen.expr.sums import cancelled, content, divided, scaled, signed_terms, terms, times, total


def _neutral(node: Expr) -> Expr | None:
    match node:
        case Minus(x, Const(0)):
            return x
    return None


def _shared_terms(node: Expr) -> Expr | None:
    match node:
        case Minus(a, b):
            rest = cancelled(a, b)
            return Minus(*rest) if rest else None
    return None


def _nested(node: Expr) -> Expr | None:
    match node:
        case Minus(Minus(a, b), c):
            return Minus(a, Add(b, c))
        case Minus(a, Minus(b, c) as inner) if inner.exact:
            return Minus(Add(a, c), b)
    return None


def _shared_factor(node: Expr) -> Expr | None:
    match node:
        case Minus(a, b) if (g := gcd(content(a), content(b))) > 1:
            return times(Minus(divided(a, g), divided(b, g)), g)
    return None


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


def _compared_sums(node: Expr) -> Expr | None:
    match node:
        case Lt(a, b) | Le(a, b) | Eq(a, b):
            left, right = signed_terms(a), signed_terms(b)
            if any(sign < 0 for _, sign in (*left, *right)):
                return type(node)(_of_both(left, right), _of_both(right, left))
    return None


def _of_both(side: list[tuple[Expr, int]], other: list[tuple[Expr, int]]) -> Expr:
    """What a side adds, and what the other one takes away."""
    return total([*(t for t, sign in side if sign > 0), *(t for t, sign in other if sign < 0)])


def _remainder(node: Expr) -> Expr | None:
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
    Rule("x - 0 -> x", _neutral, (Minus,)),
    Rule("(x + a) - (x + b) -> a - b", _shared_terms, (Minus,)),
    Rule("a - b - c -> a - (b + c),  a - (b - c) -> a + c - b  if b - c is exact", _nested, (Minus,)),
    Rule("a * g - b * g -> (a - b) * g", _shared_factor, (Minus,)),
    Rule(
        "a - b < c -> a < b + c  if c > 0,  a - b <= c -> a <= b + c,  c < a - b -> b + c < a",
        _compared,
        (Lt, Le, Eq),
    ),
    Rule(
        "a - b + c < d -> a + c < b + d  if a - b is exact;  <= and == likewise", _compared_sums, (Lt, Le, Eq)
    ),
    Rule("(a - c) % d -> (a + e) % d  if a - c is exact, d | c + e", _remainder, (Mod,)),
)
"""Differences."""
