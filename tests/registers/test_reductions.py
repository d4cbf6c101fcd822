"""A reduction gives every lane the result of each of its rows, for maxima and for sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from layoutalg.analysis import wavefronts
from layoutalg.errors import ShapeError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import Layout
from layoutalg.registers import Fragment, fragment, linear_fragment, reduction_of
from tests.draws.fragments import M8N8_F64, M16N8, VOLTA_F32, accumulators, conversions, matrices, wgmma
from tests.sweeps import each

Place = tuple[int, ...]


def _places(tile: Fragment) -> dict[Place, Place]:
    """(warp, lane, register) -> element, by asking for every one."""
    return {
        (w, n, r): tile.element(r, n, w)
        for w in range(tile.warps)
        for n in range(tile.lanes)
        for r in range(tile.registers)
    }


def _check(tile: Fragment, along: str, seed: int = 0) -> None:
    """Execute the reduction on random numbers, and compare with NumPy on the tensor itself."""
    axis = list(tile.layout.out_bits).index(along)
    places = _places(tile)
    held = set(places.values())
    tensor = np.random.default_rng(seed).integers(-1000, 1000, tile.shape)
    values = np.zeros((tile.warps, tile.lanes, tile.registers), tensor.dtype)
    for place, element in places.items():
        values[place] = tensor[element]
    present = np.zeros(tile.shape, bool)
    for element in held:
        present[element] = True
    report = reduction_of(tile, along=along)
    results: list[tuple[NDArray[Any], NDArray[Any]]] = [
        (report.run(values), np.where(present, tensor, -10_000).max(axis=axis)),
        (report.run(values, np.add), np.where(present, tensor, 0).sum(axis=axis)),
    ]
    for result, expected in results:
        for (w, n, r), element in places.items():
            group = next((g for g, group in enumerate(report.groups) if r in group), None)
            if group is not None:
                row = element[:axis] + element[axis + 1 :]
                assert result[w, n, group] == expected[row], (along, w, n, r)
    # Every register is in a group, or repeats one that is.
    grouped = {r for group in report.groups for r in group}
    for r in range(tile.registers):
        assert r in grouped or any(places[0, 0, r] == places[0, 0, other] for other in grouped)


TILES = [
    (M16N8, (16, 8)),
    (M8N8_F64, (8, 8)),
    (VOLTA_F32, (8, 8)),
    (accumulators(24), (16, 24)),
    (wgmma(16), (64, 16)),
    (wgmma(24), (64, 24)),
    (Layout(((4, 8, 2, 2), (2, 2)), ((64, 1, 16, 256), (32, 8))), (32, 16)),
]


@each("along", ["m", "n"])
@each(("tv", "shape"), TILES, ids=str)
def test_every_lane_gets_its_results(tv: Layout, shape: tuple[int, int], along: str) -> None:
    _check(fragment(tv, shape), along)


@st.composite
def tiles(draw: st.DrawFn) -> LinearLayout:
    """Random bijections from register, lane and warp to a tile of two or three dimensions."""
    registers, lanes, warps = (draw(st.integers(0, n)) for n in (3, 3, 2))
    bits = registers + lanes + warps
    first = draw(st.integers(0, bits))
    second = draw(st.integers(0, bits - first))
    columns = draw(matrices(bits))
    if bits and draw(st.booleans()):  # and some that repeat elements
        columns = tuple(c if draw(st.booleans()) else draw(st.sampled_from((0, *columns))) for c in columns)
    low, mid = (1 << first) - 1, (1 << second) - 1
    bases = [(c & low, c >> first & mid, c >> (first + second)) for c in columns]
    outs = {"m": 1 << first, "n": 1 << second, "k": 1 << (bits - first - second)}
    ends = (registers, registers + lanes)
    ins = {"register": bases[: ends[0]], "lane": bases[ends[0] : ends[1]], "warp": bases[ends[1] :]}
    return LinearLayout(ins, outs)


@given(tiles(), st.sampled_from(("m", "n", "k")), st.integers(0, 99))
def test_any_linear_layout_is_reduced(layout: LinearLayout, along: str, seed: int) -> None:
    _check(linear_fragment(layout), along, seed)


@given(conversions())
def test_layouts_that_repeat_elements_are_reduced(pair: tuple[LinearLayout, LinearLayout]) -> None:
    for layout in pair:
        _check(linear_fragment(layout), "n")


@each(
    ("tv", "shape", "along", "results", "own", "distances", "warps"),
    [
        (M16N8, (16, 8), "n", 2, 2, (1, 2), 1),
        (M16N8, (16, 8), "m", 2, 2, (4, 8, 16), 1),
        (VOLTA_F32, (8, 8), "n", 2, 6, (2,), 1),
        (wgmma(64), (64, 64), "n", 2, 30, (1, 2), 1),
        (wgmma(96), (64, 96), "n", 2, 46, (1, 2), 1),
        (wgmma(96), (64, 96), "m", 24, 24, (4, 8, 16), 4),
    ],
)
def test_what_a_row_maximum_costs(
    tv: Layout, shape: tuple[int, int], along: str, results: int, own: int, distances: Any, warps: int
) -> None:
    report = reduction_of(fragment(tv, shape), along=along)
    assert (len(report.groups), report.lane_operations, report.warps_together) == (results, own, warps)
    assert tuple(e.distance for e in report.exchanges) == distances
    assert report.shuffles == results * len(distances)
    assert report.operations == own + report.shuffles + results * (warps - 1)
    assert report.barriers == (warps > 1)
    if warps > 1:
        assert report.shared_bytes == 4 * warps * shape[1 if along == "m" else 0]


def test_shared_memory_is_counted_by_the_definition() -> None:
    """Columns of a wgmma accumulator: 4 lanes write 4 words for each group, and read those of 3 warps."""
    tile = fragment(wgmma(16), (64, 16))
    report = reduction_of(tile, along="m")
    served = 0
    for group in report.groups:
        offsets = [4 * tile.element(group[0], lane, 0)[1] for lane in range(32)]
        served += wavefronts("st.shared.b32", offsets) + 3 * wavefronts("ld.shared.b32", offsets)
    assert report.wavefronts == served == 4 * len(report.groups)


def test_one_line_says_it() -> None:
    assert str(reduction_of(linear_fragment(LinearLayout({"register": [1]}, {"n": 2})), along="n")) == (
        "along n, 1 results per lane: 1 operations on own registers, no shuffles, no shared memory"
    )


def test_a_dimension_that_there_is_not_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"there is no dimension 'k'; there are m, n"):
        reduction_of(fragment(M16N8, (16, 8)), along="k")
