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

Counters of many cases are taken alike: each case is launched once under Nsight Compute, by a job.

    jobs = counted_cases("transpose", 100, place=place, arch=arch, store=path)
    with local_engine(8) as engine:
        summary = tune(jobs, engine, Store(path), heard=print)

A record has, for each kind of access, the prediction for a case and the count of the GPU, and
in place of times that of the profiler.  The profiler starts a process of its own, which draws the case
from its seed, makes its data and launches it once:

    ncu --csv --metrics ... python -m layoutalg.kernels.tuning.sweep FAMILY SEED

Sectors of loads and stores and the shared wavefronts of instructions are predicted to the unit: they are
compared, and a difference is a failure.  Two kinds of numbers are only shown, as estimates: bytes of memory,
which depend on what the L2 holds, and sectors and wavefronts that include cp.async, which is counted by the
L1's tags and by pieces as they come.

Sources: Nsight Compute, "Command Line Options" (--csv, --print-units base) and "Metrics Reference".
"""

from __future__ import annotations

import csv
import random
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, islice
from math import log2
from pathlib import Path
from types import MappingProxyType
from typing import Any

from layoutalg import __version__
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.codegen.costs import is_shared, uncounted
from layoutalg.codegen.gpu import compile_sequence, require_gpu
from layoutalg.errors import LayoutAlgError, MismatchError, ShapeError, UnsupportedError
from layoutalg.kernels.checks import check_run, checks_of, given_to, run_on_gpu, verify
from layoutalg.kernels.family import Family
from layoutalg.kernels.identity import code_id
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.jobs import Built, Job, Place, Times, UnfitWorkerError, check_worker
from layoutalg.kernels.tuning.store import VERIFIED, Record, text_digest
from layoutalg.limits import Most
from layoutalg.testing import LAWS, check_law
from layoutalg.tools import run_tool

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


METRICS: Mapping[str, str] = MappingProxyType(
    {
        "sectors loaded": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "sectors stored": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "shared wavefronts": "memory_l1_wavefronts_shared",
        "bytes read": "dram__bytes_read.sum",
        "bytes written": "dram__bytes_write.sum",
    }
)
"""The profiler's name of each counter."""

PREDICTED, ESTIMATED, COUNTED = "predicted ", "estimated ", "counted "
"""Prefixes of the names of a record's counters: exact predictions, estimates, counts of the profiler."""

COPIES = "cp.async"
"""Beginning of the names of instructions that counters of loads and of shared memory do not count exactly."""

FORBIDDEN = "ERR_NVGPUCTRPERM"
"""The profiler's error where the driver reserves counters for administrators."""

MOST_SAID = 400
"""The most characters that are kept of the profiler's output."""


def counted_cases(
    family: str,
    count: int,
    *,
    place: Place,
    arch: str,
    seed: int = 0,
    store: Path | None = None,
    limit_s: float = 300.0,
) -> Iterator[Job]:
    """Jobs that count random cases of the seeds from `seed` on; their records are told from those of
    verifications by the configuration.  Raises as `cases_of` does.

    >>> place = ("verified", "NVIDIA H200", "", "", "", "0.1.0")
    >>> (job,) = counted_cases("transpose", 1, place=place, arch="sm_90", seed=5)
    >>> job.seed, job.variant, job.take is by_counters
    (5, 'counted', True)
    """
    for job in cases_of(family, count, seed=seed, place=place, arch=arch, store=store, limit_s=limit_s):
        yield replace(job, take=by_counters, variant="counted")


def profiler() -> str:
    """Return the path of Nsight Compute.  Raises UnsupportedError where it is not on PATH.

    >>> shutil.which("ncu") is None or profiler() == shutil.which("ncu")
    True
    """
    path = shutil.which("ncu")
    if path is None:
        raise UnsupportedError(
            "hardware counters need Nsight Compute: ncu is not on PATH; it comes with the CUDA toolkit"
        )
    return path


def by_counters(job: Job, built: Built) -> Times:
    """Return the time that the profiler took, and the predicted and the counted value of each counter.

    Raises UnfitWorkerError without a GPU of the search, the profiler or its permission; MismatchError where
    the profiler counts nothing, with what it says; TimeoutError.
    """
    check_worker(job)
    try:
        ncu = profiler()
    except UnsupportedError as error:
        raise UnfitWorkerError(str(error)) from error
    sequence = find_family(job.family).launches(job.problem, job.config, job.arch)
    kernels = "|".join(kernel.name for kernel in sequence.kernels)
    begun = time.perf_counter_ns()
    command = [
        ncu, "--csv", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
        "--metrics", ",".join(METRICS.values()), "--kernel-name", f"regex:^({kernels})$",
        sys.executable, "-m", "layoutalg.kernels.tuning.sweep", job.family, str(job.seed),
    ]  # fmt: skip
    ran = run_tool(command, timeout_s=job.limit_s, any_memory=True)
    if FORBIDDEN in ran.said:
        raise UnfitWorkerError(f"its driver keeps counters for administrators: ncu says {FORBIDDEN}")
    sums = counters_in(ran.out.decode(errors="replace"))
    if ran.status or not sums:
        raise MismatchError(f"ncu ended with {ran.status} and counted nothing: {ran.said[-MOST_SAID:]}")
    counted = {COUNTED + name: x for name, x in sums.items()}
    took = float(max(1, time.perf_counter_ns() - begun))
    return (took,), {**built.counters, **predicted_counters(job), **counted}


def predicted_counters(job: Job) -> dict[str, float]:
    """Predictions of a case, by PREDICTED or ESTIMATED and the names of METRICS; bytes of memory only
    where the family predicts them.

    >>> place = ("verified", "NVIDIA H200", "", "", "", "0.1.0")
    >>> (job,) = counted_cases("transpose", 1, place=place, arch="sm_90", seed=3)
    >>> sorted(predicted_counters(job))
    ['predicted sectors loaded', 'predicted sectors stored', 'predicted shared wavefronts']
    """
    family = find_family(job.family)
    predictions: dict[str, float] = {}
    if not uncounted(family.launches(job.problem, job.config, job.arch).kernels):
        costs = family.predict(job.problem, job.config, job.arch)
        copied = any(op.startswith(COPIES) for op in costs)
        sums = {
            "sectors loaded": [op for op in costs if "ld.global" in op or ":global" in op],
            "sectors stored": [op for op in costs if "st.global" in op],
            "shared wavefronts": [op for op in costs if is_shared(op)],
        }
        predictions = {
            (ESTIMATED if copied and name != "sectors stored" else PREDICTED) + name: float(
                sum(costs[op].total for op in ops)
            )
            for name, ops in sums.items()
        }
    if family.memory is not None:
        read, written = family.memory(job.problem, job.config, job.arch)
        predictions |= {ESTIMATED + "bytes read": float(read), ESTIMATED + "bytes written": float(written)}
    return predictions


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a counted case: what is predicted, whether exactly, and what the profiler counted, None
    where its report does not have the counter.

    >>> place = ("verified", "NVIDIA H200", "", "", "", "0.1.0")
    >>> (job,) = counted_cases("transpose", 1, place=place, arch="sm_90", seed=3)
    >>> one = Number(job.record("k" * 64), "sectors stored", True, 40.0, None)
    >>> one.compared, one.equal
    (False, False)
    """

    record: Record
    name: str
    exact: bool
    predicted: float
    counted: float | None

    @property
    def compared(self) -> bool:
        """Whether it decides: an exact prediction beside a count."""
        return self.exact and self.counted is not None

    @property
    def equal(self) -> bool:
        """Whether the count is the prediction."""
        return self.counted == self.predicted


def numbers_of(records: Iterable[Record]) -> list[Number]:
    """The numbers of counted cases, in the order of METRICS.

    >>> place = ("verified", "NVIDIA H200", "", "", "", "0.1.0")
    >>> (job,) = counted_cases("transpose", 1, place=place, arch="sm_90", seed=3)
    >>> counters = predicted_counters(job) | {"counted sectors stored": 1.0}
    >>> [one.name for one in numbers_of([job.record("k" * 64, counters=counters)]) if one.compared]
    ['sectors stored']
    """
    every = list(records)
    return [
        Number(r, name, kind == PREDICTED, r.counters[kind + name], r.counters.get(COUNTED + name))
        for name in METRICS
        for kind in (PREDICTED, ESTIMATED)
        for r in every
        if kind + name in r.counters
    ]


def counters_in(text: str) -> dict[str, float]:
    """Sums over the launches of the profiler's CSV, by the names of METRICS; empty where it has none.

    >>> counters_in('==PROF==\\n"ID","Metric Name","Metric Value"\\n"0","dram__bytes_read.sum","1,024"\\n')
    {'bytes read': 1024.0}
    """
    begin = text.find('"ID"')
    if begin < 0:
        return {}
    names = {metric: name for name, metric in METRICS.items()}
    sums: dict[str, float] = {}
    for line in csv.DictReader(text[begin:].splitlines()):
        name = names.get(line.get("Metric Name") or "")
        try:
            value = float((line.get("Metric Value") or "").replace(",", ""))
        except ValueError:  # "n/a": this GPU does not have the metric
            continue
        if name is not None and 0 <= value < float("inf"):
            sums[name] = sums.get(name, 0.0) + value
    return sums


def main(args: Sequence[str]) -> int:
    """Launch the case of a family and a seed once, on its first trial's data, under the profiler."""
    name, number = args
    family, seed = find_family(name), int(number)
    problem, config = random_case(family, seed)
    check_run(family, problem, "gpu", seed)
    arch = require_gpu().arch
    compiled = compile_sequence(family.launches(problem, config, arch), arch)
    run_on_gpu(compiled, given_to(family, problem, config, checks_of(family).trials(problem)[0], seed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
