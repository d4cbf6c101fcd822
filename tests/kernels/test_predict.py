"""Predictions: costs add up, edge tiles are walked completely and once."""

from __future__ import annotations

import numpy as np

from layoutalg.kernels.matrix import matrix_problem
from layoutalg.kernels.predict import Cost, Costs, describe, edge_walks, element_steps
from tests.sweeps import each


def test_costs_add_field_by_field_and_drop_out_at_zero_tiles() -> None:
    costs = Costs()
    costs.add("ld.shared.b32", Cost(1, 2, 1))
    costs.add("ld.shared.b32", Cost(1, 3, 1))
    assert costs.prediction() == {"ld.shared.b32": Cost(2, 5, 2)}
    costs.times(3)
    assert costs.prediction() == {"ld.shared.b32": Cost(6, 15, 6)}
    costs.times(0)
    assert costs.prediction() == {}


def test_lanes_are_counted_by_the_definition() -> None:
    costs = Costs()
    lane = np.arange(32)[None, :]
    everyone = np.ones((1, 32), dtype=bool)
    costs.lanes("ld.shared.b32", "shared", lane * 128, everyone)
    costs.lanes("ld.global.b32", "global", lane * 4 + 4, everyone)
    costs.lanes("ld.global.b32", "global", lane * 4, ~everyone)
    assert costs.prediction() == {"ld.global.b32": Cost(1, 5, 4), "ld.shared.b32": Cost(1, 32, 1)}


@each("along_n", [True, False])
@each(("m", "n"), [(1, 1), (64, 64), (65, 64), (64, 65), (130, 70), (10, 200)])
def test_edge_walks_visit_exactly_the_elements_outside_full_tiles(m: int, n: int, along_n: bool) -> None:
    seen = np.zeros((m, n), dtype=int)
    steps = element_steps(64, 32, 128, along_n=along_n)
    for e in edge_walks(matrix_problem(m, n, "f32", turned=True), 64, 32, *steps):
        assert e.active.shape[1] == 32
        np.add.at(seen, (e.m[e.active], e.n[e.active]), 1)
        assert (e.m % 64 == e.row).all()
        assert (e.n % 32 == e.column).all()
        step = (e.n if along_n else e.m)[0]
        assert (np.diff(step) == 1).all()
    seen[: m // 64 * 64, : n // 32 * 32] += 1
    assert (seen == 1).all()


def test_descriptions_name_the_unit() -> None:
    lines = describe({"ld.global.b128": Cost(8, 128, 128), "ld.shared.b32": Cost(1, 2, 1)})
    assert "sectors" in lines[0]
    assert "wavefronts" in lines[1]
