"""Time the choices that gemm-sm90 has, and cuBLAS among them, on random problems with a cold L2.

python -m tests.gpu.tune_wgmma fitted out.json      the problems that the model of time is fitted to
python -m tests.gpu.tune_wgmma fresh out.json       others, on which it is judged
python -m tests.gpu.tune_wgmma unseen out.json      and others, drawn after the model stood
python -m tests.gpu.tune_wgmma study out.json       those of tests.gpu.tuning_study
python -m tests.gpu.tune_wgmma shown out.json       those of tests.gpu.hopper_products
python -m tests.gpu.tune_wgmma judged out.json      what such a file says of the first choices; without a GPU
python -m tests.gpu.tune_wgmma fresh out.json 60    as many of them as 60 seconds are enough for

Choices run in turn, in an order drawn anew for each round; before each launch a buffer of 256 MB is read, and
the host is ahead of the GPU.  Left out are choices that are expected to take EXPECTED times the first's time;
two rounds of all others find those within LATE of the fastest, which run in further rounds.  Each result is
compared with cuBLAS once.  Kernels take extents and strides when they are launched: one compile per
configuration.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from layoutalg.codegen.gpu import (
    CompiledSequence,
    compile_sequence,
    device_array,
    in_processes,
    random_normal,
    require_gpu,
)
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.baselines import torch_matmul
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm.choice.heuristic import SM90
from layoutalg.kernels.gemm.family import differs, way
from layoutalg.kernels.gemm.launches import called_launches
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.tiles import Sm90Config
from tests.gpu.gemm_launch import launcher
from tests.gpu.hopper_products import SIZES
from tests.gpu.timing import flush_buffer, times_in_turn

SEEDS = {
    "fitted": 20261123, "fresh": 20261201, "unseen": 20261311, "study": 20261404, "second": 20261501,
    "third": 20261502,
}  # fmt: skip
COUNT = {"fitted": 96, "fresh": 48, "unseen": 48, "study": 40, "second": 96, "third": 48}
EXPECTED, LATE, ROUNDS = 1.5, 1.3, 5
"""What is tried, by the first's expected time; what of it goes on, by the fastest's; how often."""

OPERATIONS = (5e8, 6e11)
"""Of a problem."""

LINES = 8, 16, 64
"""What extents are multiples of: 16 and 32 bytes, and 128, a line."""


def drawn(which: str) -> tuple[tuple[int, int, int], ...]:
    """Random m, n and k: a third of any shape, a third with few rows, a third near a square."""
    if which == "shown":
        return SIZES
    rng = random.Random(SEEDS[which])
    found: list[tuple[int, int, int]] = []
    while len(found) < COUNT[which]:
        line, kind = rng.choice(LINES), len(found) % 3
        near = 2 ** rng.uniform(9, 13)
        m, n, k = (
            line * max(1, round(size / line))
            for size in (
                near * 2 ** rng.uniform(-1, 1) if kind == 2 else 2 ** rng.uniform(6, 8 if kind == 1 else 14),
                near * 2 ** rng.uniform(-1, 1) if kind == 2 else 2 ** rng.uniform(8, 14),
                near * 2 ** rng.uniform(-1, 1) if kind == 2 else 2 ** rng.uniform(7, 14),
            )
        )
        if OPERATIONS[0] <= 2 * m * n * k <= OPERATIONS[1]:
            found.append((m, n, k))
    return tuple(found)


def compiled(asked: tuple[GemmProblem, Sm90Config]) -> str:
    """Compile into the cache; what refused it, where something did."""
    try:
        compile_sequence(called_launches(*asked), "sm_90")
    except LayoutAlgError as error:
        return f"{asked[1]}: {error}"
    return ""


def tried(p: GemmProblem) -> tuple[Sm90Config, ...]:
    """The choices that are not expected to be far behind the first."""
    found, _ = SM90.timed(p)
    return tuple(config for ns, config in found if ns <= EXPECTED * found[0][0])


def ready(p: GemmProblem, config: Sm90Config, given: dict[str, Any]) -> Any:
    """A launch, by kernels that other problems have too."""
    sequence = called_launches(p, config)
    kernels = tuple(map(id, sequence.kernels))
    if kernels not in SEEN:
        SEEN[kernels] = sequence, compile_sequence(sequence, "sm_90")
    return launcher(replace(SEEN[kernels][1], sequence=sequence), given)


SEEN: dict[tuple[int, ...], tuple[Any, CompiledSequence]] = {}
"""What is loaded of kernels, by their places in memory, which are held here."""


def measured(p: GemmProblem, flush: Any, rng: random.Random) -> dict[str, Any]:
    """The medians of cuBLAS and of the choices, in microseconds."""
    import cupy

    a, b = random_normal(p.a_elems, 1, "bf16"), random_normal(p.b_elems, 2, "bf16")
    d, expected = (device_array((p.m, p.n), random_normal(1, 0, "bf16").dtype) for _ in range(2))
    given = {x: y.view(CARRIER[y.itemsize]) for x, y in (("a", a), ("b", b), ("d", d))}
    given |= scalar_words(p, "alpha", 1.0)
    cublas = torch_matmul(expected, a.reshape(p.m, p.k), b.reshape(p.n, p.k).T, "bf16")
    if cublas is None:
        raise SystemExit("PyTorch is needed for cuBLAS")
    cublas()
    runs = {"cublas": cublas, "again": cublas}
    for config in tried(p):
        run = ready(p, config, given)
        d.fill(0)
        run()
        cupy.cuda.Device().synchronize()
        if wrong := differs(d, expected, p):
            raise SystemExit(f"{p} as {config!r}: {wrong}")
        runs[way(config)] = run
    times: dict[str, list[float]] = {name: [] for name in runs}

    def rounds(count: int, names: list[str]) -> None:
        for name, found in times_in_turn({name: runs[name] for name in names}, count, flush, rng).items():
            times[name] += found

    rounds(2, list(runs))
    best = min(min(found) for name, found in times.items() if name not in ("cublas", "again"))
    near = [name for name, found in times.items() if min(found) <= LATE * best]
    rounds(ROUNDS, [*{"cublas", "again"}.union(near)])
    us = {name: float(f"{median(found):.4g}") for name, found in times.items()}
    vendor = {"cublas_us": us.pop("cublas"), "again_us": us.pop("again")}
    return {"m": p.m, "n": p.n, "k": p.k, **vendor, "choices": us}


FIRST = (1, 2, 4, 8, 16)
"""Of how many choices the best is compared with the best of all."""


def shares(row: Mapping[str, Any]) -> list[float]:
    """The best of all choices over the best of the first 1, 2, 4, ... by the model, of one problem; stream-K,
    which was offered later, is left out, and what is not in a file took more than three times the best."""
    us, p = row["choices"], gemm_problem(row["m"], row["n"], row["k"], "bf16")
    tried = [us.get(way(c), inf) for c in SM90.configs(p) if c.schedule != "streamk"]
    return [min(us.values()) / min(tried[:first]) for first in FIRST]


def judged(parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the table: geometric mean, least, and problems within 5 % of the best."""
    print("| problems | first | geometric mean | least | within 5 % |\n|---|---:|---:|---:|---:|")
    for name, rows in parts.items():
        for first, found in zip(FIRST, zip(*map(shares, rows), strict=True), strict=True):
            near = sum(share >= 0.95 for share in found)
            mean = f"{geometric_mean(found):.4f} | {min(found):.3f}"
            print(f"| {len(found)} {name} | {first} | {mean} | {near} |")


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[0] == "judged":
        found = json.loads(Path(args[1]).read_text(encoding="utf-8"))
        judged({name: rows for name, rows in found.items() if isinstance(rows, list)})
        return 0
    import cupy
    import torch

    which, out, began = args[0], Path(args[1]), time.perf_counter()
    enough = float(args[2]) if args[2:] else inf
    status, rng = require_gpu(), random.Random(1)
    problems = [gemm_problem(*size, "bf16") for size in drawn(which)]
    kinds: dict[tuple[int, ...], tuple[GemmProblem, Sm90Config]] = {}
    for p in problems:
        for config in tried(p):
            kinds.setdefault(tuple(map(id, called_launches(p, config).kernels)), (p, config))
    refused = [why for why in in_processes(compiled, list(kinds.values())) if why]
    print(f"{len(kinds)} kernels, {time.perf_counter() - began:.0f} s", *refused, sep="\n", flush=True)
    flush, stream, timed = flush_buffer(), cupy.cuda.Stream(non_blocking=True), []
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        for p in problems:
            if time.perf_counter() - began > enough:
                break
            row = measured(p, flush, rng)
            timed.append(row)
            out.write_text(text_of(status.name, which, timed), encoding="utf-8")
            us, first = row["choices"], way(SM90.configs(p)[0])
            best = min(us, key=us.__getitem__)
            print(
                f"{p}: of cuBLAS {row['cublas_us'] / us[best]:.3f} by {best}; first {first} "
                f"{us[best] / us[first]:.3f} of it; {time.perf_counter() - began:.0f} s",
                flush=True,
            )
    return 0


def text_of(device: str, which: str, found: list[dict[str, Any]]) -> str:
    """What was measured so far, a problem per line."""
    text = json.dumps({"device": device, "date": time.strftime("%Y-%m-%d"), which: found})
    return text.replace('{"m"', '\n{"m"') + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
