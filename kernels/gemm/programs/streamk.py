"""Schedules: the tiles of D that a block computes, and the steps of k of each.

    data_parallel    a block per tile
    persistent       block b of G computes tiles b, b + G, b + 2 G, ...
    streamk          the same for whole waves of G tiles; the steps of k of the tiles that are left are one
                     line, of which each block takes an equal share

The steps of a block, and the slot of the workspace for a part's sums, are defined in `parts`.

`gemm_fixup` adds the parts of each tile in order of k and finishes D: blocks never wait, and equal
calls give equal bits.  A tile that one block has whole goes to D at once.

Source: Osama, Merrill, Cecka, Garland, Owens, "Stream-K", PPoPP 2023.  There the block that opens a tile
waits for the others, by flags, which saves one part of each tile and the second launch.  Here nothing is
cleared before a launch, and no block has to run while another one waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.expr import Const, Expr, Operand, Select, Var, as_expr, minus
from layoutalg.codegen.language import KernelBuilder, Tensor, local_tile, whole
from layoutalg.codegen.program import Global, Kernel
from layoutalg.kernels.gemm.epilogue import Output, statement
from layoutalg.kernels.gemm.groups import most_row_tiles
from layoutalg.kernels.gemm.parts import THREADS, added, combine_vector
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.programs.mainloop import declare_extents, inward_corner, k_tiles
from layoutalg.kernels.gemm.rasterize import below, declare_corner, tile_grid
from layoutalg.kernels.gemm.tiles import Schedule, Sm80Config, Sm90Config, tile_count
from layoutalg.model import resident_clusters

NOTHING, ALWAYS = Const(0), Const(1)

MOST_BLOCKS = 1 << 10
"""The most blocks of a launch of a schedule."""


def block_count(p: GemmProblem, c: Sm80Config | Sm90Config, arch: str | Arch = "sm_90") -> int:
    """Blocks along the grid's first axis where each computes several tiles: as many as run at a time, the
    parts of k together; but one per tile at most, or of stream-K one per step of k.  Clusters are whole: a
    cluster that waits for another to end would double the time.  Those that share a tile have one.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> [block_count(gemm_problem(n, n, n), Sm90Config(128, 256, 4)) for n in (1024, 4096)]
    [32, 132]
    >>> block_count(gemm_problem(4096, 4096, 4096), Sm90Config(128, 256, 4, cluster_n=4))
    120
    """
    size, work = 1, tile_count(p, c)
    if isinstance(c, Sm90Config):
        if c.cluster_k > 1:
            return work * c.cluster_k
        size = c.cluster
        high, columns = c.tile_m * c.cluster_m, -(-p.n // (c.tile_n * c.cluster_n))
        rows = most_row_tiles(p.m, p.products, high) if p.grouped else -(-p.m // high) * p.products
        work = columns * rows
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
    """The loop over a block's units: of "streamk" the closed form of `work_units`, else whole tiles.  Where
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
        shared = waves <= turn
        opens = k.let("first", Select(shared, minus(start, begin), Const(0)))
        end = k.let("end", Select(shared, least(minus(stop, begin), steps), steps))
        many = k.let("unit_steps", below(minus(end, opens), steps.facts.hi))
        tile = k.let("tile", Select(shared, waves * blocks + at, block + turn * blocks))
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
    return below(minus(line, 1) // blocks, steps.facts.hi) + 1


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


def build_fixup(p: GemmProblem, c: Sm80Config | Sm90Config) -> Kernel:
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
    inward = isinstance(c, Sm80Config)
    down, across = (1, 1) if isinstance(c, Sm80Config) else (c.cluster_m, c.cluster_n)
    cluster, wide = down * across, (tile[0] * down, tile[1] * across)
    m, n, depth = declare_extents(k, p, c, (1, vec, 1), inward=inward)
    blocks = k.param("blocks", MOST_BLOCKS, cluster, cluster) // cluster
    parts = Workspace.declare(k, p, tile, writable=False)
    grid = tile_grid(m, n, wide)
    tiles, steps = k.let("tiles", grid[0] * grid[1]), k.let("steps", k_tiles(depth, c.tile_k))
    left = k.let("left", tiles % blocks)
    share = k.let("share", _share(left * steps, steps, blocks))
    chunks = -(-tile[0] * tile[1] // (vec * THREADS))
    number = k.block(0, (minus(grid[0] * grid[1] % blocks, 1) + 1) * (chunks * cluster))  # one at least
    line = k.let("at_line", number // (chunks * cluster))
    opens = k.let("opens", line * steps // share)  # the block that opens the tile
    count = k.let("count", minus((line * steps + (steps - 1)) // share + 1, opens))
    corner = declare_corner(k, tiles // blocks * blocks + line, grid, wide, c.panel)
    rank = number // chunks % cluster
    corner = corner[0] + rank * (tile[0] * (down > 1)), corner[1] + rank * (tile[1] * (across > 1))
    first = inward_corner(k, corner, (m, n), c) if inward else corner
    output = Output(k, p, vec, m, n, first=corner if c.edges and inward else None)
    at = k.let("at", number % chunks * THREADS + k.tid)
    row, column = k.let("row", at // (tile[1] // vec)), k.let("column", at % (tile[1] // vec) * vec)
    with k.If((line < left) & (Const(1) < count) & (row < tile[0])):
        slot = (line + opens) * cluster + rank
        total = added(k, p, vec, count, lambda s: k.at(parts.sums, slot + s * cluster, row, column))
        output.write(total, (first[0] + row, first[1] + column))
    return k.build()
