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

The algebra is fuzzed by the same engines: blocks of random cases of its laws.

    jobs = laws_of(100_000, seed=0, store=path)

A case takes milliseconds, and a record that is safe on a disk takes as long: a job is a block of
MOST_SEEDS cases.  Case number n of any fuzz is law number n, counted round, on the operands of the seed n:
`laws_of(1, seed=n)` is that case.  The text of the algebra and the code below it replaces that of kernels:
after a change to them a store has none of the cases, after any other change all of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby, islice
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

from layoutalg import __version__
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.errors import LayoutAlgError, MismatchError, ShapeError, UnsupportedError
from layoutalg.kernels.checks import checks_of, verify
from layoutalg.kernels.family import Family
from layoutalg.kernels.identity import code_id
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.jobs import Built, Job, Place, Times, check_worker
from layoutalg.kernels.tuning.store import VERIFIED, text_digest
from layoutalg.limits import Most
from layoutalg.testing import LAWS, check_law

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


class Drawn(NamedTuple):
    """The arguments of a problem of a family, the problem, and a configuration.

    >>> drawn_case(find_family("relu"), 3).arguments
    {'shape': (8, 88)}
    """

    arguments: Mapping[str, Any]
    problem: Any
    config: Any


def random_case(family: Family, seed: int) -> tuple[Any, Any]:
    """The problem and the configuration of a `drawn_case`, which says what is raised.

    >>> str(random_case(find_family("transpose"), 3)[0])
    '9 x 68 f32, ld 68 -> 9'
    """
    return drawn_case(family, seed)[1:]


def drawn_case(family: Family, seed: int) -> Drawn:
    """A problem and a configuration, the same for the same seed.

    Raises UnsupportedError where none of MOST_DRAWS draws is a problem of the family.

    >>> f = find_family("transpose")
    >>> drawn_case(f, 3) == drawn_case(f, 3)
    True
    """
    rng = random.Random(f"{family.name} {seed}")
    refusal: LayoutAlgError | None = None
    for _ in range(MOST_DRAWS):
        arguments = _arguments(family, rng)
        try:
            problem = family.problem(**arguments)
            configs = first_configs(family, problem)
        except LayoutAlgError as error:
            refusal = error
            continue
        if configs:
            return Drawn(arguments, problem, rng.choice(configs))
    raise UnsupportedError(f"no problem of {family.name} was drawn from seed {seed}: {refusal}")


def first_configs(family: Family, problem: Any) -> list[Any]:
    """The first MOST_CONFIGS configurations of a problem, best first.

    >>> f = find_family("relu")
    >>> len(first_configs(f, f.problem((4, 4))))
    3
    """
    stand = (c.config for c in family.candidates(problem, "sm_90") if c.dropped is None)
    return list(islice(stand, MOST_CONFIGS))


def _arguments(family: Family, rng: random.Random) -> dict[str, Any]:
    drawn: dict[str, Any] = {}
    for name, usual in rng.choice(checks_of(family).verified).items():
        if name in ("m", "n", "k"):
            drawn[name] = _extent(usual, rng)
        elif name == "shape":
            drawn[name] = tuple(_extent(x, rng) for x in usual)
        elif name == "axes":
            drawn[name] = _axes(usual, drawn["shape"], rng)
        elif isinstance(usual, bool):
            drawn[name] = rng.random() < 0.5
        else:
            drawn[name] = usual
    dtype = rng.choice(DTYPES)
    return drawn if dtype is None else drawn | {"dtype": dtype}


def _extent(usual: int, rng: random.Random) -> int:
    """Up to twice the usual one, small ones as often as large ones."""
    step = rng.choice(STEPS)
    return max(1, round(2 ** rng.uniform(0, log2(2 * usual)) / step)) * step


def _axes(usual: tuple[int, ...], shape: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
    """Draw as many axes as usual: in any order where they are all axes, else in order."""
    drawn = rng.sample(range(len(shape)), len(usual))
    return tuple(drawn if len(usual) == len(shape) else sorted(drawn))


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
    arch: str = DEFAULT_ARCH,
    store: Path | None = None,
    limit_s: float = 120.0,
) -> Iterator[Job]:
    """Jobs that verify random cases of the seeds from `seed` on.

    Raises ResourceError for cases past Most.CASES, ShapeError for a seed below 0, and as `random_case` does.

    >>> [job.seed for job in cases_of("transpose", 2, seed=5)]
    [5, 6]
    """
    kind = find_family(family)
    for number in seeds(seed, count):
        problem, config = random_case(kind, number)
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


ALGEBRA = "algebra"
"""The name of the laws' jobs in place of a family's name."""

MOST_SEEDS = 500
"""The number of cases of a job."""

LAWS_S = 300.0
"""The seconds that a job may take."""

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


def laws_of(count: int, *, seed: int = 0, store: Path | None = None) -> Iterator[Job]:
    """Jobs that check the laws on the operands of the seeds from `seed` on, blocks that begin at multiples of
    MOST_SEEDS.

    Raises ResourceError for cases past Most.CASES and under 1, ShapeError for a seed below 0.

    >>> [str(job.config) for job in laws_of(600, seed=450)]
    ['seeds 450 to 499', 'seeds 500 to 999', 'seeds 1000 to 1049']
    """
    for _, block in groupby(seeds(seed, count), lambda number: number // MOST_SEEDS):
        first, *more = block
        config = Seeds(first, 1 + len(more))
        yield Job(ALGEBRA, "its laws", config, 0, "", HOST, store, LAWS_S, by_laws, make=read_algebra)


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
