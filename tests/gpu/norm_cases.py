"""Random softmaxes and layer norms compiled by all cores and run on one GPU.

python -m tests.gpu.norm_cases 600        as many cases, compared with NumPy within the stated bound
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from layoutalg.codegen.program import Kernel
from layoutalg.kernels.rowwise import NormConfig, NormLaunches, NormProblem
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.programs.norm import plan
from tests.gpu.counters import verdict
from tests.norms import check, data, launch_all, random_problem, skewed_problem, streams

MOST_ELEMS = 300_000


def case_of(seed: int, arch: str) -> tuple[NormProblem, NormConfig]:
    """The problem of a seed, and a configuration: of the plan, or read twice, and split, or as a stream."""
    rng = random.Random(seed)
    some = skewed_problem if seed % 8 == 4 else random_problem
    p = some(rng, MOST_ELEMS if seed % 2 else 5000)
    c = rng.choice(configs(p, arch)[: 1 if seed % 3 == 0 else None])
    if seed % 5 == 0:
        staged = rng.choice([0, 2 * c.depth]) if c.vec * p.dtype.nbytes >= 4 else 0
        splits = rng.choice([1, 2, 5])
        c = replace(c, hold="global", staged=staged, splits=splits, cluster=1, turns=0, resident=0, width=0)
    elif seed % 4 == 0 and (found := streams(p)):
        vec, width = rng.choice(found)
        side, depth, splits = rng.choice([4, 8, 16]), rng.choice([2, 4, 8]), rng.choice([1, 2, 5])
        staged = rng.choice([0, 2 * depth]) if vec * p.dtype.nbytes >= 4 else 0
        c = NormConfig(vec, side, 128 // side, "global", depth, splits, staged, width=width)
    return p, c


def launches_of(seed: int, arch: str) -> NormLaunches:
    """What computes the problem of a seed."""
    p, c = case_of(seed, arch)
    return plan(p, arch, c)


def compiled(case: tuple[int, str]) -> list[Prepared]:
    """The kernels of a seed's problem, for an architecture."""
    seed, arch = case
    return [prepare(kernel, arch) for kernel in launches_of(seed, arch).kernels]


def wrong_cases(count: int, first: int = 0) -> Iterator[str]:
    """Run the problems of `count` seeds; describe those whose result is not within the bound of NumPy's."""
    arch = require_gpu().arch
    seeds = range(first, first + count)
    for seed, kernels in zip(seeds, in_processes(compiled, [(s, arch) for s in seeds]), strict=True):
        try:
            run(seed, arch, kernels)
        except AssertionError as error:
            yield f"seed {seed}: {error}, {case_of(seed, arch)[1]}"


def run(seed: int, arch: str, kernels: Sequence[Prepared]) -> None:
    """Launch the kernels of a seed's problem.  Raises AssertionError for a wrong result."""
    launches = launches_of(seed, arch)
    loaded = {k.name: load_prepared(one) for k, one in zip(launches.kernels, kernels, strict=True)}
    d = data(launches.problem, seed)

    def launch(kernel: Kernel, args: dict[str, Any]) -> None:
        loaded[kernel.name](**args)

    check(launches.problem, d, to_host(launch_all(launches, d, launch, to_device)))


def main(args: list[str]) -> int:
    """See the module's text."""
    count = int(args[0]) if args else 600
    wrong = list(wrong_cases(count))
    print(*wrong, sep="\n")
    return verdict(len(wrong), count, "random norms")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
