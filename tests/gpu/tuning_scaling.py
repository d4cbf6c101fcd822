"""Configurations that a search times per minute, on 1, 2, 4 ... GPUs of this host.

python -m tests.gpu.tuning_scaling 1 2 4 --seconds 120        numbers of GPUs past those there are say so

The same search, of products and transposes, into a new store each time.  The rate counts from the first
record of a search to its last, when workers have started; beside it stands the whole time.  The aim is 0.9
of the number of GPUs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels import find_family
from layoutalg.kernels.tuning import Job, Record, Store, first_of, gpu_place, jobs_of, local_engine, tune

PRODUCTS = (1024, 1536, 2048, 2560, 3072, 4096)
TRANSPOSES = (1000, 2048, 3000, 4096, 5000, 8192)


def searched(gpus: int, seconds: float) -> tuple[int, float, float]:
    """Records of a search, seconds from its first record to its last, and of all of it."""
    heard: list[float] = []
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, local_engine(gpus) as engine:
        store = Store(Path(folder, "times.jsonl"))
        place, arch = first_of(engine, gpu_place)

        def jobs() -> Iterator[Job]:
            products, transposes = find_family("gemm-sm90"), find_family("transpose")
            made = (
                ("gemm-sm90", [products.problem(n, n, n, "bf16") for n in PRODUCTS], 12),
                ("transpose", [transposes.problem(n, n, "f32") for n in TRANSPOSES], 3),
            )
            each = (jobs_of(name, of, arch, place, top=top, store=store.path) for name, of, top in made)
            return chain.from_iterable(each)

        def hear(record: Record) -> None:
            heard.append(time.perf_counter())
            if record.failure:
                print(f"    {record.problem} {record.config}: {record.failure}", flush=True)

        print(tune(jobs(), engine, store, budget_s=seconds, heard=hear), flush=True)
    return len(heard), heard[-1] - heard[0], time.perf_counter() - begun


def main(words: list[str] | None = None) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gpus", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=120.0)
    asked = parser.parse_args(words)
    import cupy

    there, name, first = cupy.cuda.runtime.getDeviceCount(), require_gpu().name, 0.0
    for gpus in asked.gpus:
        if gpus > there:
            print(f"{gpus} GPUs: not measured, this host has {there}")
            continue
        count, seconds, whole = searched(gpus, asked.seconds)
        rate = 60 * (count - 1) / seconds
        first = first or rate / gpus
        print(
            f"{gpus} x {name}: {count} configurations, {rate:.0f} per minute, {rate / first / gpus:.2f} of "
            f"{gpus} x {first:.0f}; {whole:.0f} s in all",
            flush=True,
        )


if __name__ == "__main__":
    main()
