"""Random calls on random views of CuPy and PyTorch arrays, compared with NumPy, guard bytes and gaps too.

python -m tests.gpu.views --seed 0 --cases 1000                         of both libraries
python -m tests.gpu.views --seed 0 --cases 1000 --library torch         of one
python -m tests.gpu.views --cases 2400 --functions min prod argmax argmin var logsumexp int_sum int_max
python -m tests.gpu.views --seed 0 --memcheck 200                       under compute-sanitizer's memcheck

All kernels are planned and compiled first, by processes that see no GPU, and kept in a folder; then one
process runs every case.  Exit status 1 if any case was wrong.  Case n is drawn from the integer SEED + n by
tests/draws/views.py; tests/judges/view_judge.py says what it has to do.

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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from tests.draws.views import EVERY, FUNCTIONS, GUARD_BYTES, Array, Case, Placed, draw
from tests.draws.views import Library as Name
from tests.gpu.counters import verdict
from tests.gpu.timing import plainly
from tests.judges.view_judge import FAULTS, Arrays, Host, Verdict, arrays_of, call, contents, run
from tests.stand_ins.hostgpu import CARRIERS, Bytes, planning_gpu

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
        moved = Placed(placed.shape, placed.strides, start, placed.allocation)
        return self.library.view(held, moved, kind)

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


def compiled(work: tuple[int, str, argparse.Namespace]) -> None:
    """Plan and compile what the case of an integer launches; what it raises is seen when it runs."""
    number, arch, asked = work
    ((_, case),) = cases(number, 1, libraries_of(asked), asked.most, tuple(asked.functions))
    with planning_gpu(arch) as gpu:
        library = Host(gpu)
        held = {name: library.place(raw) for name, raw in contents(case).items()}
        try:
            call(case, arrays_of(case, library, held))
        except FAULTS:
            return


def run_all(asked: argparse.Namespace) -> int:
    """Run the cases here; print what became of them, and return how many were wrong."""
    made: dict[str, Arrays] = {"cupy": Cupy(), "torch": Torch()}
    if asked.compiled:
        plainly()
        made = {name: Unguarded(library) for name, library in made.items()}
    drawn = cases(asked.seed, asked.cases, libraries_of(asked), asked.most, tuple(asked.functions))
    return judged(
        asked.cases, ((name, f"case {case.seed}: {case}", run_one(case, made[name])) for name, case in drawn)
    )


def judged(count: int, runs: Iterable[tuple[str, object, Verdict]]) -> int:
    """Print what became of some cases, and return how many were wrong; those of a lost context are."""
    counts, refusals = Counter[str](), Counter[str]()
    for name, case, found in runs:
        counts[f"{name} {found.kind}"] += 1
        if found.kind == "refused":
            refusals[found.why] += 1
        if found.kind == "wrong":
            print(f"{name} {case}\n    {found.why}", flush=True)
        if context_is_lost():
            print(f"the context is lost after {counts.total()} cases", flush=True)
            break
    for what, times in (*sorted(counts.items()), *refusals.most_common()):
        print(f"{times:6} {what}")
    wrong = count - sum(times for what, times in counts.items() if not what.endswith("wrong"))
    print(f"{wrong} of {count} cases are wrong; {counts.total()} ran in one process")
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


def libraries_of(asked: argparse.Namespace) -> tuple[Name, ...]:
    """The libraries that are asked for."""
    return tuple(name for name in BOTH if asked.library in (name, "both"))


def options(text: str | None, cases: int, most: int, what: str) -> argparse.ArgumentParser:
    """The options of a run of random cases."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--most", type=int, default=most, help=what)
    parser.add_argument("--jobs", type=int, default=min(16, len(os.sched_getaffinity(0))))
    parser.add_argument("--memcheck", type=int, default=0, help="cases to run under compute-sanitizer")
    parser.add_argument("--compiled", action="store_true", help="run what is compiled already")
    return parser


def compiled_and_run(
    asked: argparse.Namespace, compiled: Callable[[tuple[int, str, argparse.Namespace]], None],
    run_all: Callable[[argparse.Namespace], int], module: str, *words: str,
) -> int:  # fmt: skip
    """Compile the cases by processes into a folder, and run them, here or under memcheck; the exit status."""
    if asked.compiled:
        return verdict(run_all(asked), asked.cases, "cases")
    asked.cases = asked.memcheck or asked.cases
    with tempfile.TemporaryDirectory() as os.environ["LAYOUTALG_CACHE"]:
        begin, arch = time.perf_counter(), gpu_arch()
        work = [(n, arch, asked) for n in range(asked.seed, asked.seed + asked.cases)]
        with ProcessPoolExecutor(asked.jobs, multiprocessing.get_context("spawn")) as pool:
            list(pool.map(compiled, work, chunksize=4))
        print(f"compiled in {time.perf_counter() - begin:.0f} s", flush=True)
        if asked.memcheck:
            from tests.gpu.tools import sanitize

            os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
            given = ("--seed", str(asked.seed), "--cases", str(asked.cases), "--most", str(asked.most))
            print(sanitize("memcheck", module, "--compiled", *given, *words))
            return 0
        return verdict(run_all(asked), asked.cases, "cases")


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = options(__doc__, 1000, MOST_ELEMS, "elements of an array")
    parser.add_argument("--library", choices=(*BOTH, "both"), default="both")
    parser.add_argument("--functions", nargs="+", choices=EVERY, default=FUNCTIONS)
    asked = parser.parse_args(args)
    words = ("--library", asked.library, "--functions", *asked.functions)
    return compiled_and_run(asked, compiled, run_all, "tests.gpu.views", *words)


def gpu_arch() -> str:
    """The architecture of the GPU here."""
    from layoutalg.codegen.gpu import require_gpu

    return require_gpu().arch


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
