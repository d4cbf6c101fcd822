"""The model of times: blocks in rounds, parts with fewer tiles, and which parts are tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ResourceError
from layoutalg.kernels.gemm.choice import heuristic
from layoutalg.kernels.gemm.choice.tables import Sums, Tile
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.tiles import Sm80Config, tile_count

CONFIG = Sm80Config(128, 128, 64, 2, 2, 3)
TILE = Tile(CONFIG, (100.0, 150.0), (1000.0, 1200.0))
SUMS = Sums(2000.0, 0.001)


def test_time_is_counted_in_rounds() -> None:
    def ns(m: int, n: int) -> float:
        return heuristic.expected_ns(gemm_problem(m, n, 1024), CONFIG, TILE, SUMS, 2)

    assert ns(128, 256) == 16 * 100 + 1000  # one block on each of two multiprocessors
    assert ns(128, 257) == ns(256, 256) == 16 * 150 + 1200  # two on the busiest
    assert ns(128, 128 * 5) == ns(256, 256) + ns(128, 128)


def test_parts_have_fewer_tiles_and_cost_their_sums() -> None:
    p, split = gemm_problem(128, 128, 1024), Sm80Config(128, 128, 64, 2, 2, 3, splits=2)
    assert heuristic.expected_ns(p, split, TILE, SUMS, 2) == 8 * 100 + 1000 + 2000 + 2 * 128 * 128 * 4 * 0.001


def test_narrow_copies_take_longer() -> None:
    p, tile = gemm_problem(128, 128, 1024), Tile(CONFIG, (100.0,), (1000.0,), 2.0)
    narrow = Sm80Config(128, 128, 64, 2, 2, 3, a_bytes=2, via="registers")
    assert heuristic.expected_ns(p, narrow, tile, SUMS, 2) == 2 * heuristic.expected_ns(
        p, CONFIG, tile, SUMS, 2
    )


EXTENT = st.integers(1, 20000)


@given(EXTENT, EXTENT, EXTENT)
def test_offered_parts_are_long_enough_and_not_too_many(m: int, n: int, k: int) -> None:
    p = gemm_problem(m, n, k)
    found = heuristic.offered_splits(p, CONFIG, 132)
    assert found[0] == 1 and set(found) <= set(heuristic.OFFERED)
    for s in found[1:]:
        assert s * heuristic.LEAST_K <= k and s * tile_count(p, CONFIG) <= heuristic.MOST_ROUNDS * 132
    assert heuristic.offered_splits(gemm_problem(m, n, k, accumulator="f16"), CONFIG, 132) == (1,)


@given(
    EXTENT, EXTENT, EXTENT, st.sampled_from(["f16", "bf16", "f32"]), st.sampled_from(["k", "mn"]),
    st.sampled_from(["sm_80", "sm_90"]), st.sampled_from([8, 1]),
)  # fmt: skip
def test_the_fastest_is_the_first_of_all(
    m: int, n: int, k: int, dtype: str, major: Any, arch: str, line: int
) -> None:
    """Rules of a problem, and tiles that are asked in the order of their times, change nothing."""
    p = gemm_problem(m, line * n, line * k, dtype, b_major=major)
    for choice in (heuristic.SIMT,) if dtype == "f32" else (heuristic.SM80, heuristic.SM90):
        found = choice.timed(p, arch)[0]
        assert choice.fastest(p, arch) == (found[0] if found else None)


@pytest.mark.parametrize("choice", [heuristic.SM80, heuristic.SM90])
@pytest.mark.parametrize(("m", "n"), [(64, 1000), (4096, 4096), (256, 64)])
def test_configurations_of_a_product_print_differently(choice: heuristic.Choice[Any], m: int, n: int) -> None:
    """Parts of k among them: tables of times list them beside each other."""
    found = choice.configs(gemm_problem(m, n, 4096))
    assert len({str(config) for config in found}) == len(found)


def test_what_fits_no_tile_is_refused_as_the_last_tile_refuses_it() -> None:
    choice = heuristic.Choice(
        (TILE, TILE), heuristic.clock_by(SUMS), lambda p, c, chip: replace(c, stages=16), ()
    )
    with pytest.raises(ResourceError, match="16 stages: 524288 asked"):
        choice.configs(gemm_problem(128, 128, 64))


@pytest.mark.parametrize("module", [heuristic.SIMT, heuristic.SM80])
def test_more_blocks_together_take_longer(module: Any) -> None:
    for tile in module.tiles:
        assert len(tile.step) == len(tile.block) >= tile.config.min_blocks
        assert list(tile.step) == sorted(tile.step) and min(tile.block) >= 0
