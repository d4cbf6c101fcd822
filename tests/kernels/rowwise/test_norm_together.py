"""Rows of which resident blocks read parts: right in every size, whatever stays."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError, UnsupportedError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, arguments, norm_problem
from layoutalg.kernels.rowwise.cluster import moved_bytes
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import Schedule, walk_of
from tests.mutants.ordering import mutants
from tests.norms import check, data
from tests.sweeps import each


def config(
    splits: int, staged: int, depth: int = 2, *, rows: int = 1, threads: int = 32, vec: int = 4
) -> NormConfig:
    return NormConfig(vec, 1, threads, "global", depth, splits, staged, resident=splits * rows)


def launched(p: NormProblem, c: NormConfig, seed: int = 1, group: Any = "block", arch: str = "") -> Any:
    """The destination that the simulator computes, from any scratch memory, checked."""
    d, found = data(p, seed), plan(p, config=c)
    partial = np.random.default_rng(seed).integers(0, 1 << 32, found.workspace_elems, np.uint32)
    dst = d.old.copy()
    given = {"src": d.src, "dst": dst, "weight": d.weight, "bias": d.bias, "partial": partial}
    for kernel in found.kernels:
        ready = printed(kernel, arch) if arch else kernel
        simulate(ready, arguments(kernel, **given), group=group, seed=seed, trace=False)
    check(p, d, dst)
    return dst


@each(("op", "rounds"), [*product(("softmax", "layer_norm", "rms_norm"), (1, 3, 4, 9))], sample=4)
def test_fewer_and_more_rounds_than_the_ring_has(op: str, rounds: int) -> None:
    """With a ragged end, at every remainder of the rounds by the ring's."""
    n = 2 * 32 * 4 * rounds - 24
    launched(norm_problem(op, (2, n), 1, "f32"), config(2, 4, rows=2), rounds)


@each(
    ("p", "c"),
    [
        (norm_problem("softmax", (1, 5001), 1, "f16"), config(3, 4, vec=8)),
        (norm_problem("softmax", (2, 2501), 1, "f16", None, None, 3, 3), config(2, 3, 1, rows=2, vec=8)),
        (norm_problem("layer_norm", (3, 1301), 1, "bf16", weight=True), config(2, 2, 1, rows=3, vec=8)),
        (norm_problem("layer_norm", (1, 2605), 1, "bf16", bias=True), config(3, 2, 1, vec=8)),
        (norm_problem("layer_norm", (1, 4096), 1, "f32", weight=True, in_place=True), config(4, 4)),
        (norm_problem("rms_norm", (4, 2003), 1, "f32"), config(3, 8, 4, rows=4)),
        (norm_problem("layer_norm", (2, 3, 5, 256), (1, 3), "f32"), config(2, 6, rows=5)),
        (norm_problem("rms_norm", (6, 700), (0, 1), "f32"), config(5, 4, 1, threads=64)),
    ],
    ids=str,
    sample=2,
)  # fmt: skip
def test_ragged_rows_of_several_modes(p: NormProblem, c: NormConfig) -> None:
    """Rows that start anywhere, of several modes, and in place."""
    launched(p, c)


@pytest.mark.deep
@each(("rows", "at_once"), [(2, 1), (5, 1), (5, 2), (4, 2), (7, 3)])
def test_rows_in_turn(rows: int, at_once: int) -> None:
    """Blocks go on to further rows; those that have none left do not wait for the others."""
    for op in ("softmax", "layer_norm", "rms_norm"):
        p = norm_problem(op, (rows, 2003), 1, "f32")
        launched(p, replace(config(2, 4), resident=2 * at_once), rows)
        launched(p, replace(config(2, 4), resident=2 * at_once), rows, "warp")


@pytest.mark.deep
def test_random_rows_agree() -> None:
    rng = random.Random(20261123)
    for seed in range(12):
        n, rows, splits = rng.randint(600, 5000), rng.choice((1, 1, 2, 3)), rng.choice((2, 3, 5))
        dtype, depth = rng.choice(("f32", "bf16")), rng.choice((1, 2))
        offset = rng.choice((0, 0, 1, 8))
        p = norm_problem(
            rng.choice(("softmax", "layer_norm", "rms_norm")), (rows, n), 1, dtype,
            src_offset=offset, dst_offset=offset,
        )  # fmt: skip
        launched(
            p, config(splits, depth * rng.randint(1, 4), depth, rows=rows, vec=16 // p.dtype.nbytes), seed
        )


def test_equal_bits_whatever_the_order_of_warps() -> None:
    p, c = norm_problem("layer_norm", (1, 3001), 1, "f32"), config(3, 4)
    one, other = (launched(p, c, 7, group) for group in ("block", "warp"))
    assert np.array_equal(one, other)


def test_the_printed_program_agrees() -> None:
    launched(norm_problem("softmax", (2, 2501), 1, "bf16"), config(2, 4, rows=2, vec=8), arch="sm_90")


def test_the_rounds_are_dealt_among_all_blocks() -> None:
    """Steps of all threads of all blocks: each of the row's once, and the plain ones exist in all of them."""
    p, c = norm_problem("softmax", (1, 4 * 1001), 1, "f32"), config(3, 4)
    walk = walk_of(form_of(p), p.dtype, c)
    schedule = Schedule(walk, c)
    steps = [
        walk.step(y, i * c.splits + split)
        for split in range(c.splits)
        for y in range(c.threads_per_row)
        for i in range(schedule.rounds)
    ]
    assert sorted(s for s in steps if s < walk.steps) == list(range(walk.steps))
    low, high = schedule.plain
    assert (low, high) == (0, walk.steps // (c.splits * c.threads_per_row))


def test_without_the_clearing_kernel_the_counter_is_wrong() -> None:
    p, c = norm_problem("softmax", (1, 2048), 1, "f32"), config(2, 4)
    d, found = data(p, 1), plan(p, config=c)
    partial = np.ones(found.workspace_elems, np.float32)
    with pytest.raises(SimulationError, match="it is 0 before the launch"):
        simulate(found.kernels[1], arguments(found.kernels[1], src=d.src, dst=d.old.copy(), partial=partial))


@each(("op", "rows", "at_once"), [("layer_norm", 3, 1), ("softmax", 3, 2), ("rms_norm", 1, 1)], sample=1)
def test_the_barrier_of_the_blocks_is_needed_as_it_is(op: str, rows: int, at_once: int) -> None:
    """Left out, with other arrivals or in another order, in each turn: the simulator says what is wrong."""
    p = norm_problem(op, (rows, 1501), 1, "f32")
    c = replace(config(2, 2, 1, threads=64), resident=2 * at_once)
    d, found = data(p, 1, special=False), plan(p, config=c)
    tried = [m for m in mutants(found.kernels[1]) if "grid_sync" in m.label]
    assert any("no grid_sync" in m.label for m in tried) and any("fewer" in m.label for m in tried)
    for mutant in tried:
        dst, partial = d.old.copy(), np.zeros(found.workspace_elems, np.float32)
        given = {"src": d.src, "dst": dst, "partial": partial}
        with pytest.raises((SimulationError, AssertionError)):
            simulate(printed(mutant.kernel), arguments(mutant.kernel, **given), trace=False)
            check(p, d, dst)
            pytest.fail(f"nothing catches it: {mutant.label}", pytrace=False)


def test_what_stays_is_not_read_again() -> None:
    """Vectors that the kernel copies: all of them, and those that the rings of all blocks do not hold."""
    p = norm_problem("softmax", (1, 4 * 32 * 2 * 10), 1, "f32")
    for staged, again in ((4, 6), (8, 2), (12, 0)):
        found = plan(p, config=config(2, staged))
        d = data(p, 1, special=False)
        given = {"src": d.src, "dst": d.old.copy(), "partial": np.zeros(found.workspace_elems, np.float32)}
        run = simulate(found.kernels[1], arguments(found.kernels[1], **given))
        assert sum(run.executed["cp_async_16"]) == 2 * (10 + again)


def test_columns_are_refused() -> None:
    p = norm_problem("softmax", (4096, 64), 0, "f32")
    with pytest.raises(UnsupportedError, match="by 8 resident blocks: 8 times"):
        plan(p, config=NormConfig(4, 16, 16, "global", 4, 8, 8, resident=8))
    row = norm_problem("softmax", (1, 4096), 1, "f32")
    with pytest.raises(UnsupportedError, match="by 2 resident blocks"):
        plan(row, config=replace(config(2, 4), staged=0))
    with pytest.raises(UnsupportedError, match="by 3 resident blocks: 2 times"):
        plan(row, config=replace(config(2, 4), resident=3))


def test_what_memory_moves_is_what_is_copied_and_stored() -> None:
    """The closed form beside the count of a program's vectors."""
    for rounds, staged in ((10, 4), (10, 0), (3, 4)):
        again = [i for i in range(rounds) if i >= staged]
        assert moved_bytes(rounds, staged) == 2 * rounds + len(again)


@each(("shape", "dtype", "together"), [
    ((1, 89090306), "bf16", True), ((12, 11853096), "bf16", True), ((4, 4891734), "f32", True),
    ((1, 1 << 20), "f32", False), ((512, 262144), "f32", False), ((8192, 8192), "f32", False),
])  # fmt: skip
def test_rows_that_no_cluster_holds_are_kept_by_resident_blocks(
    shape: tuple[int, ...], dtype: str, together: bool
) -> None:
    p = norm_problem("softmax", shape, 1, dtype)
    c = configs(p)[0]
    assert c.together == together and not configs(p, "sm_80")[0].together
    if together:
        assert c.resident % c.splits == 0 and c.resident <= 132 * c.blocks_per_sm
        assert any(other.splits > 1 and not other.together for other in configs(p))


def kernels_of(p: NormProblem, c: NormConfig) -> tuple[Kernel, ...]:
    return plan(p, config=c).kernels


def test_a_launch_is_cooperative_and_its_blocks_fit() -> None:
    clear, kernel = kernels_of(norm_problem("softmax", (1, 1 << 22), 1, "f32"), config(264, 12, threads=512))
    assert not clear.cooperative and kernel.cooperative and kernel.min_blocks == 2
