"""Predicted and measured accesses of norms, side by side, from one `ncu` run of all.

python -m tests.gpu.norm_counters                               small ones, and all of the bench
python -m tests.gpu.norm_counters softmax f16 8191,8193 1       one norm
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels.rowwise import OPS, NormLaunches, norm_problem
from layoutalg.kernels.rowwise.memory import norm_traffic as memory_traffic
from layoutalg.kernels.rowwise.programs.norm import plan
from tests.gpu.counters import (
    DRAM,
    MOVED,
    TRAFFIC,
    Case,
    Row,
    accesses,
    bench_cases,
    cases_of,
    count_launches,
    ints,
    table,
    taken,
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
    seen = iter(count_launches(f"^({'|'.join(OPS)})_", TRAFFIC, "tests.gpu.norm_launch", *words_of(cases)))
    for op, dtype, shape, axes in cases:
        launches = plan(norm_problem(op, ints(shape), ints(axes), dtype), arch)
        found = taken(seen, len(launches.kernels))
        yield from compared(f"{op} of {shape} over {axes} {dtype}", launches, found, arch)


def compared(
    label: str, launches: NormLaunches, found: Sequence[Mapping[str, float]], arch: str
) -> Iterator[Row]:
    """What is predicted of the launches of a plan beside their counters."""
    board = find_arch(arch).board
    yield from accesses(label, launches.kernels, found, arch, polls=launches.config.together)
    expected = memory_traffic(launches, arch)
    if board is not None and expected.read + expected.written > (board.l2_bytes or 0):
        for way, name in DRAM.items():
            measured = sum(int(counters[name]) for counters in found)
            yield Row(label, f"memory {way}", "bytes", getattr(expected, way), measured, MOVED)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    return table("norm", measure(cases_of(args, 4) or CASES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
