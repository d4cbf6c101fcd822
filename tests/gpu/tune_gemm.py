"""Time every choice that the selectors of matrix products have, and cuBLAS among them, on published problems.

python -m tests.gpu.tune_gemm gemm-simt out.json            the 24 problems that the selector is fitted to
python -m tests.gpu.tune_gemm gemm-sm80 out.json fresh      10 others

Launches of a sample are recorded into a graph first, so that what is timed is the GPU's work, and not how
fast Python launches.  All choices of a problem run in turn, round by round.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from layoutalg.codegen.gpu import CompiledSequence, median_times_ms, require_gpu
from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import Config, GemmProblem
from layoutalg.kernels.gemm.launches import way
from tests.gpu.gemm_launch import Product, load_all
from tests.gpu.timing import Run, one_stream, write

FITTED = (
    *((n, n, n) for n in (
        256, 512, 1000, 1024, 1536, 2048, 2176, 2304, 2432, 2560, 3072, 3200, 3328, 3456, 4096, 4097, 6144,
        6912, 8192,
    )),
    (256, 256, 16384), (128, 4096, 4096), (64, 4096, 4096), (4096, 128, 2048), (512, 512, 8192),
)  # fmt: skip
FRESH = (
    *((n, n, n) for n in (384, 768, 1280, 1920, 2688, 3712, 4999, 5120)), (320, 320, 8192), (96, 2048, 8192)
)  # fmt: skip
SAMPLE_FLOPS = {"gemm-simt": 4e10, "gemm-sm80": 3e11}
"""About a millisecond."""


def some(configs: Sequence[Config], name: str) -> list[Config]:
    """All of them, or the first 12 and as many others."""
    others = list(configs[12:])
    return [*configs[:12], *random.Random(name).sample(others, min(12, len(others)))]


def graph(launch: Run, inner: int) -> Callable[[], None]:
    """`inner` launches on the current stream as one launch of a graph."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    launch()
    stream.synchronize()
    stream.begin_capture()
    for _ in range(inner):
        launch()
    recorded = stream.end_capture()

    def run(alive: object = launch) -> None:  # the kernels of a graph stay loaded
        recorded.launch(stream)

    return run


def measure(family: str, p: GemmProblem, ways: list[tuple[Config, CompiledSequence]]) -> dict[str, Any]:
    """Milliseconds of cuBLAS and of every choice, four digits, which is more than repeats."""
    on_gpu, inner = Product(p), max(1, min(20, round(SAMPLE_FLOPS[family] / p.flops)))
    runs = [graph(run, inner) for run in (on_gpu.cublas, *(on_gpu.run(one, c) for c, one in ways))]
    times = median_times_ms([[run] for run in runs], rounds=3 if p.flops > 1.5e11 else 7, inner=1, warmup=1)
    cublas, *ours = (float(f"{ms / inner:.4g}") for ms in times)
    choices = {way(c): ms for (c, _), ms in zip(ways, ours, strict=True)}
    return {"m": p.m, "n": p.n, "k": p.k, "cublas_ms": cublas, "choices": choices}


def main(args: list[str]) -> None:
    """See the module's text."""
    family, began = find_family(args[0]), time.perf_counter()
    problems = [family.problem(*size) for size in (FRESH if "fresh" in args else FITTED)]
    ways = [(p, c) for p in problems for c in some(family.configs(p, require_gpu().arch), str(p))]
    loaded = dict(zip(ways, load_all(ways), strict=True))
    print(f"{len(ways)} ways, {time.perf_counter() - began:.1f} s", flush=True)
    found: list[dict[str, Any]] = []
    with one_stream():
        for p in problems:
            mine = [(c, loaded[q, c]) for q, c in ways if q == p]
            found.append(measure(family.name, p, mine))
            ms, first = found[-1]["choices"], way(mine[0][0])
            best = min(ms, key=ms.__getitem__)
            print(
                f"{p}: cuBLAS {found[-1]['cublas_ms']:.4f}, best {best} {ms[best]:.4f}, first {first} "
                f"{ms[first] / ms[best]:.3f} of it; {time.perf_counter() - began:.1f} s", flush=True,
            )  # fmt: skip
            write(args[1], found, "problems", family=family.name)


if __name__ == "__main__":
    main(sys.argv[1:])
