"""A walk reads every element of every row exactly once, and puts each result where it belongs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product

from layoutalg.dtype import dtype
from layoutalg.kernels.rowwise import ReduceConfig, axes_problem
from layoutalg.kernels.rowwise.problems import Form, Mode, normalise
from layoutalg.kernels.rowwise.unaligned import Backwards, HeadTail
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
            assert chunk.source % vec == 0 and chunk.source + vec <= most
            for e in range(vec):
                found[0 if walk.rows else e][chunk.source + e] += 1
    for number in range(walk.edge_steps):
        one, exists = walk.edge(bases, number)
        if all(exists):
            found[0][one.source] += 1
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
    got = {}
    for place in range(walk.places):
        for e, counted in elements(walk, place, p.axes.source_elems).items():
            got[form.dst_offset + walk.along(walk.target(place, e), form.kept, "dst")] = counted
    assert got == expected(form)


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
