"""The base of TiledMMA and TiledCopy: layouts on (thread, value) coordinates, and the part of a thread.

The idea.  Both bring a matrix to the form (thread, (value, (rest, rest, ...))) and give each thread its slice
as (value, rest, rest, ...).  The matrix may be swizzled: changing coordinates happens below the swizzle.

>>> part, offset = take(Layout(32), Layout((4, (2, (4,))), (8, (1, (2,)))), 3)
>>> print(part, offset)
(2,4):(1,2) 24

Source: CUTLASS, include/cute/atom/mma_atom.hpp, copy_atom.hpp.
"""

from __future__ import annotations

from typing import TypeVar

from layoutalg.atoms.tensor import Tensor
from layoutalg.compose import Tiler, by_mode, composition
from layoutalg.errors import ArgumentTypeError, ShapeError, check_type, shown
from layoutalg.layout import (
    AnyLayout,
    Coordinate,
    Layout,
    innermost,
    layout_size,
    modes,
    slice_and_offset,
)

Matrix = TypeVar("Matrix", Layout, AnyLayout)
"""A plain layout, of which the parts are plain too, or any."""


def nearest_multiple(n: int, of: int) -> int:
    """The positive multiple of `of` that is closest to n.

    >>> nearest_multiple(50, 32), nearest_multiple(3, 32)
    (64, 32)
    """
    return max(1, (n + of // 2) // of) * of


def as_layout(value: object) -> Layout:
    """A layout as it is; an extent or a shape as the column-major layout of it; else ArgumentTypeError.

    >>> print(as_layout((2, 2, 1)))
    (2,2,1):(1,2,0)
    """
    if isinstance(value, Layout):
        return value
    if isinstance(value, (int, tuple)):
        return Layout(value)
    raise ArgumentTypeError(
        f"{shown(value)} is a {type(value).__name__}; a layout, an extent or a shape is needed"
    )


def compose_first(layout: Layout, tiler: Tiler) -> Layout:
    """A layout of two modes with the first composed with a tiler.

    >>> print(compose_first(Layout((8, 2)), Layout(4, 2)))
    (4,2):(2,8)
    """
    return by_mode("composition", composition, layout, (tiler, None), keep=False)


def check_multiples(what: str, matrix: AnyLayout, tile: tuple[int, ...]) -> None:
    """Raise ShapeError unless the first modes of `matrix` are multiples of the extents of a tile.

    >>> check_multiples("A", Layout((64, 16)), (32, 16))
    """
    matrix = innermost(matrix)
    check_type(what, matrix, Layout, "a layout")
    parts = modes(matrix)
    if len(parts) < len(tile):
        raise ShapeError(f"{what}: {matrix} has {len(parts)} modes; {len(tile)} or more are needed")
    for i, (part, extent) in enumerate(zip(parts, tile, strict=False)):
        if layout_size(part) % extent:
            raise ShapeError(
                f"{what}: mode {i} of {matrix} has {layout_size(part)} elements and the tile {extent}; the "
                f"nearest multiple is {nearest_multiple(layout_size(part), extent)}"
            )


def take(matrix: AnyLayout | Tensor, layout: AnyLayout, thread: Coordinate) -> tuple[AnyLayout, int] | Tensor:
    """The values of one thread of (thread, (value, (rest, ...))) as (value, rest, ...).

    `layout` is `matrix` on those coordinates; of a Tensor a Tensor, of a layout (layout, offset).

    >>> part, offset = take(Layout(32), Layout((4, (2, (4,))), (8, (1, (2,)))), 3)
    >>> print(part, offset)
    (2,4):(1,2) 24
    """
    rests = modes(modes(modes(innermost(layout))[1])[1])
    part, moved = slice_and_offset((thread, (None, (None,) * len(rests))), layout)
    if isinstance(matrix, Tensor):
        return Tensor(matrix.buffer, part, matrix.offset + moved)
    return part, moved
