"""Norms and reductions agree in every way of computing them: the definition within its bounds, the simulator,
the text run on the host, and the costs that are read off the programs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from math import fsum, prod
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.program import Do, Kernel, Stmt
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels.elements import numbers_of
from layoutalg.kernels.rowwise import (
    NormConfig,
    NormProblem,
    ReduceConfig,
    norm_problem,
    plan_with,
    plans,
    reduce_problem,
)
from layoutalg.kernels.rowwise.columns import Beside, Later, held_columns
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import walk_of
from layoutalg.kernels.rowwise.unaligned import CutRows, HeadTail, SkewedColumns, SkewedSums
from tests.draws.norms import data, random_problem, streams
from tests.draws.reductions import random_plan, random_reduction
from tests.judges.agreement import agree
from tests.kernels.rowwise.definition import STREAMS
from tests.mutants import planting
from tests.sweeps import each
from tests.tiers import first_tier

VEC = {"f32": 4, "f16": 8, "bf16": 8}
OPS = ("softmax", "layer_norm", "rms_norm")
Case = tuple[Any, Any]


def parameters(rng: random.Random, op: str) -> dict[str, Any]:
    """A weight and a bias, where an operation has them."""
    return {
        "weight": op != "softmax" and rng.random() < 0.5,
        "bias": op == "layer_norm" and rng.random() < 0.5,
    }


# --- drawn cases of every way --------------------------------------------------------------------------


def read_twice(c: NormConfig, rng: random.Random, *, ring: bool) -> NormConfig:
    """The threads of a configuration that keeps nothing, in some parts."""
    splits, staged = rng.choice([1, 2, 3]), rng.choice([0, 2, 4]) if ring else 0
    return NormConfig(c.vec, c.rows_per_block, c.threads_per_row, "global", 2, splits, staged)


def a_norm(rng: random.Random) -> Case:
    """What the plan chooses, read twice, split, or kept in shared memory."""
    p = random_problem(rng, 1500)
    c = rng.choice(configs(p))
    ring = c.vec * p.dtype.nbytes >= 4
    if rng.random() < 0.3:
        c = read_twice(c, rng, ring=ring)
    elif ring and rng.random() < 0.4:
        c = replace(c, hold="shared", staged=rng.choice([0, 1]), depth=2)
    return p, c


def an_rms_norm(rng: random.Random) -> Case:
    """Rows and columns, ragged, skewed and in place, held, read twice and split, weighted or not."""
    q = random_problem(rng, 1200)
    a = q.axes
    p = norm_problem(
        "rms_norm", a.shape, a.axes, a.dtype, a.src, a.dst, a.src_offset, a.dst_offset,
        eps=rng.choice([1e-5, 0.1]), weight=rng.random() < 0.5, in_place=q.in_place,
    )  # fmt: skip
    c = rng.choice(configs(p))
    return p, read_twice(c, rng, ring=False) if rng.random() < 0.3 else c


def skewed_columns(rng: random.Random) -> Case:
    """Odd pitches, offsets that both sides share, kept modes around, whatever the plan may choose."""
    outer, rows, width = rng.choice([1, 1, 3]), rng.randint(2, 90), rng.randint(9, 80)
    pitch, at = width // 2 * 2 + 1 + rng.choice([0, 0, 2, 8]), rng.choice([0, 0, rng.randint(1, 9)])
    op, strides = rng.choice(OPS[:2]), (rows * pitch, pitch, 1)
    p = norm_problem(
        op, (outer, rows, width), 1, rng.choice(list(VEC)), strides, strides, at, at, **parameters(rng, op)
    )

    def skewed(c: NormConfig) -> bool:
        return isinstance(walk_of(form_of(p), p.dtype, c), SkewedColumns)

    wide = NormConfig(16 // p.dtype.nbytes, 8, 64, "global", 4)
    c = rng.choice([*filter(skewed, configs(p)), wide])
    assert skewed(c)
    if rng.random() < 0.4:
        c = replace(c, hold="global", splits=rng.choice([1, 2, 3]), staged=rng.choice([0, 2 * c.depth]))
    return p, c


def a_reduction(rng: random.Random) -> Case:
    p = random_reduction(rng, 3000)
    return p, random_plan(rng, p).passes[0].config


def slabs_of_runs(rng: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A shape, axes and strides whose groups lie in slabs: rows, modes kept inside, several runs."""
    n = rng.choice([3, 4, 5, 7, 8, 10, 16, 17, 24, 31, 40, 77])
    many, few = rng.randint(2, 90), rng.randint(2, 5)
    shape, axes = rng.choice([
        ((many, n), (1,)), ((few, many, n), (2,)), ((many, n, few), (1,)), ((few, many, few), (0, 2)),
        ((few, few, many, few), (1, 3)), ((many, few, few, few), (1, 3)),
    ])  # fmt: skip
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    strides[0] += rng.choice([0, 0, 0, 8, 1])
    return shape, axes, tuple(strides)


def packed(rng: random.Random, p: Any, made: Callable[[int, int, int], Any]) -> Case | None:
    """A problem with a configuration of runs, made of vector, lanes and rows; None where none fits."""
    lanes = rng.choice([1, 2, 4, 8, 16, 32])
    rows, vec = max(32 // lanes, rng.choice([4, 8, 16])), rng.choice([1, 1, 2, 4])
    for c in (made(vec, lanes, rows), made(1, lanes, rows)):
        try:
            _ = plan(p, config=c) if isinstance(p, NormProblem) else plan_with(p, c)
        except LayoutAlgError:
            continue
        return p, c
    return None


def a_packed_norm(rng: random.Random) -> Case | None:
    shape, axes, strides = slabs_of_runs(rng)
    op, at, in_place = rng.choice(OPS), rng.choice([0, 0, 8, rng.randint(1, 9)]), rng.random() < 0.3
    to = at if in_place or rng.random() < 0.6 else at + rng.choice([2, 4, 8])
    p = norm_problem(
        op,
        shape,
        axes,
        rng.choice(list(VEC)),
        strides,
        strides,
        at,
        to,
        in_place=in_place,
        **parameters(rng, op),
    )
    hold, turns = "shared" if rng.random() < 0.3 else "registers", rng.randint(1, 3)
    return packed(rng, p, lambda vec, lanes, rows: NormConfig(vec, rows, lanes, hold, 2, turns=turns))  # type: ignore[arg-type]


def a_packed_reduction(rng: random.Random) -> Case | None:
    shape, axes, strides = slabs_of_runs(rng)
    op, at = rng.choice(["sum", "max", "mean", "min", "var", "logsumexp"]), rng.choice([0, 0, 8, 3])
    p = reduce_problem(shape, axes, op, rng.choice(list(VEC)), strides, src_offset=at)
    depth, own = rng.choice([2, 3, 8]), rng.randint(1, 3)
    return packed(rng, p, lambda vec, lanes, rows: ReduceConfig(vec, lanes, rows, 1, depth, own, packed=True))


def slab(
    dtype: str, lanes: int, share: int, cluster: int, *, staged: int = 0, resident: int = 0
) -> NormConfig:
    """A configuration by threads side by side, threads of a column and blocks."""
    return NormConfig(
        VEC[dtype], lanes, share, "shared", 2, staged=staged, cluster=cluster, resident=resident
    )  # fmt: skip


def a_slab_of_a_cluster(rng: random.Random) -> Case:
    """Any cluster, any rows and columns, in one turn or from slab to slab, some vectors in registers."""
    op, dtype, lanes = rng.choice(OPS), rng.choice(list(VEC)), rng.choice([4, 8])
    cluster, resident = rng.choice([(2, 0), (3, 0), (16, 0), (2, 1), (2, 2), (2, 3), (3, 2)])
    rows, columns = rng.randint(9 * cluster, 12 * cluster), VEC[dtype] * rng.randint(1, 9)
    staged = rng.choice([0, 0, 4, 5]) if resident and cluster == 2 and rows > 64 else 0
    p = norm_problem(op, (rng.choice([1, 1, 2]), rows, columns), 1, dtype, **parameters(rng, op))
    return p, slab(dtype, lanes, 64 // lanes, cluster, staged=staged, resident=resident)


def a_slab_of_a_block(rng: random.Random) -> Case:
    """One block keeps a slab, in shared memory or registers, and one warp joins its columns or all do."""
    op, dtype, rows = rng.choice(OPS), rng.choice(list(VEC)), rng.randint(2, 90)
    vec = VEC[dtype]
    s = rng.choice([s for s in held_columns(rows, 64, vec, 16) if s.threads <= 128])
    columns = rng.choice([s.side, s.side + 3]) * vec
    resident = rng.choice([2, 6, 99]) if s.by_one else 0
    c = NormConfig(vec, s.side, s.share, "shared" if s.shared else "registers", 2, resident=resident)
    return norm_problem(op, (rng.randint(1, 2), rows, columns), 1, dtype, **parameters(rng, op)), c


def a_stream(rng: random.Random) -> Case | None:
    dtype, (shape, axes) = rng.choice(list(VEC)), rng.choice(STREAMS)
    p = norm_problem(rng.choice(OPS), shape, axes, dtype)
    if not (found := streams(p)):
        return None
    (vec, width), side, splits = rng.choice(found), rng.choice([4, 8, 16]), rng.choice([1, 2, 3])
    staged = rng.choice([0, 0, 4]) if vec * p.dtype.nbytes >= 4 else 0
    return p, NormConfig(vec, side, 64 // side, "global", 2, splits, staged=staged, width=width)


def together(
    splits: int, staged: int, depth: int = 2, *, rows: int = 1, threads: int = 32, vec: int = 4
) -> NormConfig:
    """Parts of rows that resident blocks read together."""
    return NormConfig(vec, 1, threads, "global", depth, splits, staged, resident=splits * rows)


def a_row_of_resident_blocks(rng: random.Random) -> Case:
    """Blocks go on to further rows; those that have none left do not wait for the others."""
    n, rows, splits = rng.randint(600, 5000), rng.choice((1, 2, 3, 5, 7)), rng.choice((2, 3, 5))
    dtype, depth, at = rng.choice(("f32", "bf16")), rng.choice((1, 2)), rng.choice((0, 0, 1, 8))
    p = norm_problem(rng.choice(OPS), (rows, n), 1, dtype, src_offset=at, dst_offset=at)
    staged, at_once = depth * rng.randint(1, 4), rng.randint(1, rows)
    return p, together(splits, staged, depth, rows=at_once, vec=VEC[dtype])


DRAWN: dict[str, tuple[int, int, Callable[[random.Random], Case | None]]] = {
    "norm": (12, 10, a_norm),
    "rms_norm": (3, 10, an_rms_norm),
    "skewed": (2, 2, skewed_columns),
    "reduction": (16, 10, a_reduction),
    "packed norm": (12, 4, a_packed_norm),
    "packed reduction": (12, 8, a_packed_reduction),
    "slab of a cluster": (6, 1, a_slab_of_a_cluster),
    "slab of a block": (6, 8, a_slab_of_a_block),
    "stream": (4, 1, a_stream),
    "resident": (4, 2, a_row_of_resident_blocks),
}
"""Kind of way -> batches of ten, how many of the first one the first tier tries, and how a case is drawn."""


@pytest.mark.deep(but=tuple(f"{kind}-0" for kind in DRAWN))
@pytest.mark.parametrize(("kind", "batch"), [(k, n) for k, (many, *_) in DRAWN.items() for n in range(many)])
def test_drawn_cases_agree(kind: str, batch: int) -> None:
    _, few, draw = DRAWN[kind]
    seeds = range(10 * batch, 10 * batch + (few if first_tier() else 10))
    cases = [(seed, case) for seed in seeds if (case := draw(random.Random(f"{kind} {seed}")))]
    for seed, case in cases:
        agree(*case, seed, "warp" if seed % 8 == 7 else "block")
    assert len(cases) >= len(seeds) / 2


# --- cases by hand -------------------------------------------------------------------------------------

NORMS = (
    norm_problem("softmax", (3, 1000), 1, "f32"),
    norm_problem("softmax", (3, 1001), 1, "f16", src_offset=3, dst_offset=3),
    norm_problem("softmax", (100, 64), 0, "bf16"),
    norm_problem("softmax", (2, 50, 33), 1, "f32", in_place=True),
    norm_problem("softmax", (4, 3, 10, 10), (0, 2, 3), "f16"),
    norm_problem("layer_norm", (3, 1001), 1, "bf16", weight=True, bias=True),
    norm_problem("layer_norm", (5, 256), 1, "f16", weight=True, bias=True),
    norm_problem("layer_norm", (2, 30, 48), (0, 1), "f32", weight=True, bias=True, in_place=True),
    norm_problem("layer_norm", (4, 20, 30), (1, 2), "f32", (600, 1, 20), bias=True),
    norm_problem("softmax", (90, 33), 0, "f32"),
    norm_problem("layer_norm", (3, 70, 51), 1, "f16", weight=True, bias=True),
    norm_problem("softmax", (70, 100), 0, "bf16", (101, 1), (109, 1), 3, 3),
    norm_problem("layer_norm", (60, 20, 3), (0, 2), "f16", weight=True),
)
"""Rows and columns, ragged or skewed or neither, in place or not, of one mode or several."""


@pytest.mark.deep
@each("p", NORMS, ids=str)
def test_every_way_of_a_norm_agrees(p: NormProblem) -> None:
    """What the plan may choose, what is read twice, and what is split."""
    found = configs(p)
    twice = NormConfig(found[0].vec, found[0].rows_per_block, found[0].threads_per_row, "global", 2)
    changes: list[dict[str, Any]] = [{}, {"splits": 2}, {"splits": 3, "depth": 1}]
    if twice.vec * p.dtype.nbytes >= 4:
        changes += [{"hold": "shared"}, {"hold": "shared", "staged": 1}]
        changes += [{"staged": 4}, {"staged": 6, "splits": 2}]
    for c in (*found, *(replace(twice, **change) for change in changes)):
        agree(p, c, 1)


RING = NormConfig(8, 4, 16, "global", 2, splits=2, staged=4)
MIXED = NormConfig(8, 1, 32, "shared", 2, staged=2)
REDUCTIONS = [
    (p, random_plan(random.Random(5), p).passes[0].config)
    for p in (
        reduce_problem((70, 256), 1, "mean", "f16"), reduce_problem((70, 257), 1, "sum", "f32"),
        reduce_problem((33, 100), 0, "max", "bf16"), reduce_problem((3, 16, 5, 24), (0, 2), "max", "f32"),
        reduce_problem((5000,), 0, "sum", "f16"),
    )
]  # fmt: skip


@pytest.mark.deep(but=("16", "19"))
@pytest.mark.parametrize("n", range(len(NORMS) + 7))
def test_the_printed_text_agrees_on_the_host(n: int) -> None:
    cases: list[Case] = [
        *((p, None) for p in NORMS),
        (norm_problem("softmax", (300, 64), 0, "f16"), RING),
        (norm_problem("layer_norm", (2, 1001), 1, "f16", weight=True), MIXED),
        *REDUCTIONS,
    ]
    agree(*cases[n], 2, "text")


REGISTERS, SHARED = NormConfig(4, 1, 32, "registers"), NormConfig(4, 1, 32, "shared")
HALVES = NormConfig(8, 1, 64, "registers", cluster=2)
CLUSTERS = (
    *((norm_problem(op, (1 + (n < 8), 256 * n), 1, "f32", weight=op == "rms_norm"),
       replace(REGISTERS, cluster=n))
      for op, n in (*((op, n) for op in OPS for n in (2, 3, 8)), ("softmax", 16))),
    (norm_problem("softmax", (3, 1001), 1, "f16", src_offset=3, dst_offset=3), HALVES),
    (norm_problem("softmax", (2, 1500), 1, "f32"), replace(SHARED, staged=1, cluster=3)),
    (norm_problem("softmax", (2, 1032), 1, "bf16"), replace(HALVES, hold="shared")),
    (norm_problem("layer_norm", (2, 1001), 1, "bf16", weight=True, bias=True), HALVES),
    (norm_problem("layer_norm", (2, 1500), 1, "f32", weight=True, in_place=True),
     replace(SHARED, staged=1, cluster=3)),
    (norm_problem("rms_norm", (3, 1001), 1, "f32"), replace(SHARED, cluster=4, depth=1)),
    (norm_problem("softmax", (2, 3, 5, 64), (1, 3), "f32"), replace(SHARED, cluster=2)),
    (norm_problem("softmax", (1, 130), 1, "f32"), replace(REGISTERS, cluster=8)),
)  # fmt: skip
"""Every size of a cluster; rows that start anywhere, of several modes, in place, few vectors."""

PITCHED = (5 * 7 * 40, 40, 200, 1)
SLABS = (
    (norm_problem("softmax", (2, 70, 40), 1, "f32"), slab("f32", 4, 16, 2, resident=2)),
    (norm_problem("layer_norm", (3, 5, 7, 32), (0, 2), "f16", PITCHED, PITCHED, 8, 8, weight=True),
     slab("f16", 4, 8, 2)),
    (norm_problem("softmax", (256, 32), 0, "f32"), slab("f32", 8, 8, 4, staged=5)),
    (norm_problem("softmax", (250, 32), 0, "f32"), slab("f32", 8, 8, 4, staged=5)),
    (norm_problem("softmax", (99, 64), 0, "bf16", in_place=True), slab("bf16", 8, 8, 2)),
    *((norm_problem("softmax", shape, 1, "f32"), slab("f32", 8, 8, 2))
      for shape in ((3, 130, 24), (2, 77, 8), (1, 64, 136))),
    (norm_problem("layer_norm", (3, 130, 24), 1, "bf16", bias=True), slab("bf16", 4, 8, 3)),
    *((norm_problem("layer_norm", (2, rows, 9 * VEC[dtype]), 1, dtype, bias=True),
       slab(dtype, 4, 8, 2, staged=staged, resident=resident))
      for dtype, rows, staged in (("f32", 96, 0), ("bf16", 96, 5), ("f16", 85, 0), ("f32", 85, 4))
      for resident in (1, 2, 3)),
)  # fmt: skip
"""Several modes, a padded pitch, registers for what has no room, in place, columns that no slab divides."""

WIDE = (2000, 40, 1)
STREAMED = (
    (norm_problem("layer_norm", (2, 45, 24), 1, "f16", WIDE, WIDE, 8, 16, weight=True, bias=True),
     NormConfig(8, 4, 8, "global", 2, 2, width=24)),
    (norm_problem("rms_norm", (90, 16), 0, "f32", weight=True),
     NormConfig(4, 4, 8, "global", 4, 1, width=16)),
    *((norm_problem(op, (77, 5), 0, "bf16", in_place=True), NormConfig(8, 4, 8, "global", 2, 2, width=40))
      for op in OPS[:2]),
    (norm_problem("layer_norm", (99, 6, 3), (0, 2), "f32"),
     NormConfig(4, 4, 16, "global", 2, 2, width=36)),
)  # fmt: skip

RESIDENT = (
    *((norm_problem(op, (2, 256 * rounds - 24), 1, "f32"), together(2, 4, rows=2))
      for op in OPS for rounds in (1, 3, 4, 9)),
    (norm_problem("softmax", (1, 5001), 1, "f16"), together(3, 4, vec=8)),
    (norm_problem("softmax", (2, 2501), 1, "f16", None, None, 3, 3), together(2, 3, 1, rows=2, vec=8)),
    (norm_problem("layer_norm", (3, 1301), 1, "bf16", weight=True), together(2, 2, 1, rows=3, vec=8)),
    (norm_problem("layer_norm", (1, 2605), 1, "bf16", bias=True), together(3, 2, 1, vec=8)),
    (norm_problem("layer_norm", (1, 4096), 1, "f32", weight=True, in_place=True), together(4, 4)),
    (norm_problem("rms_norm", (4, 2003), 1, "f32"), together(3, 8, 4, rows=4)),
    (norm_problem("layer_norm", (2, 3, 5, 256), (1, 3), "f32"), together(2, 6, rows=5)),
    (norm_problem("rms_norm", (6, 700), (0, 1), "f32"), together(5, 4, 1, threads=64)),
)  # fmt: skip
"""Fewer and more rounds than the ring has, with ragged ends; several modes, offsets, in place."""


@each(("p", "c"), CLUSTERS, ids=str, sample=6)
def test_rows_of_clusters_agree(p: NormProblem, c: NormConfig) -> None:
    agree(p, c)


@each(("p", "c"), SLABS, ids=str, sample=2)
def test_slabs_of_clusters_agree(p: NormProblem, c: NormConfig) -> None:
    agree(p, c)


@each(("p", "c"), STREAMED, ids=str)
def test_streams_agree(p: NormProblem, c: NormConfig) -> None:
    agree(p, c)


@each(("p", "c"), RESIDENT, ids=str, sample=4)
def test_rows_of_resident_blocks_agree(p: NormProblem, c: NormConfig) -> None:
    agree(p, c)


@each(
    ("shape", "axes", "op", "dtype", "walk", "later"),
    [
        ((3, 8, 130), (0, 2), "max", "f16", CutRows, None),
        ((7, 5, 75), (0, 2), "mean", "f32", CutRows, None),
        ((9, 133), 0, "sum", "f32", SkewedSums, None), ((37, 3, 67), 0, "mean", "f16", SkewedSums, None),
        ((2, 555), 0, "max", "bf16", SkewedSums, None), ((9, 5, 24), (0, 2), "sum", "f16", HeadTail, 0),
        ((19, 4, 9, 62), (1, 3), "max", "bf16", SkewedSums, 0),
        ((3, 7, 2, 5, 43), (0, 1, 3), "sum", "f32", SkewedSums, 0),
        ((5, 2, 9, 143), (0, 2), "mean", "f16", SkewedSums, 1),
        ((9, 3, 5, 2, 7), (0, 2, 4), "sum", "bf16", HeadTail, (0, 1)),
        ((9, 3, 8, 2, 12), (0, 2, 4), "mean", "f16", HeadTail, (0, 1)),
        ((11, 3, 7, 5, 5), (0, 2, 4), "max", "f32", SkewedSums, (0, 1)),
        ((4, 3, 9, 5, 5), (0, 2, 4), "sum", "f32", HeadTail, (0, 2)),
        ((6, 3, 5, 3, 3, 5), (0, 2, 4), "mean", "bf16", SkewedSums, (0, 1)),
        ((131, 7), 0, "sum", "bf16", HeadTail, Beside(8)), ((103, 3), 0, "max", "f32", HeadTail, Beside(4)),
        ((2, 100, 6), 1, "mean", "f32", HeadTail, Beside(2)),
        ((3, 88, 5), 1, "sum", "f16", HeadTail, Beside(8)),
    ],
    sample=2,
)  # fmt: skip
def test_vectors_that_rows_share(
    shape: tuple[int, ...], axes: Any, op: str, dtype: str, walk: type, later: Later | None
) -> None:
    """Plans whose vectors hold elements of other rows or columns, in one pass and by two blocks."""
    p = reduce_problem(shape, axes, op, dtype)
    found = [plan.passes[0] for plan in plans(p)]
    c = next(one.config for one in found if one.config.later == later and type(one.walk) is walk)
    for config in (c, replace(c, depth=1), replace(c, depth=1, splits=2)):
        if config.splits <= max(1, plan_with(p, config).passes[0].rounds):
            agree(p, config, 5)


@each(
    ("p", "c"),
    [
        (reduce_problem((33, 100), 1, "sum", "f32"), ReduceConfig(4, 8, 4, 1, 2, 2)),
        (reduce_problem((40, 257), 1, "sum", "f16"), ReduceConfig(8, 4, 4, 2, 2)),
        (reduce_problem((300, 24), 0, "sum", "bf16"), ReduceConfig(8, 1, 3, 32, 2, splits=3)),
        (reduce_problem((6, 40, 5, 16), (1, 3), "sum", "f32"), ReduceConfig(4, 4, 8, 2, 3)),
        (reduce_problem((5000,), 0, "sum", "f32"), ReduceConfig(4, 32, 1, 2, 2, splits=4)),
    ],
    ids=str,
)
def test_reductions_by_hand_agree(p: Any, c: ReduceConfig) -> None:
    agree(p, c)


@each(
    ("p", "c"),
    [
        (norm_problem("softmax", (1, 1024), 1, "f32"), replace(REGISTERS, cluster=4)),
        (norm_problem("layer_norm", (1, 3001), 1, "f32"), together(3, 4)),
        (norm_problem("softmax", (96, 48), 0, "f32"), slab("f32", 4, 16, 3, resident=2)),
        (norm_problem("layer_norm", (99, 6, 3), (0, 2), "f32"), STREAMED[-1][1]),
        (norm_problem("softmax", (2, 5000), 1, "f32"), NormConfig(4, 1, 128, "global", 4, splits=4)),
        (reduce_problem((9, 4000), 1, "sum", "f32"), ReduceConfig(4, 32, 2, 2, 2, splits=3)),
    ],
    ids=str,
    sample=2,
)
def test_equal_launches_give_equal_bits(p: Any, c: Any) -> None:
    """Whatever the order of warps and blocks."""
    orders: list[tuple[Any, int]] = [("block", 0), ("warp", 1), ("warp", 2)]
    given = data(p, 4) if isinstance(p, NormProblem) else np.random.default_rng(1).standard_normal(9 * 4000)
    assert len({agree(p, c, seed, way, d=given).tobytes() for way, seed in orders}) == 1


# --- numbers that are hard -----------------------------------------------------------------------------


@each(
    "row",
    [
        [-np.inf] * 40, [np.inf, *[0.0] * 39], [np.nan, *[1.0] * 39], [*[-np.inf] * 39, 2.0],
        [3e38, -3e38, *[0.0] * 38], [1e-40] * 40,
    ],
)  # fmt: skip
@each("hold", ["registers", "global"])
def test_rows_of_special_values(row: list[float], hold: Literal["registers", "global"]) -> None:
    p = norm_problem("softmax", (2, 40), 1, "f32")
    d = data(p, 5, special=False)
    d.src[:40], d.x[0] = np.array(row, np.float32).view(np.uint32), np.array(row, np.float32)
    first = np.isnan(agree(p, NormConfig(4, 1, 32, hold, 2, splits=1), d=d)[:40].view(np.float32))
    no_number = max(row) in (-np.inf, np.inf) or np.isnan(row).any()
    assert first.all() == first.any() == no_number


def test_a_variance_far_from_zero_is_stable() -> None:
    """Squares of numbers near 4096 have no bits left for a variance of 1; differences do."""
    p = norm_problem("layer_norm", (1, 4000), 1, "f32")
    d = data(p, 6)
    values = (np.random.default_rng(0).standard_normal(4000) + 4096).astype(np.float32)
    d.src[:4000], d.x[0] = values.view(np.uint32), values
    for c in (NormConfig(4, 1, 128, "registers"), NormConfig(4, 1, 64, "global", 4, splits=2)):
        agree(p, c, d=d)


def results(p: Any, values: Any, c: Any = None, seed: int = 7) -> Any:
    """The results of given numbers, by a plan that a seed draws."""
    c = c or random_plan(random.Random(seed), p).passes[0].config
    return numbers_of(agree(p, c, d=np.asarray(values, float).ravel()), p.result.name)


@each("dtype", ["f32", "f16", "bf16"])
@each("axis", [0, 1])
def test_numbers_that_are_none(dtype: str, axis: int) -> None:
    values = np.ones((40, 48))
    lines = values if axis == 1 else values.T
    lines[3, 17], lines[5, 30], lines[6, 1], lines[6, 2] = np.nan, -np.inf, np.inf, -np.inf
    lines[8] = -np.inf
    largest, total = (results(reduce_problem((40, 48), axis, op, dtype), values) for op in ("max", "sum"))
    np.testing.assert_array_equal(largest[[3, 5, 6, 8]], [np.nan, 1, np.inf, -np.inf])
    np.testing.assert_array_equal(total[[3, 5, 6, 8]], [np.nan, -np.inf, np.nan, -np.inf])
    assert set(np.flatnonzero(~np.isfinite(total))) == {3, 5, 6, 8}


def test_sums_past_the_largest_half_are_infinite_unless_the_result_is_wider() -> None:
    values = np.full((64, 128), 1000.0)
    for op, result, wanted in (("sum", None, np.inf), ("sum", "f32", 128000), ("mean", None, 1000)):
        found = results(reduce_problem((64, 128), 1, op, "f16", result=result), values)
        assert (found == wanted).all()


@each("seed", range(6))
def test_the_bound_holds_where_terms_cancel(seed: int) -> None:
    """Magnitudes over twelve powers of ten, each with its negative: the true sum is tiny."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal(2000) * 10.0 ** rng.integers(-6, 6, 2000)
    terms = rng.permutation(np.concatenate([half, -half, [1e-3]])).astype("f4").astype("f8")
    p = reduce_problem((len(terms),), 0, "sum", "f32")
    one, u = random_plan(random.Random(seed), p), 2.0**-24
    (found,), most = results(p, terms, one.passes[0].config), float(np.abs(terms).sum())
    bound = one.additions * u / (1 - one.additions * u) * most
    assert abs(found - fsum(terms)) <= bound < 0.1 * most


# --- mistakes ------------------------------------------------------------------------------------------


def dropped(name: str) -> Callable[[Kernel], Kernel]:
    return lambda kernel: planting.without(kernel, name)


def waiting_for_fewer(kernel: Kernel) -> Kernel:
    """Of all but two groups of two: the slot that is read is on its way."""

    def later(s: Stmt) -> tuple[Stmt, ...]:
        return (Do(s.instr, (2,)),) if isinstance(s, Do) and s.instr.name == "cp_async_wait" else (s,)

    return planting.rewrite(kernel, later)


LONG = norm_problem("softmax", (2, 1024), 1, "f32")
HELD, STREAMING = NormConfig(4, 1, 64, "shared"), NormConfig(4, 1, 64, "global", 1, staged=2)
SUM, BLOCKS = reduce_problem((4, 4096), 1, "sum", "f32"), ReduceConfig(4, 32, 1, 4, 2)
SHORT, RUNS = norm_problem("softmax", (130, 10), 1, "f32"), NormConfig(1, 64, 2, "registers", turns=1)


@each(
    ("p", "c", "change", "error"),
    [
        (LONG, HELD, dropped("block_sync"), SimulationError),
        (LONG, HELD, dropped("cp_async_wait"), SimulationError),
        (LONG, STREAMING, dropped("cp_async_wait"), SimulationError),
        (LONG, STREAMING, waiting_for_fewer, SimulationError),
        (SUM, BLOCKS, dropped("block_sync"), SimulationError),
        (SUM, BLOCKS, dropped("butterfly_sum_1"), AssertionError),
        (SHORT, RUNS, dropped("block_sync"), (SimulationError, AssertionError)),
        (SHORT, RUNS, dropped("cp_async_wait"), (SimulationError, AssertionError)),
    ],
)
def test_what_is_missing_is_found(p: Any, c: Any, change: Callable[[Kernel], Kernel], error: Any) -> None:
    with pytest.raises(error):
        agree(p, c, 1, "warp", special=False, change=change)
