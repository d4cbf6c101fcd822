"""A Dask cluster of local processes, without a GPU: a worker is killed, the scheduler is started again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.tuning import Record, Store, Summary, cluster_engine, tune
from tests.kernels.tuning.faults import only_elsewhere, slow, unfit_first
from tests.kernels.tuning.test_tuner import ALL, jobs

distributed = pytest.importorskip("distributed", reason="pip install 'layoutalg[tune]' brings it")


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Any]:

    import dask

    own = {"distributed.worker.daemon": False, "distributed.scheduler.allowed-failures": 1}
    with (
        dask.config.set(own),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
            local_directory=str(folder), host="127.0.0.1",
        ) as made,
    ):  # fmt: skip
        yield made


@pytest.mark.deep
def test_a_killed_worker_loses_nothing_and_repeats_nothing(path: Path, tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        killed: list[int] = []

        def kill() -> None:
            for _ in range(3000):
                if len(Store(path).records()) >= 2:
                    break
                time.sleep(0.02)
            for worker in list(made.workers.values())[:1]:
                killed.append(worker.process.pid)
                os.kill(worker.process.pid, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        heard: list[Record] = []
        with cluster_engine(made.scheduler_address, on_gpus=False) as engine:
            summary = tune(jobs(path, 3, slow), engine, Store(path), heard=heard.append)
        thread.join()
        assert killed and summary.timed == ALL and summary.failed == 0
        assert len(heard) == ALL == len(Store(path).records()) == path.read_bytes().count(b"\n") - 1
    with cluster(tmp_path, 1) as again, cluster_engine(again.scheduler_address, on_gpus=False) as engine:
        assert tune(jobs(path), engine, Store(path)) == Summary(known=ALL)


@pytest.mark.deep
def test_what_fails_is_tried_again_by_another_worker_and_one_that_cannot_is_named(
    path: Path, tmp_path: Path
) -> None:
    with cluster(tmp_path) as made, cluster_engine(made.scheduler_address, on_gpus=False) as engine:
        asked = jobs(path, 3, only_elsewhere, (256,))
        assert tune(asked, engine, Store(path)) == Summary(timed=3, retried=3)
        summary = tune(jobs(path, 3, unfit_first, (512, 768, 1024)), engine, Store(path))
    assert (summary.timed, summary.failed, summary.retried) == (9, 0, 0)
    assert list(summary.unfit.values()) == ["it has no GPU"]


def test_a_cluster_without_a_gpu_and_a_scheduler_that_is_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from layoutalg.kernels.tuning import engines

    monkeypatch.setattr(engines, "CONNECT_S", 1)
    with pytest.raises(UnsupportedError, match="cannot be reached"):
        cluster_engine("tcp://127.0.0.1:9").__enter__()
    with cluster(tmp_path, 1) as made, pytest.raises(UnsupportedError, match="none of the 1 workers"):
        cluster_engine(made.scheduler_address).__enter__()
