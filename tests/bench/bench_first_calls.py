"""What the first call of a new problem costs the host: planning, building, printing, NVRTC; no GPU is asked.

    python tests/bench/bench_first_calls.py                     60 random problems per operation, of SEED
    python tests/bench/bench_first_calls.py --seed 7 --ops permute,rms_norm --count 20

The idea.  `ready_sequence` is run for an H200 without any cache, its parts timed: the choice of a plan, its
programs, their texts, and NVRTC per kernel.  Times are of the processor, in milliseconds, of a process that
has made each operation's kernels once; a product is prepared as a call on arrays is, copies included.  What
a call adds on a GPU is loading.  Where several cores compile the kernels of a sequence, a call waits for the
slowest of them, not for their sum: `waited` counts it so, and is what LIMIT_MS is held against.
"""

from __future__ import annotations

import functools
import gc
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np

from layoutalg import ops
from layoutalg.codegen.gpu import compile_cubin, compile_sequence, cubin_cache, preparation, to_cuda
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import FAMILIES, Family, plan_cache
from layoutalg.kernels.rowwise import cross_entropy_problem, norm_problem, reduce_problem

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.options import options
from tests.draws import norms, permutations, products, reductions
from tests.stand_ins.hostgpu import HostGpu, planning_gpu

ARCH, GPU = "sm_90a", "NVIDIA H200"
"""As `require_gpu` says them."""
SEED, COUNT, LIMIT_MS, WORST = 2126, 60, 200.0, 3
PARTS = ("plan", "build", "print", "nvrtc")
SUMS = ("sum", "max", "argmax", "var")

Case: TypeAlias = "tuple[str, Callable[[HostGpu], Callable[[], object]]]"
"""What is asked, in words, and for a GPU what makes it ready."""


# --- random problems -----------------------------------------------------------------------------------


def norm_cases(op: str, rng: random.Random) -> Iterator[Case]:
    """Problems of tests.draws.norms, made ones of an operation."""
    while True:
        p = norms.random_problem(rng, most(rng))
        x = p.axes
        weight = op != "softmax" and rng.random() < 0.7
        yield problem_case(op, norm_problem(
            op, x.shape, x.axes, x.dtype, x.src, x.dst, x.src_offset, x.dst_offset, weight=weight,
            bias=op == "layer_norm" and rng.random() < 0.7, in_place=p.in_place,
        ))  # fmt: skip


def reduce_cases(op: str, rng: random.Random) -> Iterator[Case]:
    """Problems of tests.draws.reductions."""
    while True:
        x = reductions.random_axes(rng, most(rng))
        yield problem_case(
            op, reduce_problem(x.shape, x.axes, op, x.dtype, x.src, x.dst, x.src_offset, x.dst_offset)
        )


def permute_cases(rng: random.Random, drawn: Callable[..., Any]) -> Iterator[Case]:
    """Problems of tests.draws.permutations."""
    while True:
        yield problem_case("permute", drawn(rng, most(rng)))


def entropy_cases(rng: random.Random) -> Iterator[Case]:
    """Dense logits in any order of their modes."""
    while True:
        rank = rng.randint(1, 4)
        shape = [rng.choice((1, 2, 3, 7, 16, 33, 65)) for _ in range(rank)]
        axis = rng.randrange(rank)
        shape[axis] = rng.choice((1, 2, 5, 64, 100, 1000, 4097, 32003))
        order = rng.sample(range(rank), rank) if rng.random() < 0.3 else range(rank)
        strides, step = [0] * rank, 1
        for k in reversed(order):
            strides[k] = step
            step *= shape[k]
        yield problem_case("cross_entropy", cross_entropy_problem(
            tuple(shape), axis, rng.choice(("f32", "bf16", "f16")), rng.choice(("s64", "s32")),
            tuple(strides), rng.choice((0, 0, 1)), reduction=rng.choice(("none", "sum", "mean")),
        ))  # fmt: skip


def product_cases(rng: random.Random) -> Iterator[Case]:
    """Calls of tests.draws.products, with an array for the result, so that none is made."""
    while True:
        case = products.draw(
            rng.randrange(1 << 40), most=2048, kinds=("float32", "float16", "bfloat16"), most_elems=1 << 24
        )
        if 0 not in (*case.shape, case.k):
            yield str(case), partial(prepared_product, case)


def prepared_product(case: products.Case, gpu: HostGpu) -> Callable[[], object]:
    """A product of arrays that are somewhere, up to loading its kernels."""
    placed = dict(case.arrays)
    if "out" not in placed:
        strides = tuple(prod(case.shape[k + 1 :]) for k in range(len(case.shape)))
        placed["out"] = products.Placed(case.result, case.shape, strides, 0, prod(case.shape))
    arrays: dict[str, Any] = {}
    for name, place in placed.items():
        raw = np.empty(place.nbytes + 256, "u1")  # untouched: no memory is taken
        at = place.at(name)
        arrays[name] = gpu.array(raw, place.start_bytes, place.kind, at.shape, at.strides)
    if case.c_is_out:
        arrays["c"] = arrays["out"]
    return partial(ops.prepare, "matmul", arrays.pop("a"), **arrays, **case.options)


def most(rng: random.Random) -> int:
    """Elements of an array, at most."""
    return 1 << rng.randint(12, 24)


def problem_case(family: str, p: Any) -> Case:
    """A problem of a family, made ready."""
    made = partial(plan_cache.ready_sequence, family, p, ARCH, None, GPU)
    return f"{family} {p}", lambda gpu: made


OPS: Mapping[str, Callable[[random.Random], Iterator[Case]]] = {
    **{op: partial(norm_cases, op) for op in ("softmax", "layer_norm", "rms_norm")},
    **{op: partial(reduce_cases, op) for op in SUMS},
    "permute": partial(permute_cases, drawn=permutations.random_problem),
    "converted permute": partial(permute_cases, drawn=permutations.random_conversion),
    "cross_entropy": entropy_cases,
    "matmul": product_cases,
}


# --- measurement ---------------------------------------------------------------------------------------


@dataclass
class Took:
    """Milliseconds of the parts of a call; of NVRTC per kernel, by name."""

    case: str
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    kernels: list[list[tuple[str, float]]] = field(default_factory=list)
    """Those of each sequence, which are compiled at a time."""

    @property
    def cpu(self) -> float:
        """All parts together."""
        return sum(self.parts.values())

    @property
    def waited(self) -> float:
        """The same with the slowest kernel of each sequence in the place of all."""
        slowest = (max((ms for _, ms in kernels), default=0.0) for kernels in self.kernels)
        return self.cpu - self.parts["nvrtc"] + sum(slowest)


@contextmanager
def clocked(took: Took) -> Iterator[None]:
    """Whatever is planned inside is timed by its parts; what is inside of another part counts there alone."""
    below = threading.local()

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            outer, below.ms, begin = getattr(below, "ms", 0.0), 0.0, time.thread_time()
            try:
                made = function(*args, **options)
            finally:
                whole = 1e3 * (time.thread_time() - begin)
                own, below.ms = whole - below.ms, outer + whole
                took.parts[part] += own
            if part == "nvrtc":
                took.kernels[-1].append((args[1], own))
            return made

        return run

    def sequence(*asked: Any) -> Any:
        took.kernels.append([])
        return compile_sequence(*asked)

    def family(found: Family) -> Family:
        ways = {name: getattr(found, name) for name in ("launches", "shared", "called")}
        timed_ways: dict[str, Any] = {name: timed("build", way) for name, way in ways.items() if way}
        return replace(found, **timed_ways)

    forget()
    with (
        patch.object(plan_cache, "FAMILIES", {name: family(found) for name, found in FAMILIES.items()}),
        patch.object(plan_cache, "compile_sequence", sequence),
        patch.object(preparation, "to_cuda", timed("print", to_cuda)),
        patch.object(cubin_cache, "compile_cubin", timed("nvrtc", compile_cubin)),
    ):
        before, begin = sum(took.parts.values()), time.thread_time()
        below.ms = 0.0
        yield
        took.parts["plan"] += 1e3 * (time.thread_time() - begin) - below.ms - before


def forget() -> None:
    """Whatever kernels/ keeps of problems: what each of them is planned from stays, as the language's."""
    for kept in gc.get_objects():
        if isinstance(kept, functools._lru_cache_wrapper) and kept.__module__.startswith("layoutalg.kernels"):
            kept.cache_clear()


def measured(op: str, seed: int, count: int) -> list[Took]:
    """So many problems of an operation, and one of another seed before."""
    before, drawn = (OPS[op](random.Random(f"{op} {n}")) for n in (seed + 1, seed))
    found: list[Took] = []
    with planning_gpu(ARCH) as gpu:
        for text, ready in (*islice(before, 1), *islice(drawn, count)):
            call, took = ready(gpu), Took(text)
            try:
                with clocked(took):
                    call()
            except LayoutAlgError as error:  # a refusal is an answer too
                took.case += f": {type(error).__name__}"
            found.append(took)
    return found[1:]


def row(op: str, found: list[Took]) -> str:
    """A line of the table."""
    medians = [statistics.median(one.parts[part] for one in found) for part in PARTS]
    waited = sorted(one.waited for one in found)
    cpu = sorted(one.cpu for one in found)
    below = [sum(ms < LIMIT_MS for ms in times) / len(times) for times in (cpu, waited)]
    numbers = (*medians, statistics.median(cpu), cpu[-1], statistics.median(waited), waited[-1])
    return f"{op:18}" + "".join(f"{ms:8.1f}" for ms in numbers) + "".join(f"{x:8.0%}" for x in below)


def main(args: list[str]) -> None:
    """Print the table, and what took longest."""
    parser = options(__doc__, seed=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--ops", default=",".join(OPS))
    asked = parser.parse_args(args)
    os.environ["LAYOUTALG_CACHE"] = "off"
    heads = (*PARTS, "cpu", "most", "waited", "most", "cpu<0.2", "wai<0.2")
    print(f"{'ms, medians':18}" + "".join(f"{head:>8}" for head in heads))
    for op in asked.ops.split(","):
        found = measured(op, asked.seed, asked.count)
        print(row(op, found), flush=True)
        for one in sorted(found, key=lambda one: -one.waited)[:WORST]:
            kernels = " ".join(f"{name}:{ms:.0f}" for some in one.kernels for name, ms in some)
            parts = " ".join(f"{part} {ms:.0f}" for part, ms in one.parts.items())
            print(f"    {one.waited:6.0f} of {one.cpu:.0f}  {parts} ({kernels})  {one.case}")


if __name__ == "__main__":
    main(sys.argv[1:])
