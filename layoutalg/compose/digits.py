"""Composition of two layouts, exact or refused: R with R(c) = A(B(c)) at every coordinate of B.

The idea.  An index i of A is a number in the mixed radix of A's extents, and A(i) is the sum of digit *
stride.  R is a layout exactly when walking through B adds up digit by digit, that is when no digit of A
carries.  A mode s:d of B splits where it fills a digit:

    A = (6,4):(4,1)   B = 12:2      i = 2 x has low digit 2 x while x < 3, and then counts the high digit
    R = (3,4):(8,1)

    A = (6,2):(1,7)   B = (3,2):(2,3)      B(2,1) = 4 + 3 = 7 is digit 1 carry 1: A(7) = 8, but the digits
                                           4 and 3 add up to 7.  No layout; refused with that coordinate

The pieces of all modes of B are summed digit by digit; while no sum reaches its extent, R is exact.  When
one does, carries may still cancel, as (2,2,4):(1,3,5) o (2,2):(3,1) = (2,2):(4,1): then every coordinate
of the modes that meet there is checked, up to Most.ONE_BY_ONE of them.  A beyond its domain extends its last
mode: 4:3 o 8:1 = 8:3.

Comparison with CuTe.  Wherever CuTe's answer is right, this is the same function; where a carry makes
CuTe's answer wrong (the second example) this refuses; where CuTe refuses although a layout exists
((6,4):(4,1) o 2:9 = 2:13), this finds it.  Negative strides: welcome in A; a B that reaches a negative
index is refused, since A has no such coordinate.

Where A's strides move along modes, see coordinates; where there are symbols, see symbolic_algebra.

Source: CUTLASS, media/docs/cpp/cute/02_layout_algebra.md; J. Shah, A Note on the Algebra of CuTe Layouts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from layoutalg.budget import Budget
from layoutalg.compose.coordinates import compose_coordinates
from layoutalg.compose.symbolic import compose_symbols, undecided_value
from layoutalg.errors import DivisibilityError, ShapeError, UndecidedError, UnsupportedError
from layoutalg.layout import (
    IntTuple,
    Layout,
    Trace,
    flatten_tree,
    has_bases,
    has_symbols,
    is_symbolic,
    layout_of,
    leaf_lists,
    leaves,
    merge_open,
)
from layoutalg.limits import Most

_CARRY = "digits of the first layout carry, and whether the carries cancel was not decided when"

Piece: TypeAlias = "tuple[list[int], list[int]]"
FlatLeaves: TypeAlias = "tuple[int, ...]"


def _split(radix: list[int], weights: list[int], extent: int, step: int, used: list[int]) -> Piece | None:
    """Extents and strides of x -> A(step * x), x < extent; adds what it uses of each digit to `used`, and is
    None where one may carry."""
    extents: list[int] = []
    strides: list[int] = []
    if extent == 1:
        return [1], [0]
    for i, n in enumerate(radix):
        if step % n == 0:
            step //= n
            continue
        if n % step:
            return _split_wide(radix, weights, i, extent, step, used, extents, strides)
        run = extent if extent * step <= n else n // step
        used[i] += (run - 1) * step
        if extent % run or used[i] >= n:
            return None
        extents.append(run)
        strides.append(step * weights[i])
        extent //= run
        if extent == 1:
            return extents, strides
        step = 1
    extents.append(extent)
    strides.append(step * weights[-1])
    return extents, strides


def _split_wide(
    radix: list[int],
    weights: list[int],
    first: int,
    extent: int,
    step: int,
    used: list[int],
    extents: list[int],
    strides: list[int],
) -> Piece | None:
    """`_split` from digit `first` on, for steps that move several digits at once."""
    while extent > 1:
        digits, slope, run = _advance(radix, weights, first, step)
        run = min(run, extent) if run else extent
        if extent % run:
            return None
        for i, digit in enumerate(digits, first):
            used[i] += (run - 1) * digit
            if used[i] >= radix[i]:
                return None
        if extents and extents[-1] * strides[-1] == slope:
            extents[-1] *= run
        else:
            extents.append(run)
            strides.append(slope)
        extent //= run
        step *= run
    return extents, strides


def _advance(radix: list[int], weights: list[int], first: int, step: int) -> tuple[list[int], int, int]:
    """Digits of `step` (from digit `first` on), A(step), and the first multiple that carries (0: none)."""
    digits: list[int] = []
    slope = run = 0
    for n, weight in zip(radix[first:], weights[first:], strict=False):
        step, digit = divmod(step, n)
        digits.append(digit)
        if digit:
            slope += digit * weight
            full = -(-n // digit)
            run = min(run, full) if run else full
    return digits, slope + step * weights[-1], run


def compose_layouts(a: Layout, b: Layout, trace: Trace | None = None) -> Layout:
    """`composition` of two plain layouts, as described above; raises what `composition` raises.

    >>> print(compose_layouts(Layout((6, 4), (4, 1)), Layout(12, 2)))
    (3,4):(8,1)
    """
    radix, weights = merge_open(a)
    extents, steps = flatten_tree(b.shape), flatten_tree(b.stride)
    if type(sum(weights)) is type(sum(steps)) is type(sum(radix, sum(extents))) is int:
        if trace is None:
            return _assemble(b.shape, _compose_leaves(a, b, radix, weights, extents, steps))
        trace.note("composition", a=a, b=b, radix=radix, weights=weights)
        pieces = _compose_leaves(a, b, radix, weights, extents, steps, trace)
        result = _assemble(b.shape, pieces)
        trace.note("composed", a=a, b=b, result=result)
        return result
    return _compose_others(a, b)


def _compose_others(a: Layout, b: Layout) -> Layout:
    """`compose_layouts` for leaves that are not integers: strides along modes, symbols."""
    if has_bases(b):
        raise UnsupportedError(f"composition({a}, {b}): the second layout gives coordinates, and no indices")
    if not has_symbols(a) and not has_symbols(b):
        if any(d < 0 and s > 1 for s, d in leaves(b)):
            _refuse_negative(a, b)
        return compose_coordinates(a, b, compose_layouts)
    radix, weights = merge_open(a)
    if has_bases(a) or has_symbols(b) or any(map(is_symbolic, radix)):
        return _assemble(b.shape, compose_symbols(a, b))
    return _assemble(b.shape, _compose_leaves(a, b, radix, weights, *leaf_lists(b)))


def _compose_leaves(
    a: Layout,
    b: Layout,
    radix: list[int],
    weights: list[int],
    extents: FlatLeaves,
    steps: FlatLeaves,
    trace: Trace | None = None,
) -> list[Piece]:
    """The pieces of every leaf of `b`, or an error with a witness."""
    if steps and min(steps) < 0 and any(d < 0 and s > 1 for s, d in zip(extents, steps, strict=True)):
        _refuse_negative(a, b)
    if not radix:
        weight = weights[0]
        plain = [([s], [d * weight if s > 1 else 0]) for s, d in zip(extents, steps, strict=True)]
        if trace is not None:
            trace.note("modes", a=a, b=b, pieces=plain, radix=radix, used=[])
        return plain
    used = [0] * len(radix)
    out: list[Piece] = []
    for i, s in enumerate(extents):
        piece = _split(radix, weights, s, steps[i], used)
        if piece is None:
            return _search(a, b, trace)
        out.append(piece)
    if trace is not None:
        trace.note("modes", a=a, b=b, pieces=out, radix=radix, used=used)
    return out


def _refuse_negative(a: Layout, b: Layout) -> None:
    """Raise for a `b` with a negative stride, naming the coordinate of its least offset."""
    worst, weight = 0, 1
    for s, d in leaves(b):
        if d < 0:
            worst += weight * (s - 1)
        weight *= s
    raise ShapeError(
        f"composition({a}, {b}): coordinate {worst} of the second layout has the offset {b(worst)}, "
        f"and the first has no negative coordinates; use non-negative strides",
        witness=worst,
    )


def _search(a: Layout, b: Layout, trace: Trace | None = None) -> list[Piece]:
    """Decide by looking: the only candidate is read off mode by mode, then checked everywhere it may fail."""
    radix, weights = merge_open(a)
    budget, cost = Budget(f"composition({a}, {b}):", reached=_CARRY), 2 * (len(radix) + len(leaves(b)) + 1)
    out: list[Piece] = []
    uses: list[list[int]] = []
    base = 1
    for mode, (s, d) in enumerate(leaves(b)):
        extents: list[int] = []
        strides: list[int] = []
        use = [0] * len(radix)
        step, rest = d, s
        while rest > 1:
            digits, slope, run = _advance(radix, weights, 0, step)
            run = min(run, rest) if run else rest
            start = run
            while run < rest and a(run * step) == run * slope:
                run += 1
                budget.spend(cost)
                if run - start > Most.ONE_BY_ONE.number:
                    raise _undecided(a, b)
            if rest % run:
                raise _refusal(a, b, mode, base * (s // rest) * run, run * slope)
            extents.append(run)
            strides.append(slope)
            use = [u + (run - 1) * digit for u, digit in zip(use, digits, strict=True)]
            step *= run
            rest //= run
        out.append((extents, strides) if extents else ([1], [0]))
        uses.append(use)
        base *= s
    if trace is not None:
        trace.note("modes", a=a, b=b, pieces=out, radix=radix, used=None)
    _check(a, b, _assemble(b.shape, out), _contenders(b, radix, uses), budget)
    return out


def _contenders(b: Layout, radix: list[int], uses: list[list[int]]) -> list[tuple[int, int]]:
    """(extent, weight in the flat index) of the leaves of `b` that add to a digit that may carry."""
    carry = 0
    carrying: list[bool] = []
    for i, n in enumerate(radix):
        carry = (sum(use[i] for use in uses) + carry) // n
        carrying.append(carry > 0)
    out: list[tuple[int, int]] = []
    base = 1
    for (s, _), use in zip(leaves(b), uses, strict=True):
        if any(u and c for u, c in zip(use, carrying, strict=True)):
            out.append((s, base))
        base *= s
    return out


def _check(a: Layout, b: Layout, candidate: Layout, modes: list[tuple[int, int]], budget: Budget) -> None:
    """Compare candidate with a o b where only the given modes of `b` move."""
    total = math.prod(s for s, _ in modes)
    if total <= Most.ONE_BY_ONE.number:
        coordinates: Iterable[int] = map(
            sum, itertools.product(*(range(0, s * w, w) for s, w in reversed(modes)))
        )
    else:
        edges = [sorted({x * w for x in (1, 2, 3, s // 2, s - 2, s - 1) if 0 < x < s}) for s, w in modes]
        pairs = (map(sum, itertools.product(*both)) for both in itertools.combinations(edges, 2))
        coordinates = itertools.chain(*edges, *pairs, [sum((s - 1) * w for s, w in modes)])
    cost = 2 * (len(leaves(a)) + len(leaves(b)) + len(leaves(candidate)) + 1)
    for c in coordinates:
        budget.spend(cost)
        if candidate(c) != a(b(c)):
            raise _refusal(a, b, None, c, candidate(c))
    if total > Most.ONE_BY_ONE.number:
        raise _undecided(a, b)


def _refusal(
    a: Layout, b: Layout, mode: int | None, witness: int, expected: int
) -> DivisibilityError | UndecidedError:
    """The error for a carry at `witness`, where a layout would have the value `expected`."""
    if is_symbolic(a(b(witness))) or is_symbolic(expected):
        return undecided_value(f"composition({a}, {b})", witness, a(b(witness)), expected)
    where = "" if mode is None else f" in mode {mode} of the second layout"
    return DivisibilityError(
        f"composition({a}, {b}): a digit of the first layout carries{where}, so that no layout has the "
        f"value {a(b(witness))} at coordinate {witness} (index {b(witness)}); the second layout's extents "
        f"and strides must divide the first's extents",
        lhs=a,
        rhs=b,
        mode=mode,
        witness=witness,
    )


def _undecided(a: Layout, b: Layout) -> UndecidedError:
    return UndecidedError(
        f"composition({a}, {b}): digits of the first layout carry, and {Most.ONE_BY_ONE.number} coordinates "
        f"neither refute nor prove that the carries cancel",
        budget=Most.ONE_BY_ONE.number,
    )


def _assemble(shape: IntTuple, pieces: Sequence[Piece]) -> Layout:
    """The tree of `shape` with every leaf replaced by its pieces."""
    if not isinstance(shape, tuple):
        extents, strides = pieces[0]
        if len(extents) == 1:
            return layout_of(extents[0], strides[0])
        return layout_of(tuple(extents), tuple(strides))
    if len(pieces) == len(shape):  # flat, except for tuples of one and none, which the tree settles
        for part in shape:
            if isinstance(part, tuple):
                break
        else:
            return layout_of(
                tuple([e[0] if len(e) == 1 else tuple(e) for e, _ in pieces]),
                tuple([d[0] if len(d) == 1 else tuple(d) for _, d in pieces]),
            )
    source = iter(pieces)

    def build(node: IntTuple) -> tuple[IntTuple, IntTuple]:
        if isinstance(node, tuple):
            parts = [build(v) for v in node]
            return tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        extents, strides = next(source)
        return (extents[0], strides[0]) if len(extents) == 1 else (tuple(extents), tuple(strides))

    return layout_of(*build(shape))
