"""Split: an index expression as a part that the point decides and a part that the rest decides.

The idea.  Some variables have known values, an array of them: the points.  The rest, other variables and the
lanes of a warp, is known by intervals only.  An expression is evaluated to

    e(p, rest) = own(p) + f(keys(p), rest)        lo(p) <= e <= hi(p), f a multiple of `stride`

so that points with equal keys have values that differ by the difference of their own parts, whatever the rest
is.  The rules, bottom-up:

    x + y          own parts add up
    x // c         own // c; key own % c               a quotient that is the same for lo and hi is known,
    x % c          key own % c                         has no keys, and is all own
    x < y          key own(x) - own(y)                 likewise decided where the intervals are
    x ^ y          the bits of y's range: key own(x) % 2^k; the bits above and below them stay own
    x ^ 2^k - 1    2^k - 1 - x

Notes.  Values are >= 0 as those of all index expressions.  The keys may tell apart what is equal, never the
other way round: what no rule splits is compared by its whole value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, TypeAlias, assert_never

import numpy

from layoutalg.codegen.expr import (
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
    apply_operator,
)
from layoutalg.errors import IRError, ResourceError

Array: TypeAlias = "numpy.ndarray[Any, Any]"
Value: TypeAlias = Any
"""An int, or an int64 array with an entry per point."""

MOST_KEYS = 8
"""The most keys of an expression; one number replaces more."""

_SHARED = 1 << 14
"""Points up to which every subexpression is evaluated once; for more, only variables are held in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A digit of a variable that all lanes of a warp share: 0 <= value < extent.  Compared by identity.

    `reach` is the extent of the digit that it is a part of.
    """

    name: str
    extent: int
    reach: int


Digits: TypeAlias = tuple[tuple[Axis, int], ...]
"""A variable as the sum of axes times their weights."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """An expression on many points: own + f(keys, rest), at least lo and at most hi; `stride` divides f."""

    own: Value
    lo: Value
    hi: Value
    keys: tuple[Value, ...] = ()
    stride: int = 1

    @property
    def exact(self) -> bool:
        """Whether the points alone decide the value."""
        return self.lo is self.hi


def exact(value: Value) -> Split:
    """A value that the points alone decide."""
    return Split(value, value, value, stride=0)


class Evaluator:
    """Evaluates expressions of a place to their Split, for given values of some axes.

    An axis without values is known by its interval.
    """

    def __init__(self, names: Mapping[Var, Expr | Digits], points: Mapping[Axis, Value]) -> None:
        self._names, self._points = names, points
        self._shares = all(numpy.size(values) <= _SHARED for values in points.values())
        self._known: dict[Expr, Split] = {}
        self._users: dict[Expr, set[Expr]] = {}
        self._least: dict[Expr, Value] = {}
        self._most: dict[Expr, Value] = {}

    def assume(self, predicate: Expr, wanted: bool) -> None:
        """Look at lanes in which a predicate is as `wanted` from now on: what it compares is bounded."""
        match predicate:
            case And(a, b) if wanted:
                self.assume(a, wanted)
                self.assume(b, wanted)
            case Or(a, b) if not wanted:
                self.assume(a, wanted)
                self.assume(b, wanted)
            case Lt(a, b):
                self._ordered(a, b, 1) if wanted else self._ordered(b, a, 0)
            case Le(a, b):
                self._ordered(a, b, 0) if wanted else self._ordered(b, a, 1)

    def _ordered(self, a: Expr, b: Expr, apart: int) -> None:
        """a + apart <= b"""
        least, most = self.split(a).lo + apart, self.split(b).hi - apart
        self._bound(a, most, upper=True)
        self._bound(b, least, upper=False)

    def _bound(self, node: Expr, bound: Value, *, upper: bool) -> None:
        """A bound of an expression, and of the summand that depends on the rest if only one does."""
        value = self.split(node)
        bounds, now = (self._most, value.hi) if upper else (self._least, value.lo)
        bound = _least(bound, now) if upper else _most(bound, now)
        if value.exact or not numpy.any(bound != now):
            return
        bounds[node] = bound
        self._forget(node)
        match node:
            case Add(a, b) if (part := self.split(b)).exact:
                self._bound(a, bound - part.own, upper=upper)
            case Add(b, a) if (part := self.split(b)).exact:
                self._bound(a, bound - part.own, upper=upper)

    def _forget(self, node: Expr) -> None:
        """Evaluate an expression again, and all that it is a part of; what else is known stays so."""
        waiting = [node]
        while waiting:
            part = waiting.pop()
            self._known.pop(part, None)
            waiting.extend(self._users.pop(part, ()))

    def split(self, node: Expr) -> Split:
        """The Split of an expression.  Raises ResourceError where a value of an array could pass 62 bits."""
        value = self._known.get(node)
        if value is not None:
            return value
        if isinstance(node, Const):
            value = self._known[node] = exact(node.value)
            return value
        value = self._variable(node) if isinstance(node, Var) else self._operator(node)
        if node in self._least or node in self._most:
            lo, hi = (
                _most(value.lo, self._least.get(node, 0)),
                _least(value.hi, self._most.get(node, value.hi)),
            )
            value = _settled(replace(value, lo=lo, hi=hi))
        if self._shares or isinstance(node, Var):
            self._known[node] = value
        return value

    def _operator(self, node: Expr) -> Split:
        for c in node.children:
            self._users.setdefault(c, set()).add(node)
        parts = [self.split(c) for c in node.children]
        for part in parts:
            if part.lo is not part.hi:
                value = _settled(_rule(node, parts))
                break
        else:
            value = exact(apply_operator(node, [p.own for p in parts]))
        if node.facts.hi >> 62 and isinstance(value.hi, numpy.ndarray):
            raise ResourceError(f"bits of '{node}' in an int64 array", node.facts.hi.bit_length(), 62)
        return value

    def _variable(self, var: Var) -> Split:
        if var not in self._names:
            raise IRError("scope", var, f"no value is given for {var.name}")
        value = self._names[var]
        if not isinstance(value, tuple):
            self._users.setdefault(value, set()).add(var)
            return self.split(value)
        own: Value = 0
        rest = stride = 0
        for axis, weight in value:
            if axis in self._points:
                own = own + self._points[axis] * weight
            else:
                rest += (axis.extent - 1) * weight
                stride = gcd(stride, weight)
        return Split(own, own, own + rest, (), stride) if rest else exact(own)


def _rule(node: Expr, parts: list[Split]) -> Split:
    """The Split of an operator of which some operand depends on the rest."""
    match node:
        case Add():
            a, b = parts
            stride = gcd(a.stride, b.stride)
            return Split(a.own + b.own, a.lo + b.lo, a.hi + b.hi, (*a.keys, *b.keys), stride)
        case Minus():
            return _difference(*parts)
        case Mul():
            return _product(*parts)
        case Shl(_, amount):
            return _product(parts[0], exact(1 << amount))
        case FloorDiv():
            return _quotient(*parts)
        case Shr(_, amount):
            return _quotient(parts[0], exact(1 << amount))
        case Mod():
            return _remainder(*parts)
        case Xor() | And() | Or():
            return _bitwise(node, *parts)
        case Lt() | Le() | Eq():
            return _comparison(node, *parts)
        case Select():
            return _choice(*parts)
        case Var() | Const():
            raise IRError("operator", node, f"{node} has no operands")
        case _:
            assert_never(node)


def _difference(a: Split, b: Split) -> Split:
    """a - b, which stops at 0: where it may, it is compared whole."""
    ahead, lo, hi, keys = a.own - b.own, a.lo - b.hi, a.hi - b.lo, (*a.keys, *b.keys)
    stops = lo < 0
    if not numpy.any(stops):
        return Split(ahead, lo, hi, keys, gcd(a.stride, b.stride))
    keys = (*keys, stops, _where(stops, ahead, 0))
    return Split(_where(stops, 0, ahead), _most(lo, 0), _most(hi, 0), keys)


def _product(a: Split, b: Split) -> Split:
    if a.exact:
        a, b = b, a
    if b.exact:
        c = b.own
        return Split(a.own * c, a.lo * c, a.hi * c, (*a.keys, c), a.stride * c if isinstance(c, int) else 1)
    return Split(0, a.lo * b.lo, a.hi * b.hi, (*whole(a), *whole(b)))


def _quotient(a: Split, b: Split) -> Split:
    if not b.exact:
        least, most = _most(b.lo, 1), _most(b.hi, 1)  # facts prove that b >= 1; intervals may not
        return Split(0, a.lo // most, a.hi // least, (*whole(a), *whole(b)))
    c = b.own
    g = _common(a, c)
    stride = a.stride // c if isinstance(c, int) and g == c else 1
    return Split(a.own // c, a.lo // c, a.hi // c, (*a.keys, c, a.own % c // g), stride)


def _remainder(a: Split, b: Split) -> Split:
    if not b.exact:
        return Split(0, 0, _least(a.hi, b.hi - 1), (*whole(a), *whole(b)))
    c = b.own
    g = _common(a, c)
    passed = a.lo // c * c
    wraps = passed != a.hi // c * c
    least = a.own % g
    keys = (*a.keys, c, wraps, _where(wraps, a.own % c // g, 0))
    lo, hi = _where(wraps, least, a.lo - passed), _where(wraps, c - g + least, a.hi - passed)
    return Split(_where(wraps, least, a.own - passed), lo, hi, keys, g)


def _common(a: Split, c: Value) -> int:
    """The common divisor of f and c: own % it never carries."""
    return gcd(a.stride, c) if isinstance(c, int) else 1


def _bitwise(node: Xor | And | Or, a: Split, b: Split) -> Split:
    """The narrower operand is compared whole, except the bits below both strides, which the points decide;
    of the wider one the bits above the other are added or masked.
    """
    if isinstance(node, And) and a.exact != b.exact:
        return _masked(b, a) if a.exact else _masked(a, b)
    if isinstance(node, Xor):
        for ones, x in ((a, b), (b, a)):
            if ones.exact and isinstance(ones.own, int) and _has_bits_of(ones.own, x):
                return _difference(ones, x)  # all bits are turned over: nothing is borrowed
    if _top(a.hi) < _top(b.hi):
        a, b = b, a
    above = 1 << _top(b.hi).bit_length()
    g = gcd(a.stride, b.stride, above)
    keys = (*a.keys, a.own % above // g, *b.keys, b.own // g)
    low = apply_operator(node, [a.own % g, b.own % g])
    own = a.own - a.own % above + low
    reach = (1 << _top(a.hi).bit_length()) - 1
    match node:
        case And():
            both = _least(a.lo, b.lo) if reach <= 1 else 0  # of predicates, the smaller one
            return Split(low, both, _least(a.hi, b.hi), keys, g)
        case Or():
            return Split(own, _most(a.lo, b.lo), reach if reach > 1 else _most(a.hi, b.hi), keys, g)
        case Xor():
            return Split(own, 0, reach, keys, g)


def _has_bits_of(ones: int, x: Split) -> bool:
    """Whether a number is a row of ones that every value fits into."""
    return ones & (ones + 1) == 0 and _top(x.hi) <= ones


def _masked(a: Split, mask: Split) -> Split:
    """a & mask for a mask that the points decide: of f, only the bits below the mask's highest matter."""
    above = 1 << _top(mask.own).bit_length()
    g = gcd(a.stride, above)
    both = _least(a.lo, mask.own) if _top(a.hi) <= 1 and above <= 2 else 0  # of predicates, the smaller one
    hi = _least(a.hi, mask.own) if g < above else a.own % g & mask.own
    return Split(a.own % g & mask.own, both, hi, (*a.keys, mask.own, a.own % above // g), g)


def _comparison(node: Lt | Le | Eq, a: Split, b: Split) -> Split:
    keys, ahead, stride = (*a.keys, *b.keys), a.own - b.own, gcd(a.stride, b.stride) or 1
    match node:
        case Lt():  # ahead + stride * m < 0
            return Split(0, (a.hi < b.lo) * 1, (a.lo < b.hi) * 1, (*keys, ahead // stride))
        case Le():  # ahead + stride * m <= 0
            return Split(0, (a.hi <= b.lo) * 1, (a.lo <= b.hi) * 1, (*keys, -(-ahead // stride)))
        case Eq():
            return Split(0, 0, (a.lo <= b.hi) * 1 & (b.lo <= a.hi) * 1, (*keys, ahead))


def _choice(test: Split, a: Split, b: Split) -> Split:
    """The operand that the test selects; where the rest decides, one own part represents both."""
    if test.exact:
        pick = test.own != 0
        keys = (pick, *(_where(pick, k, 0) for k in a.keys), *(_where(pick, 0, k) for k in b.keys))
        return Split(_where(pick, a.own, b.own), _where(pick, a.lo, b.lo), _where(pick, a.hi, b.hi), keys)
    keys = (*whole(test), *a.keys, *b.keys, a.own - b.own)
    return Split(a.own, _least(a.lo, b.lo), _most(a.hi, b.hi), keys)


def _settled(s: Split) -> Split:
    """The same Split, where points that decide the value have no other key than that they do."""
    keys = _apart(s.keys)
    known = s.lo == s.hi
    if not isinstance(known, numpy.ndarray):
        return exact(s.lo) if known else Split(s.own, s.lo, s.hi, keys, s.stride)
    certain = numpy.count_nonzero(known)
    if certain == known.size:
        return exact(s.lo)
    if certain:
        keys = (known, *(_where(known, 0, k) for k in keys))
        return Split(_where(known, s.lo, s.own), s.lo, s.hi, keys, s.stride)
    return Split(s.own, s.lo, s.hi, keys, s.stride)


def _apart(keys: tuple[Value, ...]) -> tuple[Value, ...]:
    """The keys that differ among points, each once; of more than MOST_KEYS one number that is equal where all
    of them are.

    What an expression uses twice has the same arrays as keys both times.  In a chain of selections, each of
    which uses the one before in its test and in its value, keys would otherwise be more at every step.
    """
    arrays = tuple({id(k): k for k in keys if isinstance(k, numpy.ndarray)}.values())
    if len(arrays) <= MOST_KEYS or len({k.shape for k in arrays}) > 1:
        return arrays
    return (numbered(arrays, arrays[0].size)[0],)


def numbered(keys: Iterable[Array], count: int) -> tuple[Array, int]:
    """A number per point, equal where all its keys are, and how many numbers there may be.

    >>> code, span = numbered([numpy.array([7, 7, 9, 9]), numpy.array([0, 1, 0, 0])], 4)
    >>> code.tolist(), span
    ([0, 1, 4, 4], 6)
    """
    code, span = numpy.zeros(count, dtype=numpy.int64), 1
    for key in keys if count else ():
        key = key.astype(numpy.int64, copy=False)
        low = int(key.min())
        width = int(key.max()) - low + 1
        if width > 1 and span * width >> 62:
            (span, code), (width, key), low = _ranked(code), _ranked(key), 0
        if width > 1:
            code, span = code * width + (key - low), span * width
    return code, span


def _ranked(key: Array) -> tuple[int, Array]:
    """Return the number of values that occur, and which of them each is."""
    values, which = numpy.unique(key, return_inverse=True)
    return len(values), which


def whole(s: Split) -> tuple[Value, ...]:
    """Keys that decide everything about an expression but the rest."""
    return (*s.keys, s.own)


def _where(test: Value, a: Value, b: Value) -> Value:
    return numpy.where(test, a, b) if isinstance(test, numpy.ndarray) else a if test else b


def _least(a: Value, b: Value) -> Value:
    return _where(a < b, a, b)


def _most(a: Value, b: Value) -> Value:
    return _where(a > b, a, b)


def _top(value: Value) -> int:
    """The greatest of all points' values."""
    return int(value.max()) if isinstance(value, numpy.ndarray) else int(value)
