"""Which coordinates have an offset, and whether two layouts meet: solved, not enumerated.

The idea.  layout(c) = t is one equation, sum of x_i d_i = t with 0 <= x_i < s_i.  From the largest stride
down, what the strides below can reach bounds x_i on both sides and their gcd fixes its residue.  Where the
strides chain (each divides the next) taking as many of the largest as fit is right, as with coins, so that
there is nothing to search.  Two layouts meet where a(i) - b(j) = 0, which is the same equation.

>>> find_coordinate(Layout((4, 8), (1, 5)), 16), find_coordinate(Layout((4, 8), (1, 5)), 4)
(13, None)
>>> find_overlap(Layout((4, 4), (1, 8)), Layout(4, 3))
(5, 3)
>>> find_overlap(Layout((1 << 30, 1 << 30), (6, 1 << 40)), Layout((1 << 40, 2), (-4, 0)))
(0, 0)

Notes.  Where a short search does not settle it, a lattice is reduced (layoutalg.lattice), which stops with an
UndecidedError when its budget is spent.  Of swizzled layouts, those that are linear over F2 are solved there;
two that share their swizzles meet where the layouts inside do.
"""

from __future__ import annotations

import math

from layoutalg.errors import ArgumentTypeError, NotLinearError
from layoutalg.extent import in_parts, offsets_table
from layoutalg.f2 import affine_f2, solve
from layoutalg.injective import QUICK_NODES
from layoutalg.int_tuple import normalize, to_text
from layoutalg.lattice import find_point
from layoutalg.layout import Layout, leaves
from layoutalg.measure import span
from layoutalg.swizzle import AnyLayout, Swizzles, check_integers, swizzle_inverse


class _Sum:
    """Depth-first search for sum x_i d_i = t, 0 <= x_i < s_i, modes ascending by stride d_i > 0."""

    def __init__(self, modes: list[tuple[int, int]]) -> None:
        self.modes, self.nodes = modes, 0
        self.reach, self.gcd, self.chained = [0], [0], [True]
        for i, (d, s) in enumerate(modes):
            self.reach.append(self.reach[-1] + d * (s - 1))
            self.gcd.append(math.gcd(self.gcd[-1], d))
            self.chained.append(self.chained[-1] and (i == 0 or d % modes[i - 1][0] == 0))

    @property
    def exhausted(self) -> bool:
        """True when the search gave up, so that None is no answer."""
        return self.nodes > QUICK_NODES

    def solve(self, target: int, count: int) -> list[int] | None:
        """Digits of the lowest `count` modes that sum to `target`; None where there are none, or where
        `exhausted` is set.  Every call counts, answered at once or not."""
        self.nodes += 1
        if self.nodes > QUICK_NODES:
            return None
        if target < 0 or target > self.reach[count]:
            return None
        if count == 0:
            return []
        if target % self.gcd[count]:
            return None
        if self.chained[count]:
            return self._greedy(target, count)
        d, s = self.modes[count - 1]
        below = self.gcd[count - 1]
        low = max(0, -((self.reach[count - 1] - target) // d))
        high = min(s - 1, target // d)
        step, first = 1, 0
        if below:
            share = math.gcd(d, below)
            step = below // share
            first = target // share * pow(d // share, -1, step) % step if step > 1 else 0
        for k in range(high - (high - first) % step, low - 1, -step):
            digits = self.solve(target - k * d, count - 1)
            if digits is not None:
                return [*digits, k]
            if self.nodes > QUICK_NODES:
                return None
        return None

    def _greedy(self, target: int, count: int) -> list[int] | None:
        out = [0] * count
        for i in range(count - 1, -1, -1):
            d, s = self.modes[i]
            out[i] = min(s - 1, target // d)
            target -= out[i] * d
        return None if target else out


def _solve(question: str, pairs: list[tuple[int, int, int]], target: int) -> list[int] | None:
    """Digits x_i < s_i with sum x_i d_i = target, for (extent, stride, place); in the order given."""
    modes: list[tuple[int, int, int, bool]] = []
    for i, (s, d, _) in enumerate(pairs):
        if s > 1 and d:
            modes.append((abs(d), s, i, d < 0))
            if d < 0:
                target -= (s - 1) * d
    modes.sort()
    search = _Sum([(d, s) for d, s, _, _ in modes])
    digits = search.solve(target, len(modes))
    if search.exhausted and digits is None:
        digits = find_point(question, [d for d, *_ in modes], [s - 1 for _, s, *_ in modes], target)
    if digits is None:
        return None
    out = [0] * len(pairs)
    for x, (_, s, i, flipped) in zip(digits, modes, strict=True):
        out[i] = s - 1 - x if flipped else x
    return out


def _places(layout: Layout) -> list[tuple[int, int, int]]:
    out: list[tuple[int, int, int]] = []
    base = 1
    for s, d in leaves(layout):
        out.append((s, d, base))
        base *= s
    return out


def find_coordinate(layout: AnyLayout, offset: int) -> int | None:
    """A flat coordinate that has the offset, or None when there is none.

    Raises UndecidedError when the search exceeds its budget, or where there is neither a closed form nor a
    small domain.

    >>> find_coordinate(Layout((4, 8), (8, 1)), 19)
    14
    """
    check_integers("find_coordinate", layout)
    value = normalize(offset, "offset")
    if isinstance(value, tuple):
        raise ArgumentTypeError(f"find_coordinate({layout}, {to_text(value)}): an offset is one integer")
    offset, known = value, in_parts(layout)
    question = f"does {layout} reach {offset}?"
    if known is None:
        return next((i for i, x in enumerate(offsets_table(question, layout)) if x == offset), None)
    swizzles, constant, inner = known
    if swizzles:
        if offset < 0:
            return None
        for swizzle in reversed(swizzle_inverse(swizzles)):
            offset = swizzle(offset)
    places = _places(inner)
    digits = _solve(question, places, offset - constant)
    return None if digits is None else sum(x * w for x, (_, _, w) in zip(digits, places, strict=True))


def find_overlap(a: AnyLayout, b: AnyLayout) -> tuple[int, int] | None:
    """Flat coordinates (i, j) with a(i) = b(j), or None when the layouts share no offset.

    Raises UndecidedError as `find_coordinate`.

    >>> find_overlap(Layout((2, 2), (1, 4)), Layout((2, 2), (2, 4)))
    (0, 0)
    """
    check_integers("find_overlap", a)
    check_integers("find_overlap", b)
    left, right = in_parts(a), in_parts(b)
    question = f"do {a} and {b} overlap?"
    if left is not None and right is not None:
        if (not any(s.bits for s in left[0]) and not any(s.bits for s in right[0])) or left[0] == right[0]:
            return _plain_overlap(question, left[1:], right[1:])
        if _windows_apart(left, right):
            return None
    try:
        (k, columns), (m, others) = affine_f2(a), affine_f2(b)
    except NotLinearError:
        pass
    else:
        x = solve((*columns, *others), k ^ m)
        return None if x is None else (x & (1 << len(columns)) - 1, x >> len(columns))
    first: dict[int, int] = {}
    for i, offset in enumerate(offsets_table(question, a)):
        first.setdefault(offset, i)
    for j, offset in enumerate(offsets_table(question, b)):
        if offset in first:
            return first[offset], j
    return None


def _plain_overlap(question: str, a: tuple[int, Layout], b: tuple[int, Layout]) -> tuple[int, int] | None:
    left, right = _places(a[1]), _places(b[1])
    digits = _solve(question, [*left, *((s, -d, w) for s, d, w in right)], b[0] - a[0])
    if digits is None:
        return None
    count = len(left)
    return (
        sum(x * w for x, (_, _, w) in zip(digits[:count], left, strict=True)),
        sum(x * w for x, (_, _, w) in zip(digits[count:], right, strict=True)),
    )


def _windows_apart(a: tuple[Swizzles, int, Layout], b: tuple[Swizzles, int, Layout]) -> bool:
    """True when the swizzle periods that the two layouts touch lie apart."""
    period = max(a[0].period, b[0].period)
    (low, high), (least, most) = (
        tuple((offset + edge) // period for edge in span(inner)) for _, offset, inner in (a, b)
    )
    return high < least or most < low


def overlap(a: AnyLayout, b: AnyLayout) -> bool:
    """True when the layouts share an offset.

    Raises UndecidedError as `find_coordinate`.

    >>> overlap(Layout((4, 4), (1, 8)), Layout(4, -1)), overlap(Layout(1), Layout(4))
    (True, True)
    """
    check_integers("overlap", a)
    check_integers("overlap", b)
    return find_overlap(a, b) is not None
