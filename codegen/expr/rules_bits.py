"""Theorems about & ^ |: masks shrink to the bits there are, disjoint bits add, swizzles cancel.

The idea.  A swizzle is  x ^ ((x & Y) >> s).  When the bits of x are known, the mask falls on single terms,
most of it vanishes, and a XOR of disjoint bits is a sum:

    row * 64 + col  with col < 64:      (row * 64 + col & 448) >> 3    ->    row % 8 * 8

Masks end on the leaves; low masks are remainders (x & 7 is x % 8), so that digits join again.
"""

from __future__ import annotations

from functools import reduce

from layoutalg.codegen.expr.nodes import Add, And, Const, Expr, FloorDiv, Mod, Mul, Or, Xor
from layoutalg.codegen.expr.rewrite import theorem
from layoutalg.codegen.expr.trees import content, divided, is_power_of_two, terms, times, total


@theorem("x ^ 0, x | 0 -> x,  x & x, x | x -> x,  x & m -> x  if x has no bit outside m", Xor, Or, And)
def _neutral_bits(node: Expr) -> Expr | None:
    match node:
        case Xor(x, Const(0)) | Xor(Const(0), x) | Or(x, Const(0)) | Or(Const(0), x):
            return x
        case And(x, y) | Or(x, y) if x == y:
            return x
        case And(x, Const(m)) if x.facts.may & ~m == 0:
            return x
    return None


@theorem("c ^ x -> x ^ c,  x ^ c ^ y -> x ^ y ^ c,  x & c & d -> x & (c & d)", Xor, And, Or)
def _constants_right(node: Expr) -> Expr | None:
    match node:
        case Xor(Const() as c, x) | And(Const() as c, x) | Or(Const() as c, x):
            return type(node)(x, c)
        case Xor(x, Xor(y, z)):
            return Xor(Xor(x, y), z)
        case Xor(Xor(x, Const() as c), y) if not isinstance(y, Const):
            return Xor(Xor(x, y), c)
        case And(And(x, Const(c)), Const(d)):
            return And(x, Const(c & d))
    return None


@theorem("x ^ y ^ x -> y", Xor)
def _cancel(node: Expr) -> Expr | None:
    if not isinstance(node, Xor):
        return None
    parts = terms(node, Xor)
    odd: dict[Expr, None] = {}
    constant = 0
    for part in parts:
        if isinstance(part, Const):
            constant ^= part.value
        elif part in odd:
            del odd[part]
        else:
            odd[part] = None
    if constant:
        odd[Const(constant)] = None
    return reduce(Xor, odd or [Const(0)]) if len(odd) < len(parts) else None


@theorem("bits that x lacks leave the mask of x, copies of x that m lacks leave the product", And)
def _absent_bits(node: Expr) -> Expr | None:
    match node:
        case And(x, Const(m)) if m & ~x.facts.may:
            return And(x, Const(m & x.facts.may))
        case And(Mul(x, Const(c)), Const(m)) if (factor := _copies(x.facts.may, c, m)) != c:
            return And(times(x, factor), Const(m))
    return None


def _copies(may: int, c: int, m: int) -> int:
    """The bits 2^k of c whose copy x * 2^k reaches into m, if all copies are disjoint; else c."""
    seen, factor = 0, 0
    for k in range(c.bit_length()):
        if c >> k & 1:
            if seen & may << k:
                return c
            seen |= may << k
            factor |= (1 << k) if may << k & m else 0
    return factor


def _disjoint(parts: list[Expr]) -> bool:
    seen = 0
    for part in parts:
        if seen & part.facts.may:
            return False
        seen |= part.facts.may
    return True


@theorem("(a + b) & m -> (a & m) + (b & m)  if a, b disjoint;  (a ^ b) & m likewise", And)
def _mask_splits(node: Expr) -> Expr | None:
    match node:
        case And(Add() as s, Const() as m) if _disjoint(terms(s)):
            return total(And(t, m) for t in terms(s))
        case And(Xor(a, b), Const() as m):
            return Xor(And(a, m), And(b, m))
    return None


@theorem("a mask moves inside % // * by a power of two", And, FloorDiv, Mod)
def _mask_inside(node: Expr) -> Expr | None:
    match node:
        case And(Mod(x, Const(c)), Const(m)) if is_power_of_two(c) and m < c:
            return And(x, Const(m))
        case And(Mul(x, Const(c)), Const(m)) if (low := c & -c) > 1:
            return Mul(And(times(x, c // low), Const(m // low)), Const(low))
        case FloorDiv(And(x, Const(m)), Const(c)) if is_power_of_two(c):
            return And(FloorDiv(x, Const(c)), Const(m // c))
        case Mod(And(x, Const(m)), Const(c)) if is_power_of_two(c):
            return And(x, Const(m & (c - 1)))
    return None


@theorem("x & (2^n - 1) -> x % 2^n", And)
def _low_mask(node: Expr) -> Expr | None:
    match node:
        case And(x, Const(m)) if is_power_of_two(m + 1):
            return Mod(x, Const(m + 1))
    return None


@theorem("(x // c & m) * c -> x & m * c,  x // c % d * c -> x & (d - 1) * c  for powers of two", Mul)
def _field(node: Expr) -> Expr | None:
    match node:
        case Mul(Mod(FloorDiv(x, Const(c)), Const(d)), Const(k)) if c == k and is_power_of_two(c):
            if is_power_of_two(d):
                return And(x, Const((d - 1) * c))
        case Mul(And(FloorDiv(x, Const(c)), Const(m)), Const(k)) if c == k and is_power_of_two(c):
            return And(x, Const(m * c))
    return None


@theorem("a ^ b, a | b -> a + b  if disjoint", Xor, Or)
def _disjoint_adds(node: Expr) -> Expr | None:
    match node:
        case Xor(a, b) | Or(a, b) if a.facts.may & b.facts.may == 0:
            return Add(a, b)
    return None


@theorem("(a + b) ^ y -> (a ^ y) + b  if b is disjoint from a and y", Xor)
def _free_of_xor(node: Expr) -> Expr | None:
    if not isinstance(node, Xor):
        return None
    for s, y in ((node.a, node.b), (node.b, node.a)):
        parts = terms(s)
        free = [t for t in parts if t.facts.may & y.facts.may == 0]
        if free and _disjoint(parts):
            return total([Xor(total(t for t in parts if t not in free), y), *free])
    return None


@theorem("a * g ^ b * g -> (a ^ b) * g  for a power of two g", Xor)
def _xor_of_products(node: Expr) -> Expr | None:
    match node:
        case Xor(a, b) if not isinstance(b, Const):
            common = content(a) | content(b)
            if (g := common & -common) > 1:
                return Mul(Xor(divided(a, g), divided(b, g)), Const(g))
    return None


@theorem("(a ^ b) // c -> a // c ^ b // c,  (a ^ b) % c -> a % c ^ b % c  for powers of two", FloorDiv, Mod)
def _xor_divides(node: Expr) -> Expr | None:
    match node:
        case FloorDiv(Xor(a, b), Const(c)) | Mod(Xor(a, b), Const(c)) if is_power_of_two(c):
            if any(x.facts.hi < c or x.facts.divisible_by(c) for x in (a, b)):
                return Xor(type(node)(a, node.b), type(node)(b, node.b))
    return None


BIT_RULES = (
    _neutral_bits, _constants_right, _cancel, _absent_bits, _mask_splits, _mask_inside, _low_mask,
    _field, _disjoint_adds, _free_of_xor, _xor_of_products, _xor_divides,
)  # fmt: skip
"""Masks, exclusive and inclusive or."""
