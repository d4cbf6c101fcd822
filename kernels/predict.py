"""Edge tiles: the lanes of tiles that stick out of the matrix, to be counted address by address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.layout import Layout, product


@dataclass(frozen=True, slots=True)
class EdgeWalk:
    """Where the lanes of edge tiles are: all arrays are (instructions, 32).

    `row`, `column` are the place in the tile, `m`, `n` in the matrix; `active` is m, n inside.
    """

    row: Any
    column: Any
    m: Any
    n: Any
    active: Any


def edge_tiles(p: MatrixProblem, tile_m: int, tile_n: int) -> list[tuple[int, int]]:
    """The tiles, by row and column of tiles, that stick out of the matrix.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> edge_tiles(matrix_problem(130, 64, "f32", turned=True), 64, 64)
    [(2, 0)]
    """
    full_m, full_n = p.m // tile_m, p.n // tile_n
    below = [(i, j) for i in range(full_m, -(-p.m // tile_m)) for j in range(-(-p.n // tile_n))]
    return below + [(i, j) for i in range(full_m) for j in range(full_n, -(-p.n // tile_n))]


def edge_walks(p: MatrixProblem, tile_m: int, tile_n: int, row: Any, column: Any) -> Iterator[EdgeWalk]:
    """Each edge tile in turn, its threads at `row`, `column` of the tile: arrays (steps, threads).

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> p = matrix_problem(9, 8, "f32", turned=True)
    >>> [int(e.active.sum()) for e in edge_walks(p, 8, 8, *element_steps(8, 8, 32, along_n=True))]
    [8]
    """
    row, column = row.reshape(-1, 32), column.reshape(-1, 32)
    for i, j in edge_tiles(p, tile_m, tile_n):
        m, n = row + i * tile_m, column + j * tile_n
        yield EdgeWalk(row, column, m, n, (m < p.m) & (n < p.n))


def element_steps(tile_m: int, tile_n: int, threads: int, *, along_n: bool) -> tuple[Any, Any]:
    """(row, column) of threads that visit the elements t, t + threads, ... of a tile, along n or along m.

    >>> [a.tolist() for a in element_steps(2, 2, 2, along_n=True)]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    import numpy as np

    x = np.arange(tile_m * tile_n // threads)[:, None] * threads + np.arange(threads)
    return (x // tile_n, x % tile_n) if along_n else (x % tile_m, x // tile_m)


def vector_steps(tv: Layout, tile_n: int) -> tuple[Any, Any]:
    """(row, column) of the first elements that threads visit: `tv` is (thread, step) -> n + tile_n * m.

    >>> [a.tolist() for a in vector_steps(Layout((2, 2), (1, 2)), 2)]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    import numpy as np

    step, thread = np.indices((product(tv[1].shape), product(tv[0].shape)))
    x = tv(thread, step)
    return x // tile_n, x % tile_n
