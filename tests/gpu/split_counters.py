"""Predicted and counted accesses of products in parts, kernel by kernel, from one `ncu` run each.

python -m tests.gpu.split_counters        the table; the exit status is 1 where a prediction is refuted
"""

from __future__ import annotations

import sys

from layoutalg.codegen.runtime import require_gpu
from layoutalg.kernels.gemm import GemmProblem, gemm_problem
from layoutalg.kernels.gemm_bench import choice_name
from layoutalg.kernels.gemm_launches import Config, predictions
from layoutalg.kernels.predict import Prediction
from tests.gpu.counters import BY_INSTRUCTION, METRICS, count_launches
from tests.gpu.gemm_launch import CONFIGS, launch_all

CASES = (
    ("gemm_sm80", "f16", 256, 256, 2048, 4), ("gemm_sm80", "s8", 256, 256, 2048, 3),
    ("gemm_simt", "f32", 256, 256, 2048, 4), ("gemm_simt", "f64", 256, 256, 1024, 2),
)  # fmt: skip
KERNELS = ("parts", "sums")


def way(name: str, dtype: str, m: int, n: int, k: int, splits: int) -> tuple[GemmProblem, Config]:
    """The product, and its best configuration with so many parts of whole tiles: those are predicted."""
    p = gemm_problem(m, n, k, dtype, b_major="mn" if name == "gemm_simt" else "k")
    found = CONFIGS[name](p, "sm_90")
    return p, next(
        c for c in found
        if c.splits == splits and not (m % c.tile_m or n % c.tile_n or k % c.tile_k)
    )  # fmt: skip


def expected(one: Prediction) -> dict[str, int]:
    """What each counter of METRICS should say, and the shared wavefronts by instruction."""
    totals = {"ld.global": 0, "st.global": 0}
    for op, cost in one.items():
        if "global" in op:
            totals["st.global" if op.startswith("st") else "ld.global"] += cost.total
    sectors = {METRICS[access][0]: total for access, total in totals.items()}
    shared = sum(c.total for op, c in one.items() if "global" not in op)
    return {**sectors, BY_INSTRUCTION: shared}


def main(args: list[str]) -> int:
    """See the module's text."""
    if args:
        name, dtype, *sizes = args
        launch_all([way(name, dtype, *map(int, sizes))])
        return 0
    require_gpu()
    wrong = 0
    print("| product | kernel | counted | predicted | measured |\n|---|---|---|---:|---:|")
    for name, dtype, *rest in CASES:
        m, n, k, splits = rest
        p, c = way(name, dtype, m, n, k, splits)
        metrics = [*(metric for metric, _ in METRICS.values()), BY_INSTRUCTION]
        arguments = (name, dtype, *map(str, (m, n, k, splits)))
        seen = count_launches("^gemm_", metrics, "tests.gpu.split_counters", *arguments)
        for kernel, one, counted in zip(KERNELS, predictions(p, c), seen, strict=True):
            for metric, predicted in expected(one).items():
                measured = round(counted[metric])
                wrong += measured != predicted
                print(
                    f"| {p}, {choice_name(c)} | {kernel} | {metric} | {predicted} | {measured} |", flush=True
                )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
