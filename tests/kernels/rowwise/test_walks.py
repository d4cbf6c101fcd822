"""A walk takes every element of every row once, by the threads that share its statistics."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import numpy as np
import pytest

from layoutalg.codegen.expr import Var, as_expr, evaluate
from layoutalg.dtype import dtype
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, axes_problem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.problems import Form, Mode, normalise
from layoutalg.kernels.rowwise.schedule import Schedule, walk_of
from layoutalg.kernels.rowwise.unaligned import Backwards, SkewedColumns, minus, reduction_walk
from layoutalg.kernels.rowwise.walk import Tiling
from tests.draws.norms import random_problem
from tests.draws.reductions import random_plan, random_reduction
from tests.kernels.rowwise.definition import Element, of_problem
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


@each("n", [333, 1001])
@each("resident", [0, 3])
def test_the_rounds_of_blocks_that_share_a_row_are_dealt(n: int, resident: int) -> None:
    """Steps of all threads of all blocks: each of the row's once, and the plain ones exist in all of them."""
    p = norm_problem("softmax", (5, 4 * n), 1, "f32")
    c = NormConfig(4, 1, 32, "registers", cluster=3)
    if resident:
        c = NormConfig(4, 1, 32, "global", 2, 3, 4, resident=resident)
    walk = walk_of(form_of(p), p.dtype, c)
    schedule = Schedule(walk, c)
    every = product(range(3), range(c.threads_per_row), range(schedule.rounds))
    steps = [walk.step(y, i * 3 + part) for part, y, i in every]
    assert sorted(s for s in steps if s < walk.steps) == list(range(walk.steps))
    if resident:
        assert tuple(schedule.plain) == (0, walk.steps // (c.splits * c.threads_per_row))
    else:
        assert [walk.block(b) for b in range(walk.blocks)] == [*product(range(5), range(3))]


@each("most", [1, 4, 7, 8, 12])
def test_a_difference_is_exact_or_wraps_to_a_power_of_two(most: int) -> None:
    top, i, j = 1 << most.bit_length(), Var("i", most + 1), Var("j", most + 1)
    for x, y in product(range(most + 1), repeat=2):
        wanted = x - y if x >= y else top - (y - x)
        assert minus(x, y, most) == minus(np.array([x]), y, most)[0] == wanted
        for found in (minus(i, j, most), minus(x, j, most), minus(i, y, most)):
            assert evaluate(as_expr(found), {i: x, j: y}) == wanted


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


@each(
    ("shape", "axes", "words", "groups", "walk"),
    [
        ((9, 128), (1,), 1, 4, "HeadTail"), ((9, 129), (1,), 1, 4, "HeadTail"),
        ((9, 33), (1,), 1, 4, "CutRows"),
        ((9, 3, 129), (0, 2), 1, 4, "CutRows"), ((9, 33), (1,), 2, 4, "HeadTail"),
        ((9, 128), (0,), 1, 4, "HeadTail"), ((9, 129), (0,), 1, 4, "SkewedSums"),
        ((2, 129), (0,), 1, 2, "SkewedSums"), ((9, 129), (0,), 2, 4, "not all rows"),
        ((9, 129), (0,), 1, 2, "not all rows"), ((9, 3, 5, 129), (0, 2), 1, 4, "columns"),
    ],
)  # fmt: skip
def test_which_walk_a_reduction_has(
    shape: tuple[int, ...], axes: tuple[int, ...], words: int, groups: int, walk: str
) -> None:
    """By vectors of four; a text in small letters is that of a refusal."""
    form, tiling = normalise(axes_problem(shape, axes, "f32")), Tiling(F32, 4, 32, 1, groups)
    if " " in walk or walk.islower():
        with pytest.raises(UnsupportedError, match=walk):
            reduction_walk(form, tiling, words)
    else:
        assert type(reduction_walk(form, tiling, words)).__name__ == walk


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


def test_modes_that_run_backwards() -> None:
    for n in range(1, 20):
        modes = (Mode(n, 1, -2, reduced=False),)
        walk = Backwards(Form(modes, 0, 0), Tiling(F32, 1, 1, 32))
        for i in range(n):
            assert [walk.counted((i,), modes, side) for side in ("src", "dst")] == [(i,), (n - 1 - i,)]
            assert walk.along((i,), modes, "dst") == 2 * (n - 1 - i)
