"""The command's one door: the command of a line, and how errors that are foreseen leave it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from layoutalg.budget import with_budget
from layoutalg.cli.output import with_json
from layoutalg.cli.parameters import call, overview, part_overview, read_line
from layoutalg.cli.refusals import BAD_INPUT, FAILED, UNANSWERED, refuse
from layoutalg.cli.table import COMMANDS, FIRST, named
from layoutalg.errors import LayoutAlgError, MismatchError, ProfilerError, SimulationError, check_choice

_NO_FAULT_OF_A_NAME = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""Errors of files for which another name would not help."""


def run(words: Sequence[str]) -> int:
    """Answer a line, or refuse it; returns the exit code, and raises what is not foreseen."""
    try:
        return _answer(words)
    except LayoutAlgError as error:
        refuse(words, type(error).__name__, str(error), getattr(error, "position", None))
        if isinstance(error, ProfilerError):
            return UNANSWERED
        return FAILED if isinstance(error, MismatchError | SimulationError) else BAD_INPUT
    except OSError as error:
        if not error.filename or error.errno in _NO_FAULT_OF_A_NAME:
            raise
        refuse(words, "OSError", f"{error.filename}: {error.strerror or error}")
        return BAD_INPUT
    except SystemExit:  # argparse's own, behind its help
        return 0


def _answer(words: Sequence[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:  # a shell asks, by the script of argcomplete
        import argcomplete

        argcomplete.autocomplete(overview(os.environ.get("COMP_LINE", "")))
    if not words or words[0] in ("--help", "-h"):
        overview().print_help()
        return 0
    name, rest = named(words)
    shown = [each.partition(" ")[2] for each in COMMANDS if each.startswith(f"{words[0]} ")]
    if not name or (shown and name == words[0] and rest and not rest[0].startswith("-")):
        if shown and (len(words) == 1 or words[1] in ("--help", "-h")):
            part_overview(words[0]).print_help()
            return 0
        check_choice(f"part of {words[0]}", words[1], shown) if shown else check_choice(
            "command", words[0], FIRST
        )
    command = COMMANDS[name]
    values = read_line(name, rest)
    with with_json(values["json"]):
        return with_budget(values["budget"] if command.budget else 1, call, command.function, values) or 0
