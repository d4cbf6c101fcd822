"""Texts for any number of rows, or any leading dimensions, beside those of one number, on drawn problems.

python -m tests.gpu.any_rows 88213          a table: microseconds of both, and their quotient

30 reductions and norms, 12 functions of each element and 10 products by mma.sync are drawn from the seed,
each by the configuration that is chosen.  Both texts run on the same arrays and have to leave the same bits;
they are timed in turns on a cold L2, with the host ahead of the GPU.  Drawn problems whose numbers of rows
are built in are counted.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import geometric_mean, median
from typing import Any

from layoutalg.codegen import gpu
from layoutalg.codegen.program import LaunchSequence
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks.record import bench_of
from layoutalg.kernels.elementwise import map_problem
from layoutalg.kernels.norms import NORMS
from layoutalg.kernels.rowwise import FOLD

ELEMENTS, MAPS = ("f32", "f16", "bf16"), ("relu", "gelu", "silu", "add")
COUNTS = {"rows": 30, "maps": 12, "products": 10}


def rows(rng: random.Random) -> tuple[str, Any]:
    """A reduction or a norm of 2^20 to 2^26 elements, along rows of 3 to 30,000."""
    op, elements = rng.choice((*FOLD, *NORMS)), int(2 ** rng.uniform(20, 26))
    columns = rng.choice((rng.randint(3, 64), rng.randint(64, 1024), 8 * rng.randint(128, 1024)))
    columns = columns if rng.random() < 0.75 else rng.randint(1000, 30000)
    inside = (rng.randint(2, 30),) if rng.random() < 0.2 else ()
    outside = max(2, elements // columns // (inside or (1,))[0])
    return op, FAMILIES[op].problem((outside, *inside, columns), 1, rng.choice(ELEMENTS))


def maps(rng: random.Random) -> tuple[str, Any]:
    """A function of each element of rows, which may lie apart; of two inputs one may be broadcast."""
    op, columns, gap = (
        rng.choice(MAPS),
        rng.choice((8 * rng.randint(8, 500), rng.randint(3, 4000))),
        rng.choice((0, 8)),
    )
    steps = [(columns + gap, 1), rng.choice(((columns + gap, 1), (0, 1)))][: 1 + (op == "add")]
    shape = max(2, int(2 ** rng.uniform(20, 26)) // columns), columns
    return op, map_problem(op, shape, rng.choice(ELEMENTS), steps)


def products(rng: random.Random) -> tuple[str, Any]:
    """A product whose extents are 256 to 4096, by 64."""
    extents = [64 * rng.randint(4, 64) for _ in range(3)]
    options = {"dtype": rng.choice(ELEMENTS[1:]), "b_major": rng.choice(("k", "mn"))}
    return "gemm-sm80", FAMILIES["gemm-sm80"].problem(*extents, **options)


def drawn(seed: str, arch: str) -> Iterator[tuple[str, str, Any, Any, list[LaunchSequence]]]:
    """Kinds, families, problems, configurations, and both launches."""
    for kind, draw in (("rows", rows), ("maps", maps), ("products", products)):
        rng, built_in, found = random.Random(f"{kind} {seed}"), 0, 0
        while found < COUNTS[kind]:
            op, p = draw(rng)
            family = FAMILIES[op]
            c = family.choose(p, arch, family.written)
            assert family.any_sizes is not None
            both = [family.launches(p, c, arch), family.any_sizes(p, c, arch)]
            if both[0] == both[1]:
                built_in += 1
                continue
            found += 1
            yield kind, op, p, c, both
        print(f"{kind}: {built_in} of {built_in + found} drawn are built in", flush=True)


def main(seed: str) -> None:
    """Print the table, and of each kind the mean quotient and the least."""
    arch = gpu.require_gpu().arch
    cases = list(drawn(seed, arch))
    with ThreadPoolExecutor() as pool:
        made = list(
            pool.map(lambda s: gpu.compile_sequence(s, arch), [s for case in cases for s in case[-1]])
        )
    quotients: dict[str, list[float]] = {}
    for n, (kind, op, p, c, _) in enumerate(cases):
        family = FAMILIES[op]
        arrays, left, runs = bench_of(family).arrays(p, 0), [], []
        before = {name: x.copy() for name, x in arrays.items()}
        for sequence in made[2 * n : 2 * n + 2]:
            runs.append(gpu.load_sequence(sequence.ready(family.numbers(p, c))).on_arrays(arrays))
            runs[-1]()
            left.append({name: gpu.to_host(x).tobytes() for name, x in arrays.items()})
            for name, x in before.items():
                arrays[name][...] = x
        times = list(gpu.cold_times_us(runs * 5, 7))
        static, free = median(times[::2]), median(times[1::2])
        quotients.setdefault(kind, []).append(static / free)
        wrong = "" if left[0] == left[1] else "  OTHER BITS"
        print(
            f"{op:12} {str(p)[:60]:60} {static:8.2f} {free:8.2f} us  {static / free:.3f}{wrong}", flush=True
        )
    for kind, each in quotients.items():
        print(f"{kind}: {len(each)}, mean {geometric_mean(each):.4f}, least {min(each):.4f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
