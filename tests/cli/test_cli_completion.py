"""Completion by shells: what they are told, and that every option with names of its own completes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from layoutalg.arch import find_arch, find_instruction
from layoutalg.cli import options
from layoutalg.cli.app import app
from layoutalg.dtype import dtype
from tests.command import invoke
from tests.sweeps import each

ROOT = Path(__file__).parents[2]


def asked(*words: str) -> list[str]:
    """What bash is told for the last of these words."""
    line = ["layoutalg", *words]
    given = {"COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(words))}
    ran = invoke(env={"_LAYOUTALG_COMPLETE": "complete_bash", **given})
    assert ran.exit_code == 0 and ran.stderr == ""
    return str(ran.stdout).split()


@each(
    "words, some",
    [
        (("a",), {"analyze"}),
        (("analyze", "--fa"), {"--fail-on"}),
        (("analyze", "8:1", "--access", "ldm"), {"ldmatrix.x1", "ldmatrix.x4", "ldmatrix.x4.trans"}),
        (("analyze", "--index", "lane", "--op", "cp.async."), {"cp.async.16"}),
        (("draw", "'(8,8):(8,1)'", "--access", "ld.shared.b32@"), {"ld.shared.b32@row", "ld.shared.b32@col"}),
        (("synthesize", "--dtype", "bf"), {"bf16"}),
        (("solve", "x", "--arch", "sm_9"), {"sm_90", "sm_90a"}),
        (("code", "8:1", "--to", "c"), {"c", "cuda", "cpp"}),
        (("ci", "--format", ""), {"table", "json", "junit", "sarif", "github"}),
        (("generate", "gemm-"), {"gemm-simt", "gemm-sm80"}),
        (("explain", "logical_"), {"logical_divide", "logical_product"}),
        (("glossary", "wave"), {"wavefront"}),
    ],
)
def test_bash_is_told(words: tuple[str, ...], some: set[str]) -> None:
    assert some <= set(asked(*words))


def parameters() -> Iterator[tuple[str, Any]]:
    """Every parameter of every command."""
    group: Any = get_command(app)
    for name, command in group.commands.items():
        for parameter in command.params:
            yield name, parameter


NAMED = {
    "op", "access", "dtype", "arch", "to", "method", "format_", "form", "order", "unit", "side", "language",
    "through", "family", "terms", "target", "a_major", "b_major", "activation", "bias", "accumulator",
}  # fmt: skip
"""Parameters whose values are names out of tables."""


def test_every_parameter_of_names_completes_them() -> None:
    silent = [
        f"{command} {parameter.name}"
        for command, parameter in parameters()
        if parameter.name in NAMED and not parameter.shell_complete(None, "")
    ]
    assert not silent, silent


def test_what_is_offered_is_accepted() -> None:
    for name in options.instructions(""):
        find_instruction(name)
    for name in options.archs(""):
        find_arch(name)
    for name in options.dtypes(""):
        dtype(name)


@pytest.mark.deep
def test_completion_is_shown_and_installed(tmp_path: Path) -> None:
    """In a home of its own; of a shell that is not known, exit code 2."""

    undetected = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "layoutalg", *words],
            env={**os.environ, "HOME": str(tmp_path), **undetected},
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip

    shown = ran("--show-completion", "bash")
    assert shown.returncode == 0 and "complete -o default -F _layoutalg_completion layoutalg" in shown.stdout
    installed = ran("--install-completion", "bash")
    assert installed.returncode == 0 and "bash completion installed in" in installed.stdout
    script = next((tmp_path / ".bash_completions").iterdir())
    assert "_LAYOUTALG_COMPLETE" in script.read_text() and script.name in (tmp_path / ".bashrc").read_text()
    assert ran("--show-completion", "nosh").returncode == 2


@pytest.mark.deep
def test_a_fish_learns_whether_files_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
    monkeypatch.setenv("_LAYOUTALG_COMPLETE", "complete_fish")
    codes = []
    for line in ("layoutalg analyze --dtype b", "layoutalg ci "):
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        ran = subprocess.run([sys.executable, "-m", "layoutalg"], cwd=ROOT, capture_output=True, check=False)
        codes.append(ran.returncode)
    assert codes == [0, 1]
