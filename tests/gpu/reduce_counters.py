"""Predicted and measured accesses of reductions, side by side, from one `ncu` run of all.

python -m tests.gpu.reduce_counters                           small ones, and all of the bench
python -m tests.gpu.reduce_counters sum f16 8191,8193 1       one sum
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels.rowwise import FOLD, ReducePlan, plans, reduce_problem
from layoutalg.kernels.rowwise.programs.reduce import build
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

SMALL: tuple[Case, ...] = tuple(
    ("sum", dtype, *case)
    for dtype in ("f32", "f16")
    for case in (
        ("300,520", "1"), ("300,520", "0"), ("301,521", "1"), ("301,521", "0"), ("6,40,28,28", "0,2,3"),
        ("40000", "0"),
    )
)  # fmt: skip
CASES = (*SMALL, *bench_cases(FOLD))
"""A few small ones, and with them every reduction of `layoutalg bench reduce`."""


def measure(cases: Sequence[Case]) -> Iterator[Row]:
    """Predict the passes of the best plans, run all under ncu, and put both side by side.

    Memory is compared where it is moved at all: what fits the L2 is read from there.
    """
    arch = require_gpu().arch
    seen = iter(count_launches("^reduce_", TRAFFIC, "tests.gpu.reduce_launch", *words_of(cases)))
    for op, dtype, shape, axes in cases:
        plan = plans(reduce_problem(ints(shape), ints(axes), op, dtype), arch)[0]
        found = taken(seen, len(plan.passes))
        yield from compared(f"{op} of {shape} over {axes} {dtype}", plan, found, arch)


def compared(whole: str, plan: ReducePlan, found: Sequence[Mapping[str, float]], arch: str) -> Iterator[Row]:
    """What is predicted of the passes of a plan beside the counters of their launches."""
    board = find_arch(arch).board
    for n, (kernel, counters) in enumerate(zip(build(plan), found, strict=True)):
        yield from accesses(whole + (f", pass {n + 1}" if len(found) > 1 else ""), [kernel], [counters], arch)
    p = plan.problem
    if board is not None and p.read_bytes + p.written_bytes + 8 * plan.workspace_elems > (
        board.l2_bytes or 0
    ):
        read = sum(int(counters[DRAM["read"]]) for counters in found)
        yield Row(whole, "memory read", "bytes", plan.problem.read_bytes, read, MOVED)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    return table("reduction", measure(cases_of(args, 4) or CASES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
