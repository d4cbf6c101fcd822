"""The steps of gemm-sm90's ladder: each multiplies, at ragged sizes too, and predictions by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.checks import bench_of
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.ladder import effects, predict_steps
from layoutalg.kernels.ladder.hopper import Hopper
from layoutalg.kernels.ladder.step import WgmmaStep, held
from layoutalg.kernels.ladder.steps import SM90_LADDER
from layoutalg.model import occupancy_of
from tests.kernels.gemm import cases
from tests.sweeps import each

FAMILY = find_family("gemm-sm90")
FIRST = [name for name, c in SM90_LADDER.items() if isinstance(c, Hopper)]


@pytest.mark.deep
@each("number", range(len(FIRST)))
def test_every_first_step_multiplies(number: int) -> None:
    """Tiles are made smaller, so that there are several, whole and ragged, and rings go around."""
    c = SM90_LADDER[FIRST[number]]
    small = replace(c, tile_m=64 * c.consumers, tile_n=48, stages=min(c.stages, 2))
    p = gemm_problem(64 * c.consumers + 9, 50, 200, "bf16", bias=number % 2 == 1, activation="relu")
    for group in ("block", "warp"):
        assert not cases.wrong(p, cases.launched(p, small), cases.arguments(p, data="normal"), group=group)


def test_operands_along_rows_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="stored along k"):
        FAMILY.build(gemm_problem(64, 64, 64, "bf16", a_major="mn"), SM90_LADDER[FIRST[0]])


@cache
def steps() -> dict[str, Any]:
    """The steps, with one machine code for all: it is the program that the numbers are read off."""
    p = FAMILY.problem(1024)
    cubin, _ = held(FAMILY.build(p, SM90_LADDER["2 TMA"]))

    def like(kernel: Any) -> Any:
        return cubin, occupancy_of(
            "sm_90", threads=kernel.threads, registers_per_thread=160, shared_bytes=kernel.shared_bytes
        )

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("layoutalg.kernels.ladder.step.held", like)
        return {step.name: step for step in predict_steps(FAMILY, 1024)}


@pytest.mark.deep
def test_every_step_compiles_without_spills() -> None:
    for step in predict_steps(FAMILY, 1024):
        assert step.cubin.spill_bytes == 0 and step.loop["tensor"] > 0
        assert step.occupancy.blocks_per_sm == steps()[step.name].occupancy.blocks_per_sm


@pytest.mark.deep
def test_cycles_by_hand() -> None:
    """128 x 256 x 64: 8 wgmma of 128 cycles, each reads 10,240 bytes, and 49,152 bytes come."""
    step = steps()["10 one tile for both"]
    found = step.cycles
    assert found["tensor"] == 8 * 128 and found["L1"] == 8 * 10240 / 128 + 49152 / 128
    assert found["L2"] == 49152 / 64 and found["results"] == 128 * 256 * 2 / 128 / 16
    assert step.least_cycles == 1024 + 32 and step.bound == "tensor"
    assert step.flops_per_cycle == 4096 * 1024 / 1056


@pytest.mark.deep
def test_effects_of_the_steps() -> None:
    found = steps()
    names = list(found)
    changed = {name: effects(found[names[i]], found[name]) for i, name in enumerate(names[1:])}
    assert changed["3 ring of 4"] == changed["4 roles"] == {}
    assert changed["7 clusters of 2"] == {"L2 in": pytest.approx(2 / 3)}
    assert changed["5 tile 128x256"]["wgmma"] == 0.5 and changed["5 tile 128x256"]["L2 in"] == 0.75
    assert found["8 ping-pong"].cycles["results"] == 0 < found["7 clusters of 2"].cycles["results"]


@pytest.mark.deep
def test_one_stage_and_one_block_load_and_multiply_in_turn() -> None:
    step: WgmmaStep = steps()["2 TMA"]
    assert step.overlapped and step.occupancy.blocks_per_sm == 3
    alone = replace(step, occupancy=steps()["3 ring of 4"].occupancy)
    assert not alone.overlapped and steps()["3 ring of 4"].overlapped
    assert alone.alternating_cycles == sum(alone.cycles[what] for what in ("L1", "L2", "results"))
    assert alone.estimated_share is not None and alone.estimated_share < alone.share == step.share


def test_sizes_that_tiles_do_not_divide_are_refused() -> None:
    with pytest.raises(ShapeError, match="whole tiles are predicted"):
        next(predict_steps(FAMILY, 1000, ("10 one tile for both",)))


def test_the_ladder_ends_with_the_choice() -> None:
    """Of the problem on which steps are compared: an offered way, expected within 1 % of the first."""
    last, p = list(SM90_LADDER.values())[-1], FAMILY.problem(bench_of(FAMILY).steps_size)
    us = {FAMILY.way(c): FAMILY.expected(p, c, "sm_90").us for c in FAMILY.configs(p, "sm_90")}
    assert us[FAMILY.way(last)] <= 1.01 * min(us.values())


@pytest.mark.deep
def test_the_last_step_by_hand() -> None:
    """256 x 128 in pairs beside: 16 wgmma of 64 cycles, each of which reads 6,144 bytes; half of A comes."""
    step = list(steps().values())[-1]
    assert step.cycles["tensor"] == 16 * 64 and step.cycles["L1"] == 16 * 6144 / 128 + 49152 / 128
    assert step.cycles["L2"] == (128 + 128) * 128 / 64 and step.bound == "L1"
    found = effects(steps()["10 one tile for both"], step)
    assert set(found) == {"wgmma", "shared wavefronts", "L2 in"}
    assert found["wgmma"] == 2 and found["L2 in"] == pytest.approx(2 / 3)
