"""`layoutalg verify` of products."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.kernels import verification
from layoutalg.kernels.gemm.family import VERIFIED as VERIFIED_PRODUCTS
from layoutalg.kernels.verification import Check, VerifyReport
from tests.command import answer, run


def test_a_product_is_verified() -> None:
    words = ("verify", "gemm-simt", "--m", "32", "--n", "64", "--k", "16", "--target", "simulator")
    payload = answer(*words)
    assert payload["passed"] and payload["dtype"] == "f32" and len(payload["reports"]) == 1
    names = [check["name"] for check in payload["reports"][0]["checks"]]
    assert names[:2] == ["result, one block at a time", "result, one warp at a time"]
    text = run(*words)
    assert text.exit_code == 0 and text.stdout.endswith("Passed.\n") and "FAILS" not in text.stdout


def test_sizes_and_types_reach_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noted(family: Any, p: Any, config: Any, *, target: Any, seed: int) -> VerifyReport:
        assert config is None
        seen.append(f"{p}, {target}, {seed}")
        return VerifyReport(family.name, str(p), target, (Check("result", "45" not in str(p), "-"),))

    monkeypatch.setattr(verification, "verify", noted)
    all_of = "TN, alpha A B + beta C + bias, simulator"
    only = ("--target", "simulator")
    assert answer("verify", "gemm-sm80", "--m", "40", "--dtype", "bf16", "--seed", "7", *only)["passed"]
    assert answer("verify", "gemm-sm80", *only, exit_code=1)["passed"] is False
    assert seen == [
        f"40 x 40 x 40 bf16 {all_of}, 7",
        *(f"{m} x {n} x {k} f16 {all_of}, 0" for m, n, k in VERIFIED_PRODUCTS),
    ]
