"""Slices, tiles and shares of a layout: a coordinate fixes some modes and keeps the others.

The idea.  None in a coordinate keeps a mode, a number fixes it.  What is kept is a layout again, and what
is fixed is an offset:

    (8,(2,4)):(1,(8,16)) at (None, (1, None))    =    (8,4):(1,16), 8 elements further on

A tile is a slice of the zipped divide that fixes the rests, and a thread's share one that fixes the place
inside the tiles.

>>> rest, offset = slice_and_offset((None, (1, None)), Layout((8, (2, 4)), (1, (8, 16))))
>>> print(rest, offset)
(8,4):(1,16) 8

Notes.  In a swizzled layout the offset goes below the swizzle, Sw o (k + offset) o rest, and 0 is returned,
since a swizzle moves an element by where it stands in the whole layout.

Source: CUTLASS, include/cute/layout.hpp, layout_composed.hpp and tensor_impl.hpp.
"""

from __future__ import annotations

from typing import Any

from layoutalg.composed import Tiler, tiler_text
from layoutalg.divide import zipped_divide
from layoutalg.errors import ShapeError
from layoutalg.int_tuple import IntTuple, idx2crd, product, to_text
from layoutalg.inverse import left_inverse
from layoutalg.layout import Layout, layout_size, make_layout
from layoutalg.swizzle import AnyLayout, ComposedLayout


def slice_(crd: Any, layout: AnyLayout) -> AnyLayout:
    """The modes of `layout` that `crd` keeps, as `slice_and_offset` returns them.

    >>> print(slice_((2, None), Layout((4, 8))))
    (8):(4)
    """
    return slice_and_offset(crd, layout)[0]


def slice_and_offset(crd: Any, layout: AnyLayout) -> tuple[AnyLayout, int]:
    """(rest, offset) with layout(c) = offset + rest(r), where r is what `crd` leaves open of c.

    None in `crd` keeps a mode.  Kept modes of a nested coordinate move up into the tuple around it, as in
    CuTe.  Raises ShapeError when the coordinate does not fit.

    >>> rest, offset = slice_and_offset((2, (None, 1)), Layout((4, (2, 8)), (16, (8, 1))))
    >>> print(rest, offset)
    (2):(8) 33
    """
    if isinstance(layout, ComposedLayout):
        inner, moved = slice_and_offset(crd, layout.inner)
        return ComposedLayout(layout.outer, layout.offset + moved, inner), 0
    if crd is None:
        return layout, 0
    offset = layout(_zeros(crd))
    return make_layout(_select(crd, layout.shape, kept=True), _select(crd, layout.stride, kept=True)), offset


def dice(crd: Any, layout: AnyLayout) -> AnyLayout:
    """The modes of `layout` that `crd` fixes: the other half of `slice_`.

    Raises ShapeError when the coordinate does not fit.

    >>> print(dice((2, None), Layout((4, 8))))
    (4):(1)
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, dice(crd, layout.inner))
    if crd is not None:
        layout(_zeros(crd))
    if not isinstance(crd, tuple):
        return make_layout((), ()) if crd is None else layout
    return make_layout(_select(crd, layout.shape, kept=False), _select(crd, layout.stride, kept=False))


def domain_offset(crd: Any, layout: AnyLayout) -> tuple[AnyLayout, int]:
    """(same, offset) with layout(crd + c) = offset + same(c): the layout as it is seen from `crd`.

    None in `crd` counts as 0.  Raises ShapeError when the coordinate does not fit.

    >>> same, offset = domain_offset((1, 2), Layout((4, 8)))
    >>> print(same, offset)
    (4,8):(1,4) 9
    """
    if isinstance(layout, ComposedLayout):
        inner, moved = domain_offset(crd, layout.inner)
        return ComposedLayout(layout.outer, layout.offset + moved, inner), 0
    return layout, layout(_zeros(crd))


def local_tile(
    layout: AnyLayout, tiler: Tiler, crd: Any, proj: tuple[Any, ...] | None = None
) -> tuple[AnyLayout, int]:
    """(tile, offset) of the tile at tile coordinate `crd`; None in it keeps a mode that counts tiles.

    `proj` has a mode for each of `tiler` and of `crd`, and None where this layout does not have that mode
    (CuTe's Step<_1,X,_1>).  Modes that a tuple `crd` does not reach are kept.  Raises ShapeError when the
    trees do not fit, and what `zipped_divide` raises.

    >>> tile, offset = local_tile(Layout((4, 8), (8, 1)), (2, 4), (1, None))
    >>> print(tile, offset)
    (2,4,2):(8,1,4) 16
    """
    if proj is not None:
        tiler = _projected(proj, tiler, f"tiler {tiler_text(tiler)}")
        crd = _projected(proj, crd, f"coordinate {crd}")
    divided = zipped_divide(layout, tiler)
    tiles, rests = _two(divided.shape)
    return slice_and_offset((_open(None, tiles), _open(crd, rests)), divided)


def local_partition(layout: AnyLayout, threads: Layout, index: int) -> tuple[AnyLayout, int]:
    """(share, offset) of thread `index`: its element of every tile that the thread layout covers.

    `threads` maps the coordinates of the threads to their numbers; its modes have the sizes of the tile.
    Raises ShapeError when no thread has that number, and what `left_inverse` and `zipped_divide` raise.

    >>> share, offset = local_partition(Layout((4, 8), (8, 1)), Layout((2, 4), (4, 1)), 5)
    >>> print(share, offset)
    (2,2):(16,4) 9
    """
    flat = left_inverse(threads)(index)
    if flat >= layout_size(threads) or threads(flat) != index:
        raise ShapeError(f"local_partition({layout}, {threads}, {index}): no thread has the number {index}")
    tile = tuple(map(product, threads.shape)) if isinstance(threads.shape, tuple) else threads.shape
    divided = zipped_divide(layout, tile)
    tiles, rests = _two(divided.shape)
    return slice_and_offset((_open(idx2crd(flat, tile), tiles), _open(None, rests)), divided)


def _zeros(crd: Any) -> Any:
    """The coordinate with 0 where it keeps a mode."""
    if isinstance(crd, tuple):
        return tuple(map(_zeros, crd))
    return 0 if crd is None else crd


def _select(crd: Any, tree: IntTuple, *, kept: bool) -> tuple[IntTuple, ...]:
    """The parts of a tree at which the coordinate is None (kept), or is not."""
    if isinstance(crd, tuple) and isinstance(tree, tuple):
        return tuple(part for c, t in zip(crd, tree, strict=True) for part in _select(c, t, kept=kept))
    return (tree,) if (crd is None) == kept else ()


def _two(shape: IntTuple) -> tuple[IntTuple, IntTuple]:
    """The shapes of the two modes of a zipped divide."""
    if not isinstance(shape, tuple):
        return shape, ()
    return shape[0], shape[1]


def _open(crd: Any, shape: IntTuple) -> Any:
    """The coordinate with None for every mode of a tuple shape that it does not reach."""
    if not isinstance(shape, tuple) or not (crd is None or isinstance(crd, tuple)):
        return crd
    known = crd or ()
    return (*known, *(None,) * (len(shape) - len(known)))


def _projected(proj: tuple[Any, ...], value: Any, what: str) -> Any:
    """The modes of `value` whose place in `proj` is not None."""
    if not isinstance(value, tuple) or len(value) != len(proj):
        shown = to_text(tuple(0 if p is None else 1 for p in proj))
        raise ShapeError(f"local_tile: the projection {shown} (0: left out) does not fit the {what}")
    return tuple(v for v, p in zip(value, proj, strict=True) if p is not None)
