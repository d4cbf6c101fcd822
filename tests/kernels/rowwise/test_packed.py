"""A packed tile holds every element of its groups once, and says which units and elements are its own."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from layoutalg.analysis import wavefronts as analysed
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError, ResourceError, UnsupportedError
from layoutalg.kernels.rowwise import AxesProblem, axes_problem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.packed import NORM, PackedWalk, packed_walk, ranked, slabs_of, wavefronts
from layoutalg.kernels.rowwise.problems import normalise
from layoutalg.kernels.rowwise.walk import Tiling
from tests.kernels.rowwise.definition import of_problem
from tests.sweeps import each


def drawn(rng: random.Random) -> tuple[AxesProblem, Tiling]:
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
    p = axes_problem(
        shape, axes, element, tuple(strides), tuple(strides), offset, offset + rng.choice([0, 8]), keeps=True
    )
    vec = rng.choice([1, 1, 1, 2])
    rows, lanes, turns = rng.choice([3, 4, 8, 16, 30]), rng.choice([1, 2, 4]), rng.randint(1, 3)
    return p, Tiling(dtype(element), vec, rows, lanes, 1, turns)


Place = tuple[int, int, int]
"""Where an element is in the source and in the destination, and where its weight is."""


def drawn_walk(seed: int) -> tuple[AxesProblem, PackedWalk] | None:
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


@each("batch", range(10), sample=2)
def test_every_group_is_taken_once(batch: int) -> None:
    """Half of the drawn tensors have runs, and some of them shifted ones."""
    cases = [case for seed in range(15 * batch, 15 * batch + 15) if (case := drawn_walk(seed))]
    assert len(cases) > 3 and any(w.shifted for _, w in cases)
    for p, w in cases:
        found, wanted = taken(w), dict[Any, set[Place]]()
        for e in of_problem(p):
            wanted.setdefault(e.group, set()).add(e[1:])
        assert {frozenset(one) for one in found} == {frozenset(one) for one in wanted.values()}
        assert sum(map(len, found)) == prod(p.shape)


@given(
    st.integers(1, 9), st.integers(1, 40), st.integers(1, 16), st.sampled_from(["f32", "f16"]),
    st.integers(0, 9), st.integers(0, 3),
)  # fmt: skip
def test_units_and_elements_of_a_run_are_those_of_its_definition(
    elems: int, count: int, rows: int, element: str, offset: int, gap: int
) -> None:
    """Of two runs with a gap between, by what a set of elements says."""
    shape, strides = (2, count, elems), (count * elems + gap, elems, 1)
    form = normalise(axes_problem(shape, 2, element, strides, strides, offset, offset, keeps=True))
    assume(elems > 1 and slabs_of(form, 1 << 20, rows, both=True) is not None)
    w = packed_walk(form, Tiling(dtype(element), 1, rows, 1), both=True)
    for tile in range(w.tiles):
        start = w.start(tile)
        low = start.source % w.unit
        long = min(w.slabs, w.parts.along.extent - start.slab) * w.parts.elems
        mine = set(range(low, low + long))
        assert low == 0 or not w.starts_at_units
        assert max(mine) < w.units * w.unit
        for unit in range(w.units):
            of = range(unit * w.unit, (unit + 1) * w.unit)
            assert all(w.touched(start, low, unit)) == bool(mine & set(of))
            assert all(w.in_run(start, low, of[0], w.unit)) == (set(of) <= mine)
            for at in of:
                assert all(w.in_run(start, low, at)) == (at in mine) or not mine & set(of)


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
    form = normalise(axes_problem(shape, axes, "f32", src, dst, keeps=True))
    with pytest.raises(error, match=message):
        packed_walk(form, Tiling(dtype("f32"), 1, 32, 1), both=True)


@each(("element", "apart", "unit"), [("f32", 4, 4), ("f32", 2, 2), ("f32", 1, 1), ("f16", 1, None)])
def test_other_places_in_a_unit_take_narrower_units(element: str, apart: int, unit: int | None) -> None:
    form = normalise(axes_problem((64, 10), 1, element, dst_offset=apart, keeps=True))
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
    """On an H200 (2026-11-24, tests/gpu/ragged_rows, seed 20261131); the first by registers that are too few
    for its rows, so that vectors are chosen instead."""
    p = norm_problem(op, shape, axes, element)
    found = ranked(normalise(p.axes), p.dtype, NORM, 132, p.moved_bytes, 100 << 10)
    if chosen:
        assert found[0].us == pytest.approx(us, rel=0.1) and configs(p)[0].turns
    else:
        timed = next(one for one in found if one.way.rows == 4)
        assert timed.us == pytest.approx(us, rel=0.1) and not configs(p)[0].turns
