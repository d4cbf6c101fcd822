"""A reduction in two passes: the form of the first, which keeps some reduced modes, and the second's.

The idea.  Columns are read best in whole vectors.  A first pass may leave to a second one what stands in the
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

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise.problems import Form, Mode, fewest


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

    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
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

    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
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
