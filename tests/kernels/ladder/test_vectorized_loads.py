"""Loads that the compiler makes vectors of: as programs with vectors load, and as hardware counted them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from layoutalg.codegen.costs import Costs, Prediction, traffic
from layoutalg.kernels.gemm import GemmProblem, gemm_problem
from layoutalg.kernels.ladder.counters import vectorized_loads
from layoutalg.kernels.ladder.sgemm import parts, reading, tile_layout
from layoutalg.kernels.ladder.steps import SIMT_LADDER as LADDER
from layoutalg.layout import Layout
from tests.kernels.ladder.test_counters import launched
from tests.sweeps import each

COUNTED = {"v7": 121634816, "v8": 90177536}
"""memory_l1_wavefronts_shared of versions at 2048 x 2048 x 2048 on an H200."""


def vectorized(p: GemmProblem, c: Any) -> Prediction:
    return vectorized_loads(p, c, *launched(p, c))


def predicted(p: GemmProblem, c: Any) -> Prediction:
    return traffic(*launched(p, c))


@each("name", COUNTED)
def test_wavefronts_are_the_hardware_s(name: str) -> None:
    found = vectorized(gemm_problem(2048, 2048, 2048, "f32", b_major="mn"), LADDER[name])
    assert sum(cost.total for op, cost in found.items() if "global" not in op) == COUNTED[name]


def test_vectors_along_rows_is_the_program_with_vectors() -> None:
    """Tiles stored along rows, read element by element: the same loads as with fragments of four."""
    p, c = gemm_problem(128, 128, 16, "f32", a_major="mn", b_major="mn"), LADDER["v8"]
    found, whole = vectorized(p, replace(c, fragment=1)), predicted(p, c)
    assert {op: x for op, x in found.items() if "st.global" not in op} == {
        op: x for op, x in whole.items() if "st.global" not in op
    }


def test_vectors_along_k_element_by_element() -> None:
    """Each vector covers the four words that the program reads one by one; nothing else changes."""
    p, c = gemm_problem(32, 32, 32, "f32", b_major="mn"), LADDER["v2"]
    expected = Costs("sm_90")
    for part in parts(p, c):
        layout = tile_layout(c, part)
        own = reading(c, part).tidfrg("src", Layout((32, 1)))(np.arange(c.threads), 0)
        vectors = [layout(own, k) * 4 for k in range(0, 32, 4)]
        for k, v in zip(range(0, 32, 4), vectors, strict=True):
            assert (v % 16 == 0).all()
            assert all((layout(own, k + e) * 4 == v + 4 * e).all() for e in range(4))
            lanes = np.broadcast_to(v, (c.threads,)).reshape(-1, 32)
            expected.lanes("ld.shared.b128", "shared", lanes, lanes >= 0)
    found, plain = vectorized(p, c), predicted(p, c)
    assert found["ld.shared.b128"] == expected.prediction()["ld.shared.b128"]
    assert {op: x for op, x in found.items() if "ld.shared" not in op} == {
        op: x for op, x in plain.items() if "ld.shared" not in op
    }


def test_what_makes_no_vectors_stays() -> None:
    p = gemm_problem(128, 128, 32, "f32", b_major="mn")
    for name in ("v1", "v4", "v7", "warp tiles"):
        assert vectorized(p, LADDER[name]) == predicted(p, LADDER[name])
