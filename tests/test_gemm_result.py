"""What is declared for D, and what is done to sums; the arithmetic runs in the families' tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Const, evaluate
from layoutalg.codegen.lower import lower
from layoutalg.codegen.simulate import simulate
from layoutalg.codegen.tile import Global
from layoutalg.errors import SimulationError
from layoutalg.kernels import gemm_simt, gemm_simt_configs, gemm_sm80, gemm_sm80_configs
from layoutalg.kernels.gemm import gemm_problem, scalar_words
from layoutalg.kernels.gemm_result import ARITHMETIC, Result, declare_result
from tests.gemm_cases import arguments, expected, taken


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


@pytest.mark.parametrize("name", ["f16", "bf16", "s8", "f32", "f64"])
@pytest.mark.parametrize("beta", [0.0, -0.0])
def test_beta_zero_reads_no_c_though_the_kernel_takes_one(name: str, beta: float) -> None:
    """There is nearly no C: to read it is an error."""
    p = gemm_problem(40, 40, 32, name, reads_c=True)
    if name in ("f32", "f64"):
        kernel = gemm_simt.build(p, gemm_simt_configs.configs(p)[-1])
    else:
        kernel = gemm_sm80.build(p, gemm_sm80_configs.configs(p)[-1])
    args = arguments(p) | scalar_words(p, "beta", beta)
    mine = taken(kernel, {**args, "c": args["c"][:1]})
    simulate(lower(kernel), mine, trace=False)
    assert mine["d"].tobytes() == expected(replace(p, reads_c=False), args).tobytes()
    with pytest.raises(SimulationError, match="of c, which has"):
        simulate(lower(kernel), {**mine, **scalar_words(p, "beta", 1)}, trace=False)


@pytest.mark.parametrize("beta", [float("nan"), float("inf"), 5e-324, -1.0])
def test_what_is_not_zero_counts(beta: float) -> None:
    p = gemm_problem(8, 8, 8, "f64", reads_c=True)
    words = scalar_words(p, "beta", beta)
    given = tuple(map(Const, words.values()))
    assert evaluate(ARITHMETIC["f64"].nonzero(given), {}) == 1
    assert evaluate(ARITHMETIC["f64"].nonzero((Const(0), Const(1 << 31))), {}) == 0


def test_every_accumulator_has_its_arithmetic() -> None:
    for name, do in ARITHMETIC.items():
        assert do.scale(2).operands[0].words == 2 * do.words
        assert do.add_scaled(2, "f32" if name == "f16" else name).operands[0].words == 2 * do.words
        assert len(do.one) == do.words
