"""Costs of accesses add up, and are counted by the definition."""

from __future__ import annotations

import numpy as np

from layoutalg.codegen.costs import Cost, Costs, describe


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


def test_descriptions_name_the_unit() -> None:
    lines = describe({"ld.global.b128": Cost(8, 128, 128), "ld.shared.b32": Cost(1, 2, 1)})
    assert "sectors" in lines[0]
    assert "wavefronts" in lines[1]
