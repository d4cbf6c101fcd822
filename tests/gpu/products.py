"""Random products of CuPy and PyTorch arrays, compared with their definition, guard bytes and gaps too.

python -m tests.gpu.products --seed 0 --cases 300                   of both libraries in turn
python -m tests.gpu.products --seed 0 --cases 60 --most 700         larger ones
python -m tests.gpu.products --seed 0 --memcheck 60                 under compute-sanitizer's memcheck

All kernels are planned and compiled first, by processes that see no GPU, and kept in a folder; then one
process runs every case.  Exit status 1 if any case was wrong.  Case n is drawn from the integer SEED + n by
tests/products.py.  PyTorch has no strides below 0 and CuPy no bfloat16: what one lacks goes to the other.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from layoutalg.errors import LayoutAlgError
from tests.gpu.counters import verdict
from tests.gpu.views import Cupy, Torch, context_is_lost, gpu_arch
from tests.hostgpu import planning_gpu
from tests.products import Case, draw, run
from tests.view_judge import Arrays, Host

MOST_ELEMS = 1 << 22


def case_of(n: int, most: int) -> tuple[str, Case]:
    """The case of an integer, and its library."""
    case = draw(n, most=most, most_elems=MOST_ELEMS)
    backwards = any(d < 0 for p in case.arrays.values() for d in p.strides)
    if "bfloat16" in (case.kind, case.result):
        if backwards:
            return case_of(n + 1_000_000, most)
        return "torch", case
    return "cupy" if backwards or n % 2 else "torch", case


def compiled(asked: tuple[int, int, str]) -> None:
    """Plan and compile what the case of an integer launches; what it raises is seen when it runs."""
    number, most, arch = asked
    with planning_gpu(arch) as gpu:
        try:
            run(case_of(number, most)[1], Host(gpu))
        except (LayoutAlgError, AttributeError, TypeError):
            return


def run_all(seed: int, count: int, most: int) -> int:
    """Run the cases; print those that are wrong, and return how many there are."""
    libraries: dict[str, Arrays] = {"cupy": Cupy(), "torch": Torch()}
    wrong, counts = 0, Counter[tuple[str, str]]()
    for n in range(seed, seed + count):
        name, case = case_of(n, most)
        counts[name, case.kind] += 1
        try:
            why = run(case, libraries[name])
        except Exception as error:  # noqa: BLE001 - any error of a call is what is looked for
            why = f"{type(error).__name__}: {error}"
        if why:
            wrong += 1
            print(f"{name}, {case}\n    {why}", flush=True)
        if context_is_lost():
            print(f"the context is lost after {n + 1 - seed} cases", flush=True)
            return wrong
    for (name, kind), times in sorted(counts.items()):
        print(f"{name} {kind}: {times}")
    print(f"{wrong} of {sum(counts.values())} products are wrong")
    return wrong


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--most", type=int, default=150, help="m, n and k at most")
    parser.add_argument("--jobs", type=int, default=min(16, len(os.sched_getaffinity(0))))
    parser.add_argument("--memcheck", type=int, default=0, help="cases to run under compute-sanitizer")
    parser.add_argument("--compiled", action="store_true", help="run what is compiled already")
    asked = parser.parse_args(args)
    if asked.compiled:
        import cupy

        cupy.cuda.set_allocator(None)  # an allocation per array
        return verdict(run_all(asked.seed, asked.cases, asked.most), asked.cases, "products")
    count = asked.memcheck or asked.cases
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAYOUTALG_CACHE"] = folder
        begin = time.perf_counter()
        work = [(n, asked.most, gpu_arch()) for n in range(asked.seed, asked.seed + count)]
        with ProcessPoolExecutor(asked.jobs, multiprocessing.get_context("spawn")) as pool:
            for _ in pool.map(compiled, work, chunksize=4):
                pass
        print(f"compiled in {time.perf_counter() - begin:.0f} s", flush=True)
        if asked.memcheck:
            from tests.gpu.tools import sanitize

            os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
            given = ("--seed", str(asked.seed), "--cases", str(count), "--most", str(asked.most))
            print(sanitize("memcheck", "tests.gpu.products", "--compiled", *given))
            return 0
        begin = time.perf_counter()
        wrong = run_all(asked.seed, count, asked.most)
        print(f"ran in {time.perf_counter() - begin:.0f} s")
    return verdict(wrong, count, "products")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
