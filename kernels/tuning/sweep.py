"""Sweeps: random problems of a family verified by the same engines that take times, in the same store.

    jobs = cases_of("transpose", 10_000, seed=0, store=path)
    with local_engine(8, on_gpus=False) as engine:
        summary = tune(jobs, engine, Store(path), heard=print)

The idea.  A verification is a job like a timing: its kernels are planned by one process and run in the child
of another, it has a limit, its record is written by the worker that made it, and the same sweep again runs
what the store lacks.  A record has the time of the verification; the text of a failure names the check.
Case number n of a sweep is drawn from the seed n alone: `cases_of(family, 1, seed=n)` is that case.

A case is drawn beside one of those that the family always verifies: extents up to twice as large, whole
vectors or not, other axes, another element type, one of the first MOST_CONFIGS configurations.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from math import log2
from pathlib import Path
from typing import Any

from layoutalg import __version__
from layoutalg.errors import LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.kernels.family import Family
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.jobs import Built, Job, Place, Times, check_worker
from layoutalg.kernels.tuning.keys import VERIFIED
from layoutalg.kernels.verification import verify
from layoutalg.limits import Most

MOST_CONFIGS = 8
"""The number of configurations of a problem that are drawn from, the first of the family's order."""

MOST_DRAWS = 200
"""The most draws of a case until it is a problem of the family."""

DTYPES = (None, "f16", "bf16", "f32", "f64", "u8")
"""Element types that are drawn; None is the family's own."""

STEPS = (1, 1, 8, 16, 32)
"""The steps of extents."""

SIMULATOR: Place = (VERIFIED, "simulator", "", "", "", __version__)
"""The place of a verification without a GPU."""


def random_case(family: Family, seed: int) -> tuple[Any, Any]:
    """A problem and a configuration, the same for the same seed.

    Raises UnsupportedError where none of MOST_DRAWS draws is a problem of the family.

    >>> f = find_family("transpose")
    >>> random_case(f, 3) == random_case(f, 3), str(random_case(f, 3)[0])
    (True, '9 x 68 f32, ld 68 -> 9')
    """
    rng = random.Random(f"{family.name} {seed}")
    refusal: LayoutAlgError | None = None
    for _ in range(MOST_DRAWS):
        arguments = _arguments(family, rng)
        try:
            problem = family.problem(**arguments)
            stand = (c.config for c in family.candidates(problem, "sm_90") if c.dropped is None)
            configs = list(islice(stand, MOST_CONFIGS))
        except LayoutAlgError as error:
            refusal = error
            continue
        if configs:
            return problem, rng.choice(configs)
    raise UnsupportedError(f"no problem of {family.name} was drawn from seed {seed}: {refusal}")


def _arguments(family: Family, rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, usual in rng.choice(family.checks.verified).items():
        if name in ("m", "n", "k"):
            found[name] = _extent(usual, rng)
        elif name == "shape":
            found[name] = tuple(_extent(x, rng) for x in usual)
        elif name == "axes":
            found[name] = _axes(usual, found["shape"], rng)
        elif isinstance(usual, bool):
            found[name] = rng.random() < 0.5
        else:
            found[name] = usual
    dtype = rng.choice(DTYPES)
    return found if dtype is None else found | {"dtype": dtype}


def _extent(usual: int, rng: random.Random) -> int:
    """Up to twice the usual one, small ones as often as large ones."""
    step = rng.choice(STEPS)
    return max(1, round(2 ** rng.uniform(0, log2(2 * usual)) / step)) * step


def _axes(usual: tuple[int, ...], shape: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
    """Draw as many axes as usual: in any order where they are all axes, else in order."""
    found = rng.sample(range(len(shape)), len(usual))
    return tuple(found if len(usual) == len(shape) else sorted(found))


def seeds(first: int, count: int) -> range:
    """The seeds of a sweep.  Raises ResourceError past Most.CASES, ShapeError for a seed below 0."""
    Most.CASES.integer(count, "cases of a sweep")
    if first < 0:
        raise ShapeError(f"the seed is {first}; seeds count from 0")
    return range(first, first + count)


def cases_of(
    family: str,
    count: int,
    *,
    seed: int = 0,
    place: Place = SIMULATOR,
    arch: str = "sm_90",
    store: Path | None = None,
    limit_s: float = 120.0,
) -> Iterator[Job]:
    """Jobs that verify random cases of the seeds from `seed` on.

    Raises ResourceError for cases past Most.CASES, ShapeError for a seed below 0, and as `random_case` does.

    >>> [job.seed for job in cases_of("transpose", 2, seed=5)]
    [5, 6]
    """
    found = find_family(family)
    for number in seeds(seed, count):
        problem, config = random_case(found, number)
        yield Job(family, problem, config, 0, arch, place, store, limit_s, by_verification, number)


def by_verification(job: Job, built: Built) -> Times:
    """Return the time to verify a case, and the number of checks that it passed.

    Raises MismatchError with the first check that fails, what `verify` raises, and UnfitWorkerError as
    `check_worker` does.

    >>> (job,) = cases_of("transpose", 1, seed=3)
    >>> times, counters = by_verification(job, Built("k" * 64))
    >>> len(times), counters["checks"] > 3
    (1, True)
    """
    on_simulator = job.place == SIMULATOR
    if not on_simulator:
        check_worker(job)
    begun = time.perf_counter_ns()
    report = verify(
        find_family(job.family), job.problem, job.config,
        target="simulator" if on_simulator else "gpu", seed=job.seed or 0,
    )  # fmt: skip
    report.require()
    counters: Mapping[str, float] = dict(built.counters)
    return (float(max(1, time.perf_counter_ns() - begun)),), {**counters, "checks": float(len(report.checks))}
