"""The plan of a transpose: layouts that cover the tile, conflict-free swizzles, fitting configurations."""

from __future__ import annotations

import functools

import pytest

from layoutalg.analysis import SharedReport, analyze
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move.matrix_plan import (
    TransposeConfig,
    accesses,
    load_copy,
    store_copy,
    tile_accesses,
)
from layoutalg.kernels.move.matrix_plan import transpose_configs as configs
from layoutalg.kernels.move.programs.matrix import transpose_problem as problem
from layoutalg.kernels.registry import find_family
from layoutalg.layout import Layout, product
from layoutalg.synthesis import check_certificate, synthesize
from tests.sweeps import each

WIDTHS = {"u8": 1, "f16": 2, "f32": 4, "f64": 8, "c128": 16}
LEADING = ((4096, 4096), (4097, 4097), (4096, 4097), (4098, 4100))


@functools.cache
def every_config() -> list[tuple[MatrixProblem, TransposeConfig]]:
    found = []
    for dtype in WIDTHS:
        for lds, ldd in LEADING:
            p = problem(4096, 4096, dtype, lds, ldd)
            found += [(p, c) for c in configs(p)]
    return found


@each(("p", "c"), every_config, ids=str, sample=18)
def test_both_thread_value_layouts_visit_every_element_once(p: MatrixProblem, c: TransposeConfig) -> None:
    everything = list(range(c.tile_m * c.tile_n))
    loads = load_copy(c, p.dtype).tidfrg("src", Layout((c.tile_m, c.tile_n)))
    stores = store_copy(c, p.dtype).tidfrg("dst", Layout((c.tile_n, c.tile_m)))
    for tv in (loads, stores):
        assert product(tv[0].shape) == c.threads
        assert sorted(tv(i) for i in everything) == everything


@each(("p", "c"), every_config, ids=str)
def test_every_configuration_is_free_of_bank_conflicts(p: MatrixProblem, c: TransposeConfig) -> None:
    for access in tile_accesses(c, p.dtype):
        report = analyze(c.layout, access)
        assert isinstance(report, SharedReport)
        assert report.conflict_free
        assert report.method == "f2"
        assert analyze(c.layout, access, method="enumerated").total == report.total  # type: ignore[union-attr]


def test_the_swizzle_carries_a_certificate() -> None:
    p = problem(4096, 4096, "f32")
    c = configs(p)[0]
    shape, pattern = (c.tile_n, c.tile_m), tile_accesses(c, p.dtype)
    found = synthesize(shape, pattern, element="f32", order="row", form="single")
    assert found.layout == c.layout
    assert check_certificate(found)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_wide_problems_move_16_bytes_a_lane_on_both_sides(dtype: str) -> None:
    c = configs(problem(16384, 16384, dtype))[0]
    assert c.src_vec * WIDTHS[dtype] == c.dst_vec * WIDTHS[dtype] == 16
    assert c.tile_m * WIDTHS[dtype] == c.tile_n * WIDTHS[dtype] == 256


def test_edges_that_cut_vectors_are_moved_element_by_element() -> None:
    assert configs(problem(1000, 1000, "f16"))[0].edges == "vectors"
    assert configs(problem(1000, 999, "f16", 1000, 1000))[0].edges == "elements"
    assert configs(problem(999, 1000, "f16", 1000, 1000))[0].edges == "elements"
    assert configs(problem(999, 999, "f16"))[0].edges == "vectors"


def test_small_problems_get_small_tiles() -> None:
    big, small = configs(problem(16384, 16384, "u8"))[0], configs(problem(600, 600, "u8"))[0]
    assert small.tile_m < big.tile_m


def test_vectors_follow_the_leading_dimensions() -> None:
    c = configs(problem(1000, 1001, "f16"))[0]
    assert (c.src_vec, c.dst_vec) == (1, 8)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_global_accesses_of_full_aligned_tiles_are_ideal(dtype: str) -> None:
    p = problem(4096, 4096, dtype)
    prediction = find_family("transpose").predict(p, configs(p)[0])
    for cost in prediction.values():
        assert cost.total == cost.ideal


def test_the_accesses_are_those_of_the_widths() -> None:
    p = problem(4096, 4096, "u8")
    c = configs(p)[0]
    ops = [access.op for _, access in accesses(c, p.dtype)]
    assert ops == ["ld.global.b128", "st.shared.b32", "ld.shared.b128", "st.global.b128"]
