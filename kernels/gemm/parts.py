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

Schedules.  Block b of G blocks computes

    data_parallel    tile b alone
    persistent       tiles b, b + G, b + 2 G, ...
    streamk          the same for whole waves of G tiles, then an equal share of what is left

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

`gemm_fixup` adds the parts of each tile in order of k and finishes D; a tile that one block has whole goes to
D at once.

Source: Osama, Merrill, Cecka, Garland, Owens, "Stream-K", PPoPP 2023.  There the block that opens a tile
waits for the others, by flags, which saves one part of each tile and the second launch.  Here no block waits,
so that nothing is cleared before a launch and equal calls give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import gcd

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.expr import Const, Expr, Operand, Select, Var, as_expr, minus
from layoutalg.codegen.instr import CLEAR, LDG, ONE, add_scaled, words_of_vector
from layoutalg.codegen.language import KernelBuilder, Tensor, local_tile, whole
from layoutalg.codegen.program import Global, Kernel, MemRef, Reg
from layoutalg.kernels.gemm import rasterize
from layoutalg.kernels.gemm.epilogue import Output, number_of, statement
from layoutalg.kernels.gemm.groups import most_row_tiles
from layoutalg.kernels.gemm.problem import MOST_SPLITS, GemmProblem, widest_vectors
from layoutalg.kernels.gemm.tiles import (
    Config,
    Schedule,
    Sm80Config,
    cluster_tiles,
    tile_count,
)
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


NOTHING, ALWAYS = Const(0), Const(1)

MOST_BLOCKS = 1 << 10
"""The most blocks of a launch of a schedule."""


def block_count(p: GemmProblem, c: Config, arch: str | Arch = DEFAULT_ARCH) -> int:
    """Blocks along the grid's first axis where each computes several tiles: as many as run at a time, the
    parts of k together; but one per tile at most, or of stream-K one per step of k.  Clusters are whole: a
    cluster that waits for another to end would double the time.  Those that share a tile have one.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm90Config
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
    if c.schedule == "streamk":
        work *= -(-p.k // c.tile_k)
    board = find_arch(arch).board
    together = resident_clusters(board.sms, size, c.min_blocks) if board else MOST_BLOCKS // size
    return size * max(1, min(work, MOST_BLOCKS, together // c.splits))


@dataclass(frozen=True, slots=True)
class Work:
    """A unit in a kernel, the `nth` of its loop: its tile, its steps of k, and those of the block `before`.

    `whole` is a predicate, that the sums are the tile's; else they go to `slot`.  `all_steps` are those of
    all of the block's units, which is known behind the loop too.
    """

    nth: Var
    tile: Expr
    first: Expr
    steps: Var
    before: Expr
    all_steps: Expr
    slot: Expr = NOTHING
    whole: Expr = ALWAYS


def least(a: Expr, b: Expr) -> Expr:
    """The smaller one of two."""
    return Select(a < b, a, b)


@contextmanager
def each_unit(
    k: KernelBuilder,
    schedule: Schedule,
    tiles: Expr,
    steps: Var,
    blocks: Expr,
    block: Expr,
    first: Operand = 0,
    every: int = 1,
) -> Iterator[Work]:
    """The loop over a block's units: of "streamk" in closed form, else whole tiles.  Where
    warpgroups take turns, those for one of them: `every` so many, from the `first` on.

    >>> k = KernelBuilder("loop", threads=32)
    >>> tiles, steps, blocks = k.param("tiles", 99), k.param("steps", 9), k.param("blocks", 4)
    >>> with each_unit(k, "persistent", tiles, steps, blocks, k.block(0, blocks)) as unit:
    ...     print(unit.first, unit.whole)
    0 1
    """
    if schedule != "streamk":
        turns = minus(tiles + (blocks - 1), block) // blocks
        with _turns(k, turns, first, every) as (nth, turn):
            yield Work(nth, k.let("tile", block + turn * blocks), NOTHING, steps, turn * steps, turns * steps)
        return
    waves, line = k.let("waves", tiles // blocks), k.let("line", tiles % blocks * steps)
    share = k.let("share", _share(line, steps, blocks))
    start = k.let("start", least(block * share, line))
    stop = k.let("stop", least(start + share, line))
    opened = k.let("opened", start // steps)
    turns = waves + minus((stop + (steps - 1)) // steps, opened)
    with _turns(k, turns, first, every) as (nth, turn):
        at = k.let("at_line", opened + minus(turn, waves))  # the tile of the line
        begin = k.let("begin", at * steps)
        shared = waves <= turn  # behind the whole waves
        opens = k.let("first", Select(shared, minus(start, begin), Const(0)))
        end = k.let("end", Select(shared, least(minus(stop, begin), steps), steps))
        many = k.let("unit_steps", rasterize.below(minus(end, opens), steps.facts.hi))
        tile = k.let("tile", Select(shared, waves * blocks + at, block + turn * blocks))
        # steps of the units before, so that a ring goes on where they left it
        before = least(turn, waves) * steps + minus(begin, start)
        every_step = waves * steps + minus(stop, start)
        yield Work(nth, tile, opens, many, before, every_step, at + block, many.eq(steps))


@contextmanager
def _turns(k: KernelBuilder, turns: Expr, first: Operand, every: int) -> Iterator[tuple[Var, Var]]:
    """Every so many of some turns, from the `first` on: which of these it is, and which of all."""
    if every > 1:
        turns = minus(turns + (every - 1), as_expr(first)) // every
    with k.For("turn", turns) as nth:
        yield nth, k.let("nth", nth * every + first) if every > 1 else nth


def _share(line: Expr, steps: Expr, blocks: Expr) -> Expr:
    """Steps of a share: `share_of`, and 1 where no steps are left."""
    return rasterize.below(minus(line, 1) // blocks, steps.facts.hi) + 1


@dataclass(frozen=True, slots=True)
class Workspace:
    """The parameter `sums` of both kernels: slots of a tile of sums each, in rows.

    >>> k = KernelBuilder("parts", threads=32)
    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> [str(x) for x in Workspace.declare(k, gemm_problem(64, 64, 64), (64, 32), writable=True).sums.strides]
    ['2048', '32', '1']
    """

    k: KernelBuilder
    sums: Global
    tile: tuple[int, int]

    @classmethod
    def declare(cls, k: KernelBuilder, p: GemmProblem, tile: tuple[int, int], *, writable: bool) -> Workspace:
        """Declare the parameter."""
        rows, columns = tile
        sums = k.pointer("sums", p.accumulator.nbytes, (rows * columns, columns, 1), writable=writable)
        return cls(k, sums, tile)

    def slot(self, number: Expr) -> Tensor:
        """The tile of a slot."""
        slots = whole(self.sums, extents=(None,) * 3)
        return local_tile(slots[number, None, None], self.tile, (0, 0))


def build_fixup(p: GemmProblem, c: Sm80Config) -> Kernel:
    """The kernel that adds the parts of the line's tiles up and finishes D there.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> c = Sm80Config(64, 64, 32, 2, 2, 3, schedule="streamk")
    >>> build_fixup(gemm_problem(64, 64, 512), c).name
    'gemm_fixup_f16'
    """
    vec, tile = combine_vector(p), (c.tile_m, c.tile_n)
    notes = [
        "",
        f"{statement(p, '(sums[0] + sums[1] + ...)')}, of the tiles that several blocks share;",
        f"sums[s] = A B over a part of k, of a tile of {tile[0]} x {tile[1]}.",
    ]
    k = KernelBuilder(f"gemm_fixup_{p.result}", THREADS, notes=notes)
    m, n, depth = rasterize.declare_extents(k, p, c, (1, vec, 1), inward=True)
    blocks = k.param("blocks", MOST_BLOCKS)
    parts = Workspace.declare(k, p, tile, writable=False)
    grid = rasterize.tile_grid(m, n, tile)
    tiles, steps = k.let("tiles", grid[0] * grid[1]), k.let("steps", rasterize.k_tiles(depth, c.tile_k))
    left = k.let("left", tiles % blocks)
    share = k.let("share", _share(left * steps, steps, blocks))
    chunks = -(-tile[0] * tile[1] // (vec * THREADS))
    number = k.block(0, (minus(grid[0] * grid[1] % blocks, 1) + 1) * chunks)  # one at least
    line = k.let("at_line", number // chunks)
    opens = k.let("opens", line * steps // share)  # the block that opens the tile
    count = k.let("count", minus((line * steps + (steps - 1)) // share + 1, opens))
    corner = rasterize.declare_corner(k, tiles // blocks * blocks + line, grid, tile, c.panel)
    first = rasterize.inward_corner(k, corner, (m, n), c)
    output = Output(k, p, vec, m, n, first=corner if c.edges else None)
    at = k.let("at", number % chunks * THREADS + k.tid)
    row, column = k.let("row", at // (tile[1] // vec)), k.let("column", at % (tile[1] // vec) * vec)
    with k.If((line < left) & (Const(1) < count) & (row < tile[0])):
        total = added(k, p, vec, count, lambda s: k.at(parts.sums, line + opens + s, row, column))
        output.write(total, (first[0] + row, first[1] + column))
    return k.build()
