"""The end of a GEMM: scaling, C, bias, activation and rounding, through shared memory and directly."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from layoutalg.codegen.program import lower
from layoutalg.codegen.sim import simulate
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.programs.sm80 import build
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.ladder.steps import Sm80Step
from tests.gemm_cases import arguments, expected, taken
from tests.sweeps import each

CONFIG = Sm80Step(64, 64, 32, 2, 2, 2, edges=True, result_vec=2)
PROBLEMS = {
    "plain": gemm_problem(64, 64, 32),
    "C": gemm_problem(64, 64, 32, reads_c=True, ldc=66, ldd=70),
    "bias and relu": gemm_problem(64, 64, 32, bias=True, activation="relu"),
    "all, ragged": gemm_problem(37, 58, 40, reads_c=True, bias=True, activation="relu"),
    "bf16": gemm_problem(64, 64, 32, "bf16", reads_c=True),
    "f16 sums": gemm_problem(64, 64, 32, accumulator="f16", reads_c=True),
    "f32 result": gemm_problem(64, 64, 32, result="f32", reads_c=True),
    "integers": gemm_problem(64, 64, 64, "s8", reads_c=True, activation="relu"),
}


def run(p: GemmProblem, c: Sm80Config) -> None:
    kernel, args = lower(build(p, c)), arguments(p)
    mine = taken(kernel, args)
    simulate(kernel, mine, group="warp")
    np.testing.assert_array_equal(mine["d"], expected(p, args))


@each("epilogue", ["shared", "direct"])
@each("name", PROBLEMS, sample=2)
def test_the_result_is_the_definition(name: str, epilogue: Literal["shared", "direct"]) -> None:
    p = PROBLEMS[name]
    config = replace(CONFIG, tile_k=32 * 2 // p.operand.nbytes, epilogue=epilogue)
    run(p, config)


@pytest.mark.parametrize("vec", [1, 2, 4, 8])
def test_results_are_written_in_vectors_of_any_width(vec: int) -> None:
    run(gemm_problem(72, 56, 32, reads_c=True), replace(CONFIG, result_vec=vec))


def test_without_beta_c_is_no_argument() -> None:
    kernel = build(gemm_problem(64, 64, 32), CONFIG)
    assert not {"c", "beta", "ldc", "bias"} & {p.name for p in kernel.params}


def test_nan_and_infinity_go_through() -> None:
    p = gemm_problem(64, 64, 32, reads_c=True, activation="relu")
    kernel, args = lower(build(p, CONFIG)), arguments(p)
    a, c = args["a"].view(np.float16), args["c"].view(np.float16)
    a[0], a[p.lda], c[2 * p.ldc] = np.nan, np.inf, np.nan
    args["b"].view(np.float16)[:] = 1
    mine = taken(kernel, args | scalar_words(p, "beta", 1))
    simulate(kernel, mine)
    d = mine["d"].view(np.float16).reshape(64, 64)
    assert np.isnan(d[0]).all() and np.isposinf(d[1]).all() and np.isnan(d[2, 0]) and np.isfinite(d[3:]).all()
