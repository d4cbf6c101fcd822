"""The layout that two layouts have in common, the null space of one, and the width of vectors.

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

from layoutalg.algebra.inverse import right_inverse
from layoutalg.compose import need_normal_form
from layoutalg.errors import UnsupportedError, names_refusals
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    check_integers,
    check_layouts,
    integer_leaves,
    layout_of,
    leaf_lists,
    merge,
    plain,
)


def _first(layout: Layout) -> tuple[int, int]:
    """(extent, stride) of the first coalesced mode."""
    extents, strides = merge(*leaf_lists(layout))
    return (extents[0], strides[0]) if extents else (1, 0)


@names_refusals
def max_common_layout(a: AnyLayout, b: AnyLayout) -> Layout:
    """The longest single mode V of coordinates with a(V(i)) = b(V(i)) = i for every i < size(V).

    Raises what `right_inverse` raises, and UnsupportedError where a swizzle moves what it returns.

    >>> print(max_common_layout(Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1))))
    8:4
    """
    check_layouts("max_common_layout", a, b)
    for layout in (a, b):
        if isinstance(layout, Layout):
            integer_leaves("max_common_layout", layout)
    left, right = right_inverse(a), right_inverse(b)
    if not isinstance(left, Layout) or not isinstance(right, Layout):
        raise UnsupportedError(
            f"max_common_layout({a}, {b}): the neighbours in memory are swizzled coordinates"
        )
    (s, d), (t, e) = _first(left), _first(right)
    length = min(s, t) if d == e else 1
    return layout_of(length, d if length > 1 else 0)


@names_refusals
def max_common_vector(a: AnyLayout, b: AnyLayout) -> int:
    """The number of elements, from offset 0, that lie next to each other in both layouts.

    Raises as `max_common_layout`.

    >>> max_common_vector(Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1)))
    8
    """
    check_integers("max_common_vector", a)
    check_integers("max_common_vector", b)
    extent = max_common_layout(a, b).shape
    return extent if isinstance(extent, int) else 1


def max_alignment(layout: AnyLayout) -> int:
    """The widest n such that offsets come in runs of n neighbours, each starting at a multiple of n.

    For a swizzled layout, the widest that no bit of the swizzles falls into, whether an offset has it or not.
    Raises UnsupportedError when the outer function is a layout that cannot be moved inwards.

    >>> from layoutalg.layout import Swizzle
    >>> max_alignment(Layout((8, 4), (1, 12))), max_alignment(ComposedLayout(Swizzle(2, 1, 3), 4, Layout(64)))
    (4, 2)
    """
    check_layouts("max_alignment", layout)
    if isinstance(layout, ComposedLayout):
        swizzles, offset, inner = need_normal_form("max_alignment", layout)
        return math.gcd(_alignment(inner, offset), *(1 << s.base for s in swizzles))
    return _alignment(layout, 0)


def _alignment(layout: Layout, first: int) -> int:
    """`max_alignment` of first + layout."""
    run = 1
    rest: list[int] = []
    leaves = zip(*integer_leaves("max_alignment", layout), strict=True)
    for d, s, negative in sorted((abs(d), s, d < 0) for s, d in leaves if s > 1):
        first -= (s - 1) * d if negative else 0
        if d <= run:  # the runs touch or overlap
            run += (s - 1) * d
        else:
            rest.append(d)
    return math.gcd(run, first, *rest)


def nullspace(layout: AnyLayout) -> Layout:
    """The coordinates whose modes have stride 0, as a layout of flat indices: layout(nullspace(i)) = 0.

    Swizzles leave 0 where it is; with an offset no such coordinate has the offset 0, and
    UnsupportedError is raised.

    >>> print(nullspace(Layout((4, 2, 8), (1, 0, 4))))
    2:4
    """
    check_layouts("nullspace", layout)
    if isinstance(layout, ComposedLayout):
        _, offset, layout = need_normal_form("nullspace", whole := layout)
        if offset:
            raise UnsupportedError(f"nullspace of {whole}: its offset {offset} is added to every coordinate")
    base = 1
    extents: list[int] = []
    weights: list[int] = []
    for s, d in zip(*integer_leaves("nullspace", layout), strict=True):
        if d == 0:
            extents.append(s)
            weights.append(base)
        base *= s
    return plain(*merge(extents, weights))
