"""Random products in the simulator: any sizes, storages and configurations of both families, exactly."""

from __future__ import annotations

import random
from dataclasses import replace
from math import gcd
from typing import Any, Literal

import pytest

from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm.launches import covering, launches, sequence_of
from layoutalg.kernels.gemm.problem import GemmProblem, Major, gemm_problem
from layoutalg.kernels.gemm.tiles import Order, SimtConfig, Sm80Config
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.ladder.steps import SimtStep, Sm80Step
from tests.kernels.gemm.cases import arguments, expected, simulated
from tests.sweeps import first

MAJORS: tuple[Major, Major] = ("k", "mn")
VIA: tuple[Literal["cp.async"], Literal["registers"]] = ("cp.async", "registers")
ORDERS: tuple[Order, ...] = ("mn", "mn", "matrix", "turned")
GROUPS: tuple[Literal["block"], Literal["warp"]] = ("block", "warp")
FRAGMENTS: tuple[Literal[1], Literal[2]] = (1, 2)


def random_problem(rng: random.Random, dtypes: tuple[str, ...]) -> GemmProblem:
    """Up to 130 of everything, multiples of 1 to 8, gaps between some rows."""
    dtype, step = rng.choice(dtypes), rng.choice((1, 1, 2, 4, 8))
    a, b = (MAJORS[0] if dtype in ("s8", "tf32") else rng.choice(MAJORS) for _ in "ab")
    m, n, k = (max(step, rng.randint(1, 130) // step * step) for _ in range(3))
    p = gemm_problem(
        m, n, k, dtype, a_major=a, b_major=b, reads_c=rng.random() < 0.3, bias=rng.random() < 0.2,
        activation=rng.choice(("none", "relu")),
    )  # fmt: skip
    wider = {x: getattr(p, x) + rng.choice((0, 0, step, 8)) for x in ("lda", "ldb", "ldc", "ldd")}
    return replace(p, **wider)


def vectors(p: GemmProblem) -> tuple[int, int, int]:
    """What the rows of A, B and D (and C) allow, in elements."""
    size = p.operand.nbytes
    return (
        gcd(16 // size, p.lda, p.k if p.a_major == "k" else p.m),
        gcd(16 // size, p.ldb, p.k if p.b_major == "k" else p.n),
        gcd(16 // p.result.nbytes, p.ldd, p.n, p.ldc if p.reads_c else 0),
    )


def random_sm80(rng: random.Random, p: GemmProblem) -> Sm80Config:
    """Vectors as wide as they can be, anything else at random."""
    size = p.operand.nbytes
    a, b, across = vectors(p)
    a, b = a * size, b * size
    via = rng.choice(VIA) if min(a, b) >= 4 else "registers"
    return Sm80Step(
        rng.choice((32, 64)), rng.choice((32, 64)), rng.choice((16, 32, 64)) * 2 // size, 2,
        rng.choice((1, 2)), rng.choice((2, 3, 4)) if via == "cp.async" else rng.choice((1, 2)),
        panel=rng.choice((1, 2, 8)), via=via, ahead=rng.random() < 0.7, fragments=rng.choice(FRAGMENTS),
        a_bytes=a, b_bytes=b, edges=True, result_vec=across,
        static_ld=rng.random() < 0.5, splits=rng.choice((1, 1, 2, 3, 7)),
    )  # fmt: skip


def random_simt(rng: random.Random, p: GemmProblem) -> SimtConfig:
    """The same without tensor cores."""
    a, b, across = vectors(p)
    lanes_m, m, n = rng.choice((2, 4, 8)), rng.choice((2, 4, 8)), rng.choice((2, 4, 8))
    return SimtStep(
        lanes_m * m * rng.choice((1, 2, 3)), 32 // lanes_m * n * rng.choice((1, 2)), rng.choice((4, 8, 16)),
        m, n, lanes_m, weave=rng.choice((1, 2, 4)), run_m=rng.choice((1, 2, 4)), run_n=rng.choice((1, 2, 4)),
        via=rng.choice(("global", *VIA, "cp.async")), turn=rng.choice(VIA), stages=rng.choice((1, 2, 3, 4)),
        ahead=rng.random() < 0.5, fragments=rng.choice((1, 2)), order=rng.choice(ORDERS), a_vector=a,
        b_vector=b, fragment=rng.choice((1, 2, 4)), pad=rng.choice((0, 1, 2, 4)), edges=True,
        panel=rng.choice((1, 2, 8)), result_vec=across, static_ld=rng.random() < 0.3,
        splits=rng.choice((1, 1, 2, 3)),
    )  # fmt: skip


FAMILIES: dict[str, tuple[tuple[str, ...], Any]] = {
    "sm80": (("f16", "f16", "bf16", "s8", "tf32"), random_sm80), "simt": (("f32", "f64"), random_simt)
}  # fmt: skip


@pytest.mark.deep(only=("simt-1", "simt-2", "simt-3"))
@pytest.mark.parametrize("seed", first(4, range(12)))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_product_is_exact(family: str, seed: int) -> None:
    """As kernels for this problem, or for others too; in warps of any order, or block by block."""
    dtypes, random_config = FAMILIES[family]
    rng = random.Random(seed)
    while True:
        p = random_problem(rng, dtypes)
        c = random_config(rng, p)
        try:
            check_config(p, c)
        except LayoutAlgError:
            continue
        break
    built_for = covering(p, c) if rng.random() < 0.5 else p
    one = launches(built_for, replace(c, splits=min(2, c.splits)))
    args, group = arguments(p, seed), GROUPS[seed % 2]
    d, _ = simulated(sequence_of(p, c, one.kernels), args, group=group, seed=seed)
    assert d.tobytes() == expected(p, args).tobytes(), (p, c)
