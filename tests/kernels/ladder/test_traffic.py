"""What products' programs access, as the simulator traces it and as the ladder's author observed it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen.costs import Cost, Prediction, sequence_traffic, traffic_by_access
from layoutalg.errors import ShapeError
from layoutalg.kernels.gemm import GemmProblem, SimtConfig, gemm_problem, scalar_words
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.ladder.step import multiplies
from layoutalg.kernels.ladder.steps import SIMT_LADDER, SM80_LADDER
from tests.sweeps import each

SOURCES = Path(__file__).parents[2] / "data" / "sources" / "expected.json"
WIDE = SimtConfig(64, 64, 8, 8, 4, 4)


def costs(p: GemmProblem, c: Any) -> tuple[Prediction, ...]:
    """The traffic of all launches, with factors that are not 0."""
    return sequence_traffic(launches(p, c), _factors(p))


def _factors(p: GemmProblem) -> dict[str, int]:
    return {**scalar_words(p, "alpha", 1.0), **scalar_words(p, "beta", 1.0)}


def by_buffer(p: GemmProblem, c: Any) -> dict[tuple[str, str], Cost]:
    """The costs of every access, by the operand that it is of and the instruction."""
    one, found = launches(p, c), dict[tuple[str, str], Cost]()
    for x in traffic_by_access(one.kernels[0], {**dict(one.scalars), **_factors(p)}):
        key = x.buffer.removeprefix("tile_"), x.op
        found[key] = found.get(key, Cost(0, 0, 0)) + x.cost
    return found


def test_costs_are_proportional_to_blocks_and_tiles() -> None:
    c = SIMT_LADDER["v8"]
    one, many = (
        gemm_problem(128 * i, 128 * j, 8 * k, "f32", b_major="mn") for i, j, k in ((1, 1, 1), (2, 3, 5))
    )
    for access, cost in by_buffer(one, c).items():
        times = 6 if access[1].startswith("st.global") else 30
        assert by_buffer(many, c)[access] == cost * times


OBSERVED: dict[str, dict[tuple[str, str], float]] = {
    # runs of four and padding: nothing collides
    "warp tiles": {("b", "ld.shared.b128"): 1, ("a", "ld.shared.b128"): 1, ("a", "st.shared.b32"): 1,
                   ("d", "st.global.b128"): 1},
    "wide": {("b", "ld.shared.b128"): 1, ("a", "ld.shared.b128"): 1, ("a", "cp.async.4"): 1},
}  # fmt: skip


@each("name", OBSERVED)
def test_the_last_steps_of_the_ladder_collide_nowhere(name: str) -> None:
    """Cost over ideal of accesses: 1 is conflict-free or coalesced.  The published steps are below."""
    p = gemm_problem(128, 256 if name == "wide" else 128, 32, "f32", b_major="mn")
    ways: dict[Any, float] = {
        at: cost.total / cost.ideal for at, cost in by_buffer(p, SIMT_LADDER[name]).items()
    }
    assert {access: ways[access] for access in OBSERVED[name]} == OBSERVED[name]


THEIRS = {"A": "b", "B": "a", "sA": "b", "sB": "a", "C": "c"}
"""The published kernels are column-major: their C = A B is our D = A B with the operands exchanged."""


@each("version", range(1, 9))
def test_each_version_accesses_what_the_published_kernel_does(version: int) -> None:
    """Instructions, wavefronts and sectors of every operand, against those counted of the kernel's source."""
    counted = json.loads(SOURCES.read_text(encoding="utf-8"))[f"sgemm_v{version}.cu"]
    config, theirs = SIMT_LADDER[f"v{version}"], dict[tuple[str, str], Cost]()
    for x in counted["accesses"]:
        operand = "d" if x["op"].startswith("st.global") else THEIRS[x["array"]]
        cost = Cost(x["instructions"], x["total"], x["ideal_total"])
        theirs[operand, x["op"]] = theirs.get((operand, x["op"]), Cost(0, 0, 0)) + cost
    p = gemm_problem(256, 256, 64, "f32", b_major="mn", reads_c=True)
    blocks = (256 // config.tile_m) * (256 // config.tile_n)  # of which the source's count is one
    ours = {at: cost for at, cost in by_buffer(p, config).items() if cost.instructions}
    assert ours == {at: cost * blocks for at, cost in theirs.items()}


def test_what_each_step_of_the_ladder_does_to_shared_memory() -> None:
    """8-way conflicts of ldmatrix until the swizzle; 16-byte copies in an eighth of the instructions."""
    p = gemm_problem(256, 256, 128)
    one, two, three = (costs(p, c)[0] for c in list(SM80_LADDER.values())[:3])
    assert one["ldmatrix.x4"].total == two["ldmatrix.x4"].total == 8 * three["ldmatrix.x4"].total
    assert three["ldmatrix.x4"].total == three["ldmatrix.x4"].ideal
    assert one["ld.global.b16"].instructions == 8 * two["ld.global.b128"].instructions


def test_multiplications_of_ragged_tiles_are_refused() -> None:
    with pytest.raises(ShapeError, match="m = 100 is not a multiple of 64"):
        multiplies(gemm_problem(100, 64, 64, "f32"), WIDE)
