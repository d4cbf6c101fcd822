"""Norms over columns whose slabs the blocks of a cluster keep: results, and the order that they need."""

from __future__ import annotations

import random
from typing import Any

import pytest

from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import LayoutAlgError, SimulationError, UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.cluster import BLOCK_BYTES, neighbours, slab_bytes
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import Hold
from layoutalg.kernels.verification import verify
from tests.mutants.ordering import mutants
from tests.norms import check, data, launch_all
from tests.sweeps import each

VEC = {"f32": 4, "f16": 8, "bf16": 8}


def slab(
    dtype: str, lanes: int, share: int, cluster: int, *, staged: int = 0, resident: int = 0
) -> NormConfig:  # fmt: skip
    """A configuration by threads side by side, threads of a column and blocks."""
    return NormConfig(
        VEC[dtype], lanes, share, "shared", 2, staged=staged, cluster=cluster, resident=resident
    )  # fmt: skip


def run(p: NormProblem, c: NormConfig, seed: int = 1, **options: Any) -> None:
    """Simulate a configuration and compare it with the definition."""
    d = data(p, seed)

    def launch(kernel: Kernel, args: dict[str, Any]) -> None:
        simulate(kernel, args, **options)

    check(p, d, launch_all(plan(p, "sm_90a", c), d, launch, lambda x: x))


@pytest.mark.deep
@each("cluster", [2, 3, 16])
def test_any_cluster_any_rows(cluster: int) -> None:
    rng = random.Random(cluster)
    for op in ("softmax", "layer_norm", "rms_norm"):
        dtype, lanes = rng.choice(list(VEC)), rng.choice([4, 8])
        rows = rng.randint(9 * cluster, 12 * cluster)
        extra: dict[str, Any] = {} if op == "softmax" else {"weight": True, "bias": op == "layer_norm"}
        p = norm_problem(op, (rows, 3 * VEC[dtype]), 0, dtype, **extra)
        run(p, slab(dtype, lanes, 64 // lanes, cluster))


@pytest.mark.deep
@each("resident", [1, 2, 3])
def test_clusters_go_from_slab_to_slab(resident: int) -> None:
    for dtype, rows, staged in (("f32", 96, 0), ("bf16", 96, 5), ("f16", 85, 0), ("f32", 85, 4)):
        p = norm_problem("layer_norm", (2, rows, 9 * VEC[dtype]), 1, dtype, bias=True)
        run(p, slab(dtype, 4, 8, 2, staged=staged, resident=resident))


def test_resident_clusters_of_slabs_that_fill_several_modes() -> None:
    run(norm_problem("softmax", (2, 70, 40), 1, "f32"), slab("f32", 4, 16, 2, resident=2))


@pytest.mark.deep
@each("shape", [(3, 130, 24), (2, 77, 8), (1, 64, 136)])
def test_columns_that_no_slab_divides(shape: tuple[int, ...]) -> None:
    run(norm_problem("softmax", shape, 1, "f32"), slab("f32", 8, 8, 2))
    run(norm_problem("layer_norm", shape, 1, "bf16", bias=True), slab("bf16", 4, 8, 3))


def test_several_reduced_modes_and_a_padded_pitch() -> None:
    strides = (5 * 7 * 40, 40, 200, 1)
    p = norm_problem("layer_norm", (3, 5, 7, 32), (0, 2), "f16", strides, strides, 8, 8, weight=True)
    run(p, slab("f16", 4, 8, 2))


def test_registers_keep_what_shared_memory_has_no_room_for() -> None:
    for rows in (256, 250):
        run(norm_problem("softmax", (rows, 32), 0, "f32"), slab("f32", 8, 8, 4, staged=5))


def test_in_place() -> None:
    run(norm_problem("softmax", (99, 64), 0, "bf16", in_place=True), slab("bf16", 8, 8, 2))


@pytest.mark.deep
def test_warps_in_any_order() -> None:
    p = norm_problem("softmax", (96, 48), 0, "f32")
    for seed in range(3):
        run(p, slab("f32", 4, 16, 3, resident=seed), group="warp", seed=seed)


def verdict(kernel: Kernel, p: NormProblem) -> str:
    """What is wrong with a kernel: "checked", "hazard", "result", or "" for nothing."""
    d = data(p, 1, special=False)
    found = ""
    orders: tuple[dict[str, Any], ...] = ({}, {"group": "warp", "seed": 3})
    for options in orders:
        args = {"src": d.src.copy(), "dst": d.old.copy()}
        try:
            simulate(printed(kernel), args, trace=False, **options)
            check(p, d, args["dst"])
        except SimulationError:
            found = "hazard"
        except LayoutAlgError:
            found = "checked"
        except AssertionError:
            found = found or "result"
    return found


@pytest.mark.deep
@each("resident", [0, 1])
def test_every_barrier_is_needed(resident: int) -> None:
    p = norm_problem("softmax", (32, 32), 0, "f32")
    (kernel,) = plan(p, "sm_90a", slab("f32", 4, 16, 2, resident=resident)).kernels
    assert verdict(kernel, p) == ""
    waits = [m for m in mutants(kernel) if m.label.startswith("no ")]
    missed = {m.label for m in waits if verdict(m.kernel, p) == ""}
    assert len(waits) > 4 and all(label.startswith("no warp_sync") for label in missed), missed


@each("rows", [1000, 4096, 8192, 14000, 30000], sample=1)
def test_what_is_ranked_fits(rows: int) -> None:
    """Shared memory is at most what the plan says, for the blocks of a multiprocessor that it counts on."""
    for dtype in ("f32", "bf16"):
        p = norm_problem("layer_norm", (rows, 8192), 0, dtype)
        kept = [c for c in configs(p, "sm_90") if c.cluster > 1]
        assert kept
        for c in kept[:3]:
            (kernel,) = plan(p, "sm_90", c).kernels
            staged = c.staged or -(-rows // (c.threads_per_row * c.cluster))
            most = slab_bytes(c.vec, 16, c.rows_per_block, c.threads, staged, c.cluster)
            assert kernel.shared_bytes <= most <= BLOCK_BYTES
            assert kernel.min_blocks == neighbours(kernel.shared_bytes, c.threads)


MEASURED = (
    ("f32", 1024, 65536, (16, 256, 4, 0, 0), 0.923, 0.925),
    ("bf16", 1024, 131072, (8, 256, 2, 0, 0), 0.850, 0.873),
    ("f32", 2048, 32768, (16, 256, 8, 15, 0), 0.895, 0.895),
    ("bf16", 2048, 65536, (8, 256, 4, 0, 0), 0.811, 0.811),
    ("f32", 4096, 16384, (16, 256, 8, 25, 0), 0.888, 0.888),
    ("bf16", 4096, 32768, (8, 256, 8, 0, 0), 0.820, 0.820),
    ("f32", 8192, 8192, (8, 256, 16, 0, 0), 0.855, 0.855),
    ("bf16", 8192, 16384, (8, 256, 8, 25, 0), 0.770, 0.792),
    ("f32", 14336, 4672, (8, 256, 16, 25, 0), 0.806, 0.806),
    ("bf16", 14336, 9344, (8, 256, 16, 24, 0), 0.763, 0.763),
    ("f32", 27648, 2432, (8, 512, 16, 26, 7), 0.753, 0.753),
    ("bf16", 27648, 4864, (8, 512, 16, 25, 7), 0.694, 0.694),
)
"""Softmaxes over columns on one H200, 2026-11-23 (tests/gpu/column_ways): a way as threads side by side,
threads, blocks of a cluster, vectors in shared memory, clusters that stay; its share of a copy, and the best
of all ways.  Of 2048 rows in f32 all vectors were in shared memory."""


def test_what_is_chosen_was_measured_and_is_near_the_best() -> None:
    for dtype, rows, columns, way, share, best in MEASURED:
        c = configs(norm_problem("softmax", (rows, columns), 0, dtype), "sm_90a")[0]
        assert (c.rows_per_block, c.threads, c.cluster, c.staged, c.resident) == way
        assert share >= 0.97 * best


def test_clusters_are_for_hopper_and_aligned_columns() -> None:
    assert all(c.cluster == 1 for c in configs(norm_problem("softmax", (8192, 8192), 0, "f32"), "sm_80"))
    odd = norm_problem("softmax", (8191, 8193), 0, "f32")
    assert all(c.cluster == 1 for c in configs(odd))
    with pytest.raises(UnsupportedError, match="aligned columns"):
        plan(odd, "sm_90", slab("f32", 8, 8, 2))


@pytest.mark.deep
def test_costs_are_those_of_a_run() -> None:
    family = find_family("softmax")
    p = family.problem((32, 24), 0, "f32")
    report = verify(family, p, slab("f32", 4, 8, 2, staged=1, resident=1))
    assert report.passed, report


@pytest.mark.deep
@each("hold", ["registers", "shared"])
def test_one_block_keeps_a_slab_and_one_warp_joins(hold: Hold) -> None:
    rng = random.Random(hold)
    for op in ("softmax", "layer_norm", "rms_norm"):
        for resident in (99, 2):
            dtype, lanes = rng.choice(list(VEC)), rng.choice([4, 8, 16])
            extra: dict[str, Any] = {} if op == "softmax" else {"weight": True, "bias": op == "layer_norm"}
            p = norm_problem(op, (2, rng.randint(60, 90), 5 * lanes * VEC[dtype] // 2), 1, dtype, **extra)
            run(p, NormConfig(VEC[dtype], lanes, 64 // lanes, hold, 2, resident=resident))
