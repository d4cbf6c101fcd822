"""Products of few rows: simulated, refused, compiled; equal calls give equal bits."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen import compile as compile_program
from layoutalg.codegen.program import printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm import BatchMode, GemmProblem, expected_family, gemm_problem
from layoutalg.kernels.gemm.family import operands
from layoutalg.kernels.gemm.gemv import GEMV, MOST_ROWS, GemvConfig, build, vector
from layoutalg.kernels.gemm.launches import called_launches, launches
from layoutalg.kernels.verification import compare, copied
from tests.kernels.gemm.test_sm90_batch import placed, right
from tests.sweeps import each

CASES: dict[str, tuple[GemmProblem, GemvConfig]] = {
    "vectors, several rounds and a tail": (gemm_problem(1, 21, 1100, "bf16"), GemvConfig(1, 2, 32, 4, 2)),
    "a block per column": (gemm_problem(1, 3, 2100, "f16"), GemvConfig(1, 1, 256, 4, 1)),
    "four columns of a warp": (gemm_problem(1, 37, 300, "f32"), GemvConfig(1, 4, 32, 4, 1)),
    "single elements": (gemm_problem(2, 9, 131, "bf16", bias=True), GemvConfig(2, 2, 64, 1, 1)),
    "k that vectors cut": (gemm_problem(1, 9, 133, "f16", lda=136, ldb=136), GemvConfig(1, 2, 32, 8, 2)),
    "eight rows, C": (
        gemm_problem(8, 20, 72, "bf16", reads_c=True, activation="relu"), GemvConfig(8, 2, 32, 8, 1)
    ),
    "along n": (gemm_problem(1, 72, 330, "f16", b_major="mn"), GemvConfig(1, 1, 4, 8, 2, 256)),
    "along n, long": (gemm_problem(1, 40, 1100, "f32", b_major="mn"), GemvConfig(1, 1, 16, 4, 2, 256)),
    "along n, rows": (
        gemm_problem(5, 21, 90, "bf16", b_major="mn", bias="m"), GemvConfig(5, 1, 8, 1, 3, 256)
    ),
    "along n, 32 lanes": (gemm_problem(1, 200, 40, "f32", b_major="mn"), GemvConfig(1, 1, 32, 2, 2, 256)),
    "a batch": (
        gemm_problem(1, 9, 72, "bf16", batch=[BatchMode(3, a=72, b=72 * 9, d=9)]), GemvConfig(1, 1, 32, 8, 2)
    ),
    "a batch that shares A": (
        gemm_problem(
            2, 24, 40, "f16", b_major="mn", batch=[BatchMode(3, b=960, d=48), BatchMode(2, a=80, d=144)]
        ),
        GemvConfig(2, 1, 4, 4, 2, 256),
    ),
    "f32 of f16": (gemm_problem(1, 9, 72, "f16", result="f32"), GemvConfig(1, 1, 32, 8, 2)),
}  # fmt: skip


@each("name", CASES, sample=3)
def test_what_is_simulated_is_the_definition(name: str) -> None:
    p, c = CASES[name]
    assert right(p, c) and right(p, c, of=called_launches)


def drawn(rng: random.Random) -> tuple[GemmProblem, GemvConfig]:
    """A product of few rows, and one of its configurations."""
    m, n, k = rng.randint(1, MOST_ROWS), rng.randint(1, 40), rng.randint(1, 300)
    batch = [rng.randint(2, 3) for _ in range(rng.choice([0, 0, 1, 2]))]
    b_major: Any = rng.choice(["k", "mn"])
    shape = (n, k) if b_major == "k" else (k, n)
    unit = rng.choice([1, 2, 8])
    (lda, *a), (ldb, *b) = (placed(rng, *x, batch, unit, shared=True) for x in ((m, k), shape))
    (ldc, *c), (ldd, *d) = (placed(rng, m, n, batch, 1, shared=shared) for shared in (True, False))
    p = gemm_problem(
        m, n, k, rng.choice(["f16", "bf16", "f32"]), b_major=b_major, lda=lda, ldb=ldb, ldc=ldc, ldd=ldd,
        batch=[BatchMode(*x) for x in zip(batch, a, b, c, d, strict=True)], reads_c=rng.random() < 0.3,
        activation=rng.choice(["none", "gelu"]), align_bytes=(rng.choice([4, 16]), rng.choice([4, 16]), 16),
    )  # fmt: skip
    found, _ = GEMV.tried(p)
    return p, rng.choice(found)


@each("seed", range(158), sample=2)
def test_random_products_are_the_definition(seed: int) -> None:
    p, c = drawn(random.Random(20261123 + seed))
    assert right(p, c, seed=seed), (p, c)


@pytest.mark.deep
def test_equal_calls_give_equal_bits() -> None:
    """Whatever the order in which warps run."""
    p, c = CASES["vectors, several rounds and a tail"]
    found = set()
    for seed in range(3):
        given = operands(p)
        sequence = printed_sequence(launches(p, c))
        simulate_sequence(sequence, given, group="warp", seed=seed, trace=False)
        found.add(given["d"].tobytes())
    assert len(found) == 1


REFUSED: dict[str, tuple[GemmProblem, GemvConfig]] = {
    "rows of gemv": (gemm_problem(9, 8, 8), GemvConfig(8, 1, 32, 8, 2)),
    "take gemm-sm80": (gemm_problem(1, 8, 8, "s8"), GemvConfig(1, 1, 32, 8, 2)),
    "take gemm-simt": (gemm_problem(1, 8, 8, "f64"), GemvConfig(1, 1, 32, 2, 2)),
    "take 2": (gemm_problem(2, 8, 8), GemvConfig(1, 1, 32, 8, 2)),
    "store it along k": (gemm_problem(2, 8, 8, a_major="mn"), GemvConfig(2, 1, 32, 8, 2)),
    "32, 64, 128 and 256 are accepted": (gemm_problem(1, 8, 8), GemvConfig(1, 1, 8, 8, 2)),
    "4, 8, 16 and 32 are accepted": (gemm_problem(1, 8, 8, b_major="mn"), GemvConfig(1, 1, 64, 8, 2)),
    "take 1": (gemm_problem(1, 8, 8, b_major="mn"), GemvConfig(1, 2, 8, 8, 2)),
    "multiples of 1 elements": (gemm_problem(1, 8, 9), GemvConfig(1, 1, 32, 8, 2)),
    "256, 512 and 1024": (gemm_problem(1, 8, 8), GemvConfig(1, 1, 32, 8, 2, 64)),
}  # fmt: skip


@each("why", REFUSED)
def test_what_breaks_a_rule_is_refused(why: str) -> None:
    with pytest.raises(LayoutAlgError, match=why):
        build(*REFUSED[why])


def test_a_kernel_serves_all_products_of_its_rows() -> None:
    problems = [gemm_problem(1, n, k, "bf16") for n, k in ((4096, 4096), (999, 8000))]
    one, other = (called_launches(p, GemvConfig(1, 2, 64, 8, 4)) for p in problems)
    assert one.kernels == other.kernels
    compiled = compile_program(one.kernels[0])
    assert compiled.spill_bytes == 0 and compiled.registers <= 64  # 32 warps on a multiprocessor


def test_few_rows_are_computed_at_the_speed_of_memory() -> None:
    """Of a B that no cache holds, the model expects 0.75 of the board's bandwidth or more."""
    orders: Any = ("k", "mn")
    for dtype, major, m in product(("bf16", "f16", "f32"), orders, (1, 4)):
        p = gemm_problem(m, 8192, 8192, dtype, b_major=major)
        ns, family, _ = expected_family(p)
        assert family == "gemv" and ns < 8192 * 8192 * p.operand.nbytes / 4.8 / 0.75
    assert expected_family(gemm_problem(64, 8192, 8192))[1] == "gemm-sm90"
    assert vector(gemm_problem(1, 8, 9)) == 1


def test_the_family_is_verified_as_the_others_are() -> None:
    from layoutalg.kernels import verify

    family = FAMILIES["gemv"]
    verify(family, family.problem(1, 21, 200, "bf16", bias=True)).require()


def test_numbers_past_the_end_of_k_are_not_multiplied() -> None:
    """Rows that are longer than k: what lies behind is NaN."""
    p, c = CASES["k that vectors cut"]
    given = operands(p)
    rows = given["b"][: 8 * 136].reshape(8, 136)
    rows[:, 133:] = 0x7FFF
    simulate_sequence(printed_sequence(launches(p, c)), given, trace=False)
    assert np.isfinite(given["d"].view("f2")).all()


@pytest.mark.deep
def test_a_row_that_is_stored_along_m_is_called_with_too() -> None:
    """One row is stored along k and along m at once where its step is 1."""
    p = gemm_problem(1, 158, 7, "bf16", a_major="mn", b_major="mn")
    family = FAMILIES["gemv"]
    config = family.choose(p)
    given = operands(p)
    simulate_sequence(called_launches(p, config), mine := copied(given))
    assert compare("result", given, family.expected(p, config, given), mine).passed
