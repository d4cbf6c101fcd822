"""Completion by shells: what they are told, and that every option with names of its own completes them."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from layoutalg.arch import find_arch, find_instruction
from layoutalg.cli import options
from layoutalg.cli.parameters import overview, parameters_of
from layoutalg.cli.table import COMMANDS
from layoutalg.dtype import dtype
from tests.command import process
from tests.sweeps import each


def asked(*words: str) -> list[str]:
    """The words that bash is offered for the last of these; none is run."""
    argcomplete = pytest.importorskip("argcomplete")
    line, offered = " ".join(("layoutalg", *words)), io.StringIO()
    asks = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    # its stream of debugging is descriptor 9, which is another's here
    with (
        patch.dict(os.environ, asks),
        patch("os.fdopen", lambda *_: io.StringIO()),
        pytest.raises(SystemExit),
    ):
        argcomplete.autocomplete(overview(line), exit_method=sys.exit, output_stream=offered)
    return offered.getvalue().split()


@each(
    "words, some",
    [
        (("a",), {"analyze"}),
        (("analyze", "--fa"), {"--fail-on"}),
        (("analyze", "8:1", "--access", "ldm"), {"ldmatrix.x1", "ldmatrix.x4", "ldmatrix.x4.trans"}),
        (("analyze", "-", "--access", "ldmatrix.x4."), {"ldmatrix.x4.trans"}),
        (("analyze", "--index=-4*lane", "--op", "ldm"), {"ldmatrix.x4"}),
        (("analyze", "--index", "lane", "--op", "cp.async."), {"cp.async.16"}),
        (("draw", "'(8,8):(8,1)'", "--access", "ld.shared.b32@"), {"ld.shared.b32@row", "ld.shared.b32@col"}),
        (("synthesize", "--dtype", "bf"), {"bf16"}),
        (("solve", "x", "--arch", "sm_9"), {"sm_90", "sm_90a"}),
        (("code", "8:1", "--to", "c"), {"c", "cuda", "cpp"}),
        (("ci", "--format", ""), {"table", "json", "junit", "sarif", "github"}),
        (("generate", "gemm-"), {"gemm-simt", "gemm-sm80"}),
        (("explain", "logical_"), {"logical_divide", "logical_product"}),
        (("help", "wave"), {"wavefront"}),
    ],
)
def test_bash_is_told(words: tuple[str, ...], some: set[str]) -> None:
    assert some <= set(asked(*words))


NAMED = {
    "op", "access", "dtype", "arch", "to", "method", "format_", "form", "order", "unit", "side", "language",
    "through", "family", "terms", "target", "a_major", "b_major", "activation", "bias", "accumulator",
}  # fmt: skip
"""Parameters whose values are names out of tables."""


def test_every_parameter_of_names_completes_them() -> None:
    silent = [
        f"{name} {p.name}"
        for name, command in COMMANDS.items()
        for p, declared in parameters_of(command.function)
        if p.name in NAMED and not (declared.complete and declared.complete(""))
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
def test_a_shell_asks_the_command(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    asks = {"_ARGCOMPLETE": "1", "COMP_LINE": "layoutalg synth", "COMP_POINT": "15"}
    assert process(**asks, _ARGCOMPLETE_STDOUT_FILENAME=str(tmp_path / "offered")).returncode == 0
    assert (tmp_path / "offered").read_text().strip() == "synthesize"
