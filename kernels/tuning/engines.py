"""The engines of a search: processes of this host, a Dask cluster, a Ray cluster; each is two executors.

    with local_engine(gpus=4) as engine: ...             a process per core, one per GPU
    with cluster_engine("tcp://host:8786") as engine: ...

The idea.  A search needs workers that build kernels, without a GPU, and workers that time them, one at a
time on each GPU.  Both are a `concurrent.futures.Executor`; its implementation, a pool or a scheduler of
another project, starts the processes, moves the data and says which of them have died.  No scheduler is
written here.

In a pool, a process per GPU sees that GPU alone (CUDA_VISIBLE_DEVICES), those that build see none.  In a Dask
cluster, workers with the resource GPU time (`dask worker HOST --resources GPU=1 --nthreads 1`), all of them
build, and DASK_DISTRIBUTED__WORKER__DAEMON=False lets a worker start the child that takes times.

Who failed at a job can be avoided: of a Dask cluster a worker, by its address; of a Ray cluster a whole node,
by the label that holds its name, since Ray says of no process or GPU of a node that a task shall not have it.

Sources: distributed.dask.org, "Worker Resources", "Client.get_executor"; docs.ray.io, "ObjectRef.future",
"Use labels to control scheduling".
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

from layoutalg.errors import ArgumentTypeError, ResourceError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.optional import import_trouble, loaded
from layoutalg.tools import Processes, end_with_parent

UNFIT_S = 2.0
"""The seconds for which a worker that cannot do a job holds its answer, so that others take the next ones."""

NODE = "ray.io/node-id"
"""The label of a node of a Ray cluster that holds its name."""

CONNECT_S = 10
"""The seconds in which a scheduler has to answer."""


@dataclass
class Engine:
    """Executors that build and that take times, and how many jobs the latter work on at once.

    `new_builders` and `new_timers` make them anew when they are broken, as a pool is of which a process was
    killed; a cluster mends itself. `others` are the names of those that take times (`worker_name`) but for
    one, `timers_on` takes times on one of those alone. `losses` are the errors by which a library says that
    a worker was lost.

    >>> with local_engine(2) as engine:
    ...     engine.width
    2
    """

    builders: Executor
    timers: Executor
    width: int
    new_builders: Callable[[], Executor] | None = None
    new_timers: Callable[[], Executor] | None = None
    others: Callable[[str], frozenset[str]] | None = None
    timers_on: Callable[[frozenset[str]], Executor] | None = None
    losses: tuple[type[Exception], ...] = ()

    def elsewhere(self, worker: str) -> frozenset[str]:
        """The names of the others that take times, where they can be chosen among."""
        return self.others(worker) if worker and self.others is not None else frozenset()

    def renew(self, broken: Executor) -> None:
        """Make an executor anew that is broken, where that is ours to do and was not done."""
        if broken is self.builders and self.new_builders is not None:
            broken.shutdown(wait=False)
            self.builders = self.new_builders()
        if broken is self.timers and self.new_timers is not None:
            broken.shutdown(wait=False)
            self.timers = self.new_timers()


@contextlib.contextmanager
def local_engine(gpus: int = 1, builders: int | None = None, *, on_gpus: bool = True) -> Iterator[Engine]:
    """Processes of this host: as many that build as there are cores, and one that times for each GPU, or so
    many that need none.

    Raises ResourceError for a number of GPUs that no host has.

    >>> with local_engine(1, 1) as engine:
    ...     engine.builders.submit(abs, -3).result()
    3
    """
    if isinstance(gpus, bool) or not isinstance(gpus, int):
        raise ArgumentTypeError(f"gpus = {gpus!r}: an int is needed")
    Most.PARTS.integer(gpus, "number of GPUs of a host")
    cores = builders or len(os.sched_getaffinity(0))
    spawn = Processes()

    def pool(count: int, begin: str, *given: Any) -> Executor:
        return ProcessPoolExecutor(count, spawn, end_with_parent, (f"{__name__}:{begin}", *given))

    def timers() -> Executor:
        if not on_gpus:
            return pool(gpus, "_see_none")
        devices = spawn.Queue()
        for device in visible_devices(gpus):
            devices.put(device)
        return pool(gpus, "_see_one", devices)

    building = partial(pool, cores, "_see_none")
    engine = Engine(building(), timers(), gpus, building, timers)
    try:
        yield engine
    finally:
        for executor in (engine.builders, engine.timers):
            executor.shutdown(wait=True, cancel_futures=True)


def visible_devices(gpus: int, environ: dict[str, str] | None = None) -> list[str]:
    """Names of the first GPUs, of those that this process may see where it may not see all.

    >>> visible_devices(2, {}), visible_devices(2, {"CUDA_VISIBLE_DEVICES": "3,GPU-5e,7"})
    (['0', '1'], ['3', 'GPU-5e'])
    """
    seen = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES", "")
    named = [word.strip() for word in seen.split(",") if word.strip()]
    if named and gpus > len(named):
        raise ResourceError("number of GPUs that CUDA_VISIBLE_DEVICES names", gpus, len(named))
    return named[:gpus] or [str(number) for number in range(gpus)]


def _see_none() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def _see_one(devices: Any) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = devices.get(timeout=60)


@contextlib.contextmanager
def cluster_engine(address: str, *, on_gpus: bool = True) -> Iterator[Engine]:
    """A cluster by its address: tcp:// or tls:// of a Dask scheduler, ray:// or "ray" of a Ray cluster.

    Raises UnsupportedError where its library is not installed, the scheduler does not answer, or no worker
    has a GPU; ArgumentTypeError for another address.

    >>> with cluster_engine("http://host"):
    ...     pass
    Traceback (most recent call last):
    ...
    layoutalg.errors.ArgumentTypeError: the scheduler 'http://host': tcp://, tls:// and ray:// are accepted
    """
    scheme = address.partition(":")[0]
    if scheme in ("tcp", "tls"):
        with _dask(address, on_gpus=on_gpus) as engine:
            yield engine
    elif scheme == "ray":
        yield _ray(address, on_gpus=on_gpus)
    else:
        raise ArgumentTypeError(f"the scheduler {address[:80]!r}: tcp://, tls:// and ray:// are accepted")


@contextlib.contextmanager
def _dask(address: str, *, on_gpus: bool) -> Iterator[Engine]:
    if trouble := import_trouble("distributed", "pip install 'layoutalg[tune]' brings it"):
        raise UnsupportedError(f"a Dask scheduler needs its library: {trouble}")
    import distributed

    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UnsupportedError(f"the scheduler {address} cannot be reached: {reason}") from error
    with client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        timing = [one for one in workers.values() if not on_gpus or one["resources"].get("GPU")]
        if not timing:
            raise UnsupportedError(
                f"none of the {len(workers)} workers of {address} has a GPU: start some with "
                "`dask worker ADDRESS --resources GPU=1 --nthreads 1`"
            )
        needs = {"resources": {"GPU": 1}} if on_gpus else {}
        builders = client.get_executor(pure=False, retries=0)
        timers: Executor = client.get_executor(pure=False, retries=0, **needs)

        lost = (distributed.KilledWorker,)

        def others(worker: str) -> frozenset[str]:
            now = client.scheduler_info(n_workers=-1)["workers"].items()
            able = (name for name, one in now if not on_gpus or one["resources"].get("GPU"))
            return frozenset(able) - {worker}

        def timers_on(names: frozenset[str]) -> Executor:
            executor: Executor = client.get_executor(pure=False, retries=0, workers=sorted(names), **needs)
            return executor

        yield Engine(builders, timers, len(timing), others=others, timers_on=timers_on, losses=lost)


class _RayExecutor(Executor):
    """Tasks of a Ray cluster, each with so many GPUs, on some of its nodes alone where these are given."""

    def __init__(self, ray: Any, gpus: int, nodes: frozenset[str] = frozenset()) -> None:
        self.ray, self.gpus, self.nodes = ray, gpus, nodes

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """A task that is not tried again, and is given back when it is cancelled before it has ended."""
        needs: dict[str, Any] = {"num_gpus": self.gpus, "max_retries": 0}
        if self.nodes:
            needs["label_selector"] = {NODE: f"in({','.join(sorted(self.nodes))})"}
        reference = self.ray.remote(**needs)(fn).remote(*args, **named)
        future: Future[Any] = reference.future()
        future.add_done_callback(lambda done: self.ray.cancel(reference) if done.cancelled() else None)
        return future


def _ray(address: str, *, on_gpus: bool) -> Engine:
    if trouble := import_trouble("ray", "pip install ray brings it"):
        raise UnsupportedError(f"a Ray cluster needs its library: {trouble}")
    import ray

    try:
        ray.init(address="auto" if address == "ray" else address, ignore_reinit_error=True)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UnsupportedError(f"the scheduler {address} cannot be reached: {error}") from error
    resources = ray.cluster_resources()
    resource, gpus = "GPU" if on_gpus else "CPU", 1 if on_gpus else 0
    width = int(resources.get(resource, 0))
    if not width:
        raise UnsupportedError(f"no node of {address} has a GPU")

    def others(node: str) -> frozenset[str]:
        able = (other for other in ray.nodes() if other["Alive"] and other["Resources"].get(resource))
        return frozenset(other["NodeID"] for other in able) - {node}

    def timers_on(nodes: frozenset[str]) -> Executor:
        return _RayExecutor(ray, gpus, nodes)

    builders, timers = _RayExecutor(ray, 0), _RayExecutor(ray, gpus)
    engine = Engine(builders, timers, width, losses=(ray.exceptions.RayError,))
    if _chooses_nodes(ray):
        engine.others, engine.timers_on = others, timers_on
    return engine


def _chooses_nodes(ray: Any) -> bool:
    """Whether this version places tasks by the label that every node has with its own name."""
    try:
        ray.remote(label_selector={NODE: "in(some)"})(worker_name)
    except (TypeError, ValueError):
        return False
    return all(NODE in node.get("Labels", {}) for node in ray.nodes() if node["Alive"])


def worker_name() -> str:
    """Return the name of a worker: its address in a Dask cluster, its node in a Ray cluster, otherwise host
    and process.

    >>> worker_name() == worker_name()
    True
    """
    get_worker = loaded("distributed", "get_worker")
    if get_worker is not None:
        with contextlib.suppress(ValueError):
            return str(get_worker().address)
    if (initialized := loaded("ray", "is_initialized")) is not None and initialized():
        return str(loaded("ray", "get_runtime_context")().get_node_id())
    return f"{socket.gethostname()}:{os.getpid()}"


def first_of(engine: Engine, function: Callable[[], Any]) -> Any:
    """Return the answer of the first timer that can give one; raise the last refusal where none can.

    >>> with local_engine(1, 1) as engine:
    ...     first_of(engine, int)
    0
    """
    waiting = {engine.timers.submit(_said, function) for _ in range(engine.width)}
    refusal: UnsupportedError | None = None
    try:
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    return future.result()
                except UnsupportedError as error:
                    refusal = error
    finally:
        for future in waiting:
            future.cancel()
    raise refusal or UnsupportedError("nobody takes times")


def _said(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except UnsupportedError:
        time.sleep(UNFIT_S)
        raise
