"""Transcripts in documents: what a document shows is run, and its answers are those that it shows.

python -m tests.documents docs/analysis.md        writes answers anew where they differ; then read the diff

A block of `console` holds commands after "$ " with what they print, one of `pycon` a session of Python, one
of `python` a program whose comments two blanks behind a statement are lines that it prints in that order, one
of `cuda` that begins with `// NAME.cu` a file of this name.
"..." stands for anything.  The blocks of a document run from top to bottom in one folder, empty but for the
reports of tests/data/reports; the sessions of a document share their names.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from tests.command import run

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
REPORTS = Path("reports")
"""What was profiled, which is there in the folder."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_STATUS = '; echo "exit $?"'


def blocks(path: Path) -> list[tuple[str, str]]:
    """The language and the text of each block of a document."""
    return BLOCK.findall(path.read_text(encoding="utf-8"))


def printed_by(command: str) -> str:
    """What a command of the library prints; it has to answer, unless its status is printed too."""
    words = shlex.split(command.removesuffix(_STATUS))
    assert words[0] == "layoutalg", command
    result = run(*words[1:])
    if command.endswith(_STATUS):
        return f"{result.output}exit {result.exit_code}\n"
    assert result.exit_code == 0, f"{command}: {result.output}"
    return str(result.output)


def _is(shown: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(shown, got, doctest.ELLIPSIS)


def _console(body: str) -> str:
    """A block of commands with what they print."""
    out = ""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        got = printed_by(command)
        out += f"$ {command}\n{shown if _is(shown, got) else got}"
    return out


def _value(source: str, names: dict[str, Any]) -> str:
    """What Python prints for a statement that is typed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(source, "document", "single"), names)
        except Exception as error:  # noqa: BLE001
            kind = type(error)
            print(f"Traceback (most recent call last):\n...\n{kind.__module__}.{kind.__qualname__}: {error}")
    return re.sub(r"^$(?=\n)", "<BLANKLINE>", out.getvalue(), flags=re.M)


def _session(body: str, names: dict[str, Any]) -> str:
    """A session with what it prints."""
    out = ""
    for part in doctest.DocTestParser().parse(body):
        if isinstance(part, str):
            out += part
            continue
        first, *rest = part.source.rstrip("\n").split("\n")
        shown = (
            part.want if part.exc_msg is None else f"Traceback (most recent call last):\n...\n{part.exc_msg}"
        )
        got = _value(part.source, names)
        out += f">>> {first}\n" + "".join(f"... {line}\n" for line in rest)
        out += shown if _is(shown, got) else got
    return out


def _program(body: str) -> str:
    """A program, and behind it those of its comments that it does not print in their order."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(body, "document", "exec"), {"__name__": "document"})
    lines = iter(out.getvalue().splitlines())
    missing = [comment for comment in re.findall(r"  # (.*)$", body, re.M) if comment not in lines]
    return body + "".join(f"# not printed: {comment}\n" for comment in missing)


def as_run(path: Path) -> str:
    """A document with the answers that its blocks give now; what "..." stands for stays."""
    names: dict[str, Any] = {"__name__": "document"}
    if not REPORTS.exists():
        REPORTS.symlink_to(ROOT / "tests" / "data" / REPORTS)

    def again(found: re.Match[str]) -> str:
        language, body = found.groups()
        if language == "console":
            body = _console(body)
        elif language == "pycon":
            body = _session(body, names)
        elif language == "python":
            body = _program(body)
        elif language == "cuda" and (name := re.match(r"// (\w+\.cu)\n", body)):
            Path(name[1]).write_text(body, encoding="utf-8")
        return f"```{language}\n{body}```"

    return BLOCK.sub(again, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    import tempfile

    given = [Path(name).resolve() for name in sys.argv[1:]]
    for document in given:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            document.write_text(as_run(document), encoding="utf-8")
