"""Layouts with symbols under swizzles: swizzles(offset + layout), with symbols in the strides and the offset.

The idea.  A leading dimension that is still open is a symbol in a stride of a Layout.
A swizzle moves bits, which symbols do not have, so that a ComposedLayout takes integers alone; here the
swizzles, the offset and the layout below are kept side by side until numbers are put in:

    Sw<3,3,3> o 0 o (8,8):(ld,1)      at ld = 64      Sw<3,3,3> o 0 o (8,8):(64,1)

Notes.  Extents are integers: how often an access happens is not open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzle,
    Swizzles,
    flatten_tree,
    substituted,
    symbolic_leaf,
    to_text,
)

Symbolic: TypeAlias = "AnyLayout | SymbolicLayout | tuple[Any, Any]"
"""A layout with symbols in its strides: a layout that holds them, or (shape, stride) as plain tuples."""


@dataclass(frozen=True, slots=True)
class SymbolicLayout:
    """swizzles(offset + inner), inner the layout shape:stride, with symbols in `stride` and `offset`.

    Raises UnsupportedError for extents that are not integers, ArgumentTypeError for strides or an offset that
    are neither integers nor sympy expressions, such as text, and what Layout raises.

    >>> from sympy import Symbol
    >>> print(SymbolicLayout((8, 8), (Symbol("ld"), 1), (Swizzle(3, 3, 3),)).at({Symbol("ld"): 64}))
    Sw<3,3,3> o 0 o (8,8):(64,1)
    """

    shape: IntTuple
    stride: Any
    swizzles: Swizzles | tuple[Swizzle, ...] = ()
    offset: Any = 0

    def __post_init__(self) -> None:
        for extent in flatten_tree(self.shape):
            if not isinstance(extent, int):
                raise UnsupportedError(
                    f"the extent {extent} of shape {to_text(self.shape)} is not an integer: symbols are "
                    f"solved for in strides, offsets and bases"
                )
        for leaf in (*flatten_tree(self.stride), self.offset):
            check_expression(leaf, "stride or offset")
        inner = self.inner
        object.__setattr__(self, "swizzles", Swizzles(*self.swizzles))
        object.__setattr__(self, "shape", inner.shape)
        object.__setattr__(self, "stride", inner.stride)
        if type(self.offset) is not int:
            object.__setattr__(self, "offset", symbolic_leaf(self.offset, "offset"))

    @property
    def inner(self) -> Layout:
        """The layout under the swizzles, which every operation of the algebra takes."""
        return Layout(self.shape, self.stride)

    def at(self, values: Mapping[Any, int]) -> AnyLayout:
        """The layout for these values of its symbols; raises UnsupportedError when some are missing."""
        inner = Layout(self.shape, substituted(self.stride, values))
        offset = substituted(self.offset, values)
        if not self.swizzles and not offset:
            return inner
        return ComposedLayout(self.swizzles or Swizzle(0, 0, 0), offset, inner)

    def __str__(self) -> str:
        if not self.swizzles and self.offset == 0:
            return str(self.inner)
        outer = " o ".join(map(str, self.swizzles or (Swizzle(0, 0, 0),)))
        return f"{outer} o {to_text(self.offset)} o {self.inner}"


def as_symbolic(layout: Symbolic) -> SymbolicLayout:
    """The layout in this form; raises UnsupportedError for an outer layout.

    >>> print(as_symbolic(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    if isinstance(layout, SymbolicLayout):
        return layout
    if isinstance(layout, Layout):
        return SymbolicLayout(layout.shape, layout.stride)
    if isinstance(layout, ComposedLayout):
        if not layout.swizzles or not isinstance(layout.inner, Layout):
            raise UnsupportedError(
                f"{layout}: symbols are solved for under swizzles, not under outer layouts"
            )
        inner = layout.inner
        return SymbolicLayout(inner.shape, inner.stride, layout.swizzles.reduced(), layout.offset)
    if isinstance(layout, tuple) and len(layout) == 2:
        return SymbolicLayout(*layout)
    raise ArgumentTypeError(f"{layout!r}: a layout or a tuple (shape, stride) is needed")


def check_expression(value: Any, what: str) -> None:
    """Refuse what is neither an integer nor a sympy expression; text above all, which sympy would run.

    >>> check_expression("ld", "stride")
    Traceback (most recent call last):
    ...
    layoutalg.errors.ArgumentTypeError: stride 'ld' is a str; an integer or a sympy expression is needed
    """
    if type(value) is int:
        return
    import sympy

    if not isinstance(value, sympy.Expr):
        raise ArgumentTypeError(
            f"{what} {value!r} is a {type(value).__name__}; an integer or a sympy expression is needed"
        )
