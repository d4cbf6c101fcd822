"""Counters of many cases: each random case is launched once under Nsight Compute, by a job like a timing.

    jobs = counted_cases("transpose", 100, place=place, arch=arch, store=path)
    with local_engine(8) as engine:
        summary = tune(jobs, engine, Store(path), heard=print)

The idea.  A record has, for each kind of access, the prediction for a case and the count of the GPU, and
in place of times that of the profiler.  The profiler starts a process of its own, which draws the case
from its seed, makes its data and launches it once:

    ncu --csv --metrics ... python -m layoutalg.kernels.tuning.counting FAMILY SEED

Sectors of loads and stores and the shared wavefronts of instructions are predicted to the unit: they are
compared, and a difference is a failure.  Two kinds of numbers are only shown, as estimates: bytes of memory,
which depend on what the L2 holds, and sectors and wavefronts that include cp.async, which is counted by the
L1's tags and by pieces as they come.

Sources: Nsight Compute, "Command Line Options" (--csv, --print-units base) and "Metrics Reference".
"""

from __future__ import annotations

import csv
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from layoutalg.codegen.costs import is_shared, uncounted
from layoutalg.codegen.gpu import compile_sequence, require_gpu
from layoutalg.errors import MismatchError, UnsupportedError
from layoutalg.kernels.checks import check_run, checks_of, given_to, run_on_gpu
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.jobs import Built, Job, Place, Times, UnfitWorkerError, check_worker
from layoutalg.kernels.tuning.store import Record
from layoutalg.kernels.tuning.sweep import cases_of, random_case
from layoutalg.tools import run_tool

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
        sys.executable, "-m", "layoutalg.kernels.tuning.counting", job.family, str(job.seed),
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
