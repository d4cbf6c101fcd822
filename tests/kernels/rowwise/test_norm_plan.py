"""The plan of a norm: what is held where, what can be launched, and that what is chosen is near the best."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from layoutalg.codegen.program.checks import check
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.ways import neighbours
from layoutalg.kernels.rowwise.ways.norm_model import BLOCK_BYTES, MOST_WORDS, held_columns, slab_bytes
from layoutalg.kernels.rowwise.ways.norm_plan import HELD_WORDS, SHARED_BYTES, form_of, norm_configs
from layoutalg.kernels.rowwise.ways.schedule import Schedule, walk_of
from tests.draws.norms import random_problem
from tests.sweeps import each


def best(op: str, shape: tuple[int, ...], axes: Any, dtype: str = "f32", arch: str = "sm_90") -> NormConfig:
    """What is chosen."""
    return norm_configs(norm_problem(op, shape, axes, dtype), arch)[0]


@each("seed", range(40), sample=18)
def test_every_configuration_fits(seed: int) -> None:
    p = random_problem(random.Random(seed), 10**7)
    found = norm_configs(p)
    assert found and len(set(found)) == len(found)
    for c in found:
        walk = walk_of(form_of(p), p.dtype, c)
        schedule, tiling = Schedule(walk, c), walk.tiling
        assert c.threads % 32 == 0 and c.threads <= 1024
        assert all(n & (n - 1) == 0 for n in (c.threads_per_row, c.rows_per_block))
        most = HELD_WORDS if walk.rows else MOST_WORDS
        assert c.hold == "global" or (schedule.rounds - schedule.staged) * tiling.words <= most
        assert schedule.staged * c.threads * tiling.nbytes <= SHARED_BYTES
        assert c.splits == 1 or c.hold == "global"
    for kernel in plan(p).kernels:
        check(kernel)


@each(
    ("op", "shape", "axes", "dtype", "wanted"),
    [
        *(("softmax", shape, axis, dtype, {"hold": hold}) for shape, axis, dtype, hold in (
            ((65536, 1024), 1, "f32", "registers"), ((8192, 8192), 1, "bf16", "registers"),
            ((64, 256, 56, 56), 1, "f32", "shared"), ((32, 1024, 1024), 1, "f32", "shared"),
            ((4096, 50257), 1, "f16", "shared"), ((8192, 8192), 0, "f32", "shared"),
            ((65536, 1024), 0, "f32", "global"), ((1, 1 << 24), 1, "f32", "global"),
            ((128, 1 << 21), 1, "f32", "global"),
        )),
        *(("softmax", shape, 1, dtype, {"together": yes}) for shape, dtype, yes in (  # resident blocks
            ((1, 89090306), "bf16", True), ((12, 11853096), "bf16", True), ((4, 4891734), "f32", True),
            ((1, 1 << 20), "f32", False), ((512, 262144), "f32", False), ((8192, 8192), "f32", False),
        )),
        *(("softmax", (rows, 1 << 18), 1, "f32", {"splits": splits, "cluster": cluster})
          for rows, splits, cluster in (
            (1, [1], range(2, 17)), (7, [1], range(2, 17)), (65, [1], range(2, 17)))),
        *(("softmax", ((1 << 27) // n, n), 1, dtype, {"cluster": range(least, most + 1), "hold": "shared"})
          for n, dtype, least, most in (
            (16384, "bf16", 1, 6), (65536, "f32", 4, 16), (262144, "f32", 12, 16),
            (1 << 20, "bf16", 16, 16))),
        *(("softmax", (1666, 10, 9, 9, n), (0, 1, 4), "f32", {"width": width})  # pieces within vectors
          for n, width in ((45, range(1, 1 << 20)), (48, [0]), (65, [0]))),
        *(("rms_norm", shape, axes, "bf16", {"width": range(1, 1 << 20), "vec": 8})  # odd pitches
          for shape, axes in (((557855, 117), 0), ((9873, 2369, 3), (0, 2)), ((100376, 166, 8), (0, 2)))),
        # of few rows of many columns the partials are 5 times the tensor: narrower vectors have more rows
        ("layer_norm", (2, 98, 7, 379, 6, 31), (0, 2, 3, 5), "bf16", {"width": 372, "vec": 2}),
        *(("layer_norm", shape, axes, dtype, {"turns": turns}) for shape, axes, dtype, turns in (  # runs
            ((171, 10, 2, 454, 19, 3), (2, 4), "f32", range(1, 99)),
            ((60, 100, 3, 333, 7, 5), (2, 4), "bf16", range(1, 99)),
            ((20, 2, 99, 9001, 3), (1, 3), "f32", 0), ((2, 2, 54, 19, 3), (1, 3), "f32", 0))),
    ],
    ids=str,
sample=15)  # fmt: skip
def test_what_is_chosen(op: str, shape: tuple[int, ...], axes: Any, dtype: str, wanted: Any) -> None:
    """Each attribute is the one that is wanted, or one of them."""
    c = best(op, shape, axes, dtype)
    for name, values in wanted.items():
        assert getattr(c, name) in (values if isinstance(values, (list, range)) else [values]), name
    if wanted.get("together"):
        every = norm_configs(norm_problem(op, shape, axes, dtype))
        assert c.resident % c.splits == 0 and c.resident <= 132 * c.blocks_per_sm
        assert any(other.splits > 1 and not other.together for other in every)
        assert not best(op, shape, axes, dtype, "sm_80").together


@each(
    ("p", "arch", "never"),
    [
        (norm_problem("softmax", (4, 60000), 1, "f32"), "sm_75", lambda c: c.hold == "shared"),
        (norm_problem("softmax", (512, 262144), 1, "f32"), "sm_80", lambda c: c.cluster > 1),
        (norm_problem("softmax", (8192, 8192), 0, "f32"), "sm_80", lambda c: c.cluster > 1),
        (norm_problem("softmax", (8191, 8193), 0, "f32"), "sm_90", lambda c: c.cluster > 1),
        (norm_problem("softmax", (999, 117), 0, "bf16"), "sm_90", lambda c: c.width > 0),
    ],
    ids=str,
)
def test_what_a_machine_or_a_tensor_has_not(p: NormProblem, arch: str, never: Callable[[Any], bool]) -> None:
    assert not any(map(never, norm_configs(p, arch)))
    assert arch != "sm_80" or p.axes.axes == (0,) or norm_configs(p, arch)[0].hold == "global"


RAGGED, ODD = norm_problem("softmax", (90, 5), 1, "f32"), norm_problem("softmax", (99, 13), 0, "f16")
SHIFTED = norm_problem("softmax", (90, 5), 1, "f32", None, None, 3, 3, in_place=True)
LONG = norm_problem("softmax", (1, 4096), 1, "f32")


@each(
    ("p", "c", "message"),
    [
        (RAGGED, NormConfig(1, 32, 1, "registers", splits=2, turns=1), "split in 2, by registers"),
        (RAGGED, NormConfig(1, 32, 1, "global", turns=1), "runs are whole, and held"),
        (SHIFTED, NormConfig(1, 32, 1, "registers", turns=1), "share a unit of 4"),
        (RAGGED, NormConfig(2, 32, 1, "registers", turns=1), "not all rows start and end at 2"),
        (ODD, NormConfig(8, 8, 8, "global", 2, 2, width=52), "whole vectors"),
        (ODD, NormConfig(8, 8, 8, "registers", width=104), "whole vectors"),
        (ODD, NormConfig(8, 8, 8, "global", 2, cluster=2, width=104), "whole vectors"),
        (norm_problem("softmax", (4096, 64), 0, "f32"), NormConfig(4, 16, 16, "global", 4, 8, 8, resident=8),
         "by 8 resident blocks: 8 times"),
        (LONG, NormConfig(4, 1, 32, "global", 2, 2, resident=2), "by 2 resident blocks"),
        (LONG, NormConfig(4, 1, 32, "global", 2, 2, 4, resident=3), "by 3 resident blocks: 2 times"),
        (LONG, NormConfig(4, 1, 64, "shared", splits=2), "read twice"),
        (norm_problem("softmax", (8191, 8193), 0, "f32"), NormConfig(4, 8, 16, "shared", 2, cluster=2),
         "by vectors of 4 elements"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_kernel_does_is_refused_by_name(p: NormProblem, c: NormConfig, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        plan(p, config=c)


# --- columns -------------------------------------------------------------------------------------------


@each("rows", [2, 19, 174, 900])
def test_columns_of_a_block_fit(rows: int) -> None:
    assert best("softmax", (rows, 1 << 18), 0, "bf16").hold != "global"
    for c in held_columns(rows, 1 << 20, 8, 16):
        assert c.threads in (64, 128, 256, 512)
        assert c.hold == "shared" or -(-rows // c.threads_per_row) * 4 <= 64


@each("rows", [1000, 4096, 8192, 14000, 30000], sample=1)
def test_slabs_that_are_ranked_fit(rows: int) -> None:
    """Shared memory is at most what the plan says, for the blocks of a multiprocessor that it counts on."""
    for dtype in ("f32", "bf16"):
        p = norm_problem("layer_norm", (rows, 8192), 0, dtype)
        kept = [c for c in norm_configs(p, "sm_90") if c.cluster > 1]
        assert kept
        for c in kept[:3]:
            (kernel,) = plan(p, "sm_90", c).kernels
            staged = c.staged or -(-rows // (c.threads_per_row * c.cluster))
            most = slab_bytes(c.vec, 16, c.rows_per_block, c.threads, staged, c.cluster)
            assert kernel.shared_bytes <= most <= BLOCK_BYTES
            assert kernel.min_blocks == neighbours(kernel.shared_bytes, c.threads)


# --- what was measured ---------------------------------------------------------------------------------

SLABS = (
    ("f32", 1024, 65536, (16, 256, 4, 0, 0), 0.923, 0.925),
    ("bf16", 1024, 131072, (8, 256, 2, 0, 0), 0.850, 0.873),
    ("f32", 2048, 32768, (16, 256, 8, 15, 0), 0.895, 0.895),
    ("bf16", 4096, 32768, (8, 256, 8, 0, 0), 0.820, 0.820),
    ("f32", 8192, 8192, (8, 256, 16, 0, 0), 0.855, 0.855),
    ("bf16", 8192, 16384, (8, 256, 8, 25, 0), 0.770, 0.792),
    ("f32", 14336, 4672, (8, 256, 16, 25, 0), 0.806, 0.806),
    ("bf16", 27648, 4864, (8, 512, 16, 25, 7), 0.694, 0.694),
)  # fmt: skip
"""Softmaxes over columns on one H200, 2026-11-23 (tests/gpu/column_ways): a way as threads side by side,
threads, blocks of a cluster, vectors in shared memory, clusters that stay; its share of a copy, and the best
of all ways.  Of 2048 rows in f32 all vectors were in shared memory."""


@each(("dtype", "rows", "columns", "way", "share", "most"), SLABS)
def test_the_slab_that_is_chosen_was_measured_and_is_near_the_best(
    dtype: str, rows: int, columns: int, way: tuple[int, ...], share: float, most: float
) -> None:
    c = best("softmax", (rows, columns), 0, dtype, "sm_90a")
    assert (c.rows_per_block, c.threads, c.cluster, c.staged, c.resident) == way and share >= 0.97 * most


LONG_ROWS = json.loads((Path(__file__).parents[2] / "data" / "long_rows.json").read_text(encoding="utf-8"))
"""Every way of keeping long rows, timed: those of which the model's numbers are, drawn ones, and few rows."""

ROW_WAYS = json.loads((Path(__file__).parents[2] / "data" / "row_ways.json").read_text(encoding="utf-8"))
"""The first 60 of 237 drawn norms on one H200 with a cold L2, to which nothing is fitted, and the times of up
to 12 ways of each, by the fields of a configuration (python -m tests.gpu.first_choices 14101 out.json)."""


@each(("name", "least", "mean"), [("fixed", 0.915, 0.984), ("drawn", 0.925, 0.979), ("few", 0.84, 0.938)])
def test_what_keeps_long_rows_is_near_the_best_of_all_that_was_measured(
    name: str, least: float, mean: float
) -> None:
    shares = []
    for case in LONG_ROWS[name]:
        p, known = norm_problem(case["op"], (case["rows"], case["columns"]), 1, case["dtype"]), case["ways"]
        ways = (f"{c.cluster} {c.threads_per_row} {c.staged}" for c in norm_configs(p) if c.hold == "shared")
        shares.append(min(known.values()) / known[next(way for way in ways if way in known)])
    assert min(shares) >= least and geometric_mean(shares) >= mean


@pytest.mark.deep
def test_first_choices_are_near_the_best_of_all_that_was_measured() -> None:
    shares = []
    for case in ROW_WAYS["14101"]:
        asked = {name: value for name, value in case.items() if name not in ("op", "ways")}
        p = norm_problem(case["op"], tuple(asked.pop("shape")), tuple(asked.pop("axes")), **asked)
        ways = (" ".join(map(str, astuple(c))) for c in norm_configs(p))
        shares.append(min(case["ways"].values()) / case["ways"][next(w for w in ways if w in case["ways"])])
    assert len(shares) == 60 and min(shares) >= 0.73 and geometric_mean(shares) >= 0.948
