"""A walk reads every element of every output exactly once, and puts each output where it belongs."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

from layoutalg.kernels.rowwise.reduce_modes import axes_problem, normalise
from layoutalg.kernels.rowwise.reduce_walk import ReduceConfig, Walk, digits, flipped
from tests.reductions import random_plan, random_reduction
from tests.sweeps import each


def elements(walk: Walk, place: int) -> dict[int, Counter[int]]:
    """For each value of a place, how often each element of the source is read."""
    start = walk.source(place)
    width = 1 if walk.rows else walk.config.vec
    found = {e: Counter[int]() for e in range(width)}
    for number in range(walk.steps):
        at, exists = walk.step(number, start)
        if all(exists):
            assert at % walk.config.vec == 0 and at + walk.config.vec <= walk.axes.src_elems
            for e in range(walk.config.vec):
                found[0 if walk.rows else e][at + e] += 1
    for number in range(walk.edge_steps):
        at, exists = walk.edge(number, start)
        if all(exists):
            found[0][at] += 1
    return found


def expected(walk: Walk) -> dict[int, Counter[int]]:
    """Destination -> the elements that belong to it, by definition."""
    found: dict[int, Counter[int]] = {}
    modes = walk.axes.modes
    for crd in product(*(range(m.extent) for m in modes)):
        src = walk.axes.src_offset + sum(i * m.src for i, m in zip(crd, modes, strict=True))
        dst = walk.axes.dst_offset
        for i, m in zip(crd, modes, strict=True):
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
    walk = Walk(
        form,
        ReduceConfig(c.vec, c.lanes_per_row, c.rows_per_block, c.groups_per_row, c.depth, c.rows_per_thread),
    )
    got = {}
    for place in range(walk.places):
        for e, counted in elements(walk, place).items():
            got[walk.target(place, e)] = counted
    assert got == expected(walk)


@each("seed", range(60, 90))
def test_the_threads_of_all_splits_share_the_steps(seed: int) -> None:
    rng = random.Random(seed)
    p = random_reduction(rng, 3000)
    walk = random_plan(rng, p).passes[0].walk
    c = walk.config
    taken: Counter[int] = Counter()
    for part in range(c.splits):
        turns = [i * c.splits + part for i in range((walk.rounds + flipped(part, c.splits)) // c.splits)]
        turns += [walk.rounds] if walk.left and part == walk.rounds % c.splits else []
        for turn, u, sharer in product(turns, range(c.depth), range(c.threads_per_row)):
            taken[turn * walk.stride + u * c.threads_per_row + sharer] += 1
    assert {n: k for n, k in taken.items() if n < walk.steps} == dict.fromkeys(range(walk.steps), 1)


def test_the_places_of_all_threads_are_the_outputs() -> None:
    walk = Walk(normalise(axes_problem((1000, 64), 1, "f32")), ReduceConfig(4, 8, 4, 1, 2, 4))
    seen = Counter(
        walk.place(group, n, column) for group in range(walk.groups) for n in range(4) for column in range(4)
    )
    assert {place: k for place, k in seen.items() if place < 1000} == dict.fromkeys(range(1000), 1)


def test_odd_rows_have_edges_and_the_others_none() -> None:
    def edges(shape: tuple[int, int], offset: int = 0) -> int:
        form = normalise(axes_problem(shape, 1, "f32", src=(shape[1], 1), src_offset=offset))
        return Walk(form, ReduceConfig(4, 32, 1, 1, 4)).edges

    assert [edges((8, 128)), edges((8, 130)), edges((8, 129)), edges((8, 128), 1)] == [0, 8, 8, 8]
    assert edges((1, 130)) == 2


def test_digits_and_mirrors() -> None:
    assert digits(23, (2, 3, 5)) == [1, 2, 3] and digits(7, ()) == []
    assert all(flipped(i, n) == n - 1 - i for n in range(1, 20) for i in range(n))
