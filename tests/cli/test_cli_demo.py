"""`layoutalg doctor demo`: the first thing a person sees runs to its end, says what it did, and can fail."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.cli.commands.help import demo
from layoutalg.codegen.gpu import gpu_status, nvrtc
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import checks as kernel_checks
from layoutalg.kernels.checks.record import Check, VerifyReport
from tests.command import answer, process, run


@pytest.mark.deep
def test_the_demo_shows_the_whole_way() -> None:
    done = process("doctor", "demo")
    assert done.returncode == 0 and done.stderr == "" and "\x1b" not in done.stdout
    for number, verb in enumerate(("Analyse", "Synthesise", "Generate", "Simulate", "Compile", "Run"), 1):
        assert f"\n{number}  {verb}  " in done.stdout
    assert "each 8-way: 32 wavefronts against an ideal of 4" in done.stdout
    assert "Certificate, proved again without the search: " in done.stdout
    assert "predicted" in done.stdout and "FAILS" not in done.stdout
    ran = "Everything passed, in " if gpu_status().available else "Everything that was run passed, in "
    last = done.stdout.splitlines()[-1]
    assert last.startswith(ran) and last.endswith("not run: gpu.") != gpu_status().available
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_demo_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any, **__: Any) -> VerifyReport:
        return VerifyReport("transpose", "2 x 2", "simulator", (Check("result", False, "3 bytes differ"),))

    monkeypatch.setattr(kernel_checks, "verify", wrong)
    assert answer("doctor", "demo", exit_code=1)["passed"] is False
    result = run("doctor", "demo")
    assert result.exit_code == 1 and "FAILS" in result.stdout and "SOMETHING FAILED" in result.stdout


@pytest.mark.deep
def test_without_a_compiler_the_demo_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise UnsupportedError("NVRTC is not installed: pip install 'layoutalg[nvrtc]' brings it")

    monkeypatch.setattr(nvrtc, "_library", missing)
    compiled = answer("doctor", "demo")["steps"]["compile"]
    assert compiled["passed"] and compiled["compiled"] == [] and "pip install" in compiled["reason"]
    assert "Not compiled: NVRTC is not installed" in run("doctor", "demo").stdout


@pytest.mark.deep
def test_the_picture_of_the_demo_is_the_swizzle_that_was_found() -> None:
    text = run("doctor", "demo").stdout
    rows = [
        line.split("│")[-1].split() for line in text.splitlines() if line[:3] in {f"{r} │" for r in range(8)}
    ]
    assert len(rows) == 8
    assert [[int(digit) for digit in row] for row in rows] == [[c ^ r for c in range(8)] for r in range(8)]
    assert demo.SIMULATED[0] % 64 and demo.SIMULATED[1] % 64, "tiles stick out"
