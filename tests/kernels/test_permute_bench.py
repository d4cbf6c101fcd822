"""The bench's problems; its timings need a GPU."""

from __future__ import annotations

from math import prod

import pytest

from layoutalg.codegen.gpu import gpu_status, in_processes
from layoutalg.codegen.traffic import Cost
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.limits import Bound
from layoutalg.kernels.move.permute_bench import (
    CASES,
    ELEMS,
    PermuteRow,
    benchmark_permutes,
    make_ready,
    random_cases,
)
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.stage import PermuteConfig


def test_the_drawn_cases_are_the_same_for_the_same_seed() -> None:
    assert random_cases() == random_cases() != random_cases(1)
    assert len(random_cases()) == 20


def test_the_drawn_cases_are_large_and_no_copies() -> None:
    for shape, axes in (*CASES, *random_cases()):
        assert prod(shape) > ELEMS // 4
        assert normalise(permute_problem(shape, axes, "u8")).rank > 1


def test_sectors_are_those_of_loads_and_of_stores() -> None:
    prediction = {
        "cp.async.16": Cost(1, 7, 7), "cp.async.16:global": Cost(1, 2, 2), "ld.global.b8": Cost(1, 3, 3),
        "ld.shared.b32": Cost(1, 9, 9), "st.global.b128": Cost(1, 5, 5),
    }  # fmt: skip
    row = PermuteRow(
        "x", 3.0, 4.0, None, 1.0, PermuteConfig("direct", (1,), 32), prediction, Bound("bytes", 1, 1.0)
    )
    assert (row.sectors("ld"), row.sectors("st"), row.share) == (5, 5, 0.75)


@pytest.mark.skipif(gpu_status().available, reason="this is about a machine without a GPU")
def test_without_a_gpu_the_bench_says_so() -> None:
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        list(benchmark_permutes(CASES[:1]))


@pytest.mark.deep
def test_kernels_of_cases_are_made_by_several_processes() -> None:
    asked = [(((40, 24), (1, 0)), dtype, 0, "sm_90a") for dtype in ("f16", "f32")]
    there, here = in_processes(make_ready, asked), [make_ready(one) for one in asked]
    assert [r.kernel.source for r in there] == [r.kernel.source for r in here]
    assert [r.prediction for r in there] == [r.prediction for r in here]
    assert there[0].kernel.kernel.name == "permute_b16" and there[1].problem.dtype.name == "f32"
