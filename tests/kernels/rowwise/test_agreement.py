"""Norms and reductions agree in every way of computing them: the definition within its bounds, the simulator,
the text run on the host, and the costs that are read off the programs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import fields, replace
from math import fsum, prod
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.program import Do, Kernel, Stmt
from layoutalg.errors import LayoutAlgError, SimulationError, UnsupportedError
from layoutalg.kernels.elements import numbers_of
from layoutalg.kernels.rowwise import NormConfig, NormProblem, ReduceConfig, norm_problem, reduce_problem
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.unaligned import CutRows
from layoutalg.kernels.rowwise.ways.norm_model import held_columns
from layoutalg.kernels.rowwise.ways.norm_plan import form_of, norm_configs
from layoutalg.kernels.rowwise.ways.reduce_plan import plan_with, plans
from tests.draws.norms import data, random_problem, streams
from tests.draws.reductions import random_plan, random_reduction
from tests.judges.agreement import agree
from tests.kernels.rowwise.definition import STREAMS
from tests.mutants import planting
from tests.sweeps import each
from tests.tiers import first_tier

NEAREST = re.compile(r"; the nearest is (\w+) = (\d+)$")
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
    p = random_problem(rng, 1300)
    if rng.random() < 0.25:
        a, eps = p.axes, rng.choice([1e-5, 0.1])
        sides = (a.src, a.dst, a.src_offset, a.dst_offset)
        weight, in_place = rng.random() < 0.5, p.in_place
        p = norm_problem(
            "rms_norm", a.shape, a.axes, a.dtype, *sides, eps=eps, weight=weight, in_place=in_place
        )
    c = rng.choice(norm_configs(p))
    ring = c.vec * p.dtype.nbytes >= 4
    if rng.random() < 0.3:
        c = read_twice(c, rng, ring=ring)
    elif ring and rng.random() < 0.4:
        c = replace(c, hold="shared", staged=rng.choice([0, 1]), depth=2)
    return p, c


def a_given_vector(rng: random.Random) -> Case:
    """Vectors and threads of anybody's; a refusal names what is accepted."""
    p = random_problem(rng, 300)
    rows = 1 if form_of(p).lead.reduced else rng.choice((4, 8))
    c = NormConfig(rng.choice((2, 3, 4, 8, 16)), rows, 32 if rows == 1 else rng.choice((8, 32)), "global", 2)
    c = replace(c, hold=rng.choice(("global", "registers")))
    for _ in fields(c):
        try:
            _ = plan(p, config=c)
        except UnsupportedError as error:
            found = NEAREST.search(str(error))
            assert found, error
            c = replace(c, **{found[1]: int(found[2])})  # type: ignore[arg-type]
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


def a_norm_of(
    rng: random.Random, shape: tuple[int, ...], axes: Any, dtype: str, pad: int, *, whole: bool = True
) -> NormProblem:
    """A dense norm, or one whose first mode has a gap behind; both sides at one offset or two; in place where
    vectors are `whole`."""
    op, at = rng.choice(OPS), rng.choice([0, 0, 8])
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    strides[0] += pad if rng.random() < 0.3 else 0
    in_place = whole and rng.random() < 0.2
    to = at if in_place or rng.random() < 0.8 else at + 8
    return norm_problem(
        op, shape, axes, dtype, tuple(strides), tuple(strides), at, to, in_place=in_place,
        **parameters(rng, op),
    )  # fmt: skip


def a_row_of_a_cluster(rng: random.Random) -> Case:
    """Rows of one mode or two, of few vectors too, that start anywhere, held by the blocks of a cluster."""
    cluster, dtype = rng.choice([2, 3, 4, 8, 16]), rng.choice(list(VEC))
    row, hold = VEC[dtype] * 32 * cluster, rng.choice(["registers", "shared"])
    n = rng.choice([row, row, 2 * row, rng.randint(VEC[dtype] * cluster, 2 * row)])
    shape, axes = rng.choice([((2, n), (1,)), ((1, n), (1,)), ((2, 2, 3, n // 2), (1, 3))])
    pad = rng.choice([1, 8])
    p = a_norm_of(rng, shape, axes, dtype, pad, whole=shape[-1] % 8 == 0 == pad % 8)
    staged = rng.choice([0, 0, 1]) if hold == "shared" else 0
    return p, NormConfig(VEC[dtype], 1, 32, hold, 2, staged=staged, cluster=cluster)  # type: ignore[arg-type]


def a_slab_of_a_cluster(rng: random.Random) -> Case:
    """Any cluster, any rows and columns, in one turn or from slab to slab, some vectors in registers."""
    dtype, lanes = rng.choice(list(VEC)), rng.choice([4, 8])
    cluster, resident = rng.choice([(2, 0), (3, 0), (16, 0), (2, 1), (2, 2), (2, 3), (3, 2)])
    rows, columns = rng.randint(9 * cluster, 12 * cluster), VEC[dtype] * rng.randint(1, 9)
    staged = rng.choice([0, 0, 4, 5]) if resident and cluster == 2 and rows > 64 else 0
    shapes = [((rows, columns), (0,)), ((2, rows, columns), (1,)), ((3, 4, rows // 3, columns), (0, 2))]
    shape, axes = rng.choice(shapes)
    p = a_norm_of(rng, shape, axes, dtype, pad=8)
    return p, slab(dtype, lanes, 64 // lanes, cluster, staged=staged, resident=resident)


def a_slab_of_a_block(rng: random.Random) -> Case:
    """One block keeps a slab, in shared memory or registers, and one warp joins its columns or all do."""
    op, dtype, rows = rng.choice(OPS), rng.choice(list(VEC)), rng.randint(2, 90)
    vec = VEC[dtype]
    c = rng.choice([c for c in held_columns(rows, 64, vec, 16) if c.threads <= 128])
    columns = rng.choice([c.rows_per_block, c.rows_per_block + 3]) * vec
    if c.rows_per_block <= 32 < c.threads and rows > c.threads_per_row > 1:
        c = replace(c, hold=rng.choice(["registers", "shared"]), resident=rng.choice([0, 2, 6, 99]))
    c = replace(c, depth=2)
    return norm_problem(op, (rng.randint(1, 2), rows, columns), 1, dtype, **parameters(rng, op)), c


def a_stream(rng: random.Random) -> Case | None:
    dtype, (shape, axes) = rng.choice(list(VEC)), rng.choice(STREAMS)
    p = a_norm_of(rng, shape, axes, dtype, pad=rng.choice([8, 40]))
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
    shape, axes = rng.choice([((rows, n), (1,))] * 3 + [((2, 3, rows, 256), (1, 3)), ((6, 700), (0, 1))])
    op, in_place = rng.choice(OPS), shape[-1] % 8 == at % 8 == 0 and rng.random() < 0.5
    p = norm_problem(op, shape, axes, dtype, None, None, at, at, in_place=in_place, **parameters(rng, op))
    rows = prod(shape) // prod(shape[k] for k in axes)
    staged, at_once = depth * rng.randint(1, 4), rng.randint(1, rows)
    return p, together(splits, staged, depth, rows=at_once, vec=VEC[dtype])


def a_shared_vector(rng: random.Random) -> Case | None:
    """Vectors that hold elements of other rows or columns: a first pass that keeps more, or an odd pitch."""
    few, n, many = (rng.randint(2, 5) for _ in range(4)), rng.choice([3, 5, 7, 43, 67, 75, 133]), 40
    a, b, c, d = few
    shape, axes = rng.choice([
        ((a, b, n), (0, 2)), ((a + many, n), (0,)), ((many + a, b, n), (0,)), ((2, many + a, n), (1,)),
        ((3 * a, b, 2 * c, n), (1, 3)), ((a, b, c, 2 * d, n), (0, 2)), ((2 * a, b, 2 * c, d, n), (0, 2, 4)),
    ])  # fmt: skip
    p = reduce_problem(shape, axes, rng.choice(["sum", "mean", "max"]), rng.choice(list(VEC)))
    found = [plan.passes[0] for plan in plans(p)]
    shared = [one for one in found if one.config.later is not None or type(one.walk) is CutRows]
    if not shared:
        return None
    config = rng.choice(shared).config
    short, split = replace(config, depth=1), replace(config, depth=1, splits=2)
    return p, split if plan_with(p, short).passes[0].rounds >= 2 and a > 2 else config


DRAWN: dict[str, tuple[int, int, Callable[[random.Random], Case | None]]] = {
    "norm": (14, 9, a_norm),
    "given vector": (6, 2, a_given_vector),
    "reduction": (16, 10, a_reduction),
    "shared vector": (4, 6, a_shared_vector),
    "packed norm": (12, 4, a_packed_norm),
    "packed reduction": (12, 8, a_packed_reduction),
    "row of a cluster": (6, 4, a_row_of_a_cluster),
    "slab of a cluster": (6, 2, a_slab_of_a_cluster),
    "slab of a block": (6, 8, a_slab_of_a_block),
    "stream": (4, 3, a_stream),
    "resident": (4, 3, a_row_of_resident_blocks),
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


@each("kind", [kind for kind in DRAWN if kind != "resident" and "of a cluster" not in kind], sample=3)
def test_the_printed_text_agrees_on_the_host(kind: str) -> None:
    """The host runs neither clusters nor blocks that wait for one another."""
    cases = (DRAWN[kind][2](random.Random(f"text {kind} {seed}")) for seed in range(20))
    agree(*next(case for case in cases if case), 2, "text")


@pytest.mark.deep
@each("seed", range(16))
def test_every_way_of_a_norm_agrees(seed: int) -> None:
    """What the plan may choose, what is read twice, and what is split."""
    p = random_problem(random.Random(f"ways {seed}"), 1500)
    found = norm_configs(p)
    twice = NormConfig(found[0].vec, found[0].rows_per_block, found[0].threads_per_row, "global", 2)
    changes: list[dict[str, Any]] = [{}, {"splits": 2}, {"splits": 3, "depth": 1}]
    if twice.vec * p.dtype.nbytes >= 4:
        changes += [{"hold": "shared"}, {"hold": "shared", "staged": 1}]
        changes += [{"staged": 4}, {"staged": 6, "splits": 2}]
    for c in (*found, *(replace(twice, **change) for change in changes)):
        agree(p, c, 1)


@each("kind", [kind for kind in DRAWN if kind not in ("packed norm", "packed reduction")], sample=2)
def test_equal_launches_give_equal_bits(kind: str) -> None:
    """Whatever the order of warps and blocks."""
    orders: list[tuple[Any, int]] = [("block", 0), ("warp", 1), ("warp", 2)]
    cases = (DRAWN[kind][2](random.Random(f"bits {kind} {seed}")) for seed in range(20))
    p, c = next(case for case in cases if case)
    numbers = np.random.default_rng(1).standard_normal(p.axes.source_elems)
    given = data(p, 4) if isinstance(p, NormProblem) else numbers
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
    for c in (
        NormConfig(4, 1, 128, "registers"),
        NormConfig(4, 1, 64, "global", 4, splits=2),
    ):
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
SHORT, RUNS = (
    norm_problem("softmax", (130, 10), 1, "f32"),
    NormConfig(1, 64, 2, "registers", turns=1),
)


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
