"""Random reductions compiled by all cores and run on one GPU.

python -m tests.gpu.reduce_cases 600        as many cases, compared with NumPy within the stated bound
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence

from layoutalg.codegen.gpu import (
    Prepared,
    in_processes,
    load_prepared,
    prepare,
    require_gpu,
    to_device,
    to_host,
)
from layoutalg.kernels.elements import whole_units
from layoutalg.kernels.rowwise import ReducePlan, plans
from layoutalg.kernels.rowwise.programs.reduce import build
from tests.gpu.counters import verdict
from tests.reductions import check, data, random_plan, random_reduction

MOST_ELEMS = 300_000


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
    src, old, values = data(p, seed)
    chain = [to_device(src)]
    if plan.workspace_elems:
        chain.append(to_device(numpy.zeros(plan.workspace_elems, "u4")))
    chain.append(to_device(whole_units(old)))
    for n, kernel in enumerate(kernels):
        load_prepared(kernel)(src=chain[n], dst=chain[n + 1])
    try:
        check(p, plan.additions, values, to_host(chain[-1])[: len(old)])
    except AssertionError:
        return False
    return True


def main(args: list[str]) -> int:
    """See the module's text."""
    count = int(args[0]) if args else 600
    wrong = list(wrong_cases(count))
    print(*wrong, sep="\n")
    return verdict(len(wrong), count, "random reductions")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
