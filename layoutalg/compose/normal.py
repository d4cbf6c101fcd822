"""The normal form of a layout, chain o (offset + layout), and rotations, which have another form.

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

Rotations.  Rows are turned by their number, (m, n) -> m N + (n + step (m / rows)) mod N.  A swizzle permutes
a row by XOR, which needs powers of two; a rotation (a skewed layout) permutes it by adding modulo its
length, for any length.  It is not a new kind of layout: the sum n + step (m / rows) is a digit below N of an
index whose next digit takes the carries and is dropped, and the row is the digit above:

    outer  (N,carries,M):(1,0,N)        inner  (M,N):(step + N carries,1)

    (4,6):  0  1  2  3  4  5            step 1: row m starts m places further on, and what leaves on the
           11  6  7  8  9 10            right comes back on the left; columns of neighbouring rows are N + 1
           16 17 12 13 14 15            apart, as if rows were padded, in no more memory than the tile
           21 22 23 18 19 20

So composition, decisions, drawing, index code and analysis take a rotation as they take any layout over a
layout.  Its inverse is the rotation by -step.

>>> skewed = rotated_layout((4, 6), step=5)
>>> print(skewed, [skewed(1, n) for n in range(6)])
(6,4,4):(1,0,6) o 0 o (4,6):(29,1) [11, 6, 7, 8, 9, 10]

`rotated_layout` is the one spelling that `find_rotation` recognises; other spellings are exact too,
but have no inverse in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

from layoutalg.budget import budget_of
from layoutalg.compose.digits import compose_layouts
from layoutalg.errors import DivisibilityError, ShapeError, UndecidedError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzle,
    Swizzles,
    Trace,
    check_layouts,
    concat,
    flatten_tree,
    layout_of,
    layout_size,
    leaves,
    merge_open,
    modes,
    normalize,
    span,
    whole_number,
)

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
    """`find_normal_form`, or the refusal of an operation that takes a layout, or swizzles over one.

    >>> need_normal_form("max_alignment", Layout(4)).offset
    0
    """
    check_layouts(operation, layout)
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


class Rotation(NamedTuple):
    """(m, n) -> m * `columns` + (n + `step` * (m / `rows_per_step`)) mod `columns`, for m below `rows`.

    >>> Rotation(4, 6, 1, 2).layout()(3, 5)
    18
    """

    rows: int
    columns: int
    step: int
    rows_per_step: int = 1

    @property
    def carries(self) -> int:
        """Values that the carry of a turned column takes."""
        turns = self.rows // self.rows_per_step - 1
        return (self.columns - 1 + self.step * turns) // self.columns + 1

    def layout(self) -> ComposedLayout:
        """The rotation over coordinates (m, n)."""
        column, row = self._inner()
        inner = Layout((row.shape, column.shape), (row.stride, column.stride))
        outer = Layout((self.columns, self.carries, self.rows), (1, 0, self.columns))
        return ComposedLayout(outer, 0, inner)

    def inverse(self) -> ComposedLayout:
        """offset -> the flat index m + rows * n: the rotation by -step, read the other way round.

        >>> turned = Rotation(4, 6, 1)
        >>> all(turned.inverse()(turned.layout()(i)) == i for i in range(24))
        True
        """
        back = self._replace(step=-self.step % self.columns)
        column, row = back._inner()
        inner = Layout((column.shape, row.shape), (column.stride, row.stride))
        outer = Layout((self.columns, back.carries, self.rows), (self.rows, 0, 1))
        return ComposedLayout(outer, 0, inner)

    def _inner(self) -> tuple[Layout, Layout]:
        """The layouts of what a column and a row add to the index: digits (column, carry, row)."""
        above, many = self.columns * self.carries, self.rows_per_step
        column = Layout(self.columns, 1 if self.columns > 1 else 0)
        if many in (1, self.rows):
            return column, Layout(self.rows, (self.step if many < self.rows else 0) + above)
        return column, Layout((many, self.rows // many), (above, self.step + above * many))


def rotated_layout(shape: IntTuple, *, step: int = 1, rows_per_step: int = 1) -> ComposedLayout:
    """The rotation of a tile (M, N) stored by rows: every `rows_per_step` rows are turned by `step` more.

    A `step` that is a multiple of V keeps vectors of V elements whole where N is one too.  Raises ShapeError
    for a shape that is not a pair of positive integers, and for numbers that are not positive;
    DivisibilityError where `rows_per_step` does not divide M.

    >>> print(rotated_layout((8, 12), step=4, rows_per_step=2))
    (12,2,8):(1,0,12) o 0 o ((2,4),12):((24,52),1)
    """
    extents = normalize(shape, "shape")
    pair = extents if isinstance(extents, tuple) else ()
    if len(pair) != 2 or not all(isinstance(n, int) for n in pair):
        raise ShapeError(f"rotated_layout of {shape!r}: a pair of integers, rows and columns, is needed")
    rows, columns = flatten_tree(pair)
    step, rows_per_step = whole_number(step, "step"), whole_number(rows_per_step, "rows_per_step")
    if min(rows, columns, rows_per_step) < 1 or step < 0:
        raise ShapeError(
            f"rotated_layout of ({rows},{columns}) by {step} per {rows_per_step} rows: positive numbers are "
            "needed"
        )
    if rows % rows_per_step:
        raise DivisibilityError(
            f"rotated_layout of ({rows},{columns}): {rows_per_step} rows per step do not divide {rows} rows",
            lhs=rows,
            rhs=rows_per_step,
        )
    return Rotation(rows, columns, step % columns, rows_per_step).layout()


def find_rotation(layout: AnyLayout) -> Rotation | None:
    """The rotation that a layout of `rotated_layout` is; None for every other layout.

    >>> find_rotation(rotated_layout((8, 12), step=4, rows_per_step=2))
    Rotation(rows=8, columns=12, step=4, rows_per_step=2)
    >>> find_rotation(Layout((8, 12)))
    """
    if not (isinstance(layout, ComposedLayout) and isinstance(layout.outer, Layout)):
        return None
    digits = leaves(layout.outer)
    if len(digits) != 3 or not isinstance(layout.inner, Layout) or len(modes(layout.inner)) != 2:
        return None
    (columns, _), (carries, _), (rows, _) = digits
    row = leaves(modes(layout.inner)[0])
    many, above = row[0][0] if len(row) > 1 else 1, columns * carries
    step = row[-1][1] - above * many
    if not (0 <= step < columns and many and rows % many == 0):
        return None
    rotation = Rotation(rows, columns, step, many)
    return rotation if rotation.layout() == layout else None
