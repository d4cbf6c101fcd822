"""The README is a front page: short, its numbers measured, its commands there, its picture current."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from layoutalg.cli.table import FIRST
from tests.command import run
from tests.documents import ROOT, blocks

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_the_readme_is_a_page() -> None:
    assert len(TEXT.splitlines()) <= 150
    languages = [language for language, _ in blocks(README)]
    assert set(languages) == {"sh", "python", "console", "cuda"}
    (program,) = (body for language, body in blocks(README) if language == "python")
    assert len([line for line in program.splitlines() if line]) <= 15


def test_what_is_typed_is_there() -> None:
    """`make` has the targets, the project the extras, and the command its commands."""
    known = set(FIRST) | {"--help", "--version"}
    assert set(re.findall(r"(?:^\$ |`)layoutalg ([\w-]+)", TEXT, re.M)) <= known
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"`make ([\w-]+)", TEXT)) <= targets
    typed = [line for language, body in blocks(README) if language == "sh" for line in body.splitlines()]
    assert "make demo" in typed and "make test" in typed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    for line in typed:
        if found := re.fullmatch(r"make ([\w-]+)", line):
            assert found[1] in targets, line
        else:
            there = line.removeprefix("python3 -m venv env && . env/bin/activate && ")
            assert set(re.fullmatch(r'pip install "\.\[([\w,]+)\]"', there)[1].split(",")) <= extras, line  # type: ignore[index]
    assert {"all", "nvrtc", "cuda12", "cuda13"} <= extras


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("target", "runs"), [("demo", ".venv/bin/layoutalg doctor demo"), ("test", ".venv/bin/python -m pytest")]
)
def test_the_two_commands_of_a_fresh_clone_install_and_run(target: str, runs: str, tmp_path: Path) -> None:
    """`make` in a folder without .venv: what would be done begins with making it."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    done = subprocess.run(
        ["make", "-n", target], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout
    assert lines.index("-m venv") < lines.index("pip install") < lines.index(runs)


def test_the_picture_is_the_one_the_library_draws(tmp_path: Path) -> None:
    path = tmp_path / "swizzle.svg"
    tile = "Sw<3,3,3> o 0 o (8,64):(64,1)"
    shown = run("draw", tile, "--dtype", "f16", "--access", "ldmatrix.x1", "-o", str(path))
    assert shown.exit_code == 0
    assert path.read_bytes() == (ROOT / "docs" / "swizzle.svg").read_bytes()
