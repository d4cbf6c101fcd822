"""Slices: a coordinate that fixes some modes of a layout and keeps the others.

The idea.  None in a coordinate keeps a mode, a number fixes it.  What is kept is a layout again, and what
is fixed is an offset:

    (8,(2,4)):(1,(8,16)) at (None, (1, None))    =    (8,4):(1,16), shifted by 8 elements

>>> rest, offset = slice_and_offset((None, (1, None)), Layout((8, (2, 4)), (1, (8, 16))))
>>> print(rest, offset)
(8,4):(1,16) 8

A layout that is called with such a coordinate is sliced, as in CuTe: L(None, 3) is `rest`, and a plain
layout forgets the offset.

>>> print(Layout((8, (2, 4)), (1, (8, 16)))(None, (1, None)), Layout((4, 8))(None, 3))
(8,4):(1,16) (4):(1)

Notes.  In a swizzled layout the offset stays below the swizzle, Sw o (k + offset) o rest, since a swizzle
moves an element by its position in the whole layout.

Source: CUTLASS, include/cute/layout.hpp and layout_composed.hpp, slice_and_offset.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from layoutalg.errors import ArgumentTypeError, ShapeError, names_refusals, shown
from layoutalg.layout.int_tuple import IntTuple, normalize, product, to_text, tupled
from layoutalg.layout.layout import Layout, layout_of
from layoutalg.layout.swizzle import AnyLayout, ComposedLayout, check_layouts

Coordinate: TypeAlias = "int | tuple[Coordinate, ...] | None"
"""A coordinate at any depth of a shape; None keeps the mode."""


@names_refusals
def slice_and_offset(crd: Coordinate, layout: AnyLayout) -> tuple[AnyLayout, int]:
    """(rest, offset) with layout(c) = offset + rest(r), where r is what `crd` leaves open of c.

    None in `crd` keeps a mode.  Kept modes of a nested coordinate move up into the tuple around it, as in
    CuTe.  For a composed layout the offset joins the one below the outer function, and 0 is returned.
    Raises ShapeError when the coordinate does not fit.

    Source: CUTLASS, include/cute/layout.hpp and layout_composed.hpp, slice_and_offset.

    >>> rest, offset = slice_and_offset((2, (None, 1)), Layout((4, (2, 8)), (16, (8, 1))))
    >>> print(rest, offset)
    (2):(8) 33
    """
    check_layouts("slice_and_offset", layout)
    if isinstance(layout, ComposedLayout):
        inner, moved = slice_and_offset(crd, layout.inner)
        return ComposedLayout(layout.outer, layout.offset + moved, inner), 0
    if crd is None:
        return layout, 0
    crd = tupled(crd, "coordinate")
    offset: int = layout(_zeros(crd))
    free = _kept(crd, layout)
    return layout_of(tuple(part.shape for part in free), tuple(part.stride for part in free)), offset


def at_open_coordinate(layout: AnyLayout, crd: Any, refusal: ArgumentTypeError) -> Any:
    """layout(crd) for a coordinate in which lists stand for tuples, and None for modes that are kept.

    Of a coordinate with None in it the modes that are kept, as `slice_and_offset` gives them.  Raises
    `refusal` for a coordinate without lists and None.

    >>> refusal = ArgumentTypeError("")
    >>> print(at_open_coordinate(Layout((4, 8)), [None, 3], refusal))
    (4):(1)
    """
    plain = tupled(crd, "coordinate")
    if keeps_mode(plain):
        return slice_and_offset(plain, layout)[0]
    if plain is crd:
        raise refusal
    return layout(plain)


def _zeros(crd: Coordinate) -> Any:
    """The coordinate with 0 where it keeps a mode."""
    if isinstance(crd, tuple):
        return tuple(map(_zeros, crd))
    return 0 if crd is None else crd


def _kept(crd: Coordinate, layout: Layout) -> list[Layout]:
    """Every mode that the coordinate keeps."""
    if crd is None:
        return [layout]
    if not isinstance(crd, tuple) or not isinstance(layout.shape, tuple):
        return []
    return [part for i, c in enumerate(crd) for part in _kept(c, layout[i])]


def fit_coordinate(crd: Any, shape: IntTuple, what: object) -> Coordinate:
    """`crd` with plain integers and None for `:`, after checking that it lies inside `shape`.

    `what` has that shape and is named in the message.  Raises ShapeError for a coordinate outside,
    ArgumentTypeError for one of another type.

    >>> fit_coordinate((1, slice(None)), (4, (2, 8)), "the tile")
    (1, None)
    """
    if crd is None or (isinstance(crd, slice) and crd == slice(None)):
        return None
    if isinstance(crd, list):
        crd = tuple(crd)
    if isinstance(crd, slice):
        raise ArgumentTypeError(f"{crd} in a coordinate of {what}: integers, tuples, None and : are accepted")
    if isinstance(crd, tuple):
        if not isinstance(shape, tuple) or len(crd) != len(shape):
            raise ShapeError(f"coordinate {shown(crd)} of {what} does not fit the shape {to_text(shape)}")
        return tuple(fit_coordinate(c, s, what) for c, s in zip(crd, shape, strict=True))
    index = normalize(crd, "coordinate")
    if isinstance(index, tuple) or not 0 <= index < product(shape):
        raise ShapeError(f"coordinate {index} of {what} is outside of 0 to {product(shape) - 1}")
    return index


def keeps_mode(crd: Coordinate) -> bool:
    """True when the coordinate keeps a mode.

    >>> keeps_mode((1, (None, 2))), keeps_mode((1, 2))
    (True, False)
    """
    return crd is None or (isinstance(crd, tuple) and any(map(keeps_mode, crd)))
