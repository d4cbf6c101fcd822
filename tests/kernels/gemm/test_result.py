"""What is declared for D, and what is done to sums; the arithmetic runs in the families' tests."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from layoutalg.codegen.expr import Const, evaluate
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Global, lower
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError
from layoutalg.kernels.gemm import Config, GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.epilogue import ARITHMETIC, Output, named_epilogue
from layoutalg.kernels.gemm.launches import launches, sequence_of
from layoutalg.kernels.gemm.programs import simt as gemm_simt
from layoutalg.kernels.gemm.programs import sm80 as gemm_sm80
from layoutalg.kernels.gemm.work.splitk import part_problem
from layoutalg.kernels.ladder.steps import SimtStep, Sm80Step
from tests.kernels.gemm.cases import arguments, expected, simulated, taken
from tests.sweeps import each, first


def declared(dtype: str, *, parts: bool = False, static: bool = False) -> tuple[Output, dict[str, object]]:
    p = gemm_problem(64, 64, 64, dtype, reads_c=True, bias=True)
    k = KernelBuilder("nothing", threads=32)
    m, n = k.param("m", 64), k.param("n", 64)
    result = Output(
        k, part_problem(p) if parts else p, 2, m, n, part=k.block(1, 4) if parts else None, static=static
    )
    return result, {q.name: q for q in k.build().params if q.name not in ("m", "n")}


def test_a_double_is_two_words() -> None:
    wide = ["ldd", "d", "alpha_low", "alpha_high", "ldc", "c", "beta_low", "beta_high", "bias"]
    assert list(declared("f64")[1]) == wide
    assert list(declared("f16")[1]) == ["ldd", "d", "alpha", "ldc", "c", "beta", "bias"]
    assert list(declared("f16", static=True)[1]) == ["d", "alpha", "c", "beta", "bias"]


@pytest.mark.parametrize(("dtype", "nbytes"), [("f16", 4), ("s8", 4), ("f64", 8)])
def test_parts_store_sums_alone(dtype: str, nbytes: int) -> None:
    result, names = declared(dtype, parts=True)
    sums = names["sums"]
    assert list(names) == ["sums"] and isinstance(sums, Global) and sums.element_bytes == nbytes
    assert not result.scalars and not result.buffers


@each("name", ["f16", "bf16", "s8", "f32", "f64"], sample=1)
@each("beta", [0.0, -0.0])
def test_beta_zero_reads_no_c_though_the_kernel_takes_one(name: str, beta: float) -> None:
    """There is nearly no C: to read it is an error."""
    p = gemm_problem(40, 40, 32, name, reads_c=True)
    if name in ("f32", "f64"):
        kernel = gemm_simt.build(p, SIMT.configs(p)[-1])
    else:
        kernel = gemm_sm80.build(p, SM80.configs(p)[-1])
    args = arguments(p) | scalar_words(p, "beta", beta)
    mine = taken(kernel, {**args, "c": args["c"][:1]})
    simulate(lower(kernel), mine, trace=False)
    assert mine["d"].tobytes() == expected(replace(p, epilogue=PLAIN_END), args).tobytes()
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


STATED = re.compile(
    r"// D = (?:(?P<activation>\w+)\()?alpha (?P<product>A B|\(sums\[0\] \+ sums\[1\] \+ \.\.\.\))"
    r"(?P<c> \+ beta C)?(?P<bias> \+ bias)?\)?: "
    r"(?P<operand>\w+) operands, (?P<sums>\w+) sums, (?P<result>\w+) result"
)


def stated(p: GemmProblem, text: str) -> tuple[str, GemmProblem]:
    """What D is made of, and the problem that the head of a kernel's text describes."""
    (said,) = STATED.finditer(text)
    of = gemm_problem(
        p.m, p.n, p.k, said["operand"], accumulator=said["sums"], result=said["result"],
        reads_c=said["c"] is not None, bias=said["bias"] is not None, activation=said["activation"] or "none",
    )  # fmt: skip
    return said["product"], of


PLAIN_END = named_epilogue(reads_c=False, bias=False, activation="none")
TENSOR, PLAIN = Sm80Step(64, 64, 32, 2, 2, 2, result_vec=2), SimtStep(64, 64, 16, 8, 4, 4)
EPILOGUES = [*product((False, True), (False, True), ("none", "relu"))]
CONFIGS: dict[str, tuple[str, Config]] = {
    "f16": ("f16", TENSOR), "direct": ("f16", replace(TENSOR, epilogue="direct")),
    "bf16, parts": ("bf16", replace(TENSOR, splits=2)), "s8": ("s8", replace(TENSOR, tile_k=64)),
    "f32": ("f32", PLAIN), "f32, parts": ("f32", replace(PLAIN, splits=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", first(2, CONFIGS))
@each(("reads_c", "bias", "activation"), EPILOGUES)
def test_the_text_states_what_is_computed(name: str, reads_c: bool, bias: bool, activation: str) -> None:
    """The kernels of a problem write what the head of their text says, read back as a problem."""
    dtype, c = CONFIGS[name]
    p = gemm_problem(64, 64, 64, dtype, reads_c=reads_c, bias=bias, activation=activation)
    kernels = launches(p, c).kernels
    texts = [to_cuda(kernel) for kernel in kernels]
    what, described = stated(p, texts[-1])
    assert (what == "A B") == (c.splits == 1)
    if c.splits > 1:
        assert "// sums[s] = A B over part s of k" in texts[0] and "// D = " not in texts[0]
    args = arguments(p)
    want = expected(described, args)
    np.testing.assert_array_equal(simulated(sequence_of(p, c, kernels), args)[0], want)
