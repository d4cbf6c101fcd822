"""Products on a GPU: their ladders' predictions against counters, and `verify`."""

from __future__ import annotations

import pytest

from layoutalg.kernels import FAMILIES, verify
from tests.gpu.tools import counters, needs_gpu

pytestmark = needs_gpu

TYPES = {"gemm-sm75": ("f16",), "gemm-sm80": ("f16", "bf16", "tf32", "s8"), "gemm-simt": ("f32", "f64")}


@pytest.mark.parametrize(
    ("family", "n"), [("gemm-sm80", "4096"), ("gemm-simt", "2048"), ("gemm-sm90", "4096")]
)
def test_no_prediction_of_a_ladder_is_refuted(family: str, n: str) -> None:
    counters()
    from tests.gpu.gemm_ladder import main

    assert main([family, n]) == 0


def test_no_prediction_of_a_chosen_product_is_refuted() -> None:
    counters()
    from tests.gpu.gemm_counters import main

    assert main([]) == 0


def test_no_prediction_of_a_product_by_wgmma_is_refuted() -> None:
    counters()
    from tests.gpu.gemm_sm90_counters import main

    assert main([]) == 0


@pytest.mark.parametrize("extents", [(128, 128, 128), (67, 131, 45), (1009, 1013, 1019)], ids=str)
@pytest.mark.parametrize("family", TYPES)
def test_products_are_within_their_bound(family: str, extents: tuple[int, int, int]) -> None:
    chosen = FAMILIES[family]
    for dtype in TYPES[family]:
        report = verify(chosen, chosen.problem(*extents, dtype, reads_c=True, bias=True), target="gpu")
        assert report.passed, report
