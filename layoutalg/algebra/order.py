"""Compact layouts whose modes vary in a given order.

>>> print(make_ordered_layout((4, 8), (1, 0)))
(4,8):(8,1)

Source: CUTLASS, include/cute/layout.hpp, make_ordered_layout and make_layout_like.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.errors import ShapeError, names_refusals
from layoutalg.layout import (
    AnyLayout,
    IntTuple,
    Layout,
    check_layouts,
    flatten_tree,
    innermost,
    integer_leaves,
    layout_of,
    normalize,
    product,
    to_text,
    unflatten_tree,
)


@names_refusals
def make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout:
    """The compact layout of `shape` in which the mode with the least `order` varies first.

    A leaf of `order` may stand for a whole subtree of `shape`; equal orders vary left to right.  Raises
    ShapeError when the trees do not fit.

    >>> print(make_ordered_layout(((2, 4), 4, 5), ((3, 1), 0, 2)))
    ((2,4),4,5):((80,4),1,16)
    """
    shape, order = Layout(shape).shape, normalize(order, "order")
    ranks: list[int] = []

    def spread(part: IntTuple, rank: IntTuple) -> None:
        if not isinstance(rank, tuple):
            ranks.extend([rank] * len(flatten_tree(part)))
        elif isinstance(part, tuple) and len(part) == len(rank):
            for p, r in zip(part, rank, strict=True):
                spread(p, r)
        else:
            raise ShapeError(
                f"make_ordered_layout: order {to_text(order)} does not fit the shape {to_text(shape)}"
            )

    spread(shape, order)
    return _compact(shape, flatten_tree(shape), ranks)


def _compact(shape: IntTuple, extents: Sequence[int], ranks: Sequence[int]) -> Layout:
    """Strides for `shape` in the order of `ranks`, as if its leaves had the given extents."""
    strides = [0] * len(extents)
    current = 1
    for i in sorted(range(len(extents)), key=ranks.__getitem__):
        if extents[i] != 1:
            strides[i] = current
            current = product((current, extents[i]))
    return layout_of(shape, unflatten_tree(tuple(strides), shape))


def make_layout_like(layout: AnyLayout) -> Layout:
    """The compact layout with the shape of `layout` and the order of its strides; stride 0 stays 0.

    Negative strides are ordered by their size.  Of a composed layout, that of the layout inside.

    >>> print(make_layout_like(Layout((4, 2, 8), (16, 0, 1))))
    (4,2,8):(8,0,1)
    """
    check_layouts("make_layout_like", layout)
    layout = innermost(layout)
    extents, strides = integer_leaves("make_layout_like", layout)
    moving = [s if d else 1 for s, d in zip(extents, strides, strict=True)]
    return _compact(layout.shape, moving, [abs(d) for d in strides])
