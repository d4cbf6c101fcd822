"""The refusals of commands that do not answer: one sentence on stderr, or one JSON object on stdout.

They need no library, so that they can also report a library that does not import.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layoutalg.answers import Answer, Count, fields_of
from layoutalg.cli.table import FIRST, named
from layoutalg.errors import printable

SCHEMA = "layoutalg/output/1"
"""Value of the field `schema` of every JSON object; the schema is layoutalg/schema/output.json."""

FAILED, BAD_INPUT, UNANSWERED, INTERRUPTED = 1, 2, 3, 130
"""Exit codes: the checked property fails; the input is at fault; something else is; the user ended it."""

EXIT_CODES = (
    "Exit codes: 0 answered or passed, 1 the checked property fails, 2 bad input, 3 no answer for another "
    "reason (a full disk, too little memory, a defect), 130 interrupted (143 by TERM, 129 by HUP)."
)


@dataclass(frozen=True)
class Refusal(Answer):
    """No answer: exit code 2 for bad input, 3 for every other reason."""

    error: str
    """Class of layoutalg.errors, UsageError or OSError; with exit code 3 any class of Python's."""
    message: str
    """A sentence."""
    position: Count | None
    """Character of the text where reading failed."""


def header(command: str) -> dict[str, Any]:
    """The fields every JSON object starts with."""
    return {"schema": SCHEMA, "command": command}


def refuse(words: Sequence[str], error: str, message: str, position: int | None = None) -> None:
    """Say in one sentence why the command given by `words` has no answer; `error` is the error's class."""
    sentence = printable(" ".join(message.split()))
    options = words[: words.index("--")] if "--" in words else words
    begun = next((place for place, word in enumerate(options) if word in FIRST), 0)
    first = options[begun] if len(options) > begun and options[begun] in FIRST else ""
    command = named(options[begun:])[0] or first
    if "--json" in options:
        payload = header(command) | fields_of(Refusal(error, sentence, position))
        sys.stdout.write(json.dumps(payload, indent=2) + "\n")
    else:
        sys.stderr.write(f"layoutalg{command and ' '}{command}: {sentence}\n")
