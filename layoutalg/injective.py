"""Do two coordinates share an offset?  A witness, or the proof that there is none.

The idea.  Two coordinates of a layout collide when their difference k, |k_i| < s_i, solves
k_0 d_0 + ... + k_n d_n = 0 with k != 0.  Sorted by stride, a mode whose stride exceeds everything the modes
below it can reach must have k_i = 0, which settles every layout made of tiles, padded or not, in O(rank).
What is left is searched from the largest stride down: the remaining sum bounds k_i from both sides, the
gcd of the strides below fixes its residue, and the last two modes are solved by the extended Euclid.  Where
QUICK_NODES candidates do not settle it, a lattice is reduced (layoutalg.lattice), which any numbers of a few
modes give in to.

>>> find_collision(Layout((5, 4), (3, 4)))
(4, 15)
>>> find_collision(Layout((1 << 20, 1 << 20), (1, 1 << 20))) is None
True

Notes.  A swizzle is a bijection, so a swizzled layout collides where its inner layout does.
"""

from __future__ import annotations

import math

from layoutalg.errors import ArgumentTypeError, shown
from layoutalg.lattice import find_kernel_point
from layoutalg.layout import Layout, integer_leaves

QUICK_NODES = 24
"""Candidate digits that the search looks at before the lattice is reduced."""


def find_collision(layout: Layout, *, moving: bool = False) -> tuple[int, int] | None:
    """Two flat coordinates a < b with the same offset, or None when there are none.

    `moving` leaves modes of stride 0 out: their coordinates stay 0.  Raises UndecidedError when the search
    in the lattice exceeds its budget.

    >>> find_collision(Layout((2, 3), (1, 0))), find_collision(Layout((2, 3), (1, 0)), moving=True)
    ((0, 2), None)
    """
    if not isinstance(layout, Layout):
        raise ArgumentTypeError(
            f"find_collision of {shown(layout)}: this is a {type(layout).__name__}; a plain layout is needed"
        )
    modes: list[tuple[int, int, int]] = []
    base = 1
    for s, d in zip(*integer_leaves("is_injective, find_collision", layout), strict=True):
        if s > 1:
            if d:
                modes.append((abs(d), s, base if d > 0 else -base))
            elif not moving:
                return 0, base
        base *= s
    modes.sort()
    reach = 0
    for d, s, _ in modes:
        if d <= reach:
            break
        reach += d * (s - 1)
    else:
        return None
    search = _Search([(d, s) for d, s, _ in modes])
    found = search.run()
    if search.exhausted:
        found = find_kernel_point(
            f"is {layout} injective?", [d for d, _, _ in modes], [s for _, s, _ in modes]
        )
    if found is None:
        return None
    plus = minus = 0
    for k, (_, _, weight) in zip(found, modes, strict=True):
        k = k if weight > 0 else -k
        plus += max(k, 0) * abs(weight)
        minus += max(-k, 0) * abs(weight)
    return min(plus, minus), max(plus, minus)


class _Search:
    """Depth-first search for k != 0 with sum k_i d_i = 0, |k_i| < s_i, modes ascending by stride."""

    def __init__(self, modes: list[tuple[int, int]]) -> None:
        self.modes, self.nodes = modes, 0
        self.reach, self.gcd = [0], [0]
        for d, s in modes:
            self.reach.append(self.reach[-1] + d * (s - 1))
            self.gcd.append(math.gcd(self.gcd[-1], d))

    @property
    def exhausted(self) -> bool:
        """True when the search gave up, so that None is no answer."""
        return self.nodes > QUICK_NODES

    def run(self) -> list[int] | None:
        """The digits of a collision whose highest digit that is not 0 is positive; None where there is none,
        or where `exhausted` is set."""
        for top in range(1, len(self.modes)):
            d, s = self.modes[top]
            step = self.gcd[top] // math.gcd(d, self.gcd[top])
            for k in range(step, min(s - 1, self.reach[top] // d) + 1, step):
                digits = self.solve(-k * d, top)
                if digits is not None:
                    return [*digits, k] + [0] * (len(self.modes) - top - 1)
                if self.exhausted:
                    return None
        return None

    def solve(self, target: int, count: int) -> list[int] | None:
        """Digits of the lowest `count` modes that sum to `target`."""
        self.nodes += 1
        if self.nodes > QUICK_NODES:
            return None
        if abs(target) > self.reach[count] or target % self.gcd[count]:
            return None
        d, s = self.modes[count - 1]
        if count == 1:
            return [target // d] if abs(target // d) < s else None
        low = max(-(s - 1), -((self.reach[count - 1] - target) // d))
        high = min(s - 1, (target + self.reach[count - 1]) // d)
        below = self.gcd[count - 1]
        share = math.gcd(d, below)
        step = below // share
        first = target // share * pow(d // share, -1, step) % step if step > 1 else 0
        for k in range(low + (first - low) % step, high + 1, step):
            digits = self.solve(target - k * d, count - 1)
            if digits is not None:
                return [*digits, k]
        return None
