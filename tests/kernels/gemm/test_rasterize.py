"""The order of blocks: every tile once, panel by panel, no block without a tile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Var, evaluate
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Let
from layoutalg.kernels.gemm.rasterize import declare_tile

TILE = (32, 16)


def order(m: int, n: int, panel: int) -> list[tuple[int, int]]:
    """(row, column) of every block's tile in turn, from the index code itself."""
    k = KernelBuilder("order", threads=32)
    rows, columns = k.param("m", 1000), k.param("n", 1000)
    declare_tile(k, rows, columns, TILE, panel)
    kernel = k.build()
    lets = {s.var.name: s for s in kernel.body if isinstance(s, Let)}
    env: dict[Var, int] = {rows: m, columns: n}
    blocks = int(evaluate(kernel.grid[0], env))
    block = Var("block_x", kernel.grid[0], "block")
    found = []
    for number in range(blocks):
        here = {**env, block: number}
        for let in lets.values():
            here[let.var] = int(evaluate(let.value, here))
        found.append((here[lets["m0"].var] // TILE[0], here[lets["n0"].var] // TILE[1]))
    return found


def definition(rows: int, columns: int, panel: int) -> list[tuple[int, int]]:
    return [
        (i, j)
        for first in range(0, columns, panel)
        for i in range(rows)
        for j in range(first, min(first + panel, columns))
    ]


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 9))
def test_blocks_walk_down_panels(m: int, n: int, panel: int) -> None:
    assert order(m, n, panel) == definition(-(-m // TILE[0]), -(-n // TILE[1]), panel)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (96, 80), (1000, 1000), (32, 1000), (1000, 16)])
def test_the_picture_of_the_module(m: int, n: int) -> None:
    found = order(m, n, 2)
    assert found == definition(-(-m // TILE[0]), -(-n // TILE[1]), 2)
    if (m, n) == (96, 80):
        assert found[6:8] == [(0, 2), (0, 3)] and found[12:] == [(0, 4), (1, 4), (2, 4)]
