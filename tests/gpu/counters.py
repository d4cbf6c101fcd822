"""Hardware counters of launches under Nsight Compute, and rows of what was predicted beside them."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from layoutalg.codegen.costs import Prediction
from layoutalg.errors import UnsupportedError

METRICS = {
    "ld.global": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sectors"),
    "st.global": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sectors"),
    "ld.shared": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "wavefronts"),
    "st.shared": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "wavefronts"),
}
"""The hardware counter of each kind of access and its unit."""

DRAM = {"read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum"}
"""Bytes of memory; what an earlier launch left in the L2 is not read, what stays there is not written."""

BY_INSTRUCTION = "memory_l1_wavefronts_shared"
"""Shared wavefronts attributed to instructions, summed: free of what the pipe loses to other traffic."""

LDS = "smsp__inst_executed_op_shared_ld.sum"
COPIES = "smsp__inst_executed_op_ldgsts.sum"
ARRIVED = "l1tex__m_xbar2l1tex_read_sectors.sum"
"""Loads from shared memory, asynchronous copies, and sectors that come from the L2."""


IDLE_COPY = 32
"""Wavefronts by instruction of a copy of 16 bytes that no lane makes, at most; one of 4 or 8 bytes has none.

The counter takes the address registers as they are, and where the compiler computes addresses under the same
predicate, other numbers stand in them.  The pipe itself is asked once (tests/gpu/idle_copies.py).
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What one counter said of one launch, or of several; `reason`: what else moves it, "" for nothing."""

    label: str
    access: str
    unit: str
    predicted: int
    measured: int
    reason: str = ""

    @property
    def refuted(self) -> bool:
        """True where the prediction is wrong: other than the counter, and nothing else moves that."""
        return self.predicted != self.measured and not self.reason

    def __str__(self) -> str:
        apart = self.measured / self.predicted - 1 if self.predicted else float("inf")
        why = "" if self.predicted == self.measured else f" ({apart:+.2%}, {self.reason or 'refuted'})"
        return f"| {self.label} | {self.access} | {self.unit} | {self.predicted} | {self.measured}{why} |"


def verdict(wrong: int, compared: int, what: str = "numbers") -> int:
    """Print how many of what was compared hold; the exit status, 1 where one does not and where none was."""
    print(f"{compared - wrong} of {compared} {what} hold" if compared else f"no {what} were compared")
    return int(wrong > 0 or compared == 0)


def table(what: str, rows: Iterable[Row]) -> int:
    """Print rows as they come, and the verdict; the exit status."""
    wrong = compared = 0
    print(f"| {what} | access | unit | predicted | measured |\n|---|---|---|---:|---:|")
    for row in rows:
        print(row, flush=True)
        wrong += row.refuted
        compared += 1
    return verdict(wrong, compared)


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


def copies_of(one: Prediction) -> int:
    """Asynchronous copies that lanes make."""
    return sum(cost.instructions for op, cost in one.items() if op.endswith(":global"))


def idle_most(one: Prediction, off: int) -> int:
    """Wavefronts that so many copies without lanes may add: of 16 bytes are as many as of those made."""
    wide = one["cp.async.16"].instructions if "cp.async.16" in one else 0
    return IDLE_COPY * (off * wide // max(copies_of(one), 1))
