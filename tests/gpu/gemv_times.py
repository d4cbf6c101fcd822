"""Products of few rows beside cuBLAS and beside what memory allows, on a cold L2: every candidate of gemv.

python -m tests.gpu.gemv_times out.json

By problem: microseconds of cuBLAS, of the configuration that the model chooses, and of the best one, and the
least that the board's bandwidth needs for B.  What it makes is what the model's numbers are to be held to.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import product
from typing import Any

from layoutalg.arch import find_board
from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.launches import way
from tests.gpu.gemm_launch import Product, load_all
from tests.gpu.timing import Turns, one_stream, study

SIZES = (
    (2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048),
    (8192, 8192), (8191, 8191), (1000, 1000),
)  # fmt: skip
ROUNDS = 15


def measured(turns: Turns, p: GemmProblem) -> dict[str, Any]:
    """The times of one product."""
    configs, on_gpu = find_family("gemv").configs(p), Product(p)
    compiled = load_all([(p, c) for c in configs])
    runs = [on_gpu.cublas, *(on_gpu.run(one, c) for one, c in zip(compiled, configs, strict=True))]
    us = list(turns.medians(dict(enumerate(runs))).values())
    best = min(range(len(configs)), key=lambda i: us[1 + i])
    return {
        "problem": str(p), "cublas_us": us[0], "chosen_us": us[1], "chosen": way(configs[0]),
        "best_us": us[1 + best], "best": way(configs[best]),
        "memory_us": p.n * p.k * p.operand.nbytes / find_board("sm_90").dram_bytes_per_s * 1e6,
    }  # fmt: skip


def main(args: list[str]) -> None:
    """See the module's text."""
    problems = (
        gemm_problem(m, n, k, dtype, b_major=major)  # type: ignore[arg-type]
        for dtype, major, m, (n, k) in product(("bf16", "f32"), ("k", "mn"), (1, 4, 8), SIZES)
    )
    with one_stream():
        study(args[0], problems, partial(measured, Turns(ROUNDS)))


if __name__ == "__main__":
    main(sys.argv[1:])
