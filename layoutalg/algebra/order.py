"""Layouts whose modes vary in a given order: compact ones, and those that a tile is stored in.

>>> print(make_ordered_layout((4, 8), (1, 0)))
(4,8):(8,1)

Source: CUTLASS, include/cute/layout.hpp, make_ordered_layout and make_layout_like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from layoutalg.decide import same_function
from layoutalg.errors import ShapeError, names_refusals
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
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

Order: TypeAlias = Literal["row", "col"]
"""The mode of a tile that is stored contiguously: the last, or the first."""


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

    Negative strides are ordered by their size.  For a composed layout, that of the layout inside.

    >>> print(make_layout_like(Layout((4, 2, 8), (16, 0, 1))))
    (4,2,8):(8,0,1)
    """
    check_layouts("make_layout_like", layout)
    layout = innermost(layout)
    extents, strides = integer_leaves("make_layout_like", layout)
    moving = [s if d else 1 for s, d in zip(extents, strides, strict=True)]
    return _compact(layout.shape, moving, [abs(d) for d in strides])


def storage_layout(shape: IntTuple, order: Order, pad_elems: int = 0) -> Layout:
    """The plain layout of a tile: "row" stores the last mode contiguously, "col" the first.

    A mode that is itself a tuple is stored as one, leftmost fastest.  `pad_elems` are left free after each
    run of the contiguous mode.

    >>> print(storage_layout((4, 8), "row"), storage_layout((4, (2, 4)), "row", 2))
    (4,8):(8,1) (4,(2,4)):(10,(1,2))
    """
    modes = shape if isinstance(shape, tuple) else (shape,)
    strides: list[IntTuple] = [0] * len(modes)
    current, pad = 1, pad_elems
    for i in reversed(range(len(modes))) if order == "row" else range(len(modes)):
        inner: list[int] = []
        for extent in flatten_tree(modes[i]):
            inner.append(0 if extent == 1 else current)
            current *= extent
        strides[i] = unflatten_tree(tuple(inner), modes[i])
        if current > 1 and pad:
            current, pad = current + pad, 0
    return Layout(shape, tuple(strides) if isinstance(shape, tuple) else strides[0])


def storage_order(layout: AnyLayout) -> Order | None:
    """The mode that a layout stores contiguously, its swizzles aside; None when it leaves gaps or mixes.

    >>> storage_order(Layout((4, 8), (8, 1))), storage_order(Layout((4, 8))), storage_order(Layout(8, 2))
    ('row', 'col', None)
    """
    inner = layout.inner if isinstance(layout, ComposedLayout) and layout.swizzles else layout
    if not isinstance(inner, Layout):
        return None
    return next((o for o in get_args(Order) if same_function(inner, storage_layout(inner.shape, o))), None)
