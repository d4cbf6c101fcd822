"""A layout as memory sees it: footprint, gaps, aliases, contiguity; and as a permutation.

The idea.  Sorted by stride, a mode whose stride exceeds all that the modes below it reach repeats their
picture at a distance.  So the gaps of a layout are few kinds: between two copies of the modes below lie
stride - reach - 1 offsets that are not taken, as often as copies follow one another.

    (4,8,2):(1,6,100)      runs of 4, then gaps of 2 (7 in each of 2 copies) and one gap of 100 - 46 = 54

>>> gaps(Layout((4, 8, 2), (1, 6, 100)))
((2, 14), (54, 1))

A bijection onto [0, size) is a permutation, whose cycles say how a transposition in place would move data.
Where it is linear over F2, the points that its k-th power leaves are a kernel, 2^dim of them.

Notes.  Closed forms stop where modes interleave or a swizzle tears the image apart; windows of at most
2^WINDOW_BITS offsets are then held as the bits of one integer, and beyond that UndecidedError is raised.

Comparison with tensor-layouts.  The same questions; there each is answered by listing every offset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from layoutalg.budget import Budget
from layoutalg.compose import find_normal_form
from layoutalg.decide.distinct import WINDOW_BITS, joined
from layoutalg.decide.extent import extremes, offsets_table, reached, whole_periods
from layoutalg.decide.image import image_size, is_bijective, is_injective
from layoutalg.decide.solving import find_collision
from layoutalg.errors import NotInjectiveError, NotLinearError, UndecidedError, names_refusals
from layoutalg.f2 import Columns, affine_f2, basis, identity, multiply, rank
from layoutalg.layout import AnyLayout, Layout, check_integers, leaves, size, span

ORDER_BUDGET = 1 << 12
"""The most powers of a matrix that are tried for the order of a permutation."""


class Footprint(NamedTuple):
    """The interval of offsets [first, last], and how many of them are taken by how many coordinates."""

    first: int
    last: int
    offsets: int
    coordinates: int


def footprint(layout: AnyLayout) -> Footprint:
    """The interval that holds all offsets, the number of distinct offsets, and of coordinates.

    Raises UndecidedError as `image_size`.

    >>> footprint(Layout((4, 8), (0, 3)))
    Footprint(first=0, last=21, offsets=8, coordinates=32)
    """
    check_integers("footprint", layout)
    first, last = extremes(layout)
    return Footprint(first, last, image_size(layout), size(layout))


def is_contiguous(layout: AnyLayout) -> bool:
    """True when the offsets are neighbours without a gap, each taken once; they need not start at 0.

    Raises UndecidedError as `is_injective`.

    >>> is_contiguous(Layout((4, 8), (8, 1))), is_contiguous(Layout((4, 8), (9, 1)))
    (True, False)
    """
    check_integers("is_contiguous", layout)
    known = find_normal_form(layout)
    if known is not None:
        low, high = span(known.layout)
        period = known.swizzles.period
        if high - low + 1 - 2 * period > size(layout) or find_collision(known.layout) is not None:
            return False  # swizzles move an offset inside its period
    first, last = extremes(layout)
    return last - first + 1 == size(layout) and (known is not None or is_injective(layout))


def gaps(layout: AnyLayout) -> tuple[tuple[int, int], ...]:
    """(length, how many) of the runs of offsets between the least and the greatest that are not taken.

    Raises UndecidedError where there is neither a closed form nor a small window.

    >>> gaps(Layout((4, 8))), gaps(Layout((4, 8), (1, 6)))
    ((), ((2, 7),))
    """
    check_integers("gaps", layout)
    known = find_normal_form(layout)
    if known is not None:
        if whole_periods(*known):
            return ()
        plain_modes = _plain_image(layout, known.layout, bool(known.swizzles))
        if plain_modes is not None:
            runs = _gaps_of_modes(plain_modes)
            if runs is not None:
                return runs
    return _gaps_of_window(layout)


def _plain_image(layout: AnyLayout, inner: Layout, swizzled: bool) -> list[tuple[int, int]] | None:
    """(stride, extent) of modes with the image of `layout`, up to a shift; None where none are found."""
    if not swizzled:
        return joined([(abs(d), s) for s, d in leaves(inner) if d])
    try:
        constant, columns = affine_f2(layout)
    except NotLinearError:
        return None
    vectors = basis(columns)
    for i, vector in enumerate(vectors):
        if any(vector & other for other in vectors[:i]):
            return None
        constant = min(constant, constant ^ vector)
    if any(constant & vector for vector in vectors):
        return None
    return [(vector, 2) for vector in vectors]


def _gaps_of_modes(modes: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...] | None:
    runs: dict[int, int] = {}
    reach = 0
    for d, s in modes:
        if d <= reach:
            if any(runs.values()):
                return None
            reach += d * (s - 1)  # no gap so far, and none where copies touch
            continue
        runs = {length: count * s for length, count in runs.items()}
        if d > reach + 1:
            runs[d - reach - 1] = runs.get(d - reach - 1, 0) + s - 1
        reach += d * (s - 1)
    return tuple(sorted(runs.items()))


def _gaps_of_window(layout: AnyLayout) -> tuple[tuple[int, int], ...]:
    first, last = extremes(layout)
    if last - first >= 1 << WINDOW_BITS:
        raise UndecidedError(
            f"gaps of {layout}: there is no closed form for this layout, and its offsets span more than "
            f"2^{WINDOW_BITS}",
            budget=1 << WINDOW_BITS,
        )
    known = find_normal_form(layout)
    if known is not None and not known.swizzles:
        taken = reached(known.layout, last - first + 1)
    else:
        taken = 0
        for offset in offsets_table("gaps", layout):
            taken |= 1 << offset - first
    runs: dict[int, int] = {}
    for run in f"{taken:b}".strip("0").split("1"):
        if run:
            runs[len(run)] = runs.get(len(run), 0) + 1
    return tuple(sorted(runs.items()))


class Aliasing(NamedTuple):
    """Two coordinates that share an offset, or None; and how many coordinates have no offset of their own."""

    pair: tuple[int, int] | None
    repeats: int


@names_refusals
def aliasing(layout: AnyLayout) -> Aliasing:
    """The coordinates that collide: the first pair found, and size - number of distinct offsets.

    Raises UndecidedError as `is_injective` and `image_size`.

    >>> aliasing(Layout((4, 8), (2, 1))), aliasing(Layout((4, 8)))
    (Aliasing(pair=(1, 8), repeats=18), Aliasing(pair=None, repeats=0))
    """
    check_integers("aliasing", layout)
    pair = find_collision(layout)
    return Aliasing(pair, 0 if pair is None else size(layout) - image_size(layout))


def _permutation(question: str, layout: AnyLayout) -> None:
    if not is_bijective(layout):
        raise NotInjectiveError(
            f"{question} of {layout}: it is not a permutation of [0, {size(layout)}); a bijection is needed",
            layout=layout,
        )


@names_refusals
def order(layout: AnyLayout) -> int:
    """The least n > 0 such that the layout applied n times moves nothing.

    Raises NotInjectiveError when the layout is not a bijection onto [0, size), UndecidedError past
    ORDER_BUDGET powers of a linear one, or past Most.ONE_BY_ONE coordinates of another.

    >>> order(Layout((4, 8), (8, 1))), order(Layout((3, 5), (5, 1)))
    (5, 6)
    """
    check_integers("order", layout)
    return math.lcm(*(length for length, _ in cycles(layout)))


def cycles(layout: AnyLayout) -> tuple[tuple[int, int], ...]:
    """(length, how many) of the cycles of a permutation.

    Raises as `order`.

    >>> cycles(Layout((4, 8), (8, 1)))
    ((1, 2), (5, 6))
    """
    check_integers("cycles", layout)
    _permutation("cycles", layout)
    try:
        constant, columns = affine_f2(layout)
    except NotLinearError:
        constant, columns = 1, ()
    if not constant:
        return _linear_cycles(layout, columns)
    values = offsets_table("cycles", layout)
    counts: dict[int, int] = {}
    for start in range(len(values)):
        length, i = 0, start
        while values[i] >= 0:
            values[i], i = -1, values[i]
            length += 1
        if length:
            counts[length] = counts.get(length, 0) + 1
    return tuple(sorted(counts.items()))


def _linear_cycles(layout: AnyLayout, columns: Columns) -> tuple[tuple[int, int], ...]:
    """By counting: the k-th power fixes 2^dim ker(M^k - 1) points, which lie on cycles of lengths d | k."""
    unit, power, n = identity(len(columns)), columns, 1
    fixed: dict[int, int] = {}
    budget = Budget(lambda: f"cycles of {layout}:", reached="no power of it was the identity when")
    while True:
        fixed[n] = 1 << len(columns) - rank(c ^ e for c, e in zip(power, unit, strict=True))
        if power == unit:
            break
        budget.spend(len(columns) ** 2 // 8)
        power, n = multiply(columns, power), n + 1
        if n > ORDER_BUDGET:
            raise UndecidedError(
                f"cycles of {layout}: its order exceeds the {ORDER_BUDGET} powers that are looked at",
                budget=ORDER_BUDGET,
            )
    points: dict[int, int] = {}
    for k in (k for k in range(1, n + 1) if n % k == 0):
        own = fixed[k] - sum(count for d, count in points.items() if k % d == 0)
        if own:
            points[k] = own
    return tuple((length, count // length) for length, count in sorted(points.items()))
