"""Divides: a layout cut into tiles.

The idea.  logical_divide(A, B) = A o (B, complement(B, size(A))): mode 0 walks through one tile B of A's
indices, mode 1 from tile to tile.  With a tuple of tilers each mode of A is cut for itself, and the other
divides only regroup the result:

    A of modes (M, N), tiler (m, n)
    logical_divide   ((m, M/m), (n, N/n))
    zipped_divide    ((m, n), (M/m, N/n))
    tiled_divide     ((m, n), M/m, N/n)
    flat_divide      (m, n, M/m, N/n)

>>> print(zipped_divide(Layout((8, 32), (32, 1)), (2, 4)))
((2,4),(4,8)):((32,1),(64,4))

Notes.  A tiler is a layout, an extent n (n:1), None (the mode is kept whole; in the zipped forms it counts
as tiles of one element), or a tuple of tilers; modes of A past the tuple are kept.  A tile that does not
divide A is completed past A's end, as in CuTe.  Swizzled layouts are divided inside: S o k o divide(inner).

Source: CUTLASS, media/docs/cpp/cute/02_layout_algebra.md, Division.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast, overload

from layoutalg.algebra.inverse import complement
from layoutalg.compose import Tiler, by_mode, compose_layouts, fitting_modes, tiler_text
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, named
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    check_layouts,
    concat,
    is_symbolic,
    layout_of,
    modes,
    product,
)

if TYPE_CHECKING:
    from layoutalg.layout import Trace


@overload
def logical_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def logical_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def logical_divide(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """layout o (tiler, complement(tiler, size(layout))): (tile, rest), mode by mode for a tuple.

    Raises what `composition` and `complement` raise.

    >>> print(logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    check_layouts("logical_divide", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(logical_divide, layout, tiler, trace)
        return _divide(layout, tiler, trace)
    except LayoutAlgError as error:
        named("logical_divide", error, layout, tiler)


def inside(
    operation: Callable[..., AnyLayout], layout: ComposedLayout, tiler: Tiler, trace: Trace | None
) -> ComposedLayout:
    """`operation` on the layout inside of a composed one; outer function and offset stay.

    >>> print(inside(logical_divide, ComposedLayout(Layout(24), 0, Layout(8)), 4, None))
    24:1 o 0 o (4,2):(1,4)
    """
    result = ComposedLayout(layout.outer, layout.offset, operation(layout.inner, tiler, trace=trace))
    if trace is not None:
        trace.note("inside", operation=operation, layout=layout, result=result)
    return result


def _divide(layout: Layout, tiler: Tiler, trace: Trace | None = None) -> Layout:
    if isinstance(tiler, (tuple, list)):
        return by_mode("logical_divide", _divide, layout, tuple(tiler), keep=True, trace=trace)
    if tiler is None:
        return layout
    tile = as_tile("logical_divide", layout, tiler)
    if trace is not None:
        trace.note("divide", layout=layout, tile=tile)
    rest = complement(tile, product(layout.shape), trace=trace)
    return compose_layouts(layout, layout_of((tile.shape, rest.shape), (tile.stride, rest.stride)), trace)


def as_tile(name: str, layout: AnyLayout, tiler: Tiler) -> Layout:
    """A tiler for one mode as a layout: itself, or n:1 for an extent n; else ArgumentTypeError.

    >>> print(as_tile("logical_divide", Layout(8), 4))
    4:1
    """
    if isinstance(tiler, Layout):
        return tiler
    if type(tiler) is int:
        return Layout(tiler)
    plain = not isinstance(tiler, (ComposedLayout, tuple, bool)) and tiler is not None
    if plain and (is_symbolic(tiler) or hasattr(tiler, "__index__")):
        return Layout(cast("int", tiler))
    raise ArgumentTypeError(
        f"{name}({layout}, {tiler_text(tiler)}): a tiler is a layout, an extent, None or a tuple of tilers"
    )


def untie_last(pair: Layout) -> Layout:
    """(a, (b, c)) -> (a, b, c): the modes of mode 1 put beside mode 0.

    >>> print(untie_last(Layout((4, (2, 8)))))
    (4,2,8):(1,4,8)
    """
    shape, stride = pair.shape, pair.stride
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        last, step = shape[1], stride[1]
        if isinstance(last, tuple) and isinstance(step, tuple):
            return layout_of((shape[0], *last), (stride[0], *step))
    return pair


def regrouped(name: str, first: Layout, second: Layout, result: Layout, trace: Trace | None) -> Layout:
    """`result`, after noting of which two parts it was put together.

    >>> print(regrouped("flat_divide", Layout(4), Layout(6, 4), Layout((4, 6)), None))
    (4,6):(1,4)
    """
    if trace is not None:
        trace.note("regrouped", name=name, first=first, second=second, result=result)
    return result


def _zip(layout: Layout, tiler: Tiler, trace: Trace | None = None) -> tuple[Layout, Layout]:
    """(tiles, rests): the modes of a logical divide, regrouped along the tree of `tiler`."""
    if tiler is None:
        return layout_of(1, 0), layout
    if not isinstance(tiler, (tuple, list)):
        divided = _divide(layout, tiler, trace)
        return divided[0], divided[1]
    parts = fitting_modes("zipped_divide", layout, tuple(tiler))
    pairs: list[tuple[Layout, Layout]] = []
    for i, (part, t) in enumerate(zip(parts, tiler, strict=False)):
        if trace is not None:
            trace.note("by mode", name="zipped_divide", a=layout, i=i, part=part, tiler=t)
        pairs.append(_zip(part, t, trace))
    return concat(*(t for t, _ in pairs)), concat(*(r for _, r in pairs), *parts[len(tiler) :])


@overload
def zipped_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def zipped_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def zipped_divide(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """logical_divide with all tiles in mode 0 and all rests in mode 1.

    >>> print(zipped_divide(Layout((8, 32)), (Layout(4, 2), 8)))
    ((4,8),(2,4)):((2,8),(1,64))
    """
    check_layouts("zipped_divide", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(zipped_divide, layout, tiler, trace)
        if isinstance(tiler, (tuple, list)) or tiler is None:
            tiles, rests = _zip(layout, tiler, trace)
            return regrouped("zipped_divide", tiles, rests, concat(tiles, rests), trace)
        return _divide(layout, tiler, trace)
    except LayoutAlgError as error:
        named("zipped_divide", error, layout, tiler)


@overload
def tiled_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def tiled_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def tiled_divide(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """zipped_divide with the rests as modes of their own: (tiles, rest, rest, ...).

    >>> print(tiled_divide(Layout((8, 32)), (4, 8)))
    ((4,8),2,4):((1,8),4,64)
    """
    check_layouts("tiled_divide", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(tiled_divide, layout, tiler, trace)
        if isinstance(tiler, (tuple, list)) or tiler is None:
            tiles, rests = _zip(layout, tiler, trace)
            return regrouped("tiled_divide", tiles, rests, concat(tiles, *modes(rests)), trace)
        divided = _divide(layout, tiler, trace)
        result = untie_last(divided)
        return result if trace is None else regrouped("tiled_divide", divided[0], divided[1], result, trace)
    except LayoutAlgError as error:
        named("tiled_divide", error, layout, tiler)


@overload
def flat_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def flat_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def flat_divide(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """zipped_divide with tiles and rests as modes of their own: (tile, tile, ..., rest, rest, ...).

    >>> print(flat_divide(Layout((8, 32)), (4, 8)))
    (4,8,2,4):(1,8,4,64)
    """
    check_layouts("flat_divide", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(flat_divide, layout, tiler, trace)
        tiles, rests = _zip(layout, tiler, trace)
        return regrouped("flat_divide", tiles, rests, concat(*modes(tiles), *modes(rests)), trace)
    except LayoutAlgError as error:
        named("flat_divide", error, layout, tiler)
