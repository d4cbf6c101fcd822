"""Products by wgmma, as chosen, beside cuBLAS: squares, shapes of language models, sizes no tile divides.

python -m tests.gpu.hopper_products out.json

Both are launched in turn, in an order drawn anew for each round, on normal random data; before each launch a
buffer of 256 MB that is not written is read, which leaves nothing of the operands in L2; the host is ahead of
the GPU.  cuBLAS runs twice, which says what repeats.  Results are compared once.

The list: https://github.com/deepseek-ai/DeepGEMM, tests/test_bf16.py.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from layoutalg.codegen.gpu import device_array, random_normal, require_gpu
from layoutalg.kernels import find_family
from layoutalg.kernels.baselines import torch_matmul
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm.family import differs, way
from layoutalg.kernels.gemm.problem import GemmProblem, scalar_words
from tests.gpu.gemm_launch import launcher, load_all

MODELS = (
    (2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)
)  # fmt: skip
SIZES = (
    *((n, n, n) for n in (1024, 2048, 3072, 4096, 6144, 8192, 16384)),
    *((m, n, k) for m in (128, 4096) for n, k in MODELS),
    *((n, n, n) for n in (2112, 3000, 4104, 5000, 7000)),
    (128, 8192, 8192),
)
AHEAD_CYCLES = 60_000
"""What the GPU waits for before a launch, so that the host is ahead of it."""


def timed_us(run: Callable[[], object], flush: Any) -> float:
    """Microseconds of one launch on a cold L2."""
    import cupy
    import torch

    before, after = cupy.cuda.Event(), cupy.cuda.Event()
    flush.sum()
    torch.cuda._sleep(AHEAD_CYCLES)
    before.record()
    run()
    after.record()
    after.synchronize()
    return float(cupy.cuda.get_elapsed_time(before, after)) * 1e3


def measured(p: GemmProblem, config: Any, compiled: Any, flush: Any, rng: random.Random) -> dict[str, Any]:
    """The medians of one product."""
    import cupy

    a, b = random_normal(p.a_elems, 1, "bf16"), random_normal(p.b_elems, 2, "bf16")
    d, expected = (device_array((p.m, p.n), random_normal(1, 0, "bf16").dtype) for _ in range(2))
    given = {x: y.view(CARRIER[y.itemsize]) for x, y in (("a", a), ("b", b), ("d", d))}
    ours = launcher(compiled, given | scalar_words(p, "alpha", 1.0))
    cublas = torch_matmul(expected, a.reshape(p.m, p.k), b.reshape(p.n, p.k).T, "bf16")
    if cublas is None:
        raise SystemExit("PyTorch is needed for cuBLAS")
    ours()
    cublas()
    cupy.cuda.Device().synchronize()
    if wrong := differs(d, expected, p):
        raise SystemExit(f"{p}: {wrong}")
    contenders = [("ours", ours), ("cublas", cublas), ("again", cublas)]
    times: dict[str, list[float]] = {name: [] for name, _ in contenders}
    for _ in range(9 if p.flops > 2e12 else 15):
        for name, run in rng.sample(contenders, len(contenders)):
            times[name].append(timed_us(run, flush))
    us = {name: median(found) for name, found in times.items()}
    return {
        "m": p.m, "n": p.n, "k": p.k, "way": way(config), "ours_us": us["ours"], "cublas_us": us["cublas"],
        "ratio": us["cublas"] / us["ours"], "aa": us["again"] / us["cublas"],
        "tflops": p.flops / us["ours"] / 1e6,
    }  # fmt: skip


def main(args: list[str]) -> int:
    """See the module's text."""
    import cupy
    import torch

    require_gpu()
    family, rng = find_family("gemm-sm90"), random.Random(20261123)
    problems = [family.problem(*size) for size in SIZES]
    ways = [(p, family.choose(p)) for p in problems]
    compiled, flush = load_all(ways), cupy.zeros(64 << 20, "f4")
    stream = cupy.cuda.Stream(non_blocking=True)
    rows = []
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        for (p, config), one in zip(ways, compiled, strict=True):
            rows.append(measured(p, config, one, flush, rng))
            print(rows[-1], flush=True)
    Path(args[0]).write_text(json.dumps(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
