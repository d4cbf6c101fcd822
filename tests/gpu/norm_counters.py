"""Predicted and measured accesses of norms, side by side, from one `ncu` run of all.

python -m tests.gpu.norm_counters                               small ones, and all of the bench
python -m tests.gpu.norm_counters softmax f16 8191,8193 1       one norm
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from layoutalg.arch import find_arch
from layoutalg.codegen.costs import copied, total_costs, traffic
from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels.rowwise import OPS, NormLaunches, norm_problem
from layoutalg.kernels.rowwise.memory import norm_traffic as memory_traffic
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.model import tag_sectors
from tests.gpu.counters import (
    BY_INSTRUCTION,
    COPIED,
    DRAM,
    LOST,
    METRICS,
    MOVED,
    PARTIAL,
    TRAFFIC,
    Case,
    Row,
    bench_cases,
    cases_of,
    count_launches,
    ints,
    table,
    words_of,
)

SMALL: tuple[Case, ...] = (
    ("softmax", "f32", "300,520", "1"), ("softmax", "f16", "300,520", "0"),
    ("softmax", "f16", "301,521", "1"), ("softmax", "f32", "301,521", "0"),
    ("layer_norm", "bf16", "6,40,28,28", "0,2,3"),
)  # fmt: skip
CASES = (*SMALL, *bench_cases(OPS))
"""A few small ones, and with them every norm of `layoutalg bench reduce`."""


def measure(cases: Sequence[Case]) -> Iterator[Row]:
    """Predict the launches of the best plans, run all under ncu, and put both side by side.

    Memory is compared where it is moved at all: what fits the L2 is read from there.
    """
    arch = require_gpu().arch
    seen = iter(count_launches("^(softmax|layer_norm)_", TRAFFIC, "tests.gpu.norm_launch", *words_of(cases)))
    for op, dtype, shape, axes in cases:
        launches = plan(norm_problem(op, ints(shape), ints(axes), dtype), arch)
        found = list(islice(seen, len(launches.kernels)))
        yield from compared(f"{op} of {shape} over {axes} {dtype}", launches, found, arch)


def compared(
    label: str, launches: NormLaunches, found: Sequence[Mapping[str, float]], arch: str
) -> Iterator[Row]:
    """What is predicted of the launches of a plan beside their counters.

    Wavefronts are those of the pipe.  It counts more where some lost arbitration; the tool's count by
    instruction does not, but is lower for loads of one address by a part of a warp (see partial_warps): so it
    may be lower where the pipe's is not.
    """
    prediction = total_costs(traffic(kernel, {}, arch) for kernel in launches.kernels)
    board = find_arch(arch).board

    def counted(metric: str) -> int:
        return sum(int(counters[metric]) for counters in found)

    moved_in = sum(cost.total for name, cost in prediction.items() if ":global" in name)
    tags = sum(copied(kernel, {}, 16, tag_sectors, arch) for kernel in launches.kernels) or None
    for access, (metric, unit) in METRICS.items():
        predicted = sum(cost.total for name, cost in prediction.items() if name.startswith(access))
        if access == "ld.global":
            predicted += moved_in if tags is None else tags
        if predicted or counted(metric):
            moved = COPIED if moved_in and tags is None and access == "ld.global" else ""
            yield Row(label, access, unit, predicted, counted(metric), moved if unit == "sectors" else LOST)
    shared = sum(cost.total for name, cost in prediction.items() if ".shared" in name)
    if shared and not moved_in:
        pipe = sum(counted(METRICS[name][0]) for name in ("ld.shared", "st.shared"))
        lower = counted(BY_INSTRUCTION) < shared <= pipe
        row = Row(label, "shared, by instruction", "wavefronts", shared, counted(BY_INSTRUCTION))
        yield replace(row, reason=PARTIAL if lower else "")
    expected = memory_traffic(launches, arch)
    if board is not None and expected.read + expected.written > board.l2_bytes:
        for way, name in DRAM.items():
            yield Row(label, f"memory {way}", "bytes", getattr(expected, way), counted(name), MOVED)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    return 1 if table("norm", measure(cases_of(args, 4) or CASES)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
