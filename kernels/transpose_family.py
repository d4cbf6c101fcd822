"""transpose: dst[n, m] = src[m, n] for any m x n, elements of 1 to 16 bytes, leading dimensions.

The idea.  A block moves one tile through shared memory.  Both sides of global memory are read and written
in vectors along their own contiguous direction, so the turn happens inside the tile:

    1  each lane loads P rows of one vector along n        P = 4 / element bytes, at least 1
    2  P x P corners are turned in registers               byte permutes, so that words go to shared memory
    3  words are stored to the tile, element (n, m) at Sw o (tile_n, tile_m):(tile_m, 1)
    4  after the barrier each lane loads one vector along m and stores it

Every step is a thread-value layout: the same Layout addresses the generated code and the analysis.  The
swizzle is synthesised for the two shared accesses, conflict-free with its certificate.

Consecutive blocks walk down a column of tiles, so that their stores meet in the destination's rows: 1 to 4 %
faster than along a row (H200).  Tiles that stick out of the matrix take a second, element-wise path under a
block-uniform branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.codegen.expr import Expr, Operand, Var
from layoutalg.codegen.instr_sm75 import (
    BAR,
    LDG,
    LDS,
    STG,
    STS,
    TRANSPOSE_8,
    TRANSPOSE_16,
)
from layoutalg.codegen.tile import Global, Kernel, KernelBuilder, Shared
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.int_tuple import product
from layoutalg.kernels.matrix import MatrixProblem, matrix_problem
from layoutalg.layout import Layout, concat
from layoutalg.swizzle import AnyLayout

TURN = MappingProxyType({2: TRANSPOSE_16, 4: TRANSPOSE_8})
"""The corner turn in registers, by rows."""


@dataclass(frozen=True, slots=True)
class TransposeConfig:
    """How one block works: its tile (in elements), threads, vectors (in elements) and lane arrangement.

    `lanes_n` lanes of a warp run along n when loading, `lanes_m` along m when storing.  `layout` places
    element (n, m) of the tile.
    """

    tile_m: int
    tile_n: int
    threads: int
    src_vec: int
    dst_vec: int
    lanes_n: int
    lanes_m: int
    layout: AnyLayout


def rows_per_word(element_bytes: int) -> int:
    """Rows whose elements make one 32-bit word: the corner that is turned in registers.

    >>> rows_per_word(1), rows_per_word(2), rows_per_word(8)
    (4, 2, 1)
    """
    return max(1, 4 // element_bytes)


def problem(
    m: int, n: int, dtype: str | DType, lds: int | None = None, ldd: int | None = None
) -> MatrixProblem:
    """Transpose an m x n matrix; leading dimensions default to the row lengths n and m.

    >>> print(problem(3, 5, "f16"))
    3 x 5 f16, ld 5 -> 3
    """
    return matrix_problem(m, n, find_dtype(dtype), n if lds is None else lds, m if ldd is None else ldd, m)


def source_tv(c: TransposeConfig, element_bytes: int, width: int) -> Layout:
    """(thread, (element of the vector, row of the corner, pass)) -> n + width * m of the tile.

    With width = tile_n the result indexes the tile's domain (tile_n, tile_m); with the row length of the
    whole matrix, the matrix.
    """
    rows = rows_per_word(element_bytes)
    lanes_m, warps_n = 32 // c.lanes_n, c.tile_n // (c.src_vec * c.lanes_n)
    warps_m = c.threads // (32 * warps_n)
    pass_rows = rows * lanes_m * warps_m
    threads = Layout(
        (c.lanes_n, lanes_m, warps_n, warps_m),
        (c.src_vec, rows * width, c.src_vec * c.lanes_n, rows * lanes_m * width),
    )
    return concat(threads, Layout((c.src_vec, rows, c.tile_m // pass_rows), (1, width, pass_rows * width)))


def target_tv(c: TransposeConfig, width: int) -> Layout:
    """(thread, (element of the vector, pass)) -> n + width * m of the tile, on the way out."""
    lanes_n, warps_m = 32 // c.lanes_m, c.tile_m // (c.dst_vec * c.lanes_m)
    warps_n = c.threads // (32 * warps_m)
    pass_n = lanes_n * warps_n
    threads = Layout(
        (c.lanes_m, lanes_n, warps_m, warps_n),
        (c.dst_vec * width, 1, c.dst_vec * c.lanes_m * width, lanes_n),
    )
    return concat(threads, Layout((c.dst_vec, c.tile_n // pass_n), (width, pass_n)))


def build(p: MatrixProblem, c: TransposeConfig) -> Kernel:
    """The tile program of a configuration, for all sizes up to the problem's."""
    size = p.element_bytes
    k = KernelBuilder(f"transpose_{p.dtype}", c.threads)
    m, n = k.param("m", p.m), k.param("n", p.n)
    lds = k.param("lds", p.lds, c.src_vec, multiple=c.src_vec)
    ldd = k.param("ldd", p.ldd, c.dst_vec, multiple=c.dst_vec)
    src = k.pointer("src", size, (lds, 1), align_bytes=c.src_vec * size)
    dst = k.pointer("dst", size, (ldd, 1), writable=True, align_bytes=c.dst_vec * size)
    tile = k.shared("tile", size, c.layout, c.tile_m * c.tile_n, 1024)
    tiles_m, tiles_n = (m + (c.tile_m - 1)) // c.tile_m, (n + (c.tile_n - 1)) // c.tile_n
    block = k.block(0, tiles_n * tiles_m)
    m0, n0 = k.let("m0", block % tiles_m * c.tile_m), k.let("n0", block // tiles_m * c.tile_n)
    inside = (m0 + c.tile_m <= m) & (n0 + c.tile_n <= n)
    with k.If(inside):
        _load_tile(k, c, src, tile, m0, n0)
    with k.Else():
        _load_edge(k, c, src, tile, m0, n0, m, n)
    k.do(BAR)
    with k.If(inside):
        _store_tile(k, c, dst, tile, m0, n0)
    with k.Else():
        _store_edge(k, c, dst, tile, m0, n0, m, n)
    return k.build()


def _load_tile(k: KernelBuilder, c: TransposeConfig, src: Global, tile: Shared, m0: Var, n0: Var) -> None:
    size = src.element_bytes
    rows, words = rows_per_word(size), max(1, size // 4)
    vector_words = max(1, c.src_vec * size // 4)
    tv = source_tv(c, size, c.tile_n)
    passes = product(tv.shape[1][2])  # type: ignore[index]
    v = k.reg("v", passes, rows, vector_words)

    def place(element: Operand, row: Operand, step: Operand) -> tuple[Expr, Expr]:
        x = tv(k.tid, (element, row, step))
        return x % c.tile_n, x // c.tile_n

    with k.Unroll("i", passes) as i, k.Unroll("r", rows) as r:
        tn, tm = place(0, r, i)
        k.do(LDG[c.src_vec * size], v[i, r], k.at(src, m0 + tm, n0 + tn))
    if rows == 1:
        with k.Unroll("i", passes) as i, k.Unroll("e", c.src_vec) as e:
            k.do(STS[size], k.at(tile, *place(e, 0, i)), v.slice(i, 0, e * words, count=words))
        return
    t = k.reg("t", rows)
    with k.Unroll("i", passes) as i, k.Unroll("w", vector_words) as w:
        k.do(TURN[rows], t, *(v[i, r, w] for r in range(rows)))
        with k.Unroll("e", min(rows, c.src_vec)) as e:
            k.do(STS[4], k.at(tile, *place(w * rows + e, 0, i)), t[e])


def _store_tile(k: KernelBuilder, c: TransposeConfig, dst: Global, tile: Shared, m0: Var, n0: Var) -> None:
    size = dst.element_bytes
    tv = target_tv(c, c.tile_n)
    passes = product(tv.shape[1][1])  # type: ignore[index]
    u = k.reg("u", passes, max(1, c.dst_vec * size // 4))

    def place(step: Operand) -> tuple[Expr, Expr]:
        x = tv(k.tid, (0, step))
        return x % c.tile_n, x // c.tile_n

    with k.Unroll("i", passes) as i:
        k.do(LDS[c.dst_vec * size], u[i], k.at(tile, *place(i)))
    with k.Unroll("i", passes) as i:
        tn, tm = place(i)
        k.do(STG[c.dst_vec * size], k.at(dst, n0 + tn, m0 + tm), u[i])


def _load_edge(
    k: KernelBuilder, c: TransposeConfig, src: Global, tile: Shared, m0: Var, n0: Var, m: Var, n: Var
) -> None:
    size = src.element_bytes
    one = k.reg("one", max(1, size // 4))
    with k.For("j", c.tile_m * c.tile_n // c.threads) as j:
        x = k.tid + j * c.threads
        tn, tm = x % c.tile_n, x // c.tile_n
        with k.If((m0 + tm < m) & (n0 + tn < n)):
            k.do(LDG[size], one, k.at(src, m0 + tm, n0 + tn))
            k.do(STS[size], k.at(tile, tn, tm), one)


def _store_edge(
    k: KernelBuilder, c: TransposeConfig, dst: Global, tile: Shared, m0: Var, n0: Var, m: Var, n: Var
) -> None:
    size = dst.element_bytes
    one = k.reg("edge", max(1, size // 4))
    with k.For("j", c.tile_m * c.tile_n // c.threads) as j:
        x = k.tid + j * c.threads
        tm, tn = x % c.tile_m, x // c.tile_m
        with k.If((m0 + tm < m) & (n0 + tn < n)):
            k.do(LDS[size], one, k.at(tile, tn, tm))
            k.do(STG[size], k.at(dst, n0 + tn, m0 + tm), one)
