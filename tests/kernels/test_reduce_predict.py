"""Predictions by classes equal what the simulator traces; the limit is the slower unit."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.arch import find_arch
from layoutalg.codegen.traffic import Cost
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import ReduceConfig, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.reduce_predict import bounds, memory_bytes, predict
from tests.kernels.test_reduce_family import run
from tests.reductions import random_numbers, random_plan, random_reduction
from tests.sweeps import each


def traced(plan: Any, seed: int) -> list[dict[str, Cost]]:
    bits, _ = random_numbers(plan.problem.axes.source_elems, plan.problem.axes.dtype.name, seed)
    old = np.zeros(plan.problem.axes.target_elems, f"u{plan.problem.result.nbytes}")
    found = []
    for one in run(plan, bits, old):
        ran = {site.op for site in one.trace.sites if one.trace.total(site.op)[0]}
        found.append({op: Cost(*one.trace.total(op)) for op in ran})
    return found


@each("seed", range(50))
def test_predictions_equal_the_trace(seed: int) -> None:
    rng = random.Random(1000 + seed)
    p = random_reduction(rng, 3000)
    plan = random_plan(rng, p)
    assert [dict(one) for one in predict(plan)] == traced(plan, seed), (str(p), plan.passes)


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "config"),
    [
        ((33, 100), 1, "f32", ReduceConfig(4, 8, 4, 1, 2, 2)),
        ((40, 257), 1, "f16", ReduceConfig(8, 4, 4, 2, 2)),
        ((300, 24), 0, "bf16", ReduceConfig(8, 1, 3, 32, 2, splits=3)),
        ((6, 40, 5, 16), (1, 3), "f32", ReduceConfig(4, 4, 8, 2, 3)),
        ((5000,), 0, "f32", ReduceConfig(4, 32, 1, 2, 2, splits=4)),
    ],
)
def test_predictions_by_hand_made_plans(
    shape: tuple[int, ...], axes: Any, dtype: str, config: ReduceConfig
) -> None:
    plan = plan_with(reduce_problem(shape, axes, "sum", dtype), config)
    assert [dict(one) for one in predict(plan)] == traced(plan, 1)


def test_dense_tensors_are_read_in_whole_sectors() -> None:
    for shape, axes in (
        ((8192, 8192), 1),
        ((8192, 8192), 0),
        ((64, 256, 56, 56), (0, 2, 3)),
        ((1 << 26,), 0),
    ):
        plan = plans(reduce_problem(shape, axes, "sum", "f16"))[0]
        cost = predict(plan)[0]["ld.global.b128"]
        assert cost.total == cost.ideal == int(np.prod(shape)) * 2 // 32


def test_memory_limits_large_reductions() -> None:
    plan = plans(reduce_problem((65536, 1024), 0, "sum", "f32"))[0]
    first, second = bounds(plan)
    assert first.unit == "bytes of memory" and first.least_us > second.least_us
    assert first.asked == memory_bytes(plan) == 65536 * 1024 * 4 + 1024 * 4 + 8 * plan.workspace_elems
    with pytest.raises(UnsupportedError, match="no board"):
        bounds(plan, replace(find_arch("sm_90"), board=None))
