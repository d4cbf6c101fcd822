"""Theorems about + * // %: quotients and remainders of sums, and digits that join again.

The idea.  Three observations do most of the work on layouts:

    parts that the divisor divides leave        (a + b) % c = b % c        if c | a
    parts below the granule do not carry        (a + b) // c = a // c      if g | a, g | c, b < g
    digits that were taken apart join again     x // c * (c * k) + x % c * k = x * k

The conditions are read off the facts every node carries; `c`, `d`, `k`, `g` are constants.
"""

from __future__ import annotations

from itertools import accumulate
from math import gcd

from layoutalg.codegen.expr.nodes import Add, Const, Expr, FloorDiv, Mod, Mul, Shl, Shr
from layoutalg.codegen.expr.rewrite import theorem
from layoutalg.codegen.expr.trees import (
    combination,
    content,
    digit,
    divided,
    scaled,
    terms,
    times,
    total,
    weights,
)


@theorem("x -> c  if x can only be c")
def _constant(node: Expr) -> Expr | None:
    if isinstance(node, Const) or not node.facts.is_constant:
        return None
    return Const(node.facts.lo)


@theorem("x + 0, x * 1, x // 1 -> x", Add, Mul, FloorDiv)
def _neutral(node: Expr) -> Expr | None:
    match node:
        case (
            Add(x, Const(0)) | Add(Const(0), x) | Mul(x, Const(1)) | Mul(Const(1), x) | FloorDiv(x, Const(1))
        ):
            return x
    return None


@theorem("x << n -> x * 2^n,  x >> n -> x // 2^n", Shl, Shr)
def _shift(node: Expr) -> Expr | None:
    match node:
        case Shl(x, n):
            return Mul(x, Const(1 << n))
        case Shr(x, n):
            return FloorDiv(x, Const(1 << n))
    return None


@theorem("(a + c) + b -> a + b + c,  c * x -> x * c,  x * c * d -> x * (c * d)", Add, Mul)
def _constants_right(node: Expr) -> Expr | None:
    match node:
        case Add() if not _in_order(node):
            return total(terms(node))
        case Mul(Const() as c, x):
            return Mul(x, c)
        case Mul(Mul(x, Const(c)), Const(d)):
            return Mul(x, Const(c * d))
    return None


def _in_order(node: Add) -> bool:
    """True for a sum that leans left and has no constant but its last term."""
    a = node.a
    while isinstance(a, Add) and not isinstance(a.b, Add | Const):
        a = a.a
    return not isinstance(a, Add | Const) and not isinstance(node.b, Add)


@theorem("(a + b) * c -> a * c + b * c", Mul)
def _distribute(node: Expr) -> Expr | None:
    match node:
        case Mul(Add() as s, Const(c)):
            return total(times(t, c) for t in terms(s))
    return None


@theorem("x * c + x * d -> x * (c + d)", Add)
def _collect(node: Expr) -> Expr | None:
    if not isinstance(node, Add):
        return None
    parts = weights(node)
    return combination(parts) if len(parts) < len(terms(node)) else None


@theorem("x % c -> x  if x < c", Mod)
def _mod_small(node: Expr) -> Expr | None:
    match node:
        case Mod(x, c) if x.facts.hi < c.facts.lo:
            return x
    return None


@theorem("g * x // (g * d) -> x // d,  g * x % (g * d) -> x % d * g", FloorDiv, Mod)
def _common_factor(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(x, Const(d)) if (g := gcd(content(x), d)) > 1:
            return FloorDiv(divided(x, g), Const(d // g))
        case Mod(x, Const(d)) if (g := gcd(content(x), d)) > 1:
            return Mul(Mod(divided(x, g), Const(d // g)), Const(g))
    return None


@theorem("x // c // d -> x // (c * d),  x % c % d -> x % d,  x % c // d -> x // d % (c / d)", FloorDiv, Mod)
def _nested(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(FloorDiv(x, Const(c)), Const(d)):
            return FloorDiv(x, Const(c * d))
        case Mod(Mod(x, Const(c)), Const(d)) if c % d == 0:
            return Mod(x, Const(d))
        case FloorDiv(Mod(x, Const(c)), Const(d)) if c % d == 0:
            return Mod(FloorDiv(x, Const(d)), Const(c // d))
    return None


@theorem("(a + b) // c -> a // c + b // c  if c | a", FloorDiv)
def _div_of_sum(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(Add() as s, Const(c) as d):
            multiples: list[Expr] = []
            rest: list[Expr] = []
            for t in terms(s):
                if t.facts.divisible_by(c):
                    multiples.append(FloorDiv(t, d))
                elif isinstance(t, Const) and t.value > c:
                    multiples.append(Const(t.value // c))
                    rest.append(Const(t.value % c))
                else:
                    rest.append(t)
            if multiples:
                return total([*multiples, FloorDiv(total(rest), d)])
    return None


@theorem("(a + b) % c -> b % c  if c | a,  x * k % c -> x * (k % c) % c", Mod)
def _mod_of_sum(node: Expr) -> Expr | None:
    match node:
        case Mod(x, Const(c) as d):
            parts = terms(x)
            rest = [_remainder(t, c) for t in parts if not t.facts.divisible_by(c)]
            if rest != parts:
                return Mod(total(rest), d)
    return None


def _remainder(term: Expr, c: int) -> Expr:
    """A term with its weight reduced modulo c."""
    x, weight = scaled(term)
    if isinstance(x, Const):
        return Const(x.value % c)
    return term if weight < c else times(x, weight % c)


def _granule(parts: list[Expr], c: int) -> int | None:
    """A divisor g of c such that the terms that are not multiples of g sum to less than g."""
    steps = sorted((gcd(c, t.facts.stride, t.facts.offset) for t in parts), reverse=True)
    for g in accumulate(steps, gcd):
        small = [t.facts.hi for t in parts if not t.facts.divisible_by(g)]
        if small and sum(small) < g:
            return g
    return None


@theorem("(a + b) // c -> a // c,  (a + b) % c -> a % c + b  if g | a, g | c, b < g", FloorDiv, Mod)
def _low_part(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(Add() as s, Const(c) as d) | Mod(Add() as s, Const(c) as d):
            parts = terms(s)
            g = _granule(parts, c)
            if g is not None:
                high = total(t for t in parts if t.facts.divisible_by(g))
                if isinstance(node, FloorDiv):
                    return FloorDiv(high, d)
                return total([Mod(high, d), *(t for t in parts if not t.facts.divisible_by(g))])
    return None


@theorem("x // c * (c * k) -> x * k  if c | x", Mul)
def _whole_quotient(node: Expr) -> Expr | None:
    match node:
        case Mul(FloorDiv(x, Const(c)), Const(k)) if k % c == 0 and x.facts.divisible_by(c):
            return times(x, k // c)
    return None


@theorem("x // c % d * (c * k) + x % c * k -> x % (c * d) * k", Add)
def _digits_meet(node: Expr) -> Expr | None:
    if not isinstance(node, Add):
        return None
    parts = terms(node)
    digits = [digit(t) for t in parts]
    for i, high in enumerate(digits):
        for j, low in enumerate(digits):
            if high.continues(low):
                joined = high.merged(low)
                others = [t for n, t in enumerate(parts) if n not in (i, j)]
                return total([times(joined.unit, joined.weight), *others])
    return None


BASIC_RULES = (_constant, _neutral, _shift, _constants_right)
"""Spelling: what has several spellings gets one."""

SUM_RULES = (
    _mod_small, _common_factor, _nested, _div_of_sum, _mod_of_sum, _low_part, _collect, _whole_quotient,
    _digits_meet, _distribute,
)  # fmt: skip
"""Sums, products, quotients and remainders."""
