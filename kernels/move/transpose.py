"""transpose: dst[n, m] = src[m, n] for any m x n, elements of 1 to 16 bytes, leading dimensions.

The idea.  A block moves one tile through shared memory.  Both sides of global memory are read and written
in vectors along their own contiguous direction, so the turn happens inside the tile:

    1  each lane loads P rows of one vector along n        P = 4 / element bytes, at least 1
    2  P x P corners are turned in registers               byte permutes, so that words go to shared memory
    3  words are stored to the tile, element (n, m) at Sw o (tile_n, tile_m):(tile_m, 1)
    4  after the barrier each lane loads one vector along m and stores it

Who moves what is said by the thread-value layouts of transpose_plan; the swizzle is synthesised for them.

Consecutive blocks walk down a column of tiles, so that their stores meet in the destination's rows: 1 to 4 %
faster than along a row (H200).  Full tiles take a path without predicates, under a block-uniform branch;
tiles that stick out of the matrix predicate every vector, or move single elements where the matrix's edge
cuts vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.codegen.expr import Const, Expr, Operand, Var
from layoutalg.codegen.instr import BAR, CLEAR, LDG, LDS, STG, STG_WHOLE, STS, TRANSPOSE_8, TRANSPOSE_16
from layoutalg.codegen.program import Global, Kernel, KernelBuilder, MemRef, Reg, Shared
from layoutalg.codegen.traffic import describe
from layoutalg.dtype import DType
from layoutalg.kernels.matrix import MatrixProblem, matrix_problem
from layoutalg.kernels.move.transpose_plan import (
    TransposeConfig,
    predict_tile,
    rows_per_word,
    source_tv,
    target_tv,
)
from layoutalg.layout import Layout, product

TURN = MappingProxyType({2: TRANSPOSE_16, 4: TRANSPOSE_8})
"""The corner turn in registers, by rows."""


def problem(
    m: int, n: int, dtype: str | DType, lds: int | None = None, ldd: int | None = None
) -> MatrixProblem:
    """Transpose an m x n matrix; leading dimensions default to the row lengths n and m.

    Raises what `matrix_problem` raises.

    >>> problem(3, 5, "f16").target_shape
    (5, 3)
    """
    return matrix_problem(m, n, dtype, lds, ldd, turned=True)


def build(p: MatrixProblem, c: TransposeConfig) -> Kernel:
    """The tile program of a configuration, for sizes up to the problem's: what its `contract` says.

    >>> from layoutalg.kernels.move.transpose_plan import configs
    >>> p = problem(64, 64, "f32")
    >>> build(p, configs(p)[0]).name
    'transpose_f32'
    """
    size, by_vectors = p.element_bytes, c.edges == "vectors"
    k = KernelBuilder(f"transpose_{p.dtype}", c.threads, notes=_notes(p, c))
    step_m, step_n = (c.dst_vec, c.src_vec) if by_vectors else (1, 1)
    m, n = k.param("m", p.m, step_m, multiple=step_m), k.param("n", p.n, step_n, multiple=step_n)
    lds = k.param("lds", p.lds, c.src_vec, multiple=c.src_vec)
    ldd = k.param("ldd", p.ldd, c.dst_vec, multiple=c.dst_vec)
    k.require(m <= ldd)
    src = k.pointer("src", size, (lds, 1), align_bytes=c.src_vec * size)
    dst = k.pointer("dst", size, (ldd, 1), writable=True, align_bytes=c.dst_vec * size)
    tile = k.shared_buffer("tile", size, c.layout, c.tile_m * c.tile_n, 1024)
    tiles_m, tiles_n = (m + (c.tile_m - 1)) // c.tile_m, (n + (c.tile_n - 1)) // c.tile_n
    block = k.block(0, tiles_n * tiles_m)
    m0, n0 = k.let("m0", block % tiles_m * c.tile_m), k.let("n0", block // tiles_m * c.tile_n)
    full = (m0 + c.tile_m <= m) & (n0 + c.tile_n <= n)
    x = _Parts(k, c, src, dst, tile, m0, n0, m, n)
    v, u = x.source_registers(), x.target_registers()
    first_in, first_out = x.place(x.source, k.tid, (0, 0, 0)), x.place(x.target, k.tid, (0, 0))
    load_m, load_n = k.let("load_m", m0 + first_in[1]), k.let("load_n", n0 + first_in[0])
    store_m, store_n = k.let("store_m", m0 + first_out[1]), k.let("store_n", n0 + first_out[0])
    with k.If(full):
        _load_vectors(x, v, load_m, load_n)
        if not by_vectors:
            _turn(x, v)
    with k.Else():
        if by_vectors:
            _load_vectors(x, v, load_m, load_n, predicated=True)
        else:
            _load_elements(x)
    if by_vectors:
        _turn(x, v)
    k.do(BAR)
    if by_vectors:
        _fetch(x, u)
    with k.If(full):
        if not by_vectors:
            _fetch(x, u)
        _store_vectors(x, u, store_m, store_n)
    with k.Else():
        if by_vectors:
            _store_vectors(x, u, store_m, store_n, predicated=True)
        else:
            _store_elements(x)
    return k.build()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the pieces of the program share."""

    k: KernelBuilder
    c: TransposeConfig
    src: Global
    dst: Global
    tile: Shared
    m0: Var
    n0: Var
    m: Var
    n: Var

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.src.element_bytes

    @property
    def rows(self) -> int:
        """Rows of a corner."""
        return rows_per_word(self.size)

    @property
    def source(self) -> Layout:
        """(thread, (element, row, pass)) -> n + tile_n * m of what a thread loads."""
        return source_tv(self.c, self.size, self.c.tile_n)

    @property
    def target(self) -> Layout:
        """(thread, (element, pass)) -> n + tile_n * m of what a thread stores."""
        return target_tv(self.c, self.c.tile_n)

    def source_registers(self) -> Reg:
        """v[pass][row of the corner][word of the vector]."""
        passes = product(self.source[1].shape) // (self.rows * self.c.src_vec)
        return self.k.reg("v", passes, self.rows, max(1, self.c.src_vec * self.size // 4))

    def target_registers(self) -> Reg:
        """u[pass][word of the vector]."""
        passes = product(self.target[1].shape) // self.c.dst_vec
        return self.k.reg("u", passes, max(1, self.c.dst_vec * self.size // 4))

    def place(self, tv: Layout, thread: Operand, value: tuple[Operand, ...]) -> tuple[Expr, Expr]:
        """(n, m) in the tile; a layout adds up, so place(t, v) = place(t, 0) + place(0, v)."""
        at = tv(thread, value) + Const(0)
        return at % self.c.tile_n, at // self.c.tile_n

    def inside(self, row: Expr, column: Expr) -> Expr:
        """The predicate that element (row, column) of the source exists."""
        return (row < self.m) & (column < self.n)


def _load_vectors(x: _Parts, v: Reg, load_m: Var, load_n: Var, *, predicated: bool = False) -> None:
    k, nbytes = x.k, x.c.src_vec * x.size
    passes, rows, _ = v.shape
    with k.Unroll("i", passes) as i, k.Unroll("r", rows) as r:
        dn, dm = x.place(x.source, 0, (0, r, i))
        row, column = load_m + dm, load_n + dn
        if predicated:
            with k.If(x.inside(row, column)):
                k.do(LDG[nbytes], v[i, r], k.at(x.src, row, column))
            with k.Else():
                k.do(CLEAR[nbytes], v[i, r])
        else:
            k.do(LDG[nbytes], v[i, r], k.at(x.src, row, column))


def _turn(x: _Parts, v: Reg) -> None:
    """From registers to the tile, corner by corner."""
    k, (passes, rows, vector_words) = x.k, v.shape

    def slot(element: Operand, step: Operand) -> MemRef:
        return k.at(x.tile, *x.place(x.source, k.tid, (element, 0, step)))

    if rows == 1:
        words = x.size // 4
        with k.Unroll("i", passes) as i, k.Unroll("e", x.c.src_vec) as e:
            k.do(STS[x.size], slot(e, i), v.slice(i, 0, e * words, count=words))
        return
    t = k.reg("t", rows)
    with k.Unroll("i", passes) as i, k.Unroll("w", vector_words) as w:
        k.do(TURN[rows], t, *(v[i, r, w] for r in range(rows)))
        with k.Unroll("e", min(rows, x.c.src_vec)) as e:
            k.do(STS[4], slot(w * rows + e, i), t[e])


def _fetch(x: _Parts, u: Reg) -> None:
    k = x.k
    with k.Unroll("i", u.shape[0]) as i:
        k.do(LDS[x.c.dst_vec * x.size], u[i], k.at(x.tile, *x.place(x.target, k.tid, (0, i))))


def _store_vectors(x: _Parts, u: Reg, store_m: Var, store_n: Var, *, predicated: bool = False) -> None:
    k, store = x.k, STG[x.c.dst_vec * x.size]
    with k.Unroll("i", u.shape[0]) as i:
        dn, dm = x.place(x.target, 0, (0, i))
        row, column = store_m + dm, store_n + dn
        if predicated:
            with k.If(x.inside(row, column)):
                k.do(store, k.at(x.dst, column, row), u[i])
        else:
            k.do(store, k.at(x.dst, column, row), u[i])


def _load_elements(x: _Parts) -> None:
    k, c = x.k, x.c
    one = k.reg("one", max(1, x.size // 4))
    with k.For("j", c.tile_m * c.tile_n // c.threads) as j:
        at = k.tid + j * c.threads
        tn, tm = at % c.tile_n, at // c.tile_n
        with k.If(x.inside(x.m0 + tm, x.n0 + tn)):
            k.do(LDG[x.size], one, k.at(x.src, x.m0 + tm, x.n0 + tn))
            k.do(STS[x.size], k.at(x.tile, tn, tm), one)


def _store_elements(x: _Parts) -> None:
    k, c = x.k, x.c
    last = k.reg("last", max(1, x.size // 4))
    with k.For("j", c.tile_m * c.tile_n // c.threads) as j:
        at = k.tid + j * c.threads
        tm, tn = at % c.tile_m, at // c.tile_m
        with k.If(x.inside(x.m0 + tm, x.n0 + tn)):
            k.do(LDS[x.size], last, k.at(x.tile, tn, tm))
            k.do(STG_WHOLE[x.size], k.at(x.dst, x.n0 + tn, x.m0 + tm), last)


def _notes(p: MatrixProblem, c: TransposeConfig) -> list[str]:
    size = p.element_bytes
    return [
        "",
        f"dst[n, m] = src[m, n], elements of {size} bytes; rows of src are lds elements apart, of dst ldd.",
        f"A block turns a {c.tile_m} x {c.tile_n} tile with {c.threads} threads; "
        f"vectors of {c.src_vec * size} bytes in, {c.dst_vec * size} out.",
        f"Element (n, m) of the tile lies at {c.layout}.",
        "Predicted for a full tile:",
        *describe(predict_tile(p, c).prediction()),
    ]
