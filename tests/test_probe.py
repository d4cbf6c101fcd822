"""The random probes of tests/gpu on the CPU: result, trace and closed form agree; every stratum is there."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from layoutalg.analysis import SharedReport, analyze
from layoutalg.codegen.sim import simulate
from tests.gpu.probe import STRATA, Probe, data, kernel_of, predicted, probes
from tests.sweeps import each


@pytest.mark.deep
@each("probe", probes, ids=lambda p: p.name)
def test_prediction_is_definition_is_trace(probe: Probe) -> None:
    src, expected = data(probe)
    dst = np.zeros_like(src)
    run = simulate(kernel_of(probe), {"src": src, "dst": dst})
    assert dst.tobytes() == expected.tobytes()
    for way, access in (("st", probe.store), ("ld", probe.load)):
        report = predicted(probe, way)
        definition = analyze(probe.layout, access, method="enumerated")
        assert isinstance(definition, SharedReport)
        assert report.total == definition.total
        assert run.trace.total(access.op) == (report.instructions, report.total, report.ideal_total)


@pytest.mark.deep
def test_the_probes_are_varied() -> None:
    drawn = probes()
    assert set(Counter(p.stratum for p in drawn).values()) == {len(drawn) // len(STRATA)}
    assert len({p.store.op for p in drawn}) >= 5
    assert len({p.layout for p in drawn}) == len(drawn) == 200
    assert sum(not predicted(p, way).conflict_free for p in drawn for way in ("st", "ld")) > 80
