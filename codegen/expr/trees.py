"""Index expressions as a whole: their variables, values and substitutes, and their summands.

The idea.  A layout is called on a variable, and what comes back IS its index code:

    >>> from layoutalg.layout import Layout
    >>> print(Layout((4, 8), (8, 1))(Var("tid", 32)))
    0 + tid % 4 * 8 + tid // 4 * 1

because `Layout.__call__` uses only `+ * // % ^ & >> <<`.  A layout takes an index apart into digits and adds
them up again with other weights:

    tid // 8 % 4 * 64      is      the digit (tid, divisor 8, modulus 4) with weight 64

so the simplification of index code is arithmetic on digits: two of them merge when one continues the other,
as tid % 8 * 2 and tid // 8 % 4 * 16 do to tid % 32 * 2.  Bits are digits too: tid & 24 is tid // 8 % 4 * 8.

Notes.  The union of nodes is read by `match`, where it matters with `assert_never`, so that a new node is
found by the type checker wherever it must be handled.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from layoutalg.codegen.expr.nodes import (
    Add,
    And,
    Const,
    Eq,
    Expr,
    FloorDiv,
    Le,
    Lt,
    Minus,
    Mod,
    Mul,
    Or,
    Select,
    Shl,
    Shr,
    Var,
    Xor,
    as_expr,
)
from layoutalg.errors import IRError, ResourceError

ONE = Const(1)
"""The value that the constant of a linear combination counts, and the condition that always holds."""


def is_predicate(node: Expr) -> bool:
    """True for a comparison, an And / Or of predicates, and 0 or 1: what a decided one simplifies to.

    >>> i = Var("i", 8)
    >>> is_predicate((i < 4) & (i > 2)), is_predicate(i & 1)
    (True, False)
    """
    match node:
        case Lt() | Le() | Eq() | Const(0 | 1):
            return True
        case And(a, b) | Or(a, b):
            return is_predicate(a) and is_predicate(b)
        case _:
            return False


def rebuild(node: Expr, new: tuple[Expr, ...]) -> Expr:
    """The same operator on other operands.

    >>> str(rebuild(Var("i", 8) + 1, (Const(2), Const(3))))
    '2 + 3'
    """
    match node:
        case Var() | Const():
            return node
        case Shl(_, amount) | Shr(_, amount):
            return type(node)(new[0], amount)
        case Select():
            return Select(*new)
        case Minus():
            return Minus(new[0], new[1])
        case _:
            return type(node)(*new)


def substitute(node: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Replace variables by expressions.

    >>> i = Var("i", 8)
    >>> str(substitute(i * 2 + 1, {i: Const(3)}))
    '3 * 2 + 1'
    """
    return _substitute(node, {**values})


def _substitute(node: Expr, known: dict[Any, Expr]) -> Expr:
    if node not in known:
        old = node.children
        new = tuple([_substitute(c, known) for c in old])
        known[node] = node if new == old else rebuild(node, new)
    return known[node]


def resolved(node: Expr, names: Mapping[Var, Expr]) -> Expr:
    """The expression with names replaced by what they stand for, however deep.

    >>> i, j = Var("i", 8), Var("j", 16, "let")
    >>> str(resolved(Var("k", 17, "let") + 1, {Var("k", 17, "let"): j + 1, j: i * 2}))
    'i * 2 + 1 + 1'
    """
    while named := {v: names[v] for v in variables(node) if v in names}:
        node = substitute(node, named)
    return node


@functools.lru_cache(maxsize=1 << 14)
def variables(node: Expr) -> frozenset[Var]:
    """Every variable that occurs (the extents of variables are not searched).

    >>> sorted(v.name for v in variables(Var("i", 8) * 4 + Var("j", 4)))
    ['i', 'j']
    """
    leaves, seen, waiting = [], {node}, [node]
    for x in waiting:
        if isinstance(x, Var):
            leaves.append(x)
        for child in x.children:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return frozenset(leaves)


def evaluate(node: Expr, env: Mapping[Var, Any]) -> Any:
    """The value for given variables, which may be ints or integer NumPy arrays; predicates give 0 or 1.

    Arrays are computed in int64.  Raises IRError for a variable without a value, ResourceError where an
    array could hold a value past 63 bits.

    >>> i = Var("i", 8)
    >>> evaluate(i % 4 * 2 + 1, {i: 7})
    7
    """
    return _evaluate(node, env, {})


def _evaluate(node: Expr, env: Mapping[Any, Any], known: dict[Expr, Any]) -> Any:
    """Evaluate a node, widening of the given arrays only those that it depends on."""
    value = known.get(node)
    if value is None:
        value = env.get(node)
        if value is None:
            value = apply_operator(node, [_evaluate(c, env, known) for c in node.children])
            if node.facts.hi >> 63 and hasattr(value, "astype"):
                raise ResourceError(f"bits of '{node}' in an int64 array", node.facts.hi.bit_length(), 63)
        elif hasattr(value, "astype"):
            value = value.astype("int64")
        known[node] = value
    return value


def apply_operator(node: Expr, parts: list[Any]) -> Any:
    """The value of a node from the values of its operands, ints or integer NumPy arrays.

    >>> apply_operator(Var("i", 8) + 1, [4, 1])
    5
    """
    match node:
        case Add() | Mul():  # most nodes are
            return OPERATION[type(node)](*parts)
        case Const(value):
            return value
        case Var(name):
            raise IRError("scope", node, f"no value is given for {name}")
        case Shl(_, amount):
            return parts[0] << amount
        case Shr(_, amount):
            return parts[0] >> amount
        case Select():
            test, yes, no = parts
            return test * yes + (1 - test) * no
        case Lt() | Le() | Eq():
            return OPERATION[type(node)](*parts) * 1
        case _:
            return OPERATION[type(node)](*parts)


def minus(a: Any, b: Any) -> Any:
    """a - b, and 0 where b is greater, of ints and NumPy arrays; where one is an expression, a Minus.

    >>> minus(9, 4), minus(4, 9), str(minus(Var("i", 8), 3))
    (5, 0, 'max(i - 3, 0)')
    """
    if isinstance(a, Expr) or isinstance(b, Expr):
        return Minus(as_expr(a), as_expr(b))
    return _monus(a, b)


def _monus(a: Any, b: Any) -> Any:
    return (a - b) * (a > b)


def existing(node: Expr) -> Expr:
    """The predicate that no difference in an expression is below 0, where `minus` makes it 0.

    >>> i = Var("i", 8)
    >>> str(existing(minus(i, 3) + 4)), str(existing(i * 2)), str(existing(minus(9, i)))
    ('3 <= i', '1', '1')
    """
    match node:
        case Var(exists=known):
            return ONE if known is None else known
        case Select(condition, a, b):
            left, right = existing(a), existing(b)
            return left if left == right else (condition & left) | (condition.eq(0) & right)
        case Minus(a, b) if not node.exact:
            parts = [existing(a), existing(b), Le(b, a)]
        case _:
            parts = list(map(existing, node.children))
    needed = list(dict.fromkeys(part for part in parts if part != ONE))
    return functools.reduce(operator.and_, needed) if needed else ONE


OPERATION: Mapping[type, Callable[[Any, Any], Any]] = {
    Add: operator.add, Minus: _monus, Mul: operator.mul, FloorDiv: operator.floordiv, Mod: operator.mod,
    Xor: operator.xor, And: operator.and_, Or: operator.or_,
    Lt: operator.lt, Le: operator.le, Eq: operator.eq,
}  # fmt: skip
"""The function that each operator of two operands computes, on ints and on NumPy arrays."""


# --- summands, factors and digits -------------------------------------------------------------------------


def terms(node: Expr, kind: type[Add | Mul | Xor] = Add) -> list[Expr]:
    """The summands of a sum, left to right; or the factors of a product, or what a XOR joins.

    >>> [str(t) for t in terms(Var("i", 8) * 2 + Var("j", 8) + 1)]
    ['i * 2', 'j', '1']
    """
    return terms(node.a, kind) + terms(node.b, kind) if isinstance(node, kind) else [node]


def signed_terms(node: Expr) -> list[tuple[Expr, int]]:
    """The summands of a sum with their signs, 1 or -1, exact differences taken apart; the first sign is 1.

    >>> [(str(t), sign) for t, sign in signed_terms(Var("j", 8) + (9 - Var("i", 8)) * 4)]
    [('j', 1), ('36', 1), ('i * 4', -1)]
    """
    out: list[tuple[Expr, int]] = []
    for t in terms(node):
        match scaled(t):
            case Minus(a, b) as difference, weight if difference.exact:
                for part, side in ((a, 1), (b, -1)):
                    out += [(_scaled_by(x, weight), side * sign) for x, sign in signed_terms(part)]
            case _:
                out.append((t, 1))
    return out


def _scaled_by(node: Expr, weight: int) -> Expr:
    x, c = scaled(node)
    return Const(node.value * weight) if isinstance(node, Const) else times(x, c * weight)


def total(parts: Iterable[Expr]) -> Expr:
    """The sum of expressions, constants collected at the end.

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


def times(node: Expr, factor: int) -> Expr:
    """node * factor, without a factor of 1.

    >>> print(times(Var("i", 8), 1), times(Var("i", 8), 4))
    i i * 4
    """
    return node if factor == 1 else Mul(node, Const(factor))


def scaled(node: Expr) -> tuple[Expr, int]:
    """x and c of a product x * c; any other node is itself times 1.

    >>> x, c = scaled(Var("i", 8) * 4)
    >>> print(x, c)
    i 4
    """
    match node:
        case Mul(x, Const(c)):
            return x, c
        case _:
            return node, 1


def weights(node: Expr) -> dict[Expr, int]:
    """A sum as a linear combination: each x and its weight, the constant as the weight of 1.

    >>> {str(x): w for x, w in weights(Var("i", 8) * 2 + Var("j", 8) + Var("i", 8) + 7).items()}
    {'i': 3, 'j': 1, '1': 7}
    """
    out: dict[Expr, int] = {}
    for t in terms(node):
        x, w = (ONE, t.value) if isinstance(t, Const) else scaled(t)
        if isinstance(x, And):  # a field of bits, spelled as a digit
            field = digit(t)
            x, w = field.unit, field.weight
        out[x] = out.get(x, 0) + w
    return out


def combination(parts: Mapping[Expr, int]) -> Expr:
    """Inverse of `weights`: the sum of x * weight over the parts whose weight is not 0.

    >>> print(combination({Var("i", 8): 3, Var("j", 8): 0, ONE: 7}))
    i * 3 + 7
    """
    return total(Const(w) if x == ONE else times(x, w) for x, w in parts.items() if w)


def cancelled(a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
    """Two sums without the terms that they share; None where they share none.

    >>> i, j = Var("i", 8), Var("j", 8)
    >>> [str(side) for side in cancelled(i * 3 + j + 4, i + 9)]
    ['i * 2 + j', '5']
    """
    left, right = weights(a), weights(b)
    shared = {x: min(w, right[x]) for x, w in left.items() if right.get(x)}
    if not shared:
        return None
    return _less(left, shared), _less(right, shared)


def _less(side: Mapping[Expr, int], shared: Mapping[Expr, int]) -> Expr:
    return combination({x: w - shared.get(x, 0) for x, w in side.items()})


def content(node: Expr) -> int:
    """The greatest number that can be taken out of a sum of products without a division; 0 for 0.

    >>> content(Var("i", 8) * 12 + Var("j", 8) * 8 + 4)
    4
    """
    match node:
        case Const(value):
            return value
        case Add():
            return gcd(*map(content, terms(node)))
        case _:
            return scaled(node)[1]


def divided(node: Expr, factor: int) -> Expr:
    """node / factor, for a factor of its content.

    >>> print(divided(Var("i", 8) * 12 + 4, 4))
    i * 3 + 1
    """
    match node:
        case Const(value):
            return Const(value // factor)
        case Add():
            return total(divided(t, factor) for t in terms(node))
        case _:
            x, c = scaled(node)
            return times(x, c // factor)


def is_power_of_two(n: int) -> bool:
    """True for 1, 2, 4, ...

    >>> is_power_of_two(8), is_power_of_two(0)
    (True, False)
    """
    return n > 0 and n & (n - 1) == 0


@dataclass(frozen=True, slots=True)
class Digit:
    """x // divisor % modulus * weight; without modulus (None) x // divisor * weight."""

    x: Expr
    divisor: int
    modulus: int | None
    weight: int

    def continues(self, low: Digit) -> bool:
        """True when `low` is the next lower digit of the same number, weight included."""
        return (
            low.modulus is not None
            and self.divisor == low.divisor * low.modulus
            and self.weight == low.weight * low.modulus
            and self.x == low.x
        )

    def merged(self, low: Digit) -> Digit:
        """The digit that stands for itself plus `low`, which it continues."""
        if self.modulus is None or low.modulus is None:
            return Digit(self.x, low.divisor, None, low.weight)
        return Digit(self.x, low.divisor, self.modulus * low.modulus, low.weight)

    @property
    def unit(self) -> Expr:
        """The digit without its weight."""
        q = self.x if self.divisor == 1 else FloorDiv(self.x, Const(self.divisor))
        return q if self.modulus is None else Mod(q, Const(self.modulus))


def digit(node: Expr) -> Digit:
    """The node as a digit: every node is at least a digit of itself.

    >>> tid = Var("tid", 256)
    >>> digit((tid & 24) * 2) == digit(tid // 8 % 4 * 16)
    True
    """
    node, weight = scaled(node)
    match node:
        case Mod(FloorDiv(x, Const(c)), Const(d)):
            return Digit(x, c, d, weight)
        case Mod(x, Const(d)):
            return Digit(x, 1, d, weight)
        case FloorDiv(x, Const(c)):
            return Digit(x, c, None, weight)
        case And(x, Const(m)) if is_power_of_two((low := m & -m) and m // low + 1):
            return Digit(x, low, m // low + 1, weight * low)
        case _:
            return Digit(node, 1, None, weight)
