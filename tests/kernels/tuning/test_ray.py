"""A Ray cluster of local processes, without a GPU: a search, the same again, a worker that is lost, and nodes
that fail; two nodes are two of Ray's daemons on this host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.kernels.tuning import Store, Summary, cluster_engine, tune
from tests.kernels.tuning.faults import always_wrong, faulty, only_elsewhere, slow, unfit_first
from tests.kernels.tuning.test_tuner import ALL, jobs

ray = pytest.importorskip("ray", reason="pip install ray brings it")

pytestmark = pytest.mark.deep


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8
    )
    yield ray
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_search_by_ray_records_all_and_what_takes_its_worker_with_it_is_a_failure(path: Path) -> None:
    killing = [replace(jobs(path, 1, faulty, (1280,))[0], rank=5)]
    with cluster_engine("ray", on_gpus=False) as engine:
        assert tune(jobs(path), engine, Store(path)) == Summary(timed=ALL)
        assert tune(jobs(path), engine, Store(path)) == Summary(known=ALL)
        assert tune(killing, engine, Store(path)) == Summary(failed=1, retried=1)
    (failure,) = (r.failure for r in Store(path).records().values() if r.failure)
    assert failure.startswith("its worker was lost: ")


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of two nodes of a CPU each, whose driver is connected."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    own = {"num_cpus": 1, "object_store_memory": 10**8}
    made = Cluster(initialize_head=True, head_node_args={**own, "include_dashboard": False})
    made.second = made.add_node(**own)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.usefixtures("two_nodes")
def test_what_fails_on_a_node_is_tried_again_on_another(path: Path) -> None:
    with cluster_engine("ray", on_gpus=False) as engine:
        asked = jobs(path, 3, only_elsewhere, (256,))
        assert tune(asked, engine, Store(path)) == Summary(timed=3, retried=3)
        wrong = jobs(path, 3, always_wrong, (512,))
        assert tune(wrong, engine, Store(path)) == Summary(failed=3, retried=3)
    for job in wrong:
        first, second = Path(f"{path}.{job.rank}.nodes").read_text().split()
        assert first != second


@pytest.mark.usefixtures("two_nodes")
def test_a_node_that_cannot_is_named_and_the_other_goes_on(path: Path) -> None:
    nodes = {one["NodeID"] for one in ray.nodes()}
    with cluster_engine("ray", on_gpus=False) as engine:
        summary = tune(jobs(path, 3, unfit_first), engine, Store(path))
    assert (summary.timed, summary.failed, summary.retried) == (ALL, 0, 0)
    assert list(summary.unfit.values()) == ["it has no GPU"] and set(summary.unfit) < nodes


def test_what_waits_for_a_node_that_has_gone_is_made_by_those_that_are_left(
    two_nodes: Any, path: Path
) -> None:
    """The second attempt has to be on the second node, which leaves before it can begin."""
    with cluster_engine("ray", on_gpus=False) as engine:
        (gone,) = {one["NodeID"] for one in ray.nodes()} - {ray.get_runtime_context().get_node_id()}
        waiting = engine.timers_on
        assert waiting is not None

        def timers_on(names: frozenset[str]) -> Any:
            if names == {gone}:
                two_nodes.remove_node(two_nodes.second)
            return waiting(names)

        here = waiting(frozenset({ray.get_runtime_context().get_node_id()}))
        pinned = replace(engine, timers=here, timers_on=timers_on)
        asked = jobs(path, 1, always_wrong, (256,))
        assert tune(asked, pinned, Store(path)) == Summary(failed=1, retried=1)
        assert gone not in engine.elsewhere("")
    assert [r.failure for r in Store(path).records().values()]


@pytest.mark.usefixtures("cluster")
def test_of_one_node_the_second_attempt_is_by_any_of_its_workers(path: Path) -> None:
    with cluster_engine("ray", on_gpus=False) as engine:
        assert engine.elsewhere(ray.get_runtime_context().get_node_id()) == frozenset()
        asked = jobs(path, 1, always_wrong, (256,))
        assert tune(asked, engine, Store(path)) == Summary(failed=1, retried=1)
        assert tune(jobs(path, 1, slow, (512,)), engine, Store(path)) == Summary(timed=1)
