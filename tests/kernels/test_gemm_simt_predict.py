"""Predictions of the SIMT GEMM against the simulator's trace, and what the ladder's author observed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen.costs import Cost
from layoutalg.errors import ShapeError
from layoutalg.kernels.gemm.problem import Major, gemm_problem
from layoutalg.kernels.gemm.simt_predict import accesses, multiplies, predict
from layoutalg.kernels.gemm.tiles import SIMT_LADDER as LADDER
from layoutalg.kernels.gemm.tiles import SimtConfig
from tests.simt import run
from tests.sweeps import each, first

WIDE = SimtConfig(64, 64, 8, 8, 4, 4)
DOUBLE = SimtConfig(
    32, 64, 8, 4, 4, 4, run_m=2, run_n=2, a_vector=2, b_vector=2, fragment=2, pad=2, result_vec=2
)
CASES: tuple[tuple[str, SimtConfig, str, Major, Major], ...] = (
    *((name, c, "f32", "k", "mn") for name, (_, c) in LADDER.items() if name != "v3"),
    ("both turned", WIDE, "f32", "k", "k"),
    ("none turned", WIDE, "f32", "mn", "mn"),
    ("a turned through registers", replace(WIDE, turn="registers", edges=True), "f32", "k", "mn"),
    ("doubles", DOUBLE, "f64", "k", "mn"),
    ("straight", replace(WIDE, via="global"), "f32", "mn", "k"),
)


@pytest.mark.parametrize(("name", "c", "dtype", "a", "b"), first(6, CASES))
def test_every_access_is_predicted(name: str, c: SimtConfig, dtype: str, a: Major, b: Major) -> None:
    p = gemm_problem(
        c.tile_m, c.tile_n, 2 * c.tile_k, dtype, a_major=a, b_major=b, reads_c=True, bias=True,
        ldd=c.tile_n + 8,
    )  # fmt: skip
    done = run(p, c)
    trace = done.run.trace
    seen = {site.op: Cost(*trace.total(site.op)) for site in trace.sites if trace.total(site.op)[0]}
    assert predict(p, c) == seen
    products = [n for op, counts in done.run.executed.items() if op.startswith("fma") for n in counts]
    assert sum(products) * c.thread_m * c.thread_n == multiplies(p, c)


def test_costs_are_proportional_to_blocks_and_tiles() -> None:
    c = LADDER["v8"][1]
    one, many = (
        gemm_problem(128 * i, 128 * j, 8 * k, "f32", b_major="mn") for i, j, k in ((1, 1, 1), (2, 3, 5))
    )
    for access, cost in accesses(one, c).items():
        times = 6 if access[1].startswith("st.global") else 30
        assert accesses(many, c)[access] == cost * times


def _ways(name: str) -> dict[tuple[str, str], float]:
    """Cost over ideal of every access of a step of the ladder: 1 is conflict-free or coalesced."""
    p = gemm_problem(128, 128, 32, "f32", b_major="mn")
    return {access: cost.total / cost.ideal for access, cost in accesses(p, LADDER[name][1]).items()}


OBSERVED: dict[str, dict[tuple[str, str], float]] = {
    # a thread an element: one operand is coalesced, the other one word for the whole warp
    "v1": {("b", "ld.global.b32"): 1, ("a", "ld.global.b32"): 1, ("d", "st.global.b32"): 1},
    # tiles stored across: the lanes of a warp, a row each, meet in one bank
    "v2": {("b", "ld.shared.b32"): 32, ("b", "st.shared.b32"): 32, ("a", "st.shared.b32"): 32,
           ("a", "ld.shared.b32"): 1, ("b", "ld.global.b32"): 1, ("a", "ld.global.b32"): 1},
    # tiles stored like the matrices: no conflict is left
    "v4": {("b", "ld.shared.b32"): 1, ("b", "st.shared.b32"): 1, ("a", "st.shared.b32"): 1,
           ("a", "ld.shared.b32"): 1},
    # four rows of A in a warp, 32 words apart, meet in one bank; scalar stores of D, four elements apart,
    # use a quarter of their sectors
    "v5": {("a", "ld.shared.b32"): 4, ("b", "ld.shared.b32"): 1, ("d", "st.global.b32"): 4},
    # vectors: D is coalesced, A's four-way conflict stays
    "v6": {("a", "ld.shared.b32"): 4, ("b", "ld.shared.b128"): 1, ("d", "st.global.b128"): 1},
    # vectors of both fragments; turning A without padding costs its scalar stores four ways
    "v7": {("a", "ld.shared.b128"): 1, ("b", "ld.shared.b128"): 1, ("a", "st.shared.b32"): 4},
    # eight neighbours a thread: vectors 32 bytes apart collide in pairs, D's half-used sectors double
    "v8": {("b", "ld.shared.b128"): 2, ("a", "ld.shared.b128"): 1, ("a", "st.shared.b32"): 2,
           ("d", "st.global.b128"): 2},
    # runs of four and padding: nothing collides
    "warp tiles": {("b", "ld.shared.b128"): 1, ("a", "ld.shared.b128"): 1, ("a", "st.shared.b32"): 1,
                   ("d", "st.global.b128"): 1},
    "wide": {("b", "ld.shared.b128"): 1, ("a", "ld.shared.b128"): 1, ("a", "cp.async.4"): 1},
}  # fmt: skip


@each("name", OBSERVED)
def test_what_the_author_of_the_ladder_observed(name: str) -> None:
    ways: dict[Any, float] = _ways(name) if name != "wide" else _wide()
    assert {access: ways[access] for access in OBSERVED[name]} == OBSERVED[name]


def _wide() -> dict[tuple[str, str], float]:
    p = gemm_problem(128, 256, 32, "f32", b_major="mn")
    return {access: cost.total / cost.ideal for access, cost in accesses(p, LADDER["wide"][1]).items()}


def test_weaving_the_lanes_saves_wavefronts() -> None:
    """Two quarters of a warp that read the same vectors are served at once; four rows apart they are not."""
    p = gemm_problem(128, 256, 64, "f32", b_major="mn")
    woven, plain = (predict(p, replace(LADDER["wide"][1], weave=weave))["ld.shared.b128"] for weave in (2, 8))
    assert woven.instructions == plain.instructions
    assert (woven.total / woven.instructions, plain.total / plain.instructions) == (2, 8 / 3)


def test_ragged_tiles_are_refused() -> None:
    with pytest.raises(ShapeError, match="m = 100 is no multiple of 64"):
        predict(gemm_problem(100, 64, 64, "f32"), WIDE)
    with pytest.raises(ShapeError, match="lda = 66 is no multiple of 8"):
        predict(gemm_problem(64, 64, 64, "f32", lda=66), WIDE)
