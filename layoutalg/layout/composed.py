"""ComposedLayout, the one spelling of a swizzled layout; and what an operation on plain layouts is of one.

The idea.  `ComposedLayout(outer, offset, inner)` is the function `c -> outer(offset + inner(c))`.  An
operation that only regroups, cuts or repeats modes does so inside of it: outer functions and offsets stay.
What it refuses is named by the call.

>>> tile = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
>>> print(tile, tile(1, 0))
Sw<3,4,3> o 0 o (8,64):(64,1) 64
>>> @operation
... def reverse(layout: Layout) -> Layout:
...     return Layout(layout.shape[::-1], layout.stride[::-1])
>>> print(reverse(ComposedLayout(Layout(64), 3, Layout((2, 8)))))
64:1 o 3 o (8,2):(2,1)

An explanation that is computed beside an operation can drift from it.  So the operations of the algebra take
an optional `trace` and note what they find where they find it; layoutalg.explanation says these facts in
words.  Without a trace nothing is noted, and an operation pays one comparison for each place.

>>> trace = Trace()
>>> trace.note("digit", extent=4, stride=8)
>>> trace.records
[('digit', {'extent': 4, 'stride': 8})]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    ShapeError,
    UnsupportedError,
    check_type,
    named,
    shown,
)
from layoutalg.layout.int_tuple import IntTuple, has_arrays, inner_product, normalize, on_arrays
from layoutalg.layout.layout import Layout, has_bases, integer_leaves
from layoutalg.layout.swizzle import Swizzle, Swizzles, as_chain
from layoutalg.layout.value import Coded, Coordinate, Value


def _check_image(outer: Outer, inner: AnyLayout) -> None:
    """Refuse coordinates inside a composed layout, and symbols under swizzles, which move bits of numbers."""
    part = inner
    while isinstance(part, ComposedLayout) and not isinstance(part.outer, Layout):
        part = part.inner
    image = part if isinstance(part, Layout) else part.outer
    if not isinstance(outer, Layout):
        check_integers("ComposedLayout under a swizzle", inner)
    elif isinstance(image, Layout) and has_bases(image):
        raise UnsupportedError(f"ComposedLayout({outer}, {inner}): coordinates are not indices of {outer}")


def innermost(layout: AnyLayout) -> Layout:
    """The plain layout inside all swizzles and outer layouts, whose modes are the whole's.

    >>> print(innermost(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((4, 8)))))
    (4,8):(1,4)
    """
    while isinstance(layout, ComposedLayout):
        layout = layout.inner
    return layout


@overload
def map_innermost(layout: Layout, change: Callable[[Layout], Layout]) -> Layout: ...
@overload
def map_innermost(layout: AnyLayout, change: Callable[[Layout], Layout]) -> AnyLayout: ...
def map_innermost(layout: AnyLayout, change: Callable[[Layout], Layout]) -> AnyLayout:
    """`change` applied to the plain layout at the bottom of a composed one; outer functions and offsets stay.

    >>> print(map_innermost(ComposedLayout(Swizzle(1, 0, 2), 0, Layout(8)), lambda plain: Layout(4)))
    Sw<1,0,2> o 0 o 4:1
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, map_innermost(layout.inner, change))
    return change(layout)


def check_integers(operation: str, layout: AnyLayout) -> None:
    """Refuse symbols and strides along modes, by the name of the operation that takes integers alone.

    >>> check_integers("is_bijective", Layout((4, 8)))
    """
    check_layouts(operation, layout)
    while isinstance(layout, ComposedLayout):
        if isinstance(layout.outer, Layout):
            integer_leaves(operation, layout.outer)
        layout = layout.inner
    integer_leaves(operation, layout)


Outer: TypeAlias = "Swizzle | Swizzles | Layout"
"""The outer function of a composed layout, on the left."""


class ComposedLayout(Coded, Value):
    """c -> outer(offset + inner(c)): the normal form of a swizzled layout.

    `outer` is a Swizzle, a chain of them (Swizzles, or a tuple that becomes one; a chain of one factor
    becomes that Swizzle) or a Layout.
    `offset` is in the units of the inner layout's image.  Raises ArgumentTypeError for other parts.

    >>> ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2)))(3)
    2
    """

    __slots__ = ("inner", "offset", "outer")
    __match_args__ = ("outer", "offset", "inner")

    outer: Outer
    offset: int
    inner: AnyLayout

    def __init__(self, outer: Outer | tuple[Swizzle, ...], offset: int, inner: AnyLayout) -> None:
        outer = as_chain(outer)
        if isinstance(outer, Swizzles):
            outer = outer.simplest()
        elif not isinstance(outer, (Swizzle, Layout)):
            raise ArgumentTypeError(f"outer {shown(outer)} is not a Swizzle, a tuple of Swizzles or a Layout")
        if not isinstance(inner, (Layout, ComposedLayout)):
            raise ArgumentTypeError(f"inner {shown(inner)} is not a Layout or a ComposedLayout")
        _check_image(outer, inner)
        value = normalize(offset, "offset")
        if isinstance(value, tuple) or value < 0:
            raise ShapeError(f"offset {offset!r} of a composed layout must be a non-negative integer")
        object.__setattr__(self, "outer", outer)
        object.__setattr__(self, "offset", value)
        object.__setattr__(self, "inner", inner)

    @property
    def shape(self) -> IntTuple:
        """The shape of the domain, which is the inner layout's."""
        return self.inner.shape

    @property
    def swizzles(self) -> Swizzles:
        """The outer swizzles as a chain, empty when the outer function is a Layout."""
        if isinstance(self.outer, Swizzles):
            return self.outer
        return Swizzles() if isinstance(self.outer, Layout) else Swizzles(self.outer)

    def __call__(self, *crd: Any) -> Any:
        """Offset of a coordinate, or the layout that a coordinate with None in it keeps, as for Layout."""
        point = crd[0] if len(crd) == 1 else crd
        try:
            if type(point) is not int and has_arrays(point):
                return on_arrays(self._offset, point, self.most_offset)
            return self._offset(point)
        except ArgumentTypeError as error:
            return self.at_open(point, error)

    def sliced(self, crd: Coordinate) -> tuple[ComposedLayout, int]:
        """(rest, offset), as `slice_and_offset`."""
        inner, moved = self.inner.sliced(crd)
        return ComposedLayout(self.outer, self.offset + moved, inner), 0

    def most_offset(self, most: int) -> int:
        """A bound on every number on the way to the offset of a coordinate of integers up to `most`."""
        most = self.inner.most_offset(most) + self.offset
        if isinstance(self.outer, Layout):
            return max(most, self.outer.most_offset(most))
        return (1 << max(most, self.outer.period - 1).bit_length()) - 1

    def _offset(self, crd: Any, most: Any = None) -> Any:
        """The offset of a coordinate; `most` is the tree of its largest integers where it has arrays."""
        inner = self.inner
        if not isinstance(inner, Layout):
            value = inner._offset(crd, most)
        elif most is None:
            value = inner_product(crd, inner.shape, inner.stride)
        else:
            value = inner.of_arrays(crd, most)
        if self.offset:
            value = value + self.offset
        outer = self.outer
        if isinstance(outer, Layout):
            return outer(value)
        bounded = type(value) is int or (type(value).__module__ == "numpy" and value.dtype.kind == "i")
        return outer._moved(value) if bounded else outer(value)

    def __str__(self) -> str:
        return f"{self.outer} o {self.offset} o {self.inner}"


AnyLayout: TypeAlias = "Layout | ComposedLayout"


def check_layouts(operation: str, *layouts: object) -> None:
    """Refuse what is not a layout, by the name of the operation that takes layouts alone.

    >>> check_layouts("coalesce", Layout((4, 8)))
    """
    for layout in layouts:
        check_type(operation, layout, Coded, "a layout")


class Trace:
    """The notes of an operation, in the order in which they were made: (kind, facts by name)."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def note(self, kind: str, **facts: Any) -> None:
        """Add one note; `kind` is a key of the words that layoutalg.explanation.words has for it."""
        self.records.append((kind, facts))


L = TypeVar("L", bound=AnyLayout)
P = ParamSpec("P")


class Operation(Protocol[P]):
    """An operation that makes of a Layout a Layout, and of a ComposedLayout a ComposedLayout."""

    __name__: str

    def __call__(self, layout: L, *operands: P.args, **options: P.kwargs) -> L: ...


def operation(plain: Callable[Concatenate[Layout, P], Layout]) -> Operation[P]:
    """The public operation of one on plain layouts: refusals are named by the call, swizzles stay outside.

    A `trace` notes what stays outside.  Raises ArgumentTypeError for what is not a layout.

    >>> @operation
    ... def doubled(layout: Layout) -> Layout:
    ...     return Layout((layout.shape, 2))
    >>> print(doubled(Layout(8)))
    (8,2):(1,8)
    """
    name = plain.__name__

    @functools.wraps(plain)
    def run(layout: Any, *operands: Any, **options: Any) -> Any:
        try:
            if isinstance(layout, Layout):
                return plain(layout, *operands, **options)
            check_layouts(name, layout)
            inner = run(layout.inner, *operands, **options)
        except LayoutAlgError as error:
            named(name, error, layout, *operands, *(v for k, v in options.items() if k != "trace"))
        result = ComposedLayout(layout.outer, layout.offset, inner)
        trace = options.get("trace")
        if trace is not None:
            trace.note("inside", operation=run, layout=layout, result=result)
        return result

    return run
