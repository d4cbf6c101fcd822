"""The numbers of a layout (size, rank, depth) and its plainest form (coalesce, filter); cosize: `extent`.

The idea.  Two neighbouring modes s0:d0, s1:d1 with s0 * d0 = d1 are one mode s0*s1:d0, and a mode of
extent 1 is none.  Merging until nothing merges is `coalesce`; what is left is unique, so two layouts are
the same function on flat indices exactly when their coalesced leaves are equal.

>>> print(coalesce(Layout((2, (1, 6)), (1, (7, 2)))))
12:1

Comparison with CuTe.  coalesce, filter_zeros and filter are CuTe's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError, UnsupportedError, named, shown
from layoutalg.layout.basis import ScaledBasis
from layoutalg.layout.composed import AnyLayout, ComposedLayout, Trace, operation
from layoutalg.layout.int_tuple import (
    IntTuple,
    flatten_tree,
    normalize,
    product,
    to_text,
    tree_depth,
    unflatten_tree,
)
from layoutalg.layout.layout import Layout, layout_of, layout_size, leaf_lists, leaves
from layoutalg.layout.symbols import canonical, is_symbolic, require


def _shape(operation: str, of: AnyLayout | IntTuple) -> IntTuple:
    """The shape of a layout, or what is one itself."""
    if isinstance(of, (Layout, ComposedLayout)):
        return of.shape
    try:
        return Layout(of).shape
    except ArgumentTypeError as error:
        raise ArgumentTypeError(
            f"{operation} of {shown(of)}: its type is {type(of).__name__}; a layout or a shape is needed"
        ) from error
    except LayoutAlgError as error:
        named(operation, error, of)


def size(layout: AnyLayout | IntTuple) -> int:
    """Number of coordinates of a layout, or of a shape.

    >>> size(Layout((4, 8))), size((4, 8))
    (32, 32)
    """
    if isinstance(layout, Layout):
        return layout_size(layout)
    return product(_shape("size", layout))


def rank(layout: AnyLayout | IntTuple) -> int:
    """Number of top-level modes of a layout, or of a shape; 1 for an integer shape.

    >>> rank(Layout(((2, 4), 8))), rank(Layout(8)), rank((4, 8))
    (2, 1, 2)
    """
    shape = _shape("rank", layout)
    return len(shape) if isinstance(shape, tuple) else 1


def depth(layout: AnyLayout | IntTuple) -> int:
    """Nesting of the shape of a layout, or of a shape: 0 for an integer.

    >>> depth(Layout(((2, 4), 8))), depth((4, 8))
    (2, 1)
    """
    return tree_depth(_shape("depth", layout))


def merge(extents: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """Flat extents and strides, merged: same function on [0, size), no extent 1, unique.

    >>> merge((2, 1, 6), (1, 7, 2))
    ([12], [1])
    """
    out: list[int] = []
    steps: list[int] = []
    last, step = 1, 0
    for i, s in enumerate(extents):
        if s == 1:
            continue
        d = strides[i]
        if last != 1 and (last * step == d or (type(d) is not int and continues(last, step, d))):
            last *= s
            out[-1] = last = last if type(last) is int else canonical(last)
        else:
            last, step = s, d
            out.append(s)
            steps.append(d)
    return out, steps


def merge_open(layout: Layout) -> tuple[list[int], list[int]]:
    """Merge as `merge` does, but for EVERY index >= 0: the last mode has no end, nor an extent.

    Returns the extents of all modes but the last, and the strides of all modes.

    >>> merge_open(Layout((4, 6), (1, 4))), merge_open(Layout((4, 1), (1, 0)))
    (([], [1]), ([4], [1, 0]))
    """
    shape, stride = layout.shape, layout.stride
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        return [], [stride]  # type: ignore[list-item]
    extents, strides = flatten_tree(shape), flatten_tree(stride)
    if not extents:
        return [], [0]
    out, steps = merge(extents[:-1], strides)
    last = strides[-1]
    top, step = (out[-1], steps[-1]) if out else (0, 0)
    if out and (top * step == last or (type(last) is not int and continues(top, step, last))):
        out.pop()
    else:
        steps.append(last)
    return out, steps


def continues(extent: Any, stride: Any, following: Any) -> bool:
    """True when extent * stride == following for all values of the symbols.

    >>> continues(4, ScaledBasis(1, 0), ScaledBasis(4, 0))
    True
    """
    if isinstance(stride, ScaledBasis) and isinstance(following, ScaledBasis):
        return stride.modes == following.modes and continues(extent, stride.value, following.value)
    if isinstance(stride, ScaledBasis) or isinstance(following, ScaledBasis):
        return bool(stride == following)
    product = extent * stride
    if is_symbolic(product) or is_symbolic(following):
        return bool(canonical(product - following) == 0)
    return bool(product == following)


def span(layout: Layout) -> tuple[int, int]:
    """(least, greatest) offset; the signs of symbolic strides must be decided.

    >>> span(Layout((4, 8), (-1, 10)))
    (-3, 70)
    """
    low: Any = 0
    high: Any = 0
    # `leaves` without its call: every question about extents begins here
    for s, d in zip(flatten_tree(layout.shape), flatten_tree(layout.stride), strict=True):
        if d >= 0 if type(d) is int else _rises(layout, s, d):
            high += (s - 1) * d
        else:
            low += (s - 1) * d
    return (low, high) if type(low) is type(high) is int else (canonical(low), canonical(high))


def _rises(layout: Layout, extent: Any, stride: Any) -> bool:
    """True when a stride that is not an integer is not negative; either will do for an extent of 1."""
    if isinstance(stride, ScaledBasis):
        raise UnsupportedError(
            f"cosize, extremes of {layout}: its strides move along modes; coordinates have none"
        )
    import sympy

    return extent == 1 or require(f"cosize of {layout}", sympy.Le(0, stride))


def plain(extents: Sequence[int], strides: Sequence[int]) -> Layout:
    """A layout of flat leaves: 1:0 for none, an integer for one.

    >>> print(plain([], []), plain([4], [2]), plain([4, 8], [8, 1]))
    1:0 4:2 (4,8):(8,1)
    """
    if len(extents) == 1:
        return layout_of(extents[0], strides[0])
    if not extents:
        return layout_of(1, 0)
    return layout_of(tuple(extents), tuple(strides))


@operation
def coalesce(layout: Layout, profile: IntTuple | None = None, *, trace: Trace | None = None) -> Layout:
    """The same function on flat indices with the fewest modes; unique.

    With a `profile`, every leaf of it keeps one mode of the layout, coalesced for itself; modes beyond
    the profile are kept.  Raises ShapeError when the profile does not fit.

    >>> print(coalesce(Layout((2, (4, 8)), (1, (2, 8)))))
    64:1
    >>> print(coalesce(Layout(((2, 4), (2, 2)), ((1, 2), (16, 32))), (1, 1)))
    (8,4):(1,16)
    """
    if profile is not None:
        return _coalesce_by(layout, normalize(profile, "coalesce: the profile"), trace)
    shape, stride = layout.shape, layout.stride
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        result = layout if shape != 1 or stride == 0 else layout_of(1, 0)
    else:
        result = plain(*merge(flatten_tree(shape), flatten_tree(stride)))
    if trace is not None:
        trace.note("coalesced", layout=layout, result=result)
    return result


def _coalesce_by(layout: Layout, profile: IntTuple, trace: Trace | None) -> Layout:
    """Every leaf of the profile keeps one mode, coalesced for itself."""
    shape, stride = layout.shape, layout.stride
    if not isinstance(profile, tuple):
        return coalesce(layout, trace=trace)
    if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(profile) > len(shape):
        raise ShapeError(
            f"coalesce {layout} by the profile {to_text(profile)}: it has more modes than the layout"
        )
    parts = [_coalesce_by(layout_of(s, d), p, trace) for s, d, p in zip(shape, stride, profile, strict=False)]
    rest = slice(len(profile), None)
    merged = layout_of(
        (*(p.shape for p in parts), *shape[rest]),
        (*(p.stride for p in parts), *stride[rest]),
    )
    if trace is not None:
        others = zip(shape[rest], stride[rest], strict=True)
        trace.note("together", parts=[*parts, *(layout_of(s, d) for s, d in others)], result=merged)
    return merged


@operation
def coalesce_x(layout: Layout) -> Layout:
    """The same function on EVERY index >= 0, those past the size too, with the fewest modes.

    `coalesce` drops a last mode of extent 1 and with it the stride that indices past the size would take;
    here it stays unless the mode before it goes on with it.  CuTe gives such a mode the extent 2.

    >>> print(coalesce_x(Layout((4, 1), (1, 7))), coalesce((Layout((4, 1), (1, 7)))))
    (4,1):(1,7) 4:1
    """
    extents, strides = merge_open(layout)
    taken = math.prod(extents)
    if not isinstance(layout.shape, tuple):
        return layout
    return plain([*extents, layout_size(layout) // taken], strides)


def _require_moving(operation: str, layout: Layout) -> None:
    """Every symbolic stride is different from 0, so that the modes of stride 0 are those that look it."""
    strides: tuple[Any, ...] = flatten_tree(layout.stride)
    if type(sum(strides)) is int:
        return
    import sympy

    for d in strides:
        value = d.value if isinstance(d, ScaledBasis) else d
        if is_symbolic(value) and not require(f"{operation} of {layout}", sympy.Ne(value, 0)):
            raise UnsupportedError(f"{operation} of {layout}: stride {d} is 0 for all values; write 0")


@operation
def filter_zeros(layout: Layout) -> Layout:
    """Every mode of stride 0 becomes one of extent 1.

    >>> print(filter_zeros(Layout((4, (2, 8)), (1, (0, 4)))))
    (4,(1,8)):(1,(0,4))
    """
    _require_moving("filter_zeros", layout)
    extents, strides = leaf_lists(layout)
    flat = [1 if d == 0 else s for s, d in zip(extents, strides, strict=True)]
    return layout_of(unflatten_tree(tuple(flat), layout.shape), layout.stride)


@operation
def filter(layout: Layout) -> Layout:
    """Modes of stride 0 and of extent 1 taken out, and the rest coalesced: the same offsets.

    >>> print(filter(Layout((4, (2, 8)), (1, (0, 4)))))
    32:1
    """
    _require_moving("filter", layout)
    moving = [(s, d) for s, d in leaves(layout) if d]
    return plain(*merge([s for s, _ in moving], [d for _, d in moving]))
