"""Split-K: several blocks share a tile of D, each with a part of k; a second kernel adds their sums up.

    the parts       sums[s][m][n] = A B over part s of k         simt or sm80 with `splits` = S
    gemm_combine    D = epilogue(sum over s)

The idea.  With q = tiles // splits tiles of k and r = tiles % splits left over, the first r parts have q + 1
tiles and the others q:

    part s        tiles s * q + min(s, r) and on, q + (s < r) of them

so that no part is longer than another by more than a tile.  A part writes its sums alone, into a workspace:
sums[part][m][n] in the accumulator's type.  They are added in the order of their parts, so that results do
not depend on which block ends first.  It pays where D has fewer tiles than the GPU has multiprocessors and k
is long.

A kernel takes `splits` when it is launched: one kernel serves every number of parts.  Where there are fewer
tiles than parts, the last parts have none, and write zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import gcd

from layoutalg.codegen.expr import Const, Expr, Operand, Select, Var, as_expr
from layoutalg.codegen.instr import CLEAR, LDG, ONE, add_scaled, words_of_vector
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, MemRef, Reg
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.gemm.epilogue import Epilogue, Output, number_of, statement
from layoutalg.kernels.gemm.problem import ALIGNED, GemmProblem
from layoutalg.kernels.gemm.rasterize import MOST_TILES, below

MOST_SPLITS = 64
"""The most parts of k."""

THREADS = 256
"""The threads of a block that adds parts up."""


@dataclass(frozen=True, slots=True)
class Part:
    """A block's tiles of k: the number of the first, and how many; `which` part, None for the whole k."""

    which: Expr | None
    first_tile: Expr
    tiles: Var

    @contextmanager
    def work(self, k: KernelBuilder) -> Iterator[None]:
        """Statements that need a tile, which a part without tiles skips."""
        with nullcontext() if self.which is None else k.If(Const(0) < self.tiles):
            yield


def part_problem(p: GemmProblem) -> GemmProblem:
    """Return the problem that a part computes: sums alone, in rows of n.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> part_problem(gemm_problem(64, 64, 512, ldd=80)).ldd
    64
    """
    align = (*p.align_bytes[:2], ALIGNED[2])
    return replace(p, result=p.accumulator, ldd=p.n, ldc=p.n, epilogue=Epilogue(), align_bytes=align)


def check_splits(p: GemmProblem, splits: int) -> None:
    """Raise ShapeError for a number of parts there cannot be, UnsupportedError for sums none adds up.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_splits(gemm_problem(64, 64, 512), 8)
    """
    if not 1 <= splits <= MOST_SPLITS:
        raise ShapeError(f"splits = {splits}: 1 to {MOST_SPLITS} parts of k are accepted")
    if splits > 1 and p.accumulator.name == "f16":
        raise UnsupportedError("parts of f16 sums are not added up: f32, f64 and s32 are, or take splits = 1")
    if splits > 1 and p.batch:
        raise UnsupportedError("parts of k of a batch are not added up: take splits = 1")


def declare_part(k: KernelBuilder, tiles: Expr, splits: int) -> Part:
    """The block's share of `tiles` tiles of k; with parts, the grid's second axis counts them.

    >>> k = KernelBuilder("parts", threads=32)
    >>> declare_part(k, k.param("tiles", 100), 4).first_tile.facts.hi
    127
    """
    if splits == 1:
        return Part(None, Const(0), k.let("trips", tiles))
    parts = k.param("splits", MOST_SPLITS)
    return declare_share(k, k.block(1, parts), parts, tiles)


def declare_share(k: KernelBuilder, which: Expr, parts: Operand, tiles: Expr) -> Part:
    """The tiles of k of one of so many parts.

    >>> k = KernelBuilder("parts", threads=32)
    >>> declare_share(k, k.block(0, 4), 4, k.param("tiles", 100)).tiles.facts.hi
    26
    """
    parts = as_expr(parts)
    each, over = k.let("each", tiles // parts), k.let("over", tiles % parts)
    first = which * each + Select(which < over, which, over)
    reach = (
        1 << tiles.facts.hi.bit_length()
    )  # no part starts past the last tile: the modulus states this fact
    first = k.let("first_tile", first % reach)
    return Part(which, first, k.let("trips", each + Select(which < over, Const(1), Const(0))))


def combine_vector(p: GemmProblem) -> int:
    """Sums that a thread adds up: as many as 16 bytes hold and rows of D, C and the parts are cut into.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> combine_vector(gemm_problem(64, 66, 512)), combine_vector(gemm_problem(64, 64, 512, "f64"))
    (2, 2)
    """
    start = p.align_bytes[2] // p.result.nbytes
    return gcd(16 // part_problem(p).result.nbytes, start, p.n, p.ldd, p.ldc if p.reads_c else 0)


def build_combine(p: GemmProblem) -> Kernel:
    """The kernel that adds the parts up and finishes D; it takes their number as `splits`.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build_combine(gemm_problem(64, 64, 512)).name
    'gemm_combine_f16'
    """
    vec = combine_vector(p)
    part = part_problem(p).result
    notes = ["", f"{statement(p, '(sums[0] + sums[1] + ...)')}; sums[s] = A B over part s of k."]
    k = KernelBuilder(f"gemm_combine_{p.result}", THREADS, notes=notes)
    m, n, splits = k.param("m", p.m), k.param("n", p.n, vec, multiple=vec), k.param("splits", MOST_SPLITS)
    sums = k.pointer("sums", part.nbytes, (m * n, n, 1), align_bytes=part.nbytes * vec)
    output = Output(k, p, vec, m, n)
    block = k.block(0, (m * (n // vec) + (THREADS - 1)) // THREADS)
    at = k.let("at", block * THREADS + k.tid)
    row = at // (n // vec)  # at most m + THREADS - 1: those past m have no sums
    row = k.let("row", below(row, p.m + THREADS) if p.m > MOST_TILES else row)
    column = k.let("column", at % (n // vec) * vec)
    with k.If(row < m):
        total = added(k, p, vec, splits, lambda s: k.at(sums, s, row, column))
        output.write(total, (row, column))
    return k.build()


def added(k: KernelBuilder, p: GemmProblem, vec: int, count: Expr, place: Callable[[Var], MemRef]) -> Reg:
    """`vec` sums of each of `count` parts added up, in the order of the parts.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> k = KernelBuilder("sum", threads=32)
    >>> sums, parts = k.pointer("sums", 4, (128, 1)), k.param("parts", 8)
    >>> added(k, gemm_problem(64, 64, 64), 4, parts, lambda s: k.at(sums, s, k.tid * 4)).name
    'total'
    """
    number, nbytes = number_of(p.accumulator.name), p.accumulator.nbytes * vec
    words = words_of_vector(vec, number)
    total, one = k.reg("total", words), k.reg("one", words)
    k.do(CLEAR[nbytes], total)
    with k.For("s", count, unroll=4) as s:
        k.do(LDG[nbytes], one, place(s))
        k.do(add_scaled(vec, p.accumulator.name), total, one, *map(Const, ONE[number]))
    return total
