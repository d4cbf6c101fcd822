"""Intensities are operations over bytes, counted; the bound is the least of what each level allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import ARCHS, T4_ACHIEVED, Board, Rates, board_rates
from layoutalg.dtype import dtype
from layoutalg.errors import ShapeError, UnknownNameError
from layoutalg.model import balance_point, gemm_intensities, mean_rate, roofline_of, tile_intensity
from layoutalg.model.roofline import LEVELS
from tests.sweeps import each

SIDES = st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(SIDES, st.integers(1, 3), st.sampled_from(("u8", "f16", "f32", "f64")))
def test_intensity_counts_what_a_tile_does_and_takes(tile: tuple[int, int], k: int, element: str) -> None:
    m, n = tile
    flops = sum(2 for _ in range(m) for _ in range(n) for _ in range(k))
    taken = {("A", i, p) for i in range(m) for p in range(k)} | {
        ("B", p, j) for p in range(k) for j in range(n)
    }
    assert math.isclose(tile_intensity(tile, element), flops / (len(taken) * dtype(element).nbytes))


@given(
    st.dictionaries(st.sampled_from(LEVELS), st.floats(0.01, 1e4), min_size=1),
    st.sampled_from(("tensor", "f32")),
)
def test_the_bound_is_the_least_of_all(intensities: dict[str, float], unit: str) -> None:
    report = roofline_of(T4_ACHIEVED, intensities, unit)
    peak = T4_ACHIEVED.units[unit]
    allowed = {k: T4_ACHIEVED.levels[k] * i for k, i in intensities.items() if k in T4_ACHIEVED.levels}
    assert report.flops_per_s == min([peak, *allowed.values()])
    assert set(report.unknown) == set(intensities) - set(allowed)
    if report.limiting == unit:
        assert all(rate >= peak for rate in allowed.values()) and report.flops_per_s == peak
    else:
        assert allowed[report.limiting] == report.flops_per_s < peak
    for bound in report.bounds:
        assert bound.limits == (bound.intensity < balance_point(T4_ACHIEVED, bound.level, unit))
        assert bound.flops_per_s == min(peak, allowed[bound.level])


def test_a_level_at_its_balance_point_does_not_limit() -> None:
    toy = Rates("toy", {"f32": 64.0}, {"dram": 8.0}, "made up")
    assert balance_point(toy, "dram", "f32") == 8.0
    assert roofline_of(toy, {"dram": 8.0}, "f32").limiting == "f32"
    report = roofline_of(toy, {"dram": 7.5}, "f32")
    assert (report.limiting, report.flops_per_s) == ("dram", 60.0)


def product(block: tuple[int, int], instruction: tuple[int, int], **more: float) -> Mapping[str, float]:
    return gemm_intensities(block=block, warp=(64, 64), instruction=instruction, element="f16", **more)


def test_every_level_of_a_product_has_its_tile() -> None:
    levels = product((128, 256), (16, 8), l2_reuse=2.0)
    tiles = {"l2": (128, 256), "shared": (64, 64), "registers": (16, 8)}
    assert {k: levels[k] for k in tiles} == {k: tile_intensity(t, "f16") for k, t in tiles.items()}
    assert levels["dram"] == 2 * levels["l2"] and tuple(levels) == LEVELS


@each("board", [a.board for a in ARCHS.values() if a.board], ids=lambda b: b.name)
def test_every_board_has_a_roofline(board: Board) -> None:
    rates = board_rates(board)
    for unit in rates.units:
        report = roofline_of(rates, {"dram": 1.0, "l2": 1.0}, unit)
        assert report.limiting == "dram" and report.unknown == ("l2",)
        assert report.flops_per_s == board.dram_bytes_per_s
    assert rates.source == board.source


def test_a_rate_that_no_data_sheet_states_is_not_answered() -> None:
    board = ARCHS["sm_87"].board
    assert board is not None and board.f16_tensor_flops_per_s is None
    with pytest.raises(UnknownNameError, match=r"unknown unit 'tensor': accepted are f32"):
        roofline_of(board_rates(board), {"dram": 10.0})


@each(
    ("error", "part", "call"),
    [
        (ShapeError, r"into tiles of \(48, 8\)", lambda: product((128, 128), (48, 8))),
        (ShapeError, "l2_reuse is 0.5", lambda: product((64, 64), (16, 8), l2_reuse=0.5)),
        (ShapeError, "two positive integers", lambda: tile_intensity((0, 8), "f16")),
        (ShapeError, "intensity at dram is nan", lambda: roofline_of(T4_ACHIEVED, {"dram": math.nan})),
        (ShapeError, "hit_rate is 1.5", lambda: mean_rate(1.5, 1.0, 1.0)),
        (UnknownNameError, "unit 'int8'", lambda: roofline_of(T4_ACHIEVED, {"dram": 1.0}, "int8")),
        (UnknownNameError, "level 'l1'", lambda: roofline_of(T4_ACHIEVED, {"l1": 1.0})),
        (UnknownNameError, "level 'registers'", lambda: balance_point(T4_ACHIEVED, "registers")),
    ],
)
def test_what_makes_no_sense_is_refused(
    error: type[Exception], part: str, call: Callable[[], object]
) -> None:
    with pytest.raises(error, match=part):
        call()


def test_rates_are_read_only() -> None:
    with pytest.raises(TypeError):
        T4_ACHIEVED.units["tensor"] = 1.0  # type: ignore[index]
    assert hash(T4_ACHIEVED) == hash(T4_ACHIEVED)
