"""Reductions agree: NumPy in float64 within the stated bound, simulator, and the text run on the host."""

from __future__ import annotations

import random
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.check import check as check_program
from layoutalg.codegen.simulate import Simulation, simulate
from layoutalg.kernels.reduce_family import ReducePlan, ReduceProblem, build, reference
from tests.reductions import decoded, error_bound, outputs, random_numbers, random_plan, random_reduction

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
    untouched = np.full(p.axes.target_elems, 0x5A5A, f"u{p.result.nbytes}")
    old = untouched.copy()
    run(plan, bits, old, group, seed)
    got = decoded(old, p.result.name)
    error = np.abs(outputs(p, got) - reference(p, values))
    bound = error_bound(p, plan.additions, values)
    assert bool((error <= bound).all()), (str(p), plan.passes, float((error - bound).max()))
    outputs(p, old)[...] = 0x5A5A
    assert old.tobytes() == untouched.tobytes(), str(p)


@pytest.mark.parametrize("batch", range(RANDOM // A_BATCH))
def test_random_problems_agree(batch: int) -> None:
    for seed in range(batch * A_BATCH, (batch + 1) * A_BATCH):
        rng = random.Random(seed)
        p = random_reduction(rng, 3000)
        agree(p, random_plan(rng, p), seed, "warp" if seed % 10 == 0 else "block")
