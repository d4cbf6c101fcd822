"""A walk takes every element of every row once, by the threads that share its statistics."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.expr import Var, as_expr, evaluate
from layoutalg.dtype import dtype
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, ReduceConfig, axes_problem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.problems import Form, Mode, normalise
from layoutalg.kernels.rowwise.schedule import Schedule, walk_of
from layoutalg.kernels.rowwise.unaligned import (
    Backwards,
    CutRows,
    HeadTail,
    SkewedColumns,
    SkewedSums,
    minus,
    reduction_walk,
)
from layoutalg.kernels.rowwise.walk import Chunk, Tiling, coordinate
from tests.draws.norms import random_problem
from tests.draws.reductions import random_plan, random_reduction
from tests.kernels.rowwise.definition import Element, of_form, of_problem
from tests.sweeps import each

F16, F32 = dtype("f16"), dtype("f32")


# --- norms ---------------------------------------------------------------------------------------------


def covered(p: NormProblem, c: NormConfig) -> dict[int, Element]:
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
                    inside = (not (w.rows or w.cut) or chunk.has(e)) and all(w.written(row))
                    assert inside or (w.cut and not s.plain)
                    if not inside:
                        continue
                    target = chunk.target + e * w.lead.dst
                    weight = chunk.weight + (w.weight_of(chunk, e) if w.rows else 0)
                    assert target not in found, "an element is taken twice"
                    owner = place if w.rows else place * c.vec + e
                    if isinstance(w, SkewedColumns):
                        assert place // c.rows_per_block == tile
                        owner = place // w.row_extents[0] * w.lead.extent + chunk.at + e - chunk.low
                    found[target] = Element((owner,), chunk.source + e * w.lead.src, target, weight)
    return found


@each("seed", range(40), sample=20)
def test_every_element_of_a_norm_is_taken_once(seed: int) -> None:
    rng = random.Random(seed)
    p = random_problem(rng, 300)
    found = covered(p, rng.choice([c for c in configs(p) if not c.turns]))  # runs: see test_packed
    wanted, weighted = {e.target: e for e in of_problem(p.axes)}, p.weight or p.bias
    taken, given = (
        {t: (e.source, e.weight if weighted else 0) for t, e in some.items()} for some in (found, wanted)
    )
    assert taken == given
    owners = {
        (found[t].group, wanted[t].group) for t in wanted
    }  # a bijection of columns and kept coordinates
    assert len(owners) == len({o for o, _ in owners}) == len({k for _, k in owners}) == form_of(p).outputs


def test_segments_cover_the_rounds() -> None:
    for n, splits in product((5, 31, 32, 33, 1000, 1001, 4096), (1, 3)):
        p = norm_problem("softmax", (3, n), 1, "f16")
        c = NormConfig(8 if n >= 8 else 1, 1, 32, "global", splits=splits)
        schedule = Schedule(walk_of(form_of(p), p.dtype, c), c)
        taken = [i for s in schedule.segments for i in range(s.first, s.first + s.count)]
        assert taken == list(range(schedule.rounds))


@each(
    ("p", "c", "parts"),
    [
        (norm_problem("softmax", (5, 4 * 333), 1, "f32"), NormConfig(4, 1, 32, "registers", cluster=3), 3),
        (
            norm_problem("softmax", (1, 4 * 1001), 1, "f32"),
            NormConfig(4, 1, 32, "global", 2, 3, 4, resident=3),
            3,
        ),
    ],
    ids=str,
)
def test_the_rounds_of_blocks_that_share_a_row_are_dealt(p: NormProblem, c: NormConfig, parts: int) -> None:
    """Steps of all threads of all blocks: each of the row's once, and the plain ones exist in all of them."""
    walk = walk_of(form_of(p), p.dtype, c)
    schedule = Schedule(walk, c)
    every = product(range(parts), range(c.threads_per_row), range(schedule.rounds))
    steps = [walk.step(y, i * parts + part) for part, y, i in every]
    assert sorted(s for s in steps if s < walk.steps) == list(range(walk.steps))
    if c.cluster > 1:
        assert (schedule.rounds, walk.blocks) == (4, 15)
        assert [walk.block(b) for b in range(4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    else:
        assert tuple(schedule.plain) == (0, walk.steps // (c.splits * c.threads_per_row))


@each(("at", "held"), [(0, [3]), (4, [0, 1, 2, 3]), (8, [0, 1]), (12, [])])
def test_a_vector_has_the_elements_of_its_row(at: int, held: list[int]) -> None:
    chunk = Chunk(100 + at, 200 + at, 0, at, 3, 10)
    assert [e for e in range(4) if chunk.has(e)] == held
    assert bool(Chunk(0, 0, 0, np.full(5, at), 3, 10).has(2).all()) == (2 in held)


@each("most", [1, 4, 7, 8, 12])
def test_a_difference_is_exact_or_wraps_to_a_power_of_two(most: int) -> None:
    top, i, j = 1 << most.bit_length(), Var("i", most + 1), Var("j", most + 1)
    for x, y in product(range(most + 1), repeat=2):
        wanted = x - y if x >= y else top - (y - x)
        assert minus(x, y, most) == minus(np.array([x]), y, most)[0] == wanted
        for found in (minus(i, j, most), minus(x, j, most), minus(i, y, most)):
            assert evaluate(as_expr(found), {i: x, j: y}) == wanted


def test_bases_are_where_rows_begin() -> None:
    p = norm_problem("softmax", (6, 100), 1, "f32", src_offset=8)
    assert walk_of(form_of(p), p.dtype, NormConfig(4, 1, 32, "registers")).bases(3)[:2] == (308, 300)


@each("seed", range(20))
def test_numbers_arrays_and_threads_agree(seed: int) -> None:
    """The walk of an array of threads is that of each of them."""
    rng = random.Random(seed)
    p = random_problem(rng, 2000)
    c = rng.choice(configs(p))
    w = walk_of(form_of(p), p.dtype, c)
    row, y = np.broadcast_arrays(*w.thread(np.arange(c.threads)))
    both = list(zip(row.tolist(), y.tolist(), strict=True))
    assert both == [w.thread(t) for t in range(c.threads)]
    assert set(both) == set(product(range(c.rows_per_block), range(c.threads_per_row)))
    place, step = rng.randrange(w.places), rng.randrange(w.steps)
    many, one = w.chunk(w.bases(np.array([place])), np.array([step])), w.chunk(w.bases(place), step)
    for name in ("source", "target", "weight", "at", "low", "high"):
        assert np.all(np.asarray(getattr(many, name)) == getattr(one, name)), name


@each(("vec", "side", "share"), [(4, 4, 8), (4, 8, 4), (8, 4, 16), (8, 32, 8)])
@each("pitch", [33, 34, 36, 71], sample=2)
def test_skewed_columns_share_slots_whatever_their_rows_shift(
    vec: int, side: int, share: int, pitch: int
) -> None:
    p = norm_problem("softmax", (3, 21, pitch), 1, "f16", src_offset=5, dst_offset=5)
    w = walk_of(form_of(p), p.dtype, NormConfig(vec, side, share, "global"))
    assert isinstance(w, SkewedColumns) and share % w.period == 0
    for column in range(0, w.row_extents[0] * 3, side):
        wanted: dict[int, int] = {}  # column of the row -> place, of the columns that any row writes
        held: list[dict[int, int]] = []
        for step in range(21):
            mine: dict[int, int] = {}
            for row in range(side):
                bases = w.bases(column + row)
                chunk = w.chunk(bases, step)
                for e in range(vec):
                    place, c = w.slot(row, w.shift(bases, step % share), e), chunk.at + e - chunk.low
                    mine[place] = c
                    if chunk.has(e) and all(w.written(row)):
                        assert wanted.setdefault(c, place) == place
            assert sorted(mine) == list(range(side * vec))
            held.append(mine)
        assert all(mine[place] == c for c, place in wanted.items() for mine in held)


# --- reductions ----------------------------------------------------------------------------------------


def sums(found: Iterable[Element]) -> dict[int, Counter[int]]:
    """Destination -> the elements that belong to it."""
    by_target: dict[int, Counter[int]] = {}
    for e in found:
        by_target.setdefault(e.target, Counter())[e.source] += 1
    return by_target


def elements(walk: HeadTail, place: int, most: int) -> dict[int, Counter[int]]:
    """For each value of a place, how often each element of the source is read."""
    bases, vec = walk.bases(place), walk.tiling.vec
    found = {e: Counter[int]() for e in range(walk.values)}
    for number in range(walk.steps):
        chunk = walk.chunk(bases, number)
        if all(walk.exists(number, chunk)):
            has = [e for e in range(vec) if not isinstance(walk, CutRows) or chunk.has(e)]
            assert not isinstance(walk, CutRows) or bool(walk.whole(chunk)) == (len(has) == vec)
            assert chunk.source % vec == 0 and chunk.source + has[-1] < most
            for e in has:
                found[0 if walk.rows else e][chunk.source + e] += 1
    for number in range(walk.edge_steps):
        one, exists = walk.edge(bases, number)
        if all(exists):
            found[0][one.source] += 1
    return found


def read(walk: HeadTail, form: Form, most: int) -> dict[int, Counter[int]]:
    """The same for all places, by the destination."""
    return {
        form.dst_offset + walk.along(walk.target(place, e), form.kept, "dst"): counted
        for place in range(walk.places)
        for e, counted in elements(walk, place, most).items()
    }


def skewed(walk: SkewedSums, tile: int) -> dict[int, Counter[int]]:
    """For each column of a tile, by its place: the elements of all threads in its slot."""
    t, slots = walk.tiling, dict[int, Counter[int]]()
    for row, y in product(range(t.rows_per_block), range(t.threads_per_row)):
        bases = walk.bases(walk.place(tile, row))
        for number in range(y, walk.steps, t.threads_per_row):
            chunk = walk.chunk(bases, number)
            if all(walk.exists(number, chunk)):
                assert chunk.source % t.vec == 0
                for e in range(t.vec):
                    slot = walk.slot(row, walk.shift(bases, y), e)
                    slots.setdefault(slot, Counter())[chunk.source + e] += 1
    first, *rest = walk.first(tile)
    return {
        walk.along((first + n, *rest), walk.form.kept, "dst") + walk.form.dst_offset: slots[walk.slot_of(n)]
        for n in range(min(walk.width, walk.lead.extent - first))
    }


@each("seed", range(60))
def test_every_element_of_a_reduction_is_read_once_and_goes_where_it_belongs(seed: int) -> None:
    rng = random.Random(seed)
    p = random_reduction(rng, 600)
    c, form = random_plan(rng, p).passes[0].config, normalise(p.axes)
    if c.later is not None or any(not m.src for m in form.reduced):
        return  # those are a factor, not a mode, of the walk
    walk = HeadTail(form, replace(c, splits=1).tiling(p.axes.dtype))
    if walk.rows or not isinstance(reduction_walk(form, walk.tiling, 1), SkewedSums):  # those: see below
        assert read(walk, form, p.axes.source_elems) == sums(of_form(form))


@each("seed", range(200, 240))
def test_cut_vectors_hold_every_element_once(seed: int) -> None:
    rng = random.Random(seed)
    vec, n, outer, kept = rng.choice((2, 4, 8)), rng.randint(1, 70), rng.randint(2, 4), rng.randint(1, 3)
    pitch, offset = n + rng.randint(0, 9), rng.randint(0, 9)
    modes = (Mode(n, 1, 0, True), Mode(kept, pitch, 1, False), Mode(outer, kept * pitch, 0, True))
    form = Form(tuple(m for m in modes if m.extent > 1 or m is modes[0]), offset, 0)
    walk = CutRows(form, Tiling(F16, vec, 2, 4))
    assert walk.values == 1 and read(walk, form, offset + outer * kept * pitch) == sums(of_form(form))


@each("seed", range(240, 280), sample=7)
def test_a_skewed_tile_joins_every_column_of_it(seed: int) -> None:
    rng = random.Random(seed)
    vec, n, rows, kept = rng.choice((2, 4, 8)), rng.randint(9, 90), rng.randint(1, 12), rng.randint(1, 3)
    pitch, offset = n + rng.randint(0, 9), rng.randint(0, 9)
    modes = (Mode(n, 1, 1, False), Mode(rows, pitch, 0, True), Mode(kept, rows * pitch + 3, n, False))
    form = Form(tuple(m for m in modes if m.extent > 1 or m.reduced), offset, rng.randint(0, 5))
    walk = SkewedSums(form, Tiling(F16, vec, rng.randint(3, 9), 1, rng.choice((vec, 2 * vec, 16))))
    got: dict[int, Counter[int]] = {}
    for tile in range(walk.tiles):
        got |= skewed(walk, tile)
    assert got == sums(of_form(form))


def kind(shape: tuple[int, ...], axes: tuple[int, ...], words: int = 1, groups: int = 4) -> str:
    """The walk of a reduction by vectors of four."""
    form = normalise(axes_problem(shape, axes, "f32"))
    return type(reduction_walk(form, Tiling(F32, 4, 32, 1, groups), words)).__name__


@each(
    ("asked", "walk"),
    [
        (((9, 128), (1,)), "HeadTail"), (((9, 129), (1,)), "HeadTail"), (((9, 33), (1,)), "CutRows"),
        (((9, 3, 129), (0, 2)), "CutRows"), (((9, 33), (1,), 2), "HeadTail"),
        (((9, 128), (0,)), "HeadTail"), (((9, 129), (0,)), "SkewedSums"),
        (((2, 129), (0,), 1, 2), "SkewedSums"),
    ],
)  # fmt: skip
def test_which_walk_a_reduction_has(asked: Any, walk: str) -> None:
    assert kind(*asked) == walk


@each(
    ("asked", "text"),
    [
        (((9, 129), (0,), 2), "loads of 4 elements: not all rows of columns"),
        (((9, 129), (0,), 1, 2), "loads of 4 elements: not all rows of columns"),
        (((9, 3, 5, 129), (0, 2)), "columns"),
    ],
)
def test_which_walk_a_reduction_has_not(asked: Any, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text):
        kind(*asked)


@each("seed", range(60, 90))
def test_the_threads_of_all_splits_share_the_steps(seed: int) -> None:
    rng = random.Random(seed)
    one = random_plan(rng, random_reduction(rng, 3000)).passes[0]
    c, walk, taken = one.config, one.walk, Counter[int]()
    for split in range(c.splits):
        turns = [i * c.splits + split for i in range((one.rounds + c.splits - 1 - split) // c.splits)]
        turns += [one.rounds] if one.tail_steps and split == one.rounds % c.splits else []
        for turn, u, y in product(turns, range(c.depth), range(c.threads_per_row)):
            taken[walk.step(y, turn * c.depth + u)] += 1
    assert {n: k for n, k in taken.items() if n < walk.steps} == dict.fromkeys(range(walk.steps), 1)
    for tid in range(c.threads):
        above, lane = divmod(tid, c.lanes_per_row)
        group, row = divmod(above, c.rows_per_block)
        assert walk.thread(tid) == (row, lane + group * c.lanes_per_row)


def test_the_places_of_all_threads_are_the_outputs() -> None:
    form = normalise(axes_problem((1000, 64), 1, "f32"))
    walk = HeadTail(form, ReduceConfig(4, 8, 4, 1, 2, 4).tiling(F32))
    seen = Counter(walk.place(t, row, n) for t, n, row in product(range(walk.tiles), range(4), range(4)))
    assert {place: k for place, k in seen.items() if place < 1000} == dict.fromkeys(range(1000), 1)


def test_odd_rows_have_edges_and_the_others_none() -> None:
    edges = [
        HeadTail(normalise(axes_problem(shape, 1, "f32", src_offset=offset)), Tiling(F32, 4, 1, 32)).edges
        for shape, offset in (((8, 128), 0), ((8, 130), 0), ((8, 129), 0), ((8, 128), 1), ((1, 130), 0))
    ]
    assert edges == [0, 8, 8, 8, 2]


def test_coordinates_and_modes_that_run_backwards() -> None:
    assert coordinate((2, 3, 5), 23) == (1, 2, 3) and coordinate((), 0) == ()
    assert coordinate((2, 3), 8) == (0, 4)  # the last mode goes on
    for n in range(1, 20):
        modes = (Mode(n, 1, -2, reduced=False),)
        walk = Backwards(Form(modes, 0, 0), Tiling(F32, 1, 1, 32))
        for i in range(n):
            assert [walk.counted((i,), modes, side) for side in ("src", "dst")] == [(i,), (n - 1 - i,)]
            assert walk.along((i,), modes, "dst") == 2 * (n - 1 - i)
