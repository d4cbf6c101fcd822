"""The tile of D of each block: down panels of columns, so that concurrent blocks share operands in L2.

The idea.  Blocks run about in the order of their numbers.  Walking along whole rows of tiles, those that run
together read few rows of A and all of B; walking down a panel of P columns of tiles, they read a near-square
of D's operands.  With 5 columns, 3 rows and P = 2:

     0  1 |  6  7 | 12
     2  3 |  8  9 | 13
     4  5 | 10 11 | 14

The last panel is as wide as the rest, so that every block has a tile, and the GPU an even load.  The grid's
third axis counts the products of a batch.  A tile that would leave D is moved inward, to its last rows and
columns.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from layoutalg.codegen.expr import Const, Expr, Select, Var
from layoutalg.codegen.language import KernelBuilder

if TYPE_CHECKING:
    from layoutalg.kernels.gemm.problem import GemmProblem
    from layoutalg.kernels.gemm.tiles import Config

PANEL = 8
"""The number of columns of tiles that are walked together."""

MOST_TILES = 1 << 16
"""The number of tiles, or rows, past which code states the bound of a tile's place: with the bound of the
grid alone, 64 bits would not hold the place times a leading dimension."""


def declare_tile(
    k: KernelBuilder, m: Var, n: Var, tile: tuple[int, int], panel: int = PANEL
) -> tuple[Expr, Expr]:
    """The first row and column of the block's tile of D, which is m x n; the grid's first axis counts tiles.

    >>> k = KernelBuilder("order", threads=32)
    >>> m0, n0 = declare_tile(k, k.param("m", 100), k.param("n", 100), (32, 16))
    >>> m0.facts.stride, n0.facts.stride
    (32, 16)
    """
    grid = tile_grid(m, n, tile)
    return declare_corner(k, k.block(0, grid[0] * grid[1]), grid, tile, panel)


def tile_grid(m: Expr, n: Expr, tile: tuple[int, int]) -> tuple[Expr, Expr]:
    """Rows and columns of tiles that D has, which is m x n.

    >>> k = KernelBuilder("grid", threads=32)
    >>> [str(x) for x in tile_grid(k.param("m", 100), k.param("n", 100), (32, 16))]
    ['(m + 31) // 32', '(n + 15) // 16']
    """
    return (m + (tile[0] - 1)) // tile[0], (n + (tile[1] - 1)) // tile[1]


def declare_corner(
    k: KernelBuilder, number: Expr, grid: tuple[Expr, Expr], tile: tuple[int, int], panel: int = PANEL
) -> tuple[Expr, Expr]:
    """The first row and column of D in the tile of a number, in a grid of (rows, columns) of tiles.

    >>> k = KernelBuilder("order", threads=32)
    >>> print(*declare_corner(k, k.param("tile", 9), (k.param("rows", 3), k.param("columns", 3)), (32, 16)))
    m0 n0
    """
    row, column = tile_place(k, number, grid, panel)
    return k.let("m0", row * tile[0]), k.let("n0", column * tile[1])


def tile_place(
    k: KernelBuilder, number: Expr, grid: tuple[Expr, Expr], panel: int = PANEL
) -> tuple[Expr, Expr]:
    """The row and the column of tiles that a number stands for, in a grid of (rows, columns) of tiles.

    >>> k = KernelBuilder("order", threads=32)
    >>> row, column = tile_place(k, k.param("tile", 100), (k.param("rows", 9), k.param("columns", 12)))
    >>> print(row, "|", column)
    in_panel // width | first_column + in_panel % width
    """
    rows, columns = grid
    at = k.let("in_panel", number % (rows * panel))
    first = k.let("first_column", number // (rows * panel) * panel)
    left = (columns + (panel - 1)) % panel + 1  # columns of the last panel
    width = k.let("width", Select(first + panel < columns, Const(panel), left))
    column = first + at % width
    if columns.facts.hi > MOST_TILES:
        column = below(column, columns.facts.hi - 1)
    return at // width, column


def declare_batch(k: KernelBuilder, p: GemmProblem) -> tuple[Expr, ...]:
    """The block's place along each mode of the batch, the last one fastest; nothing without a batch.

    >>> from layoutalg.kernels.gemm.problem import BatchMode, gemm_problem
    >>> k = KernelBuilder("batch", threads=32)
    >>> modes = [BatchMode(3, a=8, d=12), BatchMode(5, b=8, d=36)]
    >>> print(*declare_batch(k, gemm_problem(2, 3, 4, batch=modes)))
    batch_at0 batch_at1
    """
    extents = batch_extents(k, p)
    if not extents:
        return ()
    return batch_place(k, extents, k.block(2, prod(extents[1:], start=extents[0])))


def batch_extents(k: KernelBuilder, p: GemmProblem) -> tuple[Var, ...]:
    """The extents of the modes of the batch, parameters of a kernel; nothing without a batch.

    >>> from layoutalg.kernels.gemm.problem import BatchMode, gemm_problem
    >>> p = gemm_problem(2, 8, 8, batch=[BatchMode(3, a=16, d=16)])
    >>> print(*batch_extents(KernelBuilder("batch", threads=32), p))
    batch0
    """
    return tuple(k.param(f"batch{i}", mode.extent) for i, mode in enumerate(p.batch))


def batch_place(k: KernelBuilder, extents: tuple[Var, ...], number: Expr) -> tuple[Expr, ...]:
    """The place along each mode of the batch of the product of a number, the last mode fastest.

    >>> k = KernelBuilder("batch", threads=32)
    >>> print(*batch_place(k, (k.param("x", 3), k.param("y", 5)), k.param("number", 14)))
    batch_at0 batch_at1
    """
    found: list[Expr] = []
    for i, extent in reversed(list(enumerate(extents))):
        found.append(k.let(f"batch_at{i}", number % extent if i else below(number, extent.facts.hi)))
        number = number // extent
    return tuple(reversed(found))


def below(value: Expr, most: int) -> Expr:
    """A value of at most `most`; where its facts do not say so, a modulus does, which changes nothing.

    >>> print(below(Var("x", 100), 30), below(Var("x", 100), 200))
    x % 32 x
    """
    return value if value.facts.hi <= most else value % (1 << most.bit_length())


def batch_strides(k: KernelBuilder, p: GemmProblem, name: str, multiple: int) -> tuple[Expr, ...]:
    """The steps of an operand along the modes of the batch, parameters of a kernel; of groups, whose C and D
    are one matrix, none.

    >>> from layoutalg.kernels.gemm.problem import BatchMode, gemm_problem
    >>> p = gemm_problem(2, 8, 8, batch=[BatchMode(3, a=16, d=16)])
    >>> print(*batch_strides(KernelBuilder("batch", threads=32), p, "a", 8))
    stride_a0
    """
    steps = enumerate(() if p.grouped else p.steps(name))
    return tuple(k.param(f"stride_{name}{i}", step, 0, multiple) for i, step in steps)


def batch_scalars(p: GemmProblem) -> dict[str, int]:
    """The values of what `declare_batch` and `batch_strides` declare.

    >>> from layoutalg.kernels.gemm.problem import BatchMode, gemm_problem
    >>> batch_scalars(gemm_problem(2, 8, 8, batch=[BatchMode(3, a=16, d=16)]))["stride_a0"]
    16
    """
    found = {f"batch{i}": mode.extent for i, mode in enumerate(p.batch)}
    return found | {f"stride_{x}{i}": step for x in "abcd" for i, step in enumerate(p.steps(x))}


def k_tiles(depth: Expr, tile_k: int) -> Expr:
    """Tiles that k has."""
    return (depth + (tile_k - 1)) // tile_k


def declare_extents(
    k: KernelBuilder, p: GemmProblem, c: Config, multiple: tuple[int, int, int], *, inward: bool
) -> tuple[Var, Var, Var]:
    """The parameters m, n and k, multiples of so much; with `inward` and edges as `least_extent` says.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> c = Sm80Config(64, 64, 64, 2, 2, 3, edges=True)
    >>> k = KernelBuilder("extents", threads=32)
    >>> [x.facts.lo for x in declare_extents(k, gemm_problem(100, 40, 80), c, (1, 8, 1), inward=True)]
    [64, 8, 1]
    """
    edges = c.edges and inward
    least = least_extent(p.m, c.tile_m, edges=edges), least_extent(p.n, c.tile_n, edges=edges), 1
    m, n, depth = (
        k.param(name, most, max(fewest, of), multiple=of)
        for name, most, fewest, of in zip("mnk", (p.m, p.n, p.k), least, multiple, strict=True)
    )
    return m, n, depth


def inward_corner(
    k: KernelBuilder, corner: tuple[Expr, Expr], extents: tuple[Var, Var], c: Config
) -> tuple[Expr, Expr]:
    """Return the corner at which the tile of D at `corner` is computed: `tile_start` of both extents."""
    return (
        tile_start(k, "a_row", corner[0], c.tile_m, extents[0], edges=c.edges),
        tile_start(k, "b_row", corner[1], c.tile_n, extents[1], edges=c.edges),
    )


def least_extent(extent: int, rows: int, *, edges: bool) -> int:
    """The fewest rows that a kernel for up to `extent` of them takes: with edges a tile's, if there are.

    >>> least_extent(100, 64, edges=True), least_extent(50, 64, edges=True)
    (64, 1)
    """
    return rows if edges and extent >= rows else 1


def tile_start(k: KernelBuilder, name: str, first: Expr, rows: int, extent: Var, *, edges: bool) -> Expr:
    """Return the first row at which a tile is computed: `first`, or further inward if it exceeds the matrix.

    In a matrix with fewer rows than the tile nothing is moved.

    >>> k = KernelBuilder("inward", threads=32)
    >>> m = k.param("m", 100, 64)
    >>> _ = tile_start(k, "a_row", k.block(0, 2) * 64, 64, m, edges=True)
    >>> str(k.build().body[0])
    'a_row = (block_x * 64 if block_x * 64 + 64 <= m else m - 64)'
    """
    if not edges or extent.facts.lo < rows:
        return first
    return k.let(name, Select(first + rows <= extent, first, extent - rows))
