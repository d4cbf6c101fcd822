"""What two layouts share, what one leaves still, and how wide a vector may be.

The idea.  The right inverse lists, from offset 0 upwards, the coordinates that lie next to each other in
memory.  Where the right inverses of two layouts agree, a copy between them may move whole vectors.

>>> source, target = Layout((4, 8), (1, 4)), Layout((4, 8), (1, 16))
>>> max_common_vector(source, target), max_alignment(target)
(4, 4)

Comparison with CuTe.  CuTe lets the common vector run past the end of the smaller layout, where there is
nothing to copy; here it ends with it.

Source: CUTLASS, include/cute/layout.hpp, max_common_layout, max_common_vector, max_alignment, nullspace.
"""

from __future__ import annotations

import math

from layoutalg.inverse import right_inverse
from layoutalg.layout import Layout, integer_leaves, make_layout
from layoutalg.measure import leaf_lists, merge, plain


def _first(layout: Layout) -> tuple[int, int]:
    """(extent, stride) of the first coalesced mode."""
    extents, strides = merge(*leaf_lists(layout))
    return (extents[0], strides[0]) if extents else (1, 0)


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """The longest single mode V of coordinates with a(V(i)) = b(V(i)) = i for every i < size(V).

    >>> print(max_common_layout(Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1))))
    8:4
    """
    for layout in (a, b):
        integer_leaves("max_common_layout", layout)
    (s, d), (t, e) = _first(right_inverse(a)), _first(right_inverse(b))
    length = min(s, t) if d == e else 1
    return make_layout(length, d if length > 1 else 0)


def max_common_vector(a: Layout, b: Layout) -> int:
    """How many elements, from offset 0, lie next to each other in both layouts.

    >>> max_common_vector(Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1)))
    8
    """
    extent = max_common_layout(a, b).shape
    return extent if isinstance(extent, int) else 1


def max_alignment(layout: Layout) -> int:
    """The widest n such that offsets come in runs of n neighbours, each starting at a multiple of n.

    >>> max_alignment(Layout((8, 4), (1, 12)))
    4
    """
    run = 1
    rest: list[int] = []
    leaves = zip(*integer_leaves("max_alignment", layout), strict=True)
    for d, s in sorted((abs(d), s) for s, d in leaves if s > 1):
        if d == run:
            run *= s
        else:
            rest.append(d)
    return math.gcd(run, *rest)


def nullspace(layout: Layout) -> Layout:
    """The coordinates whose modes have stride 0, as a layout of flat indices: layout(nullspace(i)) = 0.

    >>> print(nullspace(Layout((4, 2, 8), (1, 0, 4))))
    2:4
    """
    base = 1
    extents: list[int] = []
    weights: list[int] = []
    for s, d in zip(*integer_leaves("nullspace", layout), strict=True):
        if d == 0:
            extents.append(s)
            weights.append(base)
        base *= s
    return plain(*merge(extents, weights))
