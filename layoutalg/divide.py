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

from typing import cast, overload

from layoutalg.composed import Tiler, by_mode, fitting_modes, tiler_text
from layoutalg.digits import compose_layouts
from layoutalg.errors import ArgumentTypeError
from layoutalg.int_tuple import product
from layoutalg.inverse import complement
from layoutalg.layout import Layout, concat, make_layout, modes
from layoutalg.swizzle import AnyLayout, ComposedLayout, check_layouts
from layoutalg.symbols import is_symbolic


@overload
def logical_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def logical_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def logical_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """layout o (tiler, complement(tiler, size(layout))): (tile, rest), mode by mode for a tuple.

    Raises what `composition` and `complement` raise.

    >>> print(logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    check_layouts("logical_divide", layout)
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, logical_divide(layout.inner, tiler))
    return _divide(layout, tiler)


def _divide(layout: Layout, tiler: Tiler) -> Layout:
    if isinstance(tiler, tuple):
        return by_mode("logical_divide", _divide, layout, tiler, keep=True)
    if tiler is None:
        return layout
    tile = as_tile("logical_divide", layout, tiler)
    rest = complement(tile, product(layout.shape))
    return compose_layouts(layout, make_layout((tile.shape, rest.shape), (tile.stride, rest.stride)))


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
            return make_layout((shape[0], *last), (stride[0], *step))
    return pair


def _zip(layout: Layout, tiler: Tiler) -> tuple[Layout, Layout]:
    """(tiles, rests): the modes of a logical divide, regrouped along the tree of `tiler`."""
    if tiler is None:
        return make_layout(1, 0), layout
    if not isinstance(tiler, tuple):
        divided = _divide(layout, tiler)
        return divided[0], divided[1]
    parts = fitting_modes("zipped_divide", layout, tiler)
    pairs = [_zip(part, t) for part, t in zip(parts, tiler, strict=False)]
    return concat(*(t for t, _ in pairs)), concat(*(r for _, r in pairs), *parts[len(tiler) :])


@overload
def zipped_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def zipped_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def zipped_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """logical_divide with all tiles in mode 0 and all rests in mode 1.

    >>> print(zipped_divide(Layout((8, 32)), (Layout(4, 2), 8)))
    ((4,8),(2,4)):((2,8),(1,64))
    """
    check_layouts("zipped_divide", layout)
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, zipped_divide(layout.inner, tiler))
    if isinstance(tiler, tuple) or tiler is None:
        return concat(*_zip(layout, tiler))
    return _divide(layout, tiler)


@overload
def tiled_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def tiled_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def tiled_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """zipped_divide with the rests as modes of their own: (tiles, rest, rest, ...).

    >>> print(tiled_divide(Layout((8, 32)), (4, 8)))
    ((4,8),2,4):((1,8),4,64)
    """
    check_layouts("tiled_divide", layout)
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, tiled_divide(layout.inner, tiler))
    if isinstance(tiler, tuple) or tiler is None:
        tiles, rests = _zip(layout, tiler)
        return concat(tiles, *modes(rests))
    return untie_last(_divide(layout, tiler))


@overload
def flat_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def flat_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
def flat_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """zipped_divide with tiles and rests as modes of their own: (tile, tile, ..., rest, rest, ...).

    >>> print(flat_divide(Layout((8, 32)), (4, 8)))
    (4,8,2,4):(1,8,4,64)
    """
    check_layouts("flat_divide", layout)
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, flat_divide(layout.inner, tiler))
    tiles, rests = _zip(layout, tiler)
    return concat(*modes(tiles), *modes(rests))
