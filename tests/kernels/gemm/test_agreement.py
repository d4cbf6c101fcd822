"""Products of every family: definition == simulator == text on the host; accesses are what is predicted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.instr import decode, encode
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels.checks.gemm import definition
from layoutalg.kernels.gemm import Sm90Config, gemm_problem
from layoutalg.kernels.gemm.choice import SM80, SM90
from layoutalg.kernels.gemm.launches import called_launches, launches
from layoutalg.kernels.gemm.problem import operand_view
from tests.kernels.gemm import cases
from tests.kernels.gemm.drawn import KINDS, SM90_OF, arch_of, drawn
from tests.sweeps import each, first

PREDICTED = [
    kind for kind in KINDS if kind.startswith(("simt", "sm80", "sm75", "gemv")) and "turn" not in kind
]
"""Kinds whose accesses are predicted."""


def disagreement(kind: str, seed: int) -> str:
    """What is wrong with a drawn product, by its own kernels or those that serve others; "" for nothing."""
    (p, c, _), rng = (found := drawn(kind, seed)), random.Random(seed)
    of: Any = rng.choice((launches, called_launches))
    ran = cases.launched(p, c, of, blocks=rng.randint(1, 12), arch=arch_of(kind))
    given = cases.arguments(p, seed, rng.choice(("integers", "normal", "not numbers"))) | found.words
    group = rng.choice(("warp", "block"))
    seen = cases.wrong(p, ran, given, group=group, seed=seed, traffic=kind in PREDICTED and of is launches)
    return seen and f"{kind} {seed}: {p} with {c} by {of.__name__}: {seen}"


@pytest.mark.deep(only=("simt-0", "sm80 f64-1", "group bytes-1"))
@pytest.mark.parametrize("seed", first(2, range(60)))
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.startswith(("sm90 tiles", "group tiles"))]
)
def test_what_is_drawn_is_the_definition(kind: str, seed: int) -> None:
    assert not disagreement(kind, seed)


@pytest.mark.deep(but=("0-sm90 tiles", "32-sm90 tiles", "94-sm90 tiles", "40-group tiles"))
@pytest.mark.parametrize("kind", ["sm90 tiles", "group tiles"])
@pytest.mark.parametrize("number", range(len(SM90_OF)))
def test_every_tile_of_wgmma_is_the_definition(number: int, kind: str) -> None:
    assert not disagreement(kind, number)


@pytest.mark.deep
@each("kind", [kind for kind in PREDICTED if kind != "gemv"])
@each("seed", range(4))
def test_the_text_on_the_host_is_the_definition(kind: str, seed: int) -> None:
    p, c, _ = drawn(kind, seed)
    one, args = cases.launched(p, c, arch=arch_of(kind)), cases.arguments(p)
    if len(one.kernels) > 1 or p.batch or any(f.name in ("gelu", "silu") for f in p.epilogue.functions):
        return  # sums of parts have no buffer here
    kept = args | dict(one.scalars)
    value, allowed = definition(p, args)
    found = operand_view(p, "d", cases.host_run(one.kernels[0], kept), (p.m, p.n), (p.ldd, 1))
    assert np.all(np.abs(cases.unpacked(np.ascontiguousarray(found), p.result.name) - value) <= allowed)


@each("kind", ["simt", "sm80", "sm90"])
def test_lowering_changes_nothing(kind: str) -> None:
    p, c, _ = drawn(kind, 4)
    assert not cases.wrong(p, launches(p, c), cases.arguments(p, seed=1))


@each(("a_major", "b_major"), [("k", "k"), ("mn", "k"), ("k", "mn")])
def test_tf32_is_rounded_on_its_way_by_tma_and_cut_by_mma(a_major: Any, b_major: Any) -> None:
    """An element alone in its product, of all 32 bits: ties, subnormal numbers, the largest, NaN."""
    p = gemm_problem(48, 8, 8, "tf32", a_major=a_major, b_major=b_major)
    heads = np.array([0x3F800000, 0x3F802000, 0xBF802000, 0x7F7FE000, 0x00004000, 0x7F800000], "u4")
    bits = (heads[:, None] | np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x801, 0x1801], "u4")).ravel()
    left, right = np.zeros((48, 8), "u4"), np.zeros((8, 8), "f4")
    left[:, 3], right[3] = bits, 1
    a = (left if a_major == "k" else left.T).ravel()
    b = (right.T if b_major == "k" else right).ravel().view("u4")
    given: dict[str, Any] = {"a": a, "b": b, "alpha": 0x3F800000} | {
        x: getattr(p, x) for x in ("m", "n", "k", "lda", "ldb", "ldd")
    }
    for c, kept in (
        (SM90.fitted(p, Sm90Config(64, 16, 2, 1)), encode(decode(bits[None], "f32"), "tf32")[0]),
        (SM80.configs(p)[0], bits & 0xFFFFE000),
    ):
        mine = given | {"d": np.zeros((48, 8), "u4")}
        simulate_sequence(cases.launched(p, c), mine, trace=False)
        assert np.array_equal(mine["d"][:, 5].view("f4"), kept.view("f4") + 0, equal_nan=True), c


@pytest.mark.deep
@each("kind", ["gemv", "sm80", "sm90 crossed"])
@each("seed", range(2))
def test_equal_calls_give_equal_bits(kind: str, seed: int) -> None:
    """Whatever the order of warps and blocks: of numbers whose sums depend on the order of additions."""
    p, c, _ = drawn(kind, seed)
    ran, found = cases.launched(p, c, blocks=5), set()
    for order in range(3):
        given = cases.arguments(p, 7, "normal")
        simulate_sequence(ran, given, group="warp", seed=order, trace=False)
        found.add(given["d"].tobytes())
    assert len(found) == 1
