"""Random reductions compiled by all cores and run on one GPU.

python -m tests.gpu.reduce_cases 600        as many cases, compared with NumPy within the stated bound
python -m tests.gpu.reduce_cases plain      sixty small ones on plain allocations, for a sanitizer
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from layoutalg.codegen import gpu
from layoutalg.kernels.elements import whole_units
from layoutalg.kernels.rowwise import ReducePlan, plans
from layoutalg.kernels.rowwise.programs.reduce import build
from tests.draws import reductions
from tests.gpu import seeds

MOST_ELEMS = 300_000


def compiled(asked: tuple[int, str]) -> tuple[ReducePlan, list[gpu.Prepared]]:
    """The problem of a seed with one of its plans, and the kernels of an architecture."""
    seed, arch = asked
    rng = random.Random(seed)
    p = reductions.random_reduction(rng, MOST_ELEMS if seed % 2 else 5000)
    plan = reductions.random_plan(rng, p) if seed % 3 else rng.choice(plans(p, arch))
    return plan, [gpu.prepare(kernel, arch) for kernel in build(plan)]


def run(seed: int, arch: str, made: tuple[ReducePlan, Sequence[gpu.Prepared]]) -> None:
    """Launch a seed's kernels.  Raises AssertionError past the stated bound, or where else is written."""
    plan, kernels = made
    p = plan.problem
    what = f"{p} as {[one.config for one in plan.passes]}"
    src, old, values = reductions.data(p, seed)
    between = [gpu.to_device(np.zeros(plan.workspace_elems, "u4"))] if plan.workspace_elems else []
    chain = [gpu.to_device(src), *between, gpu.to_device(whole_units(old))]
    for n, kernel in enumerate(kernels):
        gpu.load_prepared(kernel)(src=chain[n], dst=chain[n + 1])
    try:
        reductions.check(p, plan.additions, values, gpu.to_host(chain[-1])[: len(old)])
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error


def wrong_cases(every: Sequence[int]) -> Iterator[str]:
    """Run the problems of some seeds; describe those whose result is not within the bound of NumPy's."""
    return seeds.wrong(compiled, run, every)


if __name__ == "__main__":
    sys.exit(seeds.main(sys.argv[1:], wrong_cases, "random reductions", 600, range(0, 120, 2)))
