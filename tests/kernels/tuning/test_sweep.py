"""Sweeps: random cases are those of their seeds, are verified once, and one that fails is named by it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from layoutalg.errors import MismatchError, ResourceError, ShapeError
from layoutalg.kernels import FAMILIES, find_family, tuning
from layoutalg.kernels.family import Expected
from layoutalg.kernels.identity import data_digest
from tests.command import answer, refusal, run
from tests.stand_ins.engines import lasting_engines


@pytest.fixture(scope="module")
def engine() -> Iterator[tuning.Engine]:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        yield tuning.Engine(one, other, 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_random_cases_that_are_those_of_their_seeds(name: str) -> None:
    drawn = [tuning.random_case(find_family(name), seed) for seed in range(5)]
    again = [tuning.random_case(find_family(name), seed) for seed in range(5)]
    assert [(str(p), data_digest(c)) for p, c in drawn] == [(str(p), data_digest(c)) for p, c in again]
    assert len({str(p) for p, _ in drawn}) > 1


def test_a_sweep_runs_what_the_store_lacks(path: Path, engine: tuning.Engine) -> None:
    sweep = list(tuning.cases_of("relu", 5, seed=3, store=path))
    assert [job.seed for job in sweep] == [3, 4, 5, 6, 7]
    assert tuning.tune(sweep[1:3], engine, tuning.Store(path)) == tuning.Summary(timed=2)
    assert tuning.tune(sweep, engine, tuning.Store(path)) == tuning.Summary(timed=3, known=2)
    found = list(tuning.Store(path).records().values())
    assert {r.key.place for r in found} == {tuning.SIMULATOR} and all(r.counters["checks"] > 3 for r in found)
    assert all(r.counters["sectors"] > 0 for r in found), "predicted counters are recorded beside"
    assert sorted(r.config.rpartition(" ")[2] for r in found) == list("34567")


def test_a_case_that_is_wrong_is_a_failure_that_names_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    from layoutalg.kernels.tuning import sweep

    (job,) = tuning.cases_of("relu", 1)
    wrong = replace(
        find_family("relu"), expected=lambda p, c, given: _off(find_family("relu").expected(p, c, given))
    )
    monkeypatch.setattr(sweep, "find_family", lambda name: wrong)
    with pytest.raises(MismatchError, match=r"relu of .* on the simulator: result"):
        tuning.by_verification(job, tuning.build(job))


def _off(expected: Expected) -> Expected:
    values = expected.values.copy()
    values.view("u1")[:] ^= 0x80
    return replace(expected, values=values)


@pytest.mark.deep
@lasting_engines()
@pytest.mark.usefixtures("here")
def test_the_command_reports_a_failing_case_with_its_seed() -> None:
    words = ("verify", "relu", "--random", "2", "--seed", "8", "--store", "v.jsonl")
    assert answer(*words)["random"] | {"store": ""} == {
        "cases": 2, "seed": 8, "passed": 2, "failed": 0, "known": 0, "left": 0, "store": "",
    }  # fmt: skip
    (job,) = tuning.cases_of("relu", 1, seed=10)
    tuning.Store(Path("v.jsonl")).add(
        job.record(tuning.build(job).kernel, failure="MismatchError: 3 is not 4")
    )
    told = run("verify", "relu", "--random", "3", "--seed", "8", "--store", "v.jsonl")
    said = " ".join(told.output.split())
    assert told.exit_code == 1 and "2 passed, 1 failed; 3 were in v.jsonl before. FAILED." in said
    assert "layoutalg verify relu --random 1 --seed 10 --store NEW" in said and "seed 10" in said
    found = answer("verify", "relu", "--random", "3", "--seed", "8", "--store", "v.jsonl", exit_code=1)
    assert found["reports"][0]["checks"][0]["detail"] == "MismatchError: 3 is not 4"


def test_what_is_no_sweep_is_refused() -> None:
    for count, seed, error in ((0, 0, ResourceError), (10**8, 0, ResourceError), (1, -1, ShapeError)):
        with pytest.raises(error):
            next(tuning.cases_of("relu", count, seed=seed))
    assert refusal("verify", "relu", "--random", "3", "--shape", "3,4")[0] == "UnsupportedError"
    assert refusal("verify", "relus", "--random", "3")[0] == "UnknownNameError"
    assert refusal("verify", "relu", "--random", "3", "--workers", "0")[0] == "ResourceError"
