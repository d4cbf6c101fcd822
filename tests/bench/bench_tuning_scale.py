"""A search on a thousand GPUs, simulated: how long it takes, how large the store is, what the scheduler does.

    python tests/bench/bench_tuning_scale.py                  10,000 problems of 8 candidates, 1 to 1,000 GPUs

The size of a record and the time to add one are measured, on the disk of this folder; times of jobs are
drawn from an exponential distribution with the stated means and the seed 0.  Each GPU takes the next job when
it is free; those that build are a pool that feeds them.  A scheduler has four events a job: building and
timing, each assigned and reported; the store has one record a job, by whoever took the times.
"""

from __future__ import annotations

import heapq
import random
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from layoutalg.kernels import find_family
from layoutalg.kernels.tuning import Record, Store, jobs_of, model_place
from layoutalg.kernels.tuning.jobs import build


class Planned(NamedTuple):
    """A search on so many GPUs: hours, the share of time that GPUs work, events of the scheduler, records."""

    gpus: int
    hours: float
    busy: float
    events_per_s: float
    records_per_s: float


def planned(jobs: int, gpus: int, builders: int, build_s: float, timing_s: float, seed: int = 0) -> Planned:
    """Simulate a search, job by job: builders in turn, then the GPU that is free first."""
    draw = random.Random(seed)
    built, free, busy, end = [0.0] * builders, [0.0] * gpus, 0.0, 0.0
    for _ in range(jobs):
        ready = heapq.heappop(built) + draw.expovariate(1 / build_s)
        heapq.heappush(built, ready)
        taken = draw.expovariate(1 / timing_s)
        done = max(heapq.heappop(free), ready) + taken
        heapq.heappush(free, done)
        busy, end = busy + taken, max(end, done)
    return Planned(gpus, end / 3600, busy / (gpus * end), 4 * jobs / end, jobs / end)


def measured(folder: Path, count: int = 200) -> tuple[float, float]:
    """Bytes of a record of a real search, and seconds to add one to a store."""
    p = find_family("transpose").problem(512, 512, "f32")
    (job,) = jobs_of("transpose", [p], "sm_90", model_place("sm_90"), top=1)
    made, store = build(job), Store(folder / "times.jsonl")
    start = time.perf_counter()
    for n in range(count):
        one = job.record(f"{n:064}", times_ns=(1e5 / 3, 1e5 / 7, 1e5 / 9), counters=made.counters)
        store.add(Record(one.key, one.problem, one.config, 0, one.times_ns, one.counters))
    return store.path.stat().st_size / count, (time.perf_counter() - start) / count


PROBLEMS, TOP, BUILD_S, TIMING_S, BUILDERS_PER_GPU = 10_000, 8, 1.0, 3.0, 2


def main() -> None:
    """Print a line for each number of GPUs."""
    jobs = PROBLEMS * TOP
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        size, add_s = measured(Path(folder))
    print(f"{jobs:,} jobs: a record takes {size:.0f} bytes, {jobs * size / 1e6:.0f} MB in all; "
          f"one writer at a time adds {1 / add_s:.0f} a second")  # fmt: skip
    for gpus in (1, 8, 64, 256, 1000):
        p = planned(jobs, gpus, gpus * BUILDERS_PER_GPU, BUILD_S, TIMING_S)
        rates = f"{p.events_per_s:8.1f} events and {p.records_per_s:6.1f} records a second"
        store = f"{p.records_per_s * add_s:.2f} of one store"
        print(f"{p.gpus:5} GPUs: {p.hours:8.2f} h, GPUs busy {p.busy:.2f}, {rates}, {store}")


if __name__ == "__main__":
    main()
