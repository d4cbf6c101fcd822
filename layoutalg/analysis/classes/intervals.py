"""Digits whose weighted sum lies in an interval, as few families of digit ranges.

The idea.  A coordinate is a sum of digits, c = sum of value * weight, and `row < 100` asks for those choices
of digits whose sum is below a bound.  Take the heaviest digit: most of its values put the whole sum inside
or outside, whatever the other digits are; at the one or two values on the edge the next digit decides.

    digits 4 (weight 8) and 8 (weight 1),  5 <= c < 20      1 with any            8..15
                                                            0 with 5..7, 2 with 0..3

>>> digits = (ResidueDigit(0, 8, 1, (0, 0, 0)), ResidueDigit(0, 4, 8, (0, 0, 0)))
>>> for family in between(digits, (1, 8), 5, 20):
...     print([(d.first, d.extent) for d in family])
[(5, 3), (0, 1)]
[(0, 8), (1, 1)]
[(0, 4), (2, 1)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layoutalg.analysis.classes.residues import ResidueDigit
from layoutalg.budget import spend
from layoutalg.errors import UndecidedError

EDGES = 64
"""Values of one digit on the edge of an interval, at most."""

Digits = tuple[ResidueDigit, ...]


def between(digits: Digits, weights: Sequence[int], low: int, high: int) -> Iterator[Digits]:
    """Disjoint families that hold every choice of `digits` with low <= sum of value * weight < high.

    Weights must not be negative; digits of weight 0 are free.  Raises UndecidedError
    when digits overlap so much that an interval is more than a few families.

    >>> [[d.extent for d in f] for f in between((ResidueDigit(0, 1 << 40, 1, (0, 0, 0)),), (1,), 0, 1 << 20)]
    [[1048576]]
    """
    order = sorted((i for i, w in enumerate(weights) if w), key=lambda i: -weights[i])
    fixed = sum(digits[i].first * weights[i] for i in order)
    yield from _between(digits, weights, order, low - fixed, high - fixed)


def _between(
    digits: Digits, weights: Sequence[int], order: Sequence[int], low: int, high: int
) -> Iterator[Digits]:
    """`between` for the digits `order`, whose values count from their first."""
    spend(1 + len(order))
    reach = sum((digits[i].extent - 1) * weights[i] for i in order)
    if high <= 0 or low > reach:
        return
    if low <= 0 and reach < high:
        yield digits
        return
    top, rest = order[0], order[1:]
    extent, weight = digits[top].extent, weights[top]
    below = reach - (extent - 1) * weight
    # Values with all of their sums inside, and values with some.
    inside = range(max(0, -(-low // weight)), max(0, min(extent, (high - 1 - below) // weight + 1)))
    some = range(max(0, -(-(low - below) // weight)), max(0, min(extent, (high - 1) // weight + 1)))
    if not inside:
        inside = range(some.start, some.start)
    edges = (range(some.start, inside.start), range(inside.stop, some.stop))
    if sum(map(_count, edges)) > EDGES:
        raise UndecidedError(f"an interval cuts through more than {EDGES} values of one digit", budget=EDGES)
    for n, values in enumerate((edges[0], inside, edges[1])):
        if n == 1 and values:
            yield _narrowed(digits, top, values)
        for value in values if n != 1 else ():
            fixed = _narrowed(digits, top, range(value, value + 1))
            yield from _between(fixed, weights, rest, low - value * weight, high - value * weight)


def _narrowed(digits: Digits, which: int, values: range) -> Digits:
    digit = digits[which]
    narrow = digit._replace(first=digit.first + values.start, extent=_count(values))
    return (*digits[:which], narrow, *digits[which + 1 :])


def _count(values: range) -> int:
    """The number of values; `len` has no more than 63 bits."""
    return max(0, values.stop - values.start)
