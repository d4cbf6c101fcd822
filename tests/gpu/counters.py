"""Predicted and measured accesses of a generated kernel, side by side, from one `ncu` run each.

    python -m tests.gpu.counters                              the table of the README
    python -m tests.gpu.counters transpose f32 4099 3077      one kernel
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from dataclasses import dataclass

from layoutalg.codegen.runtime import require_gpu
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import FAMILIES

METRICS = {
    "ld.global": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sectors"),
    "st.global": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sectors"),
    "ld.shared": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "wavefronts"),
    "st.shared": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "wavefronts"),
}
"""The hardware counter of each kind of access and its unit."""

CASES = (
    ("transpose", "f32", 4096, 4096), ("transpose", "f16", 4096, 4096), ("transpose", "u8", 4096, 4096),
    ("transpose", "f64", 2048, 2048), ("transpose", "c128", 2048, 2048), ("transpose", "f32", 4099, 3077),
    ("transpose", "f16", 1000, 2001), ("transpose", "u8", 1111, 999), ("tiled_copy", "f32", 4096, 4096),
    ("tiled_copy", "f16", 999, 1001),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of access of one launch."""

    kernel: str
    access: str
    unit: str
    predicted: int
    measured: int


def measure(name: str, dtype: str, m: int, n: int) -> list[Row]:
    """Predict a launch of the best configuration, run it under ncu, and put both side by side.

    Raises UnsupportedError without ncu or a GPU.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise UnsupportedError("hardware counters need Nsight Compute: ncu is not on PATH")
    family = FAMILIES[name]
    problem = family.problem(m, n, dtype)
    prediction = family.predict(problem, family.configs(problem, require_gpu().arch)[0])
    wanted = ",".join(metric for metric, _ in METRICS.values())
    command = [
        ncu, "--csv", "--clock-control", "none", "--cache-control", "none", "--metrics", wanted,
        "--kernel-name", f"regex:^(transpose|copy)_{dtype}$",
        sys.executable, "-m", "tests.gpu.launch", name, dtype, str(m), str(n),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"ncu failed:\n{run.stdout}\n{run.stderr}")
    lines = csv.DictReader(run.stdout[run.stdout.index('"ID"') :].splitlines())
    found = {line["Metric Name"]: int(line["Metric Value"].replace(",", "")) for line in lines}
    rows = []
    for access, (metric, unit) in METRICS.items():
        predicted = sum(cost.total for op, cost in prediction.items() if op.startswith(access))
        rows.append(Row(f"{name} {problem}", access, unit, predicted, found[metric]))
    return rows


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    cases = [(args[0], args[1], int(args[2]), int(args[3]))] if args else list(CASES)
    wrong = 0
    print("| kernel | access | unit | predicted | measured |\n|---|---|---|---|---|")
    for case in cases:
        for r in measure(*case):
            print(f"| {r.kernel} | {r.access} | {r.unit} | {r.predicted} | {r.measured} |", flush=True)
            wrong += r.predicted != r.measured
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
