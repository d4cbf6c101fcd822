"""Parts of a layout: slice_ dice domain_offset, and one block's tile or one thread's share of it.

The idea.  A coordinate with None in it fixes some modes and keeps the others.  `local_tile` cuts a layout
into tiles and takes one; `local_partition` gives each thread its element of every tile:

    A = (8,32):(32,1)
    local_tile(A, (4,8), (1,2))                    (4,8):(32,1) at offset 144, the tile in row 1, column 2
    local_partition(A, (2,4):(4,1), 5)             (4,8):(64,4) at offset 33, for thread 5 at (1,1)

Comparison with CuTe.  The same; where CuTe's functions take a tensor and move its pointer, these return the
layout and the offset to add.  A swizzled layout keeps the offset inside its swizzle, and has 0 outside.
`slice_` is spelled as in pycute and the DSL, so that Python's slice stays.

Source: CUTLASS, include/cute/layout.hpp, slice, dice, domain_offset; tensor_impl.hpp, local_tile,
local_partition.
"""

from __future__ import annotations

from typing import Any

from layoutalg.algebra.tiles import zipped_divide
from layoutalg.compose import Tiler
from layoutalg.errors import ArgumentTypeError, ShapeError, check_type, names_refusals, shown
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Coordinate,
    IntTuple,
    Layout,
    check_integers,
    check_layouts,
    check_nesting,
    concat,
    flatten_tree,
    index_at,
    innermost,
    leaf_of_shape,
    leaves,
    modes,
    normalize,
    product,
    slice_and_offset,
)


def plain_coordinate(crd: Any) -> Coordinate:
    """`crd` with plain integers, sympy expressions and None as its leaves.

    Raises ArgumentTypeError for other leaves, ShapeError past MAX_DEPTH levels.

    >>> plain_coordinate((1, (None, 2)))
    (1, (None, 2))
    """
    check_nesting(crd, "coordinate")

    def clean(part: Any) -> Coordinate:
        if isinstance(part, (tuple, list)):
            return tuple(map(clean, part))
        return None if part is None else normalize(part, "coordinate", leaf_of_shape)

    return clean(crd)


@names_refusals
def slice_(crd: Coordinate, layout: AnyLayout) -> AnyLayout:
    """The modes where `crd` is None; a plain layout forgets the offset of the others.

    Raises ShapeError when `crd` does not fit.

    >>> print(slice_((None, (1, None)), Layout((4, (2, 8)))))
    (4,8):(1,8)
    """
    check_layouts("slice_", layout)
    return slice_and_offset(plain_coordinate(crd), layout)[0]


@names_refusals
def dice(crd: Coordinate, layout: AnyLayout) -> Layout:
    """The modes that `crd` fixes, None or not kept: the complement of `slice_`.

    Of a swizzled layout, the modes of the layout inside.  Raises ShapeError when `crd` does not fit.

    >>> print(dice((None, (1, None)), Layout((4, (2, 8)))))
    (2):(4)
    """
    check_layouts("dice", layout)
    crd = plain_coordinate(crd)
    plain = innermost(layout)
    slice_and_offset(crd, plain)  # refuses a coordinate that does not fit
    fixed = _fixed_modes(crd, plain)
    return fixed[0] if fixed and not isinstance(crd, tuple) else concat(*fixed)


def _fixed_modes(crd: Coordinate, layout: Layout) -> list[Layout]:
    if not isinstance(crd, tuple):
        return [] if crd is None else [layout]
    return [part for c, mode in zip(crd, modes(layout), strict=True) for part in _fixed_modes(c, mode)]


@names_refusals
def domain_offset(crd: Coordinate, layout: AnyLayout) -> tuple[AnyLayout, int]:
    """(layout, offset) that count from `crd`: offset + layout(c) is the old value at crd + c.

    crd + c is added mode by mode, without carries; None counts as 0.  Raises ShapeError when `crd` does
    not fit.

    >>> same, offset = domain_offset((1, 2), Layout((4, 8), (8, 1)))
    >>> print(same, offset)
    (4,8):(8,1) 10
    """
    check_layouts("domain_offset", layout)
    crd = plain_coordinate(crd)
    if isinstance(layout, ComposedLayout):
        inner, offset = domain_offset(crd, layout.inner)
        return ComposedLayout(layout.outer, layout.offset + offset, inner), 0
    return layout, slice_and_offset(crd, layout)[1]


@names_refusals
def local_tile(
    layout: AnyLayout, tiler: Tiler, crd: Coordinate, proj: tuple[int | None, ...] | None = None
) -> tuple[AnyLayout, int]:
    """(the tile at `crd`, its offset) when `layout` is cut by `tiler`; None in `crd` keeps a mode of tiles.

    `proj` leaves modes of `tiler` and `crd` out where it is None, as in CuTe, where one tiler (M, N, K)
    serves three operands.  Raises what `zipped_divide` and `slice_and_offset` raise.

    >>> tile, offset = local_tile(Layout((8, 32), (32, 1)), (4, 8), (1, 2))
    >>> print(tile, offset)
    (4,8):(32,1) 144
    >>> print(local_tile(Layout((8, 32), (32, 1)), (4, 8), (1, None))[0])
    (4,8,4):(32,1,8)
    """
    check_layouts("local_tile", layout)
    if proj is not None:
        check_type("local_tile: proj", proj, (tuple, list), "a tuple")
        tiler, crd = _project("tiler", proj, tiler), _project("coordinate", proj, crd)
    crd = plain_coordinate(crd)
    tiles = zipped_divide(layout, tiler)
    return slice_and_offset((_whole(tiles, 0), _fixed(crd, tiles, 1)), tiles)


@names_refusals
def local_partition(layout: AnyLayout, threads: Layout, index: int) -> tuple[AnyLayout, int]:
    """(the elements of thread `index`, their offset): one element of every tile of the shape of `threads`.

    `threads` maps the coordinates of a tile to threads, as CuTe's thread layouts do.  Raises ShapeError
    when no coordinate of `threads` is that thread.

    >>> mine, offset = local_partition(Layout((8, 32), (32, 1)), Layout((2, 4), (4, 1)), 5)
    >>> print(mine, offset)
    (4,8):(64,4) 33
    """
    check_layouts("local_partition", layout)
    if not isinstance(threads, Layout):
        raise ArgumentTypeError(f"local_partition: threads are {shown(threads)}; a plain layout is needed")
    check_integers("local_partition", threads)
    shape = threads.shape
    tiler: Tiler = tuple(map(product, shape)) if isinstance(shape, tuple) else shape
    tiles = zipped_divide(layout, tiler)
    return slice_and_offset((_fixed(_thread(threads, index), tiles, 0), _whole(tiles, 1)), tiles)


def _thread(threads: Layout, index: int) -> Coordinate:
    """The coordinate, one number per mode, that the layout `threads` sends to `index`."""
    wanted = normalize(index, "thread")
    digits: list[int] = []
    for s, d in leaves(threads):
        digits.append(0 if isinstance(wanted, tuple) or s == 1 or d <= 0 else wanted // d % s)
    if sum(x * d for x, d in zip(digits, flatten_tree(threads.stride), strict=True)) != wanted:
        raise ShapeError(f"local_partition: no coordinate of {threads} is thread {index}")
    out: list[int] = []
    for part in modes(threads):
        extents = flatten_tree(part.shape)
        mine, digits = digits[: len(extents)], digits[len(extents) :]
        out.append(index_at(tuple(mine), extents))
    return tuple(out) if isinstance(threads.shape, tuple) else out[0]


def _project(what: str, proj: tuple[int | None, ...], value: Any) -> Any:
    if not isinstance(value, (tuple, list)) or len(value) != len(proj):
        raise ShapeError(f"local_tile: the {what} does not have the {len(proj)} modes of proj")
    return tuple(v for v, p in zip(value, proj, strict=True) if p is not None)


def _fixed(crd: Coordinate, tiles: AnyLayout, mode: int) -> Coordinate:
    """`crd` filled up with None to the rank of a mode of `tiles`, or as it is when it is one number."""
    part = _part(tiles, mode)
    if not isinstance(crd, tuple) or not isinstance(part, tuple):
        return crd
    return (*crd, *(None,) * (len(part) - len(crd)))


def _whole(tiles: AnyLayout, mode: int) -> Coordinate:
    """None for every mode inside a mode of `tiles`, so that each becomes a mode of the result."""
    part = _part(tiles, mode)
    return (None,) * len(part) if isinstance(part, tuple) else None


def _part(tiles: AnyLayout, mode: int) -> IntTuple:
    shape = tiles.shape
    return shape[mode] if isinstance(shape, tuple) else shape
