"""Time every choice that gemm-sm90 has, and cuBLAS among them, on random problems with a cold L2.

python -m tests.gpu.tune_wgmma fitted out.json      the problems that the model of time is fitted to
python -m tests.gpu.tune_wgmma fresh out.json       others, on which it is judged
python -m tests.gpu.tune_wgmma unseen out.json      and others, drawn after the model stood
python -m tests.gpu.tune_wgmma shown out.json       those of tests.gpu.hopper_products

Choices run in turn, in an order drawn anew for each round; before each launch a buffer of 256 MB is read, and
the host is ahead of the GPU.  Each result is compared with cuBLAS once.  Kernels take extents and strides
when they are launched: one compile per configuration.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from layoutalg.codegen.gpu import (
    compile_sequence,
    device_array,
    in_processes,
    random_normal,
    require_gpu,
)
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.baselines import torch_matmul
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm.family import differs, way
from layoutalg.kernels.gemm.heuristic import SM90
from layoutalg.kernels.gemm.launches import called_launches
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.tiles import Sm90Config
from tests.gpu.gemm_launch import launcher
from tests.gpu.hopper_products import SIZES, timed_us

SEEDS = {"fitted": 20261123, "fresh": 20261201, "unseen": 20261311}
COUNT = {"fitted": 96, "fresh": 48, "unseen": 48}
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


def measured(p: GemmProblem, flush: Any, rng: random.Random) -> dict[str, Any]:
    """The medians of cuBLAS and of every choice, in microseconds."""
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
    for config in SM90.configs(p):
        run = launcher(compile_sequence(called_launches(p, config), "sm_90"), given)
        d.fill(0)
        run()
        cupy.cuda.Device().synchronize()
        if wrong := differs(d, expected, p):
            raise SystemExit(f"{p} as {config!r}: {wrong}")
        runs[way(config)] = run
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(5 if p.flops > 1e11 else 7):
        for name in rng.sample(list(runs), len(runs)):
            times[name].append(timed_us(runs[name], flush))
    us = {name: float(f"{median(found):.4g}") for name, found in times.items()}
    vendor = {"cublas_us": us.pop("cublas"), "again_us": us.pop("again")}
    return {"m": p.m, "n": p.n, "k": p.k, **vendor, "choices": us}


def main(args: list[str]) -> int:
    """See the module's text."""
    import cupy
    import torch

    which, out, began = args[0], Path(args[1]), time.perf_counter()
    status, rng = require_gpu(), random.Random(1)
    problems = [gemm_problem(*size, "bf16") for size in drawn(which)]
    kinds: dict[tuple[int, ...], tuple[GemmProblem, Sm90Config]] = {}
    for p in problems:
        for config in SM90.configs(p):
            kinds.setdefault(tuple(map(id, called_launches(p, config).kernels)), (p, config))
    refused = [why for why in in_processes(compiled, list(kinds.values())) if why]
    print(f"{len(kinds)} kernels, {time.perf_counter() - began:.0f} s", *refused, sep="\n", flush=True)
    flush, stream, found = cupy.zeros(64 << 20, "f4"), cupy.cuda.Stream(non_blocking=True), []
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        for p in problems:
            row = measured(p, flush, rng)
            found.append(row)
            us, first = row["choices"], way(SM90.configs(p)[0])
            best = min(us, key=us.__getitem__)
            print(
                f"{p}: of cuBLAS {row['cublas_us'] / us[best]:.3f} by {best}; first {first} "
                f"{us[best] / us[first]:.3f} of it; {time.perf_counter() - began:.0f} s",
                flush=True,
            )
    text = json.dumps({"device": status.name, "date": time.strftime("%Y-%m-%d"), which: found})
    out.write_text(text.replace('{"m"', '\n{"m"') + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
