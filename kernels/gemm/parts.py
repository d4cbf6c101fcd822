"""Parts of k, and the tiles that a block computes in turn.

Parts.  Several blocks share a tile of D, each with a part of k; a second kernel adds their sums up.

    the parts       sums[s][m][n] = A B over part s of k         simt or sm80 with `splits` = S
    gemm_combine    D = epilogue(sum over s)

With q = tiles // splits tiles of k and r = tiles % splits left over, the first r parts have q + 1 tiles and
the others q:

    part s        tiles s * q + min(s, r) and on, q + (s < r) of them

so that no part is longer than another by more than a tile.  A part writes its sums alone, into a workspace:
sums[part][m][n] in the accumulator's type.  They are added in the order of their parts, so that results do
not depend on which block ends first.  It pays where D has fewer tiles than the GPU has multiprocessors and k
is long.  A kernel takes `splits` when it is launched: one kernel serves every number of parts.  Where there
are fewer tiles than parts, the last parts have none, and write zeros.

In turn.  Block b of G blocks of gemm-sm90 computes tiles b, b + G, b + 2 G, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import gcd

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.expr import Const, Expr, Operand, Select, Var, as_expr, minus
from layoutalg.codegen.instr import CLEAR, LDG, ONE, add_scaled, words_of_vector
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, MemRef, Reg
from layoutalg.kernels.gemm import rasterize
from layoutalg.kernels.gemm.epilogue import Output, number_of, statement
from layoutalg.kernels.gemm.groups import most_row_tiles
from layoutalg.kernels.gemm.problem import MOST_SPLITS, GemmProblem, widest_vectors
from layoutalg.kernels.gemm.tiles import Sm90Config, cluster_tiles, tile_count
from layoutalg.model import resident_clusters

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
    reach = 1 << tiles.facts.hi.bit_length()  # no part starts past the last tile: the modulus states it
    first = k.let("first_tile", first % reach)
    return Part(which, first, k.let("trips", each + Select(which < over, Const(1), Const(0))))


def combine_vector(p: GemmProblem) -> int:
    """Sums that a thread adds up: as many as 16 bytes hold and rows of D, C and the parts are cut into.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> combine_vector(gemm_problem(64, 66, 512)), combine_vector(gemm_problem(64, 64, 512, "f64"))
    (2, 2)
    """
    return gcd(16 // p.accumulator.nbytes, widest_vectors(p)[2])


def build_combine(p: GemmProblem) -> Kernel:
    """The kernel that adds the parts up and finishes D; it takes their number as `splits`.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build_combine(gemm_problem(64, 64, 512)).name
    'gemm_combine_f16'
    """
    vec = combine_vector(p)
    nbytes = p.accumulator.nbytes
    notes = ["", f"{statement(p, '(sums[0] + sums[1] + ...)')}; sums[s] = A B over part s of k."]
    k = KernelBuilder(f"gemm_combine_{p.result}", THREADS, notes=notes)
    m, n, splits = k.param("m", p.m), k.param("n", p.n, vec, multiple=vec), k.param("splits", MOST_SPLITS)
    sums = k.pointer("sums", nbytes, (m * n, n, 1), align_bytes=nbytes * vec)
    output = Output(k, p, vec, m, n)
    block = k.block(0, (m * (n // vec) + (THREADS - 1)) // THREADS)
    at = k.let("at", block * THREADS + k.tid)
    row = at // (n // vec)  # at most m + THREADS - 1: those past m have no sums
    row = k.let("row", rasterize.below(row, p.m + THREADS) if p.m > rasterize.MOST_TILES else row)
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


MOST_BLOCKS = 1 << 10
"""The most blocks of a launch whose blocks compute several tiles each."""


def block_count(p: GemmProblem, c: Sm90Config, arch: str | Arch = DEFAULT_ARCH) -> int:
    """Blocks along the grid's first axis where each computes several tiles: as many as run at a time, the
    parts of k together; but one per tile at most.  Clusters are whole: a cluster that waits for another to
    end would double the time.  Those that share a tile have one.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> [block_count(gemm_problem(n, n, n), Sm90Config(128, 256, 4)) for n in (1024, 4096)]
    [32, 132]
    >>> block_count(gemm_problem(4096, 4096, 4096), Sm90Config(128, 256, 4, cluster_n=4))
    120
    """
    if c.cluster_k > 1:
        return tile_count(p, c) * c.cluster_k
    size, work = c.cluster, cluster_tiles(p, c)
    if p.grouped:
        rows = most_row_tiles(p.m, p.products, c.tile_m * c.cluster_m)
        work = -(-p.n // (c.tile_n * c.cluster_n)) * rows
    board = find_arch(arch).board
    together = resident_clusters(board.sms, size, c.min_blocks) if board else MOST_BLOCKS // size
    return size * max(1, min(work, MOST_BLOCKS, together // c.splits))


@dataclass(frozen=True, slots=True)
class Work:
    """A tile in a kernel, the `nth` of its loop, and the steps of k of the block `before`.

    `all_steps` are those of all of the block's tiles, which is known behind the loop too.
    """

    nth: Var
    tile: Expr
    before: Expr
    all_steps: Expr


@contextmanager
def each_unit(
    k: KernelBuilder, tiles: Expr, steps: Var, blocks: Expr, block: Expr, first: Operand = 0, every: int = 1
) -> Iterator[Work]:
    """The loop over a block's tiles; where warpgroups take turns, over those of one of them: `every` so many,
    from the `first` on.

    >>> k = KernelBuilder("loop", threads=32)
    >>> tiles, steps, blocks = k.param("tiles", 99), k.param("steps", 9), k.param("blocks", 4)
    >>> with each_unit(k, tiles, steps, blocks, k.block(0, blocks)) as unit:
    ...     print(unit.before)
    turn * steps
    """
    turns = minus(tiles + (blocks - 1), block) // blocks
    mine = minus(turns + (every - 1), as_expr(first)) // every if every > 1 else turns
    with k.For("turn", mine) as nth:
        turn = k.let("nth", nth * every + first) if every > 1 else nth
        yield Work(nth, k.let("tile", block + turn * blocks), turn * steps, turns * steps)
