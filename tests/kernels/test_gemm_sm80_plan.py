"""Mappings of the tensor-core GEMM: each covers its tile once; the layouts found have no bank conflicts."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.decide import is_bijective
from layoutalg.dtype import dtype
from layoutalg.kernels.gemm.problem import Major, gemm_problem
from layoutalg.kernels.gemm.sm80_plan import (
    LADDER,
    Sm80Config,
    copy_tv,
    matrix_tv,
    mma_of,
    operand_accesses,
    stage_layout,
    stage_load_tv,
    stage_store_tv,
    tile_layout,
)
from layoutalg.kernels.gemm.sm80_rules import check_config
from layoutalg.layout import product
from tests.sweeps import each

MAJORS: tuple[Major, Major] = ("k", "mn")


@each("major", MAJORS)
@each(("rows", "tile_k", "vec", "threads"), [(128, 32, 8, 256), (64, 64, 1, 128), (256, 64, 4, 512)])
def test_a_copy_moves_each_element_once(rows: int, tile_k: int, vec: int, threads: int, major: Major) -> None:
    tv = copy_tv(rows, tile_k, major, vec, threads)
    assert product(tv[0].shape) == threads and product(tv[1].shape) == vec
    assert is_bijective(tv) and product(tv.shape) == rows * tile_k


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_ldmatrix_is_given_each_element_once(turned: bool, paired: bool) -> None:
    tv = matrix_tv(128, 64, 32, 8, turned=turned, paired=paired)
    assert is_bijective(tv) and product(tv.shape) == 128 * 64


def test_the_matrices_of_ldmatrix_are_in_the_order_of_the_fragments() -> None:
    """A: row half before k half; two fragments of B: k half before row half."""
    lane = np.arange(0, 32, 8)
    a = matrix_tv(16, 16, 16, 8, turned=False, paired=False)(lane, 0, 0, 0)
    b = matrix_tv(16, 16, 16, 8, turned=False, paired=True)(lane, 0, 0, 0)
    assert a.tolist() == [0, 8, 16 * 8, 16 * 8 + 8] and b.tolist() == [0, 16 * 8, 8, 16 * 8 + 8]


@each("vec", [1, 2, 4, 8])
@each("warp_n", [16, 32, 64, 128])
def test_the_stage_is_written_and_read_once_and_without_conflicts(warp_n: int, vec: int) -> None:
    store, load = stage_store_tv(warp_n), stage_load_tv(warp_n, vec)
    assert is_bijective(store) and is_bijective(load)
    assert product(store.shape) == product(load.shape) == 16 * warp_n
    layout = stage_layout(warp_n, vec)
    for op, tv in (("st.shared.b64", store), (f"ld.shared.b{32 * min(vec, 4)}", load)):
        report = analyze(layout, Access(op, tv, dtype("f32")))
        assert isinstance(report, SharedReport) and report.conflict_free, (op, str(layout))


@each("b_major", MAJORS)
@each("a_major", MAJORS)
@each(
    "config",
    [Sm80Config(128, 256, 64, 2, 4, 4), Sm80Config(64, 64, 32, 2, 2, 3),
     Sm80Config(256, 128, 32, 4, 2, 2, via="registers")], ids=str,
)  # fmt: skip
def test_tiles_have_no_bank_conflicts(config: Sm80Config, a_major: Major, b_major: Major) -> None:
    p = gemm_problem(256, 256, 64, a_major=a_major, b_major=b_major)
    sides: tuple[Literal["a"], Literal["b"]] = ("a", "b")
    for side in sides:
        layout = tile_layout(p, config, side)
        for access in operand_accesses(p, config, side):
            report = analyze(layout, access)
            assert isinstance(report, SharedReport) and report.conflict_free, (side, access.op, str(layout))


def test_the_ladder_is_made_of_configurations_that_work() -> None:
    for name, config in LADDER.items():
        check_config(gemm_problem(512, 512, 512), config)
        assert mma_of(gemm_problem(512, 512, 512), config).k == (8 if name[0] in "123456" else 16)
