"""The bench's cases and rows; its timings need a GPU."""

from __future__ import annotations

from math import prod

import pytest

from layoutalg.codegen.prepare import in_processes
from layoutalg.codegen.runtime import gpu_status
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.norm_modes import OPS
from layoutalg.kernels.reduce_bench import (
    CASES,
    DTYPES,
    ELEMS,
    REDUCED,
    Case,
    ReduceRow,
    benchmark_reductions,
    make_ready,
    mean_of,
    random_cases,
)


def test_the_drawn_cases_are_the_same_for_the_same_seed() -> None:
    assert random_cases() == random_cases() != random_cases(1)
    assert [case.op in OPS for case in random_cases()] == [False] * 12 + [True] * 8


def test_the_drawn_cases_are_large_and_reduce_some_modes_of_many() -> None:
    for case in random_cases():
        assert ELEMS / 2 < prod(case.shape) < 2 * ELEMS and 0 < len(case.axes) < len(case.shape)


def test_the_quoted_cases_are_there() -> None:
    assert len(CASES) == len(set(CASES)) and len([c for c in CASES if c.op == "sum"]) == 3 * len(REDUCED)
    assert Case("softmax", (65536, 1024), (0,), "bf16") in CASES
    assert {c.dtype for c in CASES} == set(DTYPES)


def test_kernels_of_cases_are_made_by_several_processes() -> None:
    asked = [
        (Case(op, (48, 64), axes, "bf16"), "sm_90a")
        for op, axes in (("mean", (0,)), ("softmax", (1,)), ("layer_norm", (0,)))
    ]
    there = in_processes(make_ready, asked)
    assert [r.case for r in there] == [case for case, _ in asked]
    assert [r.read is None for r in there] == [False, True, True]
    assert [r.moved_bytes for r in there] == [2 * (48 * 64 + 64), 4 * 48 * 64, 4 * 48 * 64]
    assert all(r.memory_bytes == r.moved_bytes for r in there)


def test_rows_compare() -> None:
    row = ReduceRow("sum", 3000.0, "read", 4000.0, 1500.0, None, 10, 10)
    assert (row.share, row.ratio) == (0.75, 2.0)
    assert ReduceRow("sum", 3000.0, "read", 4000.0, None, None, 10, 10).ratio is None
    assert mean_of([4.0, 9.0]) == pytest.approx(6.0) and mean_of([None]) is None


@pytest.mark.skipif(gpu_status().available, reason="this is about a machine without a GPU")
def test_without_a_gpu_the_bench_says_so() -> None:
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        list(benchmark_reductions(CASES[:1]))
