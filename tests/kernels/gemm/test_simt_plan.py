"""Configurations of the SIMT GEMM as data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.tiles import operand_tile
from layoutalg.kernels.gemm.validate import multiples
from layoutalg.kernels.ladder.steps import SIMT_LADDER as LADDER

ROW_MAJOR = gemm_problem(1024, 1024, 1024, "f32", b_major="mn")


def test_the_ladder_has_the_eight_versions_and_the_steps_after_them() -> None:
    assert list(LADDER)[:8] == [f"v{i}" for i in range(1, 9)]
    assert len(LADDER) == 13


@pytest.mark.parametrize(
    ("name", "threads", "order"),
    [("v1", 1024, "k"), ("v2", 1024, "k"), ("v5", 256, "mn"), ("v8", 256, "mn"), ("wide", 256, "mn")],
)
def test_threads_and_orders(name: str, threads: int, order: str) -> None:
    c = LADDER[name]
    assert (c.threads, c.order) == (threads, order)


def test_the_stored_order_decides_who_is_turned() -> None:
    turned = {
        name: tuple(operand_tile(ROW_MAJOR, config, side).turned for side in ("a", "b"))
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
    assert multiples(ROW_MAJOR, LADDER["v8"]) == (128, 128, 8)
