"""Random tensor-core products in the simulator: any sizes, storages and configurations, exactly."""

from __future__ import annotations

import random
from dataclasses import replace
from math import gcd
from typing import Literal

import numpy as np
import pytest

from layoutalg.codegen.lower import lower
from layoutalg.codegen.simulate import simulate
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import GemmProblem, Major, gemm_problem
from layoutalg.kernels.gemm_launches import Launches, covering, launches
from layoutalg.kernels.gemm_nearest import checked
from layoutalg.kernels.gemm_sm80_plan import Sm80Config
from tests.gemm_cases import arguments, expected

MAJORS: tuple[Major, Major] = ("k", "mn")
VIA: tuple[Literal["cp.async"], Literal["registers"]] = ("cp.async", "registers")
FRAGMENTS: tuple[Literal[1], Literal[2]] = (1, 2)


def random_problem(rng: random.Random) -> GemmProblem:
    """Up to 150 of everything, multiples of 1 to 8, gaps between some rows."""
    dtype, step = rng.choice(("f16", "f16", "bf16", "s8", "tf32")), rng.choice((1, 1, 2, 4, 8))
    a, b = (MAJORS[0] if dtype in ("s8", "tf32") else rng.choice(MAJORS) for _ in "ab")
    m, n, k = (max(step, rng.randint(1, 150) // step * step) for _ in range(3))
    p = gemm_problem(
        m, n, k, dtype, a_major=a, b_major=b, reads_c=rng.random() < 0.3, bias=rng.random() < 0.2,
        activation=rng.choice(("none", "relu")),
    )  # fmt: skip
    wider = {x: getattr(p, x) + rng.choice((0, 0, step, 8)) for x in ("lda", "ldb", "ldc", "ldd")}
    return replace(p, **wider)


def random_config(rng: random.Random, p: GemmProblem) -> Sm80Config:
    """Vectors as wide as they can be, anything else at random."""
    size = p.operand.nbytes
    a = gcd(16, gcd(p.lda, p.k if p.a_major == "k" else p.m) * size)
    b = gcd(16, gcd(p.ldb, p.k if p.b_major == "k" else p.n) * size)
    via = rng.choice(VIA) if min(a, b) >= 4 else "registers"
    across = gcd(p.ldd, p.n, p.ldc if p.reads_c else 0)
    return Sm80Config(
        rng.choice((32, 64)), rng.choice((32, 64)), rng.choice((16, 32, 64)) * 2 // size, 2,
        rng.choice((1, 2)), rng.choice((2, 3, 4)) if via == "cp.async" else rng.choice((1, 2)),
        panel=rng.choice((1, 2, 8)), via=via, ahead=rng.random() < 0.7, fragments=rng.choice(FRAGMENTS),
        a_bytes=a, b_bytes=b, edges=True, result_vec=gcd(across, 16 // p.result.nbytes),
        static_ld=rng.random() < 0.5, splits=rng.choice((1, 1, 2, 3, 7)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_a_random_product_is_exact(seed: int) -> None:
    """As kernels for this problem, or for others too; in warps of any order, or block by block."""
    rng = random.Random(seed)
    while True:
        p = random_problem(rng)
        c = random_config(rng, p)
        try:
            checked(p, c)
        except LayoutAlgError:
            continue
        break
    built_for = covering(p, c) if rng.random() < 0.5 else p
    kernels = launches(built_for, replace(c, splits=min(2, c.splits))).kernels
    one, args = Launches(p, c.splits, kernels), arguments(p, seed)
    d, sums = args["d"].copy(), np.full(c.splits * p.m * p.n, 0xFFFFFFFF, dtype=np.uint32)
    for kernel, mine in zip(one.kernels, one.arguments({**args, "d": d}, sums), strict=True):
        simulate(lower(kernel), mine, trace=False, group="warp" if seed % 2 else "block", seed=seed)
    assert d.tobytes() == expected(p, args).tobytes(), (p, c)
