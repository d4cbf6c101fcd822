"""The number of different sums of modes, counted in boxes of coordinates, not one by one.

The idea.  Of the coordinates that share an offset one counts: the least, read from the last mode on.  So p
counts where no relation v (sum of v_i d_i = 0) whose last v_i != 0 is positive leads to a p - v in range.
Mode by mode: over coordinates p' of the modes before, the digits x of the next mode count up to the least
v_k > 0 among the relations that fit p', and none from there on.

    (6,5):(2,3)    p' = x_0; the only relation is (-3,2) and its multiples: it fits where x_0 + 3 < 6, so that
                   there 2 digits count, elsewhere all 5: 3 * 2 + 3 * 5 = 21 different offsets

A relation that has the least v_k at one p' has it in the whole box of coordinates that it fits; what is left
is cut into boxes again.  Relations are found, and their absence is proved, in a reduced lattice, so that the
time follows the number of boxes, not that of coordinates.

>>> count_sums("A", [(2, 6), (3, 5), (7, 4)])
42
>>> count_sums("A", [(30011, 1 << 20), (40009, 1 << 20), (50021, 1 << 20)])
125819626312

Notes.  What is simpler comes first: two modes that together are one are joined; where modes reach less than
the gcd of the others the counts multiply; two modes have a closed form; and in an extent the count is linear
from the largest of the other strides on, since no relation that is not a sum of others with the same signs
has a v_k beyond that.  Sums below 2^WINDOW_BITS are held as the bits of an integer.

Source: P. Diaconis, R. Graham, B. Sturmfels, Primitive partition identities (1996).
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import islice, pairwise

from layoutalg.budget import Budget, Question, budget_of, spend
from layoutalg.decide.equation import Lattice

Mode = tuple[int, int]
Box = tuple[tuple[int, int], ...]

WINDOW_BITS = 22
"""Sets of sums of at most 2^WINDOW_BITS are held as the bits of one integer."""

FEW = 16
"""Modes that are joined without a budget of their own."""


def count_sums(whose: object, modes: list[Mode]) -> int:
    """Number of different sum x_i d_i, 0 <= x_i < s_i, for modes (d_i, s_i) with d_i > 0.

    Raises UndecidedError, which names `whose` modes these are, as `count_by_boxes` does.

    >>> count_sums("A", [(1, 4), (2, 8)]), count_sums("A", [(3, 4), (5, 4)])
    (18, 16)
    """
    parts = _independent(joined(modes)) if len(modes) < FEW else []
    if parts and max(map(len, parts)) < 3:  # most layouts: nothing to search
        return math.prod(_count(whose, part) for part in parts)
    with budget_of(lambda: f"how many offsets has {whose}?"):
        return math.prod(_count(whose, part) for part in parts or _independent(joined(modes)))


def _count_all(whose: object, modes: list[Mode]) -> int:
    """`count_sums` in the budget that is open."""
    return math.prod(_count(whose, part) for part in _independent(joined(modes)))


def sums_below(question: Question, modes: Iterable[Mode], length: int) -> int:
    """The sums x_i d_i, 0 <= x_i < s_i, below `length`, as bits of an integer, for modes (d_i, s_i).

    >>> bin(sums_below("which offsets?", [(1, 2), (4, 2)], 8))
    '0b110011'
    """
    mask = (1 << length) - 1
    sums = 1
    budget = Budget(question)
    for d, s in modes:
        if s == 1 or d == 0 or d >= length:
            continue
        count, have = min(s, (length - 1) // d + 1), 1
        budget.spend((1 + (length >> 13)) * (count - 1).bit_length())
        while have < count:
            more = min(have, count - have)
            sums |= sums << (more * d) & mask
            have += more
    return sums


def joined(modes: list[Mode]) -> list[Mode]:
    """Modes of the same sums, by stride, where none goes on with another: a + b q with q <= extent of a.

    >>> joined([(1, 4), (2, 8), (3, 1), (40, 2)])
    [(1, 18), (40, 2)]
    """
    out: list[Mode] = []
    spend(len(modes))
    for d, s in sorted(modes):
        if len(out) > 3:
            spend(len(out) // 4)
        at = next((i for i, (e, t) in enumerate(out) if d % e == 0 and d // e <= t), None)
        if at is not None:
            e, t = out[at]
            out[at] = e, t + d // e * (s - 1)
        elif s > 1:
            out.append((d, s))
    return out


def _independent(modes: list[Mode]) -> list[list[Mode]]:
    """Modes by stride, cut where those below reach less than the gcd of those above: the counts multiply."""
    above = [0]
    for d, _ in reversed(modes):
        above.append(math.gcd(above[-1], d))
    cuts, reach = [0], 0
    for i, (d, s) in enumerate(modes):
        if i and reach < above[len(modes) - i]:
            cuts.append(i)
        reach += d * (s - 1)
    return [modes[i:j] for i, j in pairwise([*cuts, len(modes)])]


def _count(whose: object, modes: list[Mode]) -> int:
    if len(modes) < 3:
        return _count_two(*modes, *((1, 1),) * (2 - len(modes)))
    divisor = math.gcd(*(d for d, _ in modes))
    modes = [(d // divisor, s) for d, s in modes]
    enough = [max(e for j, (e, _) in enumerate(modes) if j != i) for i in range(len(modes))]
    if any(s > most + 1 for (_, s), most in zip(modes, enough, strict=True)):
        return _count_long(whose, modes, enough)
    length = 1 + sum(d * (s - 1) for d, s in modes)
    if length > 1 << WINDOW_BITS:
        return count_by_boxes(whose, modes)
    return sums_below(lambda: f"how many offsets has {whose}?", modes, length).bit_count()


def _count_long(whose: object, modes: list[Mode], enough: list[int]) -> int:
    """Linear in each extent from `enough` on, and no more than the span, which has no products of extents: so
    the count is a constant and a slope for each."""
    short = [(d, min(s, most)) for (d, s), most in zip(modes, enough, strict=True)]
    total = least = _count_all(whose, short)
    for i, (d, s) in enumerate(modes):
        if s > enough[i]:
            longer = [*short[:i], (d, enough[i] + 1), *short[i + 1 :]]
            total += (s - enough[i]) * (_count_all(whose, longer) - least)
    return total


def _count_two(first: Mode, second: Mode) -> int:
    """x d + y e repeats where (x, y) and (x + e/g, y - d/g) are both in range, g the gcd of the strides."""
    (d, s), (e, t) = first, second
    g = math.gcd(d, e)
    return s * t - max(0, s - e // g) * max(0, t - d // g)


def count_by_boxes(whose: object, modes: list[Mode]) -> int:
    """`count_sums` by boxes alone, as described above; the order of the modes does not change the count.

    Raises UndecidedError, which names `whose` modes these are, when the budget is spent.

    >>> count_by_boxes("A", [(2, 6), (3, 5), (7, 4)])
    42
    """
    budget = Budget(
        f"how many offsets has {whose}?", reached="the boxes of coordinates were not all made when"
    )
    boxes: list[Box] = [((0, modes[0][1]),)]
    for k in range(1, len(modes)):
        relations = Lattice(budget, [d for d, _ in modes[: k + 1]], [s for _, s in modes[: k + 1]])
        boxes = _new(budget, relations, [s for _, s in modes[: k + 1]], boxes)
    return sum(math.prod(b - a for a, b in box) for box in boxes)


def _new(budget: Budget, relations: Lattice, extents: list[int], boxes: list[Box]) -> list[Box]:
    """Boxes of the coordinates that count, from those of the modes before the last."""
    *before, extent = extents
    known: list[list[int]] = []
    out: list[Box] = []
    left = [(box, 1) for box in boxes]
    while left:
        box, least = left.pop()
        at = bisect_left(known, least, key=_last)
        budget.spend(len(extents))
        best: list[int] | None = None
        for relation in islice(known, at, None):
            budget.spend()
            if _fits(relation, before, box):
                best = relation
                break
        end = best[-1] if best else extent
        low = [a - s + 1 for (a, _), s in zip(box, before, strict=True)]
        high = [b - 1 for _, b in box]
        while least < end:
            least_v = relations.between([*low, least], [*high, end - 1])
            if least_v is None:
                break
            insort(known, least_v, key=_last)
            best, end = least_v, least_v[-1]
        for i, (v, s) in enumerate(zip(best or (), before, strict=False)):
            a, b = box[i]
            inside = max(a, v), min(b, s + v)
            for side in ((a, inside[0]), (inside[1], b)):
                if side[0] < side[1]:
                    left.append(((*box[:i], side, *box[i + 1 :]), end))
            box = (*box[:i], inside, *box[i + 1 :])
        out.append((*box, (0, end)))
    return out


def _last(vector: list[int]) -> int:
    return vector[-1]


def _fits(vector: list[int], extents: list[int], box: Box) -> bool:
    """True when some p in the box has p - vector in range."""
    return all(a - s < v < b for v, s, (a, b) in zip(vector, extents, box, strict=False))
