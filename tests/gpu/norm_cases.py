"""Random softmaxes and layer norms compiled by all cores and run on one GPU.

python -m tests.gpu.norm_cases 600        as many cases, compared with NumPy within the stated bound
python -m tests.gpu.norm_cases plain      sixty small ones on plain allocations, for a sanitizer
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from layoutalg.codegen import gpu
from layoutalg.codegen.program import Kernel
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.programs.norm import plan
from tests.draws import norms
from tests.gpu import seeds

MOST_ELEMS = 300_000
Draw: TypeAlias = Callable[[int, str], tuple[NormProblem, NormConfig]]


def case_of(seed: int, arch: str) -> tuple[NormProblem, NormConfig]:
    """The problem of a seed, and a configuration: of the plan, or read twice, and split, or as a stream."""
    rng = random.Random(seed)
    some = norms.skewed_problem if seed % 8 == 4 else norms.random_problem
    p = some(rng, MOST_ELEMS if seed % 2 else 5000)
    c = rng.choice(configs(p, arch)[: 1 if seed % 3 == 0 else None])
    if seed % 5 == 0:
        staged = rng.choice([0, 2 * c.depth]) if c.vec * p.dtype.nbytes >= 4 else 0
        splits = rng.choice([1, 2, 5])
        c = replace(c, hold="global", staged=staged, splits=splits, cluster=1, turns=0, resident=0, width=0)
    elif seed % 4 == 0 and (found := norms.streams(p)):
        vec, width = rng.choice(found)
        side, depth, splits = rng.choice([4, 8, 16]), rng.choice([2, 4, 8]), rng.choice([1, 2, 5])
        staged = rng.choice([0, 2 * depth]) if vec * p.dtype.nbytes >= 4 else 0
        c = NormConfig(vec, side, 128 // side, "global", depth, splits, staged, width=width)
    return p, c


def row_problem(rng: random.Random, n: int, rows: int, dtypes: Sequence[str]) -> NormProblem:
    """Rows of about 2^n elements, up to so many of them, with and without weights and offsets."""
    op, dtype = rng.choice(("softmax", "layer_norm", "rms_norm")), rng.choice(dtypes)
    offset, n = rng.choice((0, 0, 3, 8)), n if rng.random() < 0.5 else n // 8 * 8
    weight = op != "softmax" and rng.random() < 0.5
    in_place = n % 8 == 0 and offset % 8 == 0 and rng.random() < 0.3
    return norm_problem(
        op, (max(1, min(rows, (1 << 21) // n)), n), 1, dtype, src_offset=offset, dst_offset=offset,
        in_place=in_place, weight=weight, bias=op == "layer_norm",
    )  # fmt: skip


def compiled(draw: Draw, asked: tuple[int, str]) -> list[gpu.Prepared]:
    """The kernels of a seed's problem, for an architecture."""
    p, c = draw(*asked)
    return [gpu.prepare(kernel, asked[1]) for kernel in plan(p, asked[1], c).kernels]


def run(draw: Draw, launches: int, seed: int, arch: str, kernels: Sequence[gpu.Prepared]) -> None:
    """Launch a seed's kernels.  Raises AssertionError for a wrong result, or for other bits another time."""
    p, c = draw(seed, arch)
    made, d, first = plan(p, arch, c), norms.data(p, seed), None
    loaded = {k.name: gpu.load_prepared(one) for k, one in zip(made.kernels, kernels, strict=True)}

    def launch(kernel: Kernel, args: dict[str, Any]) -> None:
        loaded[kernel.name](**args)

    for _ in range(launches):
        got = gpu.to_host(norms.launch_all(made, replace(d), launch, gpu.to_device))
        norms.check(p, d, got)
        assert first is None or (got == first).all(), f"other bits the second time, {p}, {c}"
        first = got


def wrong_cases(every: Sequence[int], draw: Draw = case_of, launches: int = 1) -> Iterator[str]:
    """Run the problems of some seeds; describe those whose result is not within the bound of NumPy's."""
    return seeds.wrong(partial(compiled, draw), partial(run, draw, launches), every)


if __name__ == "__main__":
    sys.exit(seeds.main(sys.argv[1:], wrong_cases, "random norms", 600, range(0, 120, 2)))
