"""The fuzz of the algebra by the engines: blocks of seeds, run once for one text of the algebra."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import layoutalg
from layoutalg.errors import MismatchError
from layoutalg.kernels import FAMILIES, find_family, tuning
from layoutalg.kernels.checks import checks_of, record
from layoutalg.kernels.checks.record import Expected
from layoutalg.kernels.identity import code_id, data_digest
from layoutalg.kernels.tuning.sweep import MOST_SEEDS, by_laws, read_algebra
from layoutalg.testing import LAWS, check_law
from tests.command import answer, refusal, run
from tests.stand_ins.engines import lasting_engines
from tests.sweeps import each


def test_blocks_begin_at_the_same_seeds_whatever_is_asked() -> None:
    blocks = [(job.config.first, job.config.count) for job in tuning.laws_of(1200, seed=300)]
    assert blocks == [(300, MOST_SEEDS - 300), (500, 500), (1000, 500)]
    names = {job.name for job in tuning.laws_of(3000)} & {job.name for job in tuning.laws_of(5000, seed=1000)}
    assert len(names) == 4, "a longer fuzz has the whole blocks of a shorter one"


def test_a_fuzz_runs_what_the_store_lacks(path: Path, engine: tuning.Engine) -> None:
    assert tuning.tune(
        tuning.laws_of(510, seed=490, store=path), engine, tuning.Store(path)
    ) == tuning.Summary(timed=2)
    assert tuning.tune(
        tuning.laws_of(520, seed=490, store=path), engine, tuning.Store(path)
    ) == tuning.Summary(timed=1, known=2)
    found = list(tuning.Store(path).records().values())
    assert {r.key.place for r in found} == {tuning.HOST} and {r.key.family for r in found} == {"algebra"}
    assert [r.counters["cases"] for r in found] == [10, 500, 10]
    assert all(0 < r.counters["held"] < r.counters["cases"] for r in found[1:2])
    assert not tuning.lock_of(found).choices, "nothing of it is a timing"


def test_every_law_comes_round() -> None:
    (job,) = tuning.laws_of(2 * len(LAWS))
    _, counters = by_laws(job, read_algebra(job))
    held = sum(check_law([*LAWS][seed % len(LAWS)], seed) for seed in range(2 * len(LAWS)))
    assert counters["held"] == held and counters["undefined"] == 2 * len(LAWS) - held


def test_a_case_that_fails_names_its_seed_and_the_rest_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def wrong(name: str, seed: int) -> bool:
        asked.append(seed)
        if seed in (503, 510):
            raise MismatchError(f"{name}: it does not hold of 4:1, seed {seed}")
        return True

    monkeypatch.setattr(tuning.sweep, "check_law", wrong)
    (job,) = tuning.laws_of(20, seed=500)
    with pytest.raises(MismatchError, match=r"2 of 20 .* 503, 510; the first: .* 503"):
        by_laws(job, read_algebra(job))
    assert asked == [*range(500, 520)]


def test_another_algebra_is_checked_again(
    path: Path, engine: tuning.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuning.tune(tuning.laws_of(5, store=path), engine, tuning.Store(path)) == tuning.Summary(timed=1)
    monkeypatch.setattr(tuning.sweep, "algebra_digest", lambda: "0" * 64)
    assert tuning.tune(tuning.laws_of(5, store=path), engine, tuning.Store(path)) == tuning.Summary(timed=1)
    assert len(tuning.Store(path).records()) == 2


def test_the_text_of_every_room_below_the_laws_counts(tmp_path: Path) -> None:
    package = Path(layoutalg.__file__).parent
    texts = {code_id(package / room) for room in tuning.sweep.ROOMS}
    assert len(texts) == len(tuning.sweep.ROOMS) and code_id(tmp_path) not in texts
    assert tuning.sweep.algebra_digest() == tuning.store.text_digest(
        [code_id(package / room) for room in tuning.sweep.ROOMS]
    )


def said_of(*words: str, exit_code: int) -> str:
    """What a command prints, in one line."""
    told = run("verify", "algebra", *words, "--store", "v.jsonl")
    assert told.exit_code == exit_code
    return " ".join(told.output.split())


@pytest.mark.deep
@lasting_engines()
@pytest.mark.usefixtures("here")
def test_the_command() -> None:
    assert said_of("--random", "30", "--seed", "7", exit_code=0).endswith("Passed.")
    held = int(sum(r.counters["held"] for r in tuning.Store(Path("v.jsonl")).records().values()))
    words = ("verify", "algebra", "--random", "30", "--seed", "7", "--store", "v.jsonl")
    assert answer(*words)["random"] == {
        "cases": 30, "seed": 7, "passed": 30, "failed": 0, "known": 30, "left": 0, "store": "v.jsonl",
        "compared": held, "equal": held, "missing": None,
    }  # fmt: skip
    (job,) = tuning.laws_of(5, seed=100)
    failure = "MismatchError: 1 of 5 cases fail"
    tuning.Store(Path("v.jsonl")).add(job.record(read_algebra(job).kernel, failure=failure))
    said = said_of("--random", "5", "--seed", "100", exit_code=1)
    assert said.endswith("FAILED.") and "0 passed, 5 failed (whole blocks" in said
    assert "layoutalg verify algebra --random 5 --seed 100 --store NEW" in said
    shown = answer("verify", "algebra", "--random", "5", "--seed", "100", "--store", "v.jsonl", exit_code=1)
    assert shown["reports"][0]["target"] == "host" and failure in str(shown["reports"][0]["checks"])


@pytest.mark.deep
@lasting_engines()
@pytest.mark.usefixtures("here")
def test_cases_in_which_no_law_was_compared_do_not_pass() -> None:
    """The law refuses the operands of the first seed; of the others it is said so."""
    (job,) = tuning.laws_of(3)
    built = read_algebra(job)
    empty = {**built.counters, "cases": 3.0, "held": 0.0, "undefined": 3.0}
    tuning.Store(Path("v.jsonl")).add(job.record(built.kernel, times_ns=(1.0,), counters=empty))
    for words in (("1", "--seed", "1"), ("3",)):
        assert "no cases in which a law says" in said_of("--random", *words, exit_code=1)
    shown = answer("verify", "algebra", "--random", "3", "--store", "v.jsonl", exit_code=1)
    assert not shown["passed"] and shown["random"]["compared"] == 0


@each(
    ("words", "error", "said"),
    [
        (("algebra",), "UnsupportedError", "random cases"),
        (("algebra", "--random", "0"), "ResourceError", "cases of a sweep"),
        (("algebra", "--random", f"{10**8}"), "ResourceError", "cases of a sweep"),
        (("algebra", "--random", "5", "--seed", "-1"), "ShapeError", "seeds count from 0"),
        (("algebra", "--random", "5", "--target", "gpu"), "UnsupportedError", "on the host"),
        (("algebra", "--random", "5", "--counters"), "UnsupportedError", "on the host"),
        (("algebra", "--random", "5", "--dtype", "f16"), "UnsupportedError", "the family alone"),
        (("relu", "--stop-after", "9m"), "UnsupportedError", "random cases"),
        (("relu", "--random", "5", "--stop-after", "soon"), "ParseError", "the time 'soon'"),
        (("relu", "--random", "0"), "ResourceError", "cases of a sweep"),
        (("relu", "--random", f"{10**8}"), "ResourceError", "cases of a sweep"),
        (("relu", "--random", "5", "--seed", "-1"), "ShapeError", "seeds count from 0"),
        (("relu", "--random", "3", "--shape", "3,4"), "UnsupportedError", "the family alone"),
        (("relus", "--random", "3"), "UnknownNameError", "relus"),
        (("relu", "--random", "3", "--workers", "0"), "ResourceError", "GPUs of a host"),
    ],
    sample=9,
)
def test_what_is_no_fuzz_and_no_sweep_is_refused(words: tuple[str, ...], error: str, said: str) -> None:
    kind, text = refusal("verify", *words)[:2]
    assert kind == error and said in text


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_random_cases_that_are_those_of_their_seeds(name: str) -> None:
    drawn = [tuning.sweep.random_case(find_family(name), seed) for seed in range(5)]
    again = [tuning.sweep.random_case(find_family(name), seed) for seed in range(5)]
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
    right = checks_of(find_family("relu"))

    def wrong(p: Any, c: Any, given: Any) -> Expected:
        expected = right.expected(p, c, given)
        values = expected.values.copy()
        values.view("u1")[:] ^= 0x80
        return replace(expected, values=values)

    monkeypatch.setattr(record, "checks_of", lambda family: replace(right, expected=wrong))
    (job,) = tuning.cases_of("relu", 1)
    with pytest.raises(MismatchError, match="simulator: result"):
        tuning.sweep.by_verification(job, tuning.jobs.build(job))


@pytest.mark.deep
@lasting_engines()
@pytest.mark.usefixtures("here")
def test_the_command_reports_a_failing_case_with_its_seed() -> None:
    words = ("verify", "relu", "--random", "2", "--seed", "8", "--store", "v.jsonl")
    assert answer(*words)["random"] | {"store": ""} == {
        "cases": 2, "seed": 8, "passed": 2, "failed": 0, "known": 0, "left": 0, "store": "",
        "compared": None, "equal": None, "missing": None,
    }  # fmt: skip
    (job,), failure = tuning.cases_of("relu", 1, seed=10), "MismatchError: 3 is not 4"
    tuning.Store(Path("v.jsonl")).add(job.record(tuning.jobs.build(job).kernel, failure=failure))
    words = ("verify", "relu", "--random", "3", "--seed", "8", "--store", "v.jsonl")
    told = run(*words)
    said = " ".join(told.output.split())
    assert told.exit_code == 1 and "2 passed, 1 failed; 3 were in v.jsonl before. FAILED." in said
    assert "layoutalg verify relu --random 1 --seed 10 --store NEW" in said and "seed 10" in said
    found = answer(*words, exit_code=1)
    assert found["reports"][0]["checks"][0]["detail"] == failure
