"""composition with every kind of operand: layouts, swizzles, composed layouts and tilers.

The idea.  Two plain layouts compose digit by digit (layoutalg.digits).  A swizzle S on the left only waits
outside: S o L is a ComposedLayout.  A swizzle on the right is moved outwards through the layout on its left,

    A o S o (k + M)  =  S' o (A(k) + A o M)

which is exact when A neither carries nor mixes the bits that S reads and writes: A sends the bits of S's
two fields to single bits, and S' XORs those.  Where A does not allow it, the result stays what it is by
definition, the ComposedLayout with the layout A outside; that is exact too, only less simple.

>>> swizzled = ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4)))
>>> print(composition(Layout((4, 4), (4, 1)), swizzled))
Sw<2,0,-2> o 0 o (4,4):(4,1)

Comparison with CuTe.  CuTe composes two swizzles only when their shifts agree; here a chain of swizzles is
a value.  `normal_form` undoes a layout outside a swizzle wherever that is possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeGuard, cast, overload

from layoutalg.budget import budget_of
from layoutalg.digits import compose_layouts
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
    shown,
)
from layoutalg.layout import Layout, concat, make_layout, modes
from layoutalg.measure import merge_open, span
from layoutalg.shapes import check_nesting
from layoutalg.swizzle import (
    AnyLayout,
    ComposedLayout,
    Outer,
    Swizzle,
    check_layouts,
    from_bit_pairs,
    reduce_swizzles,
)

Chain: TypeAlias = tuple[Swizzle, ...]
"""Swizzles one after another, the leftmost applied last."""

Tiler: TypeAlias = "Layout | ComposedLayout | int | tuple[Tiler, ...] | None"
"""What composition and the divides take on the right: a layout; an extent n for n:1; None to keep a mode;
or a tuple of tilers, one a mode."""


@overload
def composition(a: Layout, b: Layout | int | None) -> Layout: ...
@overload
def composition(a: Swizzle | Chain, b: Swizzle | Chain) -> Swizzle | Chain: ...  # type: ignore[overload-overlap]
@overload
def composition(a: AnyLayout | Swizzle | Chain, b: Tiler | Swizzle | Chain) -> AnyLayout: ...
def composition(a: AnyLayout | Swizzle | Chain, b: Tiler | Swizzle | Chain) -> AnyLayout | Swizzle | Chain:
    """R with R(c) = a(b(c)) for every coordinate c of `b`; R's shape refines `b`'s.

    `b` may be a layout, an extent n (meaning n:1), None (all of `a`), or a tuple of these, which compose
    mode by mode; as in CuTe, modes of `a` past the tuple are dropped.  A swizzle `b` acts on the flat
    index of `a`; two swizzles give one where one does, else a tuple, of which the leftmost is applied last,
    and which is accepted wherever a swizzle is.

    Raises DivisibilityError with a witness coordinate when no layout is this function, ShapeError when `b`
    has too many modes or reaches a negative index, UndecidedError when carries may cancel but there are
    too many coordinates to check.

    >>> print(composition(Layout((6, 4), (4, 1)), Layout(12, 2)))
    (3,4):(8,1)
    >>> print(composition(Layout((8, 8), (8, 1)), (4, Layout(2, 4))))
    (4,2):(8,4)
    >>> composition(Swizzle(1, 4, 3), Swizzle(2, 5, 3)), composition(Swizzle(1, 0, 1), Swizzle(1, 0, 2))
    (Swizzle(3, 4, 3), (Swizzle(1, 0, 2), Swizzle(1, 0, 1)))
    """
    if isinstance(a, Layout):
        if isinstance(b, Layout):
            return compose_layouts(a, b)
        if is_chain(b):
            b = ComposedLayout(b, 0, Layout(a.shape))
        if isinstance(b, ComposedLayout):
            return normal_form(ComposedLayout(a, 0, b))
        if b is None:
            return a
        if isinstance(b, tuple):
            return by_mode("composition", composition, a, cast("tuple[Tiler, ...]", b), keep=False)
        return compose_layouts(a, Layout(cast("int", b)))
    if isinstance(a, ComposedLayout):
        return a if b is None else _outside(a.outer, a.offset, composition(a.inner, b))
    if is_chain(a):
        if is_chain(b):
            chain = reduce_swizzles((*_chain(a), *_chain(b)))
            return chain[0] if len(chain) == 1 else chain
        if isinstance(b, (Layout, ComposedLayout, int)):
            return _outside(a, 0, Layout(b) if isinstance(b, int) else b)
    raise ArgumentTypeError(
        f"composition({shown(a)}, {shown(b)}): accepted are a layout or a swizzle on the left, and "
        f"on the right a layout, an extent, None or a tuple of these (a layout only, after a swizzle)"
    )


def is_chain(value: object) -> TypeGuard[Swizzle | Chain]:
    """True for a swizzle and for a tuple of swizzles.

    >>> is_chain(Swizzle(1, 0, 1)), is_chain((Swizzle(1, 0, 1),)), is_chain(())
    (True, True, False)
    """
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(part, Swizzle) for part in value)
    return isinstance(value, Swizzle)


def _chain(value: Swizzle | Chain) -> Chain:
    return value if isinstance(value, tuple) else (value,)


def by_mode(
    name: str,
    operation: Callable[[Layout, Tiler], AnyLayout],
    a: Layout,
    tiler: tuple[Tiler, ...],
    *,
    keep: bool,
) -> Layout:
    """`operation` on every mode of `a` with its part of `tiler`; modes past it are kept or dropped.

    >>> print(by_mode("composition", composition, Layout((8, 8, 2)), (4, 2), keep=True))
    (4,2,2):(1,8,64)
    """
    parts = fitting_modes(name, a, tiler)
    out: list[Layout] = []
    for part, t in zip(parts, tiler, strict=False):
        one = operation(part, t)
        if not isinstance(one, Layout):
            raise UnsupportedError(
                f"{name}({a}, {tiler_text(tiler)}): one mode of the result is the swizzled {one}; "
                f"swizzle the whole layout instead"
            )
        out.append(one)
    return concat(*out, *parts[len(tiler) :] if keep else ())


def fitting_modes(name: str, a: Layout, tiler: tuple[Tiler, ...]) -> tuple[Layout, ...]:
    """The modes of `a`, of which there must be at least as many as in `tiler`; else ShapeError.

    >>> len(fitting_modes("composition", Layout((8, 8)), (4,)))
    2
    """
    check_nesting(tiler, "tiler")
    parts = modes(a)
    if len(tiler) > len(parts):
        raise ShapeError(
            f"{name}({a}, {tiler_text(tiler)}): the tiler has {len(tiler)} modes, the layout {len(parts)}"
        )
    return parts


def tiler_text(tiler: Tiler) -> str:
    """CuTe notation of a tiler, `_` for a mode that is kept.

    >>> tiler_text((Layout(4, 2), None, 8))
    '(4:2,_,8)'
    """
    if isinstance(tiler, tuple):
        return f"({','.join(map(tiler_text, tiler))})"
    return "_" if tiler is None else str(tiler)


def _outside(outer: Outer, offset: int, inner: AnyLayout) -> AnyLayout:
    """outer o (offset + inner), with the swizzles of `inner` joined to those of `outer`."""
    if isinstance(outer, Layout):
        return normal_form(ComposedLayout(outer, offset, inner))
    if offset or not isinstance(inner, ComposedLayout) or not inner.swizzles:
        return ComposedLayout(outer, offset, inner)
    chain = outer if isinstance(outer, tuple) else (outer,)
    return ComposedLayout(reduce_swizzles(chain + inner.swizzles), inner.offset, inner.inner)


def normal_form(layout: AnyLayout) -> AnyLayout:
    """The same function as a Layout, or as swizzles over a Layout, wherever one is found; else `layout`.

    >>> print(normal_form(ComposedLayout(Layout(8, 2), 1, Layout(4, 1))))
    Sw<0,0,0> o 2 o 4:2
    """
    check_layouts("normal_form", layout)
    if isinstance(layout, Layout):
        return layout
    with budget_of(lambda: f"normal_form of {layout}:"):
        return _normal_form(layout)


def _normal_form(layout: AnyLayout) -> AnyLayout:
    if isinstance(layout, Layout):
        return layout
    inner = _normal_form(layout.inner)
    if isinstance(inner, Layout):
        swizzles: tuple[Swizzle, ...] = ()
        offset = layout.offset
    elif isinstance(inner.inner, Layout) and inner.swizzles:
        swizzles = reduce_swizzles(inner.swizzles)
        offset, inner = inner.offset, inner.inner
        if layout.offset % max(s.period for s in swizzles):
            return layout
        offset += layout.offset
    else:
        return layout
    if isinstance(layout.outer, Layout):
        moved = _through(layout.outer, swizzles, offset, inner)
        if moved is None:
            return layout
        swizzles, offset, inner = moved
    else:
        swizzles = reduce_swizzles(layout.swizzles + swizzles)
    swizzles = tuple(s for s in swizzles if s.bits)
    if not swizzles and not offset:
        return inner
    return ComposedLayout(swizzles or Swizzle(0, 0, 0), offset, inner)


def _through(
    a: Layout, swizzles: tuple[Swizzle, ...], offset: int, inner: Layout
) -> tuple[tuple[Swizzle, ...], int, Layout] | None:
    """(S', k', M') with a o S o (k + M) = S' o (k' + M'), or None."""
    try:
        shifted = compose_layouts(a, concat(inner, make_layout(2, offset)))
    except (DivisibilityError, UndecidedError, ShapeError):
        return None
    moved, constant = shifted[0], shifted[1].stride
    if not isinstance(constant, int) or constant < 0:
        return None
    if not any(s.bits for s in swizzles):
        return (), constant, moved
    low, high = span(inner)
    if low < 0:
        return None
    live = (1 << (offset + high).bit_length()) - 1
    moves: list[tuple[int, int]] = []
    for swizzle in reversed(swizzles):
        for y, z in swizzle.bit_pairs():
            if live >> y & 1:
                moves.append((y, z))
                live |= 1 << z
    columns = _bit_images(a, live.bit_length())
    if columns is None:
        return None
    pairs: list[tuple[int, int]] = []
    for y, z in moves:
        source, to = columns[y], columns[z]
        if to:
            if to & (to - 1) or source & (source - 1) or not source:
                return None
            pairs.append((source.bit_length() - 1, to.bit_length() - 1))
    return from_bit_pairs(pairs), constant, moved


def _bit_images(a: Layout, bits: int) -> tuple[int, ...] | None:
    """A(1), A(2), A(4), ... when A only moves bits: A(x ^ y) = A(x) ^ A(y) below 2^bits; else None."""
    radix, weights = merge_open(a)
    out: list[int] = []
    seen = 0
    for n, weight in zip([*radix, 1 << bits], weights, strict=True):
        if type(n) is not int or type(weight) is not int:
            return None
        if (n & (n - 1) and len(out) < bits) or weight < 0:
            return None
        for j in range(min(n.bit_length() - 1, bits - len(out))):
            column = weight << j
            if column & seen:
                return None
            seen |= column
            out.append(column)
    return tuple(out)
