"""The plan of a permute: wide where it can be, legal everywhere."""

from __future__ import annotations

import random

import numpy as np
import pytest

import layoutalg
from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import prepare
from layoutalg.codegen.program.checks import check
from layoutalg.errors import ShapeError
from layoutalg.kernels.move.cases import random_cases
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.stage import Stage
from tests.moves import Move, plans, random_case, random_matrix, random_move, verdict
from tests.permutations import WIDTHS, random_problem
from tests.sweeps import each


@pytest.mark.parametrize("dtype", WIDTHS)
def test_a_large_transpose_moves_16_bytes_a_lane_on_both_sides(dtype: str) -> None:
    c = configs(normalise(permute_problem((4096, 4096), (1, 0), dtype)))[0]
    assert c.way == "staged"
    assert c.chunk * WIDTHS[dtype] == c.vec * WIDTHS[dtype] == 16


@pytest.mark.parametrize("dtype", ["u8", "f16"])
def test_odd_sizes_move_16_bytes_too(dtype: str) -> None:
    c = configs(normalise(permute_problem((4097, 4099), (1, 0), dtype)))[0]
    assert c.chunk * WIDTHS[dtype] == c.vec * WIDTHS[dtype] == 16


def test_rows_that_stay_whole_move_directly() -> None:
    c = configs(normalise(permute_problem((64, 1024, 16, 128), (0, 2, 1, 3), "f16")))[0]
    assert c.way == "direct"


def test_short_modes_fold_into_the_tile() -> None:
    x = normalise(permute_problem((128, 224, 224, 3), (0, 3, 1, 2), "f32"))
    stage = Stage(x, configs(x)[0])
    assert len(stage.src_run) == 2 and stage.tile[1] == 3


@each("arch", ["sm_75", "sm_80", "sm_90"])
@each("seed", range(15))
def test_every_configuration_is_legal(seed: int, arch: str) -> None:
    x = normalise(random_problem(random.Random(1000 + seed), 5000))
    for c in configs(x, arch):
        check(build(x, c), arch)
        assert c.via == "registers" or arch != "sm_75"


@pytest.mark.parametrize("batch", range(5))
def test_every_plan_of_a_move_between_views_is_proven_and_right(batch: int) -> None:
    for seed in range(10 * batch, 10 * batch + 10):
        draw = random_matrix if seed % 5 == 0 else random_case
        case = draw(random.Random(f"plan {seed}"), 800)
        for c in plans(case):
            assert verdict(case, c, seed) == "", (case, c)


@pytest.mark.parametrize(("arch", "seed"), [("sm_75", 1), ("sm_80", 2), ("sm_90", 3)])
def test_every_plan_of_a_move_between_views_compiles(arch: str, seed: int) -> None:
    for n in range(2):
        case = random_move(random.Random(f"compiled {seed} {n}"), 800)
        for c in plans(case, arch):
            assert prepare(build(normalise(case.problem), c), arch).cubin.spill_bytes == 0


def test_views_without_elements_are_no_problem_and_move_nothing() -> None:
    with pytest.raises(ShapeError, match="extents must be positive"):
        _ = Move((3, 0), 4, (0, 4), (0, 4), 0, 0).problem
    assert layoutalg.permute(np.zeros((3, 0, 2)), (2, 0, 1)).shape == (2, 3, 0)


@pytest.mark.parametrize("dtype", ["u8", "f16", "f32"])
def test_large_problems_fill_the_gpu(dtype: str) -> None:
    board = find_arch("sm_90").board
    assert board is not None
    for shape, axes in (
        ((4096, 4096), (1, 0)),
        ((96, 96, 96, 96), (3, 2, 1, 0)),
        ((31, 63, 127, 255), (3, 1, 0, 2)),
    ):
        x = normalise(permute_problem(shape, axes, dtype))
        assert Stage(x, configs(x)[0]).blocks >= 2 * board.sms


@pytest.mark.parametrize("dtype", WIDTHS)
def test_aligned_tiles_have_few_conflicts(dtype: str) -> None:
    from layoutalg.codegen.costs import traffic
    from layoutalg.kernels.move.permute import build

    x = normalise(permute_problem((4096, 4096), (1, 0), dtype))
    for op, cost in traffic(build(x, configs(x)[0]), {}).items():
        assert cost.total <= 2 * cost.ideal, op


TIMED = {
    ("u8", (2, 3, 5, 110718, 2, 11), (2, 4, 5, 0, 3, 1)): (0.71, 0.78),
    ("u8", (1, 232, 24, 1368, 7), (4, 0, 2, 1, 3)): (0.73, 0.88),
    ("u8", (13, 14, 91, 7, 4, 166), (0, 2, 4, 1, 3, 5)): (0.92, 0.79),
    ("u8", (2, 9, 6, 392, 33, 46), (2, 4, 5, 1, 0, 3)): (0.64, 0.78),
    ("u8", (10001, 10003), (1, 0)): (0.73, 0.62),
    ("f16", (2, 3, 5, 110718, 2, 11), (2, 4, 5, 0, 3, 1)): (0.84, 0.84),
    ("f16", (1, 232, 24, 1368, 7), (4, 0, 2, 1, 3)): (0.90, 0.86),
    ("f16", (10001, 10003), (1, 0)): (0.85, 0.80),
    ("f16", (64, 516, 1004), (0, 2, 1)): (0.85, 0.53),
    ("f16", (516, 12, 2004), (2, 1, 0)): (0.92, 0.58),
    ("f16", (4100, 64, 60), (1, 2, 0)): (0.96, 0.85),
    ("f16", (500, 1028, 60), (0, 2, 1)): (0.62, 0.71),
    ("u8", (128, 100, 1000), (0, 2, 1)): (0.67, 0.82),
    ("u8", (2, 7382, 3260), (2, 1, 0)): (0.77, 0.81),
}
"""Shares of a device copy that stores of 16 bytes and of four elements reached on an H200."""


@each("case", TIMED, ids=str)
def test_the_width_of_stores_is_nearly_the_fastest(
    case: tuple[str, tuple[int, ...], tuple[int, ...]],
) -> None:
    dtype, shape, axes = case
    x = normalise(permute_problem(shape, axes, dtype))
    wide, few = TIMED[case]
    reached = wide if configs(x)[0].vec * x.element_bytes == 16 else few
    assert reached >= 0.9 * max(wide, few)


@pytest.mark.parametrize(("last", "vectors", "threads"), [(2004, 1008, 512), (1900, 956, 256)])
def test_nearly_four_rounds_are_worth_twice_the_threads(last: int, vectors: int, threads: int) -> None:
    x = normalise(permute_problem((75, 8, 2, 32, last), (0, 3, 1, 4, 2), "u8"))
    config = configs(x)[0]
    assert (Stage(x, config).stores, config.threads) == (vectors, threads)


def test_a_lead_takes_no_block_more() -> None:
    """191 columns and 3 in front of them are three tiles of 68, not three of 64 and one of 2."""
    x = normalise(permute_problem((31, 63, 191, 255), (3, 1, 0, 2), "f32"))
    stage = Stage(x, configs(x)[0])
    assert stage.halo and stage.tile[0] == 68 and stage.counts[0] == 3


def test_rounds_of_a_load_repeat_a_chunks_place_in_its_row() -> None:
    x = normalise(permute_problem((96, 96, 96, 96), (3, 2, 1, 0), "f32"))
    c = configs(x)[0]
    assert Stage(x, c).chunks == 24 and c.loading % 24 == 0 < c.loading < c.threads


@pytest.mark.parametrize(
    ("dtype", "tile", "nbytes"), [("u8", (127, 4, 1, 64), 4), ("f16", (127, 4, 1, 32), 8)]
)
def test_short_odd_rows_are_taken_several_at_a_time(dtype: str, tile: tuple[int, ...], nbytes: int) -> None:
    x = normalise(permute_problem((31, 63, 127, 255), (3, 1, 0, 2), dtype))
    c = configs(x)[0]
    assert (c.tile, c.vec * x.element_bytes, c.walk) == (tile, nbytes, "tile")
    assert configs(normalise(permute_problem((32, 64, 128, 256), (3, 1, 0, 2), dtype)))[0].tile[1] == 1


@pytest.mark.parametrize(("stride", "lines"), [(120, True), (1000, False)])
def test_lines_are_fetched_where_most_of_them_is_read(stride: int, lines: bool) -> None:
    x = normalise(permute_problem((4096, 120), (1, 0), "f16", src=(stride, 1)))
    assert configs(x)[0].lines == lines


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["f32", "f16", "u8"])
def test_blocks_on_an_sm_hold_enough_to_keep_memory_busy(dtype: str) -> None:
    for case in random_cases():
        c = configs(x := normalise(permute_problem(*case, dtype)))[0]
        if c.way == "staged":
            assert 2048 // c.threads * Stage(x, c).tile_bytes >= 40 << 10, case
