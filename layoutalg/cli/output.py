"""The output of commands: tables for people, an object of JSON for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from layoutalg.answers import Answer, fields_of
from layoutalg.cli.refusals import header
from layoutalg.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

PAGE = 100
"""Columns of a page: tables and pictures fit it, also when the output is a file or a pipe."""


def console(*, stderr: bool = False) -> Console:
    """A console on the current stdout or stderr: colours only on a terminal, never wider than a page."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False, markup=False)
    if not out.is_terminal or out.width > PAGE:
        out = Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False, markup=False, width=PAGE)
    return out


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], *, left: int = 1) -> Table:
    """A table: the first `left` columns are names, the others numbers; cells are plain text, never markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = Table(
        title=Text(printable(title), style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_edge=False,
    )
    for index, name in enumerate(columns):
        out.add_column(
            Text(name), justify="left" if index < left else "right", overflow="fold", no_wrap=index >= left
        )
    for row in rows:
        out.add_row(*(cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row))
    return out


def say(*parts: str | Table | Text) -> None:
    """Print sentences, wrapped to the page, and tables to stdout, with an empty line after a table."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    with out.capture() as captured:
        for index, part in enumerate(parts):
            if isinstance(part, Table):
                title, part.title = part.title, None
                out.print(title)
                out.print(part)
                if index + 1 < len(parts) and parts[index + 1] != "":
                    out.print()
            elif isinstance(part, Text):
                out.print(part)
            else:
                filled = textwrap.fill(part, out.width, break_long_words=False, break_on_hyphens=False)
                out.print(printable(filled))
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def say_verbatim(line: str) -> None:
    """Print a line that must not be broken, such as a command to copy."""
    console().print(printable(line), soft_wrap=True)


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
    """A progress bar on stderr while something runs, only on a terminal; it vanishes at the end.

    Yields a function that marks one of `total` steps as done; without a total the bar pulses.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *([] if total is None else [MofNCompleteColumn()]),
        TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


Told = Callable[[str, "tuple[str, ...]", str], None]
"""A function that changes a row of a live table: its name, its cells, and the same as a line."""

LIVE_ROWS = 12
"""The number of rows of a live table, which are those that changed last."""


@contextlib.contextmanager
def live_table(title: str, columns: Iterable[str], *, quiet: bool) -> Iterator[Told]:
    """A table on stderr of what changed last, while something runs; it vanishes at the end.

    Where stderr is not a terminal, a line each time.  Yields a function that changes a row.
    """
    if quiet or not sys.stderr.isatty():
        out = None if quiet else console(stderr=True)

        def written(name: str, cells: tuple[str, ...], line: str) -> None:
            if out is not None:
                out.print(printable(line), soft_wrap=True)

        yield written
        return
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    names, rows = tuple(columns), dict[str, tuple[str, ...]]()
    bar = Progress(TextColumn("{task.completed} done"), BarColumn(), TimeElapsedColumn())
    task = bar.add_task("", total=None)
    with Live(bar, console=console(stderr=True), transient=True, refresh_per_second=4) as live:

        def changed(name: str, cells: tuple[str, ...], line: str) -> None:
            rows.pop(name, None)
            rows[name] = cells
            bar.advance(task)
            last = list(rows.items())[-LIVE_ROWS:]
            live.update(Group(table(title, names, ((first, *of) for first, of in last)), bar))

        yield changed
