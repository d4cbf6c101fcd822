"""Time the choices that gemm-sm90 has, and cuBLAS among them, on random problems with a cold L2.

python -m tests.gpu.tune_wgmma fitted out.json      the problems that the law of time is fitted to
python -m tests.gpu.tune_wgmma few out.json         others with 64 to 256 rows
python -m tests.gpu.tune_wgmma near out.json        others near a square
python -m tests.gpu.tune_wgmma fresh-few out.json   and problems on which it is judged
python -m tests.gpu.tune_wgmma study out.json       those of tests.gpu.tuning_study
python -m tests.gpu.tune_wgmma shown out.json       those of tests.gpu.hopper_products
python -m tests.gpu.tune_wgmma few out.json 60      as many of them as 60 seconds are enough for

Choices are the first MOST of those that are offered and of a wide grid of tiles and clusters, as deep as
they fit, of those that are expected to take at most EXPECTED times the first's time.  They run in turn, in an
order drawn anew for each round; before each launch a buffer of 256 MB is read, and the host is ahead.
Two rounds of all find those within LATE of the fastest, which run in further rounds.  Each result is compared
with cuBLAS once.  Kernels take extents and strides when they are launched: one compile per configuration.
tests.gpu.fit_wgmma fits the law to what this writes, and judges it.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf
from statistics import median
from typing import Any

from layoutalg.codegen.gpu import CompiledSequence, compile_sequence, in_processes, require_gpu
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.gemm.choice import SM90, offered_splits
from layoutalg.kernels.gemm.launches import called_launches
from layoutalg.kernels.gemm.times import deepest, sm90_clock
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.model import machine_of
from tests.gpu.gemm_launch import Product
from tests.gpu.hopper_products import SIZES
from tests.gpu.timing import Run, Turns, one_stream, write

SEEDS = {
    "fitted": 20261501, "few": 20261124, "near": 20261126, "fresh-few": 20261125, "study": 20261404,
    "third": 20261502,
}  # fmt: skip
COUNT = {"fitted": 96, "few": 60, "near": 24, "fresh-few": 24, "study": 40, "third": 48}
EXPECTED, MOST, LATE, ROUNDS = 1.4, 72, 1.2, 5
"""What is tried, by the first's expected time, and how many; what goes on, by the fastest's; how often."""

OPERATIONS = (5e8, 6e11)
"""Of a problem."""

LINES = 8, 16, 64
"""What extents are multiples of: 16 and 32 bytes, and 128, a line."""


def drawn(which: str) -> tuple[tuple[int, int, int], ...]:
    """Random m, n and k: a third of any shape, a third with few rows, a third near a square."""
    if which == "shown":
        return SIZES
    rng = random.Random(SEEDS[which])
    find = {"few": _few, "fresh-few": _few, "near": _near}.get(which, _any)
    found: list[tuple[int, int, int]] = []
    while len(found) < COUNT[which]:
        m, n, k = find(rng, rng.choice(LINES), len(found) % 3)
        if OPERATIONS[0] <= 2 * m * n * k <= OPERATIONS[1] and m <= (256 if find is _few else m):
            found.append((m, n, k))
    return tuple(found)


def _rounded(line: int, size: float) -> int:
    return line * max(1, round(size / line))


def _any(rng: random.Random, line: int, kind: int) -> tuple[int, ...]:
    """Of any shape, with few rows, near a square."""
    near = 2 ** rng.uniform(9, 13)
    ranges = ((6, 8 if kind == 1 else 14), (8, 14), (7, 14))
    sizes = (near * 2 ** rng.uniform(-1, 1) if kind == 2 else 2 ** rng.uniform(*ends) for ends in ranges)
    return tuple(_rounded(line, size) for size in sizes)


def _few(rng: random.Random, line: int, kind: int) -> tuple[int, ...]:
    """64 to 256 rows, nearly a third of them 128."""
    rows = max(64, _rounded(line, 2 ** rng.uniform(6, 8)))
    n, k = (_rounded(line, 2 ** rng.uniform(8, most)) for most in (15, 14))
    return 128 if rng.random() < 0.3 else rows, n, k


def _near(rng: random.Random, line: int, kind: int) -> tuple[int, ...]:
    """1024 to 8192 each."""
    return tuple(_rounded(line, 2 ** rng.uniform(10, 13)) for _ in range(3))


def grid(p: GemmProblem) -> Iterator[Sm90Config]:
    """Tiles and clusters of a wide grid, as a problem has them, with every number of parts worth trying."""
    heights = [x for x in (64, 128, 192, 256) if x < p.m + 64 and (x < 256 or p.m > 256)]
    for tile_m, tile_n, (name, blocks) in product(heights, range(32, 257, 16), SHARED):
        for pingpong in (False, True)[: 1 + (name != "cluster_k" and tile_m == 128 and tile_n <= 192)]:
            tile = deepest(tile_m, tile_n, **{name: blocks}, pingpong=pingpong)
            if tile is None:
                continue
            config = SM90.fitted(p, tile)
            for splits in offered_splits(p, config, 132):
                one = config if splits == 1 else SM90.parted(p, replace(config, splits=splits))
                try:
                    check_config(p, one)
                except LayoutAlgError:
                    continue
                yield one


def compiled(asked: tuple[GemmProblem, Sm90Config]) -> str:
    """Compile into the cache; what refused it, where something did."""
    try:
        compile_sequence(called_launches(*asked), "sm_90")
    except LayoutAlgError as error:
        return f"{asked[1]}: {error}"
    return ""


def compile_all(asked: Iterator[tuple[GemmProblem, Sm90Config]]) -> None:
    """Compile the kernels of all ways into the cache, each once; print what is refused."""
    kinds = {tuple(map(id, called_launches(*way).kernels)): way for way in asked}
    refused = [why for why in in_processes(compiled, list(kinds.values())) if why]
    print(f"{len(kinds)} kernels", *refused, sep="\n", flush=True)


def tried(p: GemmProblem) -> tuple[Sm90Config, ...]:
    """The choices that are not expected to be far behind the first, the offered ones before others."""
    offered = [(ns, config) for ns, config, why in SM90.timed(p) if why is None]
    clock = sm90_clock(p, machine_of("sm_90"))
    found = {config: ns for ns, config in offered} | {c: clock(c, c.splits) for c in grid(p)}
    near = [c for c in sorted(found, key=found.__getitem__) if found[c] <= EXPECTED * offered[0][0]]
    own = {config for _, config in offered}
    return tuple(sorted(near, key=lambda c: c not in own)[:MOST])


def ready(p: GemmProblem, config: Sm90Config) -> CompiledSequence:
    """The launches of a way, by kernels that other problems have too."""
    sequence = called_launches(p, config)
    kernels = tuple(map(id, sequence.kernels))
    if kernels not in SEEN:
        SEEN[kernels] = sequence, compile_sequence(sequence, "sm_90")
    return replace(SEEN[kernels][1], sequence=sequence)


SHARED = [("cluster_m", 1), *(("cluster_" + x, n) for x, n in product("mn", (2, 4))),
          *(("cluster_k", n) for n in (2, 3, 4, 6, 8))]  # fmt: skip
"""Clusters of the grid."""

SEEN: dict[tuple[int, ...], tuple[Any, CompiledSequence]] = {}
"""Kernels that are compiled, by their places in memory, which are held here."""


def measured(p: GemmProblem, turns: Turns) -> dict[str, Any]:
    """The medians of cuBLAS and of the choices, in microseconds."""
    on_gpu = Product(p)
    runs: dict[str, Run] = {"cublas": on_gpu.cublas, "again": on_gpu.cublas}
    runs |= {str(config): on_gpu.run(ready(p, config), config) for config in tried(p)}
    times = turns.times(runs, 2)
    least = {name: min(found) for name, found in times.items()}
    best = min(us for name, us in least.items() if name not in ("cublas", "again"))
    near = {
        name: run for name, run in runs.items() if least[name] <= LATE * best or name in ("cublas", "again")
    }
    for name, found in turns.times(near).items():
        times[name] += found
    us = {name: float(f"{median(found):.4g}") for name, found in times.items()}
    vendor = {"cublas_us": us.pop("cublas"), "again_us": us.pop("again")}
    return {"m": p.m, "n": p.n, "k": p.k, **vendor, "choices": us}


def main(args: list[str]) -> None:
    """See the module's text."""
    which, began = args[0], time.perf_counter()
    enough, timed = float(args[2]) if args[2:] else inf, list[dict[str, Any]]()
    require_gpu()
    problems = [gemm_problem(*size, "bf16") for size in drawn(which)]
    compile_all((p, config) for p in problems for config in tried(p))
    with one_stream():
        turns = Turns(ROUNDS, 1)
        for p in problems:
            if time.perf_counter() - began > enough:
                break
            timed.append(measured(p, turns))
            write(args[1], timed, which)
            us, first = timed[-1]["choices"], str(SM90.configs(p)[0])
            best = min(us, key=us.__getitem__)
            print(
                f"{p}: of cuBLAS {timed[-1]['cublas_us'] / us[best]:.3f} by {best}; first {first} "
                f"{us[best] / us[first]:.3f} of it; {time.perf_counter() - began:.0f} s", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
