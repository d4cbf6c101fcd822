"""A walk reads every element of every row exactly once, and puts each result where it belongs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from layoutalg.dtype import dtype
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import ReduceConfig, axes_problem
from layoutalg.kernels.rowwise.problems import Form, Mode, normalise
from layoutalg.kernels.rowwise.unaligned import (
    Backwards,
    CutRows,
    HeadTail,
    SkewedSums,
    reduction_walk,
)
from layoutalg.kernels.rowwise.walk import Tiling, coordinate
from tests.reductions import random_plan, random_reduction
from tests.sweeps import each

F32 = dtype("f32")


def elements(walk: HeadTail, place: int, most: int) -> dict[int, Counter[int]]:
    """For each value of a place, how often each element of the source is read."""
    bases, vec = walk.bases(place), walk.tiling.vec
    found = {e: Counter[int]() for e in range(walk.values)}
    for number in range(walk.steps):
        chunk = walk.chunk(bases, number)
        if all(walk.exists(number, chunk)):
            has = [True] * vec
            if isinstance(walk, CutRows):
                has = [bool(chunk.has(e)) for e in range(vec)]
                assert bool(walk.whole(chunk)) == all(has)
            assert chunk.source % vec == 0 and chunk.source + max(e + 1 for e in range(vec) if has[e]) <= most
            for e in range(vec):
                if has[e]:
                    found[0 if walk.rows else e][chunk.source + e] += 1
    for number in range(walk.edge_steps):
        one, exists = walk.edge(bases, number)
        if all(exists):
            found[0][one.source] += 1
    return found


def skewed(walk: SkewedSums, tile: int) -> dict[int, Counter[int]]:
    """For each column of a tile, by its place in the destination: the elements of all threads in its slot."""
    t, vec, slots = walk.tiling, walk.tiling.vec, dict[int, Counter[int]]()
    for row, y in product(range(t.rows_per_block), range(t.threads_per_row)):
        bases = walk.bases(walk.place(tile, row))
        for number in range(y, walk.steps, t.threads_per_row):
            chunk = walk.chunk(bases, number)
            if all(walk.exists(number, chunk)):
                assert chunk.source % vec == 0
                for e in range(vec):
                    slot = walk.slot(row, walk.shift(bases, y), e)
                    slots.setdefault(slot, Counter())[chunk.source + e] += 1
    first, *rest = walk.first(tile)
    found = {}
    for column in range(min(walk.width, walk.lead.extent - first)):
        at = walk.along((first + column, *rest), walk.form.kept, "dst") + walk.form.dst_offset
        found[at] = slots[walk.slot_of(column)]
    return found


def expected(form: Form) -> dict[int, Counter[int]]:
    """Destination -> the elements that belong to it, by definition."""
    found: dict[int, Counter[int]] = {}
    for crd in product(*(range(m.extent) for m in form.modes)):
        src = form.src_offset + sum(i * m.src for i, m in zip(crd, form.modes, strict=True))
        dst = form.dst_offset
        for i, m in zip(crd, form.modes, strict=True):
            dst += (i if m.dst >= 0 else m.extent - 1 - i) * abs(m.dst)
        found.setdefault(dst, Counter())[src] += 1
    return found


@each("seed", range(60))
def test_every_element_is_read_once_and_goes_where_it_belongs(seed: int) -> None:
    rng = random.Random(seed)
    p = random_reduction(rng, 600)
    c = random_plan(rng, p).passes[0].config
    form = normalise(p.axes)
    if any(not m.src for m in form.reduced):
        return  # those are a factor, not a mode, of the walk
    walk = HeadTail(form, replace(c, splits=1).tiling(p.axes.dtype))
    if c.later is not None or (
        not walk.rows and isinstance(reduction_walk(form, walk.tiling, 1), SkewedSums)
    ):
        return  # see below
    got = {}
    for place in range(walk.places):
        for e, counted in elements(walk, place, p.axes.source_elems).items():
            got[form.dst_offset + walk.along(walk.target(place, e), form.kept, "dst")] = counted
    assert got == expected(form)


@each("seed", range(200, 240))
def test_cut_vectors_hold_every_element_once(seed: int) -> None:
    rng = random.Random(seed)
    vec, n, outer, kept = rng.choice((2, 4, 8)), rng.randint(1, 70), rng.randint(2, 4), rng.randint(1, 3)
    pitch, offset = n + rng.randint(0, 9), rng.randint(0, 9)
    modes = (Mode(n, 1, 0, True), Mode(kept, pitch, 1, False), Mode(outer, kept * pitch, 0, True))
    form = Form(tuple(m for m in modes if m.extent > 1 or m is modes[0]), offset, 0)
    walk = CutRows(form, Tiling(dtype("f16"), vec, 2, 4))
    got = {}
    for place in range(walk.places):
        (counted,) = elements(walk, place, offset + outer * kept * pitch).values()
        got[form.dst_offset + walk.along(walk.target(place), form.kept, "dst")] = counted
    assert got == expected(form)


@each("seed", range(240, 280), sample=7)
def test_a_skewed_tile_joins_every_column_of_it(seed: int) -> None:
    rng = random.Random(seed)
    vec, n, rows, kept = rng.choice((2, 4, 8)), rng.randint(9, 90), rng.randint(1, 12), rng.randint(1, 3)
    pitch, offset = n + rng.randint(0, 9), rng.randint(0, 9)
    modes = (Mode(n, 1, 1, False), Mode(rows, pitch, 0, True), Mode(kept, rows * pitch + 3, n, False))
    form = Form(tuple(m for m in modes if m.extent > 1 or m.reduced), offset, rng.randint(0, 5))
    groups = rng.choice((vec, 2 * vec, 16))
    walk = SkewedSums(form, Tiling(dtype("f16"), vec, rng.randint(3, 9), 1, groups))
    got: dict[int, Counter[int]] = {}
    for tile in range(walk.tiles):
        got |= skewed(walk, tile)
    assert got == expected(form)


def test_which_walk_a_reduction_has() -> None:
    def kind(shape: tuple[int, ...], axes: tuple[int, ...], vec: int, words: int = 1, groups: int = 4) -> str:
        form = normalise(axes_problem(shape, axes, "f32"))
        return type(reduction_walk(form, Tiling(F32, vec, 32, 1, groups), words)).__name__

    assert [kind((9, 128), (1,), 4), kind((9, 129), (1,), 4)] == ["HeadTail", "HeadTail"]
    assert [kind((9, 33), (1,), 4), kind((9, 3, 129), (0, 2), 4)] == ["CutRows", "CutRows"]
    assert [kind((9, 33), (1,), 4, 2), kind((9, 3, 129), (0, 2), 1)] == ["HeadTail", "HeadTail"]
    assert [kind((9, 128), (0,), 4), kind((9, 129), (0,), 4)] == ["HeadTail", "SkewedSums"]
    for refused in ({"words": 2}, {"groups": 2}):
        with pytest.raises(UnsupportedError, match="loads of 4 elements: not all rows of columns start at"):
            kind((9, 129), (0,), 4, **refused)
    assert kind((2, 129), (0,), 4, groups=2) == "SkewedSums"
    with pytest.raises(UnsupportedError, match="columns"):
        kind((9, 3, 5, 129), (0, 2), 4)


@each("seed", range(60, 90))
def test_the_threads_of_all_splits_share_the_steps(seed: int) -> None:
    rng = random.Random(seed)
    p = random_reduction(rng, 3000)
    one = random_plan(rng, p).passes[0]
    c, walk = one.config, one.walk
    taken: Counter[int] = Counter()
    for split in range(c.splits):
        turns = [i * c.splits + split for i in range((one.rounds + c.splits - 1 - split) // c.splits)]
        turns += [one.rounds] if one.tail_steps and split == one.rounds % c.splits else []
        for turn, u, y in product(turns, range(c.depth), range(c.threads_per_row)):
            taken[walk.step(y, turn * c.depth + u)] += 1
    assert {n: k for n, k in taken.items() if n < walk.steps} == dict.fromkeys(range(walk.steps), 1)


@each("seed", range(90, 110))
def test_the_threads_of_a_block_are_its_rows_by_their_threads(seed: int) -> None:
    rng = random.Random(seed)
    one = random_plan(rng, random_reduction(rng, 3000)).passes[0]
    c = one.config
    found = {
        tid: (tid % c.lanes_per_row, tid // c.lanes_per_row % c.rows_per_block,
              tid // (c.lanes_per_row * c.rows_per_block))
        for tid in range(c.threads)
    }  # fmt: skip
    for tid, (lane, row, group) in found.items():
        assert one.walk.thread(tid) == (row, lane + group * c.lanes_per_row)


def test_the_places_of_all_threads_are_the_outputs() -> None:
    form = normalise(axes_problem((1000, 64), 1, "f32"))
    walk = HeadTail(form, ReduceConfig(4, 8, 4, 1, 2, 4).tiling(F32))
    seen = Counter(
        walk.place(tile, row, n) for tile in range(walk.tiles) for n in range(4) for row in range(4)
    )
    assert {place: k for place, k in seen.items() if place < 1000} == dict.fromkeys(range(1000), 1)


def test_odd_rows_have_edges_and_the_others_none() -> None:
    def edges(shape: tuple[int, int], offset: int = 0) -> int:
        form = normalise(axes_problem(shape, 1, "f32", src=(shape[1], 1), src_offset=offset))
        return HeadTail(form, Tiling(F32, 4, 1, 32)).edges

    assert [edges((8, 128)), edges((8, 130)), edges((8, 129)), edges((8, 128), 1)] == [0, 8, 8, 8]
    assert edges((1, 130)) == 2


def test_coordinates_and_modes_that_run_backwards() -> None:
    assert coordinate((2, 3, 5), 23) == (1, 2, 3) and coordinate((), 0) == ()
    assert coordinate((2, 3), 8) == (0, 4)  # the last mode goes on
    for n in range(1, 20):
        modes = (Mode(n, 1, -2, reduced=False),)
        walk = Backwards(Form(modes, 0, 0), Tiling(F32, 1, 1, 32))
        for i in range(n):
            assert [walk.counted((i,), modes, side) for side in ("src", "dst")] == [(i,), (n - 1 - i,)]
            assert walk.along((i,), modes, "dst") == 2 * (n - 1 - i)
