"""The facts known at a statement: the conditions of the branches around it, and the values of names.

The idea.  Inside a branch its condition holds, and in the other part of it it does not.  A comparison gives
an interval for each of the two expressions, as far as the facts of the other one say:

    if (x < 60) { ... } else if (x < 64) { ... }        x <= 59;  60 <= x <= 63

An interval decides other comparisons of the same expression, and with those of its parts it bounds any
other expression; comparisons are known as they are, too.

That a coordinate is below an extent is proved from them by one of

    facts          the coordinate's interval ends below the extent's
    a predicate    tile * 64 + 64 <= m holds here, and what is added to tile * 64 is below 64
    an interval    first <= 8 holds here, and the coordinate is first * 64 + x, with x below 64
    a range        tile counts the m // 64 tiles of the grid, so that tile * 64 + 64 <= m // 64 * 64 <= m

An access through a tensor keeps its coordinate, and `check_tensors` proves so of every mode with an extent.
A vector's elements lie along the mode of stride 1; its last one stays inside where its first one does, if
both the coordinate and the extent are multiples of it.  Every other stride has to be a multiple of it too.

Notes.  Sound, not complete.  Expressions are compared in normal form, so that different spellings of a bound
are one; a bound is rounded to what the expression can be.  An extent that is not stated, None, is not
checked; shared memory is judged by its bytes, see bounds, and registers by their shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from layoutalg.codegen.expr import (
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
    Var,
    resolved,
    simplify,
    variables,
    weights,
)
from layoutalg.codegen.program.bounds import Interval, interval
from layoutalg.codegen.program.tile import Body, Do, Global, If, Kernel, Let, MemRef, bodies
from layoutalg.errors import AlignmentError, IRError

if TYPE_CHECKING:
    from layoutalg.codegen.language import Tensor


@dataclass(frozen=True)
class Conditions:
    """The facts at a statement: intervals of expressions, predicates that are true or false there, and what
    names stand for.

    >>> x = Var("x", 100)
    >>> inside = Conditions().under(x < 60, True)
    >>> inside.decided(x < 64), inside.decided(x < 32), Conditions().under(x < 64, False).decided(x < 60)
    (True, None, False)
    """

    intervals: Mapping[Expr, tuple[int, int]] = field(default_factory=dict)
    truths: Mapping[Expr, bool] = field(default_factory=dict)
    lets: Mapping[Var, Expr] = field(default_factory=dict)
    _plain: dict[Expr, Expr] = field(default_factory=dict, repr=False, compare=False)
    _proved: set[tuple[Expr, Expr]] = field(default_factory=set, repr=False, compare=False)

    def let(self, var: Var, value: Expr) -> Conditions:
        """The same with a name for a value."""
        return replace(self, lets={**self.lets, var: value}, _plain={}, _proved=set())

    def under(self, condition: Expr, holds: bool) -> Conditions:
        """The same with a condition, in its normal form, that holds or does not."""
        intervals, truths = dict(self.intervals), dict(self.truths)
        for fact, true in _parts(condition, holds):
            truths[fact] = true
            for x, low, high in _bounded(fact, true):
                least, most = intervals.get(x, (x.facts.lo, x.facts.hi))
                low, high = _to_congruence(x, max(low, least), min(high, most))
                if low <= high and not x.facts.is_constant:
                    intervals[x] = low, high
        return replace(self, intervals=intervals, truths=truths, _proved=set())

    def decided(self, predicate: Expr) -> bool | None:
        """Whether a predicate, in its normal form, is true or false here; None: neither is known."""
        if predicate.facts.is_constant:
            return bool(predicate.facts.lo)
        if predicate in self.truths:
            return self.truths[predicate]
        match predicate:
            case Lt(x, Const(c)) if x in self.intervals:
                low, high = self.intervals[x]
                return True if high < c else False if low >= c else None
            case Lt(Const(c), x) if x in self.intervals:
                low, high = self.intervals[x]
                return True if low > c else False if high <= c else None
            case Eq(x, Const(c)) if x in self.intervals:
                low, high = self.intervals[x]
                return True if low == high == c else None if low <= c <= high else False
        return None

    def condition(self, predicate: Expr) -> Expr:
        """A predicate, in its normal form, without what is known of it."""
        decided = self.decided(predicate)
        if decided is not None:
            return Const(int(decided))
        match predicate:
            case And(a, b):
                parts = [part for part in (self.condition(a), self.condition(b)) if part != Const(1)]
                return Const(0) if Const(0) in parts else _joined(And, parts, 1)
            case Or(a, b):
                parts = [part for part in (self.condition(a), self.condition(b)) if part != Const(0)]
                return Const(1) if Const(1) in parts else _joined(Or, parts, 0)
        return predicate

    def orders(self, a: Expr, b: Expr) -> bool:
        """Whether a <= b is known."""
        if self.decided(simplify(Le(a, b))):
            return True
        known: dict[Expr, Interval] = dict(self.intervals)
        return bool(interval(a, known)[1] <= interval(b, known)[0])

    def plain(self, e: Expr) -> Expr:
        """The expression without names."""
        if e not in self._plain:
            self._plain[e] = simplify(resolved(e, self.lets))
        return self._plain[e]

    def bounded(self, e: Expr) -> Expr:
        """The expression without names, except for those whose interval is known here.

        >>> x, y = Var("x", 100), Var("y", 400, "let")
        >>> known = Conditions().let(y, x * 4).under(x < 8, True)
        >>> known.orders(y, Const(28)), known.orders(known.bounded(y), Const(28))
        (False, True)
        """
        return simplify(resolved(e, {v: x for v, x in self.lets.items() if v not in self.intervals}))

    def is_below(self, coordinate: Expr, extent: Expr) -> bool:
        """Whether coordinate < extent was proved; False says nothing.

        >>> m = Var("m", 1024, "param")
        >>> tile = Var("tile", m // 64, "block")
        >>> [Conditions().is_below(tile * 64 + x, m) for x in (Var("i", 64), Var("j", 65))]
        [True, False]
        """
        if (coordinate, extent) in self._proved or self.decided(simplify(coordinate < extent)):
            return True
        at, end = self.plain(coordinate), self.plain(extent)
        if (
            self._is_below(at, end)
            or self.orders(coordinate + 1, extent)
            or self.orders(self.bounded(coordinate) + 1, extent)
            or simplify(at < end) == Const(1)
        ):
            self._proved.add((coordinate, extent))  # a tile that is copied is loaded, then stored
            return True
        return False

    def _is_below(self, at: Expr, end: Expr) -> bool:
        for x, w in weights(at).items():
            if isinstance(x, Select):
                rest = _without(at, x)
                taken = self.under(simplify(x.condition), True)
                return taken._is_below(simplify(rest + x.a * w), end) and self._is_below(
                    simplify(rest + x.b * w), end
                )
        for low, high in (*self._orders(), *_ranges(at)):
            low, high = self.plain(low), self.plain(high)
            for times in _scales(low, high, at):
                if _is_ahead(low, at, times) and _is_at_most(simplify(high * times), end):
                    return True
        return False

    def _orders(self) -> Iterator[tuple[Expr, Expr]]:
        """(low, high) with low <= high, by the comparisons that are true or false here."""
        for fact, true in self.truths.items():
            match fact:
                case Le(a, b):
                    yield (a, b) if true else (b + 1, a)
                case Lt(a, b):
                    yield (a + 1, b) if true else (b, a)


def _joined(kind: type[And] | type[Or], parts: list[Expr], empty: int) -> Expr:
    return kind(*parts) if len(parts) == 2 else parts[0] if parts else Const(empty)


def _parts(condition: Expr, holds: bool) -> Iterator[tuple[Expr, bool]]:
    """Yield what is true or false of the parts of a condition that holds or does not."""
    yield condition, holds
    match condition:
        case And(a, b) if holds:
            yield from (*_parts(a, True), *_parts(b, True))
        case Or(a, b) if not holds:
            yield from (*_parts(a, False), *_parts(b, False))


def _bounded(fact: Expr, true: bool) -> Iterator[tuple[Expr, int, int]]:
    """The least and the most value of what is compared, where the comparison is true or false."""
    match fact:
        case Lt(a, b):
            yield from _ordered(a, b, 1) if true else _ordered(b, a, 0)
        case Le(a, b):
            yield from _ordered(a, b, 0) if true else _ordered(b, a, 1)
        case Eq(a, b) if true:
            low, high = max(a.facts.lo, b.facts.lo), min(a.facts.hi, b.facts.hi)
            yield from ((a, low, high), (b, low, high))


def _ordered(a: Expr, b: Expr, apart: int) -> Iterator[tuple[Expr, int, int]]:
    """a + apart <= b"""
    yield a, a.facts.lo, b.facts.hi - apart
    yield b, a.facts.lo + apart, b.facts.hi


def _to_congruence(x: Expr, low: int, high: int) -> tuple[int, int]:
    """An interval without the ends that x cannot be."""
    stride, offset = x.facts.stride or 1, x.facts.offset
    return low + (offset - low) % stride, high - (high - offset) % stride


def _ranges(at: Expr) -> Iterator[tuple[Expr, Expr]]:
    """(low, high) with low <= high, from how far the parts of a place can count."""
    for x in weights(at):
        match x:
            case Var(extent=count) | Mod(_, count) if isinstance(count, Expr):
                yield x + 1, count
            case FloorDiv(Var(extent=Mul(q, d)), by) if by in (q, d):
                yield x + 1, q if by == d else d
            case Minus(a, b) if x.exact:
                yield x + b, a


def _without(at: Expr, x: Expr) -> Expr:
    """A sum without the multiple of x."""
    out: Expr = Const(0)
    for y, w in weights(at).items():
        if y != x:
            out = out + y * w
    return out


def _scales(low: Expr, high: Expr, at: Expr) -> set[int]:
    """By what low <= high may be multiplied so that `low` has summands of a place, or `high` no division."""
    terms = weights(at)
    out = {1} | {terms[x] // w for x, w in weights(low).items() if w and x in terms and terms[x] >= w}
    match high:
        case FloorDiv(_, Const(by)):
            out.add(by)
    return out


def _is_ahead(low: Expr, at: Expr, times: int) -> bool:
    """place + 1 <= low * times, summand by summand."""
    most, least = weights(at), weights(low)
    ahead = 1
    for x in {*most, *least}:
        w = most.get(x, 0) - least.get(x, 0) * times
        ahead += w * (x.facts.hi if w > 0 else x.facts.lo)
    return ahead <= 0


def _is_at_most(high: Expr, end: Expr) -> bool:
    """high <= end: the same, by their facts, or rounded down."""
    match high:
        case Mul(FloorDiv(a, by), factor) if a == end and by == factor:
            return True
    return high == end or simplify(high <= end) == Const(1)


def check_tensors(kernel: Kernel) -> None:
    """Every access through a tensor stays below its extents, and every vector is aligned.

    Raises IRError for a coordinate that can pass an extent, AlignmentError that names the stride.

    >>> from layoutalg.codegen.language.builder import KernelBuilder
    >>> check_tensors(KernelBuilder("empty", threads=32).build())
    """
    _body(kernel.body, Conditions())


def _body(body: Body, known: Conditions) -> None:
    for s in body:
        match s:
            case Let(var, value):
                known = known.let(var, value) if isinstance(value, Expr) else known
            case If(condition, inner, orelse):
                condition = simplify(condition)
                if condition != Const(0):  # what can never run needs no proof
                    _body(inner, known.under(condition, True))
                if condition != Const(1):
                    _body(orelse, known.under(condition, False))
            case Do():
                here = known
                for guard in s.guards:
                    here = here.under(simplify(guard), True)
                for operand, ref in s.memory:
                    match ref:
                        case MemRef(Global() as buffer, _, tensor) if tensor is not None:
                            _access(s, ref, tensor, buffer, operand.bytes, here)
                        case MemRef(_, _, tensor) if tensor is not None:
                            _by_data(s, ref, tensor, here)
            case _:
                for inner in bodies(s):
                    _body(inner, known)


def _access(s: Do, ref: MemRef, tensor: Tensor, buffer: Global, nbytes: int, known: Conditions) -> None:
    """Check one access, of as many elements as it has bytes for along the mode of stride 1."""
    values = max(1, nbytes // buffer.element_bytes)
    strides = [simplify(d) for d in buffer.strides]
    along = strides.index(Const(1)) if Const(1) in strides else None
    if values > 1:
        _check_vector(s, ref, values, strides, along)
    for r, (c, extent) in enumerate(zip(ref.coordinate, tensor.extents, strict=True)):
        if extent is None:
            continue
        fits = c.facts.divisible_by(values) and extent.facts.divisible_by(values)
        last = c if fits or r != along else simplify(c + (values - 1))
        if not known.is_below(last, extent):
            raise IRError("extent", s, _PASSED.format(s, extent, r, buffer.name))


_PASSED = (
    "'{}' can pass the extent {} of mode {} of {}; a predicate such as where=part.inside is needed, or a "
    "tile that divides the extent"
)


def _by_data(s: Do, ref: MemRef, tensor: Tensor, known: Conditions) -> None:
    """Check the coordinates in shared memory that are numbers of registers, which no thread makes certain."""
    for r, (c, extent) in enumerate(zip(ref.coordinate, tensor.extents, strict=True)):
        numbers = [v for v in variables(c) if v.kind == "data"]
        if numbers and extent is not None and not known.is_below(c, extent):
            raise IRError("extent", s, _PASSED.format(s, extent, r, ref.buffer.name))


def _check_vector(s: Do, ref: MemRef, values: int, strides: list[Expr], along: int | None) -> None:
    """Every summand of the index of a vector is a multiple of its elements."""
    if along is None:
        steps = ", ".join(map(str, strides))
        raise AlignmentError(
            f"'{s}' moves {values} elements per lane, and no stride of {ref.buffer.name} is 1: {steps}"
        )
    for r, (c, d) in enumerate(zip(ref.coordinate, strides, strict=True)):
        if (c * d).facts.divisible_by(values):
            continue
        what = f"the coordinate {c} of mode {r}" if r == along else f"the stride {d} of mode {r}"
        raise AlignmentError(
            f"'{s}' moves {values} elements per lane, and {what} of {ref.buffer.name} is not known to be a "
            f"multiple of {values}",
            required_bytes=values * ref.buffer.element_bytes,
        )
