"""Predicted and measured accesses of a generated kernel, side by side, from one `ncu` run each.

python -m tests.gpu.counters                              the table of the README
python -m tests.gpu.counters transpose f32 4099 3077      one kernel
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from layoutalg.arch import find_arch
from layoutalg.codegen.runtime import launch_grid, require_gpu
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import FAMILIES

METRICS = {
    "ld.global": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sectors"),
    "st.global": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sectors"),
    "ld.shared": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "wavefronts"),
    "st.shared": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "wavefronts"),
}
"""The hardware counter of each kind of access and its unit."""

BY_INSTRUCTION = "memory_l1_wavefronts_shared"
"""Shared wavefronts attributed to instructions, summed: free of what the pipe loses to other traffic."""

CASES = (
    ("transpose", "f32", 640, 640), ("transpose", "f16", 256, 384), ("transpose", "u8", 512, 704),
    ("transpose", "f64", 256, 320), ("transpose", "c128", 128, 160), ("transpose", "f32", 515, 643),
    ("transpose", "f16", 300, 301), ("transpose", "u8", 333, 199), ("tiled_copy", "f32", 320, 500),
    ("transpose", "f32", 4096, 4096), ("transpose", "f16", 4096, 4096), ("transpose", "u8", 4096, 4096),
    ("transpose", "f32", 4099, 3077), ("tiled_copy", "f16", 4096, 4096),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of access of one launch; `exact` where nothing else can move the counter.

    On a full GPU the shared-memory pipe replays wavefronts that lost it to global traffic, and counts them.
    With at most one block an SM nothing competes; sectors and per-instruction counts are exact always.
    """

    kernel: str
    access: str
    unit: str
    predicted: int
    measured: int
    exact: bool


def measure(name: str, dtype: str, m: int, n: int) -> list[Row]:
    """Predict a launch of the best configuration, run it under ncu, and put both side by side.

    Raises UnsupportedError without ncu or a GPU.
    """
    family = FAMILIES[name]
    problem = family.problem(m, n, dtype)
    arch = require_gpu().arch
    config = family.configs(problem, arch)[0]
    prediction = family.predict(problem, config)
    sizes = {"m": m, "n": n, "lds": problem.lds, "ldd": problem.ldd}
    blocks, *_ = launch_grid(family.build(problem, config), sizes)
    board = find_arch(arch).board
    quiet = board is not None and blocks <= board.sms
    found = counted(f"^(transpose|copy)_{dtype}$", "tests.gpu.launch", name, dtype, str(m), str(n))

    def total(prefix: str) -> int:
        return sum(cost.total for op, cost in prediction.items() if prefix in op)

    label = f"{name} {problem}"
    rows = [
        Row(label, access, unit, total(access), found[metric], quiet or unit == "sectors")
        for access, (metric, unit) in METRICS.items()
        if total(access) or found[metric]
    ]
    if total(".shared"):
        rows.append(
            Row(label, "shared, by instruction", "wavefronts", total(".shared"), found[BY_INSTRUCTION], True)
        )
    return rows


def counted(kernel: str, module: str, *args: str) -> dict[str, int]:
    """The counters of METRICS, and BY_INSTRUCTION, of one launch: see `count_metrics`."""
    wanted = (*(metric for metric, _ in METRICS.values()), BY_INSTRUCTION)
    return {name: int(value) for name, value in count_metrics(kernel, wanted, module, *args).items()}


def count_metrics(kernel: str, metrics: Sequence[str], module: str, *args: str) -> dict[str, float]:
    """Metrics of the first kernel of `count_launches`."""
    return count_launches(kernel, metrics, module, *args, most=1)[0]


def count_launches(
    kernel: str, metrics: Sequence[str], module: str, *args: str, most: int = 1 << 10
) -> list[dict[str, float]]:
    """Metrics of the kernels, named by a regular expression, that `python -m module args` launches in turn.

    A metric that this GPU does not have is left out.  Raises UnsupportedError without ncu.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise UnsupportedError("hardware counters need Nsight Compute: ncu is not on PATH")
    command = [
        ncu, "--csv", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
        "--metrics", ",".join(metrics), "--kernel-name", f"regex:{kernel}", "--launch-count", str(most),
        sys.executable, "-m", module, *args,
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode or '"ID"' not in run.stdout:
        raise RuntimeError(f"ncu failed:\n{run.stdout}\n{run.stderr}")
    found: dict[str, dict[str, float]] = {}
    for line in csv.DictReader(run.stdout[run.stdout.index('"ID"') :].splitlines()):
        launch, value = found.setdefault(line["ID"], {}), line["Metric Value"].replace(",", "")
        if value != "n/a":
            launch[line["Metric Name"]] = float(value)
    return list(found.values())


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    cases = [(args[0], args[1], int(args[2]), int(args[3]))] if args else list(CASES)
    wrong = 0
    print("| kernel | access | unit | predicted | measured |\n|---|---|---|---:|---:|")
    for case in cases:
        for r in measure(*case):
            replayed = not r.exact and r.measured > r.predicted
            lost = f" ({r.measured / r.predicted - 1:+.2%}, lost arbitration)" if replayed else ""
            print(f"| {r.kernel} | {r.access} | {r.unit} | {r.predicted} | {r.measured}{lost} |", flush=True)
            wrong += r.predicted != r.measured and not replayed
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
