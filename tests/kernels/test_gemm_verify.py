"""The agreement test of products: it passes on what is right, and on nothing that is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.instr import BAR
from layoutalg.codegen.traffic import Cost
from layoutalg.errors import SimulationError
from layoutalg.kernels.gemm import verify as gemm_verify
from layoutalg.kernels.gemm.bench import find_gemm_family
from layoutalg.kernels.gemm.launches import Launches, launches, predictions
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, matrices
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.gemm.verify import (
    ALPHA,
    BETA,
    compare,
    definition,
    operands,
    verified_problem,
    verify_product,
)
from tests.gemm_cases import unpacked
from tests.mutate import without
from tests.sweeps import each

SM80, SIMT = find_gemm_family("gemm-sm80"), find_gemm_family("gemm-simt")


@each(
    ("family", "extents", "dtype"),
    [(SM80, (64, 64, 64), "f16"), (SM80, (17, 24, 9), "bf16"), (SM80, (16, 64, 128), "s8"),
     (SM80, (64, 64, 32), "tf32"), (SIMT, (64, 128, 16), "f32"), (SIMT, (5, 3, 7), "f64")],
)  # fmt: skip
def test_products_agree(family: Any, extents: tuple[int, int, int], dtype: str) -> None:
    report = verify_product(family, verified_problem(family, extents, dtype), seed=3)
    assert report.passed, report
    names = [check.name for check in report.checks]
    assert names[:2] == ["result, one block at a time", "result, one warp at a time"]
    assert "machine code" in names[-1]


def test_parts_of_k_agree() -> None:
    config = Sm80Config(64, 64, 32, 2, 2, 2, splits=2, result_vec=4)
    report = verify_product(SM80, gemm_problem(64, 64, 128), config)
    assert report.passed and report.problem.endswith("64x64x32, 2 parts of k")
    assert sum(check.name == "no other accesses" for check in report.checks) == 2


def test_the_definition_element_by_element() -> None:
    p = gemm_problem(3, 5, 4, "f32", lda=6, ldb=7, ldc=8, ldd=9, b_major="mn", reads_c=True, bias=True)
    given = operands(p, 1)
    a, b = matrices(p, unpacked(given["a"], "f32"), unpacked(given["b"], "f32"))
    c, bias = unpacked(given["c"], "f32"), unpacked(given["bias"], "f32")
    exact, allowed = definition(p, given)
    for i in range(3):
        for j in range(5):
            terms = [ALPHA * a[i, x] * b[x, j] for x in range(4)] + [BETA * c[8 * i + j], bias[j]]
            assert exact[i, j] == pytest.approx(sum(terms), rel=1e-14)
            assert allowed[i, j] > 2 * 4 * 2.0**-24 * sum(map(abs, terms))


def _d(p: GemmProblem, values: Any) -> Any:
    return values.astype(np.float32).view(np.uint32).ravel()


def test_what_is_out_of_bounds_is_named() -> None:
    p = gemm_problem(4, 6, 5, "f32")
    exact, allowed = definition(p, operands(p, 2))
    assert compare("right", p, _d(p, exact), exact, allowed).passed
    for wrong in (exact[2, 3] + 2 * allowed[2, 3], np.nan, np.inf):
        bad = exact.copy()
        bad[2, 3] = wrong
        check = compare("wrong", p, _d(p, bad), exact, allowed)
        assert not check.passed and check.detail.startswith("1 elements are wrong: D[2][3] = ")


def test_a_forgotten_factor_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    p = verified_problem(SIMT, (32, 32, 16))
    monkeypatch.setattr(gemm_verify, "ALPHA", 1)  # the kernel is given 1, the definition means 2
    given = operands(p, 0)
    monkeypatch.undo()
    monkeypatch.setattr(gemm_verify, "operands", lambda p, seed, trial="normal": given)
    assert not verify_product(SIMT, p).passed


def test_a_missing_barrier_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(p: Any, c: Any) -> Launches:
        one = launches(p, c)
        return replace(one, kernels=tuple(without(kernel, BAR.name) for kernel in one.kernels))

    monkeypatch.setattr(gemm_verify, "launches", broken)
    with pytest.raises(SimulationError):
        verify_product(SM80, gemm_problem(64, 64, 128))


def test_a_wrong_prediction_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    p, config = gemm_problem(64, 64, 64), Sm80Config(64, 64, 32, 2, 2, 2)
    right = predictions(p, config)
    wrong = {**right[0], "ldmatrix.x4": right[0]["ldmatrix.x4"] + Cost(0, 1, 0)}
    monkeypatch.setattr(gemm_verify, "predictions", lambda p, c: (wrong,))
    failing = [check.name for check in verify_product(SM80, p, config).checks if not check.passed]
    assert failing == ["accesses, ldmatrix.x4"]
