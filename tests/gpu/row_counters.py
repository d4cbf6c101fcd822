"""Predicted and measured accesses of reductions and norms, side by side, from one `ncu` run of all.

python -m tests.gpu.row_counters reductions                small ones, and all of the bench
python -m tests.gpu.row_counters norms
python -m tests.gpu.row_counters sum f16 8191,8193 1       one sum; more such words are further cases
python -m tests.gpu.row_counters launch sum f16 ...        launch them: what the profiler watches
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import compile_sequence, load_sequence, require_gpu
from layoutalg.kernels import Family, find_family
from layoutalg.kernels.rowwise import FOLD, OPS, ReduceProblem, families
from tests.gpu import counters
from tests.gpu.counters import Case, Row, cases_of, count_launches, ints

SHAPES = (("300,520", "1"), ("300,520", "0"), ("301,521", "1"), ("301,521", "0"), ("6,40,28,28", "0,2,3"))
SMALL: Mapping[str, tuple[Case, ...]] = {
    "reductions": tuple(("sum", t, *case) for t in ("f32", "f16") for case in (*SHAPES, ("40000", "0"))),
    "norms": tuple(
        (op, dtype, *SHAPES[n])
        for op, dtype, n in (
            ("softmax", "f32", 0), ("softmax", "f16", 1), ("softmax", "f16", 2), ("softmax", "f32", 3),
            ("layer_norm", "bf16", 4),
        )
    ),
}  # fmt: skip
KINDS = {"reductions": FOLD, "norms": OPS}
"""A few small ones, and with them every case of `layoutalg bench reduce` that is of these operations."""


def every(kind: str) -> tuple[Case, ...]:
    """The cases of a table: (op, type, shape, axes)."""
    timed = (c for c in (*families.CASES, *families.random_cases()) if c.op in KINDS[kind])
    return (
        *SMALL[kind],
        *((c.op, c.dtype, counters.text_of(c.shape), counters.text_of(c.axes)) for c in timed),
    )


def planned(case: Case, arch: str) -> tuple[Family, Any, Any]:
    """The family of a case, its problem, and the configuration that is chosen."""
    op, dtype, shape, axes = case
    family = find_family(op)
    p = family.problem(ints(shape), ints(axes), dtype)
    return family, p, family.choose(p, arch)


def launch(cases: Sequence[Case]) -> None:
    """Launch every case once, on random numbers."""
    arch = require_gpu().arch
    for family, p, config in (planned(case, arch) for case in cases):
        sequence = compile_sequence(family.launches(p, config, arch), arch)
        load_sequence(sequence.ready()).on_arrays(family.bench.arrays(p, 0))()


def measure(cases: Sequence[Case]) -> Iterator[Row]:
    """Predict the launches of the best plans, run all under ncu, and put both side by side."""
    arch, names = require_gpu().arch, "|".join(("reduce", *OPS))
    words = ("launch", *counters.words_of(cases))
    seen = iter(count_launches(f"^({names})_", counters.TRAFFIC, "tests.gpu.row_counters", *words))
    for case in cases:
        family, p, config = planned(case, arch)
        found = counters.taken(seen, len(family.launches(p, config, arch).kernels))
        yield from compared("{0} of {2} over {3} {1}".format(*case), p, config, found, arch)


def compared(
    label: str, p: Any, config: Any, found: Sequence[Mapping[str, float]], arch: str
) -> Iterator[Row]:
    """What is predicted of the launches of a plan beside their counters, the passes of a reduction apart.

    Memory is compared where it is moved at all: what fits the L2 is read from there.
    """
    family, board = find_family(p.op), find_arch(arch).board
    kernels, memory = family.launches(p, config, arch).kernels, family.memory
    if isinstance(p, ReduceProblem):
        for n, (kernel, one) in enumerate(zip(kernels, found, strict=True), 1):
            name = f"{label}, pass {n}" if len(found) > 1 else label
            yield from counters.accesses(name, [kernel], [one], arch)
    else:
        yield from counters.accesses(label, kernels, found, arch, polls=config.together)
    expected = memory(p, config, arch) if memory else (0, 0)
    if board is not None and sum(expected) > (board.l2_bytes or 0):
        for (way, metric), predicted in zip(counters.DRAM.items(), expected, strict=True):
            measured = sum(int(one[metric]) for one in found)
            yield Row(label, f"memory {way}", "bytes", predicted, measured, counters.MOVED)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    if args[:1] == ["launch"]:
        launch(cases_of(args[1:], 4))
        return 0
    cases = every(args[0]) if len(args) == 1 else cases_of(args, 4)
    return counters.table(args[0], measure(cases))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
