"""The geometry of a tile: every element is staged once and stored once, by the definition."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.expr import Var, evaluate
from layoutalg.kernels.permute_modes import normalise, permute_problem
from layoutalg.kernels.permute_plan import configs
from layoutalg.kernels.permute_stage import PermuteConfig, Stage, digits, minus
from tests.permutations import random_problem


def written(stage: Stage) -> Any:
    """How often each element of the destination is stored, over all blocks."""
    count = np.zeros(stage.moves.dst_elems, dtype=int)
    for block in range(stage.blocks):
        origins = stage.origins(block)
        if stage.config.way == "direct":
            _, target, exists = stage.direct(np.arange(stage.elements), origins)
            active = np.ones(stage.elements, dtype=bool)
            for predicate in exists:
                active &= predicate
            np.add.at(count, target[active], 1)
            continue
        x = np.arange(stage.stores)
        for member in range(stage.group):
            v = stage.store(x, origins, member)
            for e, exists in enumerate(v.exists):
                active = np.ones(len(x), dtype=bool)
                for predicate in (*v.row, *exists):
                    active &= predicate
                np.add.at(count, np.broadcast_to(v.target + e, x.shape)[active], 1)
    return count


@pytest.mark.parametrize("seed", range(30))
def test_every_element_is_stored_once(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 2000))
    total = int(np.prod([m.extent for m in x.modes]))
    for c in configs(x):
        count = written(Stage(x, c))
        assert count.max() == 1 and count.sum() == total


@pytest.mark.parametrize("seed", range(12))
def test_the_same_code_runs_on_numbers_and_on_expressions(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 2000))
    for c in configs(x):
        if c.way == "direct":
            continue
        stage = Stage(x, c)
        at, block = Var("x", stage.stores), Var("b", stage.blocks)
        node = stage.store(at, stage.origins(block)).places[-1]
        for n in (0, stage.stores // 2, stage.stores - 1):
            number = stage.store(n, stage.origins(stage.blocks - 1)).places[-1]
            assert evaluate(node + 0, {at: n, block: stage.blocks - 1}) == number


def test_subtraction_without_subtraction() -> None:
    for most in (1, 5, 8, 100):
        for x in range(most + 1):
            for y in range(x + 1):
                assert minus(x, y, most) == x - y
                assert int(minus(np.array(x), np.array(y), most)) == x - y


def test_digits_are_those_of_a_mixed_radix() -> None:
    for n in range(2 * 3 * 5):
        a, b, c = digits(n, (2, 3, 5))
        assert a + 2 * (b + 3 * c) == n
    assert digits(7, ()) == []


def test_odd_rows_are_read_in_whole_vectors() -> None:
    """A row that starts 3 elements after a boundary is staged 3 elements into its row."""
    x = normalise(permute_problem((97, 99), (1, 0), "f32"))
    stage = Stage(x, PermuteConfig("staged", (97, 64), 256, 4, 1))
    assert not stage.src_aligned
    at = stage.load(np.arange(stage.loads), (0, 0))
    assert (at.source % 4 == 0).all() and (at.place % 16 == 0).all()


def test_blocks_that_share_a_row_own_whole_vectors() -> None:
    x = normalise(permute_problem((1000, 999), (1, 0), "u8", src=(1008, 1), dst=(1001, 1)))
    stage = Stage(x, PermuteConfig("staged", (256, 128), 256, 16, 16))
    assert stage.halo and stage.lead == 15
    assert stage.held == (271, 128)
    assert stage.vectors == 16


def test_more_than_2_to_31_elements_are_addressed_in_64_bits() -> None:
    from layoutalg.codegen.cuda import to_cuda
    from layoutalg.kernels.permute_family import build

    for shape in ((70000, 70000), (3, 40000, 40000)):
        x = normalise(permute_problem(shape, tuple(reversed(range(len(shape)))), "u8"))
        c = configs(x)[0]
        assert "(u64)" in to_cuda(build(x, c))
        stage = Stage(x, c)
        last = stage.origins(stage.blocks - 1)
        at = stage.store(np.arange(stage.stores), last)
        reach = int(at.target.max()) + c.vec
        assert x.dst_elems <= reach + c.vec * 16 and reach > 1 << 31
        vector = stage.store(Var("x", stage.stores), stage.origins(Var("b", stage.blocks))).target
        assert evaluate(vector, {Var("x", stage.stores): 0, Var("b", stage.blocks): stage.blocks - 1}) == int(
            at.target[0]
        )
