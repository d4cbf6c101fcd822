"""The tables of gemm-sm90 on counters that are as predicted, and on others."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.kernels import find_family
from layoutalg.kernels.ladder.sm90 import held, work
from tests.gpu import gemm_sm90_counters as counters
from tests.gpu.gemm_ladder import BY_TMA, MOST_WARPS

RAGGED = counters.CASES[1]


def rows(monkeypatch: pytest.MonkeyPatch, **more: float) -> list[Any]:
    """The rows of a ragged case on its own predictions, some of them with more."""
    p, c = RAGGED
    family = find_family("gemm-sm90")
    one = family.launches(p, c, "sm_90")
    found = work(p, c, one.kernels[0], {**dict(one.scalars), **family.bench.scalars(p)})
    cubin, occupancy = held(one.kernels[0])
    seen = {metric: float(found.counts.get(what, 0)) for what, (metric, _) in counters.COUNTED.items()}
    seen |= {counters.REGISTERS: float(cubin.registers), MOST_WARPS: float(occupancy.warps_per_sm)}
    for what, n in more.items():
        seen[BY_TMA[what.replace("_", " ")]] += n
    monkeypatch.setattr(counters, "CASES", ((p, c),))
    monkeypatch.setattr(counters, "count_launches", lambda *asked: [seen])
    return list(counters.rows())


def test_what_is_as_predicted_is_not_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(monkeypatch)
    assert not any(row.refuted for row in found)
    assert {"wgmma", "TMA in", "L2 in", "registers", "occupancy"} <= {row.access for row in found}


@pytest.mark.deep
def test_the_l2_may_serve_a_little_more_and_nothing_else_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(row.refuted for row in rows(monkeypatch, L2_in=100))
    assert [row.access for row in rows(monkeypatch, L2_in=1e6) if row.refuted] == ["L2 in"]
    assert [row.access for row in rows(monkeypatch, TMA_in=32) if row.refuted] == ["TMA in"]
