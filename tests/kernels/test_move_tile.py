"""The tile of a permute: runs long enough, modes whole where little would be left, nothing too large."""

from __future__ import annotations

import random
from math import prod

import pytest

from layoutalg.kernels.move.plan import RUN_BYTES, TILE_BYTES, choose_tile, even_part
from layoutalg.kernels.move.problem import Moves, normalise, permute_problem
from tests.permutations import random_problem
from tests.sweeps import each

SMS = 132


def chosen(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return choose_tile(normalise(permute_problem(shape, axes, dtype)), RUN_BYTES, SMS)


@pytest.mark.parametrize(
    ("dtype", "shape", "axes", "tile"),
    [
        ("f32", (524288, 120), (1, 0), (64, 120)),
        ("f16", (1, 232, 24, 1368, 7), (4, 0, 2, 1, 3), (1368, 1, 1, 7)),
    ],
)
def test_modes_are_taken_whole_where_little_would_be_left(
    dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], tile: tuple[int, ...]
) -> None:
    assert chosen(dtype, shape, axes) == tile


@pytest.mark.parametrize(
    ("dtype", "shape", "axes", "tile"),
    [
        ("f32", (2, 3, 5, 110718, 2, 11), (2, 4, 5, 0, 3, 1), (3, 168, 1, 22, 1)),
        ("f16", (2, 3, 5, 110718, 2, 11), (2, 4, 5, 0, 3, 1), (3, 160, 1, 22, 1)),
        ("f16", (96, 96, 96, 96), (3, 2, 1, 0), (96, 1, 2, 96)),
        ("u8", (96, 96, 96, 96), (3, 2, 1, 0), (96, 1, 3, 96)),
    ],
)
def test_runs_are_longer_where_a_tile_can_afford_them(
    dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], tile: tuple[int, ...]
) -> None:
    assert chosen(dtype, shape, axes) == tile


@each("seed", range(60))
def test_tiles_fit_their_modes_and_shared_memory(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 100_000))
    tile = choose_tile(x, RUN_BYTES, SMS)
    assert all(1 <= t <= m.extent for t, m in zip(tile, x.modes, strict=True))
    assert held_bytes(x, tile) <= TILE_BYTES[1]


def held_bytes(x: Moves, tile: tuple[int, ...]) -> int:
    return x.element_bytes * prod(t for m, t in zip(x.modes, tile, strict=True) if m.src)


def test_small_problems_are_cut_for_all_multiprocessors() -> None:
    tile = chosen("f32", (1024, 512), (1, 0))
    assert -(-512 // tile[1]) * -(-1024 // tile[0]) >= SMS


@each("lead", [0, 3, 7])
@each("step", [1, 4, 8])
def test_even_parts_cover_the_mode_and_its_lead_in_no_more_parts(step: int, lead: int) -> None:
    for extent in range(1, 300):
        part = even_part(extent, 64, step, lead)
        assert part == extent if extent <= 64 else part % step == 0
        if extent > 64:
            assert -(-(extent + lead) // part) == -(-extent // part) or part > 64 - step
