"""Divides and products: a layout cut into tiles, and a layout repeated.

The idea.  Each has one definition, and every other form is that one with its modes in another order:

    logical_divide(A, B)  = A o (B, complement(B, size(A)))                  (tile, rest)
    logical_product(A, B) = (A, complement(A, size(A) * cosize(B)) o B)      (tile, copies)

With a tuple of tilers each mode is cut or repeated for itself, which gives a pair per mode:

    logical   ((m, M/m), (n, N/n))      zipped   ((m, n), (M/m, N/n))
    tiled     ((m, n), M/m, N/n)        flat     (m, n, M/m, N/n)

blocked_product and raked_product take the product of the whole layouts and pair its modes, the tile's first
or the copies' first.  The registers of a partition are such a product: make_fragment_like.

>>> print(zipped_divide(Layout((8, 32), (32, 1)), (2, 4)))
((2,4),(4,8)):((32,1),(64,4))
>>> print(blocked_product(Layout((2, 2)), Layout((3, 4))))
((2,3),(2,4)):((1,4),(2,12))

Notes.  A tiler is a layout, an extent n (n:1), None (the mode is kept whole; in the zipped forms it counts
as tiles of one element), or a tuple of tilers; modes of A past the tuple are kept.  A tile that does not
divide A is completed past A's end, as in CuTe.  Swizzled layouts are cut and repeated inside: S o k o (...).

Source: CUTLASS, media/docs/cpp/cute/02_layout_algebra.md, Division and Product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from layoutalg.algebra.inverse import complement
from layoutalg.algebra.order import make_ordered_layout
from layoutalg.compose import Tiler, axes_of, by_mode, compose_layouts, fitting_modes, tiler_text
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, shown
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    Trace,
    check_depth,
    check_layouts,
    concat,
    filter_zeros,
    has_bases,
    innermost,
    integer_leaves,
    is_symbolic,
    layout_of,
    modes,
    operation,
    product,
    rank,
    span,
    to_text,
)

# --- the two definitions -------------------------------------------------------------------------------


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


def _multiply(layout: Layout, tiler: Tiler, trace: Trace | None = None) -> Layout:
    if isinstance(tiler, (tuple, list)):
        return by_mode("logical_product", _multiply, layout, tuple(tiler), keep=True, trace=trace)
    if tiler is None:
        return layout
    copies = _placed(layout, as_tile("logical_product", layout, tiler), trace)
    return _noted("logical_product", layout, copies, concat(layout, copies), trace)


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


def _placed(layout: Layout, copies: Layout, trace: Trace | None = None) -> Layout:
    """The places of the copies of `layout`: complement(layout, ...) o copies."""
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


# --- their modes in another order ----------------------------------------------------------------------


class _Split(NamedTuple):
    """A definition by mode: what it makes of a mode, and which of the pair a mode without a tiler joins."""

    name: str
    of_mode: Callable[[Layout, Tiler, Trace | None], Layout]
    keeps: int


_CUT, _REPEATED = _Split("zipped_divide", _divide, 1), _Split("zipped_product", _multiply, 0)


def _zip(split: _Split, layout: Layout, tiler: Tiler, trace: Trace | None) -> tuple[Layout, Layout]:
    """(tiles, rests or copies): the pairs of all modes, regrouped along the tree of `tiler`."""
    if tiler is None:
        still = layout_of(1, 0)
        return (still, layout) if split.keeps else (layout, still)
    if not isinstance(tiler, (tuple, list)):
        first, second = modes(split.of_mode(layout, tiler, trace))
        return first, second
    parts = fitting_modes(split.name, layout, tuple(tiler))
    sides: tuple[list[Layout], list[Layout]] = [], []
    for i, (part, t) in enumerate(zip(parts, tiler, strict=False)):
        if trace is not None:
            trace.note("by mode", name=split.name, a=layout, i=i, part=part, tiler=t)
        for side, half in zip(sides, _zip(split, part, t, trace), strict=True):
            side.append(half)
    sides[split.keeps].extend(parts[len(tiler) :])
    return concat(*sides[0]), concat(*sides[1])


def _noted(name: str, first: Layout, second: Layout, result: Layout, trace: Trace | None) -> Layout:
    if trace is not None:
        trace.note("regrouped", name=name, first=first, second=second, result=result)
    return result


def _untied(pair: Layout) -> Layout:
    """(a, (b, c)) -> (a, b, c): the modes of mode 1 put beside mode 0."""
    shape, stride = pair.shape, pair.stride
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        last, step = shape[1], stride[1]
        if isinstance(last, tuple) and isinstance(step, tuple):
            return layout_of((shape[0], *last), (stride[0], *step))
    return pair


def _regrouped(
    name: str,
    split: _Split,
    layout: Layout,
    tiler: Tiler,
    trace: Trace | None,
    *,
    first_apart: bool = False,
    second_apart: bool = False,
) -> Layout:
    """(tiles, rests or copies), each as one mode or with its modes apart."""
    if not first_apart and tiler is not None and not isinstance(tiler, (tuple, list)):
        pair = split.of_mode(layout, tiler, trace)
        if not second_apart:
            return pair
        return _noted(name, pair[0], pair[1], _untied(pair), trace) if trace is not None else _untied(pair)
    first, second = _zip(split, layout, tiler, trace)
    left = modes(first) if first_apart else (first,)
    right = modes(second) if second_apart else (second,)
    return _noted(name, first, second, concat(*left, *right), trace)


@operation
def logical_divide(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """layout o (tiler, complement(tiler, size(layout))): (tile, rest), mode by mode for a tuple.

    Raises what `composition` and `complement` raise.

    >>> print(logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    return _divide(layout, tiler, trace)


@operation
def zipped_divide(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """logical_divide with all tiles in mode 0 and all rests in mode 1.

    >>> print(zipped_divide(Layout((8, 32)), (Layout(4, 2), 8)))
    ((4,8),(2,4)):((2,8),(1,64))
    """
    return _regrouped("zipped_divide", _CUT, layout, tiler, trace)


@operation
def tiled_divide(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """zipped_divide with the rests as modes of their own: (tiles, rest, rest, ...).

    >>> print(tiled_divide(Layout((8, 32)), (4, 8)))
    ((4,8),2,4):((1,8),4,64)
    """
    return _regrouped("tiled_divide", _CUT, layout, tiler, trace, second_apart=True)


@operation
def flat_divide(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """zipped_divide with tiles and rests as modes of their own: (tile, tile, ..., rest, rest, ...).

    >>> print(flat_divide(Layout((8, 32)), (4, 8)))
    (4,8,2,4):(1,8,4,64)
    """
    return _regrouped("flat_divide", _CUT, layout, tiler, trace, first_apart=True, second_apart=True)


@operation
def logical_product(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """(layout, complement(layout, size(layout) * cosize(tiler)) o tiler): the tile, and where its copies go.

    Raises what `complement` and `composition` raise.

    >>> print(logical_product(Layout((2, 2), (4, 1)), Layout(6)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    return _multiply(layout, tiler, trace)


@operation
def zipped_product(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """logical_product with all tiles in mode 0 and all copies in mode 1.

    >>> print(zipped_product(Layout((2, 4)), Layout((3, 5))))
    ((2,4),(3,5)):((1,2),(8,24))
    """
    return _regrouped("zipped_product", _REPEATED, layout, tiler, trace)


@operation
def tiled_product(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """zipped_product with the copies as modes of their own.

    >>> print(tiled_product(Layout(5), Layout((4, 8), (8, 1))))
    (5,4,8):(1,40,5)
    """
    return _regrouped("tiled_product", _REPEATED, layout, tiler, trace, second_apart=True)


@operation
def flat_product(layout: Layout, tiler: Tiler, *, trace: Trace | None = None) -> Layout:
    """zipped_product with tiles and copies as modes of their own.

    >>> print(flat_product(Layout((8, 4), (4, 1)), Layout(8, 4)))
    (8,4,8):(4,1,128)
    """
    return _regrouped("flat_product", _REPEATED, layout, tiler, trace, first_apart=True, second_apart=True)


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


@operation
def blocked_product(layout: Layout, tiler: Layout, *, trace: Trace | None = None) -> Layout:
    """Copies of `layout` side by side: mode i is (mode i of the tile, mode i of `tiler`).

    >>> print(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    tile, copies = _rank_by_rank(layout, tiler, trace)
    return _noted("blocked_product", tile, copies, _mode_by_mode(tile, copies), trace)


@operation
def raked_product(layout: Layout, tiler: Layout, *, trace: Trace | None = None) -> Layout:
    """Copies of `layout` interleaved: mode i is (mode i of `tiler`, mode i of the tile).

    >>> print(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    tile, copies = _rank_by_rank(layout, tiler, trace)
    return _noted("raked_product", tile, copies, _mode_by_mode(copies, tile), trace)


@operation
def tile_to_shape(layout: Layout, shape: IntTuple, order: IntTuple | None = None) -> Layout:
    """Copies of `layout` side by side until they cover `shape`; modes with a lower `order` vary first.

    Raises ShapeError when the layout has more modes than the shape.

    Source: CUTLASS, include/cute/layout.hpp, tile_to_shape.

    >>> print(tile_to_shape(Layout((4, 3)), (8, 9), (1, 0)))
    ((4,2),(3,3)):((1,36),(4,12))
    """
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


def make_fragment_like(layout: AnyLayout) -> Layout:
    """Registers for the elements of a partition: mode 0 varies first, then the others by their strides.

    Strides of 0 stay 0 in mode 0.  For a composed layout, that of the layout inside.

    Source: CUTLASS, include/cute/layout.hpp, make_fragment_like.

    >>> print(make_fragment_like(Layout(((2, 2), 4, 2), ((1, 8), 1024, 16))))
    ((2,2),4,2):((1,2),8,4)
    """
    check_layouts("make_fragment_like", layout)
    layout = innermost(layout)
    integer_leaves("make_fragment_like", layout)
    if not isinstance(layout.shape, tuple) or len(layout.shape) < 2:
        return Layout(layout.shape)
    first, rest = layout[0], layout[1:]
    filtered = Layout(filter_zeros(first).shape)
    registers = layout_of(first.shape, filtered.stride)
    return tiled_product(registers, make_ordered_layout(rest.shape, rest.stride))
