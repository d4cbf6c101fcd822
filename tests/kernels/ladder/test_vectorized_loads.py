"""Loads that the compiler makes vectors of: as programs with vectors load, and as hardware counted them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutalg.codegen.costs import Costs, Prediction, traffic
from layoutalg.kernels.gemm import GemmProblem, SimtConfig, gemm_problem, operand_tile, tiled_mma
from layoutalg.kernels.ladder.counters import vectorized_loads
from layoutalg.kernels.ladder.steps import SIMT_LADDER as LADDER
from layoutalg.layout import Layout
from tests.kernels.ladder.test_counters import launched
from tests.sweeps import each

ACROSS = replace(LADDER["v2"], order="turned")
ALIKE = replace(LADDER["v4"], order="matrix")
COUNTED = {
    "both turned": (ACROSS, 2952790016),
    "none turned": (ALIKE, 419430400),
    "four rows, none turned": (replace(LADDER["v6"], order="matrix"), 352321536),
    "v7": (LADDER["v7"], 121634816),
    "v8": (LADDER["v8"], 90177536),
}
"""memory_l1_wavefronts_shared of configurations at 2048 x 2048 x 2048 on an H200."""


def vectorized(p: GemmProblem, c: SimtConfig) -> Prediction:
    return vectorized_loads(p, c, *launched(p, c))


def predicted(p: GemmProblem, c: SimtConfig) -> Prediction:
    return traffic(*launched(p, c))


@each(("name", "config", "counted"), [(name, *one) for name, one in COUNTED.items()])
def test_wavefronts_are_the_hardware_s(name: str, config: SimtConfig, counted: int) -> None:
    found = vectorized(gemm_problem(2048, 2048, 2048, "f32", b_major="mn"), config)
    assert sum(cost.total for op, cost in found.items() if "global" not in op) == counted


def test_vectors_along_rows_is_the_program_with_vectors() -> None:
    """Tiles stored along rows, read element by element: the same loads as with fragments of four."""
    p, c = gemm_problem(128, 128, 16, "f32", a_major="mn", b_major="mn"), LADDER["v8"]
    assert vectorized(p, replace(c, fragment=1)) == predicted(p, c)


def test_vectors_along_k_element_by_element() -> None:
    """Each vector covers the four words that the program reads one by one; nothing else changes."""
    p, c = gemm_problem(32, 32, 32, "f32", b_major="mn"), ALIKE
    h = operand_tile(p, c, "a")
    own = tiled_mma(p.operand, c).tidfrg("A", Layout((32, 1)))(np.arange(c.threads), 0)
    vectors = [h.layout(own, k) * 4 for k in range(0, 32, 4)]
    assert all((v % 16 == 0).all() for v in vectors)
    for k, v in zip(range(0, 32, 4), vectors, strict=True):
        assert all((h.layout(own, k + e) * 4 == v + 4 * e).all() for e in range(4))
    expected = Costs("sm_90")
    for v in vectors:
        lanes = np.broadcast_to(v, (c.threads,)).reshape(-1, 32)
        expected.lanes("ld.shared.b128", "shared", lanes, lanes >= 0)
    found, plain = vectorized(p, c), predicted(p, c)
    assert found["ld.shared.b128"] == expected.prediction()["ld.shared.b128"]
    assert {op: x for op, x in found.items() if "ld.shared" not in op} == {
        op: x for op, x in plain.items() if "ld.shared" not in op
    }


def test_what_makes_no_vectors_stays() -> None:
    p = gemm_problem(128, 128, 32, "f32", b_major="mn")
    turned = gemm_problem(32, 32, 32, "f32", a_major="mn")
    odd = replace(ALIKE, pad=1, order="turned")
    for q, c in ((p, LADDER["v1"]), (p, LADDER["v7"]), (p, LADDER["warp tiles"]), (turned, odd)):
        assert vectorized(q, c) == predicted(q, c)
