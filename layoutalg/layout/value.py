"""The bases of the core's types: Value, and Coded, which maps coordinates to offsets and has slices.

A value is immutable, is compared and hashed by its parts, prints as a call of its constructor, and is copied,
pickled and matched by the arguments of that call.  A class names its parts in `__match_args__` and sets them
in `__init__` by `object.__setattr__`; it overrides what differs (a Tensor is equal to the same view alone).

Written out because importing `dataclasses` takes longer than importing all of this library's core.

Slices.  None in a coordinate keeps a mode, a number fixes it.  What is kept is a layout again, and what is
fixed is an offset:

    (8,(2,4)):(1,(8,16)) at (None, (1, None))    =    (8,4):(1,16), shifted by 8 elements

>>> from layoutalg.layout import Layout
>>> rest, offset = slice_and_offset((None, (1, None)), Layout((8, (2, 4)), (1, (8, 16))))
>>> print(rest, offset)
(8,4):(1,16) 8

A layout that is called with such a coordinate is sliced, as in CuTe: L(None, 3) is `rest`, and a plain
layout forgets the offset.

>>> print(Layout((8, (2, 4)), (1, (8, 16)))(None, (1, None)), Layout((4, 8))(None, 3))
(8,4):(1,16) (4):(1)

In a swizzled layout the offset stays below the swizzle, Sw o (k + offset) o rest, since a swizzle moves an
element by its position in the whole layout.

Source: CUTLASS, include/cute/layout.hpp and layout_composed.hpp, slice_and_offset.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from layoutalg.errors import ArgumentTypeError, ShapeError, check_type, names_refusals, shown
from layoutalg.layout.int_tuple import IntTuple, normalize, product, to_text, tupled
from layoutalg.notebook import Shown

if TYPE_CHECKING:
    from layoutalg.layout.composed import AnyLayout


class Value(Shown):
    """Base of the immutable types of the core; `__match_args__` names the parts, in the constructor's order.

    >>> class Pair(Value):
    ...     __slots__ = __match_args__ = ("left", "right")
    ...     def __init__(self, left, right):
    ...         object.__setattr__(self, "left", left)
    ...         object.__setattr__(self, "right", right)
    >>> Pair(1, 2), Pair(1, 2) == Pair(1, 2), Pair(1, 2) == (1, 2)
    (Pair(1, 2), True, False)
    """

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    _key: ClassVar[attrgetter[Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._key = attrgetter(*cls.__match_args__)  # of one part that part, of more the tuple of them

    def _arguments(self) -> tuple[Any, ...]:
        """The arguments with which the constructor builds this value."""
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._key(self) == self._key(other))

    def __hash__(self) -> int:
        return hash(self._key(self))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a {type(self).__name__} is immutable; build a new one instead of setting {name!r}"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} stays")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (type(self), self._arguments())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"


Coordinate: TypeAlias = "int | tuple[Coordinate, ...] | None"
"""A coordinate at any depth of a shape; None keeps the mode."""


class Coded:
    """Base of what maps coordinates to offsets: it has slices, and index code."""

    __slots__ = ()

    def sliced(self, crd: Coordinate) -> tuple[Any, int]:
        """`slice_and_offset` of this, at a coordinate without lists."""
        raise NotImplementedError

    def at_open(self, crd: Any, refusal: ArgumentTypeError) -> Any:
        """The value at a coordinate in which lists stand for tuples, and None for modes that are kept.

        Of a coordinate with None in it the modes that are kept, as `slice_and_offset` gives them.  Raises
        `refusal` for a coordinate without lists and None.
        """
        plain = tupled(crd, "coordinate")
        if keeps_mode(plain):
            return self.sliced(plain)[0]
        if plain is crd:
            raise refusal
        return self(plain)  # type: ignore[operator]

    def code(self, to: str = "c", name: str = "f", **options: Any) -> str:
        """The index function as text, proved: `layoutalg.code(self, to, name, ...)`, which says more.

        Printing code is above the layouts, so it is imported here by name, when it is used.

        >>> from layoutalg.layout import Layout
        >>> print(Layout((4, 8), (9, 1)).code("python").splitlines()[-1].strip())
        return row * 9 + col
        """
        text: str = importlib.import_module("layoutalg.indexing").code(self, to, name, **options)
        return text


@names_refusals
def slice_and_offset(crd: Coordinate, layout: AnyLayout) -> tuple[AnyLayout, int]:
    """(rest, offset) with layout(c) = offset + rest(r), where r is what `crd` leaves open of c.

    None in `crd` keeps a mode.  Kept modes of a nested coordinate move up into the tuple around it, as in
    CuTe.  For a composed layout the offset joins the one below the outer function, and 0 is returned.
    Raises ShapeError when the coordinate does not fit.

    Source: CUTLASS, include/cute/layout.hpp and layout_composed.hpp, slice_and_offset.

    >>> from layoutalg.layout import Layout
    >>> rest, offset = slice_and_offset((2, (None, 1)), Layout((4, (2, 8)), (16, (8, 1))))
    >>> print(rest, offset)
    (2):(8) 33
    """
    check_type("slice_and_offset", layout, Coded, "a layout")
    return layout.sliced(tupled(crd, "coordinate"))


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
