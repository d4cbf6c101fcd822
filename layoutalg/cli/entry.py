"""The entry point of the console script, and the one place where an unforeseen failure gets an exit code.

The idea.  Exit code 1 says that a checked property fails, so nothing else may end with it.  A fault of the
input is an error of layoutalg.errors, which `app` turns into 2; everything else arrives here: memory that
ran out, a disk that is full, a library that does not import, and defects.  It ends with 3 and one
sentence.

Nothing heavy is imported before `main` runs: an interrupt while the rest is imported is as quiet as later.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import NoReturn

from layoutalg import __version__
from layoutalg.cli.refusals import INTERRUPTED, UNANSWERED, refuse
from layoutalg.cli.signals import Signals, ending_signals
from layoutalg.cli.streams import checked_streams
from layoutalg.errors import printable

_SHOWN = 300
"""Characters of a defect's own message that are shown."""


def main() -> NoReturn:
    """Run the command on sys.argv and exit with its code."""
    code = INTERRUPTED
    words, signals = sys.argv[1:], Signals()
    try:
        with checked_streams() as out, ending_signals(signals), warnings.catch_warnings():
            warnings.showwarning = _warn
            code = _run(words, signals)
            sys.stdout.flush()
            if out.trouble:
                code = UNANSWERED
                message = f"standard output: {out.trouble}; the answer is not whole"
                refuse([word for word in words if word != "--json"], "OSError", message)
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(128 + signals.number if signals.number and code == INTERRUPTED else code)


def _run(words: Sequence[str], signals: Signals) -> int:
    """The exit code of the command; it reports errors that are not foreseen."""
    if words[:1] == ["--version"]:
        print(f"layoutalg {__version__}")
        return 0
    try:
        from layoutalg.cli.app import app

        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not an answer
        if signals.number:  # Python itself makes other errors of an interrupt, as while a class is made
            return INTERRUPTED
        refuse(words, type(error).__name__, _sentence(error))
        return UNANSWERED
    return 0


def _warn(message: Warning | str, *place: object, **more: object) -> None:
    """Print a warning as a sentence, without the place in the source, which does not help a user."""
    sys.stderr.write(f"layoutalg: warning: {printable(' '.join(str(message).split()))}\n")


def _sentence(error: Exception) -> str:
    """Why there is no answer, and what to do about it."""
    match error:
        case MemoryError():
            return "memory ran out: the request is too large for this machine"
        case OSError():
            return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
        case ImportError():
            return f"a library that it needs cannot be imported: {error}"
    return (
        f"a defect of layoutalg {__version__}, not an answer: {type(error).__name__} in {_place(error)}: "
        f"{str(error)[:_SHOWN]}; please report it, with the command, to the project's issue tracker"
    )


def _place(error: Exception) -> str:
    """The innermost line of this package that an error came through."""
    places = [(frame.f_globals["__name__"], line) for frame, line in traceback.walk_tb(error.__traceback__)]
    module, line = [(name, line) for name, line in places if name.startswith("layoutalg")][-1]
    return f"{module}, line {line}"
