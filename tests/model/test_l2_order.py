"""Panels that a wave of blocks shares: bands counted in closed form are bands counted as sets."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import (
    ArgumentTypeError,
    NotInjectiveError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.model import best_band, block_place, l2_locality
from tests.sweeps import each


@st.composite
def walks(draw: st.DrawFn) -> tuple[tuple[int, int], int, int, tuple[int, int]]:
    """A grid, a band height, blocks in flight and a tile."""
    grid = (draw(st.integers(1, 20)), draw(st.integers(1, 20)))
    flight = draw(st.integers(1, 60))
    return grid, draw(st.integers(1, grid[0])), flight, (draw(st.integers(1, 4)), draw(st.integers(1, 4)))


@given(walks())
def test_bands_visit_every_tile_once(walk: tuple[tuple[int, int], int, int, tuple[int, int]]) -> None:
    (rows, columns), band, _, _ = walk
    places = [block_place((rows, columns), band, block) for block in range(rows * columns)]
    assert set(places) == {(i, j) for i in range(rows) for j in range(columns)}
    # A band is finished before the next begins, and is walked column by column.
    assert places == sorted(places, key=lambda place: (place[0] // band, place[1], place[0]))


@given(walks())
def test_the_closed_form_is_the_count(walk: tuple[tuple[int, int], int, int, tuple[int, int]]) -> None:
    grid, band, flight, tile = walk
    closed = l2_locality(grid, in_flight=flight, order=band, tile=tile)
    counted = l2_locality(grid, in_flight=flight, order=band, tile=tile, method="enumerated")
    assert (closed.method, counted.method) == ("bands", "enumerated")
    assert (closed.a_panels, closed.b_panels, closed.waves) == (
        counted.a_panels, counted.b_panels, counted.waves,
    )  # fmt: skip
    assert closed.reuse >= 1 and 0 <= closed.hit_rate < 1


@given(walks())
def test_reuse_is_bytes_loaded_over_bytes_fetched(
    walk: tuple[tuple[int, int], int, int, tuple[int, int]],
) -> None:
    """The definition, in bytes: each block loads a panel of either matrix, each wave fetches a panel once."""
    (rows, columns), band, flight, (m, n) = walk
    loaded = fetched = 0
    blocks = range(rows * columns)
    for start in blocks[::flight]:
        wave = [block_place((rows, columns), band, b) for b in blocks[start : start + flight]]
        loaded += sum(m + n for _ in wave)
        fetched += sum({("A", i): m for i, _ in wave}.values()) + sum({("B", j): n for _, j in wave}.values())
    found = l2_locality((rows, columns), in_flight=flight, order=band, tile=(m, n))
    assert math.isclose(found.reuse, loaded / fetched)
    assert math.isclose(found.hit_rate, 1 - fetched / loaded, abs_tol=1e-12)


@pytest.mark.parametrize(("order", "band"), [("row", 1), ("col", 12)])
def test_rows_and_columns_are_bands(order: str, band: int) -> None:
    named = l2_locality((12, 7), in_flight=5, order=order)  # type: ignore[arg-type]
    assert named == l2_locality((12, 7), in_flight=5, order=band)


@pytest.mark.parametrize("band", [1, 2, 4])
def test_bands_that_divide_the_grid_are_layouts(band: int) -> None:
    order = Layout((band, 8, 4 // band), (1, 4, band))
    assert [divmod(order(b), 4)[::-1] for b in range(32)] == [block_place((4, 8), band, b) for b in range(32)]
    for flight in (1, 3, 8, 13, 32):
        a = l2_locality((4, 8), in_flight=flight, order=order)
        b = l2_locality((4, 8), in_flight=flight, order=band)
        assert (a.method, a.a_panels, a.b_panels) == ("enumerated", b.a_panels, b.b_panels)


def test_a_swizzled_order_is_an_order() -> None:
    order = ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1)))
    found = l2_locality((4, 4), in_flight=4, order=order)
    assert found.a_panels + found.b_panels == sum(
        len({order(b) % 4 for b in wave}) + len({order(b) // 4 for b in wave})
        for wave in (range(s, s + 4) for s in range(0, 16, 4))
    )


@given(st.integers(1, 14), st.integers(1, 14), st.integers(1, 40))
def test_no_band_beats_the_best(rows: int, columns: int, flight: int) -> None:
    best = l2_locality((rows, columns), in_flight=flight, order=best_band((rows, columns), in_flight=flight))
    for band in range(1, rows + 1):
        assert best.panels <= l2_locality((rows, columns), in_flight=flight, order=band).panels


@each(
    ("options", "error", "part"),
    [
        ({"order": 5}, ShapeError, "higher than the grid's 4"),
        ({"in_flight": 0}, ShapeError, "in_flight is 0"),
        ({"order": Layout((4, 2))}, ShapeError, "onto the 16 tiles"),
        ({"order": Layout((4, 4), (1, 0))}, NotInjectiveError, "tile 0 twice, as block 0 and as block 4"),
        ({"order": "rows"}, UnknownNameError, "block order 'rows'"),
        ({"method": "fast"}, UnknownNameError, "method 'fast'"),
        ({"order": Layout((4, 4)), "method": "bands"}, UnsupportedError, "only band heights"),
        ({"in_flight": 2.5}, ArgumentTypeError, "2.5"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        l2_locality((4, 4), **{"in_flight": 2, **options})
    with pytest.raises(ShapeError, match="outside the 16 blocks"):
        block_place((4, 4), 2, 16)
