"""A form as a stream: low modes that are dense are the columns of one row of memory, reduced or not.

The idea.  Columns of a row-major matrix are read best in vectors along whole lines, by threads that keep
their columns from row to row.  That needs a row of memory to be whole vectors, and takes what is reduced
along it for columns as well: statistics are made of columns of memory, and those of a group joined after.

    layer norm (557855,117) over 0         64 rows of memory are one of the stream: 7488 columns, 8716 rows,
                                           and 31 rows that are left; 64 columns are a group
    rms norm (9873,2369,3) over (0,2)      the same: 454848 columns, 154 rows, 17 left; 192 are a group
    rms norm (392,5,4,297,28) over (0,2,3) 166320 columns, 392 rows; 1188 columns are a group

`fold` rows of memory are one of the stream: as many as make it whole vectors, and rather whole lines.

    columns    what two kernels walk: columns are kept, rows reduced
    joined     partial statistics, one for each split and column: those of a group are joined by a third one
    left       rows that do not fill a row of the stream, element by element

Notes.  Coordinates of the kept modes are the same in `joined` and `left`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from layoutalg.kernels.rowwise.problems import Form, Mode
from layoutalg.kernels.rowwise.walk import row_ends


@dataclass(frozen=True)
class Stream:
    """A form whose first `inside` modes are one dense row, of which `fold` are a row of the stream.

    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> found = stream_of(normalise(axes_problem((99, 5, 3), (0, 2), "f32", keeps=True)), 60)
    >>> print(found.columns, "|", found.joined(2), "|", found.left)
    K 60:1->1, R 24:60->60 | R 3:1->1, K 5:3->3, R 4:15->15, R 2:60 | R 3:1->1, K 5:3->3, R 3:15->15
    """

    form: Form
    inside: int
    fold: int

    @property
    def row(self) -> int:
        """Elements of a row of memory."""
        return prod(m.extent for m in self.form.modes[: self.inside])

    @property
    def rows(self) -> Mode:
        """The mode of the rows of memory."""
        return self.form.modes[self.inside]

    @property
    def beyond(self) -> tuple[Mode, ...]:
        """The modes behind that of the rows."""
        return self.form.modes[self.inside + 1 :]

    @cached_property
    def kept(self) -> int:
        """Rows and columns side by side: what is kept beyond."""
        return prod(m.extent for m in self.beyond if not m.reduced)

    @property
    def width(self) -> int:
        """Columns of the stream."""
        return self.row * self.fold

    @property
    def places(self) -> int:
        """Columns of the stream, and those beside it."""
        return self.width * self.kept

    @cached_property
    def columns(self) -> Form:
        """The columns, which are kept, and whole rows of the stream, which are reduced."""
        m, fold = self.rows, self.fold
        rows = Mode(m.extent // fold, m.src * fold, m.dst * fold, True, m.weight * fold)
        lead = Mode(self.width, 1, 1, False)
        return Form((lead, rows, *self.beyond), self.form.src_offset, self.form.dst_offset)

    def joined(self, splits: int) -> Form:
        """Partial statistics: those of so many splits, and of all columns of a group, are reduced.

        The destination has what is joined for every column.
        """
        modes, step = [], 1
        inside = self.form.modes[: self.inside]
        fold = (Mode(self.fold, 1, 1, True),) if self.fold > 1 else ()
        for m in (*inside, *fold, *(m for m in self.beyond if not m.reduced)):
            modes.append(Mode(m.extent, step, step, m.reduced))
            step *= m.extent
        more = (Mode(splits, step, 0, True),) if splits > 1 else ()
        return Form((*modes, *more), 0, 0)

    @cached_property
    def left(self) -> Form | None:
        """The rows of memory that are left, if there are any."""
        m = self.rows
        count = m.extent % self.fold
        if not count:
            return None
        first = m.extent - count
        modes = (*self.form.modes[: self.inside], Mode(count, m.src, m.dst, True), *self.beyond)
        offsets = self.form.src_offset + first * m.src, self.form.dst_offset + first * m.dst
        return Form(modes, *offsets)

    def has_vectors(self, vec: int) -> bool:
        """True where columns are whole vectors of so many elements in every row, on both sides."""
        return not any(v % vec for v in row_ends(self.columns))


def stream_of(form: Form, width: int) -> Stream | None:
    """The stream of a form with rows of so many columns; None where there is none."""
    for inside, row in rows_of(form):
        if width % row == 0 and (found := with_fold(form, inside, width // row)) is not None:
            return found
    return None


def rows_of(form: Form) -> list[tuple[int, int]]:
    """The dense rows of a form, of kept modes at least, with a reduced mode behind: (modes, elements).

    The longest come first.
    """
    found, row = list[tuple[int, int]](), 1
    modes = _by_stride(form).modes
    for n, m in enumerate(modes):
        if m.reduced and min(m.src, m.dst) >= row and not all(x.reduced for x in modes[:n]):
            found.append((n, row))
        if (m.src, m.dst) != (row, row):
            break
        row *= m.extent
    return found[::-1]


def with_fold(form: Form, inside: int, fold: int) -> Stream | None:
    """The stream of which `fold` rows of the first modes are one; None where these do not lie together.

    With weights, which differ from row to row, no column of it is reduced and no row folded.
    """
    found = Stream(_by_stride(form), inside, fold)
    modes, rows, row = found.form.modes, found.rows, found.row
    folded = fold == 1 or (rows.src, rows.dst) == (row, row)
    bare = fold == 1 and not any(m.reduced for m in modes[:inside])
    weighted, backwards = any(m.weight for m in modes), any(m.dst < 0 for m in modes)
    return found if folded and fold <= rows.extent and (bare or not weighted) and not backwards else None


def _by_stride(form: Form) -> Form:
    return replace(form, modes=tuple(sorted(form.modes, key=lambda m: m.src)))
