"""The README tells the truth: its commands print what it shows, its Python runs, its picture is current."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tests.command import run

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.M | re.S)
SESSIONS = [body for language, body in BLOCKS if language == "console"]
SCRIPTS = [body for language, body in BLOCKS if language == "python"]


def test_the_readme_shows_commands_and_python() -> None:
    assert len(SESSIONS) == 7 and len(SCRIPTS) == 4


@pytest.mark.parametrize("session", SESSIONS, ids=lambda body: body.splitlines()[0][:60])
def test_a_command_prints_what_is_shown(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command, _, shown = session.partition("\n")
    words = shlex.split(command)
    assert words[:2] == ["$", "layoutalg"]
    result = run(*words[2:])
    assert result.exit_code == 0
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS
    assert checker.check_output(shown, result.stdout, flags), checker.output_difference(
        doctest.Example("", shown), result.stdout, flags
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=["tour", "arrays", "atoms", "testing"])
def test_the_python_runs_and_prints_what_its_comments_say(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(script, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    for comment in re.findall(r"  # (.*)$", script, re.M):
        assert comment in printed.splitlines()


def test_the_picture_is_the_one_the_library_draws(tmp_path: Path) -> None:
    path = tmp_path / "swizzle.svg"
    assert run("draw", "Sw<3,2,3> o 0 o (8,32):(32,1)", "-o", str(path)).exit_code == 0
    assert path.read_bytes() == (ROOT / "docs" / "swizzle.svg").read_bytes()


def test_files_the_readme_names_exist() -> None:
    for name in [*re.findall(r"\]\(([\w./]+)\)", TEXT), "layoutalg/schema/output.json"]:
        assert (ROOT / name).exists(), name
