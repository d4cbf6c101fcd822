"""Epilogues as values: composed, stated, refused, and simulated against their definition with its bound."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import GELU, RELU, SILU, ScalarFunction
from layoutalg.codegen.program import printed
from layoutalg.codegen.sim import simulate, simulate_sequence
from layoutalg.errors import ArgumentTypeError, IRError, LayoutAlgError, UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, SimtConfig, Sm80Config, gemm_problem, matrices, scalar_words
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.epilogue import (
    AddMatrix,
    AddVector,
    Epilogue,
    Map,
    Scale,
    epilogue_operands,
    named_epilogue,
)
from layoutalg.kernels.gemm.family import EPSILON, LEAST
from layoutalg.kernels.gemm.launches import launches
from tests.kernels.gemm.cases import packed, unpacked
from tests.sweeps import each, first

SEED = 20261122
LEAKY = ScalarFunction(
    "leaky", {"f32": "x < 0.0f ? 0.125f * x : x", "f64": "x < 0.0 ? 0.125 * x : x"},
    lambda x: np.where(x < 0, 0.125 * x, x), relative=0.0,
)  # fmt: skip
SQUARE = ScalarFunction("square", {"f32": "x * x", "s32": "x * x"}, lambda x: x * x, slope=float("inf"))
FULL = Epilogue() | Scale() | AddMatrix() | AddVector("bias") | AddVector("offset", "m") | Map(GELU)
EPILOGUES = {
    "nothing": Epilogue(),
    "gelu": named_epilogue(reads_c=False, bias=True, activation="gelu"),
    "silu": named_epilogue(reads_c=True, bias=False, activation="silu"),
    "row and column": FULL,
    "own": Epilogue((Scale(), Map(LEAKY))),
    "two functions": Epilogue((AddVector("offset", "m"), Map(RELU), Scale("gamma"), Map(SILU))),
    "add first": Epilogue((AddMatrix(), Scale(), Map(LEAKY), AddVector("bias"))),
}
TENSOR, PLAIN = (
    Sm80Config(64, 32, 32, 2, 1, 2, edges=True, result_vec=2),
    SimtConfig(32, 32, 8, 4, 4, 4, edges=True),
)
WAYS: dict[str, tuple[str, Any]] = {
    "f16": ("f16", TENSOR), "bf16": ("bf16", TENSOR), "f16 sums": ("f16", TENSOR), "f32": ("f32", PLAIN),
    "f64": ("f64", PLAIN),
}  # fmt: skip


def computed(p: GemmProblem, c: Any, seed: int) -> tuple[Any, Any, Any]:
    """D as simulated, by definition, and how far apart they may be: normal numbers, scalars of 0.3 to 2."""
    rng = np.random.default_rng(seed)
    operand, to = p.operand.name, p.result.name
    given: dict[str, Any] = {"a": packed(rng.standard_normal(p.a_elems), operand)}
    given["b"] = packed(rng.standard_normal(p.b_elems), operand)
    exact: dict[str, Any] = {}
    for name, elems in epilogue_operands(p.epilogue, p):
        given[name] = packed(rng.standard_normal(elems), to)
        exact[name] = unpacked(given[name], to)
        if name == "c":
            exact[name] = np.lib.stride_tricks.as_strided(exact[name], (p.m, p.n), (8 * p.ldc, 8))
    for step in p.epilogue.steps:
        field = {Scale: "name", AddMatrix: "factor"}.get(type(step))
        if field is not None:
            exact[getattr(step, field)] = factor = float(rng.choice([0.5, -0.75, 1.5]))
            given |= scalar_words(p, getattr(step, field), factor)
    d = packed(np.full((p.m - 1) * p.ldd + p.n, -1.0), to)
    one = launches(p, c)
    lowered = replace(one, kernels=tuple(map(printed, one.kernels)))
    group: Literal["block", "warp"] = "warp" if seed % 2 else "block"
    simulate_sequence(lowered, {**given, "d": d}, group=group, seed=seed, trace=False)
    a, b = matrices(p, *(unpacked(given[x], operand) for x in "ab"))
    u = EPSILON["f16" if p.accumulator.name == "f16" else p.accumulator.name]
    error = 2 * (p.k + 4) * u * (np.abs(a) @ np.abs(b))
    finished = EPSILON["f64" if p.accumulator.name == "f64" else "f32"]
    value, error = p.epilogue.definition(a @ b, error, exact, finished)
    got = np.lib.stride_tricks.as_strided(unpacked(d, to), (p.m, p.n), (8 * p.ldd, 8))
    return got, value, error + 2 * EPSILON[to] * (np.abs(value) + error) + LEAST[to]


@each("name", EPILOGUES, sample=1)
@each("way", WAYS)
def test_what_is_simulated_is_the_definition(way: str, name: str) -> None:
    dtype, c = WAYS[way]
    sums = "f16" if way == "f16 sums" else None
    p = gemm_problem(40, 20, 24, dtype, accumulator=sums, epilogue=EPILOGUES[name], ldc=22, ldd=24)
    if isinstance(c, SimtConfig):
        c = SIMT.fitted(p, c)
    got, value, allowed = computed(p, c, SEED)
    assert np.all(np.abs(got - value) <= allowed)
    assert np.percentile(np.abs(value), 90) > 10 * np.median(allowed) or dtype in ("f16", "bf16")


@pytest.mark.parametrize("seed", first(4, range(24)))
def test_a_random_product_with_a_random_epilogue(seed: int) -> None:
    """Orders, leading dimensions, types, edges, parts of k, and steps in any order."""
    rng = random.Random(SEED + seed)
    dtype = rng.choice(("f16", "bf16", "f32", "f64", "tf32"))
    steps: list[Any] = [Scale(), AddMatrix(), AddVector("bias"), AddVector("offset", "m")]
    steps += [Map(f) for f in (RELU, GELU, SILU, LEAKY)]
    chosen = tuple(rng.sample(steps, rng.randint(0, 5)))
    a, b = (rng.choice(("k", "mn")) if dtype != "tf32" else "k" for _ in "ab")
    m, n, k = rng.randint(1, 90), 2 * rng.randint(1, 40), 2 * rng.randint(1, 60)
    orders: dict[str, Any] = {"a_major": a, "b_major": b}
    p = gemm_problem(
        m, n, k, dtype, **orders, epilogue=Epilogue(chosen), ldc=n + rng.choice((0, 2)),
        ldd=n + rng.choice((0, 2, 6)),
    )  # fmt: skip
    family: Any = SIMT if dtype in ("f32", "f64") else SM80
    c = rng.choice([x for x in family.configs(p) if x.tile_m * x.tile_n <= 64 * 64])
    got, value, allowed = computed(p, c, seed)
    assert np.all(np.abs(got - value) <= allowed), (p, c)


def test_integers_are_finished_modulo_2_to_the_32() -> None:
    p = gemm_problem(32, 32, 64, "s8", epilogue=Epilogue((Scale(), AddVector("offset", "m"), Map(SQUARE))))
    c = SM80.configs(p)[0]
    rng = np.random.default_rng(SEED)
    given = {name: packed(rng.integers(-128, 128, 32 * 64), "s8") for name in "ab"}
    given |= {"offset": packed(rng.integers(-1000, 1000, 32), "s32"), "d": packed(np.zeros(1024), "s32")}
    one = launches(p, c)
    (mine,) = one.arguments({**given, **scalar_words(p, "alpha", 3)})
    simulate(printed(one.kernels[0]), mine, trace=False)
    a, b = matrices(p, *(unpacked(given[x], "s8").astype(int) for x in "ab"))
    total = 3 * (a @ b) + unpacked(given["offset"], "s32").astype(int)[:, None]
    wanted = (total * total + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(unpacked(given["d"], "s32").astype(int).reshape(32, 32), wanted)


def test_two_epilogues_of_one_name_and_different_text_are_different_kernels() -> None:
    def kernel(text: str) -> tuple[GemmProblem, str]:
        own = ScalarFunction("own", {"f32": text}, lambda x: x)
        p = gemm_problem(64, 64, 64, epilogue=Epilogue((Scale(), Map(own))))
        return p, to_cuda(launches(p, SM80.configs(p)[0]).kernels[0])

    (p, one), (q, other) = kernel("x + x"), kernel("x * x")
    assert p != q and one != other and "x + x" in one and "x * x" in other


def test_an_epilogue_is_stated_in_the_order_of_its_steps() -> None:
    assert FULL.said("A B") == "gelu(alpha A B + beta C + bias + offset[m])"
    assert EPILOGUES["two functions"].said("A B") == "silu(gamma relu(A B + offset[m]))"
    assert EPILOGUES["add first"].said("A B") == "leaky(alpha (A B + beta C)) + bias"


@each(
    ("steps", "error"),
    [
        ((Scale(), Scale()), UnsupportedError),
        ((AddVector("bias"), AddVector("bias", "m")), UnsupportedError),
        ((AddMatrix(), AddMatrix("e", "gamma")), UnsupportedError),
        ((AddVector("d"),), UnsupportedError),
        ((AddVector("no name"),), IRError),
        ((AddVector("bias", "k"),), UnsupportedError),  # type: ignore[arg-type]
        ((Map(LEAKY), Map(ScalarFunction("leaky", {"f32": "x"}, abs))), UnsupportedError),
        ((GELU,), ArgumentTypeError),
    ],
)
def test_what_is_no_epilogue_is_refused(steps: tuple[Any, ...], error: type[LayoutAlgError]) -> None:
    with pytest.raises(error):
        Epilogue(steps)


def test_a_problem_takes_an_epilogue_or_its_parts() -> None:
    with pytest.raises(UnsupportedError, match="belong into it"):
        gemm_problem(8, 8, 8, bias=True, epilogue=FULL)
    with pytest.raises(UnsupportedError, match="gelu of s32"):
        gemm_problem(8, 8, 8, "s8", activation="gelu")
    p = gemm_problem(8, 8, 8, epilogue=FULL)
    assert (p.reads_c, p.bias, p.activation) == (True, True, "gelu")


@each("way", ["f16", "f32"])
def test_without_beta_c_is_no_argument(way: str) -> None:
    (kernel,) = launches(gemm_problem(64, 64, 32, way), WAYS[way][1]).kernels
    assert not {"c", "beta", "ldc", "bias"} & {p.name for p in kernel.params}
