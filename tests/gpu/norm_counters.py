"""Predicted and measured accesses of norms, side by side, from one `ncu` run each.

python -m tests.gpu.norm_counters                               the table of the cases below
python -m tests.gpu.norm_counters softmax f16 8191,8193 1       one norm
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from layoutalg.codegen.runtime import require_gpu
from layoutalg.kernels.norm_family import plan
from layoutalg.kernels.norm_modes import norm_problem
from layoutalg.kernels.norm_predict import predict, traffic
from tests.gpu.counters import METRICS, count_launches
from tests.gpu.norm_launch import ints

CASES = (
    ("softmax", "f32", "300,520", "1"), ("softmax", "f16", "300,520", "0"),
    ("softmax", "f16", "301,521", "1"), ("softmax", "f32", "301,521", "0"),
    ("layer_norm", "bf16", "6,40,28,28", "0,2,3"),
    ("softmax", "f32", "8192,8192", "1"), ("softmax", "f32", "8192,8192", "0"),
    ("softmax", "f32", "65536,1024", "0"), ("softmax", "f32", "32,1024,1024", "1"),
    ("softmax", "f16", "4096,50257", "1"),
)  # fmt: skip
DRAM = {"read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum"}


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of access, or bytes of memory, of all launches; `exact`: nothing else moves the counter."""

    label: str
    access: str
    unit: str
    predicted: int
    measured: int
    exact: bool


def measure(op: str, dtype: str, shape: str, axes: str) -> Iterator[Row]:
    """Predict the launches of the best plan, run them under ncu, and put both side by side."""
    arch = require_gpu().arch
    launches = plan(norm_problem(op, ints(shape), ints(axes), dtype), arch)
    prediction, label = predict(launches, arch), f"{op} of {shape} over {axes} {dtype}"
    metrics = (*(metric for metric, _ in METRICS.values()), *DRAM.values())
    found = count_launches(f"^{op}_", metrics, "tests.gpu.norm_launch", op, dtype, shape, axes)
    copied = sum(cost.total for name, cost in prediction.items() if ":global" in name)
    for access, (metric, unit) in METRICS.items():
        predicted = sum(cost.total for name, cost in prediction.items() if name.startswith(access))
        predicted += copied if access == "ld.global" else 0
        measured = sum(int(counters[metric]) for counters in found)
        if predicted or measured:
            exact = unit == "sectors" and not (copied and access == "ld.global")
            yield Row(label, access, unit, predicted, measured, exact)
    expected = traffic(launches, arch)
    for way, name in DRAM.items():
        if all(name in counters for counters in found):
            measured = sum(int(counters[name]) for counters in found)
            yield Row(label, f"memory {way}", "bytes", getattr(expected, way), measured, False)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction of sectors differs from its counter."""
    wrong = 0
    print("| norm | access | unit | predicted | measured |\n|---|---|---|---:|---:|")
    for case in [(args[0], args[1], args[2], args[3])] if args else CASES:
        for r in measure(*case):
            off = f" ({r.measured / max(1, r.predicted) - 1:+.2%})" if r.measured != r.predicted else ""
            print(f"| {r.label} | {r.access} | {r.unit} | {r.predicted} | {r.measured}{off} |", flush=True)
            wrong += r.exact and r.predicted != r.measured
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
