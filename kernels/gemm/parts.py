"""Parts of k: split-K, which cuts every tile of D alike, and stream-K, whose blocks have equal shares.

Split-K.  Several blocks share a tile of D, each with a part of k; a second kernel adds their sums up.

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

Stream-K.  The steps of k of the tiles that are left are one line, which blocks cut.  T tiles of S steps of k
each are W = T // G whole waves and R = T % G tiles that are left, which as a wave of their own keep R of G
blocks busy.  As a line of R S steps, step x belonging to tile W G + x // S, every block has

    share    ceil(R S / G) steps, which are at most S: block b those from b * share on

so that a block has at most two parts of tiles behind its whole ones.  9 tiles of 6 steps by 4 blocks:

    block 0    tile 0    tile 4    steps 0, 1 of tile 8
    block 1    tile 1    tile 5    steps 2, 3
    block 2    tile 2    tile 6    steps 4, 5
    block 3    tile 3    tile 7

A part's sums go to its slot of a workspace, a tile of sums.  Along the line the tile, the block or both go up
by one from part to part; so their sum numbers the parts, and those of a tile lie side by side, in order of k:

    slot     (tile of the line) + (block)

Source: Osama, Merrill, Cecka, Garland, Owens, "Stream-K", PPoPP 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
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


def stored_problem(p: GemmProblem, splits: int) -> GemmProblem:
    """Return the problem whose result a product's kernel stores: with parts of k sums alone, in rows of n.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> stored_problem(gemm_problem(64, 64, 512, ldd=80), 2).ldd
    64
    """
    if splits == 1:
        return p
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
    return gcd(16 // p.accumulator.nbytes, start, p.n, p.ldd, p.ldc if p.reads_c else 0)


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


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """The work of a block at a time: `steps` steps of k of a tile, from the `first` one on.

    `slot` is where its sums go; None where they are the whole tile, which goes to D.
    """

    tile: int
    first: int
    steps: int
    slot: int | None


def work_units(tiles: int, steps: int, blocks: int) -> tuple[tuple[WorkUnit, ...], ...]:
    """Return the units of each block, in order, by "streamk": the line of steps is written out and cut.

    >>> for mine in work_units(9, 6, 4)[:2]:
    ...     print(*((x.tile, x.first, x.steps, x.slot) for x in mine))
    (0, 0, 6, None) (4, 0, 6, None) (8, 0, 2, 0)
    (1, 0, 6, None) (5, 0, 6, None) (8, 2, 2, 1)
    """
    waves = tiles // blocks
    line = [(tile, step) for tile in range(waves * blocks, tiles) for step in range(steps)]
    share = -(-len(line) // blocks)
    found = []
    for block in range(blocks):
        mine = [WorkUnit(wave * blocks + block, 0, steps, None) for wave in range(waves)]
        for tile, part in groupby(line[block * share : (block + 1) * share], lambda x: x[0]):
            some = [step for _, step in part]
            slot = None if len(some) == steps else tile - waves * blocks + block
            mine.append(WorkUnit(tile, some[0], len(some), slot))
        found.append(tuple(mine))
    return tuple(found)


def share_of(tiles: int, steps: int, blocks: int) -> int:
    """Steps of the line that a block has at most.

    >>> share_of(9, 6, 4), share_of(8, 6, 4)
    (2, 0)
    """
    return -(-(tiles % blocks * steps) // blocks)


def slot_count(blocks: int) -> int:
    """Slots of the workspace, enough for any number of tiles: fewer than blocks are left, a block cuts once.

    >>> slot_count(132)
    262
    """
    return max(1, 2 * (blocks - 1))


def part_count(tiles: int, steps: int, blocks: int) -> int:
    """Slots that are written: parts of tiles that no block has whole.

    >>> part_count(9, 6, 4), part_count(10, 6, 4), part_count(8, 6, 4)
    (3, 4, 0)
    """
    left, share = tiles % blocks, share_of(tiles, steps, blocks)
    if share in (0, steps):
        return 0
    cuts = -(-left * steps // share) - 1
    return left + cuts - cuts // (steps // gcd(share, steps))  # a cut between two tiles makes no part
