"""The command under faults, a few of each kind; tests/bench/bench_command_faults.py has more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.stand_ins.command_faults import (
    COMMANDS,
    GONE,
    STREAMS,
    TARGETS,
    Run,
    prepare,
    random_run,
    wrong_end,
)


def test_runs_of_all_kinds_are_drawn(tmp_path: Path) -> None:
    rng = random.Random(7)
    runs = [random_run(rng, tmp_path) for _ in range(3000)]
    assert {run.words[: len(words)] for run in runs for words, _ in COMMANDS} >= {
        words for words, _ in COMMANDS
    }
    assert {run.script for run in runs} >= {*STREAMS, GONE}
    assert {run.code for run in runs} == {0, 1, 2, 3}
    assert {Path(run.words[-1]).name for run in runs} >= {Path(name).name for name in TARGETS}


@pytest.mark.deep(but=("2",))
@pytest.mark.parametrize("seed", range(3))
def test_a_run_under_a_fault_ends_as_it_must(seed: int, tmp_path: Path) -> None:
    prepare(tmp_path)
    assert wrong_end(random_run(random.Random(seed), tmp_path), tmp_path) == []


@pytest.mark.deep
def test_a_cupy_that_does_not_import_stops_no_simulator(tmp_path: Path) -> None:
    prepare(tmp_path)
    broken = {"PYTHONPATH": str(tmp_path / "cupy"), "LD_LIBRARY_PATH": str(tmp_path / "cupy")}
    verified = ("verify", "permute", "--shape", "6,4", "--axes", "1,0")
    for words, code in ((verified, 0), (("bench", "transpose"), 2)):
        assert wrong_end(Run(words, code, environment=broken), tmp_path) == []
