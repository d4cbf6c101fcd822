"""Time every choice that the selectors of matrix products have, and cuBLAS among them, on published problems.

python -m tests.gpu.tune_gemm gemm-simt out.json            the 24 problems that the selector is fitted to
python -m tests.gpu.tune_gemm gemm-sm80 out.json fresh      10 others

Launches of a sample are recorded into a graph first, so that what is timed is the GPU's work, and not how
fast Python launches.  All choices of a problem run in turn, round by round.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from layoutalg.codegen.gpu import device_array, median_times_ms, random_normal, require_gpu
from layoutalg.kernels import find_family
from layoutalg.kernels.baselines import torch_matmul
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm.family import differs, way
from layoutalg.kernels.gemm.problem import GemmProblem, scalar_words
from layoutalg.kernels.gemm.tiles import Config
from tests.gpu.gemm_launch import launcher, load_all

FITTED = (
    (256, 256, 256), (512, 512, 512), (1000, 1000, 1000), (1024, 1024, 1024), (1536, 1536, 1536),
    (2048, 2048, 2048), (2176, 2176, 2176), (2304, 2304, 2304), (2432, 2432, 2432), (2560, 2560, 2560),
    (3072, 3072, 3072), (3200, 3200, 3200), (3328, 3328, 3328), (3456, 3456, 3456), (4096, 4096, 4096),
    (4097, 4097, 4097), (6144, 6144, 6144), (6912, 6912, 6912), (8192, 8192, 8192),
    (256, 256, 16384), (128, 4096, 4096), (64, 4096, 4096), (4096, 128, 2048), (512, 512, 8192),
)  # fmt: skip
FRESH = (
    (384, 384, 384), (768, 768, 768), (1280, 1280, 1280), (1920, 1920, 1920), (2688, 2688, 2688),
    (3712, 3712, 3712), (4999, 4999, 4999), (5120, 5120, 5120), (320, 320, 8192), (96, 2048, 8192),
)  # fmt: skip
SAMPLE_FLOPS = {"gemm-simt": 4e10, "gemm-sm80": 3e11}
"""About a millisecond."""


def some(configs: Sequence[Config], name: str) -> list[Config]:
    """All of them, or the first 12 and as many others."""
    others = list(configs[12:])
    return [*configs[:12], *random.Random(name).sample(others, min(12, len(others)))]


def graph(stream: Any, launch: Callable[[], object], inner: int) -> Callable[[], None]:
    """`inner` launches on the stream as one launch of a graph."""
    launch()
    stream.synchronize()
    stream.begin_capture()
    for _ in range(inner):
        launch()
    recorded = stream.end_capture()

    def run(alive: object = launch) -> None:  # the kernels of a graph stay loaded
        recorded.launch(stream)

    return run


def measure(
    family: str, p: GemmProblem, ways: list[tuple[Config, Any]], rounds: int, stream: Any
) -> dict[str, Any]:
    """Milliseconds of cuBLAS and of every choice."""
    element, to = p.operand.name, p.result.name
    a, b = random_normal(p.a_elems, 1, element), random_normal(p.b_elems, 2, element)
    left = a.reshape(p.m, p.k) if p.a_major == "k" else a.reshape(p.k, p.m).T
    right = b.reshape(p.n, p.k).T if p.b_major == "k" else b.reshape(p.k, p.n)
    d, expected = (device_array((p.m, p.n), random_normal(1, 0, to).dtype) for _ in range(2))
    vendor = torch_matmul(expected, left, right, element)
    if vendor is None:
        raise SystemExit("PyTorch is needed for cuBLAS")
    words: dict[str, Any] = {x: y.view(CARRIER[y.itemsize]) for x, y in (("a", a), ("b", b), ("d", d))}
    words |= scalar_words(p, "alpha", 1.0)
    inner = max(1, min(20, round(SAMPLE_FLOPS[family] / p.flops)))
    runs = [graph(stream, vendor, inner)]
    for config, loaded in ways:
        d.fill(0)
        runs.append(graph(stream, launcher(loaded, words), inner))
        if differs(d, expected, p):
            raise SystemExit(f"wrong result: {p} as {config!r}")
    cublas, *times = median_times_ms([[run] for run in runs], rounds=rounds, inner=1, warmup=1)
    return {
        "m": p.m, "n": p.n, "k": p.k, "cublas_ms": _four(cublas / inner),
        "choices": {way(c): _four(t / inner) for (c, _), t in zip(ways, times, strict=True)},
    }  # fmt: skip


def _four(x: float) -> float:
    """Four digits, which is more than repeats."""
    return float(f"{x:.4g}")


def main(args: list[str]) -> int:
    """See the module's text."""
    import cupy
    import torch

    family, out = find_family(args[0]), Path(args[1])
    status = require_gpu()
    which = "fresh" if "fresh" in args else "fitted"
    sizes = FRESH if which == "fresh" else FITTED
    problems = [family.problem(m, n, k) for m, n, k in sizes]
    began = time.perf_counter()
    ways = [(p, c) for p in problems for c in some(family.configs(p, status.arch), str(p))]
    loaded = dict(zip(ways, load_all(ways), strict=True))
    print(f"{len(ways)} ways, {time.perf_counter() - began:.1f} s", flush=True)
    stream = cupy.cuda.Stream(non_blocking=True)
    found = []
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        for p in problems:
            mine = [(c, loaded[q, c]) for q, c in ways if q == p]
            rounds = 3 if p.flops > 1.5e11 else 7
            row = measure(family.name, p, mine, rounds, stream)
            found.append(row)
            best = min(row["choices"], key=row["choices"].__getitem__)
            first = way(mine[0][0])
            ms = row["choices"]
            print(
                f"{p}: cuBLAS {row['cublas_ms']:.4f}, best {best} {ms[best]:.4f}, "
                f"first {first} {ms[first] / ms[best]:.3f} of it; {time.perf_counter() - began:.1f} s",
                flush=True,
            )
    today = time.strftime("%Y-%m-%d")
    text = json.dumps({"device": status.name, "date": today, "family": family.name, "problems": found})
    part = out.with_suffix(".part")
    part.write_text(text.replace('{"m"', '\n{"m"') + "\n", encoding="utf-8")
    part.replace(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
