"""Reductions agree: NumPy in float64 within the stated bound, simulator, and the text run on the host."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.instr import encode
from layoutalg.codegen.program import is_dynamic
from layoutalg.codegen.program.checks import check as check_program
from layoutalg.codegen.sim import Simulation, simulate
from layoutalg.errors import SimulationError
from layoutalg.kernels.rowwise import (
    ReduceConfig,
    ReducePlan,
    ReduceProblem,
    plan_with,
    plans,
    reduce_problem,
    reduced,
)
from layoutalg.kernels.rowwise.columns import Beside, Later
from layoutalg.kernels.rowwise.programs.reduce import build
from layoutalg.kernels.rowwise.trials import reduction_bound
from layoutalg.kernels.rowwise.unaligned import CutRows, HeadTail, SkewedSums
from tests.hostshim import run_cuda_text
from tests.mutants import planting
from tests.reductions import decoded, outputs, random_numbers, random_plan, random_reduction
from tests.sweeps import each, first

RANDOM, A_BATCH = 160, 20


def run(
    plan: ReducePlan, bits: Any, old: Any, group: Literal["block", "warp"] = "block", seed: int = 0
) -> list[Simulation]:
    """All passes of a plan in the simulator; `old` becomes the destination."""
    work = np.zeros(plan.workspace_elems, "u4")
    buffers = [bits, work, old] if plan.workspace_elems else [bits, old]
    kernels = build(plan)
    for kernel in kernels:
        check_program(kernel)
    return [
        simulate(kernel, {"src": buffers[n], "dst": buffers[n + 1]}, group=group, seed=seed)
        for n, kernel in enumerate(kernels)
    ]


def agree(p: ReduceProblem, plan: ReducePlan, seed: int, group: Literal["block", "warp"] = "block") -> None:
    """One plan's results, and that nothing but the outputs is written."""
    bits, values = random_numbers(p.axes.source_elems, p.axes.dtype.name, seed)
    behind = np.full(-bits.nbytes % 16 // bits.itemsize, -1).astype(bits.dtype)  # NaN, read and not used
    bits = np.append(bits, behind)
    untouched = np.full(p.axes.target_elems, 0x5A5A, f"u{p.result.nbytes}")
    old = untouched.copy()
    run(plan, bits, old, group, seed)
    got = decoded(old, p.result.name)
    error = np.abs(outputs(p, got) - reduced(p, values))
    bound = reduction_bound(p, plan.additions, values)
    assert bool((error <= bound).all()), (str(p), plan.passes, float((error - bound).max()))
    outputs(p, old)[...] = 0x5A5A
    assert old.tobytes() == untouched.tobytes(), str(p)


@pytest.mark.deep
@pytest.mark.parametrize("batch", first(3, range(RANDOM // A_BATCH)))
def test_random_problems_agree(batch: int) -> None:
    for seed in range(batch * A_BATCH, (batch + 1) * A_BATCH):
        rng = random.Random(seed)
        p = random_reduction(rng, 3000)
        agree(p, random_plan(rng, p), seed, "warp" if seed % 10 == 0 else "block")


CASES: tuple[tuple[tuple[int, ...], Any, str, str], ...] = (
    ((70, 256), 1, "f16", "mean"),
    ((70, 257), 1, "f32", "sum"),
    ((33, 100), 0, "bf16", "max"),
    ((3, 16, 5, 24), (0, 2), "f32", "max"),
    ((5000,), 0, "f16", "sum"),
)


@pytest.mark.deep(only=("shape2-0-bf16-max", "shape4-0-f16-sum"))
@pytest.mark.parametrize(("shape", "axes", "dtype", "op"), CASES)
def test_the_printed_text_on_the_host_is_the_simulation(
    shape: tuple[int, ...], axes: Any, dtype: str, op: str
) -> None:
    p = reduce_problem(shape, axes, op, dtype)
    plan = random_plan(random.Random(5), p)
    bits, _ = random_numbers(-(-p.axes.source_elems // 8) * 8, dtype, 3)  # whole units
    simulated = np.zeros(p.axes.target_elems, f"u{p.result.nbytes}")
    run(plan, bits, simulated)
    work, hosted = np.zeros(max(1, plan.workspace_elems), "u4"), np.zeros_like(simulated)
    buffers = [bits, work, hosted] if plan.workspace_elems else [bits, hosted]
    for n, kernel in enumerate(build(plan)):
        assert not is_dynamic(kernel)
        grid = launch_grid(kernel, {})
        run_cuda_text(to_cuda(kernel), kernel.name, grid, (kernel.threads, 1, 1), buffers[n : n + 2], 0)
    assert hosted.tobytes() == simulated.tobytes()


def summed(p: ReduceProblem, values: Any, seed: int = 7) -> Any:
    """The outputs of given numbers, by the plan that a seed draws."""
    name = p.axes.dtype.name
    padded = np.zeros(-(-len(values) // 2) * 2)
    padded[: len(values)] = values
    bits = encode(padded[None, :], name)[0].view(f"u{p.axes.dtype.nbytes}")[: len(values)].copy()
    old = np.zeros(p.axes.target_elems, f"u{p.result.nbytes}")
    run(random_plan(random.Random(seed), p), bits, old)
    return decoded(old, p.result.name)


@each("dtype", ["f32", "f16", "bf16"])
@each("axis", [0, 1])
def test_numbers_that_are_none(dtype: str, axis: int) -> None:
    values = np.ones((40, 48))
    lines = values if axis == 1 else values.T
    lines[3, 17], lines[5, 30], lines[6, 1], lines[6, 2] = np.nan, -np.inf, np.inf, -np.inf
    lines[8] = -np.inf
    largest = summed(reduce_problem((40, 48), axis, "max", dtype), values.ravel())
    assert np.isnan(largest[3]) and largest[5] == 1 and largest[6] == np.inf and largest[8] == -np.inf
    total = summed(reduce_problem((40, 48), axis, "sum", dtype), values.ravel())
    assert np.isnan(total[3]) and total[5] == -np.inf and np.isnan(total[6]) and total[8] == -np.inf
    assert set(np.flatnonzero(~np.isfinite(total))) == {3, 5, 6, 8}


def test_sums_past_the_largest_half_are_infinite_unless_the_result_is_wider() -> None:
    values = np.full(64 * 128, 1000.0)
    assert np.isinf(summed(reduce_problem((64, 128), 1, "sum", "f16"), values)).all()
    assert (summed(reduce_problem((64, 128), 1, "sum", "f16", result="f32"), values) == 128000).all()
    assert (summed(reduce_problem((64, 128), 1, "mean", "f16"), values) == 1000).all()


@each("seed", range(6))
def test_the_bound_holds_where_terms_cancel(seed: int) -> None:
    """Magnitudes over twelve powers of ten, each with its negative: the true sum is tiny."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal(2000) * 10.0 ** rng.integers(-6, 6, 2000)
    terms = rng.permutation(np.concatenate([half, -half, [1e-3]])).astype("f4").astype("f8")
    p = reduce_problem((len(terms),), 0, "sum", "f32")
    plan = random_plan(random.Random(seed), p)
    bits = terms.astype("f4").view("u4")
    old = np.zeros(1, "u4")
    run(plan, bits, old)
    exact = math.fsum(terms)
    u = 2.0**-24
    bound = plan.additions * u / (1 - plan.additions * u) * float(np.abs(terms).sum())
    assert abs(float(old.view("f4")[0]) - exact) <= bound < 0.1 * float(np.abs(terms).sum())


@pytest.mark.deep
def test_results_do_not_depend_on_the_order_of_blocks_or_warps() -> None:
    p = reduce_problem((9, 4000), 1, "sum", "f32")
    plan = plan_with(p, ReduceConfig(4, 32, 2, 2, 2, splits=3))
    bits, _ = random_numbers(p.axes.source_elems, "f32", 1)
    found = set()
    for seed in range(4):
        old = np.zeros(p.axes.target_elems, "u4")
        run(plan, bits, old, "warp", seed)
        found.add(old.tobytes())
    assert len(found) == 1


@each(
    ("shape", "axes", "op", "dtype", "walk", "later"),
    [
        ((3, 8, 130), (0, 2), "max", "f16", CutRows, None),
        ((7, 5, 75), (0, 2), "mean", "f32", CutRows, None),
        ((9, 133), (0,), "sum", "f32", SkewedSums, None),
        ((37, 3, 67), (0,), "mean", "f16", SkewedSums, None),
        ((2, 555), (0,), "max", "bf16", SkewedSums, None),
        ((9, 5, 24), (0, 2), "sum", "f16", HeadTail, 0),
        ((19, 4, 9, 62), (1, 3), "max", "bf16", SkewedSums, 0),
        ((3, 7, 2, 5, 43), (0, 1, 3), "sum", "f32", SkewedSums, 0),
        ((5, 2, 9, 143), (0, 2), "mean", "f16", SkewedSums, 1),
        ((9, 3, 5, 2, 7), (0, 2, 4), "sum", "bf16", HeadTail, (0, 1)),
        ((9, 3, 8, 2, 12), (0, 2, 4), "mean", "f16", HeadTail, (0, 1)),
        ((11, 3, 7, 5, 5), (0, 2, 4), "max", "f32", SkewedSums, (0, 1)),
        ((4, 3, 9, 5, 5), (0, 2, 4), "sum", "f32", HeadTail, (0, 2)),
        ((6, 3, 5, 3, 3, 5), (0, 2, 4), "mean", "bf16", SkewedSums, (0, 1)),
        ((131, 7), (0,), "sum", "bf16", HeadTail, Beside(8)),
        ((103, 3), (0,), "max", "f32", HeadTail, Beside(4)),
        ((2, 100, 6), (1,), "mean", "f32", HeadTail, Beside(2)),
        ((3, 88, 5), (1,), "sum", "f16", HeadTail, Beside(8)),
    ],
    sample=2,
)
def test_vectors_that_rows_share(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    op: str,
    dtype: str,
    walk: type,
    later: Later | None,
) -> None:
    """Plans whose vectors hold elements of other rows or columns, in one pass and by two blocks."""
    p = reduce_problem(shape, axes, op, dtype)
    found = [plan.passes[0] for plan in plans(p)]
    c = next(one.config for one in found if one.config.later == later and type(one.walk) is walk)
    for config in (c, replace(c, depth=1), replace(c, depth=1, splits=2)):
        plan = plan_with(p, config)
        if config.splits <= max(1, plan.passes[0].rounds):
            agree(p, plan, 5)


def test_a_missing_barrier_is_found() -> None:
    p = reduce_problem((4, 4096), 1, "sum", "f32")
    plan = plan_with(p, ReduceConfig(4, 32, 1, 4, 2))
    bits, _ = random_numbers(p.axes.source_elems, "f32", 1)
    kernel = planting.without(build(plan)[0], "block_sync")
    with pytest.raises(SimulationError):
        simulate(kernel, {"src": bits, "dst": np.zeros(4, "u4")}, group="warp", seed=1)


def test_a_missing_butterfly_is_found() -> None:
    p = reduce_problem((4, 4096), 1, "sum", "f32")
    plan = plan_with(p, ReduceConfig(4, 32, 1, 4, 2))
    bits, values = random_numbers(p.axes.source_elems, "f32", 1)
    old = np.zeros(4, "u4")
    simulate(planting.without(build(plan)[0], "butterfly_sum_1"), {"src": bits, "dst": old})
    error = np.abs(decoded(old, "f32") - reduced(p, values))
    assert (error > reduction_bound(p, plan.additions, values)).all()


def test_the_workspace_is_written_whole() -> None:
    """The second pass reads every place of the workspace, and the first has written it."""
    for shape, axes in (((5, 3000), 1), ((3000, 5), 0), ((3000, 8), 0)):
        p = reduce_problem(shape, axes, "sum", "f32")
        c = random_plan(random.Random(2), p).passes[0].config
        plan = plan_with(p, replace(c, splits=2, depth=1))
        bits, _ = random_numbers(p.axes.source_elems, "f32", 1)
        work = np.full(plan.workspace_elems, 0x7FC00001, "u4")
        simulate(build(plan)[0], {"src": bits, "dst": work})
        assert not (work[: 2 * p.axes.outputs] == 0x7FC00001).any()
