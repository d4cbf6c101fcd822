"""Rows that no cluster holds, by two launches and by one whose blocks are resident together, beside a copy.

python -m tests.gpu.whole_rows correct SEED COUNT            random rows and ways, compared with NumPy
python -m tests.gpu.whole_rows times out.json SEED ...       every way of the cases of `row_bench.drawn`;
python -m tests.gpu.whole_rows chosen out.json SEED ...      what is chosen, beside two launches; of the five
                                                             slowest torch.compile too
"""

from __future__ import annotations

import random
import sys
from itertools import product
from statistics import geometric_mean

from layoutalg.kernels.checks.rowwise import Case
from layoutalg.kernels.rowwise import NormConfig, NormProblem
from layoutalg.kernels.rowwise.ways.norm_plan import form_of, norm_configs
from layoutalg.kernels.rowwise.ways.schedule import walk_of
from tests.gpu import random_kernels, row_bench
from tests.gpu.timing import one_stream

SMS, SLOWEST = 132, 5
RINGS = ((512, 2, 12), (512, 4, 12), (1024, 2, 12))
"""Threads of a block, vectors at a time, and vectors in shared memory."""

AT_ONCE = (1, 2, 4, 8)
"""Rows that are read at once, beside all of them."""


def is_long(case: Case) -> bool:
    """Whether the rows of a case are split, or kept by clusters of more than 8 blocks."""
    p = row_bench.problem_of(case)
    first = norm_configs(p)[0]
    return form_of(p).lead.reduced and (first.splits > 1 or first.cluster > 8) and not first.width


def ring(vec: int, ring: tuple[int, int, int], splits: int, at_once: int) -> NormConfig:
    """Resident blocks that read parts of so many rows at once."""
    threads, depth, staged = ring
    return NormConfig(vec, 1, threads, "global", depth, splits, staged, resident=splits * at_once)


def ways(case: Case, which: str) -> list[NormConfig]:
    """The way that is chosen, two launches, and rings of resident blocks."""
    p = row_bench.problem_of(case)
    chosen = norm_configs(p)
    apart = [c for c in chosen if c.splits > 1 and not c.together]
    found = [*chosen[:1], *apart[:1], *[c for c in chosen if c.cluster > 1][:1]]
    rows, vec = walk_of(form_of(p), p.dtype, chosen[0]).places, chosen[0].vec
    several = sorted({rows, *(n for n in AT_ONCE if n < rows)}) if which == "times" else ()
    for one, at_once in product(RINGS, several):
        if (splits := SMS * (1024 // one[0]) // at_once) > 1:
            found.append(ring(vec, one, splits, at_once))
    return list(dict.fromkeys(found))


def times(path: str, seeds: list[int], which: str) -> int:
    """Write the medians of all ways; the exit status."""
    cases = [case for seed in seeds for case in row_bench.drawn(seed, 40, 0) if is_long(case)]
    made = row_bench.by_case((case, c) for case in cases for c in ways(case, which))
    with one_stream():
        bench = row_bench.bench(7)
        rows = row_bench.sweep(path, made.items(), bench)
        of = {case: row["share"][next(iter(row["ways"]))] for case, row in zip(made, rows, strict=True)}
        best = (max(row["share"][name] for name in row["ways"]) for row in rows)
        print(f"\nchosen {geometric_mean(of.values()):.3f}, best {geometric_mean(best):.3f}")
        if which == "chosen":
            slowest = sorted(made, key=of.__getitem__)[:SLOWEST]
            row_bench.sweep(path, ((case, made[case]) for case in slowest), bench, ["compile"], rows)
    return row_bench.wrong_rows(rows)


def of_seed(seed: int, arch: str) -> tuple[NormProblem, NormConfig]:
    """A problem of long rows and resident blocks that read parts of them."""
    rng = random.Random(seed)
    p = random_kernels.row_problem(
        rng, round(2 ** rng.uniform(13, 21)), rng.choice((1, 1, 2, 3, 7, 12)), row_bench.DTYPES
    )
    rows, one = p.axes.shape[0], rng.choice(RINGS)
    at_once = rng.choice((rows, rng.randint(1, rows)))
    most = SMS * (1024 // one[0]) // at_once
    return p, ring(16 // p.dtype.nbytes, one, rng.choice((most, rng.randint(2, most))), at_once)


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[0] in ("times", "chosen"):
        return times(args[1], [int(seed) for seed in args[2:]], args[0])
    first, count = int(args[1]), int(args[2])
    return random_kernels.judged(
        random_kernels.norms_by(of_seed, 2), range(first, first + count), "whole rows"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
