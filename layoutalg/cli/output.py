"""The output of commands: tables for people, an object of JSON for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from layoutalg.answers import Answer, fields_of
from layoutalg.cli.refusals import header
from layoutalg.errors import printable

if TYPE_CHECKING:
    import rich.console
    import rich.table

PAGE = 100
"""Columns of a page: tables and pictures fit it, also when the output is a file or a pipe."""


class Table(NamedTuple):
    """A table: the first `left` columns are names, the others numbers."""

    title: str
    columns: Iterable[str]
    rows: Iterable[Iterable[object]]
    left: int = 1

    def rendered(self) -> rich.table.Table:
        """The table as rich prints it: cells are plain text, never markup."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        out = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
            show_edge=False,
        )
        for index, name in enumerate(self.columns):
            left = index < self.left
            out.add_column(Text(name), justify="left" if left else "right", overflow="fold", no_wrap=not left)
        for row in self.rows:
            out.add_row(*(Text(printable(str(cell))) for cell in row))
        return out


def console(*, stderr: bool = False) -> rich.console.Console:
    """A console on the current stdout or stderr: colours only on a terminal, never wider than a page."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False, markup=False)
    if not out.is_terminal or out.width > PAGE:
        out = Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False, markup=False, width=PAGE)
    return out


def page_width() -> int:
    """Columns of the terminal that stdout is, or of a page, whichever are fewer."""
    if not sys.stdout.isatty():
        return PAGE
    import shutil  # dear to import, and a pipe asks for no width

    return min(shutil.get_terminal_size().columns, PAGE)


def filled(text: str, width: int) -> str:
    """A sentence, wrapped; what has no space in it is not broken."""
    return printable(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False))


def say(*parts: str | Table) -> None:
    """Print sentences, wrapped to the page, and tables to stdout, with an empty line after a table."""
    lines: list[str] = []
    for part, after in zip(parts, (*parts[1:], ""), strict=False):
        if isinstance(part, Table):
            out = console()
            with out.capture() as captured:
                if part.title:
                    out.print(printable(part.title), style="bold")
                out.print(part.rendered())
            lines += [line.rstrip() for line in captured.get().splitlines()] + [""] * (after != "")
        else:
            lines.append(filled(part, page_width()))
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def say_verbatim(line: str) -> None:
    """Print a line that must not be broken, such as a command to copy."""
    print(printable(line))


def json_text(answer: Answer) -> str:
    """An answer as the one JSON object that the command prints."""
    payload = header(answer.command) | fields_of(answer)
    return json.dumps(payload, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


_JSON: ContextVar[bool] = ContextVar("json", default=False)


@contextlib.contextmanager
def with_json(asked: bool) -> Iterator[None]:
    """Answer with one JSON object within the block, where it is asked for."""
    before = _JSON.set(asked)
    try:
        yield
    finally:
        _JSON.reset(before)


def wants_json() -> bool:
    """Whether the answer is one JSON object, beside which nothing is shown."""
    return _JSON.get()


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
def progress(what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr while something runs, only on a terminal; it vanishes at the end.

    Yields a function that marks one of `total` steps as done; without a total the bar pulses.
    """
    if quiet or wants_json() or not sys.stderr.isatty():
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
"""Rows of a live table: the last ones that changed."""


@contextlib.contextmanager
def live_table(title: str, columns: Iterable[str]) -> Iterator[Told]:
    """A table on stderr that changes while something runs, only on a terminal; it vanishes at the end.

    Where stderr is not a terminal, a line each time.  Yields a function that changes a row.
    """
    if wants_json() or not sys.stderr.isatty():

        def written(name: str, cells: tuple[str, ...], line: str) -> None:
            if not wants_json():
                print(printable(line), file=sys.stderr)

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
            last = [(first, *of) for first, of in list(rows.items())[-LIVE_ROWS:]]
            live.update(Group(printable(title), Table("", names, last).rendered(), bar))

        yield changed
