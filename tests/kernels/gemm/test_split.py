"""Split-K: the parts and their sum, against the definition, and what adding them up costs."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.codegen.costs import Cost, traffic
from layoutalg.codegen.program import SCRATCH, lower
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.gemm.launches import covering, launches, sequence_of
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.tiles import Config, Sm80Config
from layoutalg.kernels.gemm.work.splitk import build_combine, combine_vector
from layoutalg.kernels.ladder.steps import SimtStep, Sm80Step
from tests.gemm_cases import arguments, expected
from tests.sweeps import each

CASES: dict[str, tuple[GemmProblem, Config]] = {
    "whole tiles": (gemm_problem(64, 64, 256), Sm80Step(64, 64, 32, 2, 2, 3, splits=4)),
    "parts of unequal length": (gemm_problem(64, 64, 256), Sm80Step(64, 64, 32, 2, 2, 3, splits=3)),
    "edges, C, bias, relu": (
        gemm_problem(56, 72, 200, reads_c=True, bias=True, activation="relu", ldd=80, ldc=76),
        Sm80Step(64, 64, 32, 2, 2, 3, edges=True, splits=3),
    ),
    "more parts than tiles": (
        gemm_problem(64, 64, 64),
        Sm80Step(64, 64, 32, 2, 2, 2, edges=True, splits=5),
    ),
    "integers": (gemm_problem(64, 64, 256, "s8"), Sm80Step(64, 64, 64, 2, 2, 2, splits=2, result_vec=4)),
    "rows of one": (
        gemm_problem(64, 65, 64),
        Sm80Step(64, 64, 32, 2, 2, 3, edges=True, splits=2, result_vec=1),
    ),
    "one stage through registers": (
        gemm_problem(64, 64, 128),
        Sm80Step(64, 64, 32, 2, 2, 1, 1, "registers", splits=3),
    ),
    "f32": (gemm_problem(64, 64, 96, "f32"), SimtStep(64, 64, 16, 8, 4, 4, edges=True, splits=3)),
    "f32, edges, C, bias, relu": (
        gemm_problem(60, 68, 101, "f32", b_major="mn", reads_c=True, bias=True, activation="relu", ldd=80),
        SimtStep(64, 64, 16, 8, 4, 4, edges=True, a_vector=1, splits=3),
    ),
    "f32, more parts than tiles": (
        gemm_problem(60, 68, 30, "f32"),
        SimtStep(64, 64, 16, 8, 4, 4, edges=True, a_vector=2, b_vector=2, splits=5),
    ),
    "f32 through registers": (
        gemm_problem(60, 68, 100, "f32"),
        SimtStep(64, 64, 16, 8, 4, 4, via="registers", turn="registers", stages=2, edges=True, splits=4),
    ),
    "f32, one stage": (
        gemm_problem(60, 68, 100, "f32"),
        SimtStep(64, 64, 16, 8, 4, 4, via="registers", turn="registers", stages=1, edges=True, splits=2),
    ),
    "f32, one stage, copied ahead": (
        gemm_problem(60, 68, 100, "f32"),
        SimtStep(
            64, 64, 16, 8, 4, 4, via="registers", turn="registers", stages=1, ahead=True, edges=True, splits=5
        ),
    ),
    "f64": (
        gemm_problem(60, 36, 101, "f64", a_major="mn", b_major="mn", reads_c=True, bias=True, ldc=38),
        SimtStep(
            64, 32, 16, 8, 2, 4, edges=True, splits=4, a_vector=2, b_vector=2, fragment=2, run_m=2, run_n=2,
            result_vec=2, pad=2,
        ),
    ),
}  # fmt: skip


@each(("name", "wide"), [*((name, True) for name in CASES), ("whole tiles", False), ("f32", False)], sample=1)
def test_the_parts_add_up_to_the_definition(name: str, wide: bool) -> None:
    """Also with the kernels of a larger problem, which serve this one; the workspace starts poisoned."""
    p, c = CASES[name]
    args = arguments(p)
    want = expected(p, args)
    kernels = launches(covering(p, c) if wide else p, c).kernels
    one = sequence_of(p, c, kernels)
    sums = np.full(one.scratch_bytes, 255, "u1")
    for kernel, mine in zip(kernels, one.arguments({**args, SCRATCH: sums}), strict=True):
        check(kernel)
        simulate(lower(kernel), mine, group="warp")
    np.testing.assert_array_equal(args["d"], want)


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="f16 sums"):
        launches(gemm_problem(64, 64, 64, accumulator="f16"), Sm80Step(64, 64, 32, 2, 2, 3, splits=2))
    with pytest.raises(ShapeError, match="splits = 65: 1 to 64"):
        launches(gemm_problem(64, 64, 64), Sm80Step(64, 64, 32, 2, 2, 3, splits=65))
    direct = SimtStep(32, 32, 32, 1, 1, 1, 1, 1, "global", "global", 1, weave=32, fragments=1, splits=2)
    with pytest.raises(UnsupportedError, match="parts of k without tiles"):
        launches(gemm_problem(64, 64, 64, "f32"), direct)


@pytest.mark.parametrize(
    "p",
    [
        gemm_problem(64, 64, 32, ldd=80),
        gemm_problem(32, 64, 32, "f32", reads_c=True, ldc=72, bias=True),
        gemm_problem(32, 64, 32, "f64", reads_c=True),
        gemm_problem(128, 16, 32, "bf16", bias=True, activation="relu"),
        gemm_problem(61, 65, 32, bias=True),
    ],
    ids=str,
)
def test_the_cost_of_adding_up_is_what_the_simulator_counts(p: GemmProblem) -> None:
    kernel, splits = lower(build_combine(p)), 3
    one = sequence_of(p, Sm80Config(64, 64, 32, 2, 2, 3, splits=splits), (kernel,))
    args = arguments(p)
    sums = np.zeros(one.scratch_bytes, "u1")
    (mine,) = one.arguments({**args, SCRATCH: sums})
    trace = simulate(kernel, mine).trace
    scalars = {name: x for name, x in mine.items() if isinstance(x, int)}
    ops = {site.op for site in trace.sites if trace.total(site.op)[0]}
    assert {op: Cost(*trace.total(op)) for op in ops} == traffic(kernel, scalars)


def test_ragged_sums_are_added_one_by_one() -> None:
    assert combine_vector(gemm_problem(64, 65, 32)) == 1
