"""A fuzz of the algebra by the engines that take times: blocks of random cases of its laws, in a store.

    jobs = laws_of(100_000, seed=0, store=path)
    with local_engine(8, on_gpus=False) as engine:
        summary = tune(jobs, engine, Store(path), heard=print)

The idea.  A case takes milliseconds, and a record that is safe on a disk takes as long: a job is a block of
MOST_SEEDS cases.  Case number n of any fuzz is law number n, counted round, on the operands of the seed n:
`laws_of(1, seed=n)` is that case.  The text of the algebra and the code below it replaces that of kernels:
after a change to them a store has none of the cases, after any other change all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from layoutalg import __version__
from layoutalg.errors import MismatchError
from layoutalg.kernels.identity import code_id
from layoutalg.kernels.tuning.jobs import Built, Job, Place, Times
from layoutalg.kernels.tuning.keys import VERIFIED, text_digest
from layoutalg.kernels.tuning.sweep import seeds
from layoutalg.testing import LAWS, check_law

ALGEBRA = "algebra"
"""The name of the laws' jobs in place of a family's name."""

MOST_SEEDS = 500
"""The number of cases of a job."""

MOST_NAMED = 20
"""The most seeds of failures that are named."""

HOST: Place = (VERIFIED, "host", "", "", "", __version__)
"""The place where the laws are checked."""

ROOMS = ("layout", "compose", "f2", "decide", "algebra", "arch", "notation", "testing")
"""The rooms whose text decides whether a case is known."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """A block of cases by their seeds.

    >>> print(Seeds(500, 20))
    seeds 500 to 519
    """

    first: int
    count: int

    def __str__(self) -> str:
        return f"seeds {self.first} to {self.first + self.count - 1}"


def laws_of(count: int, *, seed: int = 0, store: Path | None = None, limit_s: float = 300.0) -> Iterator[Job]:
    """Jobs that check the laws on the operands of the seeds from `seed` on, blocks that begin at multiples of
    MOST_SEEDS.

    Raises ResourceError for cases past Most.CASES and under 1, ShapeError for a seed below 0.

    >>> [str(job.config) for job in laws_of(600, seed=450)]
    ['seeds 450 to 499', 'seeds 500 to 999', 'seeds 1000 to 1049']
    """
    for _, block in groupby(seeds(seed, count), lambda number: number // MOST_SEEDS):
        first, *more = block
        config = Seeds(first, 1 + len(more))
        yield Job(ALGEBRA, "its laws", config, 0, "", HOST, store, limit_s, by_laws, make=read_algebra)


@cache
def algebra_digest() -> str:
    """64 hex digits of the text of the algebra, of the code below it, and of its laws.

    >>> len(algebra_digest())
    64
    """
    package = Path(__file__).parents[2]
    return text_digest([code_id(package / room) for room in ROOMS])


def read_algebra(job: Job) -> Built:
    """Return the digest of a worker's algebra, which it checks.

    >>> (job,) = laws_of(1)
    >>> read_algebra(job).kernel == algebra_digest()
    True
    """
    return Built(algebra_digest())


def by_laws(job: Job, built: Built) -> Times:
    """Return the time of a block of cases, the number for which a law holds, and that of undefined ones.

    Raises MismatchError with the seeds of the cases that fail and the text of the first.

    >>> (job,) = laws_of(20, seed=5)
    >>> counters = by_laws(job, read_algebra(job))[1]
    >>> counters["cases"], counters["held"] + counters["undefined"]
    (20.0, 20.0)
    """
    names, held = tuple(LAWS), 0
    failed: dict[int, str] = {}
    begun = time.perf_counter_ns()
    for seed in range(job.config.first, job.config.first + job.config.count):
        try:
            held += check_law(names[seed % len(names)], seed)
        except MismatchError as error:
            failed[seed] = str(error)
    if failed:
        named = ", ".join(map(str, list(failed)[:MOST_NAMED]))
        more = f" and {len(failed) - MOST_NAMED} others" if len(failed) > MOST_NAMED else ""
        raise MismatchError(
            f"{len(failed)} of {job.config.count} cases fail, those of the seeds {named}{more}; the first: "
            f"{next(iter(failed.values()))}"
        )
    cases = {"cases": job.config.count, "held": held, "undefined": job.config.count - held}
    return (float(max(1, time.perf_counter_ns() - begun)),), {name: float(x) for name, x in cases.items()}
