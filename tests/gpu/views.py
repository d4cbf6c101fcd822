"""Random calls on random views of CuPy and PyTorch arrays, compared with NumPy, guard bytes and gaps too.

python -m tests.gpu.views --seed 0 --cases 1000                         of both libraries
python -m tests.gpu.views --seed 0 --cases 1000 --library torch         of one
python -m tests.gpu.views --cases 2400 --functions min prod argmax argmin var logsumexp int_sum int_max
python -m tests.gpu.views --seed 0 --memcheck 200                       under compute-sanitizer's memcheck

All kernels are planned and compiled first, by processes that see no GPU, and kept in a folder; then one
process runs every case.  Exit status 1 if any case was wrong.  Case n is drawn from the integer SEED + n by
tests/views.py; tests/view_judge.py says what it has to do.

Notes.  Under memcheck arrays have allocations of their own without guard bytes, as far as the last 16-byte
unit that holds an element: what is read or written elsewhere is an error.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from tests.gpu.counters import verdict
from tests.hostgpu import CARRIERS, Bytes, planning_gpu
from tests.view_judge import FAULTS, Arrays, Host, Verdict, arrays_of, call, contents, run
from tests.views import EVERY, FUNCTIONS, GUARD_BYTES, Array, Case, Placed, draw
from tests.views import Library as Name

BOTH: tuple[Name, ...] = ("cupy", "torch")
MOST_ELEMS = 20_000


class Cupy:
    """Arrays of CuPy, of any strides, wherever they start."""

    def place(self, raw: Bytes) -> Any:
        """An allocation."""
        import cupy

        return cupy.asarray(raw)

    def view(self, held: Any, placed: Placed, kind: str) -> Any:
        """An array in it."""
        import cupy

        return cupy.ndarray(placed.shape, kind, held.data + placed.start, strides=placed.strides)

    def read(self, held: Any) -> Bytes:
        """Its bytes."""
        import cupy

        return np.asarray(cupy.asnumpy(held))

    def words(self, result: Any) -> Array:
        """The elements of a result."""
        import cupy

        return np.asarray(cupy.asnumpy(result)).view(CARRIERS[result.dtype.itemsize])


class Torch:
    """Tensors of PyTorch, of strides that are not negative, starting at elements."""

    def place(self, raw: Bytes) -> Any:
        """An allocation."""
        import torch

        return torch.from_numpy(raw).cuda()

    def view(self, held: Any, placed: Placed, kind: str) -> Any:
        """An array in it."""
        import torch

        whole = held.view(getattr(torch, kind))
        strides = tuple(d // whole.itemsize for d in placed.strides)
        return torch.as_strided(whole, placed.shape, strides, placed.start // whole.itemsize)

    def read(self, held: Any) -> Bytes:
        """Its bytes."""
        return np.asarray(held.cpu().numpy())

    def words(self, result: Any) -> Array:
        """The elements of a result."""
        import torch

        raw = result.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).cpu().numpy()
        words: Array = np.asarray(raw).view(CARRIERS[result.itemsize]).reshape(tuple(result.shape))
        return words


class Unguarded:
    """Arrays of a library in allocations without guard bytes."""

    def __init__(self, library: Arrays) -> None:
        self.library = library
        self.whole: dict[int, Bytes] = {}

    def place(self, raw: Bytes) -> Any:
        """The middle of an allocation."""
        held = self.library.place(raw[GUARD_BYTES:-GUARD_BYTES].copy())
        self.whole[id(held)] = raw
        return held

    def view(self, held: Any, placed: Placed, kind: str) -> Any:
        """An array in it."""
        start = placed.start - GUARD_BYTES
        return self.library.view(
            held, Placed(placed.shape, placed.strides, start, placed.allocation), kind
        )  # fmt: skip

    def read(self, held: Any) -> Bytes:
        """All bytes, those that are not there as they would be."""
        raw = self.whole[id(held)].copy()
        raw[GUARD_BYTES:-GUARD_BYTES] = self.library.read(held)
        return raw

    def words(self, result: Any) -> Array:
        """The elements of a result."""
        return self.library.words(result)


def cases(
    seed: int, count: int, libraries: tuple[Name, ...], most: int, functions: tuple[str, ...] = FUNCTIONS
) -> Iterator[tuple[Name, Case]]:
    """The cases of as many integers, of the libraries in turn."""
    for n in range(seed, seed + count):
        library = libraries[n % len(libraries)]
        yield library, draw(n, most=most, functions=functions, library=library)


def compiled(asked: tuple[int, tuple[Name, ...], int, str, tuple[str, ...]]) -> None:
    """Plan and compile what the case of an integer launches; what it raises is seen when it runs."""
    number, libraries, most, arch, functions = asked
    ((_, case),) = cases(number, 1, libraries, most, functions)
    with planning_gpu(arch) as gpu:
        library = Host(gpu)
        held = {name: library.place(raw) for name, raw in contents(case).items()}
        try:
            call(case, arrays_of(case, library, held))
        except FAULTS:
            return


def compile_all(
    seed: int, count: int, libraries: tuple[Name, ...], most: int, arch: str, jobs: int,
    functions: tuple[str, ...],
) -> None:  # fmt: skip
    """Fill the folder of compiled kernels, by processes."""
    work = [(n, libraries, most, arch, functions) for n in range(seed, seed + count)]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for _ in pool.map(compiled, work, chunksize=4):
            pass


def run_all(
    seed: int, count: int, libraries: tuple[Name, ...], most: int, functions: tuple[str, ...], *,
    guarded: bool,
) -> int:  # fmt: skip
    """Run the cases here; print what became of them, and return how many were wrong."""
    made: dict[str, Arrays] = {"cupy": Cupy(), "torch": Torch()}
    if not guarded:
        import cupy

        cupy.cuda.set_allocator(None)  # one allocation an array
        made = {name: Unguarded(library) for name, library in made.items()}
    counts: Counter[tuple[str, str]] = Counter()
    refusals: Counter[str] = Counter()
    for n, (name, case) in enumerate(cases(seed, count, libraries, most, functions)):
        verdict = run_one(case, made[name])
        counts[name, verdict.kind] += 1
        if verdict.kind == "refused":
            refusals[verdict.why] += 1
        if verdict.kind == "wrong":
            print(f"{name} case {case.seed}: {case}\n    {verdict.why}", flush=True)
        if context_is_lost():
            print(f"the context is lost after {n + 1} cases", flush=True)
            break
    for name in libraries:
        print(name, *(f"{counts[name, kind]} {kind}" for kind in ("right", "refused", "wrong")))
    for why, times in refusals.most_common():
        print(f"{times} refused: {why}")
    done = sum(counts.values())
    wrong = sum(times for (_, kind), times in counts.items() if kind == "wrong") + count - done
    print(f"{wrong} of {count} cases on views are wrong; {done} ran in one process")
    return wrong


def run_one(case: Case, library: Arrays) -> Verdict:
    """Run a case; what the driver reports makes it wrong."""
    try:
        return run(case, library)
    except FAULTS as error:
        return Verdict("wrong", f"{type(error).__name__}: {error}")


def context_is_lost() -> bool:
    """Whether a launch has ended the context of this process: nothing runs in it any more."""
    import cupy

    try:
        cupy.cuda.runtime.deviceSynchronize()
    except cupy.cuda.runtime.CUDARuntimeError:
        return True
    return False


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--most", type=int, default=MOST_ELEMS, help="elements of an array")
    parser.add_argument("--library", choices=(*BOTH, "both"), default="both")
    parser.add_argument("--jobs", type=int, default=min(16, len(os.sched_getaffinity(0))))
    parser.add_argument("--memcheck", type=int, default=0, help="cases to run under compute-sanitizer")
    parser.add_argument("--unguarded", action="store_true", help="run what is compiled already")
    parser.add_argument("--functions", nargs="+", choices=EVERY, default=FUNCTIONS)
    asked = parser.parse_args(args)
    functions = tuple(asked.functions)
    libraries = BOTH if asked.library == "both" else (asked.library,)
    count = asked.memcheck or asked.cases
    if asked.unguarded:
        wrong = run_all(asked.seed, count, libraries, asked.most, functions, guarded=False)
        return verdict(wrong, count, "views")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAYOUTALG_CACHE"] = folder
        begin = time.perf_counter()
        compile_all(asked.seed, count, libraries, asked.most, gpu_arch(), asked.jobs, functions)
        print(f"compiled in {time.perf_counter() - begin:.0f} s", flush=True)
        begin = time.perf_counter()
        if asked.memcheck:
            print(memcheck(asked.seed, count, asked.library, asked.most, functions))
            return 0
        wrong = run_all(asked.seed, count, libraries, asked.most, functions, guarded=True)
        print(f"ran in {time.perf_counter() - begin:.0f} s")
    return verdict(wrong, count, "views")


def gpu_arch() -> str:
    """The architecture of the GPU here."""
    from layoutalg.codegen.gpu import require_gpu

    return require_gpu().arch


def memcheck(seed: int, count: int, library: str, most: int, functions: tuple[str, ...]) -> str:
    """What the cases print under memcheck, which must find nothing."""
    from tests.gpu.tools import sanitize

    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    given = ("--seed", str(seed), "--cases", str(count), "--library", library, "--most", str(most))
    return sanitize("memcheck", "tests.gpu.views", "--unguarded", *given, "--functions", *functions)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
