"""Executed instructions of the steps for a T4 beside those of the published sources, in docs/figures.json."""

from __future__ import annotations

import pytest

from layoutalg.kernels import find_family
from layoutalg.kernels.ladder import PUBLISHED, predict_steps
from tests.docs.figures import data, executed


@pytest.mark.deep
def test_steps_execute_what_the_published_sources_do_but_for_the_index_code_of_swizzles() -> None:
    """Kernels 3 and 4 swizzle addresses of which the compiler knows no bit, by four instructions each."""
    theirs = {row["kernel"]: executed(row) for row in data()["published_hgemm"]["rows"]}
    steps = list(predict_steps(find_family("gemm-sm75"), 4096, tuple(PUBLISHED), "sm_75"))
    ours = {number: step.executed / 1e6 for number, step in enumerate(steps, 1)}
    assert {n: ours[n] for n in (1, 2, 5, 6)} == pytest.approx({n: theirs[n] for n in (1, 2, 5, 6)}, rel=0.04)
    assert all(0.65 < ours[n] / theirs[n] < 0.75 for n in (3, 4))
    assert [step.loop["ldsm"] for step in steps] == [96] * 4 + [24] * 2
    assert all(step.loop["tensor"] * step.passes * 8 == step.multiplies for step in steps)
