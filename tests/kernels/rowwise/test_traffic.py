"""What is read off the programs of reductions and norms is what the simulator traces."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.costs import Cost, copied, traffic
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.kernels.rowwise import (
    NormConfig,
    NormLaunches,
    NormProblem,
    ReduceConfig,
    norm_problem,
    plan_with,
    plans,
    reduce_problem,
)
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.programs.reduce import build
from layoutalg.model import tag_sectors
from tests.kernels.rowwise.test_reduce_family import run
from tests.norms import data, launch_all, random_problem
from tests.reductions import random_numbers, random_plan, random_reduction
from tests.sweeps import each, first


def traced_norm(launches: NormLaunches) -> list[dict[str, Cost]]:
    """What the simulator counts, by launch."""
    found: list[dict[str, Cost]] = []

    def run(kernel: Kernel, args: dict[str, Any]) -> None:
        trace = simulate(kernel, args).trace
        ops = {site.op for site in trace.sites if trace.total(site.op)[0]}
        found.append({op: Cost(*trace.total(op)) for op in ops})

    launch_all(launches, data(launches.problem, 1), run, lambda a: a)
    return found


@pytest.mark.deep
@pytest.mark.parametrize("batch", first(1, range(4)))
def test_norms_of_every_plan(batch: int) -> None:
    for seed in range(15 * batch, 15 * batch + 15):
        rng = random.Random(seed)
        p = random_problem(rng, 1500)
        c = rng.choice(configs(p))
        if rng.random() < 0.3:
            c = replace(c, hold="global", splits=rng.choice([1, 2, 3]), depth=2)
            c = replace(c, staged=rng.choice([0, 2, 4]) if c.vec * p.dtype.nbytes >= 4 else 0)
        elif c.vec * p.dtype.nbytes >= 4 and rng.random() < 0.5:
            c = replace(c, hold="shared", staged=rng.choice([0, 1]), depth=2)
        launches = plan(p, config=c)
        assert traced_norm(launches) == [dict(traffic(k, {})) for k in launches.kernels], (p, c)


@each(
    ("p", "c"),
    [
        (norm_problem("softmax", (8192,), 0, "f16"), NormConfig(8, 1, 32, "global", 4, 2, 8)),
        (norm_problem("layer_norm", (1, 8, 1504), (0, 2), "f16"), NormConfig(8, 1, 32, "global", 4, 2, 8)),
        (norm_problem("layer_norm", (2560,), 0, "f16"), NormConfig(8, 1, 32, "global", 4, 1, 8)),
        (norm_problem("softmax", (300, 64), 0, "bf16"), NormConfig(8, 4, 16, "global", 2, 1, 4)),
    ],
    ids=str,
)
def test_a_ring_copies_every_vector_once_per_reading(p: NormProblem, c: NormConfig) -> None:
    """Forwards and backwards, the copies that its last turn starts are of no vector."""
    launches = plan(p, config=c)
    found = traced_norm(launches)
    assert found == [dict(traffic(k, {})) for k in launches.kernels]
    copies = [one["cp.async.16:global"] for one in found]
    read = sum(cost.total for cost in copies)
    assert read == sum(cost.ideal for cost in copies) == 2 * prod(p.axes.shape) * p.dtype.nbytes // 32


def traced_reduction(plan: Any, seed: int) -> list[dict[str, Cost]]:
    bits, _ = random_numbers(plan.problem.axes.source_elems, plan.problem.axes.dtype.name, seed)
    old = np.zeros(plan.problem.axes.target_elems, f"u{plan.problem.result.nbytes}")
    found = []
    for one in run(plan, bits, old):
        ran = {site.op for site in one.trace.sites if one.trace.total(site.op)[0]}
        found.append({op: Cost(*one.trace.total(op)) for op in ran})
    return found


@each("seed", range(50), sample=10)
def test_reductions_of_every_plan(seed: int) -> None:
    rng = random.Random(1000 + seed)
    p = random_reduction(rng, 3000)
    plan = random_plan(rng, p)
    assert [dict(traffic(k, {})) for k in build(plan)] == traced_reduction(plan, seed), (str(p), plan.passes)


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
def test_reductions_of_hand_made_plans(
    shape: tuple[int, ...], axes: Any, dtype: str, config: ReduceConfig
) -> None:
    plan = plan_with(reduce_problem(shape, axes, "sum", dtype), config)
    assert [dict(traffic(k, {})) for k in build(plan)] == traced_reduction(plan, 1)


def test_dense_tensors_are_read_in_whole_sectors() -> None:
    for shape, axes in (
        ((8192, 8192), 1),
        ((8192, 8192), 0),
        ((64, 256, 56, 56), (0, 2, 3)),
        ((1 << 26,), 0),
    ):
        first, *_ = build(plans(reduce_problem(shape, axes, "sum", "f16"))[0])
        cost = traffic(first, {})["ld.global.b128"]
        assert cost.total == cost.ideal == int(np.prod(shape)) * 2 // 32


def test_tags_of_copies_are_those_that_were_counted_on_an_h200() -> None:
    """14477824 sectors for rows of 50257 halves, which start anywhere in a sector."""
    (kernel,) = plan(norm_problem("softmax", (4096, 50257), 1, "f16")).kernels
    assert copied(kernel, {}, 16, tag_sectors) == 14477824


@each(
    ("p", "c"),
    [
        (norm_problem("softmax", (6, 1001), 1, "f32"), NormConfig(4, 1, 64, "shared", 2)),
        (norm_problem("softmax", (3, 90, 72), 1, "f16"), NormConfig(8, 4, 16, "shared", 2, staged=2)),
        (norm_problem("layer_norm", (90, 99), 0, "f32"), NormConfig(4, 8, 16, "global", 2, 2, 4)),
        (norm_problem("softmax", (300, 64), 0, "bf16"), NormConfig(8, 4, 16, "global", 2, 3, 4)),
    ],
    sample=2,
)
def test_tags_of_copies_are_those_of_the_trace(p: Any, c: NormConfig) -> None:
    launches, traced = plan(p, config=c), 0

    def run(kernel: Kernel, args: dict[str, Any]) -> None:
        nonlocal traced
        trace = simulate(kernel, args).trace
        sides: dict[int, dict[str, Any]] = {}
        for site in trace.sites:
            if site.op.startswith("cp.async.16"):
                sides.setdefault(site.statement, {})[site.space] = trace.instructions(site)
        for one in sides.values():
            source, target = one["global"], one["shared"]
            traced += int(tag_sectors(source.addresses, target.addresses, source.active).sum())

    launch_all(launches, data(p, 1), run, lambda a: a)
    assert traced == sum(copied(kernel, {}, 16, tag_sectors) for kernel in launches.kernels) > 0
