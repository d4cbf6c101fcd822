"""Layouts with symbols in their strides and offset: swizzles(offset + shape:stride), on trees of expressions.

The idea.  A leading dimension that is still open is a stride that is no number.  Everything else of the
layout is known, and with a number for the symbol it is an ordinary layout:

    Sw<3,3,3> o 0 o (8,8):(ld,1)      at ld = 64      Sw<3,3,3> o 0 o (8,8):(64,1)

Notes.  Extents are numbers: how often an access happens is no question of costs.  A Layout holds symbols in
its strides itself; the form here also has them in the offset that a swizzle sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.int_tuple import IntTuple, to_text
from layoutalg.layout import Layout
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle

Symbolic: TypeAlias = "AnyLayout | SymbolicLayout | tuple[Any, Any]"
"""A layout with symbols in its strides: a layout that holds them, or (shape, stride) as plain tuples."""


@dataclass(frozen=True, slots=True)
class SymbolicLayout:
    """swizzles(offset + shape:stride), with sympy expressions in `stride` and `offset`.

    Raises ArgumentTypeError for what is neither an integer nor a sympy expression, such as text.

    >>> from sympy import Symbol
    >>> print(SymbolicLayout((8, 8), (Symbol("ld"), 1), (Swizzle(3, 3, 3),)).at({Symbol("ld"): 64}))
    Sw<3,3,3> o 0 o (8,8):(64,1)
    """

    shape: IntTuple
    stride: Any
    swizzles: tuple[Swizzle, ...] = ()
    offset: Any = 0

    def __post_init__(self) -> None:
        for leaf in (*tree_leaves(self.stride), self.offset):
            check_expression(leaf, "stride or offset")

    def at(self, values: Mapping[Any, int]) -> AnyLayout:
        """The layout for these values of its symbols; raises UnsupportedError when some are missing."""
        inner = Layout(self.shape, substituted(self.stride, values))
        offset = substituted(self.offset, values)
        if not self.swizzles and not offset:
            return inner
        return ComposedLayout(self.swizzles or Swizzle(0, 0, 0), offset, inner)

    def __str__(self) -> str:
        inner = f"{to_text(self.shape)}:{to_text(self.stride)}"
        if not self.swizzles and self.offset == 0:
            return inner
        outer = " o ".join(map(str, self.swizzles or (Swizzle(0, 0, 0),)))
        return f"{outer} o {to_text(self.offset)} o {inner}"


def as_symbolic(layout: Symbolic) -> SymbolicLayout:
    """The layout in the form that this module works on; raises UnsupportedError for an outer layout.

    >>> print(as_symbolic(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    if isinstance(layout, SymbolicLayout):
        return layout
    if isinstance(layout, Layout):
        _check_extents(layout.shape)
        return SymbolicLayout(layout.shape, layout.stride)
    if isinstance(layout, ComposedLayout):
        if not layout.swizzles or not isinstance(layout.inner, Layout):
            raise UnsupportedError(
                f"{layout}: symbols are solved for under swizzles, not under outer layouts"
            )
        swizzles = tuple(s for s in layout.swizzles if s.bits)
        return SymbolicLayout(layout.inner.shape, layout.inner.stride, swizzles, layout.offset)
    if isinstance(layout, tuple) and len(layout) == 2:
        _check_extents(layout[0])
        return SymbolicLayout(layout[0], layout[1])
    raise ArgumentTypeError(f"{layout!r}: a layout or a tuple (shape, stride) is needed")


def _check_extents(shape: Any) -> None:
    for extent in tree_leaves(shape):
        if not isinstance(extent, int):
            raise UnsupportedError(
                f"the extent {extent} of shape {to_text(shape)} is no integer: symbols are solved for in "
                f"strides, offsets and bases"
            )


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


def substituted(value: Any, values: Mapping[Any, int]) -> Any:
    """Every leaf as an integer; raises UnsupportedError for what the values do not decide.

    Raises ArgumentTypeError for values that are no integers, of keys that are no symbols.

    >>> from sympy import Symbol
    >>> substituted((Symbol("ld") + 8, 1), {Symbol("ld"): 64})
    (72, 1)
    """
    import sympy

    if isinstance(value, tuple):
        return tuple(substituted(v, values) for v in value)
    if isinstance(value, int):
        return value
    for symbol, number in values.items():
        if not isinstance(symbol, sympy.Symbol) or type(number) is not int:
            raise ArgumentTypeError(f"{symbol!r}: {number!r}; an integer for each sympy Symbol is needed")
    found = value.subs(values)
    if not found.is_Integer:
        raise UnsupportedError(f"{value} is {found} for {dict(values)}; an integer is needed")
    return int(found)


def free_symbols(leaf: Any) -> set[Any]:
    """The symbols in an expression; none in a number.

    >>> from sympy import Symbol
    >>> free_symbols(2 * Symbol("ld") + 8)
    {ld}
    """
    return set(leaf.free_symbols) if type(leaf) is not int else set()


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a tree of tuples, left to right.

    >>> tree_leaves(((1, 2), 3))
    [1, 2, 3]
    """
    return [leaf for part in tree for leaf in tree_leaves(part)] if type(tree) is tuple else [tree]


def map_tree(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with every leaf changed.

    >>> map_tree(((1, 2), 3), lambda leaf: 2 * leaf)
    ((2, 4), 6)
    """
    return tuple(map_tree(part, change) for part in tree) if type(tree) is tuple else change(tree)


def pair_trees(one: Any, other: Any, change: Callable[[Any, Any], Any]) -> Any:
    """The tree of what `change` makes of the leaves of two trees of one form.

    >>> pair_trees((1, (2, 3)), (4, (5, 6)), lambda a, b: a * b)
    (4, (10, 18))
    """
    if type(one) is tuple:
        return tuple(pair_trees(a, b, change) for a, b in zip(one, other, strict=True))
    return change(one, other)
