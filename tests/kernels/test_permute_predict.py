"""Predictions by classes of blocks equal those block by block; the bound is the slower unit."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from layoutalg.arch import find_arch
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.move.partition import block_origins
from layoutalg.kernels.move.permute_predict import (
    block_classes,
    bounds,
    copy_sectors,
    needed_wavefronts,
    predict,
)
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from tests.permutations import random_problem
from tests.sweeps import each


@each("seed", range(25))
def test_classes_cover_all_blocks(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 20000))
    for c in configs(x):
        stage = Stage(x, c)
        classes = block_classes(stage)
        assert sum(k.count for k in classes) == stage.blocks
        every = {tuple(block_origins(stage, b)) for b in range(stage.blocks)}
        assert {k.origins for k in classes} <= every


def test_a_large_problem_takes_a_few_classes() -> None:
    x = normalise(permute_problem((1 << 16, 1 << 16), (1, 0), "f32"))
    stage = Stage(x, configs(x)[0])
    assert stage.blocks == 1 << 20 and len(block_classes(stage)) == 1


def test_sectors_of_an_aligned_transpose_are_ideal() -> None:
    x = normalise(permute_problem((4096, 4096), (1, 0), "f16"))
    found = predict(x, configs(x)[0])
    for op in ("cp.async.16:global", "st.global.b128"):
        assert found[op].total == found[op].ideal == 4096 * 4096 * 2 // 32


def test_the_bound_is_memory_for_a_plain_transpose() -> None:
    x = normalise(permute_problem((4096, 4096), (1, 0), "u8"))
    first, second = bounds(x, predict(x, configs(x)[0]))
    assert first.unit == "bytes of memory" and first.least_us >= second.least_us
    with pytest.raises(UnsupportedError, match="no board"):
        bounds(x, {}, replace(find_arch("sm_90"), board=None))


def test_copies_bring_whole_sectors_once_and_halves_twice() -> None:
    """Rows of whole sectors cost what loads cost; rows from halves on cost a sector a lane."""
    for columns, apart in ((64, 1), (68, 1.5)):
        x = normalise(permute_problem((64, columns), (1, 0), "f32"))
        config = PermuteConfig("staged", (64, 64), 256, 4, 4)
        loads = predict(x, config)["cp.async.16:global"].total
        tags, arriving = copy_sectors(x, config) or (0, 0)
        assert loads <= tags <= arriving <= apart * loads
        assert (tags == loads) == (arriving == loads) == (columns == 64)


def test_only_copies_of_16_bytes_are_counted_apart() -> None:
    x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    assert copy_sectors(x, PermuteConfig("staged", (64, 64), 256, 4, 4, via="registers")) is None
    assert copy_sectors(x, PermuteConfig("staged", (64, 64), 256, 1, 4)) is None


def test_whole_vectors_are_needed_whole() -> None:
    """An H200 counted 4550 of 4560 for the cut tile: the compiler had moved one load of four."""
    for shape, axes, fewer in (((64, 64), (1, 0), 0), ((5, 60, 60, 3), (0, 3, 1, 2), 40)):
        x = normalise(permute_problem(shape, axes, "f32"))
        config = PermuteConfig("staged", (64, 64) if len(shape) == 2 else (64, 3, 1), 64, 4, 4)
        assert predict(x, config)["ld.shared.b32"].total - needed_wavefronts(x, config) == fewer
    direct = normalise(permute_problem((4, 64, 16, 32), (0, 2, 1, 3), "f32"))
    assert needed_wavefronts(direct, configs(direct)[0]) == 0


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "config", "tags"),
    [
        ((5, 60, 60, 3), (0, 3, 1, 2), "u8", PermuteConfig("staged", (240, 3, 1), 64, 16, 16), 1929),
        ((5, 3, 60, 60), (0, 2, 3, 1), "u8", PermuteConfig("staged", (3, 240, 1), 64, 16, 16), 1995),
    ],
)
def test_tags_of_rows_that_start_inside_sectors_are_those_counted(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, config: PermuteConfig, tags: int
) -> None:
    """By an H200; the rule of loads gives 1762 and 1837."""
    found = copy_sectors(normalise(permute_problem(shape, axes, dtype)), config)
    assert found is not None and found[0] == tags
