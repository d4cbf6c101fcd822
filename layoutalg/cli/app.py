"""The command's one door: the list of commands, and how errors that are foreseen leave it."""

from __future__ import annotations

import errno
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from layoutalg import __version__
from layoutalg.cli.options import budgeted
from layoutalg.cli.refusals import BAD_INPUT, EXIT_CODES, FAILED, INTERRUPTED, refuse
from layoutalg.cli.table import COMMANDS, Command
from layoutalg.errors import LayoutAlgError, MismatchError, SimulationError

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The class of every command-line error; where it is defined depends on typer's version."""

_NO_FAULT_OF_A_NAME = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""Errors of files for which another name would not help."""


_COMPLETION = frozenset({"--install-completion", "--show-completion"})
"""Options of typer that exit with 1 where they do not know the shell."""


_TERMS = "The terms (wavefront, phase, ideal, worst base, K and F, ...) are explained by layoutalg glossary."


class _Commands(Mapping[str, Any]):
    """The commands of the table by their names, each imported when it is looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name, COMMANDS[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _command(name: str, command: Command) -> Any:
    module, _, function = command.place.partition(":")
    run = getattr(importlib.import_module(f"layoutalg.cli.commands.{module}"), function)
    alone = typer.Typer(
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    text = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.cleandoc(run.__doc__ or ""))  # typer would break its lines
    register = alone.command(name, help=text, epilog=_TERMS if command.terms else None)
    register(budgeted(run) if command.budget else run)
    return typer.main.get_command(alone)


class _Door(TyperGroup):
    """The group of commands, with errors as one sentence on stderr or one JSON object on stdout."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Commands()

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(
                words, prog_name or "layoutalg", complete_var, False, windows_expand_args, **extra
            )
        except _UsageError as error:
            message = getattr(error, "format_message", error.__str__)()
            code = BAD_INPUT
            refuse(words, "UsageError", message)
        except LayoutAlgError as error:
            position = getattr(error, "position", None)
            code = FAILED if isinstance(error, MismatchError | SimulationError) else BAD_INPUT
            refuse(words, type(error).__name__, str(error), position)
        except OSError as error:
            if not error.filename or error.errno in _NO_FAULT_OF_A_NAME:
                raise
            code = BAD_INPUT
            refuse(words, "OSError", f"{error.filename}: {error.strerror or error}")
        except typer.Abort:
            code = INTERRUPTED
        except SystemExit as end:  # typer's own, of a shell that asks or a completion that is installed
            code = BAD_INPUT if end.code == 1 and _COMPLETION.intersection(words) else end.code
        sys.exit(code or 0)


app = typer.Typer(
    cls=_Door,
    name="layoutalg",
    add_completion=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"layoutalg {__version__}")
        raise typer.Exit


_HELP = f"""Analyse GPU memory layouts, find conflict-free ones, generate kernels from them and verify them.

{EXIT_CODES}"""


@app.callback(help=_HELP)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
