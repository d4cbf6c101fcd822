"""The fuzz of the algebra by the engines: blocks of seeds, run once for one text of the algebra."""

from __future__ import annotations

from pathlib import Path

import pytest

import layoutalg
from layoutalg.errors import MismatchError, ResourceError, ShapeError
from layoutalg.kernels.identity import code_id
from layoutalg.kernels.tuning import (
    HOST,
    Engine,
    Store,
    Summary,
    fuzz,
    laws_of,
    local_engine,
    lock_of,
    text_digest,
    tune,
)
from layoutalg.kernels.tuning.fuzz import MOST_SEEDS, by_laws, read_algebra
from layoutalg.testing import LAWS, check_law
from tests.command import answer, refusal, run
from tests.stand_ins.engines import lasting_engines


def test_blocks_begin_at_the_same_seeds_whatever_is_asked() -> None:
    blocks = [(job.config.first, job.config.count) for job in laws_of(1200, seed=300)]
    assert blocks == [(300, MOST_SEEDS - 300), (500, 500), (1000, 500)]
    names = {job.name for job in laws_of(3000)} & {job.name for job in laws_of(5000, seed=1000)}
    assert len(names) == 4, "a longer fuzz has the whole blocks of a shorter one"


def test_a_fuzz_runs_what_the_store_lacks(path: Path, engine: Engine) -> None:
    assert tune(laws_of(510, seed=490, store=path), engine, Store(path)) == Summary(timed=2)
    assert tune(laws_of(520, seed=490, store=path), engine, Store(path)) == Summary(timed=1, known=2)
    found = list(Store(path).records().values())
    assert {r.key.place for r in found} == {HOST} and {r.key.family for r in found} == {"algebra"}
    assert [r.counters["cases"] for r in found] == [10, 500, 10]
    assert all(0 < r.counters["held"] < r.counters["cases"] for r in found[1:2])
    assert not lock_of(found).choices, "nothing of it is a timing"


def test_every_law_comes_round() -> None:
    (job,) = laws_of(2 * len(LAWS))
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

    monkeypatch.setattr(fuzz, "check_law", wrong)
    (job,) = laws_of(20, seed=500)
    with pytest.raises(
        MismatchError, match=r"2 of 20 cases fail, those of the seeds 503, 510; the first: .* 503"
    ):
        by_laws(job, read_algebra(job))
    assert asked == [*range(500, 520)]


def test_another_algebra_is_checked_again(
    path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tune(laws_of(5, store=path), engine, Store(path)) == Summary(timed=1)
    monkeypatch.setattr(fuzz, "algebra_digest", lambda: "0" * 64)
    assert tune(laws_of(5, store=path), engine, Store(path)) == Summary(timed=1)
    assert len(Store(path).records()) == 2


def test_the_text_of_every_room_below_the_laws_counts(tmp_path: Path) -> None:
    package = Path(layoutalg.__file__).parent
    texts = {code_id(package / room) for room in fuzz.ROOMS}
    assert len(texts) == len(fuzz.ROOMS) and code_id(tmp_path) not in texts
    assert fuzz.algebra_digest() == text_digest([code_id(package / room) for room in fuzz.ROOMS])


def test_a_budget_leaves_blocks_for_the_next_time(path: Path, engine: Engine) -> None:
    assert tune(laws_of(1500, store=path), engine, Store(path), budget_s=0) == Summary(left=3)


@pytest.mark.deep
def test_processes_check_blocks_beside_each_other(path: Path) -> None:
    with local_engine(2, 1, on_gpus=False) as engine:
        assert tune(laws_of(2000, store=path), engine, Store(path)) == Summary(timed=4)


@pytest.mark.deep
@lasting_engines()
@pytest.mark.usefixtures("here")
def test_the_command() -> None:
    words = ("verify", "algebra", "--random", "30", "--seed", "7", "--store", "v.jsonl")
    told = run(*words)
    said = " ".join(told.output.split())
    assert told.exit_code == 0 and said.endswith("Passed.") and "A law held in " in said
    assert (
        "30 cases of algebra from seed 7 on the host: 30 passed, 0 failed; 0 were in v.jsonl before." in said
    )
    held = int(sum(r.counters["held"] for r in Store(Path("v.jsonl")).records().values()))
    assert answer(*words)["random"] == {
        "cases": 30, "seed": 7, "passed": 30, "failed": 0, "known": 30, "left": 0, "store": "v.jsonl",
        "compared": held, "equal": held,
    }  # fmt: skip
    (job,) = laws_of(5, seed=100)
    Store(Path("v.jsonl")).add(
        job.record(read_algebra(job).kernel, failure="MismatchError: 1 of 5 cases fail")
    )
    told = run("verify", "algebra", "--random", "5", "--seed", "100", "--store", "v.jsonl")
    said = " ".join(told.output.split())
    assert told.exit_code == 1 and said.endswith("FAILED.") and "0 passed, 5 failed (whole blocks" in said
    assert "layoutalg verify algebra --random 5 --seed 100 --store NEW" in said
    (report,) = answer(
        "verify", "algebra", "--random", "5", "--seed", "100", "--store", "v.jsonl", exit_code=1
    )["reports"]
    assert report["target"] == "host" and report["checks"][0]["detail"].endswith("1 of 5 cases fail")
    told = run("verify", "algebra", "--random", "1", "--seed", "1", "--store", "v.jsonl")
    assert told.exit_code == 1  # the law refuses these operands: nothing was verified
    assert "Not passed: there are no cases in which a law says something." in told.output


@lasting_engines()
@pytest.mark.usefixtures("here")
def test_cases_in_which_no_law_was_compared_do_not_pass() -> None:
    (job,) = laws_of(3)
    built = read_algebra(job)
    empty = {**built.counters, "cases": 3.0, "held": 0.0, "undefined": 3.0}
    Store(Path("v.jsonl")).add(job.record(built.kernel, times_ns=(1.0,), counters=empty))
    words = ("verify", "algebra", "--random", "3", "--store", "v.jsonl")
    told = run(*words)
    assert told.exit_code == 1 and "there are no cases in which a law says" in told.output
    shown = answer(*words, exit_code=1)
    assert not shown["passed"] and shown["random"]["compared"] == 0


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("algebra",), "UnsupportedError", "algebra goes with random cases"),
        (("algebra", "--random", "0"), "ResourceError", "cases of a sweep"),
        (("algebra", "--random", "5", "--seed", "-1"), "ShapeError", "seeds count from 0"),
        (("algebra", "--random", "5", "--target", "gpu"), "UnsupportedError", "on the host"),
        (("algebra", "--random", "5", "--counters"), "UnsupportedError", "on the host"),
        (("algebra", "--random", "5", "--dtype", "f16"), "UnsupportedError", "give it the family alone"),
        (("relu", "--stop-after", "9m"), "UnsupportedError", "--stop-after goes with random cases"),
        (("relu", "--random", "5", "--stop-after", "soon"), "ParseError", "cannot read the time 'soon'"),
    ],
)
def test_what_is_no_fuzz_is_refused(words: tuple[str, ...], error: str, said: str) -> None:
    kind, text = refusal("verify", *words)[:2]
    assert kind == error and said in text


def test_a_fuzz_of_nothing_is_refused() -> None:
    for count, seed, error in ((0, 0, ResourceError), (10**8, 0, ResourceError), (1, -1, ShapeError)):
        with pytest.raises(error):
            next(laws_of(count, seed=seed))
