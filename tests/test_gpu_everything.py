"""The one run of everything that needs a GPU: its steps exist, and a step that fails is seen."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from layoutalg.kernels import FAMILIES
from layoutalg.kernels.bench import REDUCE
from tests.gpu import everything
from tests.gpu.everything import STEPS, Step, main, run
from tests.gpu.tools import alone, sanitize, tool
from tests.sweeps import each


@each("step", STEPS, ids=lambda step: step.name)
def test_a_step_runs_a_module_that_exists(step: Step) -> None:
    assert find_spec(step.module) is not None
    if step.args[:1] == ["bench"]:
        assert step.args[1] in {*FAMILIES, REDUCE}


def test_steps_have_names_of_their_own() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_what_a_step_prints_is_kept_and_what_it_returns_is_seen(tmp_path: Path) -> None:
    assert run(Step("good", "timeit", ["-n", "1", "-r", "1", "pass"], 60), tmp_path, "0")
    assert "loop" in (tmp_path / "good.txt").read_text()
    assert not run(Step("bad", "timeit", ["raise ValueError"], 60), tmp_path, "0")
    assert not run(Step("slow", "timeit", ["while True: pass"], 1), tmp_path, "0")


def test_an_unknown_step_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no step"):
        main([str(tmp_path), "nothing"])


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "NEEDED", ("pytest", "no_such_package"))
    with pytest.raises(SystemExit, match="no_such_package cannot be imported: pip install"):
        main([str(tmp_path / "out")])


def test_what_reads_counters_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "1")
    alone()
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "12")
    with pytest.raises(pytest.skip.Exception, match="pytest -n 0 tests/gpu"):
        alone()


@pytest.mark.parametrize(
    ("says", "status", "silent"),
    [
        ("ERROR SUMMARY: 0 errors", 0, True),
        ("ERROR SUMMARY: 10 errors", 0, False),
        ("SUMMARY: 0 hazards", 9, False),
    ],
)
def test_what_a_sanitizer_finds_is_seen(
    says: str, status: int, silent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = tmp_path / "compute-sanitizer"
    stand_in.write_text(f"#!/bin/sh\necho '========= {says}'\nexit {status}\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    if silent:
        assert says in sanitize("memcheck", "tests.gpu.random_kernels", "matrices", "plain")
    else:
        with pytest.raises(AssertionError):
            sanitize("memcheck", "tests.gpu.random_kernels", "matrices", "plain")


def test_without_a_tool_a_test_is_skipped_by_name() -> None:
    with pytest.raises(pytest.skip.Exception, match="no-such-tool of the CUDA toolkit is not on PATH"):
        tool("no-such-tool")
