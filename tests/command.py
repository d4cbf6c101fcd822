"""Running the command in tests: in this process, in one of its own, and with its JSON held to the schema."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import typer.testing
from typer.main import get_command

from layoutalg.cli.app import app

_built = functools.cache(get_command)
"""Typer makes every sub-command's options anew at each call, which takes longer than most commands do."""


def invoke(*words: str, **given: Any) -> Any:
    """What typer's CliRunner makes of the command, with what its `invoke` is `given`; built once."""
    with patch.object(typer.testing, "_get_command", _built):
        return typer.testing.CliRunner().invoke(app, words, **given)


def run(*words: str) -> Any:
    """The command in this process."""
    return invoke(*words, catch_exceptions=False)


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
    assert payload["command"] == words[0]
    return payload


def refusal(*words: str) -> tuple[str, str]:
    """(error class, sentence) of bad input, after checking that both forms of output say the same."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    payload = answer(*words, exit_code=2)
    assert set(payload) == {"schema", "command", "error", "message", "position"}
    assert result.stderr == f"layoutalg {words[0]}: {payload['message']}\n"
    return payload["error"], payload["message"]
