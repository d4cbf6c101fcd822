"""A layout called on the parameters of a function: the index expression that is printed.

The idea.  `layout(row, col)` on index expressions is its index code already; what is added here is

    negative strides     the digit counts from the other end, so that no number on the way is below 0, and
                         what that adds is taken off at the end: 8:-1 is (7 - i) - 7
    through              a map in front of the layout: a TV layout, a TiledCopy, or an access, whose
                         instructions are counted by (lane, fragment)

>>> from layoutalg.codegen.expr import Var
>>> expression, less = offset_of(Layout((4, 8), (8, -1)), (Var("i", 4), Var("j", 8)))
>>> print(expression, less)
i * 8 + (7 - j) 7
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Literal, TypeAlias

from layoutalg.analysis import Access
from layoutalg.arch import find_instruction
from layoutalg.atoms import TiledCopy
from layoutalg.codegen.expr import Const, Expr, Minus, as_expr, check_name, simplify
from layoutalg.compose import compose_layouts
from layoutalg.decide import cosize
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, shown
from layoutalg.layout import (
    AnyLayout,
    Layout,
    concat,
    flatten_tree,
    layout_of,
    leaves,
    modes,
    product,
    size,
    to_text,
)
from layoutalg.notation import parse

Through: TypeAlias = "Layout | TiledCopy | Access | str"
"""A map from a function's parameters to the flat index of a layout."""

Side: TypeAlias = Literal["src", "dst"]


def offset_of(layout: AnyLayout, arguments: Sequence[Expr]) -> tuple[Expr, int]:
    """(expression, less): the layout at the arguments is expression - less, of which none is below 0.

    Raises UnsupportedError where a swizzle, or a layout outside, may be given a negative number.

    >>> print(*offset_of(Layout(8, 2), (Const(3),)))
    6 0
    """
    if isinstance(layout, Layout):
        if all(d >= 0 for _, d in leaves(layout)):
            return simplify(as_expr(layout(*arguments))), 0
        return _reversed(layout, arguments)
    inner, less = offset_of(layout.inner, arguments)
    start = layout.offset - less
    if start < 0:
        inner = Minus(inner, Const(-start))
        if not inner.exact:
            raise UnsupportedError(
                f"code of {layout}: {layout.outer} may be given a number below 0, as far as intervals tell"
            )
    elif start:
        inner = inner + start
    if isinstance(layout.outer, Layout):
        return offset_of(layout.outer, (simplify(inner),))
    return simplify(as_expr(layout.outer(simplify(inner)))), 0


def _reversed(layout: Layout, arguments: Sequence[Expr]) -> tuple[Expr, int]:
    """Digits with a negative stride counted from their other end."""
    coordinates: list[Expr] = [*arguments]
    parts = [layout]
    if len(coordinates) > 1:
        parts = [*modes(layout)]
    out: Expr = Const(0)
    less = 0
    for part, value in zip(parts, coordinates, strict=True):
        extents, strides = flatten_tree(part.shape), flatten_tree(part.stride)
        for k, (s, d) in enumerate(zip(extents, strides, strict=True)):
            last = k == len(extents) - 1
            digit = simplify(value if last else value % s)
            if not last:
                value = simplify(value // s)
            if d < 0:
                top = digit.facts.hi
                digit = simplify(as_expr(top) - digit)
                less += top * -d
            if d:
                out = out + digit * abs(d)
    return simplify(out), less


def through_layout(
    through: Through, layout: AnyLayout, element: DType | str, side: Side = "src"
) -> tuple[Layout, tuple[str, str]]:
    """The map in front of a layout as a layout of two modes, and the names of its two parameters.

    Of a TiledCopy it is what `side` of it, src or dst, touches.  A text is a TV layout or, with an
    instruction, an access as `Access.of` reads it.  Raises ShapeError where it reaches past the layout or has
    not two modes, and what an access raises.

    >>> tile = Layout((8, 64), (64, 1))
    >>> print(*through_layout("ldmatrix.x4", Layout((16, 16), (16, 1)), "f16"))
    ((16,2),1):((1,128),0) ('lane', 'fragment')
    >>> print(*through_layout("(32,16):(1,32)", tile, "f16"))
    (32,16):(1,32) ('tid', 'u')
    """
    if isinstance(through, str):
        text = through.strip()
        if text[:1] in ("(", "_") or text[:1].isdigit():
            parsed = parse(text)
            if not isinstance(parsed, Layout):
                raise ShapeError(f"{parsed} is not a thread-value layout: a layout of (thread, value) is")
            through = parsed
        else:
            through = Access.of(text, layout, element)
    names = ("tid", "u")
    if isinstance(through, TiledCopy):
        through = through.tidfrg(side, Layout(layout.shape))
    elif isinstance(through, Access):
        through, names = _instructions(through)
    if not isinstance(through, Layout):
        raise ArgumentTypeError(f"through {shown(through)}: a TV layout, a TiledCopy or an access is needed")
    parts = modes(through)
    if len(parts) != 2 or not isinstance(through.shape, tuple):
        raise ShapeError(f"{through} has {len(parts)} modes; the two (thread, value) are needed")
    if any(d < 0 for _, d in leaves(through)):
        raise ShapeError(f"{through} has a negative stride; indices of a tile are not below 0")
    if cosize(through) > size(layout):
        raise ShapeError(
            f"{through} reaches index {cosize(through) - 1} of {layout}, which has {size(layout)} coordinates"
        )
    return through, names


def _instructions(access: Access) -> tuple[Layout, tuple[str, str]]:
    """(thread, instruction) -> flat index of the first element that the instruction touches there."""
    rule = find_instruction(access.op)
    width = max(1, rule.width_bytes * 8 // access.element.bits)
    thread, values, *iterations = modes(access.tv)
    count = size(values)
    if count > width and count % width:
        raise ShapeError(f"{access.op} takes {width} values of {access.element}, and {access.tv} has {count}")
    first = compose_layouts(values, Layout(count // width, width)) if count > width else layout_of(1, 0)
    rest = concat(first, *iterations) if iterations else first
    matrix = rule.name.startswith(("ldmatrix", "stmatrix"))
    return concat(thread, rest), ("lane" if matrix and size(thread) <= 32 else "tid", "fragment")


def parameter_extents(layout: AnyLayout) -> tuple[int, ...]:
    """The extents of a function's parameters: the sizes of the top-level modes.

    >>> parameter_extents(Layout(((2, 4), 8)))
    (8, 8)
    """
    shape = layout.shape
    if not isinstance(shape, tuple):
        return (shape,)
    if not shape:
        raise ShapeError(f"code of {layout}: the shape {to_text(shape)} has no mode to be a parameter")
    return tuple(map(product, shape))


_PYTHON = frozenset({*keyword.kwlist, "triton", "layout", "through", "cute", "T"})
"""Words that a name may not be in Python, and what the texts use themselves."""


def parameter_names(
    names: Sequence[str] | None, count: int, defaults: tuple[str, str] | None
) -> tuple[str, ...]:
    """The names of the parameters."""
    if names is not None:
        if isinstance(names, str) or len(names) != count or not all(isinstance(n, str) for n in names):
            raise ArgumentTypeError(f"parameters {shown(names)}: {count} names are needed")
        if len({*names}) < count:
            raise ArgumentTypeError(f"parameters {shown(names)}: two have one name")
        return tuple(names)
    if defaults is not None:
        return defaults
    return {1: ("i",), 2: ("row", "col")}.get(count) or tuple(f"c{k}" for k in range(count))


def check_word(word: str) -> None:
    """Refuse a name that a language has taken."""
    if word in _PYTHON:
        raise ArgumentTypeError(
            f"{word!r} cannot be a name in every language that is printed: it has a meaning"
        )
    if word != "tid":
        check_name(word)
