"""Takers of times that fail in every way that a configuration can, for the tests of the search."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from layoutalg.errors import MismatchError, UnsupportedError
from layoutalg.kernels.tuning import Job
from layoutalg.kernels.tuning.jobs import Built, UnfitWorkerError

Times = tuple[tuple[float, ...], dict[str, float]]


def by_rank(job: Job, built: Built) -> Times:
    """The first candidate is slower than the second, others slower still."""
    return ((3.0, 1.0, 2.0, 4.0)[min(job.rank, 3)] * 1000 + job.rank,), {"sectors": 1.0}


def faulty(job: Job, built: Built) -> Times:
    """Rank 1 hangs, 2 crashes, 3 is wrong, 4 fails once, 5 takes its worker with it."""
    if job.rank == 1:
        time.sleep(60)
    if job.rank == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if job.rank == 3:
        raise MismatchError("the result is not the libraries': 3 is not 4")
    if job.rank == 4 and job.store is not None:
        mark = Path(f"{job.store}.once")
        if not mark.exists():
            mark.touch()
            raise RuntimeError("once")
    if job.rank == 5:
        os.kill(os.getppid(), signal.SIGKILL)
    return by_rank(job, built)


def _worker() -> str:
    """The node of a Ray cluster, or the process of another engine."""
    return os.environ.get("RAY_RAYLET_PID") or str(os.getppid())


def only_elsewhere(job: Job, built: Built) -> Times:
    """The worker that is first asked for a configuration fails at it, however often it tries."""
    mark = Path(f"{job.store}.{job.rank}.first")
    if not mark.exists():
        mark.write_text(_worker())
    if mark.read_text() == _worker():
        raise RuntimeError("this board is broken")
    return by_rank(job, built)


def always_wrong(job: Job, built: Built) -> Times:
    """Fails on every node, and keeps which they were."""
    with Path(f"{job.store}.{job.rank}.nodes").open("a") as file:
        file.write(f"{os.environ['RAY_RAYLET_PID']}\n")
    raise MismatchError("the result is not the libraries': 3 is not 4")


def unfit_first(job: Job, built: Built) -> Times:
    """The worker that is asked first is unfit for all."""
    mark = Path(f"{job.store}.unfit")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        mark.write_text(_worker())
    while not mark.read_text():
        pass
    if mark.read_text() == _worker():
        raise UnfitWorkerError("it has no GPU")
    return by_rank(job, built)


def unfit_second_gpu(job: Job, built: Built) -> Times:
    """Of a host's GPUs the one named 1 is of another model, and the other takes its time."""
    if os.environ["CUDA_VISIBLE_DEVICES"] == "1":
        raise UnfitWorkerError("it has NVIDIA T4: the search is on NVIDIA H200")
    time.sleep(0.7)
    return by_rank(job, built)


def unfit_gpu(job: Job, built: Built) -> Times:
    """No GPU can."""
    raise UnfitWorkerError(f"number {os.environ['CUDA_VISIBLE_DEVICES']} has fallen off the bus")


def only_second_gpu(name: str) -> str:
    """What the GPU named 1 is called; the other is not there."""
    if os.environ["CUDA_VISIBLE_DEVICES"] != "1":
        raise UnsupportedError("running a kernel needs a GPU: it has fallen off the bus")
    return f"{name} {os.environ['CUDA_VISIBLE_DEVICES']}"


def slow(job: Job, built: Built) -> Times:
    """A fifth of a second each."""
    time.sleep(0.2)
    return by_rank(job, built)
