"""Rotations: rows that are turned by their number, (m, n) -> m N + (n + step (m / rows)) mod N.

The idea.  A swizzle permutes a row by XOR, which needs powers of two; a rotation (a skewed layout) permutes
it by adding modulo its length, for any length.  It is not a new kind of layout: the sum n + step (m / rows)
is a digit below N of an index whose next digit takes the carries and is dropped, and the row is the digit
above:

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

Notes.  `rotated_layout` is the one spelling that `find_rotation` recognises; other spellings are exact too,
but have no inverse in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    flatten_tree,
    leaves,
    modes,
    normalize,
    whole_number,
)


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
