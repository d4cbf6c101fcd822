"""A Ray cluster of local processes, without a GPU: a search, the same again, and a worker that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.kernels.tuning import Store, Summary, cluster_engine, tune
from tests.kernels.test_tuning import ALL, jobs
from tests.kernels.tuning_faults import faulty

ray = pytest.importorskip("ray", reason="pip install ray brings it")

pytestmark = pytest.mark.deep


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
    yield ray
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_search_by_ray_records_all_and_what_takes_its_worker_with_it_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    killing = [replace(jobs(path, 1, faulty, (1280,))[0], rank=5)]
    with cluster_engine("ray", on_gpus=False) as engine:
        assert tune(jobs(path), engine, Store(path)) == Summary(timed=ALL)
        assert tune(jobs(path), engine, Store(path)) == Summary(known=ALL)
        assert tune(killing, engine, Store(path)) == Summary(failed=1, retried=1)
    (failure,) = (r.failure for r in Store(path).records().values() if r.failure)
    assert failure.startswith("its worker was lost: ")
