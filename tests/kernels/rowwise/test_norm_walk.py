"""The walk covers every element of every statistic once, by the threads that share it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from layoutalg.codegen.expr import Var, as_expr, evaluate
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.schedule import Schedule, walk_of
from layoutalg.kernels.rowwise.unaligned import SkewedColumns, minus
from layoutalg.kernels.rowwise.walk import Chunk
from tests.norms import random_problem
from tests.sweeps import each


def covered(p: NormProblem, c: NormConfig) -> dict[int, tuple[int, int, int]]:
    """Destination -> (source, weight, column) of every element that some thread takes."""
    w = walk_of(form_of(p), p.dtype, c)
    schedule, vec, rows = Schedule(w, c), c.vec, c.rows_per_block
    found: dict[int, tuple[int, int, int]] = {}
    for block in range(w.blocks):
        tile, split = w.block(block)
        for tid in range(c.threads):
            row, y = w.thread(tid)
            place = w.place(tile, row)
            if place >= w.places:
                continue
            for s in schedule.segments:
                for i in range(s.first, s.first + s.count):
                    step = w.step(y, split * schedule.rounds + i)
                    if step >= w.steps:
                        assert not s.plain
                        continue
                    chunk = w.chunk(w.bases(place), step)
                    if not all(w.exists(step, chunk)):
                        assert not s.plain
                        continue
                    for e in range(vec):
                        inside = not (w.rows or w.cut) or chunk.has(e)
                        inside = inside and all(w.written(row))
                        assert inside or (w.cut and not s.plain)
                        if not inside:
                            continue
                        target = chunk.target + e * w.lead.dst
                        weight = chunk.weight + (w.weight_of(chunk, e) if w.rows else 0)
                        assert target not in found, "an element is taken twice"
                        owner = place if w.rows else place * vec + e
                        if isinstance(w, SkewedColumns):
                            assert place // rows == tile
                            owner = place // w.row_extents[0] * w.lead.extent + chunk.at + e - chunk.low
                        found[target] = (chunk.source + e * w.lead.src, weight, owner)
    return found


@each("seed", range(40), sample=20)
def test_every_element_is_taken_once(seed: int) -> None:
    rng = random.Random(seed)
    p = random_problem(rng, 300)
    found = covered(p, rng.choice([c for c in configs(p) if not c.turns]))  # runs: see test_packed_tile
    a, wanted = p.axes, {}
    for crd in np.ndindex(*a.shape):
        source = a.src_offset + sum(i * s for i, s in zip(crd, a.src, strict=True))
        target = a.dst_offset + sum(i * s for i, s in zip(crd, a.dst, strict=True))
        inner = tuple(crd[k] for k in a.axes)
        weight = int(np.ravel_multi_index(inner, tuple(a.shape[k] for k in a.axes)))
        wanted[target] = (source, weight, tuple(i for k, i in enumerate(crd) if k not in a.axes))
    assert {t: s for t, (s, _, _) in found.items()} == {t: s for t, (s, _, _) in wanted.items()}
    if p.weight or p.bias:
        assert {t: v for t, (_, v, _) in found.items()} == {t: v for t, (_, v, _) in wanted.items()}
    owners = {(found[t][2], wanted[t][2]) for t in wanted}  # a bijection of columns and kept coordinates
    assert len(owners) == len({o for o, _ in owners}) == len({k for _, k in owners}) == form_of(p).outputs


def test_segments_cover_the_rounds() -> None:
    for n in (5, 31, 32, 33, 1000, 1001, 4096):
        p = norm_problem("softmax", (3, n), 1, "f16")
        for splits in (1, 3):
            c = NormConfig(8 if n >= 8 else 1, 1, 32, "global", splits=splits)
            schedule = Schedule(walk_of(form_of(p), p.dtype, c), c)
            taken = [i for s in schedule.segments for i in range(s.first, s.first + s.count)]
            assert taken == list(range(schedule.rounds))


@pytest.mark.parametrize(("at", "held"), [(0, [3]), (4, [0, 1, 2, 3]), (8, [0, 1]), (12, [])])
def test_a_vector_has_the_elements_of_its_row(at: int, held: list[int]) -> None:
    chunk = Chunk(100 + at, 200 + at, 0, at, 3, 10)
    assert [e for e in range(4) if chunk.has(e)] == held
    places = np.full(5, at)
    assert bool(Chunk(0, 0, 0, places, 3, 10).has(2).all()) == (2 in held)


@each("most", [1, 4, 7, 8, 12])
def test_a_difference_is_exact_or_wraps_to_a_power_of_two(most: int) -> None:
    top = 1 << most.bit_length()
    i, j = Var("i", most + 1), Var("j", most + 1)
    for x in range(most + 1):
        for y in range(most + 1):
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
    tid = np.arange(c.threads)
    row, y = np.broadcast_arrays(*w.thread(tid))
    assert [(int(a), int(b)) for a, b in zip(row, y, strict=True)] == [w.thread(t) for t in range(c.threads)]
    assert {(int(a), int(b)) for a, b in zip(row, y, strict=True)} == {
        (a, b) for a in range(c.rows_per_block) for b in range(c.threads_per_row)
    }
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
            y, mine = step % share, {}
            for row in range(side):
                bases = w.bases(column + row)
                chunk = w.chunk(bases, step)
                for e in range(vec):
                    place, c = w.slot(row, w.shift(bases, y), e), chunk.at + e - chunk.low
                    mine[place] = c
                    if chunk.has(e) and all(w.written(row)):
                        assert wanted.setdefault(c, place) == place
            assert sorted(mine) == list(range(side * vec))
            held.append(mine)
        for c, place in wanted.items():
            assert all(mine[place] == c for mine in held)
