"""Chunks and vectors of a tile: every element is stored once, by numbers as by expressions."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from layoutalg.codegen.expr import Var, as_expr, evaluate
from layoutalg.codegen.gpu import to_cuda
from layoutalg.kernels.move.misaligned import block_base
from layoutalg.kernels.move.partition import Load, Store, block_origins, direct_element, run_origins
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import move_problem, normalise, permute_problem
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage, coordinate_of, coordinates
from tests.permutations import random_problem
from tests.sweeps import each


def written(stage: Stage) -> Any:
    """How often each element of the destination is stored, over all blocks."""
    count = np.zeros(stage.moves.dst_elems, dtype=int)
    for block in range(stage.blocks):
        origins = block_origins(stage, block)
        if stage.config.way == "direct":
            x = np.arange(stage.elements)
            _, target, exists = direct_element(stage, x, origins)
            np.add.at(count, target[holding(x, exists)], 1)
            continue
        x = np.arange(stage.stores)
        for member in range(stage.group):
            v = Store(stage, x, run_origins(stage, origins, member), block_base(stage, origins))
            for e in range(stage.config.vec):
                target = np.broadcast_to(v.target + e, x.shape)
                np.add.at(count, target[holding(x, (*v.part.exists, *v.ends.exists(e)))], 1)
    return count


def holding(x: Any, predicates: Any) -> Any:
    active = np.ones(len(x), dtype=bool)
    for predicate in predicates:
        active &= predicate
    return active


@each("seed", range(30), sample=6)
def test_every_element_is_stored_once(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 2000))
    total = int(np.prod([m.extent for m in x.modes]))
    for c in configs(x):
        for lanes in (0, 8):
            count = written(Stage(x, replace(c, lanes=lanes)))
            assert count.max() == 1 and count.sum() == total


@each("nbytes", [32, 128])
@each("seed", range(20))
def test_blocks_that_share_a_run_own_whole_units(seed: int, nbytes: int) -> None:
    """Of the sectors, or lines, of a run each is written by one block, and every element once."""
    rng = random.Random(seed)
    rows, columns, size = rng.randrange(151, 400, 2), rng.randint(2, 30), rng.choice((1, 2, 4))
    pitch, at, unit = rows + 2 * rng.randrange(3), rng.randrange(16), nbytes // size
    dtype = {1: "u8", 2: "f16", 4: "f32"}[size]
    x = normalise(move_problem((columns, rows), dtype, (1, columns), (pitch, 1), 0, at))
    stage = Stage(x, PermuteConfig("staged", (128, columns), 128, 16 // size, 16 // size, align=unit))
    assert stage.halo and stage.row_lead == stage.lead * columns
    count = written(stage)
    assert count.max() == 1 and count.sum() == rows * columns
    owner = np.full(columns * pitch + at, -1)
    for block in range(stage.blocks):
        origins = block_origins(stage, block)
        v = Store(stage, np.arange(stage.stores), origins, block_base(stage, origins))
        for e in range(stage.config.vec):
            owner[(v.target + e)[holding(v.x, (*v.part.exists, *v.ends.exists(e)))]] = block
    for n in range(columns):
        first = at + n * pitch
        units = np.arange(first, first + rows) // unit
        run = owner[first : first + rows]
        assert all(len(set(run[units == u].tolist())) == 1 for u in set(units.tolist()))


@each("seed", range(12))
def test_the_same_code_runs_on_numbers_and_on_expressions(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 2000))
    for c in configs(x):
        if c.way == "direct":
            continue
        stage = Stage(x, c)
        at, block = Var("x", stage.stores), Var("b", stage.blocks)
        origins = block_origins(stage, block)
        node = as_expr(Store(stage, at, origins, block_base(stage, origins)).place(c.vec - 1))
        for n in (0, stage.stores // 2, stage.stores - 1):
            here = block_origins(stage, stage.blocks - 1)
            number = Store(stage, n, here, block_base(stage, here)).place(c.vec - 1)
            assert evaluate(node, {at: n, block: stage.blocks - 1}) == number


@each("seed", range(20))
def test_what_is_stored_was_loaded_there(seed: int) -> None:
    """Chunks put source elements at the very bytes where vectors fetch them."""
    x = normalise(random_problem(random.Random(seed), 1500))
    for c in configs(x):
        if c.way == "direct":
            continue
        stage = Stage(x, c)
        for block in range(min(3, stage.blocks)):
            origins = block_origins(stage, block)
            base = block_base(stage, origins)
            n = np.arange(stage.loads)
            at = Load(stage, n, origins, base)
            chosen = holding(n, at.exists)
            tile = np.full(stage.tile_bytes, -1)
            source, place = (np.broadcast_to(a, n.shape)[chosen] for a in (at.source, at.place))
            assert (place % stage.chunk_bytes == 0).all()
            for e in range(c.chunk):
                tile[place + e * stage.size] = source + e
            assert len(set(place.tolist())) == len(place)  # chunks do not meet


def test_a_number_is_a_coordinate_by_definition() -> None:
    """Of ints, arrays and expressions, what calling the layout gives."""
    digits, x = ((4, 8, 2), (3, 2, 0), (2, 1, 0), (1, 1, 1)), Var("x", 24)
    layout, places = coordinates(digits), np.arange(24)
    of_arrays, of_expressions = coordinate_of(layout, places, 3), coordinate_of(layout, x, 3)
    for n in range(24):
        want = layout(n)
        assert coordinate_of(layout, n, 3) == (want[0], 0, want[2])
        assert tuple(np.broadcast_to(c, 24)[n] for c in of_arrays) == (want[0], 0, want[2])
        assert tuple(evaluate(as_expr(c), {x: n}) for c in of_expressions) == (want[0], 0, want[2])


def test_odd_rows_are_read_in_whole_vectors() -> None:
    x = normalise(permute_problem((97, 99), (1, 0), "f32"))
    stage = Stage(x, PermuteConfig("staged", (97, 64), 256, 4, 1))
    assert not stage.src_aligned
    at = Load(stage, np.arange(stage.loads), (0, 0), 0)
    assert (at.source % 4 == 0).all() and (at.place % 16 == 0).all()


def test_gathers_of_odd_rows_have_constant_strides() -> None:
    """No element of a vector costs an instruction but its load: places differ by constants."""
    x = normalise(permute_problem((1001, 999), (1, 0), "u8"))
    stage = Stage(x, replace(configs(x)[0], lanes=0))
    n, origins = np.arange(stage.stores), (0, 0)
    v = Store(stage, n, origins, block_base(stage, origins))
    steps = {int(d) for e in range(15) for d in np.unique(v.place(e + 1) - v.place(e))}
    assert steps == {stage.coefficients[0]}


def test_more_than_2_to_31_elements_are_addressed_in_64_bits() -> None:
    for shape in ((70000, 70000), (3, 40000, 40000)):
        x = normalise(permute_problem(shape, tuple(reversed(range(len(shape)))), "u8"))
        c = configs(x)[0]
        assert "(u64)" in to_cuda(build(x, c))
        stage = Stage(x, c)
        block, at = Var("b", stage.blocks), Var("x", stage.stores)
        node = as_expr(Store(stage, at, block_origins(stage, block), 0).target)
        last = block_origins(stage, stage.blocks - 1)
        targets = np.broadcast_to(Store(stage, np.arange(stage.stores), last, 0).target, (stage.stores,))
        assert int(targets.max()) > 1 << 31
        for n in (0, stage.stores - 1):
            assert evaluate(node, {at: n, block: stage.blocks - 1}) == int(targets[n])
