"""Predicted and counted work of tensor-core products, side by side, from one `ncu` run each.

python -m tests.gpu.gemm_counters          the table of the README
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, gemm_problem
from layoutalg.kernels.gemm_sm80_configs import configs
from layoutalg.kernels.gemm_sm80_plan import Sm80Config
from layoutalg.kernels.gemm_sm80_predict import mma_count, predict
from layoutalg.kernels.predict import Cost

CASES = ((512, 512, 512), (1024, 1024, 1024), (4096, 4096, 1024))


def _cost(p: GemmProblem, c: Sm80Config, op: str) -> Cost:
    return predict(p, c).get(op, Cost(0, 0, 0))


Counter = tuple[str, str, Callable[[GemmProblem, Sm80Config], int]]
COUNTERS: tuple[Counter, ...] = (
    ("mma.sync, executed", "sm__inst_executed_pipe_tensor_op_hmma.sum", mma_count),
    ("ldmatrix, executed", "sm__inst_executed_op_ldsm.sum",
     lambda p, c: _cost(p, c, "ldmatrix.x4").instructions),
    ("shared memory, wavefronts by instruction", "memory_l1_wavefronts_shared",
     lambda p, c: sum(x.total for op, x in predict(p, c).items() if "global" not in op)),
    ("stores of D, global sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
     lambda p, c: _cost(p, c, "st.global.b128").total),
)  # fmt: skip
"""What is counted, the hardware counter, and the prediction."""


def measure(p: GemmProblem) -> dict[str, int]:
    """The counters of one launch of the best configuration.  Raises UnsupportedError without ncu."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise UnsupportedError("hardware counters need Nsight Compute: ncu is not on PATH")
    launch = ["gemm_sm80", p.operand.name, *map(str, (p.m, p.n, p.k))]
    command = [
        ncu, "--csv", "--clock-control", "none", "--cache-control", "none", "--metrics",
        ",".join(metric for _, metric, _ in COUNTERS), "--kernel-name", "regex:^gemm_sm80", sys.executable,
        "-m", "tests.gpu.gemm_launch", *launch,
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"ncu failed:\n{run.stdout}\n{run.stderr}")
    lines = csv.DictReader(run.stdout[run.stdout.index('"ID"') :].splitlines())
    values = {line["Metric Name"]: line["Metric Value"].replace(",", "") for line in lines}
    return {name: int(float(value)) for name, value in values.items() if value != "n/a"}


def main() -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    wrong = 0
    print("| product | counted | predicted | measured |\n|---|---|---:|---:|")
    for sizes in CASES:
        p = gemm_problem(*sizes)
        config = configs(p)[0]
        found = measure(p)
        for what, metric, expect in COUNTERS:
            predicted, seen = expect(p, config), found.get(metric, "not counted")
            print(f"| {p}, {config} | {what} | {predicted} | {seen} |", flush=True)
            wrong += predicted != seen
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
