"""For which values of a symbol no two elements of a layout share an address: what a store needs.

The idea.  Rows that are shorter than what lies in them run into each other: (128,8):(1,ld) has two elements
at one address for every ld up to 127, and none from 128 on.  A store of distinct elements to such a layout
loses some of them; a load may want it (a broadcast), so that there it is only stated.

THEOREM.  Let the strides be slope * s + constant.  Two coordinates share an address at s where the sum of
(constant + slope s) d over the modes is 0 for their difference d.  Modes without s have a set D of such sums,
a union of intervals [h - r, h + r]: r is what their contiguous part reaches, h the sums of the others.  So
each difference of the modes with s, of sums A + B s, excludes the integers s with |A + B s - h| <= r: an
interval of them, or every s if B = 0 and it holds.  What is left are all values but finitely many, or none.

    (128,8):(1,ld)        r = 127, h = 0; |d ld| <= 127 for d = 1..7      ld in 0..127
    (8,4):(ld,16)         r = 0, h = 0, 16, 32, 48; d ld = h              ld in {0, 4, 8, 12, 16, 24, 32, 48}

>>> from sympy import Symbol
>>> print(solve_distinct(((128, 8), (1, Symbol("ld", positive=True))), Symbol("ld", positive=True)))
every ld from ld = 128 on
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as coordinates
from math import prod
from typing import TYPE_CHECKING

from layoutalg.budget import budget_of, spend
from layoutalg.decide import is_injective
from layoutalg.layout import Layout, flatten_tree
from layoutalg.limits import Most
from layoutalg.symbolic.generic_values import Line, first_value, linear_term
from layoutalg.symbolic.question import Symbolic, as_symbolic
from layoutalg.symbolic.solutions import Periodic, ResidueSet

if TYPE_CHECKING:
    import sympy

Mode = tuple[Line, int]
Range = tuple[int, int | None]


def solve_distinct(layout: Symbolic, symbol: sympy.Symbol, *, least: int | None = None) -> ResidueSet:
    """The exact set of values of `symbol`, from `least` on, at which no two elements of `layout` share an
    address.

    `least` is 1 for a positive symbol, else 0.  Raises UndecidedError where the layout has other symbols, is
    not linear in this one, or has more differences than the budget allows; ArgumentTypeError for a symbol
    that is none.

    Source: the theorem in the module's text; tests/symbolic/test_distinct.py compares it with `is_injective`
    at each value.

    >>> from sympy import Symbol
    >>> print(solve_distinct(((8, 4), (Symbol("ld"), 16)), Symbol("ld")).values(0, 12))
    (1, 2, 3, 5, 6, 7, 9, 10, 11)
    """
    first = first_value(symbol, least)
    shared = shared_ranges(layout, symbol, first)
    if shared and shared[-1][1] is None:
        return ResidueSet(Periodic(symbol, (False,), (), first))
    start, *others = shared if shared and shared[0][0] == first else [(first, first - 1), *shared]
    count = sum((last or 0) - begin + 1 for begin, last in others)
    Most.COUNTED.decide(count, "single values at which elements share an address")
    but = [(n, False) for begin, last in others for n in range(begin, (last or 0) + 1)]
    return ResidueSet(Periodic(symbol, (True,), tuple(but), (start[1] or 0) + 1), first)


def shared_ranges(layout: Symbolic, symbol: sympy.Symbol, first: int) -> list[Range]:
    """The values from `first` on at which two elements share an address, as ascending ranges (first, last);
    [(first, None)] where they do for every value.  Raises as `solve_distinct` does.

    >>> from sympy import Symbol
    >>> shared_ranges(((8, 4), (Symbol("ld"), 16)), Symbol("ld"), 5)
    [(8, 8), (12, 12), (16, 16), (24, 24), (32, 32), (48, 48)]
    """
    symbolic = as_symbolic(layout)
    lines = [linear_term(leaf, symbol) for leaf in flatten_tree(symbolic.stride)]
    extents = list(flatten_tree(symbolic.shape))
    modes = sorted((line, extent) for line, extent in zip(lines, extents, strict=True) if extent > 1)
    fixed = [(abs(line.constant), extent) for line, extent in modes if not line.slope]
    moving = _joined([(line, extent) for line, extent in modes if line.slope])
    with budget_of(f"for which {symbol} do elements of {symbolic} share an address?"):
        still = Layout(tuple(n for _, n in fixed), tuple(d for d, _ in fixed)) if fixed else Layout(1)
        if not is_injective(still):
            return [(first, None)]
        reach, high = _contiguous(fixed)
        alone = not high and len(moving) == 1  # then multiples of a difference exclude less than it does
        spend(prod(2 * n - 1 for _, n in high) * (1 if alone else prod(2 * n - 1 for _, n in moving)))
        sums = {sum(d * x for (d, _), x in zip(high, at, strict=True)) for at in _differences(high)}
        steps = {moving[0][0]} if alone else set(_steps(moving))
        ranges: list[tuple[int, int]] = []
        for slope, constant in steps:
            for h in sums:
                if not slope:
                    if abs(constant - h) <= reach:
                        return [(first, None)]
                    continue
                sign = 1 if slope > 0 else -1
                low = -((sign * (constant - h) + reach) // abs(slope))
                last = (reach - sign * (constant - h)) // abs(slope)
                if max(low, first) <= last:
                    ranges.append((max(low, first), last))
    return _union(ranges)


def _joined(modes: list[Mode]) -> list[Mode]:
    """Modes in which those that continue another are one with it; `modes` ascend."""
    out: list[Mode] = []
    for line, extent in modes:
        if out:
            (slope, constant), before = out[-1]
            if line == (slope * before, constant * before):
                out[-1] = (Line(slope, constant), before * extent)
                continue
        out.append((line, extent))
    return out


def _contiguous(fixed: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """The reach of the differences of modes without a gap, and the modes that are not among these."""
    reach, ordered = 0, sorted(fixed)
    while ordered and ordered[0][0] <= 2 * reach + 1:
        stride, extent = ordered.pop(0)
        reach += stride * (extent - 1)
    return reach, ordered


def _differences(modes: Sequence[tuple[object, int]]) -> Iterator[tuple[int, ...]]:
    return coordinates(*(range(1 - n, n) for _, n in modes))


def _steps(moving: list[Mode]) -> Iterator[Line]:
    """Sums of the differences of modes, of each and its negative one, without that of equal coordinates."""
    for at in _differences(moving):
        if at > (0,) * len(at):
            pairs = list(zip(moving, at, strict=True))
            yield Line(*(sum(line[k] * x for (line, _), x in pairs) for k in (0, 1)))


def _union(ranges: list[tuple[int, int]]) -> list[Range]:
    """The same values in disjoint ranges that do not touch, ascending."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return list(out)
