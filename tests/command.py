"""Running the command in tests: in this process, in one of its own, and with its JSON held to the schema."""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema

from layoutalg.cli import entry
from layoutalg.cli.table import named


@dataclass(frozen=True)
class Result:
    """The exit code of a line, and the text that it wrote."""

    exit_code: int
    stdout: str
    stderr: str
    output: str
    """Both, in the order in which they were written."""
    exception: Exception | None = None


class _Copied(io.BytesIO):
    """Bytes that are written to another buffer too."""

    def __init__(self, other: io.BytesIO) -> None:
        super().__init__()
        self._other = other

    def write(self, data: Any, /) -> int:
        self._other.write(data)
        return super().write(data)


def invoke(*words: str, input: str | bytes = b"", env: Mapping[str, str] | None = None) -> Result:
    """The command in this process, with what it raised where it did not foresee it."""
    raw = input.encode() if isinstance(input, str) else input
    both = io.BytesIO()
    buffers = (io.BytesIO(raw), _Copied(both), _Copied(both))
    streams = [io.TextIOWrapper(b, "utf-8", newline="", write_through=True) for b in buffers]
    code, raised = 1, None
    with (
        patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]),
        patch.dict(os.environ, env or {}),
    ):
        try:
            code = entry.answer(words)
        except Exception as error:  # noqa: BLE001 - what it is, the test says
            raised = error
    for stream in streams[1:]:
        stream.seek(0)
    return Result(code, streams[1].read(), streams[2].read(), both.getvalue().decode(), raised)


def run(*words: str, input: str | bytes = b"") -> Result:
    """The command in this process; what it does not foresee is raised."""
    result = invoke(*words, input=input)
    if result.exception:
        raise result.exception
    return result


def process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, stdout and stderr piped."""
    code = "from layoutalg.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[1],
    )


@functools.cache
def validator() -> Any:
    """The checker of the schema that ships with the package."""
    schema = json.loads((resources.files("layoutalg") / "schema" / "output.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def answer(*words: str, exit_code: int = 0) -> dict[str, Any]:
    """What the command says with --json: one valid object on stdout, nothing on stderr."""
    result = run(*words, "--json")
    assert result.exit_code == exit_code, result.output
    assert result.stderr == ""
    payload: dict[str, Any] = json.loads(result.stdout)
    validator().validate(payload)
    assert payload["command"] == (named(words)[0] or words[0])
    return payload


def refusal(*words: str, exit_code: int = 2) -> tuple[str, str]:
    """(error class, sentence) of bad input, after checking that both forms of output say the same."""
    result = run(*words)
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    payload = answer(*words, exit_code=exit_code)
    assert set(payload) == {"schema", "command", "error", "message", "position"}
    assert result.stderr == f"layoutalg {named(words)[0] or words[0]}: {payload['message']}\n"
    return payload["error"], payload["message"]
