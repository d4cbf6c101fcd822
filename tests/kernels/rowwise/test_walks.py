"""A walk takes every element of every row once, by the threads that share its statistics."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import wavefronts as analysed
from layoutalg.codegen.expr import Var, as_expr, evaluate
from layoutalg.codegen.language import Tensor
from layoutalg.dtype import dtype
from layoutalg.errors import IRError, LayoutAlgError, ResourceError, UnsupportedError
from layoutalg.kernels import rowwise
from layoutalg.kernels.model import machine_of
from layoutalg.kernels.rowwise.packed import NORM, PackedWalk, packed_walk, ranked, wavefronts
from layoutalg.kernels.rowwise.programs.block import Block
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.programs.reduce import build
from layoutalg.kernels.rowwise.tensors import normalise
from layoutalg.kernels.rowwise.unaligned import minus, reduction_walk
from layoutalg.kernels.rowwise.walk import Tiling
from layoutalg.kernels.rowwise.ways.norm_plan import form_of, norm_configs
from layoutalg.kernels.rowwise.ways.schedule import Schedule, walk_of
from tests.draws.norms import random_problem
from tests.kernels.rowwise.definition import Element, of_problem
from tests.sweeps import each

F16, F32 = dtype("f16"), dtype("f32")


# --- norms ---------------------------------------------------------------------------------------------


def covered(p: rowwise.NormProblem, c: rowwise.NormConfig) -> dict[int, Element]:
    """Destination -> the element, of the column that the walk counts, that some thread takes."""
    w = walk_of(form_of(p), p.dtype, c)
    schedule, found = Schedule(w, c), dict[int, Element]()
    for block, tid in product(range(w.blocks), range(c.threads)):
        (tile, split), (row, y) = w.block(block), w.thread(tid)
        place = w.place(tile, row)
        if place >= w.places:
            continue
        for s in schedule.segments:
            for step in (w.step(y, split * schedule.rounds + i) for i in range(s.first, s.first + s.count)):
                chunk = w.chunk(w.bases(place), step)
                if step >= w.steps or not all(w.exists(step, chunk)):
                    assert not s.plain
                    continue
                for e in range(c.vec):
                    inside = not (w.rows or w.cut) or chunk.has(e)
                    assert inside or (w.cut and not s.plain)
                    if not inside:
                        continue
                    target = chunk.target + e * w.lead.dst
                    weight = chunk.weight + (w.weight_of(chunk, e) if w.rows else 0)
                    assert target not in found, "an element is taken twice"
                    owner = place if w.rows else place * c.vec + e
                    found[target] = Element((owner,), chunk.source + e * w.lead.src, target, weight)
    return found


@each("seed", range(40), sample=11)
def test_every_element_of_a_norm_is_taken_once(seed: int) -> None:
    rng = random.Random(seed)
    p = random_problem(rng, 300)
    found = covered(p, rng.choice([c for c in norm_configs(p) if not c.turns]))  # runs: see below
    wanted, weighted = {e.target: e for e in of_problem(p.axes)}, p.weight or p.bias
    taken, given = (
        {t: (e.source, e.weight if weighted else 0) for t, e in some.items()} for some in (found, wanted)
    )
    assert taken == given
    owners = {
        (found[t].group, wanted[t].group) for t in wanted
    }  # a bijection of columns and kept coordinates
    assert len(owners) == len({o for o, _ in owners}) == len({k for _, k in owners}) == form_of(p).outputs


@each("most", [1, 4, 7, 8, 12])
def test_a_difference_is_exact_or_wraps_to_a_power_of_two(most: int) -> None:
    top, i, j = 1 << most.bit_length(), Var("i", most + 1), Var("j", most + 1)
    for x, y in product(range(most + 1), repeat=2):
        wanted = x - y if x >= y else top - (y - x)
        assert minus(x, y, most) == minus(np.array([x]), y, most)[0] == wanted
        for found in (minus(i, j, most), minus(x, j, most), minus(i, y, most)):
            assert evaluate(as_expr(found), {i: x, j: y}) == wanted


# --- reductions ----------------------------------------------------------------------------------------


@each(
    ("shape", "axes", "words", "groups", "walk"),
    [
        ((9, 128), (1,), 1, 4, "HeadTail"), ((9, 129), (1,), 1, 4, "HeadTail"),
        ((9, 33), (1,), 1, 4, "CutRows"),
        ((9, 3, 129), (0, 2), 1, 4, "CutRows"), ((9, 33), (1,), 2, 4, "HeadTail"),
        ((9, 128), (0,), 1, 4, "HeadTail"), ((9, 129), (0,), 1, 4, "not all rows"),
        ((9, 3, 5, 129), (0, 2), 1, 4, "columns"),
    ],
)  # fmt: skip
def test_which_walk_a_reduction_has(
    shape: tuple[int, ...], axes: tuple[int, ...], words: int, groups: int, walk: str
) -> None:
    """By vectors of four; a text in small letters is that of a refusal."""
    form, tiling = normalise(rowwise.axes_problem(shape, axes, "f32")), Tiling(F32, 4, 32, 1, groups)
    if " " in walk or walk.islower():
        with pytest.raises(UnsupportedError, match=walk):
            reduction_walk(form, tiling, words)
    else:
        assert type(reduction_walk(form, tiling, words)).__name__ == walk


def drawn(rng: random.Random) -> tuple[rowwise.AxesProblem, Tiling]:
    """A dense tensor whose first mode may have gaps behind each, at any offset, and threads."""
    rank = rng.randint(2, 4)
    shape = tuple(rng.choice([1, 2, 3, 4, 5, 7, 8, 10, 16]) for _ in range(rank))
    inner, others = rng.choice([rank - 1, rank - 1, rank - 2]), rng.sample(range(rank), rng.randint(0, 1))
    axes = tuple(sorted({inner, *others}))
    axes = axes[1:] if len(axes) == rank else axes
    if rng.random() < 0.3:  # several runs to a group, which may start at different places of a unit
        shape = (rng.randint(2, 3), rng.randint(2, 9), rng.choice([3, 5, 7, 8]), rng.choice([1, 3, 4]))
        rank, axes = 4, (0, 2)
    strides = [prod(shape[k + 1 :]) for k in range(rank)]
    strides[0] += rng.choice([0, 0, 0, 1, 2, 8])
    offset = rng.choice([0, 0, 1, 4, 8, 11])
    element = rng.choice(["f32", "f16"])
    p = rowwise.axes_problem(
        shape, axes, element, tuple(strides), tuple(strides), offset, offset + rng.choice([0, 8]), keeps=True
    )
    vec = rng.choice([1, 1, 1, 2])
    rows, lanes, turns = rng.choice([3, 4, 8, 16, 30]), rng.choice([1, 2, 4]), rng.randint(1, 3)
    return p, Tiling(dtype(element), vec, rows, lanes, 1, turns)


Place = tuple[int, int, int]
"""Where an element is in the source and in the destination, and where its weight is."""


def drawn_walk(seed: int) -> tuple[rowwise.AxesProblem, PackedWalk] | None:
    """A drawn tensor with its walk, None where it has no runs."""
    p, tiling = drawn(random.Random(seed))
    with suppress(LayoutAlgError):
        return p, packed_walk(normalise(p, weighted=True), tiling, both=True)
    return None


def copied(w: PackedWalk, tile: int) -> dict[int, tuple[int, int]]:
    """Where what a tile copies to each element of shared memory is in the source and in the destination."""
    start, found = w.start(tile), dict[int, tuple[int, int]]()
    low = 0 if w.starts_at_units else start.source % w.unit
    first = start._replace(source=start.source - low, target=start.target - low)
    for unit in (w.unit_at(first, low, n) for n in range(w.all_units)):
        if all(w.touched(start, unit.low, unit.number)):
            for e in range(w.unit):
                assert unit.copied + e not in found
                found[unit.copied + e] = (unit.source + e, unit.target + e)
            assert unit.source % w.unit == unit.target % w.unit == unit.copied % w.unit == 0
    assert max(found) < w.shared_bytes // w.tiling.element.nbytes
    return {at - low: places for at, places in found.items()}


def taken(w: PackedWalk) -> list[list[Place]]:
    """The elements that the threads of all tiles take, by group; those twice that are."""
    found = []
    for tile in range(w.tiles):
        start, places = w.start(tile), copied(w, tile)
        for row, n in product(range(w.tiling.rows_per_block), range(w.tiling.rows_per_thread)):
            place = w.place(tile, row, n)
            if not all(w.present(start, place)):
                continue
            mine: list[Place] = []
            for step in range(w.steps):
                chunk = w.chunk(w.bases(place), step)
                for e in range(w.tiling.vec):
                    weight = chunk.weight + (w.weight_of(chunk, e) if w.rows else 0)
                    mine.append((*places[chunk.source + e], weight))
            found.append(mine)
    return found


def test_some_of_the_drawn_walks_are_shifted() -> None:
    assert any(case[1].shifted for seed in range(30) if (case := drawn_walk(seed)))


@each("batch", range(10), sample=2)
def test_every_group_is_taken_once(batch: int) -> None:
    """Half of the drawn tensors have runs."""
    cases = [case for seed in range(15 * batch, 15 * batch + 15) if (case := drawn_walk(seed))]
    assert len(cases) > 3
    for p, w in cases:
        found, wanted = taken(w), dict[Any, set[Place]]()
        for e in of_problem(p):
            wanted.setdefault(e.group, set()).add(e[1:])
        assert {frozenset(one) for one in found} == {frozenset(one) for one in wanted.values()}
        assert sum(map(len, found)) == prod(p.shape)


@given(
    st.lists(st.integers(0, 600), min_size=1, max_size=32), st.sampled_from([2, 4, 8, 16]),
    st.sampled_from(["ld", "st"]),
)  # fmt: skip
def test_wavefronts_of_the_model_are_those_of_the_analysis(places: list[int], nbytes: int, way: str) -> None:
    offsets = [place * nbytes for place in places]
    lanes = [*offsets, *[None] * (32 - len(offsets))]
    counted = analysed(f"{way}.shared.b{8 * nbytes}", lanes)
    assert wavefronts(offsets, nbytes) == counted


@each(
    ("shape", "axes", "src", "dst", "error", "message"),
    [
        ((64, 10), 1, (12, 1), (12, 1), UnsupportedError, "in slabs"),
        ((64, 10), 0, None, None, UnsupportedError, "in slabs"),
        ((64, 10), 1, None, (1, 64), UnsupportedError, "in slabs"),
        ((64, 16, 33), 1, None, None, UnsupportedError, "at most 25600 elements and 32 groups"),
        ((64, 1000), 1, None, None, ResourceError, "shared memory, runs of 32"),
    ],
)
def test_what_has_no_runs_is_refused_by_name(
    shape: Any, axes: int, src: Any, dst: Any, error: type[LayoutAlgError], message: str
) -> None:
    form = normalise(rowwise.axes_problem(shape, axes, "f32", src, dst, keeps=True))
    with pytest.raises(error, match=message):
        packed_walk(form, Tiling(dtype("f32"), 1, 32, 1), both=True)


@each(("element", "apart", "unit"), [("f32", 4, 4), ("f32", 2, 2), ("f32", 1, 1), ("f16", 1, None)])
def test_other_places_in_a_unit_take_narrower_units(element: str, apart: int, unit: int | None) -> None:
    form = normalise(rowwise.axes_problem((64, 10), 1, element, dst_offset=apart, keeps=True))
    tiling = Tiling(dtype(element), 1, 32, 1)
    if unit is not None:
        assert packed_walk(form, tiling, both=True).unit == unit
        return
    with pytest.raises(UnsupportedError, match="different places of a unit"):
        packed_walk(form, tiling, both=True)


@each(
    ("op", "shape", "axes", "element", "us", "chosen"),
    [
        ("layer_norm", (22, 8, 491, 243), (0, 3), "f32", 95.2, False),
        ("layer_norm", (3, 391844, 112), (0, 2), "f16", 136.7, True),
        ("layer_norm", (10007, 388, 4, 7), (2, 3), "f16", 104.9, True),
        ("rms_norm", (3, 37813, 4, 17, 8), 3, "f16", 59.3, True),
    ],
)
def test_what_is_expected_is_near_what_was_timed(
    op: str, shape: tuple[int, ...], axes: int | tuple[int, ...], element: str, us: float, chosen: bool
) -> None:
    """Runs on an H200 (2026-11-24, tests/gpu/ragged_rows, seed 20261131); the first by registers that are too
    few for its rows, so that vectors are chosen instead."""
    p = rowwise.norm_problem(op, shape, axes, element)
    found = ranked(normalise(p.axes), p.dtype, NORM, machine_of("sm_90"), p.moved_bytes, 100 << 10)
    if chosen:
        # The launch is that of a cold L2, by which the last of these is expected to take 65.8 us.
        assert found[0].us == pytest.approx(us, rel=0.12) and any(c.turns for c in norm_configs(p))
    else:
        timed = next(one for one in found if one.walk.tiling.rows_per_block == 4)
        assert timed.us == pytest.approx(us, rel=0.1) and not norm_configs(p)[0].turns


TOO_LONG = (
    rowwise.norm_problem("softmax", (64, 1024), 1, "f32"),
    rowwise.norm_problem("softmax", (2048, 64), 0, "f16"),
    rowwise.norm_problem("layer_norm", (7, 1000), 1, "f32", weight=True),
    rowwise.reduce_problem((64, 1024), 1, "sum", "f32"),
    rowwise.reduce_problem((100, 4096), 0, "max", "f16"),
)


@each("mode", [0, 1])
@each("p", TOO_LONG, ids=str)
def test_a_walk_past_an_extent_is_refused_when_it_is_built(p: Any, mode: int) -> None:
    """As if the tensor were one row, or one vector, shorter than the walk."""
    made = Block.tensor

    def shorter(self: Block, name: str, *args: Any, **asked: Any) -> Tensor:
        found = made(self, name, *args, **asked)
        bounds = [e if k != mode or e is None else e - 1 for k, e in enumerate(found.extents)]
        return replace(found, extents=tuple(bounds)) if name == "src" else found

    def make() -> None:
        if isinstance(p, rowwise.NormProblem):
            plan(p)
        else:
            build(rowwise.plan_with(p, replace(rowwise.plans(p)[0].passes[0].config, splits=1)))

    make()
    with patch.object(Block, "tensor", shorter), pytest.raises(IRError, match="can pass the extent"):
        make()
