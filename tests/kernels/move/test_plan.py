"""The plan of a permute: wide where it can be, legal everywhere."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest

from layoutalg.arch import find_arch
from layoutalg.codegen.costs import traffic
from layoutalg.codegen.program.checks import check
from layoutalg.kernels.model import machine_of, time_us
from layoutalg.kernels.move import plan
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.kernels.move.tiles import SUM, tile_work, tiles
from layoutalg.layout import Swizzle
from tests.draws.permutations import WIDTHS, random_problem
from tests.sweeps import each


@each("arch", ["sm_75", "sm_80", "sm_90"])
@each("seed", range(15), sample=1)
def test_every_configuration_is_legal(seed: int, arch: str) -> None:
    x = normalise(random_problem(random.Random(1000 + seed), 5000))
    for c in configs(x, arch):
        check(build(x, c), arch)
        assert c.via == "registers" or arch != "sm_75"


def chosen(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, **more: Any) -> Stage:
    """The tile that the plan takes."""
    x = normalise(permute_problem(shape, axes, dtype, **more))
    return Stage(x, configs(x)[0])


@pytest.mark.deep
@each(("dtype", "size"), WIDTHS.items(), sample=2)
def test_matrices_move_wide_vectors_with_few_conflicts(dtype: str, size: int) -> None:
    """16 bytes a lane on both sides where rows are aligned; odd ones of narrow elements are 8 or more."""
    stage = chosen((4096, 4096), (1, 0), dtype)
    c = stage.config
    assert (c.way, c.chunk * size, c.vec * size) == ("staged", 16, 16)
    for op, cost in traffic(build(stage.moves, c), {}).items():
        assert cost.total <= (1 if "global" in op else 2) * cost.ideal, op
    odd = chosen((4097, 4099), (1, 0), dtype).config
    assert odd.chunk * size == 16 and (size > 2 or odd.vec * size >= 8)


@pytest.mark.deep
def test_what_is_chosen() -> None:
    """Rows that stay whole move directly, short modes fold, lines are fetched where most of one is read."""
    assert chosen((64, 1024, 16, 128), (0, 2, 1, 3), "f16").config.way == "direct"
    folded = chosen((128, 224, 224, 3), (0, 3, 1, 2), "f32")
    assert len(folded.src_run) == 2 and folded.tile[1] == 3
    lines = [chosen((4096, 120), (1, 0), "f16", src=(stride, 1)).config.lines for stride in (120, 1000)]
    assert lines == [True, False]
    for shape in ((4096, 4096), (96,) * 4, (31, 63, 127, 255), (1024, 512)):  # work for all multiprocessors
        for dtype in ("u8", "f16", "f32"):
            blocks = chosen(shape, tuple(reversed(range(len(shape)))), dtype).blocks
            assert blocks >= (2 * 132 if len(shape) > 2 or shape[0] > 1024 else 132)


TIMED = (
    ("f32", (533006, 56), (1, 0),
     ((192, 56), 512, 4, 4, 8, 8, 0.94), ((32, 28), 256, 4, 1, 32, 8, 0.63)),
    ("f64", (39278, 12, 2, 32), (3, 0, 2, 1),
     ((12, 2, 2, 32), 256, 2, 2, 0, 4, 0.92), ((4, 1, 1, 8), 64, 2, 1, 8, 0, 0.20)),
    ("f32", (15, 2249, 9, 3, 36), (4, 1, 2, 3, 0),
     ((15, 8, 36), 256, 4, 4, 8, 0, 0.88), ((15, 4, 36), 256, 4, 4, 0, 4, 0.55)),
    ("u8", (9692091, 48), (1, 0),
     ((1024, 48), 512, 16, 16, 32, 8, 0.85), ((1024, 48), 512, 16, 16, 0, 8, 0.79)),
    ("f16", (4391, 40, 411), (0, 2, 1),
     ((40, 411, 1), 256, 8, 8, 16, 0, 0.97), ((40, 32, 1), 256, 8, 2, 32, 0, 0.78)),
    ("f16", (45, 10, 108, 2, 2104), (3, 1, 0, 4, 2),
     ((108, 128, 1, 1, 1), 256, 8, 8, 0, 0, 0.95), ((32, 352, 1, 1, 2), 512, 8, 8, 0, 0, 0.52)),
)  # fmt: skip
"""Tile, threads, chunk, vector, unit and lanes, and the share of a device copy that an H200 reached."""


@each("case", TIMED, ids=str)
def test_the_time_of_memory_says_which_tile_is_fastest(case: tuple[Any, ...]) -> None:
    dtype, shape, axes, *timed = case
    x = normalise(permute_problem(shape, axes, dtype))
    found, m = [], machine_of("sm_90")
    for tile, threads, chunk, vec, align, lanes, share in timed:
        c = PermuteConfig(
            "staged", tile, threads, chunk, vec, lines=True, lanes=lanes, walk="tile", align=align
        )
        found.append((time_us(tile_work(Stage(x, c), m), m, SUM), share))
    assert min(found)[1] == max(share for _, share in found)


@each("seed", range(8), sample=1)
def test_a_bound_of_times_leaves_their_order(seed: int) -> None:
    """Tiles come by their times, as if a swizzle had been sought for each; none takes less than its bound."""
    x = normalise(random_problem(random.Random(2000 + seed), 3000))
    found = plan._widened(plan._ranked(x, "sm_90")[:2], find_arch("sm_90"))
    timed = [plan._stored(stage, "sm_90") for stage in found]
    assert all(plan._least_us(stage, "sm_90") <= us for stage, (us, _) in zip(found, timed, strict=True))
    assert list(plan._by_time(found, "sm_90")) == [c for _, c in sorted(timed, key=lambda one: one[0])]


@each("seed", range(8), sample=1)
def test_what_is_kept_of_a_tile_is_what_would_be_computed(seed: int) -> None:
    x = normalise(random_problem(random.Random(3000 + seed), 3000))
    values = [name for name, value in vars(Stage).items() if isinstance(value, cached_property)]
    for config in (c for c in configs(x) if c.way == "staged"):
        stage = Stage(x, config)
        for change in (
            {"pad_bytes": 48}, {"lanes": 4}, {"swizzle": Swizzle(3, 4, 3)}, {"walk": "source"},
            {"turned": not config.turned}, {"lines": True, "threads": 96, "loading": 80, "storing": 64},
        ):  # fmt: skip
            assert all(hasattr(stage, name) for name in values)
            fresh = Stage(x, replace(config, **change))
            kept = stage.arranged(**change)
            assert [getattr(kept, name) for name in values] == [getattr(fresh, name) for name in values]


def test_folded_modes_are_cut_so_that_both_runs_are_long() -> None:
    """Neither 24 nor 375 bytes are multiples of 16: cut by 16 coordinates, one tile of 48 bytes was left."""
    stage = chosen((3, 3, 125, 20, 237, 24), (5, 4, 1, 3, 2, 0), "u8")
    within = tiles(stage.moves, 72 << 10)
    assert (3, 125, 1, 1, 6, 24) in within and stage.src_length >= 128 and stage.dst_length >= 128
    assert all(1 <= t <= m.extent for tile in within for t, m in zip(tile, stage.modes, strict=True))
