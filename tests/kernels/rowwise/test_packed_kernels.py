"""Packed kernels agree with the definition in the simulator, and cost what is read off their programs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.costs import Cost, traffic
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import LayoutAlgError, SimulationError, UnsupportedError
from layoutalg.kernels.rowwise import (
    NormConfig,
    NormProblem,
    ReduceConfig,
    ReduceProblem,
    norm_problem,
    plan_with,
    reduce_problem,
)
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.programs.reduce import build
from layoutalg.kernels.rowwise.schedule import Hold
from tests.kernels.rowwise.test_reduce_family import agree as reduction_agrees
from tests.kernels.rowwise.test_reduce_family import run as run_reduction
from tests.mutants import planting
from tests.norms import check, data, launch_all
from tests.reductions import random_numbers
from tests.sweeps import each, first

A_BATCH = 16


def shapes(rng: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A shape, axes and strides whose groups lie in slabs: rows, modes kept inside, several runs."""
    n = rng.choice([3, 4, 5, 7, 8, 10, 16, 17, 24, 31, 40, 77])
    many, few = rng.randint(2, 90), rng.randint(2, 5)
    shape, axes = rng.choice([
        ((many, n), (1,)), ((few, many, n), (2,)), ((many, n, few), (1,)), ((few, many, few), (0, 2)),
        ((few, few, many, few), (1, 3)), ((many, few, few, few), (1, 3)),
    ])  # fmt: skip
    strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    strides[0] += rng.choice([0, 0, 0, 8, 1])
    return shape, axes, tuple(strides)


def drawn_norm(rng: random.Random) -> tuple[NormProblem, NormConfig]:
    """A norm and a packed configuration of it."""
    shape, axes, strides = shapes(rng)
    op, at = rng.choice(["softmax", "layer_norm", "rms_norm"]), rng.choice([0, 0, 8, rng.randint(1, 9)])
    in_place = rng.random() < 0.3
    p = norm_problem(
        op, shape, axes, rng.choice(["f32", "f16", "bf16"]), strides, strides, at,
        at if in_place or rng.random() < 0.6 else at + rng.choice([2, 4, 8]), in_place=in_place,
        weight=op != "softmax" and rng.random() < 0.5, bias=op == "layer_norm" and rng.random() < 0.5,
    )  # fmt: skip
    lanes = rng.choice([1, 2, 4, 8, 16, 32])
    rows = max(32 // lanes, rng.choice([4, 8, 16]))
    hold: Hold = "shared" if rng.random() < 0.3 else "registers"
    return p, NormConfig(rng.choice([1, 1, 2, 4]), rows, lanes, hold, 2, turns=rng.randint(1, 3))


def drawn_reduction(rng: random.Random) -> tuple[ReduceProblem, ReduceConfig]:
    """A reduction and a packed configuration of it."""
    shape, axes, strides = shapes(rng)
    op = rng.choice(["sum", "max", "mean", "min", "var", "logsumexp"])
    p = reduce_problem(
        shape, axes, op, rng.choice(["f32", "f16", "bf16"]), strides, src_offset=rng.choice([0, 0, 8, 3])
    )
    lanes = rng.choice([1, 2, 4, 8, 16, 32])
    rows = max(32 // lanes, rng.choice([4, 8, 16]))
    return p, ReduceConfig(
        rng.choice([1, 1, 2, 4]), lanes, rows, 1, rng.choice([2, 3, 8]), rng.randint(1, 3), packed=True
    )


def stands(p: NormProblem | ReduceProblem, c: Any) -> bool:
    """True when a packed configuration fits a problem."""
    try:
        _ = plan(p, config=c) if isinstance(p, NormProblem) else plan_with(p, c)
    except LayoutAlgError:
        return False
    return True


@pytest.mark.deep
@pytest.mark.parametrize("batch", first(1, range(8)))
def test_random_norms_agree_and_cost_what_is_predicted(batch: int) -> None:
    done = 0
    for seed in range(A_BATCH * batch, A_BATCH * batch + A_BATCH):
        p, c = drawn_norm(random.Random(seed))
        if not stands(p, c):
            c = replace(c, vec=1)
        if not stands(p, c):
            continue
        d, done = data(p, seed), done + 1
        found: list[dict[str, Cost]] = []

        def run(kernel: Kernel, args: dict[str, Any], seed: int = seed, found: list[Any] = found) -> None:
            trace = simulate(kernel, args, group="warp" if seed % 8 == 0 else "block", seed=seed).trace
            ops = {site.op for site in trace.sites if trace.total(site.op)[0]}
            found.append({op: Cost(*trace.total(op)) for op in ops})

        launches = plan(p, config=c)
        check(p, d, launch_all(launches, d, run, lambda a: a))
        assert found == [dict(traffic(k, {})) for k in launches.kernels], (str(p), c)
    assert done >= A_BATCH // 2


@pytest.mark.deep
@pytest.mark.parametrize("batch", first(1, range(8)))
def test_random_reductions_agree_and_cost_what_is_predicted(batch: int) -> None:
    done = 0
    for seed in range(A_BATCH * batch, A_BATCH * batch + A_BATCH):
        p, c = drawn_reduction(random.Random(seed))
        if not stands(p, c):
            c = replace(c, vec=1)
        if not stands(p, c):
            continue
        done, launches = done + 1, plan_with(p, c)
        reduction_agrees(p, launches, seed, "warp" if seed % 8 == 0 else "block")
        bits, _ = random_numbers(p.axes.source_elems, p.dtype.name, seed)
        (one,) = run_reduction(launches, bits, np.zeros(p.axes.target_elems, f"u{p.result.nbytes}"))
        ops = {site.op for site in one.trace.sites if one.trace.total(site.op)[0]}
        (kernel,) = build(launches)
        assert {op: Cost(*one.trace.total(op)) for op in ops} == dict(traffic(kernel, {})), (str(p), c)
    assert done >= A_BATCH // 2


@pytest.mark.parametrize(
    ("c", "offset", "message"),
    [
        (NormConfig(1, 32, 1, "registers", splits=2, turns=1), 0, "split in 2, by registers: runs are whole"),
        (NormConfig(1, 32, 1, "global", turns=1), 0, "by global: runs are whole, and held"),
        (NormConfig(1, 32, 1, "registers", turns=1), 3, "two blocks would share a unit of 4 elements"),
        (NormConfig(2, 32, 1, "registers", turns=1), 0, "not all rows start and end at 2 elements"),
    ],
)
def test_what_runs_cannot_do_is_refused_by_name(c: NormConfig, offset: int, message: str) -> None:
    p = norm_problem("softmax", (90, 5), 1, "f32", None, None, offset, offset, in_place=True)
    with pytest.raises(UnsupportedError, match=message):
        plan(p, config=c)


def test_memory_is_read_and_written_in_whole_sectors() -> None:
    p = norm_problem("layer_norm", (6400, 10), 1, "f32")
    (kernel,) = plan(p, config=NormConfig(1, 64, 2, "registers", turns=4)).kernels
    cost = traffic(kernel, {})
    for access in ("cp.async.16:global", "st.global.b128"):
        assert cost[access].total == cost[access].ideal == 6400 * 10 * 4 // 32
        assert cost[access].instructions == 6400 * 10 * 4 // 512


@each("name", ["block_sync", "cp_async_wait"])
def test_a_missing_wait_is_found(name: str) -> None:
    p = norm_problem("softmax", (130, 10), 1, "f32")
    (kernel,) = plan(p, config=NormConfig(1, 64, 2, "registers", turns=1)).kernels
    d = data(p, 1, special=False)
    with pytest.raises((SimulationError, AssertionError)):
        got = d.old.copy()
        simulate(planting.without(kernel, name), {"src": d.src, "dst": got}, group="warp", seed=3)
        check(p, d, got)
