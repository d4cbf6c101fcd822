"""Long rows: clusters of blocks that keep a row, in every size, beside what is chosen and a copy.

python -m tests.gpu.long_rows correct SEED COUNT             random long rows, compared with NumPy
python -m tests.gpu.long_rows times out.jsonl SET ...        every way of keeping rows
python -m tests.gpu.long_rows chosen out.jsonl SET ...       what is chosen alone, beside torch.compile

A set is OP:SEED, rows of lengths that are drawn; OP:fixed has COLUMNS, OP:short shorter rows, OP:few few
rows.  See row_bench for times.  A line of the file is a problem with the medians of its ways, in
microseconds, their registers, and the clusters that run at a time.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace

from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels.checks.rowwise import Case
from layoutalg.kernels.rowwise import NormConfig, NormProblem
from layoutalg.kernels.rowwise.ways.norm_plan import form_of, norm_configs
from layoutalg.kernels.rowwise.ways.schedule import Schedule, walk_of
from tests.gpu import random_kernels, row_bench
from tests.gpu.timing import one_stream

COLUMNS = (16384, 32768, 65536, 131072, 262144, 524288, 1048576)
ELEMS = 1 << 27
SHORT, FEW = (2048, 4096, 6144, 8192, 12288), (1, 2, 4, 8, 16, 32, 64)
CLUSTERS, THREADS = (1, 2, 3, 4, 6, 8, 12, 16), (128, 256, 512)
MOST_WORDS, MOST_SHARED = 32, 200 << 10


def cases(name: str) -> list[Case]:
    """The problems of a set; half of the lengths that are drawn are no multiples of a vector."""
    op, _, which = name.partition(":")
    rng = random.Random(which)
    drawn = [round(2 ** rng.uniform(14, 20)) for _ in COLUMNS]
    drawn = [n // 8 * 8 if rng.random() < 0.5 else n for n in drawn]
    lengths = {"fixed": COLUMNS, "short": SHORT}.get(which, drawn)
    shapes = [(rows, 262144) for rows in FEW] if which == "few" else [(ELEMS // n, n) for n in lengths]
    return [Case(op, shape, (1,), t) for shape in shapes for t in ("f32", "bf16")]


def ways(case: Case, *, every: bool) -> list[NormConfig]:
    """The ways that are timed of a problem: the best of its plan, then every cluster that has room."""
    p = row_bench.problem_of(case)
    chosen = norm_configs(p, require_gpu().arch)
    if not every:
        return [chosen[0]]
    found = [*chosen[:2], *(c for c in chosen if c.cluster == 1 and (c.hold, c.staged) != ("shared", 0))]
    vec, row = 16 // p.dtype.nbytes, p.axes.count * p.dtype.nbytes
    for cluster in CLUSTERS:
        for threads in THREADS:
            c = NormConfig(vec, 1, threads, "shared", cluster=cluster)
            rounds = Schedule(walk_of(form_of(p), p.dtype, c), c).rounds
            if rounds < 2 or rounds * threads * 16 * cluster > 1.4 * row:
                continue
            for words in (0, 16, MOST_WORDS):
                staged = rounds - words // 4
                if staged > 0 and staged * threads * 16 <= MOST_SHARED:
                    found.append(replace(c, staged=staged if words else 0))
    return list(dict.fromkeys(found))


def times(path: str, names: list[str], *, every: bool) -> int:
    """Write a row for each problem; the exit status."""
    made = row_bench.by_case(
        (case, c) for name in names for case in cases(name) for c in ways(case, every=every)
    )
    with one_stream():
        others = () if every else ("compile",)
        return row_bench.wrong_rows(row_bench.sweep(path, made.items(), row_bench.bench(7), others))


def drawn(seed: int, arch: str) -> tuple[NormProblem, NormConfig]:
    """A problem of long rows and a way of keeping them, of a seed."""
    rng = random.Random(seed)
    p = random_kernels.row_problem(rng, round(2 ** rng.uniform(11, 19)), rng.randint(1, 40), row_bench.DTYPES)
    vec, row = 16 // p.dtype.nbytes, p.axes.count * p.dtype.nbytes
    found = []
    for cluster in (2, 3, 4, 5, 7, 8, 11, 16):
        for threads in (*THREADS, 1024):
            rounds = -(-row // (16 * threads * cluster)) + 1
            c = NormConfig(vec, 1, threads, "registers", cluster=cluster)
            found += [c] if rounds <= 12 else []
            found += [replace(c, hold="shared")] if rounds * threads * 16 <= MOST_SHARED else []
            staged = rounds - rng.randint(2, 6)
            if 0 < staged < rounds - 1 and staged * threads * 16 <= MOST_SHARED:
                found.append(replace(c, hold="shared", staged=staged))
    return p, rng.choice(found)


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[0] in ("times", "chosen"):
        return times(args[1], args[2:], every=args[0] == "times")
    first, count = int(args[1]), int(args[2])
    return random_kernels.judged(random_kernels.norms_by(drawn, 2), range(first, first + count), "long rows")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
