"""The parts of a product's work, in the index code of kernels: tiles in turn, parts of k,
tiles of groups; each against its definition, by numbers put in for the variables."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr, Var, evaluate, variables
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import For, Let
from layoutalg.kernels.gemm import gemm_problem, groups
from layoutalg.kernels.gemm.parts import (
    declare_part,
    each_unit,
)
from layoutalg.kernels.gemm.problem import MOST_SPLITS
from layoutalg.kernels.gemm.programs.mainloop import tile_order
from layoutalg.kernels.gemm.rasterize import declare_tile, least_extent, tile_start
from tests.kernels.gemm.cases import assigned

TILE = (32, 16)


class RowTile(NamedTuple):
    """A tile of rows: its group, its first row, and the row behind its last one."""

    group: int
    first: int
    end: int


def row_tiles(sizes: Sequence[int], high: int, start: int = 0) -> tuple[RowTile, ...]:
    """The tiles of rows of groups of these sizes, the first of which begins at row `start`."""
    found = []
    for group, size in enumerate(sizes):
        found += [RowTile(group, start + at, start + min(at + high, size)) for at in range(0, size, high)]
        start += size
    return tuple(found)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 9))
@example(1, 1, 2)
@example(1000, 1000, 2)
@example(32, 1000, 2)
def test_blocks_walk_down_panels(m: int, n: int, panel: int) -> None:
    """Every tile once, panel by panel, no block without a tile."""
    k = KernelBuilder("order", threads=32)
    rows, columns = k.param("m", 1000), k.param("n", 1000)
    declare_tile(k, rows, columns, TILE, panel)
    kernel = k.build()
    lets, block = [s for s in kernel.body if isinstance(s, Let)], Var("block_x", kernel.grid[0], "block")
    env: dict[Var, Any] = {rows: m, columns: n}
    seen = []
    for number in range(evaluate(kernel.grid[0], env)):
        named = {v.name: x for v, x in assigned(lets, env | {block: number}).items()}
        seen.append((named["m0"] // TILE[0], named["n0"] // TILE[1]))
    high, wide = -(-m // TILE[0]), -(-n // TILE[1])
    starts = range(0, wide, panel)
    assert seen == [(i, j) for x in starts for i in range(high) for j in range(x, min(x + panel, wide))]


@given(st.integers(1, 100), st.sampled_from((8, 1)), st.sampled_from((1, 2, 3, 5, MOST_SPLITS)))
@example(50, 8, 5)
def test_parts_of_k_cover_every_tile_once_and_evenly_the_ragged_one_first(
    size: int, deep: int, splits: int
) -> None:
    k = KernelBuilder("parts", threads=32)
    depth = k.param("k", 100)
    part = declare_part(k, (depth + (deep - 1)) // deep, splits)
    opening, second = tile_order(k, depth, deep, part, edges=True)
    body, counts, seen = k.build(), [], list[int]()
    for which in range(splits):
        env: dict[Var, Any] = {v: splits for v in body.params if isinstance(v, Var) and v.name == "splits"}
        if isinstance(part.which, Var):
            env[part.which] = which
        env = assigned(body.body, env | {depth: size})
        counts.append(env[part.tiles] if isinstance(part.tiles, Var) else evaluate(part.tiles, env))
        mine = [evaluate(opening, env), *range(evaluate(second, env), 200)][: counts[-1]]
        assert all((tile + 1) * deep <= size for tile in mine[1:])
        seen += mine
    assert sorted(seen) == list(range(-(-size // deep))) and max(counts) - min(counts) <= 1
    assert (part.which is None) == (splits == 1)


@given(st.sampled_from((16, 32, 64)), st.integers(1, 300), st.sampled_from((1, 2, 8)), st.integers(0, 100))
def test_tiles_that_are_moved_inward_cover_every_row(rows: int, tiles: int, step: int, room: int) -> None:
    """Each is whole, starts at vectors, and from its place in D on brings what D has there."""
    extent = -(-max(rows, tiles) // step) * step
    k = KernelBuilder("inward", threads=32)
    m = k.param("m", extent + room * step, rows, step)
    first = k.block(0, (m + (rows - 1)) // rows) * rows
    at = tile_start(k, "at", first, rows, m, edges=True)
    (let,), (block,) = k.build().body, variables(first)
    assert isinstance(let, Let) and isinstance(let.value, Expr)
    assert let.var.facts.divisible_by(step) and at == let.var
    covered: list[int] = []
    for number in range(-(-extent // rows)):
        start = evaluate(let.value, {m: extent, block: number})
        assert start + rows <= extent and start % step == 0
        covered += range(max(start, number * rows), start + rows)
    assert covered == list(range(extent))


def test_a_matrix_smaller_than_the_tile_is_not_moved() -> None:
    assert least_extent(63, 64, edges=True) == 1 and least_extent(64, 64, edges=True) == 64
    k = KernelBuilder("small", threads=32)
    assert tile_start(k, "at", Const(0), 64, k.param("m", 63), edges=True) == Const(0)


# --- tiles in turn ---------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20), st.integers(1, 3))
@example(1, 1, 20, 2)  # fewer tiles than blocks
def test_a_loop_makes_the_tiles_of_its_block_in_turn(tiles: int, steps: int, blocks: int, every: int) -> None:
    """In order, with the steps before each; of warpgroups in turn each makes every so many."""
    for first, block in ((first, block) for first in range(every) for block in range(blocks)):
        k = KernelBuilder("work", threads=32)
        asked = of_tiles, of_steps, of_blocks = (
            k.param("tiles", 60),
            k.param("steps", 60),
            k.param("blocks", 60),
        )
        with each_unit(k, of_tiles, of_steps, of_blocks, k.block(0, of_blocks), first, every) as unit:
            pass
        *before, loop = k.build().body
        assert isinstance(loop, For)
        env = dict(zip(asked, (tiles, steps, blocks), strict=True)) | {k.block_var(0): block}
        assigned(before, env)
        seen = []
        for turn in range(evaluate(loop.count, env)):
            env[loop.var] = turn
            assigned(loop.body, env)
            seen.append(tuple(evaluate(x, env) for x in (unit.tile, unit.before, unit.all_steps)))
        own = range(block, tiles, blocks)
        wanted = [(tile, i * steps, len(own) * steps) for i, tile in enumerate(own)]
        assert seen == wanted[first::every]


# --- groups ----------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=groups.MOST_TOGETHER)


@given(SIZES, st.sampled_from([64, 128, 192, 256, 512]), st.integers(0, 1000))
@example([0], 64, 0)
@example([0, 0, 1, 0], 64, 5)
@example([64] * groups.MOST_TOGETHER, 64, 0)
def test_the_closed_form_finds_the_tiles_of_the_definition(sizes: list[int], high: int, start: int) -> None:
    tiles, words = row_tiles(sizes, high, start), groups.group_words(sizes, high, start)
    p = groups.grouped(gemm_problem(max(1, start + sum(sizes)), 8, 8), len(sizes), 64)
    k = KernelBuilder("tiles", threads=32)
    some = groups.Groups.declare(k, p, k.param("m", p.m), high)
    place = some.find(k, k.param("tile", max(1, len(tiles)), 0))
    kernel, numbers = k.build(), {**words, "m": start + sum(sizes)}
    assert len(tiles) <= groups.most_row_tiles(sum(sizes), len(sizes), high)
    for number, tile in enumerate(tiles):
        env = {v: numbers.get(v.name, number) for v in kernel.params if isinstance(v, Var)}
        assigned(kernel.body, env)
        group, begin, end = (evaluate(x, env) for x in place)
        assert (group, begin, min(end, begin + high)) == tile and evaluate(some.tiles, env) == len(tiles)


@given(SIZES)
def test_boxes_are_those_of_the_tiles_of_one_box(sizes: list[int]) -> None:
    high = [tile.end - tile.first for tile in row_tiles(sizes, groups.BOX_ROWS)]
    whole = high.count(groups.BOX_ROWS)
    assert groups.group_boxes(sizes) == (whole, len(high) - whole)
    assert groups.sizes_of(groups.group_begins(sizes), len(sizes)) == sizes


@given(st.integers(1, 1 << 20), st.integers(1, groups.MOST_TOGETHER), st.integers(0, 9))
def test_equal_and_drawn_sizes_are_all_rows(m: int, many: int, seed: int) -> None:
    equal, drawn = groups.equal_sizes(m, many), groups.drawn_sizes(m, many, random.Random(seed))
    assert sum(equal) == sum(drawn) == m and len(equal) == len(drawn) == many
    assert max(equal) - min(equal) <= 1 and min(drawn) >= 0


def test_words_beyond_the_sizes_name_no_tiles() -> None:
    words = groups.group_words([64, 1], 64)
    assert groups.room_for(2) == 4 and [words[f"opens{g}"] for g in (1, 2, 3, 4)] == [1, 2, 2, 2]
    assert [words[f"begin{g}"] for g in range(5)] == [0, 64, 65, 65, 65]
