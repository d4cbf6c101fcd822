"""Configurations of the SIMT GEMM as data."""

from __future__ import annotations

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
    [
        ("v1", 1024, "turned"),
        ("v2", 1024, "turned"),
        ("v5", 256, "matrix"),
        ("v8", 256, "mn"),
        ("wide", 256, "mn"),
    ],
)
def test_threads_and_orders(name: str, threads: int, order: str) -> None:
    c = LADDER[name]
    assert (c.threads, c.order) == (threads, order)


def test_the_stored_order_decides_who_is_turned() -> None:
    turned = {
        name: tuple(operand_tile(ROW_MAJOR, LADDER[name], side).turned for side in ("a", "b"))
        for name in ("v2", "v4", "v7")
    }
    assert turned == {"v2": (True, True), "v4": (False, False), "v7": (True, False)}


def test_sizes_are_multiples_of_the_tile_without_edges() -> None:
    assert multiples(ROW_MAJOR, LADDER["v8"]) == (128, 128, 8)
