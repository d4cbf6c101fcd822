"""Predictions of norms equal what the simulator counts, class by class and in sum."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from layoutalg.arch import find_arch
from layoutalg.codegen.simulate import simulate
from layoutalg.codegen.tile import Kernel
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.norm_family import NormLaunches, plan
from layoutalg.kernels.norm_modes import norm_problem, shortest
from layoutalg.kernels.norm_plan import configs
from layoutalg.kernels.norm_predict import block_classes, bounds, predict, traffic
from layoutalg.kernels.norm_walk import NormConfig, Walk
from layoutalg.kernels.predict import Cost
from tests.norms import data, launch_all, random_problem


def traced(launches: NormLaunches) -> dict[str, Cost]:
    """What the simulator counts, over all launches."""
    found: dict[str, Cost] = {}

    def run(kernel: Kernel, args: dict[str, Any]) -> None:
        trace = simulate(kernel, args).trace
        for op in {site.op for site in trace.sites if trace.total(site.op)[0]}:
            found[op] = found.get(op, Cost(0, 0, 0)) + Cost(*trace.total(op))

    launch_all(launches, data(launches.problem, 1), run, lambda a: a)
    return found


@pytest.mark.parametrize("batch", range(4))
def test_what_is_predicted_is_what_is_traced(batch: int) -> None:
    for seed in range(15 * batch, 15 * batch + 15):
        rng = random.Random(seed)
        p = random_problem(rng, 1500)
        c = rng.choice(configs(shortest(p)))
        if rng.random() < 0.3:
            c = replace(c, hold="global", splits=rng.choice([1, 2, 3]), depth=2)
            c = replace(c, staged=rng.choice([0, 2, 4]) if c.vec * p.dtype.nbytes >= 4 else 0)
        elif c.vec * p.dtype.nbytes >= 4 and rng.random() < 0.5:
            c = replace(c, hold="shared", staged=rng.choice([0, 1]), depth=2)
        launches = plan(p, config=c)
        assert traced(launches) == dict(predict(launches)), (p, c)


@pytest.mark.parametrize("seed", range(20))
def test_classes_cover_the_blocks(seed: int) -> None:
    rng = random.Random(seed)
    x = shortest(random_problem(rng, 50000))
    w = Walk(x, rng.choice(configs(x)))
    kinds = block_classes(w)
    assert sum(k.count for k in kinds) == w.blocks
    assert all(k.first % w.config.kept == 0 and k.split < w.config.splits for k in kinds)


def test_what_is_read_twice_comes_from_memory_twice_or_from_the_cache() -> None:
    p = norm_problem("softmax", (8192, 8192), 0, "f32")
    once = 8192 * 8192 * 4
    assert traffic(plan(p, config=NormConfig(4, 8, 64, "global", 8, 3))).read == 2 * once
    small = norm_problem("softmax", (8192, 512), 0, "f32")
    assert traffic(plan(small, config=NormConfig(4, 8, 64, "global", 8, 3))).read == once // 16
    held = norm_problem("layer_norm", (8192, 8192), 1, "f32", weight=True)
    assert traffic(plan(held)).read == once + 4 * 8192


def test_memory_binds() -> None:
    assert bounds(plan(norm_problem("softmax", (65536, 1024), 1, "f32")))[0].unit == "bytes of memory"
    bare = replace(find_arch("sm_90"), board=None)
    with pytest.raises(UnsupportedError, match="board"):
        bounds(plan(norm_problem("softmax", (8, 1024), 1, "f32")), bare)
