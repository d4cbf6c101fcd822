"""The bench of matrix products: what it would time, and what it says without a GPU."""

from __future__ import annotations

import pytest

from layoutalg.codegen.runtime import gpu_status
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.kernels.gemm_bench import (
    GEMM_FAMILIES,
    STEPS_SIZE,
    GemmRow,
    benchmark_sizes,
    benchmark_ways,
    find_gemm_family,
)


@pytest.mark.parametrize("name", GEMM_FAMILIES)
def test_every_step_and_every_choice_can_be_built(name: str) -> None:
    family = find_gemm_family(name)
    p = family.problem(STEPS_SIZE)
    best = family.configs(p, "sm_90")[0]
    for config in (best, *family.steps.values()):
        assert family.build(p, config).threads % 32 == 0


def test_the_ratio_is_ours_over_cublas() -> None:
    assert GemmRow("p", "w", 55.0, 50.0, 200).ratio == 1.1
    assert GemmRow("p", "w", 55.0, None, 200).ratio is None


def test_unknown_families_are_named() -> None:
    with pytest.raises(UnknownNameError, match="gemm-simt"):
        find_gemm_family("gemm")


@pytest.mark.skipif(gpu_status().available, reason="a GPU is here")
def test_without_a_gpu_the_bench_says_so() -> None:
    family = find_gemm_family("gemm-simt")
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        benchmark_ways(family, family.problem(64), {})
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        list(benchmark_sizes(family, [family.problem(64)]))
