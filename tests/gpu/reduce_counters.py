"""Predicted and measured accesses of reductions, side by side, from one `ncu` run each.

python -m tests.gpu.reduce_counters                       the table of the cases below
python -m tests.gpu.reduce_counters f16 8191,8193 1       one sum
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from layoutalg.codegen.runtime import require_gpu
from layoutalg.kernels.reduce_family import plans, reduce_problem
from layoutalg.kernels.reduce_predict import memory_bytes, predict
from tests.gpu.counters import METRICS, count_launches
from tests.gpu.reduce_launch import ints

CASES = tuple(
    (dtype, *case)
    for dtype in ("f32", "f16")
    for case in (
        ("300,520", "1"), ("300,520", "0"), ("301,521", "1"), ("301,521", "0"), ("6,40,28,28", "0,2,3"),
        ("40000", "0"), ("8192,8192", "1"), ("8192,8192", "0"), ("65536,1024", "0"), ("8191,8193", "1"),
        ("67108864", "0"),
    )
)  # fmt: skip
DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of access of one launch, or the bytes of all; `exact` where nothing else moves the counter."""

    label: str
    access: str
    unit: str
    predicted: int
    measured: int
    exact: bool


def measure(dtype: str, shape: str, axes: str) -> Iterator[Row]:
    """Predict the passes of the best plan, run them under ncu, and put both side by side."""
    arch = require_gpu().arch
    plan = plans(reduce_problem(ints(shape), ints(axes), "sum", dtype), arch)[0]
    metrics = (*(metric for metric, _ in METRICS.values()), *DRAM)
    found = count_launches("^reduce_", metrics, "tests.gpu.reduce_launch", dtype, shape, axes)
    for n, (prediction, counters) in enumerate(zip(predict(plan, arch), found, strict=True)):
        label = f"{shape} over {axes} {dtype}" + (f", pass {n + 1}" if len(found) > 1 else "")
        for access, (metric, unit) in METRICS.items():
            predicted = sum(cost.total for op, cost in prediction.items() if op.startswith(access))
            measured = int(counters[metric])
            if predicted or measured:
                yield Row(label, access, unit, predicted, measured, unit == "sectors")
    if all(name in counters for counters in found for name in DRAM):
        moved = sum(int(counters[name]) for counters in found for name in DRAM)
        yield Row(f"{shape} over {axes} {dtype}", "memory", "bytes", memory_bytes(plan), moved, False)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction of sectors differs from its counter."""
    wrong = 0
    print("| reduction | access | unit | predicted | measured |\n|---|---|---|---:|---:|")
    for case in [(args[0], args[1], args[2])] if args else CASES:
        for r in measure(*case):
            off = f" ({r.measured / max(1, r.predicted) - 1:+.2%})" if r.measured != r.predicted else ""
            print(f"| {r.label} | {r.access} | {r.unit} | {r.predicted} | {r.measured}{off} |", flush=True)
            wrong += r.exact and r.predicted != r.measured
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
