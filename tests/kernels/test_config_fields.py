"""Fields of configurations: what is refused, and what is near."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.gemm.times import SIMT_TILES, SM80_TILES
from layoutalg.kernels.identity import check_fields, difference, distance, nearest, neighbours
from tests.sweeps import each

GOOD, KNOWN = Sm80Config(128, 256, 64, 2, 4, 4), SM80_TILES


def test_every_offered_tile_has_sensible_fields() -> None:
    for config in (*KNOWN, *SIMT_TILES):
        check_fields(config)


@each(
    ("change", "error", "message"),
    [
        ({"tile_m": 0}, ShapeError, "at least 1 is needed"), ({"panel": -8}, ShapeError, "panel = -8"),
        ({"min_blocks": 0}, ShapeError, "min_blocks = 0"), ({"mma_k": -1}, ShapeError, "at least 0"),
        ({"tile_m": 128.0}, ArgumentTypeError, "tile_m = 128.0: int"),
        ({"stages": True}, ArgumentTypeError, "True: int"), ({"edges": 1}, ArgumentTypeError, "1: bool"),
        ({"via": "tma"}, UnsupportedError, "'cp.async' and 'registers' are"),
        ({"via": None}, UnsupportedError, "None"),
        ({"mma_m": 3}, UnsupportedError, "16 and 8"), ({"mma_m": True}, UnsupportedError, "True"),
    ],
)  # fmt: skip
def test_senseless_fields_are_refused_by_name(change: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        check_fields(replace(GOOD, **change))


def test_half_and_twice_are_as_near() -> None:
    half, twice = replace(GOOD, tile_k=32), replace(GOOD, tile_k=128)
    assert distance(GOOD, half) == distance(GOOD, twice) == (1, 1.0)
    assert distance(GOOD, GOOD) == (0, 0) and difference(GOOD, half) == {"tile_k": 32}


def test_neighbours_come_by_distance_and_change_as_much_as_asked() -> None:
    for changes in (1, 2):
        near = list(neighbours(GOOD, KNOWN, changes))
        steps = [distance(GOOD, x) for x in near]
        assert {n for n, _ in steps} == {changes} and steps == sorted(steps) and len(set(near)) == len(near)


def test_the_nearest_is_the_nearest_of_all_neighbours() -> None:
    def works(c: Sm80Config) -> bool:
        return c.stages * c.tile_n <= 640 and c.warps_n * 32 <= c.tile_n

    found = nearest(replace(GOOD, stages=5), KNOWN, works)
    assert found is not None and works(found)
    one = [x for x in neighbours(replace(GOOD, stages=5), KNOWN, 1) if works(x)]
    assert one and distance(replace(GOOD, stages=5), found) == min(
        distance(replace(GOOD, stages=5), x) for x in one
    )


def test_where_no_neighbour_works_a_known_one_does_or_none() -> None:
    strange = replace(GOOD, tile_m=1, tile_n=1, tile_k=1, warps_m=1)
    known = KNOWN[-1]
    assert nearest(strange, [known], lambda c: c == known) == known
    assert nearest(strange, [known], lambda c: False) is None
