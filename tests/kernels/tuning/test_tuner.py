"""The search: what is timed, what is retried and recorded, and how it goes on after any end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import ArgumentTypeError, ResourceError, UnsupportedError
from layoutalg.kernels import find_family, tuning
from layoutalg.kernels.tuning.jobs import unslowed
from tests.kernels.tuning import faults
from tests.sweeps import each

PLACE = tuning.model_place("sm_90")
SIZES = (256, 512, 768, 1024)
ALL = 3 * len(SIZES)


def jobs(
    path: Path, top: int = 3, take: Any = None, sizes: tuple[int, ...] = SIZES, **more: Any
) -> list[tuning.Job]:
    problems = [find_family("transpose").problem(n, n, "f32") for n in sizes]
    return list(tuning.jobs_of("transpose", problems, "sm_90", PLACE, top=top, store=path, take=take, **more))


@pytest.mark.deep
def test_a_search_times_the_first_candidates_and_the_same_one_again_times_nothing(
    path: Path, engine: tuning.Engine
) -> None:
    heard: list[tuning.Record] = []
    asked = jobs(path, 2)
    assert tuning.tune(asked, engine, tuning.Store(path), heard=heard.append) == tuning.Summary(timed=8)
    found = list(tuning.Store(path).records().values())
    assert found == heard
    assert {r.key.timing for r in found} == {"model"} and all(r.ns > 0 and not r.failure for r in found)
    assert [r.rank for r in found if "256" in r.problem] == [0, 1]
    assert tuning.tune(jobs(path), engine, tuning.Store(path)) == tuning.Summary(timed=4, known=8)


@pytest.mark.deep
def test_what_fails_costs_an_attempt_and_is_recorded_when_it_fails_again(path: Path) -> None:
    asked = [
        replace(job, rank=n) for n, job in enumerate(jobs(path, 3, faults.faulty, (256, 512), limit_s=1))
    ]
    with tuning.local_engine(1, 1) as engine:
        assert tuning.tune(asked, engine, tuning.Store(path)) == tuning.Summary(timed=2, failed=4, retried=5)
    found = {r.rank: r.failure for r in tuning.Store(path).records().values()}
    assert found[0] == found[4] == "" and found[1] == "no answer within 1 s"
    assert found[2] == f"its process ended with {-signal.SIGSEGV}"
    assert found[3] == "MismatchError: the result is not the libraries': 3 is not 4"
    assert "its worker was lost: BrokenProcessPool" in found[5]


@pytest.mark.deep
def test_a_failure_is_a_result(path: Path, engine: tuning.Engine) -> None:
    job = replace(jobs(path)[0], config="no configuration")
    assert tuning.jobs.build(job).failure and tuning.tune(
        [job], engine, tuning.Store(path)
    ) == tuning.Summary(failed=1)
    wrong = [replace(one, rank=3, take=faults.faulty) for one in jobs(path, 1)[:1]]
    assert tuning.tune(wrong, engine, tuning.Store(path)) == tuning.Summary(failed=1, retried=1)
    assert tuning.tune(wrong, engine, tuning.Store(path)) == tuning.Summary(known=1)


def test_where_no_worker_can_the_search_ends_and_nothing_is_recorded(
    path: Path, engine: tuning.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layoutalg.kernels.tuning.tuner.UNFIT_S", 0.0)
    with pytest.raises(UnsupportedError, match=r"no worker can take these times: .*: it has no GPU"):
        tuning.tune(jobs(path, 3, faults.unfit_first), engine, tuning.Store(path))
    assert not tuning.Store(path).records()


class Gone(ThreadPoolExecutor):
    """Takes jobs and never begins one: its workers are lost."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        self.asked = getattr(self, "asked", 0) + 1
        return Future()


@pytest.mark.deep
def test_a_second_attempt_that_waits_for_lost_workers_is_made_by_the_first(path: Path) -> None:
    gone = Gone(1)
    there = [frozenset({"another"})]
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:

        def timers_on(names: frozenset[str]) -> Gone:
            assert names == {"another"}
            there[:] = [frozenset()]
            return gone

        engine = tuning.Engine(one, other, 1, others=lambda name: there[0] - {name}, timers_on=timers_on)
        wrong = [replace(job, rank=3, take=faults.faulty) for job in jobs(path, 1)[:1]]
        assert tuning.tune(wrong, engine, tuning.Store(path)) == tuning.Summary(failed=1, retried=1)
    assert gone.asked == 1


@pytest.mark.deep
def test_a_budget_ends_a_search_and_the_rest_comes_with_the_next_one(
    path: Path, engine: tuning.Engine
) -> None:
    assert tuning.tune(jobs(path), engine, tuning.Store(path), budget_s=0) == tuning.Summary(left=ALL)
    tuning.tune(jobs(path, 1)[:1], engine, tuning.Store(path))
    first = tuning.tune(jobs(path, 3, faults.slow), engine, tuning.Store(path), budget_s=0.9)
    assert first.left > 0 and first.timed + first.known + first.left == ALL
    assert tuning.tune(jobs(path), engine, tuning.Store(path)) == tuning.Summary(
        timed=first.left, known=first.timed + first.known
    )


def _search(path: Path) -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        tuning.tune(jobs(path, 3, faults.slow), tuning.Engine(one, other, 1), tuning.Store(path))


@pytest.mark.deep
def test_searches_on_one_store_record_each_key_once_even_when_one_is_killed(
    path: Path, engine: tuning.Engine
) -> None:
    fork = multiprocessing.get_context("spawn")
    both = [fork.Process(target=_search, args=(path,)) for _ in range(2)]
    for process in both:
        process.start()
    for _ in range(3000):
        if len(tuning.Store(path).records()) >= 2:
            break
        time.sleep(0.02)
    os.kill(both[0].pid or 0, signal.SIGKILL)
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [-signal.SIGKILL, 0]
    assert len(tuning.Store(path).records()) == ALL == path.read_bytes().count(b"\n") - 1
    assert tuning.tune(jobs(path), engine, tuning.Store(path)) == tuning.Summary(known=ALL)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tuning.local_engine(0).__enter__(), ResourceError),
        (lambda: tuning.local_engine(257).__enter__(), ResourceError),
        (lambda: tuning.local_engine(True).__enter__(), ArgumentTypeError),
        (lambda: tuning.cluster_engine("ftp://host").__enter__(), ArgumentTypeError),
        (lambda: tuning.cluster_engine("ray://127.0.0.1:1").__enter__(), UnsupportedError),
        (lambda: list(tuning.jobs_of("sum", [], "sm_90", PLACE, top=0)), ResourceError),
    ],
)
def test_what_cannot_be_searched_is_refused(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


@each(
    ("rates", "taken", "again"),
    [
        ([4000.0], 4000.0, 0), ([3000.0], 3000.0, 0), ([4000.0, 3900.0], 3900.0, 0),
        ([4000.0, 3700.0, 3900.0], 3900.0, 1), ([4000.0, 3000.0, 3200.0, 3100.0, 3000.0], 3200.0, 3),
        ([3000.0, 4000.0, 3700.0, 3800.0], 3800.0, 1),
    ],
)  # fmt: skip
def test_times_beside_a_slow_copy_are_taken_again(rates: list[float], taken: float, again: int) -> None:
    """The rates of samples in turn; the last configuration is the one that is asked about."""
    fastest: list[float] = []
    rested: list[int] = []
    coming, found = iter(rates), (0.0, 0)
    for _ in range(len(rates) - again):
        found = unslowed(lambda: next(coming), float, fastest, lambda: rested.append(1))
    assert found == (taken, again) and next(coming, None) is None
    assert len(rested) == again and fastest == [max(rates)]


@pytest.fixture(autouse=True)
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.deep
def test_one_that_cannot_is_named_and_the_other_takes_all(path: Path) -> None:
    """However long the other takes for each: the search does not end while somebody works."""
    with tuning.local_engine(2, 1) as engine:
        summary = tuning.tune(jobs(path, 3, faults.unfit_second_gpu), engine, tuning.Store(path))
    assert (summary.timed, summary.failed, summary.retried, summary.left) == (ALL, 0, 0, 0)
    assert list(summary.unfit.values()) == ["it has NVIDIA T4: the search is on NVIDIA H200"]
    assert len(tuning.Store(path).records()) == ALL and not any(
        r.failure for r in tuning.Store(path).records().values()
    )


@pytest.mark.deep
def test_a_search_goes_on_while_one_works_however_many_the_other_turns_away(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    turned: list[tuning.Job] = []

    def attempt(job: tuning.Job, made: tuning.jobs.Built, last: bool) -> tuning.tuner._Attempt:
        if not begun.is_set():
            begun.set()
            while len(turned) < 15:
                time.sleep(0.001)
        elif len(turned) < 15:
            turned.append(job)
            return tuning.tuner._Attempt(None, "host:1", "it has NVIDIA T4")
        return tuning.tuner._Attempt(job.record(made.kernel, times_ns=(1.0,)), "host:2")

    monkeypatch.setattr(tuning.tuner, "_attempt", attempt)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(2) as other:
        summary = tuning.tune(jobs(path), tuning.Engine(one, other, 2), tuning.Store(path))
    assert (summary.timed, summary.unfit) == (ALL, {"host:1": "it has NVIDIA T4"}) and len(turned) == 15


@pytest.mark.deep
def test_where_both_cannot_both_are_named_and_nothing_is_recorded(path: Path) -> None:
    with tuning.local_engine(2, 1) as engine, pytest.raises(UnsupportedError) as refused:
        tuning.tune(jobs(path, 3, faults.unfit_gpu, (256, 512)), engine, tuning.Store(path))
    assert all(f"number {n} has fallen off the bus" in str(refused.value) for n in (0, 1))
    assert not tuning.Store(path).records()


@pytest.mark.deep
def test_where_none_is_there_the_refusal_is_the_workers_own(
    engine: tuning.Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four workers one is ever asked: jobs that are turned away are counted too."""
    for module in (tuning.engines, tuning.tuner):
        monkeypatch.setattr(module, "UNFIT_S", 0.0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(UnsupportedError, match="needs a GPU: it has fallen"):
        tuning.first_of(engine, partial(faults.only_second_gpu, "NVIDIA H200"))
    with pytest.raises(UnsupportedError, match="no worker can take these times"):
        asked = jobs(path, 1, faults.unfit_gpu, (256,))
        tuning.tune(asked, replace(engine, width=4), tuning.Store(path))
