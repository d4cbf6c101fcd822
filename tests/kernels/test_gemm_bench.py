"""The bench of matrix products: what it would time, and what it says without a GPU."""

from __future__ import annotations

import re

import pytest

from layoutalg.codegen import gpu
from layoutalg.codegen.gpu import gpu_status, runtime
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.kernels.gemm import bench as gemm_bench
from layoutalg.kernels.gemm.bench import (
    GEMM_FAMILIES,
    SIZES,
    STEPS_SIZE,
    GemmRow,
    benchmark_sizes,
    benchmark_ways,
    find_gemm_family,
    mean_ratio,
)
from tests.command import answer, run


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
    assert mean_ratio([GemmRow("p", "w", 55.0, None, 200)]) is None


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


def test_the_tables_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed of measured rows; measuring itself needs a GPU."""
    step, size = (
        GemmRow("4 x 4 x 4 f32 TT", "v1", 1.25, 50.0, 40),
        GemmRow("8 x 8 x 8 f32 TT", "64x64", 2, 4, 90),
    )
    monkeypatch.setattr(gpu, "require_gpu", lambda: runtime.GpuStatus(True, "Some GPU", "sm_90a"))
    monkeypatch.setattr(gemm_bench, "benchmark_ways", lambda family, p, ways: [step])
    monkeypatch.setattr(gemm_bench, "benchmark_sizes", lambda family, problems: iter([size] * len(problems)))
    payload = answer("bench", "gemm-simt")
    assert payload["steps"] == [
        {"problem": "4 x 4 x 4 f32 TT", "way": "v1", "registers": 40, "ours_tflop_per_s": 1.25,
         "cublas_tflop_per_s": 50.0, "ratio": 0.025}
    ]  # fmt: skip
    assert len(payload["rows"]) == len(SIZES)
    assert answer("bench", "gemm-simt", "--size", "8")["steps"] == []
    text = run("bench", "gemm-simt", "--size", "8").stdout
    assert text.startswith("gemm-simt, sizes, on Some GPU, ")
    assert re.search(r"8 x 8 x 8 f32 TT +64x64 +90 +2\.0 +4\.0 +0\.500", text)
    assert "Geometric mean of the ratios: 0.500." in text
