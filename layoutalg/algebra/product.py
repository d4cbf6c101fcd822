"""Products: a layout repeated.

The idea.  logical_product(A, B) = (A, complement(A, size(A) * cosize(B)) o B): mode 0 is the tile A, mode 1
lays copies of it out in the order of B, in the room that A leaves.  With a tuple of layouts each mode is
repeated for itself.  The other products only regroup the result:

    A of modes (m, n), B of modes (M, N)
    logical_product, by mode     ((m, M), (n, N))
    zipped_product, by mode      ((m, n), (M, N))
    tiled_product, by mode       ((m, n), M, N)
    flat_product, by mode        (m, n, M, N)
    blocked_product              ((m, M), (n, N)) of the product of the whole layouts: copies side by side
    raked_product                ((M, m), (N, n)): copies interleaved

>>> print(blocked_product(Layout((2, 2)), Layout((3, 4))))
((2,3),(2,4)):((1,4),(2,12))

Notes.  Swizzled layouts are multiplied inside: S o k o product(inner, B), as in CuTe.

Source: CUTLASS, media/docs/cpp/cute/02_layout_algebra.md, Product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from layoutalg.algebra.divide import as_tile, inside, regrouped, untie_last
from layoutalg.algebra.inverse import complement
from layoutalg.algebra.order import make_ordered_layout
from layoutalg.compose import Tiler, axes_of, by_mode, compose_layouts, fitting_modes
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError, UnsupportedError, named, shown
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    check_depth,
    check_layouts,
    concat,
    has_bases,
    layout_of,
    modes,
    product,
    rank,
    span,
    to_text,
)

if TYPE_CHECKING:
    from layoutalg.layout import Trace


@overload
def logical_product(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def logical_product(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def logical_product(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """(layout, complement(layout, size(layout) * cosize(tiler)) o tiler): the tile, and where its copies go.

    Raises what `complement` and `composition` raise.

    >>> print(logical_product(Layout((2, 2), (4, 1)), Layout(6)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    check_layouts("logical_product", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(logical_product, layout, tiler, trace)
        return _multiply(layout, tiler, trace)
    except LayoutAlgError as error:
        named("logical_product", error, layout, tiler)


def _multiply(layout: Layout, tiler: Tiler, trace: Trace | None = None) -> Layout:
    if isinstance(tiler, (tuple, list)):
        return by_mode("logical_product", _multiply, layout, tuple(tiler), keep=True, trace=trace)
    if tiler is None:
        return layout
    copies = _placed(layout, as_tile("logical_product", layout, tiler), trace)
    result = concat(layout, copies)
    return result if trace is None else regrouped("logical_product", layout, copies, result, trace)


def _placed(layout: Layout, copies: Layout, trace: Trace | None = None) -> Layout:
    """Where the copies of `layout` go: complement(layout, ...) o copies."""
    try:
        target = product(layout.shape) * (span(copies)[1] + 1)
        if trace is not None:
            trace.note("product", layout=layout, copies=copies, target=target)
        room = complement(layout, target, trace=trace)
    except UnsupportedError:
        if has_bases(layout) or has_bases(copies):
            return _placed_coordinates(layout, copies)
        raise
    return compose_layouts(room, copies, trace)


def _placed_coordinates(layout: Layout, copies: Layout) -> Layout:
    """A tile whose strides all move along one mode of a coordinate, repeated along that mode."""
    axes = axes_of(layout)
    if has_bases(copies):
        raise UnsupportedError(f"logical_product({layout}, {copies}): copies are numbered, by integers")
    if len(axes.paths) != 1:
        raise UnsupportedError(
            f"logical_product({layout}, {copies}): the tile moves along several modes of a coordinate, and "
            f"copies go along one; multiply mode by mode, with a tuple of layouts"
        )
    return axes.coordinates(_placed(axes.numbers(layout), copies))


def _zip(layout: Layout, tiler: Tiler, trace: Trace | None) -> tuple[Layout, Layout]:
    """(tiles, copies): the modes of a logical product, regrouped along the tree of `tiler`."""
    if tiler is None:
        return layout, layout_of(1, 0)
    if not isinstance(tiler, (tuple, list)):
        multiplied = _multiply(layout, tiler, trace)
        return multiplied[0], multiplied[1]
    parts = fitting_modes("zipped_product", layout, tuple(tiler))
    pairs: list[tuple[Layout, Layout]] = []
    for i, (part, t) in enumerate(zip(parts, tiler, strict=False)):
        if trace is not None:
            trace.note("by mode", name="zipped_product", a=layout, i=i, part=part, tiler=t)
        pairs.append(_zip(part, t, trace))
    return concat(*(t for t, _ in pairs), *parts[len(tiler) :]), concat(*(c for _, c in pairs))


@overload
def zipped_product(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def zipped_product(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def zipped_product(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """logical_product with all tiles in mode 0 and all copies in mode 1.

    >>> print(zipped_product(Layout((2, 4)), Layout((3, 5))))
    ((2,4),(3,5)):((1,2),(8,24))
    """
    check_layouts("zipped_product", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(zipped_product, layout, tiler, trace)
        if isinstance(tiler, (tuple, list)) or tiler is None:
            tiles, copies = _zip(layout, tiler, trace)
            return regrouped("zipped_product", tiles, copies, concat(tiles, copies), trace)
        return _multiply(layout, tiler, trace)
    except LayoutAlgError as error:
        named("zipped_product", error, layout, tiler)


@overload
def tiled_product(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def tiled_product(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def tiled_product(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """zipped_product with the copies as modes of their own.

    >>> print(tiled_product(Layout(5), Layout((4, 8), (8, 1))))
    (5,4,8):(1,40,5)
    """
    check_layouts("tiled_product", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(tiled_product, layout, tiler, trace)
        if isinstance(tiler, (tuple, list)) or tiler is None:
            tiles, copies = _zip(layout, tiler, trace)
            return regrouped("tiled_product", tiles, copies, concat(tiles, *modes(copies)), trace)
        multiplied = _multiply(layout, tiler, trace)
        result = untie_last(multiplied)
        return result if trace is None else regrouped("tiled_product", layout, multiplied[1], result, trace)
    except LayoutAlgError as error:
        named("tiled_product", error, layout, tiler)


@overload
def flat_product(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def flat_product(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def flat_product(layout: AnyLayout, tiler: Tiler, *, trace: Trace | None = None) -> AnyLayout:
    """zipped_product with tiles and copies as modes of their own.

    >>> print(flat_product(Layout((8, 4), (4, 1)), Layout(8, 4)))
    (8,4,8):(4,1,128)
    """
    check_layouts("flat_product", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(flat_product, layout, tiler, trace)
        tiles, copies = _zip(layout, tiler, trace)
        return regrouped("flat_product", tiles, copies, concat(*modes(tiles), *modes(copies)), trace)
    except LayoutAlgError as error:
        named("flat_product", error, layout, tiler)


def _rank_by_rank(tile: Layout, copies: Layout, trace: Trace | None) -> tuple[Layout, Layout]:
    """The tile and its copies with as many modes as each other; the shorter side is filled up with 1:0."""
    if not isinstance(copies, Layout):
        raise ArgumentTypeError(f"the copies of {tile} are {shown(copies)}; a plain layout is needed")
    missing = rank(tile) - rank(copies)
    placed = _placed(tile, _filled(copies, missing), trace)
    return _filled(tile, -missing), placed


def _filled(layout: Layout, missing: int) -> Layout:
    """A layout of a tuple of modes: those of `layout`, and as many 1:0 as are missing."""
    shape, stride = layout.shape, layout.stride
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        shape, stride = (shape,), (stride,)
    elif missing <= 0:
        return layout
    return layout_of(shape + (1,) * missing, stride + (0,) * missing)


def _parts(tree: IntTuple) -> tuple[IntTuple, ...]:
    return tree if isinstance(tree, tuple) else (tree,)


def _mode_by_mode(first: Layout, second: Layout) -> Layout:
    """((a, b), (c, d), ...) of (a, c, ...) and (b, d, ...)."""
    pairs = zip(_parts(first.shape), _parts(second.shape), strict=True)
    steps = zip(_parts(first.stride), _parts(second.stride), strict=True)
    shape = tuple(pairs)
    check_depth(shape)
    return layout_of(shape, tuple(steps))


@overload
def blocked_product(layout: Layout, tiler: Layout) -> Layout: ...
@overload
def blocked_product(layout: ComposedLayout, tiler: Layout) -> ComposedLayout: ...
def blocked_product(layout: AnyLayout, tiler: Layout, *, trace: Trace | None = None) -> AnyLayout:
    """Copies of `layout` side by side: mode i is (mode i of the tile, mode i of `tiler`).

    >>> print(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    check_layouts("blocked_product", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(blocked_product, layout, tiler, trace)
        tile, copies = _rank_by_rank(layout, tiler, trace)
        result = _mode_by_mode(tile, copies)
        return result if trace is None else regrouped("blocked_product", tile, copies, result, trace)
    except LayoutAlgError as error:
        named("blocked_product", error, layout, tiler)


@overload
def raked_product(layout: Layout, tiler: Layout) -> Layout: ...
@overload
def raked_product(layout: ComposedLayout, tiler: Layout) -> ComposedLayout: ...
def raked_product(layout: AnyLayout, tiler: Layout, *, trace: Trace | None = None) -> AnyLayout:
    """Copies of `layout` interleaved: mode i is (mode i of `tiler`, mode i of the tile).

    >>> print(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    check_layouts("raked_product", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return inside(raked_product, layout, tiler, trace)
        tile, copies = _rank_by_rank(layout, tiler, trace)
        result = _mode_by_mode(copies, tile)
        return result if trace is None else regrouped("raked_product", tile, copies, result, trace)
    except LayoutAlgError as error:
        named("raked_product", error, layout, tiler)


@overload
def tile_to_shape(layout: Layout, shape: IntTuple, order: IntTuple | None = None) -> Layout: ...
@overload
def tile_to_shape(
    layout: ComposedLayout, shape: IntTuple, order: IntTuple | None = None
) -> ComposedLayout: ...
def tile_to_shape(layout: AnyLayout, shape: IntTuple, order: IntTuple | None = None) -> AnyLayout:
    """Copies of `layout` side by side until they cover `shape`; modes with a lower `order` vary first.

    Raises ShapeError when the layout has more modes than the shape.

    Source: CUTLASS, include/cute/layout.hpp, tile_to_shape.

    >>> print(tile_to_shape(Layout((4, 3)), (8, 9), (1, 0)))
    ((4,2),(3,3)):((1,36),(4,12))
    """
    check_layouts("tile_to_shape", layout)
    try:
        if isinstance(layout, ComposedLayout):
            return ComposedLayout(layout.outer, layout.offset, tile_to_shape(layout.inner, shape, order))
        shape = Layout(shape).shape
        target = tuple(map(product, shape)) if isinstance(shape, tuple) else (shape,)
        tile = modes(layout)
        if len(tile) > len(target):
            raise ShapeError(
                f"tile_to_shape({layout}, {to_text(shape)}): the layout has more modes than the shape"
            )
        tile += (layout_of(1, 0),) * (len(target) - len(tile))
        counts = tuple(-(-t // product(m.shape)) for t, m in zip(target, tile, strict=True))
        ranks = tuple(range(len(counts))) if order is None else order
        return blocked_product(concat(*tile), make_ordered_layout(counts, ranks))
    except LayoutAlgError as error:
        named("tile_to_shape", error, layout, shape)
