"""Random reductions compiled by all cores and run on one GPU.

python -m tests.gpu.reduce_cases 600        as many cases, compared with NumPy within the stated bound
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from layoutalg.codegen.gpu import (
    Prepared,
    in_processes,
    load_prepared,
    prepare,
    require_gpu,
    to_device,
    to_host,
)
from layoutalg.kernels.rowwise import ReducePlan, plans, reduced
from layoutalg.kernels.rowwise.programs.reduce import build
from layoutalg.kernels.rowwise.trials import reduction_bound
from tests.gpu.counters import verdict
from tests.reductions import (
    decoded,
    outputs,
    random_numbers,
    random_plan,
    random_reduction,
)

MOST_ELEMS = 300_000
UNTOUCHED = 0x5A5A


def compiled(case: tuple[int, str]) -> tuple[ReducePlan, list[Prepared]]:
    """The problem of a seed with one of its plans, and the kernels of an architecture."""
    seed, arch = case
    rng = random.Random(seed)
    p = random_reduction(rng, MOST_ELEMS if seed % 2 else 5000)
    plan = random_plan(rng, p) if seed % 3 else rng.choice(plans(p, arch))
    return plan, [prepare(kernel, arch) for kernel in build(plan)]


def wrong_cases(count: int, first: int = 0) -> Iterator[str]:
    """Run the problems of `count` seeds; describe those whose result is not within the bound of NumPy's."""
    arch = require_gpu().arch
    seeds = range(first, first + count)
    for seed, (plan, kernels) in zip(seeds, in_processes(compiled, [(s, arch) for s in seeds]), strict=True):
        if not right(plan, kernels, seed):
            yield f"seed {seed}: {plan.problem} as {[p.config for p in plan.passes]}"


def right(plan: ReducePlan, kernels: Sequence[Prepared], seed: int) -> bool:
    """Results within the stated bound, and nothing else written."""
    import numpy

    p = plan.problem
    bits, values = random_numbers(p.axes.source_elems, p.axes.dtype.name, seed)
    old = numpy.full(p.axes.target_elems, UNTOUCHED, f"u{p.result.nbytes}")
    chain = [_aligned(bits)]
    if plan.workspace_elems:
        chain.append(to_device(numpy.zeros(plan.workspace_elems, "u4")))
    chain.append(_aligned(old))
    for n, kernel in enumerate(kernels):
        load_prepared(kernel)(src=chain[n], dst=chain[n + 1])
    got = to_host(chain[-1])[: len(old)].copy()
    error = numpy.abs(outputs(p, decoded(got, p.result.name)) - reduced(p, values))
    near = bool((error <= reduction_bound(p, plan.additions, values)).all())
    outputs(p, got)[...] = UNTOUCHED
    return near and bool((got == UNTOUCHED).all())


def _aligned(array: Any) -> Any:
    """An array on the GPU, padded to 16 bytes."""
    import numpy

    padded = numpy.zeros(-(-array.nbytes // 16) * 16 // array.itemsize, array.dtype)
    padded[: len(array)] = array
    return to_device(padded)


def main(args: list[str]) -> int:
    """See the module's text."""
    count = int(args[0]) if args else 600
    wrong = list(wrong_cases(count))
    print(*wrong, sep="\n")
    return verdict(len(wrong), count, "random reductions")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
