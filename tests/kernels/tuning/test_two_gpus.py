"""Two GPUs of a host, of which one cannot: fake devices, by the names that the workers see them by."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from layoutalg.errors import UnsupportedError
from layoutalg.kernels import tuning
from tests.kernels.tuning.faults import only_second_gpu, unfit_gpu, unfit_second_gpu
from tests.kernels.tuning.test_tuner import ALL, jobs


@pytest.fixture(autouse=True)
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.deep
def test_one_that_cannot_is_named_and_the_other_takes_all(path: Path) -> None:
    """However long the other takes for each: the search does not end while somebody works."""
    with tuning.local_engine(2, 1) as engine:
        summary = tuning.tune(jobs(path, 3, unfit_second_gpu), engine, tuning.Store(path))
    assert (summary.timed, summary.failed, summary.retried, summary.left) == (ALL, 0, 0, 0)
    assert list(summary.unfit.values()) == ["it has NVIDIA T4: the search is on NVIDIA H200"]
    assert len(tuning.Store(path).records()) == ALL and not any(
        r.failure for r in tuning.Store(path).records().values()
    )


def test_a_search_goes_on_while_one_works_however_many_the_other_turns_away(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    turned: list[tuning.Job] = []

    def attempt(job: tuning.Job, made: tuning.Built, last: bool) -> tuning.tuner._Attempt:
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
        tuning.tune(jobs(path, 3, unfit_gpu, (256, 512)), engine, tuning.Store(path))
    assert all(f"number {n} has fallen off the bus" in str(refused.value) for n in (0, 1))
    assert not tuning.Store(path).records()


@pytest.mark.deep
def test_the_place_of_a_search_is_that_of_a_gpu_that_is_there() -> None:
    with tuning.local_engine(2, 1) as engine:
        assert tuning.first_of(engine, only_second_gpu, ["NVIDIA H200"]) == "NVIDIA H200 1"


def test_where_none_is_there_the_refusal_is_the_workers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning.engines, "UNFIT_S", 0.0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    refused = pytest.raises(UnsupportedError, match="running a kernel needs a GPU: it has fallen")
    with ThreadPoolExecutor(2) as one, ThreadPoolExecutor(2) as other, refused:
        tuning.first_of(tuning.Engine(one, other, 2), only_second_gpu, ["NVIDIA H200"])


@pytest.mark.deep
def test_a_single_job_that_the_same_worker_gets_again_and_again_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four workers one is ever asked: jobs that are turned away are counted too."""
    monkeypatch.setattr(tuning.tuner, "UNFIT_S", 0.0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    refused = pytest.raises(UnsupportedError, match="no worker can take these times")
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other, refused:
        tuning.tune(jobs(path, 1, unfit_gpu, (256,)), tuning.Engine(one, other, 4), tuning.Store(path))
