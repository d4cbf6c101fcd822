"""One operand of the tensor-core GEMM: what a kernel writes for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Var, evaluate, variables
from layoutalg.codegen.gpu import compile_cubin, count_classes, disassemble, main_loop, parse_sass, to_cuda
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do, For, Let, MemRef, walk
from layoutalg.kernels.gemm import Major, Sm80Config, gemm_problem
from layoutalg.kernels.gemm.programs.mainloop import least_extent, tile_order, tile_start
from layoutalg.kernels.gemm.programs.sm80 import build
from layoutalg.kernels.gemm.work.splitk import declare_part


def calls(a_major: Major, b_major: Major, config: Sm80Config) -> list[Do]:
    p = gemm_problem(128, 128, 128, a_major=a_major, b_major=b_major)
    kernel = build(p, config)
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For))
    return [s for s in walk(loop.body) if isinstance(s, Do)]


def names_in_loop(config: Sm80Config) -> set[str]:
    return {s.instr.name for s in calls("k", "k", config)}


@pytest.mark.parametrize(("a_major", "b_major"), [("k", "k"), ("k", "mn"), ("mn", "k"), ("mn", "mn")])
def test_operands_along_their_rows_are_turned_by_ldmatrix(a_major: Major, b_major: Major) -> None:
    config = Sm80Config(64, 64, 32, 2, 2, 3)
    loads = {
        s.args[1].buffer.name: s.instr.name
        for s in calls(a_major, b_major, config)
        if s.instr.name.startswith("ldmatrix") and isinstance(s.args[1], MemRef)
    }
    names = {"k": "ldmatrix_x4", "mn": "ldmatrix_x4_trans"}
    assert loads == {"tile_a": names[a_major], "tile_b": names[b_major]}


@pytest.mark.parametrize("edges", [False, True])
def test_the_ragged_tile_alone_is_guarded(edges: bool) -> None:
    """Before the loop and with edges only; the loop copies the same way in either case."""
    config = Sm80Config(64, 64, 32, 2, 2, 3, edges=edges)
    assert {s for s in names_in_loop(config) if s.startswith("cp_async_16")} == {"cp_async_16"}
    kernel = build(gemm_problem(128, 128, 128), config)
    guarded = [s for s in walk(kernel.body) if isinstance(s, Do) and s.instr.name == "cp_async_16_zfill"]
    assert len(guarded) == (2 if edges else 0)


@pytest.mark.deep
@pytest.mark.parametrize(
    "config", [Sm80Config(64, 64, 64, 2, 2, 4, static_ld=True), Sm80Config(128, 128, 32, 2, 2, 3)]
)
def test_edges_cost_the_main_loop_nothing(config: Sm80Config) -> None:
    p = gemm_problem(4096, 4096, 4096)
    found = []
    for edges in (False, True):
        kernel = build(p, replace(config, edges=edges))
        cubin = compile_cubin(to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a")
        assert cubin.spill_bytes == 0
        (function,) = parse_sass(disassemble(cubin.image))
        found.append(dict(count_classes(main_loop(function))))
    whole, edged = found
    assert edged["ldgsts"] == whole["ldgsts"] and sum(edged.values()) <= 1.02 * sum(whole.values())


def test_every_tile_of_k_is_visited_once_and_the_ragged_one_first() -> None:
    tile_k = 8
    for splits in (1, 2, 3, 5):
        k = KernelBuilder("order", threads=32)
        depth = k.param("k", 50)
        part = declare_part(k, (depth + (tile_k - 1)) // tile_k, splits)
        opening, second = tile_order(k, depth, tile_k, part, edges=True)
        for size in range(1, 51):
            seen = []
            for which in range(splits):
                env: dict[Var, int] = {depth: size}
                env |= {v: splits for v in k.build().params if isinstance(v, Var) and v.name == "splits"}
                if isinstance(part.which, Var):
                    env[part.which] = which
                for s in k.build().body:
                    assert isinstance(s, Let)
                    env[s.var] = evaluate(s.value, env)
                mine = [evaluate(opening, env), *range(evaluate(second, env), 100)][: env[part.tiles]]
                assert all((tile + 1) * tile_k <= size for tile in mine[1:])
                seen += mine
            assert sorted(seen) == list(range(-(-size // tile_k))), (size, splits)


@given(st.sampled_from((16, 32, 64)), st.integers(1, 300), st.sampled_from((1, 2, 8)), st.integers(0, 100))
def test_tiles_that_are_moved_inward_cover_every_row(rows: int, tiles: int, step: int, room: int) -> None:
    """Each is whole, starts at vectors, and from its place in D on brings what D has there."""
    extent = -(-max(rows, tiles) // step) * step
    k = KernelBuilder("inward", threads=32)
    m = k.param("m", extent + room * step, rows, step)
    first = k.block(0, (m + (rows - 1)) // rows) * rows
    at = tile_start(k, "at", first, rows, m, edges=True)
    (let,) = k.build().body
    assert isinstance(let, Let) and let.var.facts.divisible_by(step)
    (block,) = variables(first)
    covered: list[int] = []
    for number in range(-(-extent // rows)):
        start = evaluate(let.value, {m: extent, block: number})
        assert at == let.var and start + rows <= extent and start % step == 0
        covered += range(max(start, number * rows), start + rows)
    assert covered == list(range(extent))


def test_a_matrix_smaller_than_the_tile_is_not_moved() -> None:
    assert least_extent(63, 64, edges=True) == 1 and least_extent(64, 64, edges=True) == 64
    k = KernelBuilder("small", threads=32)
    assert tile_start(k, "at", Const(0), 64, k.param("m", 63), edges=True) == Const(0)


def test_tiles_through_registers_are_loaded_and_stored() -> None:
    names = names_in_loop(Sm80Config(64, 64, 32, 2, 2, 2, via="registers"))
    assert {"ldg128", "sts128"} <= names and not any(name.startswith("cp_async") for name in names)
