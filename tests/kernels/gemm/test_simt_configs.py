"""The choice among tiles: it always fits, and follows the number of blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layoutalg.codegen.program.checks import check
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, gemm_problem, operand_tile
from layoutalg.kernels.gemm.choice.heuristic import SIMT
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.programs.simt import build
from layoutalg.kernels.gemm.validate import multiples
from layoutalg.kernels.ladder.steps import SIMT_LADDER as LADDER
from tests.kernels.gemm.cases import arguments, expected, simulated
from tests.sweeps import each


@each("arch", ["sm_75", "sm_80", "sm_90"], sample=1)
@each("dtype", ["f32", "f64"], sample=1)
def test_every_configuration_passes_the_grammar(dtype: str, arch: str) -> None:
    p = gemm_problem(1000, 1001, 999, dtype, b_major="mn", reads_c=True, bias=True, activation="relu")
    found = SIMT.configs(p, arch)
    parts = next(c for c in found if c.splits > 1)
    for c in (*(c for c in found if c.splits == 1), parts):
        check(build(p, c), arch)


@each("number", range(len(SIMT.tiles)), sample=2)
def test_every_tile_multiplies(number: int) -> None:
    c = SIMT.tiles[number].config
    p = gemm_problem(c.tile_m - 3, c.tile_n + 4, 2 * c.tile_k + 1, "f32", b_major="mn")
    chosen = next(
        x for x in SIMT.configs(p) if (x.tile_m, x.tile_n, x.thread_m) == (c.tile_m, c.tile_n, c.thread_m)
    )
    args = arguments(p)
    np.testing.assert_array_equal(simulated(launches(p, chosen), args)[0], expected(p, args))


def test_large_products_take_the_tile_with_the_most_reuse_and_small_ones_many_blocks() -> None:
    def first(n: int) -> int:
        c = SIMT.configs(gemm_problem(n, n, n, "f32", b_major="mn"))[0]
        return c.tile_m * c.tile_n

    sizes = [first(n) for n in (128, 512, 1024, 4096)]
    assert sizes == sorted(sizes) and sizes[-1] == 128 * 256


def test_other_types_are_refused() -> None:
    p: GemmProblem = gemm_problem(64, 64, 64, "f16")
    with pytest.raises(UnsupportedError, match="f32 and f64"):
        SIMT.configs(p)


LARGE = gemm_problem(1024, 1024, 1024, "f32", b_major="mn")


def test_the_ladder_has_the_eight_versions_and_the_steps_after_them() -> None:
    assert list(LADDER)[:8] == [f"v{i}" for i in range(1, 9)] and len(LADDER) == 13


@pytest.mark.parametrize(
    ("name", "threads", "order"),
    [("v1", 1024, "k"), ("v2", 1024, "k"), ("v5", 256, "mn"), ("v8", 256, "mn"), ("wide", 256, "mn")],
)
def test_threads_and_orders(name: str, threads: int, order: str) -> None:
    c = LADDER[name]
    assert (c.threads, c.order) == (threads, order)


def test_the_stored_order_decides_who_is_turned() -> None:
    turned = {
        name: tuple(operand_tile(LARGE, config, side).turned for side in ("a", "b"))
        for name, config in {
            **LADDER,
            "turned": replace(LADDER["v2"], order="turned"),
            "matrix": replace(LADDER["v2"], order="matrix"),
        }.items()
        if name in ("v2", "v4", "v7", "turned", "matrix")
    }
    assert turned == {
        "v2": (False, True), "v4": (True, False), "v7": (True, False), "turned": (True, True),
        "matrix": (False, False),
    }  # fmt: skip


def test_sizes_are_multiples_of_the_tile_without_edges() -> None:
    assert multiples(LARGE, LADDER["v8"]) == (128, 128, 8)
