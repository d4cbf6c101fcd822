"""Sweeps: random cases are those of their seeds, are verified once, and one that fails is named by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import MismatchError
from layoutalg.kernels import FAMILIES, find_family, tuning
from layoutalg.kernels.family import Expected
from layoutalg.kernels.identity import data_digest
from layoutalg.kernels.tuning import sweep
from tests.command import answer, run
from tests.stand_ins.engines import lasting_engines


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_random_cases_that_are_those_of_their_seeds(name: str) -> None:
    drawn = [tuning.random_case(find_family(name), seed) for seed in range(5)]
    again = [tuning.random_case(find_family(name), seed) for seed in range(5)]
    assert [(str(p), data_digest(c)) for p, c in drawn] == [(str(p), data_digest(c)) for p, c in again]
    assert len({str(p) for p, _ in drawn}) > 1


def test_a_sweep_runs_what_the_store_lacks(path: Path, engine: tuning.Engine) -> None:
    asked = list(tuning.cases_of("relu", 5, seed=3, store=path))
    assert [job.seed for job in asked] == [3, 4, 5, 6, 7]
    assert tuning.tune(asked[1:3], engine, tuning.Store(path)) == tuning.Summary(timed=2)
    assert tuning.tune(asked, engine, tuning.Store(path)) == tuning.Summary(timed=3, known=2)
    found = list(tuning.Store(path).records().values())
    assert {r.key.place for r in found} == {tuning.SIMULATOR} and all(r.counters["checks"] > 3 for r in found)
    assert all(r.counters["sectors"] > 0 for r in found), "predicted counters are recorded beside"
    assert sorted(r.config.rpartition(" ")[2] for r in found) == list("34567")


def test_a_case_that_is_wrong_is_a_failure_that_names_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    right = find_family("relu")

    def wrong(p: Any, c: Any, given: Any) -> Expected:
        expected = right.expected(p, c, given)
        values = expected.values.copy()
        values.view("u1")[:] ^= 0x80
        return replace(expected, values=values)

    monkeypatch.setattr(sweep, "find_family", lambda name: replace(right, expected=wrong))
    (job,) = tuning.cases_of("relu", 1)
    with pytest.raises(MismatchError, match="simulator: result"):
        tuning.by_verification(job, tuning.build(job))


@pytest.mark.deep
@lasting_engines()
@pytest.mark.usefixtures("here")
def test_the_command_reports_a_failing_case_with_its_seed() -> None:
    words = ("verify", "relu", "--random", "2", "--seed", "8", "--store", "v.jsonl")
    assert answer(*words)["random"] | {"store": ""} == {
        "cases": 2, "seed": 8, "passed": 2, "failed": 0, "known": 0, "left": 0, "store": "",
    }  # fmt: skip
    (job,), failure = tuning.cases_of("relu", 1, seed=10), "MismatchError: 3 is not 4"
    tuning.Store(Path("v.jsonl")).add(job.record(tuning.build(job).kernel, failure=failure))
    words = ("verify", "relu", "--random", "3", "--seed", "8", "--store", "v.jsonl")
    told = run(*words)
    said = " ".join(told.output.split())
    assert told.exit_code == 1 and "2 passed, 1 failed; 3 were in v.jsonl before. FAILED." in said
    assert "layoutalg verify relu --random 1 --seed 10 --store NEW" in said and "seed 10" in said
    found = answer(*words, exit_code=1)
    assert found["reports"][0]["checks"][0]["detail"] == failure
