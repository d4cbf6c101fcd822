"""Left inverses that cannot be read off digit by digit: found by trying radices.

The idea.  Once the radix of L is fixed, L(layout(i)) = i is a system of linear equations in L's strides.

    layout (2,2):(2,3)    offsets 0 2 3 5    radix 2: digits (0,0) (0,1) (1,1) (1,2)    L = (2,3):(1,1)

The digits of L must cut where something happens, so the radices tried are the chains of divisors among the
strides and the ends of the modes; for offsets up to EXHAUSTIVE_REACH every radix is tried, and a refusal
there is a proof.  A candidate is an answer only when its composition with the layout is the identity.

>>> print(search_left_inverse(Layout((2, 2), (2, 3))))
(2,3):(1,1)
>>> search_left_inverse(Layout((3, 3), (2, 3))) is None
True
"""

from __future__ import annotations

from collections.abc import Iterator

from layoutalg.budget import Budget
from layoutalg.compose import compose_layouts
from layoutalg.errors import DivisibilityError, UndecidedError
from layoutalg.layout import Layout, layout_size, leaf_lists, leaves, merge, plain, span

EXHAUSTIVE_REACH = 96
"""Layouts whose largest offset is at most this are refused only after every radix was tried."""

CHAIN_LIMIT = 256
"""The most radices that are tried, for layouts that reach further."""


def search_left_inverse(layout: Layout) -> Layout | None:
    """L with L(layout(i)) = i, or None when none is found: there is none when the largest offset is at most
    EXHAUSTIVE_REACH.  Strides must not be negative.

    >>> search_left_inverse(Layout((2, 2), (2, 3)))
    Layout((2, 3), (1, 1))
    """
    top = span(layout)[1]
    if top <= EXHAUSTIVE_REACH:
        cuts = list(range(2, top + 1))
    else:
        ends = {d for _, d in leaves(layout)} | {s * d for s, d in leaves(layout)}
        cuts = sorted(cut for cut in ends if 1 < cut <= top)
    budget = Budget(lambda: f"left inverse of {layout}:", reached="the radices were not all tried when")
    for count, chain in enumerate(_chains(1, cuts)):
        if count >= CHAIN_LIMIT and top > EXHAUSTIVE_REACH:
            return None
        inverse = _fit(layout, chain, top, budget)
        if inverse is not None:
            return inverse
    return None


def _chains(last: int, cuts: list[int]) -> Iterator[list[int]]:
    """Every ascending list of cuts in which each divides the next, shorter ones first at each step."""
    yield []
    for i, cut in enumerate(cuts):
        if cut % last == 0:
            for rest in _chains(cut, cuts[i + 1 :]):
                yield [cut, *rest]


def _fit(layout: Layout, chain: list[int], top: int, budget: Budget) -> Layout | None:
    """The layout with digits cut at `chain` that inverts `layout`, or None."""
    samples = _samples(layout)
    budget.spend(len(samples) * (len(chain) + 1 + len(leaves(layout))))
    weights = _solve([(_digits(x, chain), i) for i, x in samples], len(chain) + 1, budget)
    if weights is None:
        return None
    ends = [1, *chain]
    extents = [b // a for a, b in zip(ends, chain, strict=False)] + [top // ends[-1] + 1]
    candidate = plain(*merge(extents, weights))
    try:
        identity = compose_layouts(candidate, layout)
    except (DivisibilityError, UndecidedError):
        return None
    size = layout_size(layout)
    return (
        candidate if merge(*leaf_lists(identity)) == ([size] if size > 1 else [], [1][: size > 1]) else None
    )


def _samples(layout: Layout) -> list[tuple[int, int]]:
    """(coordinate, offset): all of a small layout; else those that move one mode by a power of two or to its
    end, and the last one."""
    if span(layout)[1] <= EXHAUSTIVE_REACH:
        return [(i, layout(i)) for i in range(layout_size(layout))]
    places: list[int] = [layout_size(layout) - 1]
    base = 1
    for s, _ in leaves(layout):
        steps = {1 << j for j in range((s - 1).bit_length())} | {s - 1}
        places += [x * base for x in sorted(steps) if 0 < x < s]
        base *= s
    return [(i, layout(i)) for i in places]


def _digits(x: int, chain: list[int]) -> list[int]:
    out: list[int] = []
    last = 1
    for cut in chain:
        out.append(x % cut // last)
        last = cut
    return [*out, x // last]


def _solve(equations: list[tuple[list[int], int]], unknowns: int, budget: Budget) -> list[int] | None:
    """Integers that satisfy all equations, or None when there are none: Euclid on the columns."""
    columns = [[digits[k] for digits, _ in equations] for k in range(unknowns)]
    change = [[int(i == k) for i in range(unknowns)] for k in range(unknowns)]
    known: list[int] = []
    for r, (_, value) in enumerate(equations):
        done = len(known)
        while True:
            moving = sorted(
                (k for k in range(done, unknowns) if columns[k][r]), key=lambda k: abs(columns[k][r])
            )
            if len(moving) < 2:
                break
            least, other = moving[0], moving[-1]
            budget.spend(1 + (len(equations) + unknowns) // 4)
            q = columns[other][r] // columns[least][r]
            for table in (columns, change):
                table[other] = [a - q * b for a, b in zip(table[other], table[least], strict=True)]
        budget.spend(1 + unknowns // 4)
        rest = value - sum(columns[j][r] * y for j, y in enumerate(known))
        if not moving:
            if rest:
                return None
            continue
        for table in (columns, change):
            table[done], table[moving[0]] = table[moving[0]], table[done]
        if rest % columns[done][r]:
            return None
        known.append(rest // columns[done][r])
    return [sum(change[j][k] * y for j, y in enumerate(known)) for k in range(unknowns)]
