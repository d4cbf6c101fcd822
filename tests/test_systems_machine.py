"""Published reasoning about machines and registers, as executable examples.

From an article on a tensor-core HGEMM for a T4 in six kernels: roofline, occupancy, L2 locality.  From an
article on layouts: rows of an accumulator, fragments converted and transposed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from layoutalg.arch import ARCHS, T4_ACHIEVED, board_rates
from layoutalg.codegen.expr import Var, evaluate, index_cost, simplify
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.model import (
    balance_point,
    gemm_intensities,
    l2_locality,
    mean_rate,
    occupancy_of,
    roofline_of,
    tile_intensity,
)
from layoutalg.registers import (
    convert_layout,
    converted,
    fragment,
    holders,
    linear_fragment,
    reduction_of,
    register_layout,
)
from tests.draws.fragments import M16N8, accumulators, elements, operand_a, swapped, wgmma

PROBLEM = 8192
SMS = 40


def _kernel(block: tuple[int, int], l2_reuse: float = 1.0) -> Mapping[str, float]:
    """Intensities of the article's kernels, which differ in the block's tile."""
    return gemm_intensities(block=block, warp=(64, 64), instruction=(16, 8), element="f16", l2_reuse=l2_reuse)


# --- roofline ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "unit", "published"),
    [("dram", "tensor", 224), ("l2", "tensor", 38), ("shared", "tensor", 13), ("dram", "f32", 33)],
)
def test_balance_points_of_a_t4(level: str, unit: str, published: int) -> None:
    assert int(balance_point(T4_ACHIEVED, level, unit)) == published


@pytest.mark.parametrize(("tile", "published"), [((256, 128), 85.3), ((256, 256), 128), ((64, 64), 32)])
def test_intensity_of_a_tile_is_its_product_over_its_sum(tile: tuple[int, int], published: float) -> None:
    m, n = tile
    assert round(tile_intensity(tile, "f16"), 1) == published == round(m * n / (m + n), 1)


def test_microbenchmarks_stay_below_the_data_sheet() -> None:
    board = ARCHS["sm_75"].board
    assert board is not None
    peak = board_rates(board)
    assert (peak.units["tensor"], peak.levels["dram"]) == (65e12, 320e9)
    for name, rate in T4_ACHIEVED.units.items():
        assert rate < peak.units[name]
    assert T4_ACHIEVED.levels["dram"] < peak.levels["dram"]


def test_shared_memory_is_no_bound_for_warp_tiles_of_64_by_64() -> None:
    """Intensity 32 at shared memory is past its balance point of 13, 85 at the L2 past 38."""
    report = roofline_of(T4_ACHIEVED, _kernel((256, 128)))
    limits = {bound.level: bound.limits for bound in report.bounds}
    assert limits == {"dram": True, "l2": False, "shared": False}
    assert report.limiting == "dram"


def test_the_l2_cache_moves_the_balance_point_to_87() -> None:
    """About half the loads hit; the author takes the mean of both rates, and the peak of the tensor cores.

    A tile of 256 x 128 stays just below that, one of 256 x 256 is past it: the fifth kernel's tile.
    """
    board = ARCHS["sm_75"].board
    assert board is not None
    rate = mean_rate(0.5, T4_ACHIEVED.levels["l2"], T4_ACHIEVED.levels["dram"])
    balance = board_rates(board).units["tensor"] / rate
    assert round(balance) == 87
    assert tile_intensity((256, 128), "f16") < balance < tile_intensity((256, 256), "f16")


def test_about_half_the_loads_hit_the_l2_cache() -> None:
    """One block an SM, 40 in flight on 8192 x 8192: 45 or 64 %, by the order of the blocks; more in bands."""
    grid = (PROBLEM // 256, PROBLEM // 128)
    hits = {
        order: l2_locality(grid, in_flight=SMS, order=order, tile=(256, 128)).hit_rate
        for order in ("col", "row", 4)
    }
    assert round(hits["col"], 2) == 0.45 and round(hits["row"], 2) == 0.64
    assert hits["col"] < hits["row"] < hits[4]


def test_locality_takes_kernel_5_off_the_dram_roof() -> None:
    """What the cache serves again counts as intensity at DRAM: 256 x 256 tiles in bands are past 224."""
    grid = (PROBLEM // 256, PROBLEM // 256)
    found = l2_locality(grid, in_flight=SMS, order=8, tile=(256, 256))
    alone = roofline_of(T4_ACHIEVED, _kernel((256, 256)))
    together = roofline_of(T4_ACHIEVED, _kernel((256, 256), found.reuse))
    assert (alone.limiting, together.limiting) == ("dram", "tensor")
    assert together.flops_per_s == T4_ACHIEVED.units["tensor"]


def test_without_tensor_cores_the_first_tile_would_do() -> None:
    """FFMA needs 33 operations a byte of DRAM; f32 tiles of 256 x 128 do 42.7."""
    tiles = gemm_intensities(block=(256, 128), warp=(64, 64), instruction=(8, 8), element="f32")
    assert roofline_of(T4_ACHIEVED, tiles, "f32").limiting == "f32"


# --- occupancy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("registers", [104, 166])
def test_one_block_an_sm_whatever_the_registers(registers: int) -> None:
    """Tiles of 256 x 64 and 64 x 128 halves are 49,152 bytes of the 65,536 an SM has."""
    shared = (256 * 64 + 64 * 128) * 2
    assert shared == 49152
    report = occupancy_of("sm_75", threads=256, registers_per_thread=registers, shared_bytes=shared)
    assert (report.blocks_per_sm, report.warps_per_sm) == (1, 8)
    assert "shared" in report.limiting


def test_prefetching_into_registers_costs_no_occupancy() -> None:
    """The step from 104 to 166 registers: one block before and after, and no spill below 255."""
    limits = {
        registers: {
            limit.resource: limit.blocks
            for limit in occupancy_of(
                "sm_75", threads=256, registers_per_thread=registers, shared_bytes=49152
            ).limits
        }
        for registers in (104, 166)
    }
    assert (limits[104]["shared"], limits[166]["shared"]) == (1, 1)
    assert (limits[104]["registers"], limits[166]["registers"]) == (2, 1)


# --- the cost of an index ------------------------------------------------------------------------------


def test_a_swizzled_index_costs_integer_instructions() -> None:
    """The layout called on index variables is the index code; its instructions are counted, then fewer."""
    row, column = Var("row", 256), Var("column", 8)
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((256, (8, 8)), (64, (1, 8))))
    plain = tile.inner(row, (0, column))
    swizzled = tile(row, (0, column))
    assert index_cost(simplify(plain)) < index_cost(simplify(swizzled)) <= index_cost(swizzled)


def test_between_two_ldmatrix_one_xor_is_enough() -> None:
    """About a dozen integer operations an address written out; one XOR, and an immediate, from the address
    that a thread computes once: S(a + b) = S(a) ^ S(b) where a and b share no bits."""
    lane, row, step = Var("lane", 32), Var("row", 4), Var("step", 2)
    tile = ComposedLayout(Swizzle(2, 3, 3), 0, Layout((256, 32), (32, 1)))
    address = 2 * tile(row * 16 + lane % 16, step * 16 + lane // 16 * 8)
    assert index_cost(address) >= 10
    first = 2 * tile(lane % 16, lane // 16 * 8)
    for values in np.ndindex(32, 4, 2):
        at = dict(zip((lane, row, step), values, strict=True))
        moved = (evaluate(first, at) ^ 32 * at[step]) + 1024 * at[row]
        assert evaluate(address, at) == moved
    assert index_cost(Var("first", 1 << 14) ^ 32) == 1


# --- registers -----------------------------------------------------------------------------------------


def test_a_row_of_an_accumulator_needs_four_lanes() -> None:
    """m16n8: two values of a row in each of four neighbouring lanes; two shuffles a row make its maximum."""
    tile = fragment(M16N8, (16, 8))
    assert [holders(tile, m=row).lanes for row in (0, 7, 8)] == [(0, 1, 2, 3), (28, 29, 30, 31), (0, 1, 2, 3)]
    report = reduction_of(tile, along="n")
    assert (len(report.groups), report.lane_operations, report.shuffles) == (2, 2, 4)


@pytest.mark.parametrize("columns", [64, 96, 256])
def test_a_column_of_a_wgmma_accumulator_needs_shared_memory(columns: int) -> None:
    tile = fragment(wgmma(columns), (64, columns))
    rows, column_maxima = reduction_of(tile, along="n"), reduction_of(tile, along="m")
    assert (rows.barriers, column_maxima.barriers) == (0, 1)
    assert holders(tile, n=5).warps == (0, 1, 2, 3) and holders(tile, m=5).warps == (0,)
    tensor = np.random.default_rng(columns).standard_normal((64, columns)).astype(np.float32)
    values = np.zeros((4, 32, tile.registers), np.float32)
    for warp, lane, register in np.ndindex(values.shape):
        values[warp, lane, register] = tensor[tile.element(register, lane, warp)]
    expected = tensor.max(axis=1)
    result = rows.run(values)
    for warp, lane, group in np.ndindex(result.shape):
        row = tile.element(rows.groups[group][0], lane, warp)[0]
        assert result[warp, lane, group] == expected[row]


def test_fragments_of_one_product_feed_the_next() -> None:
    """Two m16n8 accumulators are an m16k16 operand in f16; in 8 bits lanes exchange words."""
    c16 = register_layout(accumulators(16), (16, 16))
    assert convert_layout(c16, register_layout(operand_a(16), (16, 16)), "f16").plan.kind == "rename"
    c32 = register_layout(accumulators(32), (16, 32))
    found = convert_layout(c32, register_layout(operand_a(8), (16, 32)), "e4m3")
    assert (found.plan.kind, found.plan.cost.shuffles) == ("shuffle", 4)


def test_a_replicated_copy_is_made_and_dropped() -> None:
    """Every warp of four gets the whole 16 x 8 tile that four warps held in parts, and gives it up again."""
    parts = register_layout(Layout(((4, 8, 2, 2), 1), ((32, 1, 16, 8), 0)), (16, 8))
    whole = register_layout(Layout(((4, 8, 4), (2, 2)), ((32, 1, 0), (16, 8))), (16, 8))
    spread = convert_layout(parts, whole, "f32")
    assert spread.plan.kind == "shared"
    assert np.array_equal(spread.plan.run(elements(parts)), converted(parts, whole, elements(parts)))
    back = convert_layout(whole, parts, "f32")
    assert back.plan.kind in ("select", "shuffle")
    assert np.array_equal(back.plan.run(elements(whole)), elements(parts))


def test_a_transposed_fragment_is_converted_in_the_warp() -> None:
    c = register_layout(accumulators(16), (16, 16))
    found = convert_layout(c, swapped(c), "f32")
    assert found.plan.kind != "shared" and linear_fragment(found.dst).shape == (16, 16)
    assert np.array_equal(found.plan.run(elements(c)), elements(swapped(c)))
