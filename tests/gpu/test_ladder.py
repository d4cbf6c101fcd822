"""Products on a GPU: their ladders' predictions against counters, and `verify`."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.codegen.gpu import gpu_status
from layoutalg.kernels.gemm.bench import GEMM_FAMILIES
from layoutalg.kernels.gemm.verify import verified_problem, verify_product
from tests.gpu.tools import tool

STATUS = gpu_status()
pytestmark = pytest.mark.skipif(not STATUS.available, reason=f"needs a GPU: {STATUS.reason}")

TYPES = {"gemm-sm80": ("f16", "bf16", "tf32", "s8"), "gemm-simt": ("f32", "f64")}


@pytest.mark.parametrize(("family", "n"), [("gemm-sm80", "4096"), ("gemm-simt", "2048")])
def test_no_prediction_of_a_ladder_is_refuted(family: str, n: str) -> None:
    tool("ncu")
    from tests.gpu.gemm_ladder import main

    assert main([family, n]) == 0


def test_no_prediction_of_a_chosen_product_is_refuted() -> None:
    tool("ncu")
    from tests.gpu.gemm_counters import main

    assert main([]) == 0


@pytest.mark.parametrize("extents", [(128, 128, 128), (67, 131, 45), (1009, 1013, 1019)], ids=str)
@pytest.mark.parametrize("family", GEMM_FAMILIES)
def test_products_are_within_their_bound(family: str, extents: tuple[int, int, int]) -> None:
    chosen: Any = GEMM_FAMILIES[family]
    for dtype in TYPES[family]:
        report = verify_product(chosen, verified_problem(chosen, extents, dtype), target="gpu")
        assert report.passed, report
