"""Predictions against the simulator's trace."""

from __future__ import annotations

import pytest

from layoutalg.codegen.costs import Cost
from layoutalg.codegen.program import lower
from layoutalg.codegen.sim import simulate
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.sm80 import build
from layoutalg.kernels.gemm.sm80_predict import mma_count, predict
from layoutalg.kernels.gemm.tiles import SM80_LADDER as LADDER
from layoutalg.kernels.gemm.tiles import Sm80Config, mma_of
from tests.gemm_cases import arguments, taken
from tests.sweeps import each

SMALL = Sm80Config(64, 64, 32, 2, 2, 3, panel=2)
CASES: dict[str, tuple[GemmProblem, Sm80Config]] = {
    "TN": (gemm_problem(128, 64, 96), SMALL),
    "NT with C and bias": (
        gemm_problem(64, 128, 64, a_major="mn", b_major="mn", reads_c=True, bias=True), SMALL
    ),
    "one fragment": (gemm_problem(64, 64, 64), Sm80Config(64, 64, 32, 2, 2, 2, fragments=1)),
    "two buffers": (gemm_problem(64, 64, 96), Sm80Config(64, 64, 32, 2, 2, 2, via="registers")),
    "tf32": (gemm_problem(64, 64, 64, "tf32"), Sm80Config(64, 64, 16, 2, 2, 2, result_vec=4)),
    "s8": (gemm_problem(64, 64, 128, "s8"), Sm80Config(64, 64, 64, 2, 2, 2, result_vec=4)),
    **{name: (gemm_problem(256, 128, 64), c) for name, c in list(LADDER.items())[:3]},
}  # fmt: skip


@each("name", CASES)
def test_prediction_is_trace(name: str) -> None:
    p, c = CASES[name]
    kernel = lower(build(p, c))
    run = simulate(kernel, taken(kernel, arguments(p)))
    traced = {site.op: Cost(*run.trace.total(site.op)) for site in run.trace.sites}
    assert traced == dict(predict(p, c))
    assert sum(run.executed[mma_of(p, c).name]) == mma_count(p, c)


def test_what_each_step_of_the_ladder_does_to_shared_memory() -> None:
    """8-way conflicts of ldmatrix until the swizzle; 16-byte copies in an eighth of the instructions."""
    p = gemm_problem(256, 256, 128)
    first, second, third = (predict(p, LADDER[name]) for name in list(LADDER)[:3])
    assert first["ldmatrix.x4"].total == second["ldmatrix.x4"].total == 8 * third["ldmatrix.x4"].total
    assert third["ldmatrix.x4"].total == third["ldmatrix.x4"].ideal
    assert first["ld.global.b16"].instructions == 8 * second["ld.global.b128"].instructions


def test_edges_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="whole tiles"):
        predict(gemm_problem(100, 64, 64), SMALL)
    with pytest.raises(UnsupportedError, match="ldd = 72"):
        predict(gemm_problem(64, 64, 64, ldd=72), SMALL)
