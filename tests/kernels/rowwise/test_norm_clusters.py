"""Rows that a cluster of blocks keeps: right in every size, ragged or not, wherever elements stay."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import form_of
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import Schedule, walk_of
from tests.mutants.ordering import mutants
from tests.norms import check, data, launch_all
from tests.sweeps import each

REGISTERS, SHARED = (NormConfig(4, 1, 32, hold) for hold in ("registers", "shared"))
MIXED_3 = replace(SHARED, staged=1, cluster=3)
HALVES = NormConfig(8, 1, 64, "registers", cluster=2)


def launched(p: NormProblem, c: NormConfig, seed: int = 1, group: Any = "warp") -> Any:
    """The destination that the simulator computes, checked against the definition."""
    d = data(p, seed)

    def run(kernel: Kernel, args: dict[str, Any]) -> None:
        simulate(kernel, args, group=group, seed=seed, trace=False)

    got = launch_all(plan(p, config=c), d, run, lambda a: a)
    check(p, d, got)
    return got


@each(
    ("op", "blocks"), [*product(("softmax", "layer_norm", "rms_norm"), (2, 3, 8)), ("softmax", 16)], sample=5
)
def test_every_size_agrees(op: str, blocks: int) -> None:
    p = norm_problem(op, (1 + (blocks < 8), 256 * blocks), 1, "f32", weight=op == "rms_norm")
    launched(p, replace(REGISTERS, cluster=blocks), blocks, "block")


@each(
    ("p", "c"),
    [
        (norm_problem("softmax", (3, 1001), 1, "f16", src_offset=3, dst_offset=3), HALVES),
        (norm_problem("softmax", (2, 1500), 1, "f32"), MIXED_3),
        (norm_problem("softmax", (2, 1032), 1, "bf16"), replace(HALVES, hold="shared")),
        (norm_problem("layer_norm", (2, 1001), 1, "bf16", weight=True, bias=True), HALVES),
        (norm_problem("layer_norm", (2, 1500), 1, "f32", weight=True, in_place=True), MIXED_3),
        (norm_problem("rms_norm", (3, 1001), 1, "f32"), replace(SHARED, cluster=4, depth=1)),
        (norm_problem("softmax", (2, 3, 5, 64), (1, 3), "f32"), replace(SHARED, cluster=2)),
        (norm_problem("softmax", (1, 130), 1, "f32"), replace(REGISTERS, cluster=8)),
    ],
    ids=str,
    sample=4,
)  # fmt: skip
def test_ragged_rows_and_all_holds_agree(p: NormProblem, c: NormConfig) -> None:
    """Rows that start anywhere, of several modes, in place, and fewer vectors than threads of the cluster."""
    launched(p, c, group="block")


def test_all_blocks_compute_equal_bits() -> None:
    """Whatever the order of warps."""
    p = norm_problem("softmax", (1, 1024), 1, "f32")
    c = replace(REGISTERS, cluster=4)
    one, other = (launched(p, c, 7, group) for group in ("block", "warp"))
    assert np.array_equal(one, other)


def test_the_rounds_of_a_cluster_are_dealt_among_its_blocks() -> None:
    """Steps of all threads of all blocks: each of the row's once."""
    p = norm_problem("softmax", (5, 4 * 333), 1, "f32")
    c = replace(REGISTERS, cluster=3)
    walk = walk_of(form_of(p), p.dtype, c)
    rounds = Schedule(walk, c).rounds
    steps = [
        walk.step(y, i * c.cluster + rank)
        for rank in range(c.cluster)
        for y in range(c.threads_per_row)
        for i in range(rounds)
    ]  # fmt: skip
    assert sorted(s for s in steps if s < walk.steps) == list(range(333)) and rounds == 4
    assert [walk.block(b) for b in range(4)] == [(0, 0), (0, 1), (0, 2), (1, 0)] and walk.blocks == 15


def test_what_orders_the_blocks_is_needed() -> None:
    """Every mutant of the exchange of a softmax is caught, or is the same for a written reason."""
    p = norm_problem("softmax", (1, 512), 1, "f32")
    (kernel,) = plan(p, config=replace(REGISTERS, cluster=2)).kernels
    d, missed = data(p, 3, special=False), set()
    for mutant in mutants(kernel):
        dst = d.old.copy()
        try:
            simulate(printed(mutant.kernel), {"src": d.src, "dst": dst}, group="warp", seed=1, trace=False)
            check(p, d, dst)
        except (SimulationError, LayoutAlgError, AssertionError):
            continue
        missed.add(mutant.label)
    assert missed == {
        "mbarrier_init came[0] by the last thread",  # any one thread does
        "mbarrier_arrive_expect_tx came[0] before fence_barrier_init",  # the fence is for what comes before
        "no warp_sync",  # lanes of a warp meet again behind a branch in the simulator
        "warp_sync before mbarrier_init came[0]",
        "cluster_arrive_relaxed before warp_sync",
    }
