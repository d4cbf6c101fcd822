"""What threads copy, read and write of a product's tiles: partitions against the mappings they stand for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.codegen import gpu
from layoutalg.codegen.program import Do, For, MemRef, walk
from layoutalg.decide import is_bijective
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import Major, SimtConfig, Sm80Config, gemm_problem
from layoutalg.kernels.gemm.choice import SIMT, SM80
from layoutalg.kernels.gemm.programs import simt, sm80
from layoutalg.kernels.gemm.programs.mainloop import OperandPlan
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.layout import Layout
from tests.sweeps import each

MAJORS: tuple[Major, Major] = ("k", "mn")
SIDES: tuple[Literal["a"], Literal["b"]] = ("a", "b")
SM80_CONFIGS = {
    **{f"tile {i}": tile for i, tile in enumerate(SM80.tiles)},
    "narrow": Sm80Config(64, 64, 32, 2, 2, 2, via="registers", a_bytes=2, b_bytes=4),
}  # fmt: skip
SIMT_CONFIGS = {f"tile {i}": tile for i, tile in enumerate(SIMT.tiles)}


def copied(plan: OperandPlan) -> Any:
    """index row + rows * k of (thread, element of the vector, pass), by the partition."""
    tv = plan.copy.tidfrg("dst", Layout((plan.tile.rows, plan.tile.deep)))
    thread, element, step = np.indices((plan.copy.threads, plan.tile.vector, plan.tile.passes))
    return tv(thread, element + plan.tile.vector * step)


def copied_by_definition(plan: OperandPlan, lanes: int) -> Any:
    """The same: `lanes` threads along a stored row, the others across; passes count rows first, then k."""
    thread, element, step = np.indices((plan.copy.threads, plan.tile.vector, plan.tile.passes))
    wide, high = lanes * plan.tile.vector, plan.copy.threads // lanes
    if plan.tile.major == "k":
        j, i = step % (plan.tile.rows // high), step // (plan.tile.rows // high)
    else:
        i, j = step % (plan.tile.rows // wide), step // (plan.tile.rows // wide)
    near = thread % lanes * plan.tile.vector + element + i * wide
    far = thread // lanes + j * high
    return far + plan.tile.rows * near if plan.tile.major == "k" else near + plan.tile.rows * far


@each(("a", "b"), [*product(MAJORS, repeat=2)])
@each("name", {**SIMT_CONFIGS, **{f"{name} of sm_80": c for name, c in SM80_CONFIGS.items()}})
def test_a_tile_is_copied_once_by_threads_along_its_stored_rows(name: str, a: Major, b: Major) -> None:
    tensor = name.endswith("sm_80")
    c: Any = SM80_CONFIGS[name.removesuffix(" of sm_80")] if tensor else SIMT_CONFIGS[name]
    dtype = "f16" if tensor else "f32"
    p = gemm_problem(4 * c.tile_m, 4 * c.tile_n, 4 * c.tile_k, dtype, a_major=a, b_major=b)
    if not tensor and c.tile_m in (80, 96) and a == "mn":  # vectors of its rows do not divide the threads
        with pytest.raises(LayoutAlgError):
            check_config(p, c)
        return
    for side in SIDES:
        plan = sm80.operand_plan(p, c, side) if tensor else simt.operand_plan(p, c, side)
        tile, got = plan.tile, copied(plan)
        along = (tile.deep if tile.major == "k" else tile.rows) // tile.vector if tensor else tile.lanes
        np.testing.assert_array_equal(got, copied_by_definition(plan, along))
        assert np.array_equal(np.sort(got.ravel()), np.arange(tile.rows * tile.deep))


@each("name", SIMT_CONFIGS)
def test_a_thread_multiplies_runs_of_rows_beside_those_of_its_neighbours(name: str) -> None:
    """By definition: row e of a thread is lane * run + e % run + e // run * lanes * run."""
    c = SIMT_CONFIGS[name]
    p = gemm_problem(4 * c.tile_m, 4 * c.tile_n, 4 * c.tile_k, "f32")
    tid = np.arange(c.threads)
    lane, warp = tid % 32, tid // 32
    lane_m = lane // simt.WEAVE % c.lanes_m
    lane_n = lane % simt.WEAVE + lane // (simt.WEAVE * c.lanes_m) * simt.WEAVE
    warp_m, warp_n = warp % c.warps_m, warp // c.warps_m
    rows = _rows(lane_m, warp_m, c.lanes_m, c.thread_m, c.run_m)
    columns = _rows(lane_n, warp_n, c.lanes_n, c.thread_n, 16 // p.operand.nbytes)
    sums = simt.tiled_mma(p.operand, c).tidfrg("C", Layout((c.tile_m, c.tile_n)))
    at = sums(tid[:, None, None], (0, (np.arange(c.thread_m)[:, None], np.arange(c.thread_n))))
    np.testing.assert_array_equal(at % c.tile_m, rows[:, :, None] + 0 * columns[:, None, :])
    np.testing.assert_array_equal(at // c.tile_m, columns[:, None, :] + 0 * rows[:, :, None])
    assert np.array_equal(np.sort(at.ravel()), np.arange(c.tile_m * c.tile_n))
    for side, mine in (("a", rows), ("b", columns)):
        plan = simt.operand_plan(p, c, "a" if side == "a" else "b")
        read = plan.read.tidfrg("src", Layout((plan.tile.rows, plan.tile.deep)))
        got = read(tid[:, None], ((0, np.arange(plan.tile.fragments)), (0, plan.tile.deep - 1)))
        np.testing.assert_array_equal(got % plan.tile.rows, mine[:, :: plan.tile.words])
        assert set((got // plan.tile.rows).ravel().tolist()) == {plan.tile.deep - 1}


def _rows(lane: Any, warp: Any, lanes: int, thread: int, run: int) -> Any:
    e = np.arange(thread)
    return (warp * lanes * thread + lane * run)[:, None] + e % run + e // run * (lanes * run)


@each("vec", [1, 2, 4, 8])
@each("warp_n", [16, 32, 64, 128])
def test_the_stage_is_written_and_read_once_and_without_conflicts(warp_n: int, vec: int) -> None:
    mma, take, layout = sm80.stage_copies(warp_n, vec)
    tile = Layout((16, warp_n))
    for op, tv in (
        ("st.shared.b64", mma.tidfrg("C", tile)), (f"ld.shared.b{32 * min(vec, 4)}", take.tidfrg("src", tile))
    ):  # fmt: skip
        assert is_bijective(tv)
        report = analyze(layout, Access(op, tv, dtype("f32")))
        assert isinstance(report, SharedReport) and report.conflict_free, (op, str(layout))


OFFERED = [
    *(("f16", c) for c in (
        Sm80Config(128, 256, 64, 2, 4, 4), Sm80Config(64, 64, 32, 2, 2, 3),
        Sm80Config(256, 128, 32, 4, 2, 2, via="registers"))),
    *((name, None) for name in ("f64", "tf32", "s4", "b1")),
]  # fmt: skip


@pytest.mark.deep
@each(("a", "b"), [*product(MAJORS, repeat=2)])
@each(("dtype", "config"), OFFERED)
def test_tiles_have_no_bank_conflicts(dtype: str, config: Any, a: Major, b: Major) -> None:
    """Of other types than f16 all that are offered, as fragments are loaded; of s4 and b1 along k alone."""
    if dtype in ("s4", "b1") and "mn" in (a, b):
        return
    p = gemm_problem(4096, 4096, 4096, dtype, a_major=a, b_major=b)
    for c, side in product([config] if config else SM80.configs(p), SIDES):
        plan = sm80.operand_plan(p, c, side)
        element, tile = plan.tile.element, Layout((plan.tile.rows, plan.tile.deep))
        op = plan.read.atom.src_op or f"ld.shared.b{element.bits}"
        accesses = [Access(op, plan.read.tidfrg("src", tile), element)]
        if config:
            accesses.append(Access("st.shared.b128", plan.copy.tidfrg("dst", tile), element))
        for access in accesses:
            report = analyze(plan.layout, access)
            assert isinstance(report, SharedReport) and report.excess == 0, (side, access.op, plan.layout)


@pytest.mark.parametrize("name", SIMT_CONFIGS)
def test_a_block_has_as_many_threads_as_its_copies_and_multiplications(name: str) -> None:
    c: SimtConfig = SIMT_CONFIGS[name]
    assert simt.tiled_mma(dtype("f32"), c).threads == c.threads == 32 * c.warps_m * c.warps_n


# --- what a kernel writes for them -----------------------------------------------------------------------

SMALL = Sm80Config(64, 64, 32, 2, 2, 3)


def calls(config: Sm80Config, *, loop: bool = True, **options: Any) -> list[Do]:
    """The calls of a kernel of several tiles, of its main loop or of all."""
    kernel = sm80.build(gemm_problem(128, 128, 128, **options), config)
    (main,) = (s for s in walk(kernel.body) if isinstance(s, For))
    return [s for s in walk(main.body if loop else kernel.body) if isinstance(s, Do)]


@each(("a", "b"), [*product(MAJORS, repeat=2)])
def test_operands_along_their_rows_are_turned_by_ldmatrix(a: Major, b: Major) -> None:
    loads = {
        s.args[1].buffer.name: s.instr.name
        for s in calls(SMALL, a_major=a, b_major=b)
        if s.instr.name.startswith("ldmatrix") and isinstance(s.args[1], MemRef)
    }
    names = {"k": "ldmatrix_x4", "mn": "ldmatrix_x4_trans"}
    assert loads == {"tile_a": names[a], "tile_b": names[b]}


def test_the_ragged_tile_alone_is_guarded() -> None:
    """Before the loop and with edges only; the loop copies the same way in either case."""
    for edges, guarded in ((False, 0), (True, 2)):
        config = replace(SMALL, edges=edges)
        copies = {s.instr.name for s in calls(config) if s.instr.name.startswith("cp_async_16")}
        assert copies == {"cp_async_16"}
        assert [s.instr.name for s in calls(config, loop=False)].count("cp_async_16_zfill") == guarded
    names = {s.instr.name for s in calls(replace(SMALL, stages=2, via="registers"))}
    assert {"ldg128", "sts128"} <= names and not any(name.startswith("cp_async") for name in names)


@pytest.mark.deep
@each("config", [Sm80Config(64, 64, 64, 2, 2, 4, static_ld=True), Sm80Config(128, 128, 32, 2, 2, 3)])
def test_edges_cost_the_main_loop_nothing(config: Sm80Config) -> None:
    counts = []
    for edges in (False, True):
        kernel = sm80.build(gemm_problem(4096, 4096, 4096), replace(config, edges=edges))
        cubin = gpu.compile_cubin(gpu.to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a")
        (function,) = gpu.parse_sass(gpu.disassemble(cubin.image))
        counts.append(dict(gpu.count_classes(gpu.main_loop(function))))
        assert cubin.spill_bytes == 0
    whole, edged = counts
    assert edged["ldgsts"] == whole["ldgsts"] and sum(edged.values()) <= 1.02 * sum(whole.values())
