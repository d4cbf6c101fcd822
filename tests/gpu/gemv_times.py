"""Products of few rows beside cuBLAS and beside what memory allows, on a cold L2: every candidate of gemv.

python -m tests.gpu.gemv_times out.json

By problem: microseconds of cuBLAS, of the configuration that the model chooses, and of the best one, and the
least that the board's bandwidth needs for B.  What it makes is what the model's numbers are to be held to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import device_array, random_normal, require_gpu
from layoutalg.kernels import find_family
from layoutalg.kernels.baselines import torch_matmul
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm.family import differs, way
from layoutalg.kernels.gemm.problem import gemm_problem, scalar_words
from tests.gpu.gemm_launch import launcher, load_all
from tests.gpu.timing import flush_buffer, timed_us

SIZES = (
    (2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048),
    (8192, 8192), (8191, 8191), (1000, 1000),
)  # fmt: skip
ROUNDS = 15


def measured(m: int, n: int, k: int, dtype: str, major: Any, flush: Any) -> dict[str, Any]:
    """The times of one product."""
    family = find_family("gemv")
    p = gemm_problem(m, n, k, dtype, b_major=major)
    configs = family.configs(p)
    compiled = load_all([(p, c) for c in configs])
    a, b = random_normal(p.a_elems, 1, dtype), random_normal(p.b_elems, 2, dtype)
    d, expected = (device_array((m, n), random_normal(1, 0, dtype).dtype) for _ in range(2))
    given = {x: y.view(CARRIER[y.itemsize]) for x, y in (("a", a), ("b", b), ("d", d))}
    right = b.reshape(n, k).T if major == "k" else b.reshape(k, n)
    cublas = torch_matmul(expected, a.reshape(m, k), right, dtype)
    runs = [launcher(one, given | scalar_words(p, "alpha", 1.0)) for one in compiled]
    if cublas is None:
        raise SystemExit("PyTorch is needed for cuBLAS")
    cublas()
    for run in runs:
        d[...] = 0
        run()
        if wrong := differs(d, expected, p):
            raise SystemExit(f"{p}: {wrong}")
    us = [median(timed_us(run, flush) for _ in range(ROUNDS)) for run in (cublas, *runs)]
    least = n * k * p.operand.nbytes / find_arch("sm_90").board.dram_bytes_per_s * 1e6  # type: ignore[union-attr]
    best = min(range(len(configs)), key=lambda i: us[1 + i])
    return {
        "problem": str(p), "cublas_us": us[0], "chosen_us": us[1], "chosen": way(configs[0]),
        "best_us": us[1 + best], "best": way(configs[best]), "memory_us": least,
    }  # fmt: skip


def main(args: list[str]) -> int:
    """See the module's text."""
    import cupy
    import torch

    require_gpu()
    flush, rows = flush_buffer(), []
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        for dtype in ("bf16", "f32"):
            for major in ("k", "mn"):
                for m in (1, 4, 8):
                    for n, k in SIZES:
                        rows.append(measured(m, n, k, dtype, major, flush))
                        print(rows[-1], flush=True)
    Path(args[0]).write_text(json.dumps(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
