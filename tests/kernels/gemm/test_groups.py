"""Groups of rows by one launch of gemm-sm90: the closed form of their tiles, results, and mutants of both."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen import compile as compile_program
from layoutalg.codegen import program
from layoutalg.codegen.expr import Le, Lt, Var, as_expr, evaluate
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels import find_family, verify
from layoutalg.kernels.gemm import BatchMode, GemmProblem, Sm80Config, Sm90Config, gemm_problem
from layoutalg.kernels.gemm.choice.heuristic import SM90, expected_family
from layoutalg.kernels.gemm.choice.tables import SM90_TILES
from layoutalg.kernels.gemm.launches import called_launches, called_problem, launches, shared_launches
from layoutalg.kernels.gemm.programs.streamk import block_count
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.gemm.work.groups import (
    BOX_ROWS,
    MOST_TOGETHER,
    Groups,
    drawn_sizes,
    equal_sizes,
    group_begins,
    group_boxes,
    group_words,
    grouped,
    most_row_tiles,
    room_for,
    row_tiles,
    sizes_of,
)
from layoutalg.kernels.sizes import buffer_bytes
from tests.kernels.gemm.cases import grouped_arguments as operands
from tests.kernels.gemm.cases import grouped_expected as expected
from tests.kernels.gemm.cases import grouped_problem as problem
from tests.mutants.planting import rewrite, with_let
from tests.sweeps import each, first

ONE = Sm90Config(64, 64, 2, 1)
BLOCKS = 3
"""Blocks or clusters of a simulated launch, one after the other: the last tile of a group is computed after
the first one of the next, so that a row too many is seen."""

RAGGED = (65, 0, 1, 64, 100)

SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=MOST_TOGETHER)


def computed(sequence: program.LaunchSequence, given: dict[str, Any], words: dict[str, int]) -> Any:
    """D's buffer as printed programs leave it in the simulator."""
    memory = given | {"d": given["d"].copy()} | words
    simulate_sequence(sequence, memory, trace=False)
    return memory["d"]


def by_few(p: GemmProblem, c: Sm90Config, of: Any = called_launches) -> program.LaunchSequence:
    """The launch of a few blocks."""
    sequence = of(p, c)
    return program.printed_sequence(
        replace(sequence, scalars=(*sequence.scalars, ("blocks", BLOCKS * c.cluster)))
    )


WAYS = ("tma", "shared")
"""How results leave: in boxes of whole groups' rows by TMA and of others by threads, or all by threads."""


def leaving(p: GemmProblem, c: Sm90Config, through: Any) -> Sm90Config:
    """A configuration as the problem needs it, whose results leave in a way."""
    return replace(SM90.fitted(p, c), through=through, result_vec=16 // p.result.nbytes)


def right(
    sizes: Sequence[int], p: GemmProblem, c: Sm90Config, of: Any = called_launches, through: str = ""
) -> bool:
    """Whether what is simulated is the definition, all other bytes untouched; by the usual way or another."""
    given, words = operands(p), group_words(sizes, c.tile_m * c.cluster_m)
    config = leaving(p, c, through) if through else SM90.fitted(p, c)
    return np.array_equal(computed(by_few(p, config, of), given, words), expected(p, sizes, given))


# --- tiles ---------------------------------------------------------------------------------------------


@given(SIZES, st.sampled_from([64, 128, 192, 256, 512]), st.integers(0, 1000))
@example([0], 64, 0)
@example([0, 0, 1, 0], 64, 5)
@example([64] * MOST_TOGETHER, 64, 0)
def test_the_closed_form_finds_the_tiles_of_the_definition(sizes: list[int], high: int, start: int) -> None:
    tiles, words = row_tiles(sizes, high, start), group_words(sizes, high, start)
    p = grouped(gemm_problem(max(1, start + sum(sizes)), 8, 8), len(sizes), 64)
    k = KernelBuilder("tiles", threads=32)
    groups = Groups.declare(k, p, k.param("m", p.m), high)
    found = groups.find(k, k.param("tile", max(1, len(tiles)), 0))
    body = k.build()
    assert len(tiles) <= most_row_tiles(sum(sizes), len(sizes), high)
    for number, tile in enumerate(tiles):
        env: dict[Var, Any] = {
            p: {**words, "m": start + sum(sizes)}.get(p.name, number)
            for p in body.params
            if isinstance(p, Var)
        }
        for s in body.body:
            assert isinstance(s, program.Let)
            env[s.var] = evaluate(s.value, env)
        group, begin, end = (evaluate(x, env) for x in found)
        assert (group, begin, min(end, begin + high)) == tile and evaluate(groups.tiles, env) == len(tiles)


@given(SIZES)
def test_boxes_are_those_of_the_tiles_of_one_box(sizes: list[int]) -> None:
    high = [tile.end - tile.first for tile in row_tiles(sizes, BOX_ROWS)]
    assert group_boxes(sizes) == (high.count(BOX_ROWS), len(high) - high.count(BOX_ROWS))
    assert sizes_of(group_begins(sizes), len(sizes)) == sizes


@given(st.integers(1, 1 << 20), st.integers(1, MOST_TOGETHER), st.integers(0, 9))
def test_equal_and_drawn_sizes_are_all_rows(m: int, groups: int, seed: int) -> None:
    equal, drawn = equal_sizes(m, groups), drawn_sizes(m, groups, random.Random(seed))
    assert sum(equal) == sum(drawn) == m and len(equal) == len(drawn) == groups
    assert max(equal) - min(equal) <= 1 and min(drawn) >= 0


def test_words_beyond_the_sizes_name_no_tiles() -> None:
    words = group_words([64, 1], 64)
    assert room_for(2) == 4 and [words[f"opens{g}"] for g in (1, 2, 3, 4)] == [1, 2, 2, 2]
    assert [words[f"begin{g}"] for g in range(5)] == [0, 64, 65, 65, 65]


# --- results -------------------------------------------------------------------------------------------

CASES: dict[str, tuple[Sequence[int], dict[str, Any]]] = {
    "ragged": (RAGGED, {"n": 72, "k": 136}),
    "whole tiles": ((64, 128, 64), {"n": 64, "k": 64}),
    "a row each": ((1,) * 9, {"n": 72, "k": 40}),
    "all in one": ((0, 0, 130, 0), {"n": 72, "k": 72}),
    "b by rows": (RAGGED, {"n": 72, "k": 72, "b_major": "mn"}),
    "a by columns": ((60, 0, 1, 67), {"n": 72, "k": 72, "a_major": "mn"}),
    "odd rows of d": (RAGGED, {"n": 71, "k": 40, "ldd": 75}),
    "f32 result": (RAGGED, {"n": 72, "k": 72, "dtype": "f16", "result": "f32"}),
}


@each("name", CASES, sample=1)
def test_what_is_simulated_is_the_definition(name: str) -> None:
    sizes, options = CASES[name]
    p = problem(sizes, **options)
    for through in WAYS[name == "odd rows of d" :]:  # TMA stores rows of whole 16 bytes
        assert right(sizes, p, ONE, through="" if through == "shared" else through)


@pytest.mark.deep
@each("through", WAYS)
@each(
    "config",
    [
        replace(ONE, cluster_m=2), replace(ONE, cluster_n=2), replace(ONE, panel=1),
        Sm90Config(128, 64, 2), Sm90Config(64, 64, 2, pingpong=True), Sm90Config(256, 48, 2),
        Sm90Config(192, 80, 2, 3),
    ],
)  # fmt: skip
def test_clusters_panels_and_turns_compute_groups(config: Sm90Config, through: str) -> None:
    assert right(RAGGED, problem(RAGGED, 136, 72), config, through=through)


TILES = [tile.config for tile in SM90_TILES if tile.config.cluster_k == 1]


@each("number", range(len(TILES)), sample=1)
def test_every_tile_computes_ragged_groups(number: int) -> None:
    """Of three groups one has a whole box and a row more, one no rows, one a whole box alone."""
    c, sizes = TILES[number], (65, 0, 64)
    p = problem(sizes, c.tile_n * c.cluster_n - 8, 40)
    assert right(sizes, p, c, through=WAYS[number % 4 == 3])


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(40))
def test_random_groups_are_the_definition(seed: int) -> None:
    rng = np.random.default_rng([20261123, seed])
    sizes = [int(x) for x in rng.choice([0, 1, 63, 64, 65, 100, 128, 130], rng.integers(1, 10))]
    sizes[0] += not sum(sizes)
    n, k = 8 * int(rng.integers(1, 20)), 8 * int(rng.integers(1, 25))
    p = problem(sizes, n, k, b_major=rng.choice(["k", "mn"]))
    c = replace(ONE, tile_n=128, stages=int(rng.integers(2, 4)), cluster_m=int(rng.choice([1, 2])))
    through = str(rng.choice(WAYS))
    assert right(sizes, p, c, through=through), (sizes, p, c, through)


@each("of", [launches, shared_launches])
def test_kernels_of_one_problem_and_of_its_neighbours_compute_it_too(of: Any) -> None:
    assert right(RAGGED, problem(RAGGED, 72, 72), ONE, of)


@pytest.mark.deep
@each("groups", [1, 2, 5])
def test_groups_are_verified_with_every_step_of_an_epilogue(groups: int) -> None:
    family = find_family("gemm-sm90")
    p = family.problem(100, 72, 40, groups=groups, c=True, bias=True, activation="relu")
    sizes = [
        [given[f"begin{g + 1}"] - given[f"begin{g}"] for g in range(groups)]
        for given in (family.buffers(p, "normal", seed) for seed in range(9))
    ]
    assert all(sum(found) == 100 for found in sizes)
    assert groups == 1 or len({tuple(found) for found in sizes}) > 4
    assert groups < 5 or all(found[1:3] in ([0, 0], [0, 1]) for found in sizes)
    verify(family, p).require()


def test_a_row_of_another_group_is_seen_by_verify() -> None:
    family = find_family("gemm-sm90")

    def late(p: Any, c: Any, given: Any) -> dict[str, int]:
        words = dict(family.words(p, c, given))
        return words | {"begin2": words["begin2"] + 1}

    p = family.problem(100, 72, 40, groups=3)
    assert not verify(replace(family, words=late), p).passed


def test_buffers_reach_to_the_last_group() -> None:
    family = find_family("gemm-sm90")
    p = family.problem(256, 64, 72, groups=5)
    sequence = family.launches(p, family.choose(p), "sm_90")
    known = buffer_bytes(p, sequence)
    sizes = {v: dict(sequence.scalars)[v.name] for v in sequence.kernels[0].params if isinstance(v, Var)
             and v.name in dict(sequence.scalars)}  # fmt: skip
    assert evaluate(known["b"], sizes) == 2 * p.b_elems and evaluate(known["a"], sizes) == 2 * p.a_elems


# --- mutants -------------------------------------------------------------------------------------------


WRONG: dict[str, Any] = {
    "one tile late": lambda old: replace(old, condition=Lt(old.condition.a, old.condition.b)),
    "never": lambda old: old.b, "always": lambda old: old.a,
    "one more": lambda old: replace(old, a=old.a + 1),
}  # fmt: skip
"""Mistakes in what is selected for a group."""

WITH_EMPTY, FULL = (65, 0, 66, 1), (65, 66, 67, 70)
"""Groups in a kernel that has room for no more."""

EQUAL = {
    ("opens1", 1): "the group is empty: the next one begins with the same tile",
    ("opens4", 1): "a tile more, which has no rows",
    ("begin4", 1): "rows end with D",
}


class Mutated:
    """The product that mutants compute, and its definition."""

    def __init__(self, sizes: Sequence[int], through: str = "shared") -> None:
        self.p = problem(sizes, 72, 8)
        self.given, self.words = operands(self.p), group_words(sizes, 64)
        self.d = expected(self.p, sizes, self.given)
        self.c = leaving(self.p, ONE, through)
        self.sequence = by_few(self.p, self.c)

    def right(
        self, words: Mapping[str, int] = MappingProxyType({}), kernel: program.Kernel | None = None
    ) -> bool:
        """Whether another kernel, or other words, compute the definition."""
        sequence = self.sequence
        try:
            if kernel is not None:
                sequence = replace(sequence, kernels=(program.printed(kernel),))
            return np.array_equal(computed(sequence, self.given, {**self.words, **words}), self.d)
        except LayoutAlgError:
            return False


@pytest.mark.deep
def test_every_mistake_in_the_words_is_seen() -> None:
    one = Mutated(WITH_EMPTY)
    assert one.right()
    changes = [(name, by) for name, value in one.words.items() for by in (-1, 1) if value + by >= 0]
    silent = {(name, by) for name, by in changes if one.right({name: one.words[name] + by})}
    assert silent == set(EQUAL)


@pytest.mark.deep
@pytest.mark.parametrize("g", first(1, (3, 1, 2)))
def test_every_mistake_in_the_search_is_seen(g: int) -> None:
    one = Mutated(FULL)
    kernel = called_launches(one.p, one.c).kernels[0]
    silent = {
        (name, wrong)
        for name in ("group", "begin", "opens", "end")
        for wrong in WRONG
        if one.right(kernel=with_let(kernel, f"{name}_{g}", WRONG[wrong]))
    }
    assert silent == ({("end", "one more")} if g == 3 else set())  # of the last group: rows end with D


def with_ends(kernel: program.Kernel, kind: type[Le | Lt], value: Any) -> program.Kernel:
    """The kernel where what is asked of the end of a box, by <= for TMA and by < for threads, is another."""

    def change(s: program.Stmt) -> tuple[program.Stmt, ...]:
        its = isinstance(s, program.If) and type(s.condition) is kind and "end" in str(s.condition)
        return (replace(s, condition=value(s.condition)),) if its else (s,)  # type: ignore[union-attr]

    return rewrite(kernel, change)


BOXED = (63, 65, 64, 128, 1)
"""Groups that end a row before a box, with it, and a row behind it."""

ASKED: dict[str, Any] = {
    "never": lambda old: Lt(old.a, as_expr(0)),
    "always": lambda old: Le(as_expr(0), old.a),
    "one row later": lambda old: replace(old, a=old.a + 1),
    "one row earlier": lambda old: replace(old, b=old.b + 1),
}


@pytest.mark.deep
@each("kind", [Le, Lt])
def test_every_mistake_in_what_leaves_by_tma_is_seen(kind: Any) -> None:
    one = Mutated(BOXED, "tma")
    kernel = called_launches(one.p, one.c).kernels[0]
    assert one.right() and one.right(kernel=kernel)
    silent = {wrong for wrong, value in ASKED.items() if one.right(kernel=with_ends(kernel, kind, value))}
    assert not silent


# --- kernels, choices, refusals ------------------------------------------------------------------------


def test_sizes_and_numbers_of_groups_share_a_kernel() -> None:
    c = Sm90Config(128, 128, 4, through="shared", result_vec=8)
    kernels = [
        called_launches(grouped(gemm_problem(m, 256, 512), groups, 256 * 512), c).kernels
        for m, groups in ((512, 5), (4000, 8), (512, 9))
    ]
    assert kernels[0] == kernels[1] != kernels[2] and compile_program(kernels[0][0]).spill_bytes == 0


LARGE = {
    "rows of all groups": (4 * 8192, 4096, 7168, 4),
    "k": (4096, 512, 1 << 15, 4),
    "n": (4096, 1 << 15, 512, 64),
    "all": (1 << 20, 1 << 20, 1 << 20, 64),
    "the most tiles": (1 << 20, 1 << 20, 64, MOST_TOGETHER),
}


@pytest.mark.deep
@each("name", LARGE)
def test_what_fits_is_built(name: str) -> None:
    """Kernels are built for more than what is asked: nothing that is offered may then be refused."""
    m, n, k, groups = LARGE[name]
    p = grouped(gemm_problem(m, n, k), groups, n * k)
    for config in SM90.configs(p):
        sequence = called_launches(p, config)
        wide = called_problem(p, config)
        assert wide.m >= m and wide.n >= n and wide.k >= k
        assert dict(sequence.scalars)["m"] == m and len(sequence.kernels) == 1


def test_many_rows_of_small_matrices_are_numbered_in_32_bits() -> None:
    p = grouped(gemm_problem(1 << 20, 4096, 7168), 64, 4096 * 7168)
    wide = called_problem(p, ONE)
    assert (wide.m, wide.n, wide.k) == (1 << 20, 1 << 14, 1 << 14)


def test_a_configuration_is_that_of_groups_of_one_size() -> None:
    p = grouped(gemm_problem(8 * 1024, 4096, 4096, "bf16"), 8, 4096 * 4096)
    batch = [BatchMode(8, a=1024 * 4096, b=4096 * 4096, d=1024 * 4096)]
    ns, family, config = expected_family(p)
    equal = expected_family(gemm_problem(1024, 4096, 4096, "bf16", batch=batch))
    assert family == equal[1] == "gemm-sm90"
    assert isinstance(config, Sm90Config) and isinstance(equal[2], Sm90Config)
    assert config == equal[2] and config.through == "tma" and ns == equal[0]
    assert p.flops == 2 * 8192 * 4096 * 4096 and p.rows == 1024


def test_blocks_are_enough_for_every_group() -> None:
    p = grouped(gemm_problem(16, 64, 64), 16, 64 * 64)
    assert block_count(p, ONE) == most_row_tiles(16, 16, 64) == 16


def test_what_cannot_be_grouped_is_refused_by_name() -> None:
    one = gemm_problem(256, 256, 64)
    p, many = (grouped(one, groups, 256 * 64) for groups in (4, MOST_TOGETHER + 1))
    with pytest.raises(UnsupportedError, match=r"in 4 groups: .*gemm-sm90"):
        check_config(p, Sm80Config(128, 128, 64, 2, 2, 3))
    with pytest.raises(ResourceError, match="65 asked, the limit is 64"):
        check_config(many, SM90.fitted(many, ONE))
    for of, groups, step, said in (
        (one, 0, 64, "groups = 0"), (one, 2, 64, "step = 64: a B has 16384"),
        (p, 2, 1 << 20, "those of a batch"),
    ):  # fmt: skip
        with pytest.raises(ShapeError, match=said):
            grouped(of, groups, step)
