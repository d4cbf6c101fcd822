"""Parts of k: they cover every tile once, and none is a tile longer than another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Expr, Var, evaluate
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Let
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.gemm import Sm80Config, gemm_problem
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.work import splitk
from layoutalg.kernels.ladder.steps import SimtStep

MOST = 100


def bounds(tiles: int, splits: int) -> list[tuple[int, int]]:
    """First tile and number of tiles of every part, from the index code itself."""
    k = KernelBuilder("parts", threads=32)
    given_tiles = k.param("tiles", MOST)
    part = splitk.declare_part(k, given_tiles, 2)
    lets = [s for s in k.build().body if isinstance(s, Let)]
    found = []
    for which in range(splits):
        env: dict[Var, int] = {given_tiles: tiles}
        for p in k.build().params:
            if isinstance(p, Var) and p.name == "splits":
                env[p] = splits
        assert isinstance(part.which, Var)
        env[part.which] = which
        for let in lets:
            env[let.var] = int(evaluate(let.value, env))
        first: Expr = part.first_tile
        found.append((int(evaluate(first, env)), env[part.tiles]))
    return found


@given(st.integers(1, MOST), st.integers(1, splitk.MOST_SPLITS))
def test_parts_cover_every_tile_once_and_evenly(tiles: int, splits: int) -> None:
    found = bounds(tiles, splits)
    covered = [t for first, count in found for t in range(first, first + count)]
    assert covered == list(range(tiles))
    counts = [count for _, count in found]
    assert max(counts) - min(counts) <= 1


def test_a_whole_product_has_no_second_axis() -> None:
    k = KernelBuilder("whole", threads=32)
    assert splitk.declare_part(k, k.param("tiles", MOST), 1).which is None
    assert [p.name for p in k.build().params] == ["tiles"]


def test_a_part_is_a_product_without_an_end() -> None:
    p = gemm_problem(64, 72, 128, "f16", reads_c=True, bias=True, activation="relu", ldd=80)
    part = splitk.part_problem(p)
    assert (part.result.name, part.ldd, part.reads_c, part.bias, part.activation) == (
        "f32", 72, False, False, "none"
    )  # fmt: skip


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(ShapeError, match="splits = 0"):
        splitk.check_splits(gemm_problem(64, 64, 64), 0)
    one = Sm80Config(64, 64, 32, 2, 2, 3, splits=2)
    with pytest.raises(UnsupportedError, match="f16 sums"):
        launches(gemm_problem(64, 64, 64, accumulator="f16"), one)
    with pytest.raises(ShapeError, match="splits = 65: 1 to 64"):
        launches(gemm_problem(64, 64, 64), replace(one, splits=65))
    direct = SimtStep(32, 32, 32, 1, 1, 1, 1, 1, "global", "global", 1, weave=32, fragments=1, splits=2)
    with pytest.raises(UnsupportedError, match="parts of k without tiles"):
        launches(gemm_problem(64, 64, 64, "f32"), direct)


def test_ragged_sums_are_added_one_by_one() -> None:
    assert splitk.combine_vector(gemm_problem(64, 65, 32)) == 1
