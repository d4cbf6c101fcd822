"""The command's one door: the list of commands, and how errors that are foreseen leave it."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from layoutalg import __version__
from layoutalg.cli.commands.accesses import analyze_command, kernel_command, profile_command, report_command
from layoutalg.cli.commands.checks import check_command, ci_command, legal_command
from layoutalg.cli.commands.help import cache_command, demo_command, doctor_command, glossary_command
from layoutalg.cli.commands.kernels import (
    generate_command,
    l2_command,
    occupancy_command,
    pipeline_command,
    registers_command,
    sass_command,
    verify_command,
)
from layoutalg.cli.commands.layouts import (
    code_command,
    convert_command,
    draw_command,
    explain_command,
    identify_command,
    solve_command,
    synthesize_command,
)
from layoutalg.cli.commands.times import bench_command, chart_command, roofline_command, tune_command
from layoutalg.cli.options import budgeted
from layoutalg.cli.refusals import BAD_INPUT, EXIT_CODES, FAILED, INTERRUPTED, refuse
from layoutalg.errors import LayoutAlgError, MismatchError, SimulationError

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The class of every command-line error; where it is defined depends on typer's version."""

_NO_FAULT_OF_A_NAME = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""Errors of files for which another name would not help."""


_COMPLETION = frozenset({"--install-completion", "--show-completion"})
"""Options of typer that end with 1 where there is no shell that they know."""


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


_TERMS = "The terms (wavefront, phase, ideal, worst base, K and F, ...) are explained by layoutalg glossary."

app.command("analyze", epilog=_TERMS)(budgeted(analyze_command))
app.command("solve", epilog=_TERMS)(budgeted(solve_command))
app.command("synthesize", epilog=_TERMS)(budgeted(synthesize_command))
app.command("explain")(budgeted(explain_command))
app.command("code")(budgeted(code_command))
app.command("identify")(budgeted(identify_command))
app.command("convert")(budgeted(convert_command))
app.command("check")(budgeted(check_command))
app.command("legal")(budgeted(legal_command))
app.command("ci")(budgeted(ci_command))
app.command("kernel", epilog=_TERMS)(budgeted(kernel_command))
app.command("generate")(budgeted(generate_command))
app.command("verify")(budgeted(verify_command))
app.command("bench")(bench_command)
app.command("tune")(tune_command)
app.command("chart")(chart_command)
app.command("sass")(sass_command)
app.command("occupancy", epilog=_TERMS)(occupancy_command)
app.command("roofline")(roofline_command)
app.command("l2")(l2_command)
app.command("registers")(registers_command)
app.command("pipeline")(pipeline_command)
app.command("profile")(budgeted(profile_command))
app.command("draw")(budgeted(draw_command))
app.command("report")(budgeted(report_command))
app.command("glossary")(glossary_command)
app.command("cache")(cache_command)
app.command("doctor")(doctor_command)
app.command("demo")(demo_command)
