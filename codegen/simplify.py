"""Simplification: a table of named theorems and one driver that applies them bottom-up until none fires.

The idea.  A rule's name states what it proves, its condition reads the facts every node carries (interval,
congruence, bits).  For a 256-thread block walking rows of 64:

    0 + tid % 64 * 1 + tid // 64 % 4 * 64     ->   tid          (x % c + x // c * c -> x)
    (row * 64 + col & 896) >> 3               ->   (row & 14) * 8   for col < 64

Constants end on the right, multipliers are distributed over sums, a XOR or OR of disjoint bits becomes a
sum: the normal form that `lower` splits into thread base, XOR constant and immediate.

Each rule is proved exhaustively over small ranges in its test.  sympy is not used here: it knows neither
ranges nor bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd

from layoutalg.codegen.expr import (
    Add,
    And,
    Const,
    Expr,
    FloorDiv,
    Mod,
    Mul,
    Or,
    Select,
    Shl,
    Shr,
    Xor,
    children,
    rebuild,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A theorem `name` and the rewrite it allows; None where it does not apply."""

    name: str
    apply: Callable[[Expr], Expr | None]


def terms(node: Expr) -> list[Expr]:
    """The summands of a sum, left to right.

    >>> from layoutalg.codegen.expr import Var
    >>> [str(t) for t in terms(Var("i", 8) * 2 + Var("j", 8) + 1)]
    ['i * 2', 'j', '1']
    """
    match node:
        case Add(a, b):
            return terms(a) + terms(b)
        case _:
            return [node]


def total(parts: Iterable[Expr]) -> Expr:
    """The sum of expressions, constants collected at the end.

    >>> from layoutalg.codegen.expr import Var
    >>> str(total([Const(1), Var("i", 8), Const(2)]))
    'i + 3'
    """
    constant, out = 0, None
    for part in parts:
        if isinstance(part, Const):
            constant += part.value
        else:
            out = part if out is None else Add(out, part)
    if out is None:
        return Const(constant)
    return Add(out, Const(constant)) if constant else out


def _constant(node: Expr) -> Expr | None:
    if isinstance(node, Const) or not node.facts.is_constant:
        return None
    return Const(node.facts.lo)


def _neutral(node: Expr) -> Expr | None:
    match node:
        case Add(x, Const(0)) | Add(Const(0), x) | Xor(x, Const(0)) | Xor(Const(0), x):
            return x
        case Or(x, Const(0)) | Or(Const(0), x) | Mul(x, Const(1)) | Mul(Const(1), x) | FloorDiv(x, Const(1)):
            return x
    return None


def _shift(node: Expr) -> Expr | None:
    match node:
        case Shl(x, n):
            return Mul(x, Const(1 << n))
        case Shr(x, n):
            return FloorDiv(x, Const(1 << n))
    return None


def _constants_right(node: Expr) -> Expr | None:
    match node:
        case Add(a, b) if not isinstance(b, Add):
            parts = terms(a)
            if isinstance(parts[-1], Const) or isinstance(a, Const):
                return total([*parts, b])
        case Add(a, Add()):
            return total([*terms(a), *terms(node.b)])
        case Mul(Const() as c, x) if not isinstance(x, Const):
            return Mul(x, c)
        case Mul(Mul(x, Const(c)), Const(d)):
            return Mul(x, Const(c * d))
        case Xor(Const() as c, x) if not isinstance(x, Const):
            return Xor(x, c)
        case Xor(Xor(x, Const(c)), Const(d)):
            return Xor(x, Const(c ^ d))
        case And(Const() as c, x) if not isinstance(x, Const):
            return And(x, c)
        case And(And(x, Const(c)), Const(d)):
            return And(x, Const(c & d))
    return None


def _distribute(node: Expr) -> Expr | None:
    match node:
        case Mul(Add() as s, Const() as c):
            return total(Mul(t, c) for t in terms(s))
    return None


def _mod_small(node: Expr) -> Expr | None:
    match node:
        case Mod(x, c) if x.facts.hi < c.facts.lo:
            return x
    return None


def _div_of_product(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(Mul(x, Const(c)), Const(d)) if c % d == 0:
            return Mul(x, Const(c // d))
        case FloorDiv(Mul(x, Const(c)), Const(d)) if d % c == 0:
            return FloorDiv(x, Const(d // c))
    return None


def _mod_of_product(node: Expr) -> Expr | None:
    match node:
        case Mod(Mul(x, Const(c)), Const(d)) if (g := gcd(c, d)) > 1:
            return Mul(Mod(x if c == g else Mul(x, Const(c // g)), Const(d // g)), Const(g))
    return None


def _div_of_div(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(FloorDiv(x, Const(c)), Const(d)):
            return FloorDiv(x, Const(c * d))
    return None


def _mod_of_mod(node: Expr) -> Expr | None:
    match node:
        case Mod(Mod(x, Const(c)), Const(d)) if c % d == 0:
            return Mod(x, Const(d))
    return None


def _div_of_mod(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(Mod(x, Const(c)), Const(d)) if c % d == 0:
            return Mod(FloorDiv(x, Const(d)), Const(c // d))
    return None


def _div_of_sum(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(Add() as s, Const(c) as d):
            whole = [t for t in terms(s) if t.facts.divisible_by(c)]
            if whole:
                rest = total(t for t in terms(s) if not t.facts.divisible_by(c))
                return total([*(FloorDiv(t, d) for t in whole), FloorDiv(rest, d)])
    return None


def _mod_of_sum(node: Expr) -> Expr | None:
    match node:
        case Mod(Add() as s, Const(c) as d):
            rest = [t for t in terms(s) if not t.facts.divisible_by(c)]
            if len(rest) < len(terms(s)):
                return Mod(total(rest), d)
    return None


def _granule(parts: list[Expr], c: int) -> int | None:
    """A divisor g of c such that the terms that are no multiples of g sum to less than g."""
    for part in parts:
        f = part.facts
        g = gcd(c, f.stride, f.offset)
        small = [t for t in parts if not t.facts.divisible_by(g)]
        if g > 1 and small and sum(t.facts.hi for t in small) < g:
            return g
    return None


def _div_drops_low(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(Add() as s, Const(c) as d) if (g := _granule(terms(s), c)) is not None:
            return FloorDiv(total(t for t in terms(s) if t.facts.divisible_by(g)), d)
    return None


def _mod_splits_low(node: Expr) -> Expr | None:
    match node:
        case Mod(Add() as s, Const(c) as d) if (g := _granule(terms(s), c)) is not None:
            high = total(t for t in terms(s) if t.facts.divisible_by(g))
            low = total(t for t in terms(s) if not t.facts.divisible_by(g))
            return Add(Mod(high, d), low)
    return None


def _scaled(node: Expr) -> tuple[Expr, int]:
    match node:
        case Mul(x, Const(c)):
            return x, c
        case _:
            return node, 1


def _recompose(node: Expr) -> Expr | None:
    if not isinstance(node, Add):
        return None
    parts = terms(node)
    for i, high in enumerate(parts):
        for j, low in enumerate(parts):
            h, k = _scaled(high)
            r, scale = _scaled(low)
            match h, r:
                case FloorDiv(x, Const(c)), Mod(y, Const(d)) if x == y and c == d and k == c * scale:
                    pass
                case Mod(FloorDiv(x, Const(c)), Const(e)), Mod(y, Const(d)) if (
                    x == y and c == d and k == c * scale
                ):
                    x = Mod(x, Const(c * e))
                case _:
                    continue
            others = [p for n, p in enumerate(parts) if n not in (i, j)]
            return total([x if scale == 1 else Mul(x, Const(scale)), *others])
    return None


def _collect(node: Expr) -> Expr | None:
    if not isinstance(node, Add):
        return None
    parts = [_scaled(t) for t in terms(node) if not isinstance(t, Const)]
    seen: dict[Expr, int] = {}
    for x, c in parts:
        seen[x] = seen.get(x, 0) + c
    if len(seen) == len(parts):
        return None
    constants = [t for t in terms(node) if isinstance(t, Const)]
    return total([*(x if c == 1 else Mul(x, Const(c)) for x, c in seen.items()), *constants])


def _mask_covers(node: Expr) -> Expr | None:
    match node:
        case And(x, Const(m)) if x.facts.may & ~m == 0:
            return x
        case And(x, Const(m)) if m & ~x.facts.may:
            return And(x, Const(m & x.facts.may))
    return None


def _is_pow2(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _mask_inside(node: Expr) -> Expr | None:
    match node:
        case And(Mod(x, Const(c)), Const(m)) if _is_pow2(c) and m < c:
            return And(x, Const(m))
        case And(Mul(x, Const(c)), Const(m)) if _is_pow2(c):
            return Mul(And(x, Const(m // c)), Const(c))
        case FloorDiv(And(x, Const(m)), Const(c)) if _is_pow2(c):
            return And(FloorDiv(x, Const(c)), Const(m // c))
        case Mod(And(x, Const(m)), Const(c)) if _is_pow2(c):
            return And(x, Const(m & (c - 1)))
    return None


def _disjoint(parts: list[Expr]) -> bool:
    seen = 0
    for part in parts:
        if seen & part.facts.may:
            return False
        seen |= part.facts.may
    return True


def _mask_of_sum(node: Expr) -> Expr | None:
    match node:
        case And(Add() as s, Const() as m) if _disjoint(terms(s)):
            return total(And(t, m) for t in terms(s))
        case And(Xor(a, b), Const() as m):
            return Xor(And(a, m), And(b, m))
    return None


def _bits_to_sum(node: Expr) -> Expr | None:
    match node:
        case Xor(a, b) | Or(a, b) if a.facts.may & b.facts.may == 0:
            return Add(a, b)
        case Xor(a, b) if a == b:
            return Const(0)
    return None


def _free_of_xor(node: Expr) -> Expr | None:
    match node:
        case Xor(Add() as s, y) | Xor(y, Add() as s) if _disjoint(terms(s)):
            free = [t for t in terms(s) if t.facts.may & y.facts.may == 0]
            if free:
                bound = total(t for t in terms(s) if t.facts.may & y.facts.may)
                return total([Xor(bound, y), *free])
    return None


def _xor_of_products(node: Expr) -> Expr | None:
    match node:
        case Xor(Mul(a, Const(c)), Mul(b, Const(d))) if (g := min(c & -c, d & -d)) > 1:
            left = a if c == g else Mul(a, Const(c // g))
            right = b if d == g else Mul(b, Const(d // g))
            return Mul(Xor(left, right), Const(g))
    return None


def _select(node: Expr) -> Expr | None:
    match node:
        case Select(c, a, b) if c.facts.is_constant:
            return a if c.facts.lo else b
        case Select(_, a, b) if a == b:
            return a
    return None


RULES = (
    Rule("x -> c  if x can only be c", _constant),
    Rule("x + 0, x ^ 0, x | 0, x * 1, x // 1 -> x", _neutral),
    Rule("x << n -> x * 2^n,  x >> n -> x // 2^n", _shift),
    Rule("constants of + * ^ & meet on the right", _constants_right),
    Rule("x % c -> x  if x < c", _mod_small),
    Rule("x * c // d -> x * (c / d) or x // (d / c)", _div_of_product),
    Rule("x * c % d -> (x * (c / g) % (d / g)) * g,  g = gcd(c, d)", _mod_of_product),
    Rule("x // c // d -> x // (c * d)", _div_of_div),
    Rule("x % c % d -> x % d  if d | c", _mod_of_mod),
    Rule("x % c // d -> x // d % (c / d)  if d | c", _div_of_mod),
    Rule("(a + b) // c -> a // c + b // c  if c | a", _div_of_sum),
    Rule("(a + b) % c -> b % c  if c | a", _mod_of_sum),
    Rule("(a + b) // c -> a // c  if g | a, g | c, b < g", _div_drops_low),
    Rule("(a + b) % c -> a % c + b  if g | a, g | c, b < g", _mod_splits_low),
    Rule("x // c * (c * k) + x % c * k -> x * k", _recompose),
    Rule("x * c + x * d -> x * (c + d)", _collect),
    Rule("(a + b) * c -> a * c + b * c", _distribute),
    Rule("x & m -> x  if x has no bit outside m;  bits x lacks leave m", _mask_covers),
    Rule("a mask moves inside % // * by a power of two", _mask_inside),
    Rule("(a + b) & m -> (a & m) + (b & m)  if a, b disjoint;  (a ^ b) & m likewise", _mask_of_sum),
    Rule("a ^ b, a | b -> a + b  if disjoint;  x ^ x -> 0", _bits_to_sum),
    Rule("(a + b) ^ y -> (a ^ y) + b  if b disjoint from a and y", _free_of_xor),
    Rule("a * c ^ b * d -> (a * (c / g) ^ b * (d / g)) * g  for a power of two g", _xor_of_products),
    Rule("x if c else y -> x  if c is decided or x = y", _select),
)
"""Every theorem the simplifier uses, in the order they are tried."""

_LIMIT = 100_000


def simplify(node: Expr) -> Expr:
    """The normal form of an expression: equal for every value of its variables.

    >>> from layoutalg.codegen.expr import Var
    >>> tid = Var("tid", 256)
    >>> str(simplify(tid % 64 * 1 + tid // 64 % 4 * 64))
    'tid'
    """
    return _simplify(node, {})


def _simplify(node: Expr, done: dict[Expr, Expr]) -> Expr:
    if node in done:
        return done[node]
    current = node
    for _ in range(_LIMIT):
        new = tuple(_simplify(c, done) for c in children(current))
        if new != children(current):
            current = rebuild(current, new)
        step = next((out for rule in RULES if (out := rule.apply(current)) is not None), None)
        if step is None:
            break
        current = step
    done[node] = done[current] = current
    return current
