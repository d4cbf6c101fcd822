"""What threads and blocks exchange for rows: everyone gets all of it, and each of its steps is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels.checks.record import copied
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.programs.norm import plan
from tests.draws.norms import arguments
from tests.judges.agreement import trial
from tests.mutants.ordering import mutants
from tests.sweeps import each

Group = Literal["block", "warp"]

# --- in a block ----------------------------------------------------------------------------------------


# --- in a cluster --------------------------------------------------------------------------------------


# --- each step is needed -------------------------------------------------------------------------------

Trial = Callable[[], tuple[dict[str, Any], Callable[[Any], object]]]
"""Makes the buffers of a launch, and what asserts that a destination is right."""

ORDERS: list[tuple[Group, int]] = [("block", 0), ("warp", 1), ("warp", 3)]


def survives(kernel: Kernel, made: Trial, orders: list[tuple[Group, int]] = ORDERS) -> bool:
    """Whether the simulator and the results find nothing wrong with a kernel in any order of its warps."""
    for group, seed in orders:
        given, judge = made()
        args = arguments(kernel, **given)
        try:
            simulate(printed(kernel), args, group=group, seed=seed, trace=False)
            judge(given["dst"])
        except (LayoutAlgError, AssertionError):
            return False
    return True


def computing(p: NormProblem, *, words: int = 0) -> Trial:
    """The trial of a norm by one kernel, with so many words of scratch memory, which are 0."""
    given, judge = trial(p, None, 1, False)
    return lambda: (copied({**given, "partial": np.zeros(words, np.float32)}), judge)


EQUAL = {
    "mbarrier_init came[0] by the last thread",  # any one thread initialises, and announces the bytes
    "mbarrier_arrive_expect_tx came[0] before fence_barrier_init",  # the fence is for what comes before
    "no warp_sync",  # lanes of a warp meet again behind a branch in the simulator
    "warp_sync before mbarrier_init came[0]",
    "cluster_arrive_relaxed before warp_sync",
}
"""Mutants of an exchange that are no mistakes."""


@pytest.mark.deep
def test_what_orders_the_blocks_of_a_cluster_is_needed() -> None:
    p = norm_problem("softmax", (1, 512), 1, "f32")
    (kernel,) = plan(p, config=NormConfig(4, 1, 32, "registers", cluster=2)).kernels
    every, right = list(mutants(kernel)), computing(p)
    assert {m.label for m in every if survives(m.kernel, right, [("warp", 1)])} == EQUAL and len(every) > 20


@pytest.mark.deep
@each("resident", [0, 1])
def test_every_barrier_of_slabs_is_needed(resident: int) -> None:
    p = norm_problem("softmax", (32, 32), 0, "f32")
    (kernel,) = plan(p, "sm_90a", NormConfig(4, 4, 16, "shared", 2, cluster=2, resident=resident)).kernels
    waits = [m for m in mutants(kernel) if m.label.startswith("no ")]
    missed = {m.label for m in waits if survives(m.kernel, computing(p))}
    assert survives(kernel, computing(p)) and len(waits) > 4
    assert all(label.startswith("no warp_sync") for label in missed), missed


def together(splits: int, staged: int, depth: int = 2, threads: int = 32, rows: int = 1) -> NormConfig:
    """Parts of rows that resident blocks read together."""
    return NormConfig(4, 1, threads, "global", depth, splits, staged, resident=splits * rows)


@each(("op", "rows", "at_once"), [("layer_norm", 3, 1), ("softmax", 3, 2), ("rms_norm", 1, 1)], sample=1)
def test_the_barrier_of_resident_blocks_is_needed_as_it_is(op: str, rows: int, at_once: int) -> None:
    """Left out, with other arrivals or in another order, in each turn: the simulator says what is wrong."""
    p = norm_problem(op, (rows, 1501), 1, "f32")
    found = plan(p, config=together(2, 2, 1, 64, at_once))
    tried = [m for m in mutants(found.kernels[1]) if "grid_sync" in m.label]
    assert any("no grid_sync" in m.label for m in tried) and any("fewer" in m.label for m in tried)
    right = computing(p, words=found.workspace_elems)
    assert not [m.label for m in tried if survives(m.kernel, right, [("block", 0)])]


def test_without_the_clearing_kernel_the_counter_is_wrong_and_what_stays_is_not_read_again() -> None:
    """Vectors that the kernel copies: all of them, and those that the rings of all blocks do not hold."""
    for staged, again in ((4, 6), (8, 2), (12, 0)):
        p = norm_problem("softmax", (1, 4 * 32 * 2 * 10), 1, "f32")
        clear, kernel = (found := plan(p, config=together(2, staged))).kernels
        assert kernel.cooperative and not clear.cooperative
        given, _ = computing(p, words=found.workspace_elems)()
        run = simulate(kernel, arguments(kernel, **given))
        assert sum(run.executed["cp_async_16"]) == 2 * (10 + again)
        given["partial"][:] = 1
        with pytest.raises(SimulationError, match="it is 0 before the launch"):
            simulate(kernel, arguments(kernel, **given))
