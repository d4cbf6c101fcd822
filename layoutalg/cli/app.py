"""The command's one door: the list of commands, and how errors and exit codes leave it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from layoutalg import __version__
from layoutalg.cli import (
    cmd_analyze,
    cmd_bench,
    cmd_cache,
    cmd_demo,
    cmd_draw,
    cmd_explain,
    cmd_generate,
    cmd_sass,
    cmd_solve,
    cmd_synthesize,
    cmd_verify,
)
from layoutalg.cli.output import header
from layoutalg.errors import LayoutAlgError, MismatchError, SimulationError

FAILED, BAD_INPUT = 1, 2

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The class of every command-line error; where it is defined depends on typer's version."""


class _Door(TyperGroup):
    """The group of commands, with errors as one sentence on stderr or one JSON object on stdout."""

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
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal without the character is no reason to fail
        try:
            code = super().main(
                words, prog_name or "layoutalg", complete_var, False, windows_expand_args, **extra
            )
        except _UsageError as error:
            message = getattr(error, "format_message", error.__str__)()
            self._refuse(words, "UsageError", message, None)
        except LayoutAlgError as error:
            position = getattr(error, "position", None)
            code = FAILED if isinstance(error, MismatchError | SimulationError) else BAD_INPUT
            self._refuse(words, type(error).__name__, str(error), position, code)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self._refuse(words, "OSError", f"{where}{error.strerror or error}", None)
        except typer.Abort:
            code = 130
        sys.exit(code or 0)

    def _refuse(
        self, words: list[str], error: str, message: str, position: int | None, code: int = BAD_INPUT
    ) -> NoReturn:
        sentence = " ".join(message.split())
        options = words[: words.index("--")] if "--" in words else words
        command = next((word for word in options if word in self.commands), None)
        if "--json" in options:
            payload = header(command or "")
            print(json.dumps(payload | {"error": error, "message": sentence, "position": position}, indent=2))
        else:
            print(f"layoutalg{f' {command}' if command else ''}: {sentence}", file=sys.stderr)
        sys.exit(code)


app = typer.Typer(
    cls=_Door,
    name="layoutalg",
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"layoutalg {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Analyse GPU memory layouts, find conflict-free ones, generate kernels from them and prove them.

    Exit codes: 0 answered or passed, 1 the checked property fails, 2 bad input.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("analyze")(cmd_analyze.analyze_command)
app.command("solve")(cmd_solve.solve_command)
app.command("synthesize")(cmd_synthesize.synthesize_command)
app.command("explain")(cmd_explain.explain_command)
app.command("generate")(cmd_generate.generate_command)
app.command("verify")(cmd_verify.verify_command)
app.command("bench")(cmd_bench.bench_command)
app.command("sass")(cmd_sass.sass_command)
app.command("draw")(cmd_draw.draw_command)
app.command("cache")(cmd_cache.cache_command)
app.command("demo")(cmd_demo.demo_command)


def main() -> NoReturn:
    """Run the command on sys.argv; what the console script calls."""
    app()
    sys.exit(0)
