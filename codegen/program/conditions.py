"""What is known where a statement stands: the conditions of the branches around it, as intervals.

The idea.  Inside a branch its condition holds, and in the other part of it it does not.  Of a comparison that
is an interval for each of the two expressions, as far as the facts of the other one say:

    if (x < 60) { ... } else if (x < 64) { ... }        x <= 59;  60 <= x <= 63

An interval decides further comparisons of the same expression, and with those of its parts it bounds any
other expression; comparisons are known as they stand, too.

Notes.  Sound, not complete.  What is compared has its normal form, so that different spellings of a bound are
one; a bound is rounded to what the expression can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from layoutalg.codegen.expr import And, Const, Eq, Expr, Le, Lt, Or, simplify
from layoutalg.codegen.program.bounds import Interval, interval


@dataclass(frozen=True)
class Conditions:
    """What holds at a statement: intervals of expressions, and predicates that are true or false there.

    >>> from layoutalg.codegen.expr import Var
    >>> x = Var("x", 100)
    >>> inside = Conditions().under(x < 60, True)
    >>> inside.decided(x < 64), inside.decided(x < 32), Conditions().under(x < 64, False).decided(x < 60)
    (True, None, False)
    """

    intervals: Mapping[Expr, tuple[int, int]] = field(default_factory=dict)
    truths: Mapping[Expr, bool] = field(default_factory=dict)

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
        return Conditions(intervals, truths)

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
        found = self.decided(predicate)
        if found is not None:
            return Const(int(found))
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


def _joined(kind: type[And] | type[Or], parts: list[Expr], empty: int) -> Expr:
    return kind(*parts) if len(parts) == 2 else parts[0] if parts else Const(empty)


def _parts(condition: Expr, holds: bool) -> Iterator[tuple[Expr, bool]]:
    """What is true or false of the parts of a condition that holds or does not."""
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
