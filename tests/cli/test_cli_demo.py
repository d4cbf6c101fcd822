"""`layoutalg doctor demo`: the first thing a person sees runs to its end, says what it did, and can fail."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from layoutalg.cli.commands.help import demo
from layoutalg.kernels import checks as kernel_checks
from layoutalg.kernels.checks.record import Check, VerifyReport
from tests.command import answer, process, run


@pytest.mark.deep
def test_the_demo_shows_the_whole_way() -> None:
    """A command prints there what it prints alone."""
    done = process("doctor", "demo")
    assert done.returncode == 0 and done.stderr == "" and "\x1b" not in done.stdout
    for number, (what, command) in enumerate(demo.STEPS, 1):
        alone = run(*shlex.split(command)).stdout
        assert f"{number}. {what}:\n$ layoutalg {command}\n{alone}" in done.stdout
    assert "\nEverything passed, in " in done.stdout


def test_a_demo_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any, **__: Any) -> VerifyReport:
        return VerifyReport("transpose", "2 x 2", "simulator", (Check("result", False, "3 bytes differ"),))

    monkeypatch.setattr(kernel_checks, "verify", wrong)
    failed = answer("doctor", "demo", exit_code=1)
    assert failed["passed"] is False and [step["exit_code"] for step in failed["steps"]] == [0, 0, 0, 1]
    result = run("doctor", "demo")
    assert result.exit_code == 1 and "FAILS" in result.stdout and "SOMETHING FAILED" in result.stdout
