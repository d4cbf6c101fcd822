"""The plan of a permute: wide where it can be, legal everywhere."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

import layoutalg
from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import prepare
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ShapeError
from layoutalg.kernels.move import plan
from layoutalg.kernels.move.cases import random_cases
from layoutalg.kernels.move.plan import _storing, best, configs
from layoutalg.kernels.move.problem import normalise, permute_problem, reference
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.kernels.move.tiles import memory_time, tiles
from tests.moves import Move, plans, random_case, random_matrix, random_move, verdict
from tests.permutations import WIDTHS, random_buffers, random_conversion, random_problem
from tests.sweeps import each


@pytest.mark.parametrize("dtype", WIDTHS)
def test_a_large_transpose_moves_16_bytes_a_lane_on_both_sides(dtype: str) -> None:
    c = configs(normalise(permute_problem((4096, 4096), (1, 0), dtype)))[0]
    assert c.way == "staged"
    assert c.chunk * WIDTHS[dtype] == c.vec * WIDTHS[dtype] == 16


@pytest.mark.parametrize("dtype", ["u8", "f16"])
def test_odd_sizes_move_wide_vectors_too(dtype: str) -> None:
    c = configs(normalise(permute_problem((4097, 4099), (1, 0), dtype)))[0]
    assert c.chunk * WIDTHS[dtype] == 16 and c.vec * WIDTHS[dtype] >= 8


def test_rows_that_stay_whole_move_directly() -> None:
    c = configs(normalise(permute_problem((64, 1024, 16, 128), (0, 2, 1, 3), "f16")))[0]
    assert c.way == "direct"


def test_short_modes_fold_into_the_tile() -> None:
    x = normalise(permute_problem((128, 224, 224, 3), (0, 3, 1, 2), "f32"))
    stage = Stage(x, configs(x)[0])
    assert len(stage.src_run) == 2 and stage.tile[1] == 3


@each("seed", range(60), sample=4)
def test_the_best_is_the_first_of_all(seed: int) -> None:
    rng = random.Random(500 + seed)
    x = normalise((random_problem if seed % 2 else random_conversion)(rng, 1 << rng.randint(8, 24)))
    assert best(x) == configs(x)[0]


@pytest.mark.deep
def test_less_than_half_of_the_tiles_are_timed_for_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, every, timed = random.Random(700), plan._stored, list[PermuteConfig]()
    problems = [normalise(random_problem(rng, 1 << 20)) for _ in range(20)]

    def stored(x: Any, c: PermuteConfig, arch: Any) -> Any:
        timed.append(c)
        return every(x, c, arch)

    monkeypatch.setattr(plan, "_stored", stored)
    counts = []
    for ask in (best, configs):
        timed.clear()
        for x in problems:
            ask(x)
        counts.append(len(timed))
    assert 0 < 2 * counts[0] < counts[1]


@each("arch", ["sm_75", "sm_80", "sm_90"])
@each("seed", range(15), sample=1)
def test_every_configuration_is_legal(seed: int, arch: str) -> None:
    x = normalise(random_problem(random.Random(1000 + seed), 5000))
    for c in configs(x, arch):
        check(build(x, c), arch)
        assert c.via == "registers" or arch != "sm_75"


@pytest.mark.deep
@pytest.mark.parametrize("batch", range(5))
def test_every_plan_of_a_move_between_views_is_proven_and_right(batch: int) -> None:
    for seed in range(10 * batch, 10 * batch + 10):
        draw = random_matrix if seed % 5 == 0 else random_case
        case = draw(random.Random(f"plan {seed}"), 800)
        for c in plans(case):
            assert verdict(case, c, seed) == "", (case, c)


@pytest.mark.deep(only=("sm_80-2", "sm_90-3"))
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
    from layoutalg.kernels.move.programs.permute import build

    x = normalise(permute_problem((4096, 4096), (1, 0), dtype))
    for op, cost in traffic(build(x, configs(x)[0]), {}).items():
        assert cost.total <= 2 * cost.ideal, op


TIMED = (
    ("f32", (533006, 56), (1, 0),
     ((192, 56), 512, 4, 4, 8, 8, 0.94), ((32, 28), 256, 4, 1, 32, 8, 0.63)),
    ("f16", (375, 1590, 345), (2, 1, 0),
     ((192, 1, 64), 512, 8, 8, 16, 4, 0.74), ((128, 1, 64), 512, 8, 8, 0, 4, 0.62)),
    ("f64", (39278, 12, 2, 32), (3, 0, 2, 1),
     ((12, 2, 2, 32), 256, 2, 2, 0, 4, 0.92), ((4, 1, 1, 8), 64, 2, 1, 8, 0, 0.20)),
    ("f32", (2, 7, 60558, 40), (3, 2, 1, 0),
     ((2, 7, 12, 40), 256, 4, 4, 8, 0, 0.93), ((2, 7, 16, 40), 256, 4, 4, 0, 4, 0.75)),
    ("f32", (15, 2249, 9, 3, 36), (4, 1, 2, 3, 0),
     ((15, 8, 36), 256, 4, 4, 8, 0, 0.88), ((15, 4, 36), 256, 4, 4, 0, 4, 0.55)),
    ("u8", (9692091, 48), (1, 0),
     ((1024, 48), 512, 16, 16, 32, 8, 0.85), ((1024, 48), 512, 16, 16, 0, 8, 0.79)),
    ("u8", (3714, 2, 5, 4747), (1, 0, 2, 3),
     ((1984, 16, 1), 512, 16, 8, 32, 0, 0.94), ((992, 16, 2), 512, 16, 16, 0, 0, 0.71)),
    ("f16", (4391, 40, 411), (0, 2, 1),
     ((40, 411, 1), 256, 8, 8, 16, 0, 0.97), ((40, 32, 1), 256, 8, 2, 32, 0, 0.78)),
    ("u8", (2, 83582, 1044), (1, 0, 2),
     ((261, 2, 4), 256, 4, 4, 0, 0, 1.00), ((261, 1, 4), 128, 4, 4, 0, 0, 0.74)),
    ("f16", (45, 10, 108, 2, 2104), (3, 1, 0, 4, 2),
     ((108, 128, 1, 1, 1), 256, 8, 8, 0, 0, 0.95), ((32, 352, 1, 1, 2), 512, 8, 8, 0, 0, 0.52)),
)  # fmt: skip
"""Tile, threads, chunk, vector, unit and lanes, and the share of a device copy that an H200 reached."""


@each("case", TIMED, ids=str)
def test_the_time_of_memory_says_which_tile_is_fastest(case: tuple[Any, ...]) -> None:
    dtype, shape, axes, *timed = case
    x = normalise(permute_problem(shape, axes, dtype))
    found: list[tuple[float, float]] = []
    for tile, threads, chunk, vec, align, lanes, share in timed:
        config = PermuteConfig(
            "staged", tile, threads, chunk, vec, lines=True, lanes=lanes, walk="tile", align=align
        )
        found.append((memory_time(Stage(x, config), find_arch("sm_90")), share))
    assert min(found)[1] == max(share for _, share in found)


def test_rounds_repeat_what_is_computed_once_for_a_run_of_several_modes() -> None:
    x = normalise(permute_problem((19, 55, 2754, 10, 10), (1, 2, 4, 0, 3), "u8"))
    c = PermuteConfig("staged", (10, 19, 10, 16), 512, 16, 16)
    assert _storing(Stage(x, c), 512) == 475 and _storing(Stage(x, c), 256) == 0


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


def test_folded_modes_are_cut_so_that_both_runs_are_long() -> None:
    """Neither 24 nor 375 bytes are multiples of 16: cut by 16 coordinates, one tile of 48 bytes was left."""
    x = normalise(permute_problem((3, 3, 125, 20, 237, 24), (5, 4, 1, 3, 2, 0), "u8"))
    within = tiles(x, 72 << 10)
    assert (3, 125, 1, 1, 6, 24) in within
    stage = Stage(x, configs(x)[0])
    assert stage.src_length >= 128 and stage.dst_length >= 128
    for tile in within:
        assert all(1 <= t <= m.extent for t, m in zip(tile, x.modes, strict=True))


def _with_a_lead(rng: random.Random) -> tuple[Any, Stage] | None:
    """A problem of narrow elements, and a tile that turns words of runs that start between units."""
    dtype, rank = rng.choice(("u8", "f16")), rng.choice((2, 3, 4))
    size = WIDTHS[dtype]
    shape = tuple(rng.choice((1, 2, 3, 5, 7, 8, 9, 12, 16, 24, 33)) for _ in range(rank))
    axes = tuple(rng.sample(range(rank), rank))
    dst, step = [0] * rank, 1
    for k in reversed(range(rank)):
        dst[k], step = step, step * shape[axes[k]]
        step += rng.choice((0, 0, -step % 4, -step % 16, 3))
    p = permute_problem(
        shape, axes, dtype, dst=tuple(dst), src_offset=rng.choice((0, 4)), dst_offset=rng.choice((0, 1, 3, 8))
    )
    x = normalise(p)
    if x.element_bytes != size or prod(shape) > 4000:
        return None
    for _ in range(20):
        tile = tuple(rng.choice((m.extent, min(m.extent, 4 * rng.randint(1, 4)))) for m in x.modes)
        vec, align = rng.choice((4, 8, 16)) // size, rng.choice((0, 16, 32)) // size
        c = PermuteConfig("staged", tile, 64, 16 // size, max(1, vec), align=align if align > vec else 0)
        stage = Stage(x, c)
        if stage.dst_run and stage.lead and stage.can_turn:
            pad, lanes = rng.choice((0, 16)), rng.choice((0, 4))
            return p, Stage(x, replace(c, turned=True, pad_bytes=pad, lanes=lanes))
    return None


@pytest.mark.deep
@pytest.mark.parametrize("batch", range(3))
def test_words_are_turned_where_runs_of_a_group_start_alike(batch: int) -> None:
    seen = 0
    for seed in range(batch * 250, (batch + 1) * 250):
        found = _with_a_lead(random.Random(seed))
        if found is None:
            continue
        p, stage = found
        assert stage.modes[stage.src_run[0]].dst % stage.unit == 0
        src, old = random_buffers(p, seed)
        dst = old.view("u1").copy()
        simulate(build(stage.moves, stage.config), {"src": src.view("u1").copy(), "dst": dst}, trace=False)
        assert dst.tobytes() == reference(p, src, old).tobytes(), (p, stage.config)
        seen += 1
    assert seen > 4
