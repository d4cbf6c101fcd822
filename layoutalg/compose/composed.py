"""composition with every kind of operand: layouts, swizzles, composed layouts and tilers.

The idea.  Two plain layouts compose digit by digit (see `digits`).  A swizzle S on the left only waits
outside: S o L is a ComposedLayout.  A swizzle on the right is moved outwards through the layout on its left
where that is possible (layoutalg.compose.normal).

>>> swizzled = ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4)))
>>> print(composition(Layout((4, 4), (4, 1)), swizzled))
Sw<2,0,-2> o 0 o (4,4):(4,1)

Comparison with CuTe.  CuTe composes two swizzles only when their shifts agree; here a chain of swizzles is
a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast, overload

from layoutalg.compose.digits import compose_layouts
from layoutalg.compose.normal import normal_form
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError, UnsupportedError, named, shown
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Outer,
    Swizzle,
    Swizzles,
    Trace,
    as_chain,
    check_nesting,
    concat,
    modes,
)

Chain: TypeAlias = "Swizzles | tuple[Swizzle, ...]"
"""Swizzles one after another, the leftmost applied last; a tuple is taken for the chain it spells."""

Tiler: TypeAlias = "Layout | ComposedLayout | int | tuple[Tiler, ...] | None"
"""The right operand of composition and the divides: a layout; an extent n for n:1; None to keep a mode;
or a tuple of tilers, one per mode."""


@overload
def composition(a: Layout, b: Layout | int | None) -> Layout: ...
@overload
def composition(a: Swizzle | Chain, b: Swizzle | Chain) -> Swizzle | Swizzles: ...  # type: ignore[overload-overlap]
@overload
def composition(a: AnyLayout | Swizzle | Chain, b: Tiler | Swizzle | Chain) -> AnyLayout: ...
def composition(
    a: AnyLayout | Swizzle | Chain, b: Tiler | Swizzle | Chain, *, trace: Trace | None = None
) -> AnyLayout | Swizzle | Swizzles:
    """R with R(c) = a(b(c)) for every coordinate c of `b`; R's shape refines `b`'s.

    `b` may be a layout, an extent n (meaning n:1), None (all of `a`), or a tuple of these, which compose
    mode by mode; as in CuTe, modes of `a` past the tuple are dropped.  A swizzle `b` acts on the flat
    index of `a`; two swizzles give one where one does, else the chain of both, Swizzles, which is accepted
    wherever a swizzle is.

    Raises DivisibilityError with a witness coordinate when no layout is this function, ShapeError when `b`
    has too many modes or reaches a negative index, UndecidedError when carries may cancel but there are
    too many coordinates to check.

    >>> print(composition(Layout((6, 4), (4, 1)), Layout(12, 2)))
    (3,4):(8,1)
    >>> print(composition(Layout((8, 8), (8, 1)), (4, Layout(2, 4))))
    (4,2):(8,4)
    >>> composition(Swizzle(1, 4, 3), Swizzle(2, 5, 3)), composition(Swizzle(1, 0, 1), Swizzle(1, 0, 2))
    (Swizzle(3, 4, 3), Swizzles(Swizzle(1, 0, 2), Swizzle(1, 0, 1)))
    """
    if isinstance(a, Layout) and isinstance(b, Layout):
        return compose_layouts(a, b, trace)
    a, b = as_chain(a), as_chain(tuple(b) if isinstance(b, list) else b)
    if isinstance(a, Layout):
        if isinstance(b, (Swizzle, Swizzles)):
            b = ComposedLayout(b, 0, Layout(a.shape))
        if isinstance(b, ComposedLayout):
            return normal_form(ComposedLayout(a, 0, b), trace=trace)
        if b is None:
            return a
        if isinstance(b, tuple):
            parts = cast("tuple[Tiler, ...]", b)
            return by_mode("composition", composition, a, parts, keep=False, trace=trace)
        return compose_layouts(a, _as_layout(a, b), trace)
    if isinstance(a, ComposedLayout):
        if b is None:
            return a
        inner = cast("Any", composition)(a.inner, b, trace=trace)
        return _outside(a.outer, a.offset, inner, trace)
    if isinstance(a, (Swizzle, Swizzles)):
        if isinstance(b, (Swizzle, Swizzles)):
            chain = Swizzles(a, b).reduced().simplest()
            if trace is not None:
                trace.note("joined", a=a, b=b, chain=chain)
            return chain
        if isinstance(b, (Layout, ComposedLayout, int)):
            return _outside(a, 0, _as_layout(a, b) if isinstance(b, int) else b, trace)
    raise ArgumentTypeError(
        f"composition({shown(a)}, {shown(b)}): accepted are a layout or a swizzle on the left, and "
        f"on the right a layout, an extent, None or a tuple of these (a layout only, after a swizzle)"
    )


def _as_layout(a: object, extent: object) -> Layout:
    """n:1 for an extent n on the right of `a`."""
    try:
        return Layout(cast("int", extent))
    except LayoutAlgError as error:
        named("composition", error, a, extent)


def by_mode(
    name: str,
    operation: Callable[..., AnyLayout],
    a: Layout,
    tiler: tuple[Tiler, ...],
    *,
    keep: bool,
    trace: Trace | None = None,
) -> Layout:
    """`operation` on every mode of `a` with its part of `tiler`; modes past it are kept or dropped.

    >>> print(by_mode("composition", composition, Layout((8, 8, 2)), (4, 2), keep=True))
    (4,2,2):(1,8,64)
    """
    parts = fitting_modes(name, a, tiler)
    out: list[Layout] = []
    for i, (part, t) in enumerate(zip(parts, tiler, strict=False)):
        if trace is not None:
            trace.note("by mode", name=name, a=a, i=i, part=part, tiler=t)
        mapped = operation(part, t, trace=trace)
        if not isinstance(mapped, Layout):
            raise UnsupportedError(
                f"{name}({a}, {tiler_text(tiler)}): one mode of the result is the swizzled {mapped}; "
                f"swizzle the whole layout instead"
            )
        out.append(mapped)
    out += parts[len(tiler) :] if keep else ()
    result = concat(*out)
    if trace is not None:
        trace.note("together", parts=out, result=result)
    return result


def fitting_modes(name: str, a: Layout, tiler: tuple[Tiler, ...]) -> tuple[Layout, ...]:
    """The modes of `a`, at least as many as in `tiler`; raises ShapeError for fewer.

    >>> len(fitting_modes("composition", Layout((8, 8)), (4,)))
    2
    """
    check_nesting(tiler, f"{name}: the tiler")
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
    if isinstance(tiler, (tuple, list)):
        return f"({','.join(map(tiler_text, tiler))})"
    return "_" if tiler is None else str(tiler)


def _outside(outer: Outer, offset: int, inner: AnyLayout, trace: Trace | None = None) -> AnyLayout:
    """outer o (offset + inner), with the swizzles of `inner` joined to those of `outer`."""
    if isinstance(outer, Layout):
        return normal_form(ComposedLayout(outer, offset, inner), trace=trace)
    result = ComposedLayout(outer, offset, inner)
    if not offset and isinstance(inner, ComposedLayout) and not isinstance(inner.outer, Layout):
        result = ComposedLayout(Swizzles(outer, inner.outer).reduced(), inner.offset, inner.inner)
    if trace is not None:
        trace.note("outside", outer=outer, offset=offset, inner=inner, result=result)
    return result
