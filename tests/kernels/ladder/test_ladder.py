"""Steps of the products' ladders before they run: machine code against program, and bounds by hand."""

from __future__ import annotations

from functools import cache

import pytest

from layoutalg.codegen.costs import Cost
from layoutalg.errors import UnknownNameError
from layoutalg.kernels import find_family
from layoutalg.kernels.ladder.gemm import ARCH, effects, predict_steps
from layoutalg.kernels.ladder.machines import FLOPS_PER_CYCLE
from layoutalg.kernels.ladder.step import Step

pytestmark = pytest.mark.deep  # all look at the same steps, whose machine code takes seconds

SM80 = ("2 vectors", "3 swizzle", "5 tile 256x128x32", "6 two buffers", "7 cp.async ring, mma k16")
SIMT = ("v2", "v8", "warp tiles", "cp.async")


@cache
def steps(family: str, n: int = 1024) -> dict[str, Step]:
    names = {"gemm-sm80": SM80, "gemm-simt": SIMT}[family]
    return {s.name: s for s in predict_steps(find_family(family), n, names)}


@pytest.mark.parametrize("family", ["gemm-sm80", "gemm-simt"])
def test_machine_code_multiplies_what_the_program_says(family: str) -> None:
    """The multiplications of a pass, from the machine code, times passes and warps are the program's."""
    kind = {"gemm-sm80": "tensor", "gemm-simt": "fma"}[family]
    for step in steps(family).values():
        assert step.loop[kind] * step.passes * step.config.threads // 32 == step.multiplies
        assert step.counts["instructions"] > step.multiplies


@pytest.mark.parametrize("family", ["gemm-sm80", "gemm-simt"])
def test_machine_code_loads_fragments_as_the_program_says_unless_merged(family: str) -> None:
    merged = {name for name, step in steps(family).items() if step.merged != 1}
    assert merged == ({"v2"} if family == "gemm-simt" else set()) and steps("gemm-simt")["v2"].merged > 1


def test_three_idle_loads_stand_before_every_group_of_copies() -> None:
    for step in (steps("gemm-sm80")["7 cp.async ring, mma k16"], steps("gemm-simt")["cp.async"]):
        warps = step.blocks * step.config.threads // 32
        groups = step.problem.k // step.config.tile_k + step.config.stages - 1
        assert 3 * (groups - 2) * warps <= step.idle_loads <= 3 * groups * warps
    assert steps("gemm-simt")["v8"].idle_loads == 0 == steps("gemm-simt")["v8"].copies


def test_cycles_of_a_pass_by_hand() -> None:
    """256 x 128 x 64: 8 warps load 32 fragments, 4 wavefronts each, and copy 3072 vectors of 16 bytes."""
    step = steps("gemm-sm80")["3 swizzle"]
    found = step.cycles
    assert found["tensor"] == 2 * 256 * 128 * 64 / FLOPS_PER_CYCLE["f16.k8"]
    assert found["L1"] == 8 * 32 * 4 + (3072 * 16 // 128) + (3072 * 16 // 128)
    assert found["L2"] == 3072 * 16 / 64 and found["issue"] == 8 * sum(step.loop.values()) / 4
    assert found["DRAM"] < found["L2"] and step.bound == max(found, key=lambda what: found[what])
    assert step.flops_per_cycle == 2 * 256 * 128 * 64 / found[step.bound]


def test_a_thread_per_element_loads_what_it_multiplies_through_the_l1() -> None:
    """32 warps, 32 k, a load of either operand each: a wavefront per load, and nothing in shared memory."""
    (step,) = predict_steps(find_family("gemm-simt"), 256, ("v1",))
    assert step.cycles["L1"] == 2 * 32 * 32 and step.overlapped
    assert step.least_cycles == max(step.cycles.values())


def test_rows_of_64_bytes_make_shared_memory_the_bound() -> None:
    step = steps("gemm-sm80")["7 cp.async ring, mma k16"]
    assert step.ways["cp.async.16"] == 2 and step.bound == "L1"


def test_the_swizzle_takes_away_an_eight_way_conflict_and_nothing_else() -> None:
    before, after = steps("gemm-sm80")["2 vectors"], steps("gemm-sm80")["3 swizzle"]
    assert (before.ways["ldmatrix.x4"], after.ways["ldmatrix.x4"]) == (8, 1)
    assert set(effects(before, after)) == {"shared wavefronts"} and before.bound == "L1"


def test_lowering_leaves_one_instruction_of_a_swizzled_address() -> None:
    """About thirteen integer operations an ldmatrix, as published, and one XOR."""
    step = steps("gemm-sm80")["5 tile 256x128x32"]
    assert step.index[0] >= 10 and step.index[1] <= 1


def test_two_buffers_halve_the_barriers() -> None:
    before, after = steps("gemm-sm80")["5 tile 256x128x32"], steps("gemm-sm80")["6 two buffers"]
    assert effects(before, after)["barriers"] == pytest.approx(0.5, abs=0.02)
    assert before.counts["barriers"] == (2 * before.passes + before.blocks) * 8  # one before the loop


def test_an_mma_of_twice_the_k_is_executed_half_as_often() -> None:
    factors = effects(steps("gemm-sm80")["6 two buffers"], steps("gemm-sm80")["7 cp.async ring, mma k16"])
    assert factors["mma"] == 0.5 and factors["instructions"] < 0.7


def test_counts_add_up_the_accesses() -> None:
    step = steps("gemm-simt")["cp.async"]
    found, seen = step.counts, step.accesses
    assert found["sectors loaded"] == seen["cp.async.4:global"].total + seen["cp.async.16:global"].total
    assert found["sectors stored"] == seen["st.global.b128"].total
    shared = [cost for op, cost in seen.items() if "global" not in op]
    assert found["shared wavefronts"] == sum(shared, Cost(0, 0, 0)).total
    assert found["lds"] == seen["ld.shared.b128"].instructions


def test_occupancy_and_reuse_follow_registers_and_order() -> None:
    step = steps("gemm-simt")["v8"]
    assert step.occupancy.arch == ARCH and step.occupancy.registers_per_thread == step.cubin.registers
    assert step.occupancy.blocks_per_sm == 2 and 1 < step.reuse < 2 * step.blocks and step.intensity == 32


def test_a_step_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="step of gemm-simt"):
        next(predict_steps(find_family("gemm-simt"), 128, ("v9",)))
