"""Which tile of D a block computes: down panels of columns, so that blocks of one time share operands in L2.

The idea.  Blocks run about in the order of their numbers.  Walking along whole rows of tiles, those that run
together read few rows of A and all of B; walking down a panel of P columns of tiles, they read a near-square
of D's operands.  With 5 columns, 3 rows and P = 2:

     0  1 |  6  7 | 12
     2  3 |  8  9 | 13
     4  5 | 10 11 | 14

The last panel is as wide as what is left, so that every block has a tile, and the GPU an even load.
"""

from __future__ import annotations

from layoutalg.codegen.expr import Const, Expr, Select, Var
from layoutalg.codegen.language import KernelBuilder

PANEL = 8
"""Columns of tiles that are walked together."""


def declare_tile(
    k: KernelBuilder, m: Var, n: Var, tile: tuple[int, int], panel: int = PANEL
) -> tuple[Expr, Expr]:
    """The first row and column of the block's tile of D, which is m x n; the grid's first axis counts tiles.

    >>> k = KernelBuilder("order", threads=32)
    >>> m0, n0 = declare_tile(k, k.param("m", 100), k.param("n", 100), (32, 16))
    >>> m0.facts.stride, n0.facts.stride
    (32, 16)
    """
    tile_m, tile_n = tile
    rows, columns = (m + (tile_m - 1)) // tile_m, (n + (tile_n - 1)) // tile_n
    block = k.block(0, rows * columns)
    at = k.let("in_panel", block % (rows * panel))
    first = k.let("first_column", block // (rows * panel) * panel)
    left = (columns + (panel - 1)) % panel + 1  # columns of the last panel
    width = k.let("width", Select(first + panel < columns, Const(panel), left))
    return k.let("m0", at // width * tile_m), k.let("n0", (first + at % width) * tile_n)
