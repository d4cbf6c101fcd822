"""The search: the first candidates of each problem, built, timed and recorded, unless a record exists.

    jobs = jobs_of("transpose", problems, arch, place, top=8, store=path)
    with local_engine(gpus=8) as engine:
        summary = tune(jobs, engine, Store(path), heard=print)

The idea.  The family's cost model ranks; only the best `top` are built, by processes without a GPU, and
timed.  Two queues are each long enough to keep an executor busy, and one rule covers all failures: a job that
fails on its first attempt, because it was refused, hung, crashed or took its worker with it, is submitted to
the executor again, for another worker if there is one, and recorded with the text of its failure when it
fails again.  A search that is interrupted, or out of budget, is continued by the same call: timings of these
kernels at this place that the store has are left out.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.engines import UNFIT_S, Engine, worker_name
from layoutalg.kernels.tuning.jobs import (
    FAULTS,
    Built,
    Job,
    Place,
    Times,
    UnfitWorkerError,
    build,
    take_times,
)
from layoutalg.kernels.tuning.store import MOST_TEXT, Record, Store
from layoutalg.limits import Most

VAIN = 10
"""Refused jobs per worker, one after the other, after which no worker is assumed to be left."""

POLL_S = 0.5
"""The seconds between two looks at the budget."""


@dataclass
class Summary:
    """The outcome of a search: jobs that were timed, that failed, that the store had, that the budget left.

    `unfit` are workers that could do no job, by name, with the reason.

    >>> Summary(timed=3, known=1)
    Summary(timed=3, failed=0, known=1, left=0, retried=0, unfit={})
    """

    timed: int = 0
    failed: int = 0
    known: int = 0
    left: int = 0
    retried: int = 0
    unfit: dict[str, str] = field(default_factory=dict)


def jobs_of(
    family: str,
    problems: Iterable[Any],
    arch: str,
    place: Place,
    *,
    top: int = 8,
    store: Path | None = None,
    limit_s: float = 60.0,
    take: Callable[[Job, Built], Times] | None = None,
) -> Iterator[Job]:
    """The first `top` configurations of each problem that a search may look at, `Family.searched`.

    Raises ResourceError for a number of candidates past Most.ENTRIES or under 1, and what `Family.choose`
    raises for a problem that has none.

    >>> from layoutalg.kernels.tuning.jobs import model_place
    >>> p = find_family("transpose").problem(256, 256, "f32")
    >>> [job.rank for job in jobs_of("transpose", [p], "sm_90", model_place("sm_90"), top=2)]
    [0, 1]
    """
    Most.ENTRIES.integer(top, "candidates of a problem")
    kind = find_family(family)
    for problem in problems:
        for rank, config in enumerate(islice(kind.searched(problem, arch), top)):
            yield Job(family, problem, config, rank, arch, place, store, limit_s, take)


class _Attempt(NamedTuple):
    """A record and the worker that made it, or why that worker cannot."""

    record: Record | None
    worker: str
    unfit: str = ""


def _attempt(job: Job, made: Built, last: bool) -> _Attempt:
    try:
        return _Attempt(take_times(job, made, last), worker_name())
    except UnfitWorkerError as error:
        time.sleep(UNFIT_S)
        return _Attempt(None, worker_name(), str(error))


class _Asked(NamedTuple):
    """A submitted timing: whether it is the last attempt, whether nothing else ran beside it, the worker on
    which it failed before, and the number of jobs that had been refused when it was submitted."""

    job: Job
    made: Built
    last: bool = False
    alone: bool = False
    by: Executor | None = None
    avoid: str = ""
    others: frozenset[str] = frozenset()
    since: int = 0


@dataclass
class _Search:
    """The state of a search: the jobs that are being built, are ready, or are being timed.

    A job that breaks a pool of processes breaks the jobs beside it: all of them are submitted again, one
    after another, with nothing beside, before any other job.
    """

    engine: Engine
    store: Store
    heard: Callable[[Record], object]
    known: Mapping[tuple[Any, ...], set[str]]
    summary: Summary = field(default_factory=Summary)
    building: dict[Future[Built], tuple[Job, bool, Executor]] = field(default_factory=dict)
    ready: deque[_Asked] = field(default_factory=deque)
    suspects: deque[_Asked] = field(default_factory=deque)
    timing: dict[Future[_Attempt], _Asked] = field(default_factory=dict)
    in_vain: int = 0
    turned: int = 0
    cannot: set[str] = field(default_factory=set)

    @property
    def losses(self) -> tuple[type[BaseException], ...]:
        """The errors that a submitted job may raise in place of its result."""
        return (BrokenExecutor, CancelledError, *FAULTS, *self.engine.losses)

    def known_of(self, job: Job) -> frozenset[str]:
        """The digests of the job's kernels that the store has timings of, at its place."""
        return frozenset(self.known.get((*job.name, job.place), ()))

    def build(self, job: Job, last: bool = False) -> None:
        by = self.engine.builders
        self.building[by.submit(build, job, self.known_of(job))] = job, last, by

    def time(self) -> None:
        """Ask for as many timings as keep those busy who take them."""
        alone = bool(self.suspects)
        queue, most = (self.suspects, 1) if alone else (self.ready, 2 * self.engine.width)
        if any(asked.alone for asked in self.timing.values()):
            return
        while queue and len(self.timing) < most:
            asked = queue.popleft()
            by, others = self.engine.timers, self.engine.elsewhere(asked.avoid)
            if others and self.engine.timers_on is not None:
                by = self.engine.timers_on(others)
            asked = asked._replace(alone=alone, by=by, others=others, since=self.turned)
            try:
                future = by.submit(_attempt, asked.job, asked.made, asked.last)
            except BrokenExecutor:
                self.engine.renew(by)
                queue.appendleft(asked)
                return
            self.timing[future] = asked

    def free(self) -> None:
        """Submit the jobs that wait for workers of which none is left to any worker."""
        for future, asked in list(self.timing.items()):
            if asked.others and not asked.others & self.engine.elsewhere(asked.avoid) and future.cancel():
                del self.timing[future]
                self.ready.append(asked._replace(avoid=""))

    def built(self, future: Future[Built], job: Job, last: bool, by: Executor) -> None:
        try:
            made = future.result()
        except self.losses as error:
            if isinstance(error, BrokenExecutor):
                self.engine.renew(by)
            if not last:
                self.build(job, True)
                return
            made = Built("", failure=f"it could not be built: {type(error).__name__}: {error}"[:MOST_TEXT])
        if made.kernel in self.known_of(job):
            self.summary.known += 1
        elif made.failure:
            self.ended(job.record(made.kernel, failure=made.failure))
        else:
            self.ready.append(_Asked(job, made))

    def timed(self, future: Future[_Attempt], asked: _Asked) -> None:
        try:
            attempt = future.result()
        except self.losses as error:
            if isinstance(error, BrokenExecutor) and asked.by is not None:
                self.engine.renew(asked.by)
                if not asked.alone:
                    self.suspects.append(asked)
                    return
            failure = f"its worker was lost: {type(error).__name__}: {error}"[:MOST_TEXT]
            lost = asked.job.record(asked.made.kernel, counters=asked.made.counters, failure=failure)
            attempt = _Attempt(lost, "")
        if attempt.record is None:
            self.turned_away(asked, attempt)
        elif attempt.record.failure and not asked.last:
            self.summary.retried += 1
            again = asked._replace(last=True, avoid=attempt.worker)
            (self.suspects if asked.alone else self.ready).append(again)
        else:
            self.ended(attempt.record)

    def turned_away(self, asked: _Asked, found: _Attempt) -> None:
        """Submit to another worker.  Raises UnsupportedError when all have refused."""
        self.summary.unfit[found.worker] = found.unfit
        self.in_vain, self.turned = self.in_vain + 1, self.turned + 1
        self.cannot.add(found.worker)
        if self.none_can(found.worker):
            named = "; ".join(f"{name}: {reason}" for name, reason in list(self.summary.unfit.items())[:8])
            raise UnsupportedError(f"no worker can take these times: {named}")
        self.ready.appendleft(asked._replace(avoid=found.worker))

    def none_can(self, worker: str) -> bool:
        """Whether no timer is left after a worker has refused a job.

        If a job waits while many others are refused, a worker works at it, since jobs begin in order.
        Otherwise no timer is left if all workers have refused a job since the last record, where they have
        names all current ones; or if far more jobs were refused than there are workers.
        """
        many, others = 3 * self.engine.width, self.engine.others
        if self.in_vain <= many or any(self.turned - asked.since > many for asked in self.timing.values()):
            return False
        if others is not None and others(worker) <= self.cannot:
            return True
        if others is None and len(self.cannot) >= self.engine.width:
            return True
        return self.in_vain > VAIN * self.engine.width

    def ended(self, record: Record) -> None:
        """Store a record, which its worker may have done, and report it."""
        self.in_vain = 0
        self.cannot.clear()
        self.store.add(record)
        if record.failure:
            self.summary.failed += 1
        else:
            self.summary.timed += 1
        self.heard(record)


def tune(
    jobs: Iterable[Job],
    engine: Engine,
    store: Store,
    *,
    budget_s: float = float("inf"),
    heard: Callable[[Record], object] = lambda record: None,
) -> Summary:
    """Time the jobs that the store lacks, and report each record; jobs that the budget leaves are counted.

    Raises OSError where the store cannot be written, UnsupportedError where no worker can do it; the
    timings until then are in the store.

    >>> import tempfile
    >>> from layoutalg.kernels.tuning.engines import local_engine
    >>> with tempfile.TemporaryDirectory() as folder, local_engine(1, 1) as engine:
    ...     tune([], engine, Store(Path(folder, "times.jsonl")))
    Summary(timed=0, failed=0, known=0, left=0, retried=0, unfit={})
    """
    known: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for record in store.records().values():
        key = record.key
        known[key.family, key.problem, key.config, key.place].add(key.kernel)
    waiting, end = iter(jobs), time.monotonic() + budget_s
    search = _Search(engine, store, heard, known)
    exhausted, most = False, 4 * engine.width + 4
    try:
        while True:
            in_time = time.monotonic() < end
            while in_time and not exhausted and len(search.building) + len(search.ready) < most:
                job = next(waiting, None)
                if job is None:
                    exhausted = True
                else:
                    search.build(job)
            if in_time:
                search.time()
            if not search.timing and (not in_time or not search.building):
                break
            running: list[Future[Any]] = [*search.building, *search.timing]
            done, _ = wait(running, POLL_S, FIRST_COMPLETED)
            if not done:
                search.free()
            for one in (one for one in running if one in done):
                if one in search.building:
                    search.built(one, *search.building.pop(one))
                else:
                    search.timed(one, search.timing.pop(one))
    finally:
        left: list[Future[Any]] = [*search.building, *search.timing]
        for future in left:
            future.cancel()
    begun = len(search.building) + len(search.ready) + len(search.suspects)
    search.summary.left = begun + sum(1 for _ in waiting)
    return search.summary
