"""Random permutes compiled by all cores and run on one GPU.

python -m tests.gpu.permute_cases 2000          as many cases, compared with NumPy
python -m tests.gpu.permute_cases 500 1500      the last quarter of them
python -m tests.gpu.permute_cases plain         sixty small ones, every configuration, for a sanitizer

Every second case converts its elements to another type; none of the small ones does.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from layoutalg.codegen import gpu
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move import PermuteProblem, build_permute, normalise, permute_configs, reference
from tests.draws import permutations
from tests.gpu import seeds

MOST_ELEMS = 300_000


def problem_of(seed: int, small: bool) -> PermuteProblem:
    """The problem of a seed."""
    draw = permutations.random_conversion if seed % 2 and not small else permutations.random_problem
    return draw(random.Random(seed), 4000 if small else MOST_ELEMS)


def compiled(small: bool, asked: tuple[int, str]) -> list[gpu.Prepared]:
    """The kernel of one of the configurations of a seed's problem; of a small one of all."""
    seed, arch = asked
    x = normalise(problem_of(seed, small))
    configs = list(permute_configs(x, arch))
    chosen = configs if small else [random.Random(~seed).choice(configs)]
    return [gpu.prepare(build_permute(x, c), arch) for c in chosen]


def run(small: bool, seed: int, arch: str, kernels: Sequence[gpu.Prepared]) -> None:
    """Launch a seed's kernels.  Raises AssertionError for a result that is not NumPy's."""
    p = problem_of(seed, small)
    x, (src, old) = normalise(p), permutations.random_buffers(p, seed)
    expected, sides = reference(p, src, old), ((src, x.element_bytes), (old, x.result_bytes))
    for kernel in kernels:  # of small ones a sanitizer sees each element's end
        from_, to = (seeds.on_gpu(array, CARRIER[n], n if small else 16) for array, n in sides)
        gpu.load_prepared(kernel)(src=from_, dst=to)
        result: Any = gpu.to_host(to.view("uint8"))[: old.nbytes]
        if p.result:
            assert permutations.same_numbers(result.view(expected.dtype), expected, p.result.name), p
        else:
            assert (result == expected.view("uint8")).all(), p


def wrong_cases(every: Sequence[int], small: bool = False) -> Iterator[str]:
    """Run the problems of some seeds; describe those whose result is not NumPy's."""
    return seeds.wrong(partial(compiled, small), partial(run, small), every)


if __name__ == "__main__":
    small = sys.argv[1:] == ["plain"]
    sys.exit(seeds.main(sys.argv[1:], partial(wrong_cases, small=small), "random permutes", 2000, range(60)))
