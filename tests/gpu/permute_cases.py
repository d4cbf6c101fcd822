"""Random permutes compiled by all cores and run on one GPU.

python -m tests.gpu.permute_cases 2000          as many cases, compared with NumPy
python -m tests.gpu.permute_cases 500 1500      the last quarter of them

Every second case converts its elements to another type.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from layoutalg.codegen.gpu import Prepared, load_prepared, prepare, require_gpu, to_device, to_host
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import PermuteProblem, normalise, reference
from layoutalg.kernels.move.programs.permute import build
from tests.gpu.counters import verdict
from tests.permutations import random_buffers, random_conversion, random_problem, same_numbers

MOST_ELEMS = 300_000


@dataclass(frozen=True)
class Compiled:
    """A random problem and one of its kernels, ready to load."""

    seed: int
    problem: PermuteProblem
    ready: Prepared


def compiled(seed: int, arch: str) -> Compiled:
    """The problem of a seed, and the kernel of one of its configurations."""
    rng = random.Random(seed)
    p = (random_conversion if seed % 2 else random_problem)(rng, MOST_ELEMS)
    x = normalise(p)
    return Compiled(seed, p, prepare(build(x, rng.choice(configs(x, arch))), arch))


def wrong_cases(count: int, first: int = 0) -> Iterator[str]:
    """Run the problems of `count` seeds; describe those whose result is not NumPy's."""
    arch = require_gpu().arch
    seeds = range(first, first + count)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        for case in pool.map(compiled, seeds, [arch] * count, chunksize=4):
            if not _right(case):
                yield f"seed {case.seed}: {case.problem}"


def _right(case: Compiled) -> bool:
    p = case.problem
    x, (src, old) = normalise(p), random_buffers(p, case.seed)
    expected = reference(p, src, old)
    on_gpu = _aligned(src, x.element_bytes), _aligned(old, x.result_bytes)
    load_prepared(case.ready)(src=on_gpu[0], dst=on_gpu[1])
    result = to_host(on_gpu[1].view("uint8"))[: old.nbytes]
    if p.result:
        return same_numbers(result.view(expected.dtype), expected, p.result.name)
    return bool((result == expected.view("uint8")).all())


def _aligned(array: Any, size: int) -> Any:
    """The bytes of an array on the GPU, as elements of `size` bytes, padded to 16."""
    import numpy

    raw = numpy.zeros(-(-array.nbytes // 16) * 16, dtype="uint8")
    raw[: array.nbytes] = array.view("uint8")
    return to_device(raw).view(CARRIER[size])


def main(args: list[str]) -> int:
    """See the module's text."""
    count, first = (*map(int, args), *(2000, 0)[len(args) :])
    wrong = list(wrong_cases(count, first))
    print(*wrong, sep="\n")
    return verdict(len(wrong), count, "random permutes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
