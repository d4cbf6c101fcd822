"""The normal form of a layout, chain o (offset + layout), and the one function that finds it.

The idea.  Every swizzled layout that kernels use is a chain of swizzles over an offset and one plain layout,
however it was built.  A layout A outside is moved inwards,

    A o S o (k + M)  =  S' o (A(k) + A o M)

which is exact when A neither carries nor mixes the bits that S reads and writes: A sends the bits of S's
two fields to single bits, and S' XORs those.  An offset outside a chain joins the offset inside where it is
whole periods of the chain.  Otherwise there is no normal form, and the layout stays what it is by
definition; that is exact too, only less simple.

>>> stacked = ComposedLayout(Layout((4, 4), (4, 1)), 0, ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4))))
>>> print(normal_form(stacked))
Sw<2,0,-2> o 0 o (4,4):(4,1)

Notes.  `normal_form` is for users and gives a layout; `find_normal_form` gives the parts, which every
question about swizzled layouts takes apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from layoutalg.budget import budget_of
from layoutalg.compose.digits import compose_layouts
from layoutalg.errors import DivisibilityError, ShapeError, UndecidedError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    check_layouts,
    concat,
    layout_of,
    layout_size,
    merge_open,
    span,
)

if TYPE_CHECKING:
    from layoutalg.layout import Trace

_STILL = Swizzles()
_form = tuple.__new__


class NormalForm(NamedTuple):
    """c -> swizzles(offset + layout(c)); the chain has no needless factor, and none where nothing moves."""

    swizzles: Swizzles
    offset: int
    layout: Layout

    @property
    def whole(self) -> AnyLayout:
        """The same function as a layout: a plain one where there is neither a swizzle nor an offset.

        >>> print(NormalForm(Swizzles(), 0, Layout(4)).whole, NormalForm(Swizzles(), 2, Layout(4)).whole)
        4:1 Sw<0,0,0> o 2 o 4:1
        """
        if not self.swizzles and not self.offset:
            return self.layout
        return ComposedLayout(self.swizzles, self.offset, self.layout)


def normal_form(layout: AnyLayout, *, trace: Trace | None = None) -> AnyLayout:
    """The same function as a Layout, or as swizzles over a Layout, wherever one is found; else `layout`.

    Of a layout that has neither form, layouts that follow each other outside are composed where they can be.

    >>> print(normal_form(ComposedLayout(Layout(8, 2), 1, Layout(4, 1))))
    Sw<0,0,0> o 2 o 4:2
    >>> skewed = ComposedLayout(Layout((6, 2, 4), (1, 0, 6)), 0, Layout((4, 6), (13, 1)))
    >>> print(normal_form(ComposedLayout(Layout((6, 4), (4, 1)), 0, skewed)))
    (6,2,4):(4,0,1) o 0 o (4,6):(13,1)
    """
    check_layouts("normal_form", layout)
    form = None if isinstance(layout, Layout) else find_normal_form(layout, trace=trace)
    result = _joined(layout) if form is None else form.whole
    if trace is not None:
        trace.note("normal form", layout=layout, result=result)
    return result


def _joined(layout: AnyLayout) -> AnyLayout:
    """A o B o (k + M) as (A o B) o (k + M), where A o B is a layout and k + M stays in the domain of B."""
    if not isinstance(layout, ComposedLayout) or not isinstance(layout.inner, ComposedLayout):
        return layout
    a, below = layout.outer, _joined(layout.inner)
    if not (isinstance(a, Layout) and isinstance(below, ComposedLayout) and isinstance(below.outer, Layout)):
        return layout
    if layout.offset or not isinstance(below.inner, Layout):
        return layout
    low, high = span(below.inner)
    if below.offset + low < 0 or below.offset + high >= layout_size(below.outer):
        return layout
    try:
        return ComposedLayout(compose_layouts(a, below.outer), below.offset, below.inner)
    except (DivisibilityError, UndecidedError, ShapeError):
        return layout


def find_normal_form(layout: AnyLayout, *, trace: Trace | None = None) -> NormalForm | None:
    """(swizzles, offset, inner) with layout = swizzles o (offset + inner); None where none is found.

    >>> find_normal_form(ComposedLayout(Swizzle(1, 0, 1), 4, Layout(4)))
    NormalForm(swizzles=Swizzles(Swizzle(1, 0, 1)), offset=4, layout=Layout(4, 1))
    """
    if isinstance(layout, Layout):
        return _form(NormalForm, (_STILL, 0, layout))
    outer, inner = layout.outer, layout.inner
    if isinstance(outer, Swizzle) and isinstance(inner, Layout):  # what most layouts of kernels are
        return _form(NormalForm, (layout.swizzles if outer.bits else _STILL, layout.offset, inner))
    with budget_of(lambda: f"normal_form of {layout}:"):
        return _find(layout, trace)


def need_normal_form(operation: str, layout: AnyLayout, *, trace: Trace | None = None) -> NormalForm:
    """`find_normal_form`, or the refusal of an operation that takes swizzles over one layout.

    >>> need_normal_form("max_alignment", Layout(4)).offset
    0
    """
    form = find_normal_form(layout, trace=trace)
    if form is None:
        raise UnsupportedError(f"{operation} of {layout}: swizzles over one layout are accepted")
    return form


def _find(layout: AnyLayout, trace: Trace | None = None) -> NormalForm | None:
    if isinstance(layout, Layout):
        return NormalForm(_STILL, 0, layout)
    form = _find(layout.inner, trace)
    if form is None or layout.offset % form.swizzles.period:
        return None
    swizzles, offset, inner = form.swizzles, layout.offset + form.offset, form.layout
    if isinstance(layout.outer, Layout):
        moved = _through(layout.outer, swizzles, offset, inner)
        if trace is not None and moved is not None:
            trace.note("through", a=layout.outer, swizzles=swizzles, offset=offset, inner=inner, moved=moved)
        return moved
    return NormalForm(Swizzles(layout.outer, swizzles).reduced(), offset, inner)


def _through(a: Layout, swizzles: Swizzles, offset: int, inner: Layout) -> NormalForm | None:
    """a o swizzles o (offset + inner) in normal form, or None."""
    try:
        shifted = compose_layouts(a, concat(inner, layout_of(2, offset)))
    except (DivisibilityError, UndecidedError, ShapeError):
        return None
    moved, constant = shifted[0], shifted[1].stride
    if not isinstance(constant, int) or constant < 0:
        return None
    if not swizzles:
        return NormalForm(_STILL, constant, moved)
    low, high = span(inner)
    if low < 0:
        return None
    live = (1 << (offset + high).bit_length()) - 1
    moves: list[tuple[int, int]] = []
    for y, z in swizzles.bit_pairs():
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
    return NormalForm(Swizzles.from_bit_pairs(pairs).reduced(), constant, moved)


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
