"""Steps of the products' ladders before they run: machine code against program, and bounds by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from layoutalg.codegen.costs import Cost
from layoutalg.errors import UnknownNameError
from layoutalg.kernels import find_family
from layoutalg.kernels.ladder.machines import ARCH, FLOPS_PER_CYCLE
from layoutalg.kernels.ladder.step import Step, effects, predict_steps

pytestmark = pytest.mark.deep  # all look at the same steps, whose machine code takes seconds

SM80 = ("2 vectors", "3 swizzle", "5 tile 256x128x32", "6 two buffers", "7 cp.async ring, mma k16")
SIMT = ("v2", "v8", "warp tiles", "cp.async")


@cache
def steps(family: str, n: int = 1024) -> dict[str, Step]:
    names = {"gemm-sm80": SM80, "gemm-simt": SIMT}[family]
    return {s.name: s for s in predict_steps(find_family(family), n, names)}


@pytest.mark.parametrize(("family", "kind"), [("gemm-sm80", "tensor"), ("gemm-simt", "fma")])
def test_machine_code_multiplies_and_loads_what_the_program_says(family: str, kind: str) -> None:
    """The multiplications of a pass, from the machine code, times passes and warps are the program's; so are
    loads of fragments where the compiler merges none."""
    for name, step in steps(family).items():
        assert step.loop[kind] * step.passes * step.config.threads // 32 == step.multiplies
        assert step.counts["instructions"] > step.multiplies
        assert (step.merged > 1) == (name == "v2")


def test_three_idle_loads_stand_before_every_group_of_copies() -> None:
    for step in (steps("gemm-sm80")["7 cp.async ring, mma k16"], steps("gemm-simt")["cp.async"]):
        warps = step.blocks * step.config.threads // 32
        config: Any = step.config
        groups = step.problem.k // config.tile_k + config.stages - 1
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


def test_what_each_step_changes() -> None:
    before, after, tile, two, ring = steps("gemm-sm80").values()
    assert (before.ways["ldmatrix.x4"], after.ways["ldmatrix.x4"]) == (8, 1) and before.bound == "L1"
    assert set(effects(before, after)) == {"shared wavefronts"}
    assert tile.index == (6.5, 1.25), "a swizzled address is little more than one XOR, once lowered"
    assert effects(tile, two)["barriers"] == pytest.approx(0.5, abs=0.02)
    assert tile.counts["barriers"] == (2 * tile.passes + tile.blocks) * 8  # one before the loop
    assert effects(two, ring)["mma"] == 0.5 and effects(two, ring)["instructions"] < 0.7
    assert ring.ways["cp.async.16"] == 2 and ring.bound == "L1", "rows of 64 bytes"
    simt = steps("gemm-simt")["v8"]
    assert simt.occupancy.arch == ARCH and simt.occupancy.registers_per_thread == simt.cubin.registers
    assert simt.occupancy.blocks_per_sm == 2 and 1 < simt.reuse < 2 * simt.blocks and simt.intensity == 32


def test_counts_add_up_the_accesses() -> None:
    step = steps("gemm-simt")["cp.async"]
    found, seen = step.counts, step.accesses
    assert found["sectors loaded"] == seen["cp.async.4:global"].total + seen["cp.async.16:global"].total
    assert found["sectors stored"] == seen["st.global.b128"].total
    shared = [cost for op, cost in seen.items() if "global" not in op]
    assert found["shared wavefronts"] == sum(shared, Cost(0, 0, 0)).total
    assert found["lds"] == seen["ld.shared.b128"].instructions


def test_a_step_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="step of gemm-simt"):
        next(predict_steps(find_family("gemm-simt"), 128, ("v9",)))
