"""Columns as wide rows of memory: a form as a stream, and a reduction in two passes.

A stream.  Columns of a row-major matrix are read best in vectors along whole lines, by threads that keep
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

Two passes.  A first pass may leave to a second one what stands in the
way of that, since what it keeps are few values beside what it reads:

    a reduced mode         pieces of rows beside those of others: a piece is columns then
    several of them        all but one: the rows of that one lie apart by one pitch, and are wide
    rows that lie beside   `Beside(4)`: 4 rows of 86 columns are one of 344, which is whole vectors

    sum (19460,6,28,6,7) over 0,2,4     keeps 7 and 28: K 7056:1, R 19460:7056, then R 7, R 28 and the splits
    mean (1630482,86) over 0            4 rows beside: K 344:1, R 407620:344, and 2 rows that are left

Notes.  Rows that are left, fewer than lie beside, are one vector of each column at most: the first block adds
them.  Results of a first pass lie side by side, in the order of the form's modes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, TypeAlias

from layoutalg.codegen.expr import Var
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.matrix import most_rows
from layoutalg.kernels.rowwise.tensors import Form, Mode, fewest
from layoutalg.kernels.rowwise.walk import row_ends

# --- any number of rows --------------------------------------------------------------------------------


def with_rows(form: Form) -> Form:
    """The form for any number of rows: the extent of its last kept mode is the parameter `rows`.

    The same form where that mode is the first one, or not the outermost on both sides.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> print(with_rows(normalise(axes_problem((64, 1000), 1, "f32"))))
    R 1000:1, K rows:1000->1
    """
    last = form.kept[-1] if form.kept else form.lead
    if last is form.lead or any(m.src > last.src or abs(m.dst) > last.dst for m in form.modes):
        return form
    rows: Any = Var("rows", most_rows(last.extent, max(last.src, last.dst)) + 1, "param", 1)
    return replace(form, modes=tuple(replace(m, extent=rows) if m is last else m for m in form.modes))


@dataclass(frozen=True)
class Stream:
    """A form whose first `inside` modes are one dense row, of which `fold` are a row of the stream.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
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


@dataclass(frozen=True, slots=True)
class Beside:
    """So many rows of the only reduced mode lie beside each other, and are columns of the first pass.

    >>> Beside(4).rows
    4
    """

    rows: int


Later: TypeAlias = int | tuple[int, ...] | Beside
"""The rest after a first pass: a reduced mode by its number, several, or rows that lie beside each other."""


class First(NamedTuple):
    """The form of a first pass, and elements of a last row, which has fewer of them, behind its rows."""

    form: Form
    left: int = 0


def first_pass(form: Form, later: Later) -> First:
    """The form of a first pass; its results are side by side.

    Raises UnsupportedError for modes that are not reduced, or all that are, and for rows that do not lie
    beside each other, or are fewer.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> print(first_pass(normalise(axes_problem((90, 2, 28, 2, 7), (0, 2, 4), "f32")), (0, 1)).form)
    K 784:1->1, R 90:784
    >>> found = first_pass(normalise(axes_problem((90, 86), 0, "bf16")), Beside(4))
    >>> print(found.form, "and", found.left)
    K 344:1->1, R 22:344 and 172
    """
    _check(form, later)
    modes, step, left = list[Mode](), 1, 0
    for m, kept in _modes(form, later):
        if kept:
            modes.append(Mode(m.extent, m.src, step, reduced=False))
            step *= m.extent
        elif isinstance(later, Beside):
            left = m.extent % later.rows * m.src
            modes.append(Mode(m.extent // later.rows, later.rows * m.src, 0, reduced=True))
        else:
            modes.append(m)
    return First(Form(fewest(modes), form.src_offset, 0), left)


def second_pass(form: Form, later: Later | None, splits: int, outputs: int) -> Form:
    """The reduction of the `outputs` of each of so many splits, which a first pass has written side by side.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> print(second_pass(normalise(axes_problem((90, 86), 0, "bf16")), Beside(4), 66, 344))
    K 86:1->1, R 264:86
    """
    modes, step = [Mode(splits, outputs, 0, reduced=True)], 1
    for m, kept in _modes(form, later):
        if kept:
            modes.append(Mode(m.extent, step, m.dst, m.reduced))
            step *= m.extent
    return Form(fewest(modes), 0, form.dst_offset)


def _check(form: Form, later: Later) -> None:
    if isinstance(later, Beside):
        lead, (rows, *others) = form.lead, [m for m in form.modes if m.reduced] or [form.lead]
        dense = not lead.reduced and lead.src == 1 and rows.src == lead.extent and not others
        if not dense or not 1 < later.rows <= rows.extent // 2:
            raise UnsupportedError(
                f"{later.rows} rows of {form} beside each other: one reduced mode is accepted, of at least "
                "twice as many rows, which lie behind each other without gaps"
            )
        return
    numbers, count = later if isinstance(later, tuple) else (later,), len(form.reduced)
    if not 0 < len(set(numbers)) == len(numbers) < count or not all(n in range(count) for n in numbers):
        raise UnsupportedError(
            f"a first pass over {form} that keeps the reduced modes {numbers}: some of {count} are accepted, "
            "each once, and not all"
        )


def _modes(form: Form, later: Later | None) -> list[tuple[Mode, bool]]:
    """The modes of a form, some rows as one of their own, and whether a first pass keeps them."""
    if isinstance(later, Beside):
        found = list[tuple[Mode, bool]]()
        for m in form.modes:
            own = [(Mode(later.rows, m.src, 0, reduced=True), True)] if m.reduced else []
            found += [*own, (m, not m.reduced)]
        return found
    numbers = () if later is None else later if isinstance(later, tuple) else (later,)
    kept = [form.reduced[n] for n in numbers]
    return [(m, not m.reduced or any(m is x for x in kept)) for m in form.modes]
