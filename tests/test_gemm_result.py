"""What is declared for D, and what is done to sums; the arithmetic runs in the families' tests."""

from __future__ import annotations

import pytest

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.tile import Global
from layoutalg.kernels.gemm import gemm_problem
from layoutalg.kernels.gemm_result import ARITHMETIC, Result, declare_result


def declared(dtype: str, *, parts: bool = False, static: bool = False) -> tuple[Result, dict[str, object]]:
    p = gemm_problem(64, 64, 64, dtype, reads_c=True, bias=True)
    k = KernelBuilder("nothing", threads=32)
    m, n = k.param("m", 64), k.param("n", 64)
    result = declare_result(k, p, 2, m, n, part=k.block(1, 4) if parts else None, static=static)
    return result, {q.name: q for q in k.build().params if q.name not in ("m", "n")}


def test_a_double_is_two_words() -> None:
    names = declared("f64")[1]
    assert list(names) == [
        "ldd", "d", "alpha_low", "alpha_high", "ldc", "c", "beta_low", "beta_high", "bias"
    ]  # fmt: skip
    assert list(declared("f16")[1]) == ["ldd", "d", "alpha", "ldc", "c", "beta", "bias"]


def test_constant_leading_dimensions_are_no_parameters() -> None:
    assert list(declared("f16", static=True)[1]) == ["d", "alpha", "c", "beta", "bias"]


@pytest.mark.parametrize(("dtype", "nbytes"), [("f16", 4), ("s8", 4), ("f64", 8)])
def test_parts_store_sums_alone(dtype: str, nbytes: int) -> None:
    result, names = declared(dtype, parts=True)
    sums = names["sums"]
    assert list(names) == ["sums"] and isinstance(sums, Global) and sums.element_bytes == nbytes
    assert result.alpha == () and result.c is None and result.bias is None


def test_every_accumulator_has_its_arithmetic() -> None:
    for name, do in ARITHMETIC.items():
        assert do.scale(2).operands[0].words == 2 * do.words
        assert do.add_scaled(2, "f32" if name == "f16" else name).operands[0].words == 2 * do.words
        assert len(do.one) == do.words
