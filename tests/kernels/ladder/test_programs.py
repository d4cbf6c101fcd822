"""The published kernels: definition == simulator; multiplications and accesses are what is predicted."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.codegen.program import printed
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import AlignmentError, ShapeError, UnsupportedError
from layoutalg.kernels.gemm import BatchMode, gemm_problem
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.ladder.hgemm import Hgemm
from layoutalg.kernels.ladder.sgemm import Sgemm
from layoutalg.kernels.ladder.step import multiplies
from layoutalg.kernels.ladder.steps import LADDERS, SM75_LADDER
from tests.kernels.gemm import cases
from tests.sweeps import each

OPTIONS: dict[str, dict[str, Any]] = {
    "gemm-simt": {"dtype": "f32", "b_major": "mn"},
    "gemm-sm75": {"accumulator": "f16", "b_major": "mn", "reads_c": True}, "gemm-sm80": {},
}  # fmt: skip
STEPS = {f"{family} {name}": (family, c) for family in OPTIONS for name, c in LADDERS[family].items()}


@pytest.mark.deep(but=("gemm-simt v1", "gemm-simt v5", "gemm-simt v8", "gemm-simt warp tiles"))
@pytest.mark.parametrize("name", STEPS)
def test_every_step_of_a_ladder_is_the_definition(name: str) -> None:
    """And multiplies as often as its tiles say."""
    family, c = STEPS[name]
    p = gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k, **OPTIONS[family])
    ran = cases.launched(p, c, arch="sm_75" if family == "gemm-sm75" else "sm_90")
    assert not cases.wrong(p, ran, cases.arguments(p), group="block", traffic=True)
    (run,) = simulate_sequence(ran, cases.arguments(p), trace=False)
    made = sum(sum(n) for op, n in run.executed.items() if op.startswith(("fma", "mma")))
    each_makes = c.thread_m * c.thread_n if family == "gemm-simt" else 1
    assert each_makes * made == multiplies(p, c)


@pytest.mark.deep
@each("c", [Sgemm(64, 64, 16, 4, 4, vector=4, fragment=4), Hgemm(vector=8, swizzled=True)], ids=str)
@each(("a", "b"), [("k", "k"), ("mn", "mn")])
def test_operands_may_be_stored_either_way_and_an_epilogue_follows(c: Any, a: Any, b: Any) -> None:
    more: dict[str, Any] = {"dtype": "f32"} if isinstance(c, Sgemm) else {"bias": "m", "accumulator": "f32"}
    p = gemm_problem(
        c.tile_m, c.tile_n, c.tile_k, a_major=a, b_major=b, reads_c=True, activation="relu", **more
    )
    assert not cases.wrong(p, cases.launched(p, c), cases.arguments(p), group="block")


@each("step", SM75_LADDER, sample=4)
def test_the_first_four_steps_of_turing_are_printed_as_they_are_written_the_others_lowered(step: str) -> None:
    c = SM75_LADDER[step]
    p = gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k, accumulator="f16", b_major="mn")
    (kernel,) = launches(p, c, "sm_75").kernels
    assert (printed(kernel, "sm_75") == kernel) == (int(step[0]) < 5)


@each(
    ("c", "options", "error", "text"),
    [
        (Sgemm(), {"m": 100, "dtype": "f32"}, ShapeError, "m = 100 is not a multiple of 32"),
        (Sgemm(), {"dtype": "f64"}, UnsupportedError, "f32 is accepted"),
        (Sgemm(vector=4), {"lda": 65, "dtype": "f32"}, AlignmentError, "cuts vectors of 4"),
        (Hgemm(vector=8), {"batch": [BatchMode(2, d=1 << 16)]}, UnsupportedError, "one product"),
    ],
)  # fmt: skip
def test_what_is_not_published_is_refused(c: Any, options: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        c.build(gemm_problem(**{"m": 64, "n": 64, "k": 64, **options}))
