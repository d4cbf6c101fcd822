"""Epilogues as values, what is declared for D, how both are stated; test_agreement computes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.expr import Const, evaluate
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import FUNCTIONS, ScalarFunction
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Global
from layoutalg.errors import ArgumentTypeError, IRError, LayoutAlgError, SimulationError, UnsupportedError
from layoutalg.kernels.gemm import (
    GemmProblem,
    SimtConfig,
    Sm80Config,
    Sm90Config,
    gemm_problem,
    matrices,
    scalar_words,
)
from layoutalg.kernels.gemm.choice import SIMT, SM80, SM90
from layoutalg.kernels.gemm.epilogue import (
    AddMatrix,
    AddVector,
    Epilogue,
    Map,
    Output,
    Scale,
    ScaleVector,
    nonzero,
)
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import stored_problem
from tests.kernels.gemm import cases
from tests.kernels.gemm.drawn import GELU, LEAKY, RELU, SILU
from tests.sweeps import each

SQUARE = ScalarFunction("square", lambda x: x * x, slope=float("inf"))
FULL = Epilogue() | Scale() | AddMatrix() | AddVector("bias") | AddVector("offset", "m") | Map(GELU)


def test_integers_are_finished_modulo_2_to_the_32() -> None:
    p = gemm_problem(32, 32, 64, "s8", epilogue=Epilogue((Scale(), AddVector("offset", "m"), Map(SQUARE))))
    rng, ran = np.random.default_rng(0), cases.launched(p, SM80.configs(p)[0])
    draw = {name: cases.packed(rng.integers(-128, 128, 32 * 64), "s8") for name in "ab"}
    given = cases.arguments(p) | draw | {"offset": cases.packed(rng.integers(-1000, 1000, 32), "s32")}
    assert not cases.wrong(p, ran, given)
    a, b = matrices(p, *(cases.unpacked(given[x], "s8").astype(int) for x in "ab"))
    total = cases.ALPHA * (a @ b) + cases.unpacked(given["offset"], "s32").astype(int)[:, None]
    wanted = (total * total + 2**31) % 2**32 - 2**31
    d = cases.unpacked(cases.expected(p, given), "s32").astype(int).reshape(32, 32)
    np.testing.assert_array_equal(d, wanted)


def test_two_epilogues_of_one_name_and_different_text_are_different_kernels() -> None:
    def kernel(formula: Callable[[Any], Any]) -> tuple[GemmProblem, str]:
        own = ScalarFunction("own", formula)
        p = gemm_problem(64, 64, 64, epilogue=Epilogue((Scale(), Map(own))))
        return p, to_cuda(launches(p, SM80.configs(p)[0]).kernels[0])

    (p, one), (q, other) = kernel(lambda x: x + x), kernel(lambda x: x * x)
    assert p != q and one != other and "x + x" in one and "x * x" in other


@each(
    ("epilogue", "stated"),
    [
        (FULL, "gelu(alpha A B + beta C + bias + offset[m])"),
        (Epilogue((AddVector("offset", "m"), Map(RELU), Scale("gamma"), Map(SILU))),
         "silu(gamma relu(A B + offset[m]))"),
        (Epilogue((Scale(), ScaleVector(), ScaleVector("of_n", "n"), AddVector(), ScaleVector("last", ""))),
         "last[0] (of_n[n] scale_a[m] alpha A B + bias)"),
        (Epilogue((AddMatrix(), Scale(), Map(LEAKY), AddVector("bias"))),
        "leaky(alpha (A B + beta C)) + bias"),
    ],
)  # fmt: skip
def test_an_epilogue_is_stated_in_the_order_of_its_steps(epilogue: Epilogue, stated: str) -> None:
    assert epilogue.said("A B") == stated


@each(
    ("steps", "error"),
    [
        ((Scale(), Scale()), UnsupportedError),
        ((AddVector("bias"), AddVector("bias", "m")), UnsupportedError),
        ((AddMatrix(), AddMatrix("e", "gamma")), UnsupportedError), ((AddVector("d"),), UnsupportedError),
        ((AddVector("no name"),), IRError),
        ((AddVector("bias", "k"),), UnsupportedError),  # type: ignore[arg-type]
        ((ScaleVector("of_k", "k"),), UnsupportedError),  # type: ignore[arg-type]
        ((ScaleVector(), AddVector("scale_a")), UnsupportedError),
        ((Map(LEAKY), Map(ScalarFunction("leaky", abs))), UnsupportedError),
        ((GELU,), ArgumentTypeError),
    ],
)  # fmt: skip
def test_what_is_no_epilogue_is_refused(steps: tuple[Any, ...], error: type[LayoutAlgError]) -> None:
    with pytest.raises(error):
        Epilogue(steps)


def test_a_problem_takes_an_epilogue_or_its_parts() -> None:
    with pytest.raises(UnsupportedError, match="belong into it"):
        gemm_problem(8, 8, 8, bias=True, epilogue=FULL)
    p = gemm_problem(8, 8, 8, epilogue=FULL)
    assert p.reads_c and p.epilogue == FULL.rounded_to("f16") != FULL == FULL.rounded_to("f32")


# --- what is declared for D ------------------------------------------------------------------------------


def declared(dtype: str, *, parts: bool = False, static: bool = False, plain: bool = False) -> dict[str, Any]:
    """The parameters of an output, by name."""
    p = gemm_problem(64, 64, 64, dtype, reads_c=not plain, bias=not plain)
    k = KernelBuilder("nothing", threads=32)
    m, n = k.param("m", 64), k.param("n", 64)
    part = k.block(1, 4) if parts else None
    result = Output(k, stored_problem(p, 1 + parts), 2, m, n, part=part, static=static)
    assert not parts or not (result.scalars or result.buffers)
    return {q.name: q for q in k.build().params if q.name not in ("m", "n")}


def test_a_kernel_takes_what_its_epilogue_needs_a_double_in_two_words() -> None:
    """Parts of k store sums alone."""
    wide = ["ldd", "d", "alpha_low", "alpha_high", "ldc", "c", "beta_low", "beta_high", "bias"]
    assert list(declared("f64")) == wide
    assert list(declared("f16")) == ["ldd", "d", "alpha", "ldc", "c", "beta", "bias"]
    assert list(declared("f16", static=True)) == ["d", "alpha", "c", "beta", "bias"]
    assert list(declared("f16", plain=True)) == ["ldd", "d", "alpha"]
    for dtype, nbytes in (("f16", 4), ("s8", 4), ("f64", 8)):
        ((name, sums),) = declared(dtype, parts=True).items()
        assert name == "sums" and isinstance(sums, Global) and sums.element_bytes == nbytes


@pytest.mark.deep
@each("name", ["f16", "bf16", "s8", "f32", "f64"], sample=1)
@each("beta", [0.0, -0.0], sample=1)
def test_beta_zero_reads_no_c_though_the_kernel_takes_one(name: str, beta: float) -> None:
    """There is nearly no C: to read it is an error."""
    p = gemm_problem(24, 24, 16, name, reads_c=True)
    choice: Any = SIMT if name in ("f32", "f64") else SM80
    ran, given = cases.launched(p, choice.configs(p)[-1]), cases.arguments(p)
    less = {"c": given["c"][:1], **scalar_words(p, "beta", beta)}
    assert not cases.wrong(p, ran, given | scalar_words(p, "beta", beta), changed=less)
    with pytest.raises(SimulationError, match="of c, which has"):
        cases.wrong(p, ran, given, changed={"c": given["c"][:1]})


def test_beta_zero_brings_no_c_by_tma() -> None:
    """Tiles of one block, whose boxes are filled in turn; C is brought where beta is not 0."""
    p = gemm_problem(8, 32, 64, "bf16", reads_c=True)
    ran = cases.launched(p, Sm90Config(64, 16, 2, 1), blocks=1)
    given = cases.arguments(p) | scalar_words(p, "beta", 0.0)
    assert not cases.wrong(p, ran, given, changed={"c": given["c"][:1]})
    with pytest.raises(SimulationError):
        cases.wrong(p, ran, given | scalar_words(p, "beta", 0.5), changed={"c": given["c"][:1]})


@pytest.mark.parametrize("beta", [float("nan"), float("inf"), 5e-324, -1.0])
def test_what_is_not_zero_counts(beta: float) -> None:
    words = scalar_words(gemm_problem(8, 8, 8, "f64", reads_c=True), "beta", beta)
    assert evaluate(nonzero(tuple(map(Const, words.values())), "f64"), {}) == 1
    assert evaluate(nonzero((Const(0), Const(1 << 31)), "f64"), {}) == 0


STATED = re.compile(
    r"// D = (?:(?P<activation>\w+)\()?alpha (?P<product>A B|\(sums\[0\] \+ sums\[1\] \+ \.\.\.\))"
    r"(?P<c> \+ beta C)?(?P<bias> \+ bias)?\)?: "
    r"(?P<operand>\w+) operands, (?P<sums>\w+) sums, (?P<result>\w+) result"
)
TENSOR, PLAIN = Sm80Config(64, 64, 32, 2, 2, 2, result_vec=2), SimtConfig(64, 64, 16, 8, 4, 4)
CONFIGS: dict[str, tuple[str, Any]] = {
    "f16": ("f16", TENSOR), "bf16, parts": ("bf16", replace(TENSOR, splits=2)),
    "s8": ("s8", replace(TENSOR, tile_k=64)), "f32, parts": ("f32", replace(PLAIN, splits=2)),
}  # fmt: skip


@pytest.mark.deep
@each("name", CONFIGS)
@each(("reads_c", "bias", "activation"), [*product((False, True), (False, True), ("none", "relu"))], sample=2)
def test_the_text_states_what_is_computed(name: str, reads_c: bool, bias: bool, activation: str) -> None:
    """The head of a text, read back as a problem, is the problem that the draws compute."""
    dtype, c = CONFIGS[name]
    p = gemm_problem(64, 64, 64, dtype, reads_c=reads_c, bias=bias, activation=activation)
    texts = [to_cuda(kernel) for kernel in launches(p, c).kernels]
    (said,) = STATED.finditer(texts[-1])
    described = gemm_problem(
        64, 64, 64, said["operand"], accumulator=said["sums"], result=said["result"],
        reads_c=said["c"] is not None, bias=said["bias"] is not None, activation=said["activation"] or "none",
    )  # fmt: skip
    assert described == p and (said["product"] == "A B") == (c.splits == 1)
    if c.splits > 1:
        assert "// sums[s] = A B over part s of k" in texts[0] and "// D = " not in texts[0]


def test_products_that_are_not_scaled_leave_in_boxes() -> None:
    """An epilogue without a step, of which the tiles of wgmma pack pairs."""
    p = replace(gemm_problem(128, 64, 128, "bf16"), epilogue=Epilogue())
    assert all(launches(p, c, "sm_90a").kernels for c in SM90.configs(p)[:2])


def test_what_may_be_zero_times_infinity_may_be_anything() -> None:
    """gelu(-15) is 0 in floats and -6e-50 by definition; relu of -infinity is 0, whatever the error was."""
    x = np.array([-15.0, 3.0, -(inf := np.inf)])
    steps = Epilogue((Map(GELU), ScaleVector("s", ""), AddVector("t"), Map(RELU)))
    value, error = steps.definition(x, np.array([1e-6, 1e-6, inf]), {"s": inf, "t": np.ones(3)}, 2.0**-23)
    assert value[:2].tolist() == [0, inf] and np.isnan(value[2]) and error[0] == inf
    value, error = Epilogue((Map(RELU),)).definition(x, np.abs(x) * 1e-6, {}, 2.0**-23)
    assert value.tolist() == [0, 3, 0] and error[2] == 0


@pytest.mark.deep
@each("function", [*FUNCTIONS.values(), LEAKY])
def test_a_function_then_factors_are_the_definition_at_the_edges(function: ScalarFunction) -> None:
    edges = [-0.0, 1, -1, -6, -14.5, -15, -88, -105, 1e-45, -1e-38, 3e38, -3e38, 9, np.inf, -np.inf, np.nan]
    factors = [np.inf, -np.inf, 0.0, -0.0, 3e38, np.nan, 1e-38, 2.0]
    p = gemm_problem(16, 8, 1, "f32", epilogue=Epilogue((Map(function), ScaleVector("s", "n"))))
    numbers = {"a": np.array(edges), "b": np.ones(8), "s": np.array(factors)}
    given = cases.arguments(p) | {name: cases.packed(x, "f32") for name, x in numbers.items()}
    assert not cases.wrong(p, launches(p, SIMT.configs(p)[0]), given)
