"""Classes of the executions of one access: which of them cannot be told apart by what they cost.

The idea.  A warp executes a memory access at many points: blocks, turns of loops, warps of a block.  Write
its address and its conditions as functions of the point p and the lane l.  Two points cost the same when
every condition holds for the same lanes, and

    address(p, l) - address(q, l)      is the same multiple of 32 bytes (128 for shared memory) for all l

A point is a tuple of axes, so whole ranges of points are divided into classes without looking at each: axis
after axis is taken in, the product of the classes so far and the new axis is evaluated at once, and points
that no value of the REMAINING axes and no lane can tell apart become one class with a weight.  What remains
is known by its interval only.

    row = block * 64 + i * 4 + tid // 32,  row < 1000      after `block`: 15 full blocks, the last

Each expression is evaluated to a `Split`: e(p, rest) = own(p) + f(keys(p), rest), between lo(p) and hi(p).
Points with equal keys have values that differ by the difference of their own parts, whatever the rest is:

    x + y          own parts add up
    x // c         own // c; key own % c               a quotient that is the same for lo and hi is known,
    x % c          key own % c                         has no keys, and is all own
    x < y          key own(x) - own(y)                 likewise decided where the intervals are
    x ^ y          the bits of y's range: key own(x) % 2^k; the bits above stay own

Notes.  Values are >= 0 as those of all index expressions.  The classes may be finer than necessary, never
coarser: what no rule splits is compared by its whole value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd, prod
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
    Mod,
    Mul,
    Or,
    Select,
    Shl,
    Shr,
    Var,
    Xor,
    apply_operator,
    children,
)
from layoutalg.errors import IRError, ResourceError

Array: TypeAlias = "numpy.ndarray[Any, Any]"
Value: TypeAlias = Any
"""An int, or an int64 array with an entry per point."""

MAX_POINTS = 1 << 20
"""Points evaluated at once, at most: the classes of some axes times the values of the next."""

MAX_EXECUTIONS = 1 << 50
"""Executions of one access that are counted; weights stay exact in float64, and no GPU runs as many."""

_SHARED = 1 << 14
"""Points up to which every subexpression is evaluated once; of more, only variables are held in memory."""

_ALONE = 16
"""Values of an axis from which on it is reduced alone before it is combined with the others."""


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

Points: TypeAlias = dict[Axis, Array]
"""The value of some axes at each of several points."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A predicate of an access's path, or of its guard, that must be `wanted` in a lane."""

    predicate: Expr
    wanted: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """What encloses a statement, and so decides when and by which lanes it is executed.

    `names` defines every variable, as an expression of others, a constant, or a sum of `axes` and the lane of
    a warp.  `executions` counts the points, those without an active lane included.
    """

    names: Mapping[Var, Expr | Digits]
    axes: tuple[Axis, ...] = ()
    conditions: tuple[Condition, ...] = ()
    executions: int = 1

    def let(self, var: Var, value: Expr | Digits) -> Scope:
        """The scope in which a variable stands for a value."""
        return replace(self, names={**self.names, var: value})

    def where(self, predicate: Expr, wanted: bool = True) -> Scope:
        """The scope of the lanes in which a predicate is as wanted."""
        return replace(self, conditions=(*self.conditions, Condition(predicate, wanted)))

    def running(self, var: Var, extent: int, digits: Digits) -> Scope:
        """The scope in which a variable has every value below `extent`."""
        axes = (*self.axes, *(axis for axis, _ in digits))
        return replace(self.let(var, digits), axes=axes, executions=self.executions * extent)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access of `statement` goes: byte `base_bytes` + `scale` * `index`, in the lanes of `scope`.

    Lanes can all be moved by `modulus` bytes at no change of cost.
    """

    statement: object
    index: Expr
    scale: int
    base_bytes: int
    modulus: int
    scope: Scope


@dataclass(frozen=True, slots=True)
class Classes:
    """Representatives of all points: the values of each axis, and how many points are like them."""

    points: Mapping[Axis, Value]
    weights: Value


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
        found = self.split(node)
        bounds, now = (self._most, found.hi) if upper else (self._least, found.lo)
        bound = _least(bound, now) if upper else _most(bound, now)
        if found.exact or not numpy.any(bound != now):
            return
        bounds[node] = bound
        self._known.clear()
        match node:
            case Add(a, b) if (part := self.split(b)).exact:
                self._bound(a, bound - part.own, upper=upper)
            case Add(b, a) if (part := self.split(b)).exact:
                self._bound(a, bound - part.own, upper=upper)

    def split(self, node: Expr) -> Split:
        """The Split of an expression.  Raises ResourceError where a value of an array could pass 62 bits."""
        if isinstance(node, Const):
            return exact(node.value)
        if node in self._known:
            return self._known[node]
        found = self._variable(node) if isinstance(node, Var) else self._operator(node)
        if node in self._least or node in self._most:
            lo, hi = (
                _most(found.lo, self._least.get(node, 0)),
                _least(found.hi, self._most.get(node, found.hi)),
            )
            found = _settled(replace(found, lo=lo, hi=hi))
        if self._shares or isinstance(node, Var):
            self._known[node] = found
        return found

    def _operator(self, node: Expr) -> Split:
        parts = [self.split(c) for c in children(node)]
        if all(p.exact for p in parts):
            found = exact(apply_operator(node, [p.own for p in parts]))
        else:
            found = _settled(_rule(node, parts))
        if node.facts.hi >> 62 and isinstance(found.hi, numpy.ndarray):
            raise ResourceError(f"bits of '{node}' in an int64 array", node.facts.hi.bit_length(), 62)
        return found

    def _variable(self, var: Var) -> Split:
        if var not in self._names:
            raise IRError("scope", var, f"no value is given for {var.name}")
        value = self._names[var]
        if not isinstance(value, tuple):
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


def _product(a: Split, b: Split) -> Split:
    if a.exact:
        a, b = b, a
    if b.exact:
        c = b.own
        return Split(a.own * c, a.lo * c, a.hi * c, (*a.keys, c), a.stride * c if isinstance(c, int) else 1)
    return Split(0, a.lo * b.lo, a.hi * b.hi, (*_whole(a), *_whole(b)))


def _quotient(a: Split, b: Split) -> Split:
    if not b.exact:
        least, most = _most(b.lo, 1), _most(b.hi, 1)  # facts prove that b >= 1; intervals may not
        return Split(0, a.lo // most, a.hi // least, (*_whole(a), *_whole(b)))
    c = b.own
    g = _common(a, c)
    stride = a.stride // c if isinstance(c, int) and g == c else 1
    return Split(a.own // c, a.lo // c, a.hi // c, (*a.keys, c, a.own % c // g), stride)


def _remainder(a: Split, b: Split) -> Split:
    if not b.exact:
        return Split(0, 0, _least(a.hi, b.hi - 1), (*_whole(a), *_whole(b)))
    c = b.own
    g = _common(a, c)
    passed = a.lo // c * c
    wraps = passed != a.hi // c * c
    least = a.own % g
    keys = (*a.keys, c, wraps, _where(wraps, a.own % c // g, 0))
    lo, hi = _where(wraps, least, a.lo - passed), _where(wraps, c - g + least, a.hi - passed)
    return Split(_where(wraps, least, a.own - passed), lo, hi, keys, g)


def _common(a: Split, c: Value) -> int:
    """What divides both f and c: own % it never carries."""
    return gcd(a.stride, c) if isinstance(c, int) else 1


def _bitwise(node: Xor | And | Or, a: Split, b: Split) -> Split:
    """The narrower operand is compared whole; of the wider one the bits above it are added or masked."""
    if _top(a.hi) < _top(b.hi):
        a, b = b, a
    above = 1 << _top(b.hi).bit_length()
    keys = (*a.keys, a.own % above, *_whole(b))
    own = a.own - a.own % above
    reach = (1 << _top(a.hi).bit_length()) - 1
    match node:
        case And():
            both = _least(a.lo, b.lo) if reach <= 1 else 0  # of predicates, the smaller one
            return Split(0, both, _least(a.hi, b.hi), keys)
        case Or():
            return Split(own, _most(a.lo, b.lo), reach if reach > 1 else _most(a.hi, b.hi), keys)
        case Xor():
            return Split(own, 0, reach, keys)


def _comparison(node: Lt | Le | Eq, a: Split, b: Split) -> Split:
    keys, ahead, stride = (*a.keys, *b.keys), a.own - b.own, gcd(a.stride, b.stride)
    match node:
        case Lt():  # ahead + stride * m < 0
            return Split(0, (a.hi < b.lo) * 1, (a.lo < b.hi) * 1, (*keys, ahead // stride))
        case Le():  # ahead + stride * m <= 0
            return Split(0, (a.hi <= b.lo) * 1, (a.lo <= b.hi) * 1, (*keys, -(-ahead // stride)))
        case Eq():
            return Split(0, 0, (a.lo <= b.hi) * 1 & (b.lo <= a.hi) * 1, (*keys, ahead))


def _choice(test: Split, a: Split, b: Split) -> Split:
    """The operand that the test selects; where the rest decides, one own part stands for both."""
    if test.exact:
        pick = test.own != 0
        keys = (pick, *(_where(pick, k, 0) for k in a.keys), *(_where(pick, 0, k) for k in b.keys))
        return Split(_where(pick, a.own, b.own), _where(pick, a.lo, b.lo), _where(pick, a.hi, b.hi), keys)
    keys = (*_whole(test), *a.keys, *b.keys, a.own - b.own)
    return Split(a.own, _least(a.lo, b.lo), _most(a.hi, b.hi), keys)


def _settled(s: Split) -> Split:
    """The same Split, where points that decide the value have no other key than that they do."""
    keys = tuple(k for k in s.keys if isinstance(k, numpy.ndarray))
    known = s.lo == s.hi
    if not isinstance(known, numpy.ndarray):
        return exact(s.lo) if known else replace(s, keys=keys)
    if known.all():
        return exact(s.lo)
    if known.any():
        keys = (known, *(_where(known, 0, k) for k in keys))
        return replace(s, own=_where(known, s.lo, s.own), keys=keys)
    return replace(s, keys=keys)


def _whole(s: Split) -> tuple[Value, ...]:
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


# --- classes -------------------------------------------------------------------------------------------


def classes_of(place: Place) -> Classes:
    """The classes of all points of a place at which a lane may be active.

    Raises ResourceError past MAX_POINTS and MAX_EXECUTIONS.
    """
    if place.scope.executions > MAX_EXECUTIONS:
        raise ResourceError(f"executions of '{place.statement}'", place.scope.executions, MAX_EXECUTIONS)
    used = _used(place)
    points: Points = {}
    weights = numpy.array([prod(axis.extent for axis in place.scope.axes if axis not in used)])
    for axis in used:
        new: Points = {axis: numpy.arange(axis.extent)}
        count = numpy.ones(axis.extent, dtype=numpy.int64)
        if points and axis.extent > _ALONE:
            new, count = _merged(place, new, count)
        if (size := len(weights) * len(count)) > MAX_POINTS:
            raise ResourceError(f"points of '{place.statement}' that are told apart", size, MAX_POINTS)
        points, weights = _merged(place, *_crossed(points, weights, new, count))
    return Classes(points, weights)


def _used(place: Place) -> list[Axis]:
    """The axes that the index or a condition depends on, short digits first.

    Where short axes are known, an interval of a long one decides more: of a row's end, once the row is known.
    """
    waiting = [place.index, *(c.predicate for c in place.scope.conditions)]
    seen: set[Expr] = set()
    found: set[Axis] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        value = place.scope.names.get(node) if isinstance(node, Var) else None
        match value:
            case tuple():
                found.update(axis for axis, _ in value)
            case None:
                waiting += children(node)
            case _:
                waiting.append(value)
    return sorted((axis for axis in place.scope.axes if axis in found), key=lambda axis: axis.reach)


def _crossed(points: Points, weights: Array, new: Points, count: Array) -> tuple[Points, Array]:
    """Every old point with every new one; weights multiply."""
    old, fresh = len(weights), len(count)
    crossed = {axis: numpy.repeat(values, fresh) for axis, values in points.items()}
    crossed |= {axis: numpy.tile(values, old) for axis, values in new.items()}
    return crossed, numpy.repeat(weights, fresh) * numpy.tile(count, old)


def _merged(place: Place, points: Points, weights: Array) -> tuple[Points, Array]:
    """One representative of the points that nothing tells apart; without those where no lane is active."""
    if not len(weights):
        return points, weights
    evaluate = Evaluator(place.scope.names, points)
    active = numpy.ones(len(weights), dtype=bool)
    keys: list[Value] = []
    for condition in place.scope.conditions:
        holds = evaluate.split(condition.predicate)
        active &= holds.hi != 0 if condition.wanted else holds.lo == 0
        keys += _whole(holds)
        evaluate.assume(condition.predicate, condition.wanted)
    at = evaluate.split(place.index)
    keys += [*at.keys, at.own * place.scale % place.modulus]
    arrays = {id(k): k for k in keys if isinstance(k, numpy.ndarray)}  # equal parts share their keys
    code = _numbered([k[active] for k in arrays.values()], int(active.sum()))
    _, first, which = numpy.unique(code, return_index=True, return_inverse=True)
    chosen = numpy.flatnonzero(active)[first]
    merged = numpy.bincount(which, weights[active], minlength=len(first)).astype(numpy.int64)
    return {axis: values[chosen] for axis, values in points.items()}, merged


def _numbered(keys: list[Array], count: int) -> Array:
    """A number per point, equal where all its keys are."""
    code, span = numpy.zeros(count, dtype=numpy.int64), 1
    for key in keys if count else ():
        key = key.astype(numpy.int64, copy=False)
        low, width = int(key.min()), int(key.max()) - int(key.min()) + 1
        if width > 1 and span * width >> 62:
            (span, code), (width, key), low = _ranked(code), _ranked(key), 0
        if width > 1:
            code, span = code * width + (key - low), span * width
    return code


def _ranked(key: Array) -> tuple[int, Array]:
    """How many values occur, and which of them each is."""
    values, which = numpy.unique(key, return_inverse=True)
    return len(values), which
