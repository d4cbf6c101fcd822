"""The output of commands: tables for people, an object of JSON for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from layoutalg.answers import Answer, fields_of
from layoutalg.cli.refusals import header
from layoutalg.errors import printable

PAGE = 100
"""Columns of a page: tables and pictures fit it, also when the output is a file or a pipe."""

_GAP = "  "


def page_width() -> int:
    """Columns of the terminal that stdout is, or of a page, whichever are fewer."""
    return min(_terminal_columns(), PAGE) if sys.stdout.isatty() else PAGE


def _terminal_columns() -> int:
    import shutil  # dear to import, and a pipe asks for no width

    return shutil.get_terminal_size().columns


class Table:
    """A table: the first `left` columns are names, which are wrapped to fit the page, the others numbers."""

    def __init__(
        self, title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], *, left: int = 1
    ) -> None:
        self.title, self.left = title, left
        self._rows = [[printable(str(cell)) for cell in row] for row in (columns, *rows)]

    def lines(self, width: int) -> Iterator[str]:
        """The title, the heads of the columns above a rule, and the rows."""
        if self.title:
            yield from filled(self.title, width).splitlines()
        widths = [max(map(len, column)) for column in zip(*self._rows, strict=True)]
        names = widths[: self.left]
        while sum(widths) + len(_GAP) * (len(widths) - 1) > width and max(names) > 1:
            widest = names.index(max(names))
            widths[widest] = names[widest] = names[widest] - 1
        for number, row in enumerate(self._rows):
            cells = [
                textwrap.wrap(cell, size, break_on_hyphens=False) if i < self.left else [cell.rjust(size)]
                for i, (cell, size) in enumerate(zip(row, widths, strict=True))
            ]
            for parts in zip_longest(*cells, fillvalue=""):
                padded = (part.ljust(size) for part, size in zip(parts, widths, strict=True))
                yield _GAP.join(padded).rstrip()
            if not number:
                yield "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))


def filled(text: str, width: int) -> str:
    """A sentence, wrapped; what has no space in it is not broken."""
    return printable(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False))


def say(*parts: str | Table) -> None:
    """Print sentences, wrapped to the page, and tables to stdout, with an empty line after a table."""
    width = page_width()
    for part, after in zip(parts, (*parts[1:], ""), strict=False):
        if isinstance(part, Table):
            print(*part.lines(width), *([""] if after != "" else []), sep="\n")
        else:
            print(filled(part, width))


def say_verbatim(line: str) -> None:
    """Print a line that must not be broken, such as a command to copy."""
    print(printable(line))


def json_text(answer: Answer) -> str:
    """An answer as the one JSON object that the command prints."""
    payload = header(answer.command) | fields_of(answer)
    return json.dumps(payload, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def say_answer(answer: Answer) -> None:
    """Print an answer to stdout as JSON."""
    sys.stdout.write(json_text(answer))


def count(number: float) -> str:
    """A number for people: thousands separated, whole numbers without decimals."""
    return f"{number:,.2f}" if number != int(number) else f"{int(number):,}"


def size_bytes(number: int) -> str:
    """A size for people: bytes, KiB, MiB or GiB."""
    value, unit = float(number), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, bigger
    return f"{value:,.0f} {unit}" if value == int(value) else f"{value:,.1f} {unit}"


@contextlib.contextmanager
def progress(what: str, total: int | None = None, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A line on stderr that says what runs, only on a terminal; it vanishes at the end.

    Yields a function that marks one of `total` steps as done.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    done = -1

    def step() -> None:
        nonlocal done
        done += 1
        of = f" {done} of {total}" if total is not None else ""
        print(f"\r{printable(what)} ...{of}{_TO_END}", end="", file=sys.stderr, flush=True)

    try:
        step()
        yield step
    finally:
        print(f"\r{_TO_END}", end="", file=sys.stderr, flush=True)


_TO_END = "\x1b[K"
"""The code by which a terminal clears its line behind the cursor."""

Told = Callable[[str, "tuple[str, ...]", str], None]
"""A function that changes a row of a live table: its name, its cells, and the same as a line."""

LIVE_ROWS = 12
"""The number of rows of a live table, which are those that changed last."""


@contextlib.contextmanager
def live_table(title: str, columns: Iterable[str], *, quiet: bool) -> Iterator[Told]:
    """A table on stderr of what changed last, while something runs; it vanishes at the end.

    Where stderr is not a terminal, a line each time.  Yields a function that changes a row.
    """
    names, rows, above = tuple(columns), dict[str, tuple[str, ...]](), 0

    def show(lines: Sequence[str]) -> None:
        nonlocal above
        back = f"\x1b[{above}F\x1b[J" if above else ""  # to the table's first line, and clears from there
        print(back, *(f"{line}\n" for line in lines), sep="", end="", file=sys.stderr, flush=True)
        above = len(lines)

    def changed(name: str, cells: tuple[str, ...], line: str) -> None:
        if quiet:
            return
        if not sys.stderr.isatty():
            print(printable(line), file=sys.stderr)
            return
        rows.pop(name, None)
        rows[name] = cells
        last = [(first, *of) for first, of in rows.items()][-LIVE_ROWS:]
        show([*Table(title, names, last).lines(_terminal_columns()), f"{len(rows)} done"])

    try:
        yield changed
    finally:
        show(())
