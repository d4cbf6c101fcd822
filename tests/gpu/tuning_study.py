"""What a search of the first n candidates finds, against all of them: random products and random movers.

python -m tests.gpu.tuning_study products 40 60 out.json     60 s, from the first that out.json lacks
python -m tests.gpu.tuning_study movers 40 60 out.json
python -m tests.gpu.tuning_study products 15:40 60 more.json    others than the first 15

All are all legal candidates: those that a search looks at in its order, at most BY_RANK, and at most
AT_RANDOM others.  Choices run in turn, in an order drawn anew for each round, on a cold L2, the host ahead.
A search chooses by the medians of one half of the rounds; the fastest of n and the fastest of all are then
timed again beside each other, twice, so that a choice is not judged by the times that it was chosen by.  How
far the two repeats are apart is the noise.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

from layoutalg.codegen.gpu import compile_sequence, in_processes, require_gpu
from layoutalg.kernels import find_family
from layoutalg.kernels.checks.move import Case
from layoutalg.kernels.gemm import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.choice import SM90
from layoutalg.kernels.gemm.launches import called_launches, way
from layoutalg.kernels.move import normalise, permute_problem
from tests.gpu.gemm_launch import Product
from tests.gpu.moves import Moved, Variant, timed_cases, variants
from tests.gpu.timing import Run, Turns, free, one_stream, write
from tests.gpu.tune_permute import drawn as drawn_movers
from tests.gpu.tune_wgmma import compile_all, drawn

SEED = 20261404
"""Of the movers, and of what is drawn at random; the products are `drawn("study")`."""

BY_RANK, AT_RANDOM = {"products": 64, "movers": 32}, {"products": 64, "movers": 16}
TOPS = (1, 2, 4, 8, 16)
ROUNDS, AGAIN = 6, 7


class Study(NamedTuple):
    """A problem: what it is, the candidates by rank and then the others, how many the family offers."""

    problem: str
    names: list[str]
    runs: list[Run]
    offered: int
    by_rank: int
    vendor: Run


def row_of(study: Study, turns: Turns) -> dict[str, Any]:
    """Medians of both halves of the rounds, and of the choices again, twice."""
    times = list(turns.times(dict(enumerate(study.runs))).values())
    first, second = ([median(own[half::2]) for own in times] for half in (0, 1))

    def fastest(n: int) -> int:
        return min(range(n), key=first.__getitem__)

    chosen = {n: fastest(min(n, study.by_rank)) for n in TOPS}
    chosen[0] = fastest(len(first))
    distinct = sorted(set(chosen.values()))
    twice = dict(enumerate([study.vendor, *(study.runs[k] for k in distinct)]))
    again = turns.times(twice, 2 * AGAIN)
    both = [[median(own[half::2]) for half in (0, 1)] for own in again.values()]
    return {
        "problem": study.problem, "offered": study.offered, "by_rank": study.by_rank, "names": study.names,
        "first_us": [round(x, 3) for x in first], "second_us": [round(x, 3) for x in second],
        "chosen": {str(n): k for n, k in chosen.items()}, "vendor_us": both[0],
        "again_us": {str(k): both[1 + place] for place, k in enumerate(distinct)},
    }  # fmt: skip


# --- products ------------------------------------------------------------------------------------------


def ways(p: GemmProblem) -> tuple[list[Any], int, int]:
    """Configurations by rank and others, how many the family offers and how many are by rank."""
    every = list(SM90.configs(p))
    by_rank, rest = every[: BY_RANK["products"]], every[BY_RANK["products"] :]
    drawn_rest = random.Random(f"{SEED} {p}").sample(rest, min(len(rest), AT_RANDOM["products"]))
    return by_rank + drawn_rest, len(every), len(by_rank)


def products(sizes: Sequence[tuple[int, int, int]]) -> Iterator[Study]:
    """Studies of matrix products by gemm-sm90; every result is compared with cuBLAS."""
    problems = [gemm_problem(*size, "bf16") for size in sizes]
    compile_all((p, config) for p in problems for config in ways(p)[0])
    for p in problems:
        (configs, offered, by_rank), on_gpu = ways(p), Product(p)
        runs = [on_gpu.run(compile_sequence(called_launches(p, c), "sm_90"), c) for c in configs]
        yield Study(str(p), list(map(way, configs)), runs, offered, by_rank, on_gpu.cublas)


def mover(asked: tuple[str, tuple[str, Case]]) -> tuple[list[Variant], int, int]:
    """The configurations of a permutation, compiled: by rank, then others; how many the family offers."""
    arch, (dtype, case) = asked
    p, family = permute_problem(*case, dtype), find_family("permute")
    rng = random.Random(f"{SEED} {dtype} {case[0]} {case[1]}")
    by_rank = variants(dtype, case, list(islice(family.searched(p, arch), BY_RANK["movers"])), arch)
    known = {v.config for v in by_rank}
    others = [c for c in drawn_movers(normalise(p), rng, 2 * AT_RANDOM["movers"], arch) if c not in known]
    made = [*by_rank, *variants(dtype, case, others[: AT_RANDOM["movers"]], arch)]
    return made, len(family.configs(p, arch)), len(by_rank)


def movers(cases: Sequence[tuple[str, Case]]) -> Iterator[Study]:
    """Studies of permutations; every result is compared with PyTorch's, and the vendor is its copy."""
    arch = require_gpu().arch
    every = in_processes(mover, [(arch, case) for case in cases])
    print(f"{sum(len(made) for made, _, _ in every)} kernels", flush=True)
    for (dtype, case), (made, offered, ranks) in zip(cases, every, strict=True):
        moved, runs = Moved(dtype, case), list[Run]()
        for v in made:
            runs.append(moved.run(v))
            if not moved.is_right(runs[-1]):
                raise SystemExit(f"{moved.p} as {v.config!r}: the result is not PyTorch's")
        names = [f"{v.config.way} {v.config.tile}" for v in made]

        def vendor(moved: Moved = moved, axes: Any = case[1]) -> object:
            return moved.expected.copy_(moved.tensor.permute(axes))

        yield Study(f"{dtype} {case[0]} -> {case[1]}", names, runs, offered, ranks, vendor)
        del moved, runs, vendor
        free()


# --- shares --------------------------------------------------------------------------------------------


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Shares of the time of the fastest of all that the fastest of the first n reach."""
    counts = [len(row["names"]) for row in rows]
    lines = [
        f"{len(rows)} problems of {min(counts)} to {max(counts)} candidates, of which the family offers "
        f"{min(row['offered'] for row in rows)} to {max(row['offered'] for row in rows)}"
    ]
    for n in TOPS:
        judged, same, offered = [], [], []
        for row in rows:
            again = {int(k): geometric_mean(both) for k, both in row["again_us"].items()}
            judged.append(again[row["chosen"]["0"]] / again[row["chosen"][str(n)]])
            same.append(min(row["first_us"]) / min(row["first_us"][: min(n, row["by_rank"])]))
            offered.append(min(row["first_us"]) / min(row["first_us"][: min(n, row["offered"])]))
        lines.append(
            f"n = {n:2}: {geometric_mean(judged):.4f} of the fastest of all, least {min(judged):.3f}; by the "
            f"times that chose {geometric_mean(same):.4f}, of those offered {geometric_mean(offered):.4f}"
        )

    def over(n: str) -> float:
        again = (geometric_mean(row["again_us"][str(row["chosen"][n])]) for row in rows)
        return geometric_mean(
            geometric_mean(row["vendor_us"]) / us for row, us in zip(rows, again, strict=True)
        )

    lines.append(f"the library over the first {over('1'):.3f}, over the fastest of all {over('0'):.3f}")
    apart = [abs(a / b - 1) for row in rows for a, b in row["again_us"].values()]
    halves = [abs(a / b - 1) for row in rows for a, b in zip(row["first_us"], row["second_us"], strict=True)]
    lines.append(
        f"repeats apart by a median of {median(apart):.2%} and at most {max(apart):.1%}; the halves of the "
        f"rounds by {median(halves):.2%} and {max(halves):.0%}"
    )
    return "\n".join(lines)


def main(args: list[str]) -> None:
    """See the module's text."""
    kind, *more = args
    first, _, last = more[0].rpartition(":")
    start, count = int(first or 0), int(last)
    end, out = time.monotonic() + float(more[1]), Path(more[2])
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.is_file() else []
    studies = products(drawn("study")[start + len(rows) : count]) if kind == "products" else None
    with one_stream():
        turns = Turns(ROUNDS, 1)
        for study in studies or movers(timed_cases(SEED, count)[start + len(rows) :]):
            rows.append(row_of(study, turns))
            write(out, rows, kind=kind)
            row, best = rows[-1], rows[-1]["chosen"]["0"]
            print(
                f"{row['problem']}: {len(row['names'])} candidates, fastest {row['names'][best]}, "
                f"number {best}, {end - time.monotonic():.0f} s left", flush=True,
            )  # fmt: skip
            if time.monotonic() > end:
                break
    print(report(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
