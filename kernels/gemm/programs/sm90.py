"""gemm_sm90: products with wgmma, whose operands TMA brings.

One block per multiprocessor computes tile after tile.  Its first warpgroup is the producer: one thread fills
a ring of stages by TMA, through the mbarriers `full` (the bytes are there) and `empty` (everybody has read
them).  The other warpgroups are consumers: each multiplies its rows of the tile, lets one group of wgmma stay
in flight, and hands back the stage before that one.

    producer    for each tile, for each step of k:   wait empty[s]; expect bytes; load A and B    -> full[s]
    consumer    for each tile, for each step of k:   wait full[s]; wgmma; wait for the group before -> empty
                then the results of the tile, while the producer fills the ring for the next one

With `pingpong` each consumer has tiles of its own; an mbarrier per consumer, `order`, keeps their steps in
the order of the ring.  In clusters along m or n each block loads its share of what all need, into all of
them, and `empty` counts the consumers of all.  Along k the blocks of a cluster have a part of k each, and
send each other the sums of the columns that the other one writes.

Rows may be those of groups with a B each (see groups): each tile is of one group.

Tiles may be of the transposed product, B^T A^T: crossed ones are 64 columns of D high and any 16 rows wide,
so that few rows fill them, and a B along n, which comes in boxes of 64, leaves their width free.

wgmma turns operands of 16 bits alone.  Of tf32 an A that lies along m goes through registers, whose wgmma is
one of four in flight; where B lies along n instead, tiles are crossed.  TMA rounds tf32 to the nearest, ties
to even.

Results leave the registers

    "tma"       in boxes of up to 128 bytes by 64 rows through swizzled shared memory, in turn or with room
                for all, which TMA stores while the next one is packed; D starts, and its rows start and
                end, at multiples of 16 bytes; of groups, a box that their end cuts is stored by threads;
                vectors that are added are read under a tile's last wgmma, a matrix by TMA (see added);
                crossed tiles are turned by stmatrix
    "shared"    16 rows of a warp at a time, as in sm80: any D and any matrix that is added

Sources: PTX ISA 9.0, 9.7.15.5 (wgmma); CUTLASS, include/cutlass/gemm/kernel/
sm90_gemm_tma_warpspecialized_cooperative.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import atom_layout
from layoutalg.codegen import instr
from layoutalg.codegen.expr import GRID_LIMITS, Const, Expr, Operand, as_expr
from layoutalg.codegen.language import Fragment, KernelBuilder, Tensor, ThreadSlice, local_tile, whole
from layoutalg.codegen.program import Kernel, Mbarrier, Reg
from layoutalg.kernels.gemm.choice import check_or_suggest
from layoutalg.kernels.gemm.epilogue import Output, statement
from layoutalg.kernels.gemm.groups import BOX_ROWS as ROWS
from layoutalg.kernels.gemm.groups import Groups
from layoutalg.kernels.gemm.parts import (
    MOST_BLOCKS,
    Work,
    declare_part,
    declare_share,
    each_unit,
)
from layoutalg.kernels.gemm.problem import GemmProblem, stored_problem
from layoutalg.kernels.gemm.programs.added import Added, Box, boxes_of
from layoutalg.kernels.gemm.programs.promotion import BlockFactors, promoted
from layoutalg.kernels.gemm.programs.sm80 import stage_copies
from layoutalg.kernels.gemm.programs.sm90_tiles import (
    OperandRing,
    box_copy,
    tiled_mma,
)
from layoutalg.kernels.gemm.rasterize import batch_extents, batch_place, below, k_tiles, tile_grid, tile_place
from layoutalg.kernels.gemm.tiles import ROLE_REGISTERS, Sm90Config
from layoutalg.layout import Layout

BATCH_TILES = 1 << 21
"""The most tiles of all products of a batch: with the steps of k of each, their numbers have 32 bits."""

Leave: TypeAlias = "Callable[[Fragment, tuple[Expr, Expr]], None]"
"""The function that writes the code which stores a consumer's sums at a first row and column of D."""

Tile: TypeAlias = "tuple[Expr, Expr, Expr, Expr, tuple[Expr, ...]]"
"""The number of a tile among those that are walked, the steps of k before it, its row and its column among
the tiles, its place in the batch."""


def build(p: GemmProblem, c: Sm90Config) -> Kernel:
    """The tile program of a configuration, for the problem's extents and leading dimensions and below.

    A launch says by how many `blocks` the tiles are computed.  `alpha` and `beta` are passed as the 32-bit
    words of floats.  With splits the kernel writes the parts' `sums`, see parts.  Raises what
    `check_or_suggest` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build(gemm_problem(256, 256, 64), Sm90Config(128, 256, 4)).name
    'gemm_sm90_f16'
    """
    check_or_suggest(p, c)
    k = KernelBuilder(f"gemm_sm90_{p.operand}", c.threads, notes=_notes(p, c))
    return _Writer(k, stored_problem(p, c.splits), c).write()


def _notes(p: GemmProblem, c: Sm90Config) -> list[str]:
    """The lines of the comment above the kernel."""
    tile, ptx = f"{c.tile_m} x {c.tile_n} of D", tiled_mma(p, c.tile_n).atom.ptx
    if c.cluster_k > 1:
        shares = f"a part of k each, then {c.written_n} columns each;"
        blocks = f"The {c.cluster_k} blocks of a cluster make {tile}, {shares}"
    else:
        blocks = f"A block makes {tile}, and then its next tile;"
    rows = f"{c.consumers} warpgroups make {c.consumer_m} rows each,"
    if c.pingpong:
        rows = f"{c.consumers} warpgroups take turns at whole tiles,"
    elif c.consumers == 1:
        rows = "one warpgroup makes it,"
    more = []
    if c.sharing > 1:
        shape, shared = f"{c.cluster_m} x {c.cluster_n}", "B" if c.cluster_m > 1 else "A"
        more.append(f"blocks come in clusters of {shape} tiles, and load {shared} for each other;")
    if p.grouped:
        more.append("rows are of groups with a B each, which begin[g] and opens[g] tell apart;")
    more.append("any number of blocks is right: take as many as run at a time, or as there are tiles;")
    return [
        "",
        f"{statement(p, parts=c.splits > 1)}.",
        blocks,
        f"{rows} by {ptx};",
        *more,
        f"k goes by {c.tile_k} through {c.stages} tiles in shared memory, which one thread fills by TMA.",
    ]


class _Writer:
    """The parts of the program, and their common state."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, c: Sm90Config) -> None:
        self.k, self.p, self.c = k, p, c
        # rows of D end where vectors do, and of TMA where chunks of 16 bytes do, which it writes whole
        self.m, self.n = k.param("m", p.m), k.param("n", p.n, c.result_vec, c.result_vec)
        depth = k.param("k", p.k)
        self.batch = batch_extents(k, p)
        operands = (
            OperandRing(k, p, c, "a", (self.m, depth), self.batch),
            OperandRing(k, p, c, "b", (self.n, depth), self.batch),
        )
        # what tiles have tile_m and tile_n rows of
        self.a, self.b = operands[::-1] if c.crossed else operands
        self.extents = (self.n, self.m) if c.crossed else (self.m, self.n)
        self.factors = BlockFactors(k, p, c, self.m) if p.block_scales else None
        k.cluster(c.cluster)
        most = GRID_LIMITS[0] if c.cluster_k > 1 else MOST_BLOCKS
        self.blocks = k.param("blocks", most, c.cluster, c.cluster)
        self.groups = Groups.declare(k, p, self.m, c.tile_m * c.cluster_m) if p.grouped else None
        self.all_tiles = k.param("all_tiles", BATCH_TILES) if p.batch and not p.grouped else None
        self.block = k.block(0, self.blocks)
        steps = k_tiles(depth, c.tile_k)
        if c.cluster_k > 1:
            self.part = declare_share(k, k.let("rank", k.rank), c.cluster_k, steps)
        else:
            self.part = declare_part(k, steps, c.splits)
        self.tile_steps = self.part.tiles
        parted = self.part.which if c.splits > 1 else None
        self.output = Output(k, p, c.result_vec, self.m, self.n, part=parted, crossed=c.crossed)
        self.mma = tiled_mma(p, c.tile_n, crossed=c.crossed)
        self.added: Added | None = None
        self.nth: Expr  # the number of the tile of the consumer
        self.leave = (self._boxes if c.through == "tma" else self._rows)()
        self.sums: Tensor | None = None
        if c.cluster_k > 1:  # what the peers send: fours of each thread, of each peer
            fours = (4, 128 * c.consumers, c.written_n // 8, c.consumer_m // ROWS, c.cluster_k - 1)
            self.sums = k.shared("sums", p.accumulator, Layout(fours), align_bytes=128)
        self.unit: Work  # that is being written
        self.full = k.mbarrier("full", 1, c.stages)
        # what goes through registers each warp has read by itself
        self.empty = k.mbarrier("empty", c.readers * c.sharing * (4 if p.by_registers else 1), c.stages)
        self.order = k.mbarrier("order", 128, c.consumers) if c.pingpong else None
        self.came = k.mbarrier("came") if self.sums else None

    def write(self) -> Kernel:
        """The whole program."""
        k, c = self.k, self.c
        added = self.added.came.values() if self.added else ()
        k.init(self.full, self.empty, *filter(None, (self.order, self.came, *added)))
        few, many = ROLE_REGISTERS[c.consumers]
        with k.roles() as roles:  # in this order the producer's code comes first; neither was faster
            with roles.role("consumer", 4 * c.consumers, registers=many):
                self._consume()
            with roles.role("producer", 4, registers=few), k.If(k.thread.eq(0)):
                self._fill()
        return k.build()

    @contextmanager
    def _tiles(self, first: Operand = 0, every: int = 1) -> Iterator[Tile]:
        """Loop over every so many of the block's tiles, from `first` on.  Clusters walk their own tiles, of
        which each block has one, those of a product of the batch one after the other.  For groups the row
        is the first row of D in the tile.
        """
        k, c = self.k, self.c
        wide, high = c.tile_n * c.cluster_n, c.tile_m * c.cluster_m
        grid = tile_grid(*self.extents, (high, wide))
        if self.groups:
            grid = k.let("row_tiles", self.groups.tiles), grid[1]
        clusters, mine = self.blocks // c.cluster, self.block // c.cluster

        def place(number: Expr) -> tuple[Expr, Expr]:
            row, column = tile_place(k, number, grid, c.panel)
            return below(row, grid[0].facts.hi), below(column, grid[1].facts.hi)

        if c.cluster_k > 1:  # one tile each
            row, column = place(k.let("tile", mine))
            yield Const(0), Const(0), k.let("row", row), k.let("column", column), ()
            return
        count = k.let("tiles", grid[0] * grid[1])
        total = count if self.all_tiles is None else self.all_tiles
        with each_unit(k, total, self.tile_steps, clusters, mine, first, every) as unit:
            tile: Expr = unit.tile
            batch: tuple[Expr, ...] = ()
            if self.all_tiles is not None:
                batch, tile = batch_place(k, self.batch, tile // count), k.let("of_product", tile % count)
            row, column = place(tile)
            if self.groups:
                group, row, self.output.m = self.groups.find(k, k.let("row_tile", row))
                batch = (group,)
            if c.cluster_m > 1:
                row = row + k.rank * c.tile_m if self.groups else row * c.cluster_m + k.rank
            if c.cluster_n > 1:
                column = column * c.cluster_n + k.rank
            self.unit = unit
            yield unit.nth, k.let("before", unit.before), k.let("row", row), k.let("column", column), batch

    @contextmanager
    def _steps(self, before: Expr) -> Iterator[tuple[Expr, Expr, Expr]]:
        """Loop over the steps of k: number, stage, and parity of the phase in which the stage is full."""
        k, stages = self.k, self.c.stages
        with k.For("kt", self.part.tiles) as kt:
            count = k.let("count", before + kt)
            yield kt, k.let("slot", count % stages), k.let("parity", count // stages % 2)

    def _fill(self) -> None:
        k = self.k
        tiles = self._tiles()
        with tiles as (_, before, row, column, batch), self._steps(before) as (kt, stage, parity):
            k.wait(self.empty[stage], 1 - parity)  # the phase before the first counts as over
            k.expect(self.full[stage], self.a.nbytes + self.b.nbytes)
            step = self.part.first_tile + kt
            tile, begin = (Const(0), row) if self.groups else (row, None)
            self.a.load(tile, step, stage, self.full[stage], batch, begin)
            self.b.load(column, step, stage, self.full[stage], batch)
        if self.c.sharing > 1:  # peers arrive at the barriers of a block that has not left
            with k.For("left", self.c.stages) as left:
                count = k.let("count", self.unit.all_steps + left)
                k.wait(self.empty[count % self.c.stages], 1 - count // self.c.stages % 2)

    def _consume(self) -> None:
        k, c = self.k, self.c
        group, thread = k.thread // 128, k.thread % 128
        me = k.get_slice(self.mma, thread)
        acc = me.fragment_C("acc", (c.consumer_m, c.tile_n))
        deep, numbers = self.mma.tile_shape[2], range(c.tile_k // self.mma.tile_shape[2])
        held = [me.fragment_A(f"left{j}", (c.consumer_m, deep)) for j in numbers if self.p.by_registers]
        part = Const(0) if c.pingpong else group  # of a tile

        first_of = thread % 32 if self.p.by_registers else thread

        def release(stage: Expr) -> None:
            with k.If(first_of < c.sharing):
                k.arrive(self.empty[stage], first_of if c.sharing > 1 else None)

        tiles = self._tiles(group, c.consumers) if c.pingpong else self._tiles()
        with tiles as (nth, before, row, column, batch):
            if self.order:  # a wait for a phase holds only behind the one before: steps are taken in order
                k.wait(self.order[group], (nth + 1 + group) % 2)
            self.nth, first = nth, row if self.groups else row * c.tile_m
            corner = first + part * c.consumer_m, column * c.tile_n
            if self.came:
                corner = corner[0], corner[1] + k.rank * c.written_n
            if self.part.which is not None:  # where there are fewer steps of k than parts, the last have none
                with k.If(self.part.tiles.eq(0)):
                    k.clear(acc)
                    if self.added:
                        self.added.early(corner, batch)
                    if c.through == "tma":
                        self.output.load_vectors(corner, (c.consumer_m, c.written_n))
            with self.part.work(k):
                if self.p.promoted:

                    def multiply(sums: Fragment, i: int, stage: Expr) -> None:
                        self._multiply(me, sums, part * (c.consumer_m // ROWS) + i, stage, 0, ROWS)

                    sums = me.fragment_C("sums_of_step", (ROWS, c.tile_n))
                    factors = None
                    if self.factors:
                        factors = self.factors.at(corner, self.part.first_tile, self.part.tiles)
                    promoted(k, acc, sums, before, self.part.tiles, self.full, multiply, release, factors)
                else:
                    self._hold(acc)
                    with self._steps(before) as (kt, stage, parity):
                        k.wait(self.full[stage], parity)
                        if held:
                            self._by_registers(me, acc, held, part, stage, kt)
                        else:
                            k.do(instr.WGMMA_FENCE)
                            self._multiply(me, acc, part, stage, kt)
                        if self.added:
                            with k.If(kt.eq(0)):
                                self.added.early(corner, batch)
                        if not held:  # this group runs on while the stage before is handed back
                            k.do(instr.WGMMA_WAIT, 1)
                        with k.If(Const(0) < kt):
                            release((stage + (c.stages - 1)) % c.stages)
                if self.order:  # every thread: a warp may be late, and the others' arrivals say nothing of it
                    k.arrive(self.order[1 - group])
                if c.through == "tma":  # under the last group of wgmma
                    self.output.load_vectors(corner, (c.consumer_m, c.written_n))
                if not self.p.promoted:
                    k.warpgroup_wait(0, acc)
                    release((before + self.part.tiles + (c.stages - 1)) % c.stages)
            if self.came and self.sums:
                acc = self._joined(acc, self.came, self.sums)
            if not self.groups:
                self.output.lead = batch or self.output.lead
            self.leave(acc, corner)
        if c.through == "tma":
            with k.If(thread.eq(0)):
                k.bulk_wait(0, read=True)

    def _sides(self, me: ThreadSlice, part: Expr, stage: Expr, rows: int = 0) -> tuple[Tensor, Tensor]:
        """The thread's parts of A, so many rows of a stage or the consumer's if 0, and of B."""
        tile = rows or self.c.consumer_m, self.c.tile_k
        mine = local_tile(self.a.ring[None, None, stage], tile, (part, 0))
        return me.partition_A(mine), me.partition_B(self.b.ring[None, None, stage])

    def _multiply(
        self, me: ThreadSlice, acc: Fragment, part: Expr, stage: Expr, accumulate: Operand, rows: int = 0
    ) -> None:
        """Start a group of wgmma: so many rows of a stage, all of the consumer's if 0, times B."""
        self.k.mma(self.mma, acc, *self._sides(me, part, stage, rows), accumulate=accumulate)
        self.k.do(instr.WGMMA_COMMIT)

    def _by_registers(
        self, me: ThreadSlice, acc: Fragment, held: list[Fragment], part: Expr, stage: Expr, accumulate: Expr
    ) -> None:
        """A step of k whose A goes through registers: those of each wgmma are loaded as soon as the one that
        had them in the step before is finished, while the three behind it run."""
        k, (left, right) = self.k, self._sides(me, part, stage)
        for j, fragment in enumerate(held):
            k.warpgroup_wait(len(held) - 1, fragment)
            k.load(left[None, None, j], into=fragment[None, None, 0])
            k.do(instr.WGMMA_FENCE)
            k.mma(
                self.mma, acc, fragment[None, None, 0], right[None, None, j],
                accumulate=accumulate if j == 0 else 1,
            )  # fmt: skip
            k.do(instr.WGMMA_COMMIT)
        k.do(instr.WARP_SYNC)  # all lanes have read the stage, which the first of them hand back

    def _hold(self, acc: Fragment) -> None:
        """Keep what was done to the sums of the tile before in front of a tile's first step.

        f32 results are finished in the accumulators themselves. Where a consumer has several 64 rows of them,
        ptxas 13 lets the two meet in the branch of a store, and serializes all products (C7519).
        """
        k, c = self.k, self.c
        if c.through == "tma" and self.p.result.name == "f32" and c.consumer_m > ROWS:
            with k.Unroll("i", c.consumer_m // ROWS) as i:
                k.do(instr.hold(c.tile_n // 2, "f32"), acc.reg[i])

    def _joined(self, acc: Fragment, came: Mbarrier, sums: Tensor) -> Fragment:
        """The sums of the columns that the block writes: each block of the cluster sends the others theirs,
        and all add them up in the order of the ranks.
        """
        k, c = self.k, self.c
        blocks, rows = c.cluster_k, c.consumer_m // ROWS
        eights = c.written_n // 8
        parts = acc.view(Layout((4, eights, rows, blocks), (1, 4, c.tile_n // 2, c.written_n // 2)))
        own = k.get_slice(tiled_mma(self.p, c.written_n), k.thread % 128).fragment_C(
            "own", (c.consumer_m, c.written_n)
        )
        mine = own.view(Layout((4, eights, rows), (1, 4, c.written_n // 2)))
        got = k.fragment("got", self.p.accumulator, 4)

        def other(r: int) -> Expr:
            return Const(0) < (k.rank + (blocks - r)) % blocks

        def slot(sent_by: Operand, to: Operand) -> Expr:  # 0 for the next rank, and so on around
            return (as_expr(sent_by) + as_expr(to) * (blocks - 1) + (blocks - 1)) % blocks % (blocks - 1)

        with k.If(k.thread.eq(0)):
            k.expect(came[0], (blocks - 1) * c.tile_m * c.written_n * 4)
        for r in range(blocks):
            with k.If(other(r)), k.Unroll("i", rows) as i, k.Unroll("j", eights) as j:
                there = sums.at(0, k.thread, j, i, slot(k.rank, r))
                k.do(instr.ST_ASYNC[16], there, came[0], Const(r), parts.at(0, j, i, r, values=4))
        k.wait(came[0], 0, cluster=True)
        k.clear(own)
        for r in range(blocks):
            with k.Unroll("i", rows) as i, k.Unroll("j", eights) as j:
                four = mine[None, j, i]
                with k.If(k.rank.eq(r)):
                    k.map(four + parts[None, j, i, r], into=four)
                with k.Else():
                    k.do(instr.LDS[16], got.words, sums.at(0, k.thread, j, i, slot(r, k.rank)))
                    k.map(four + got, into=four)
        return own

    def _boxes(self) -> Leave:
        """Results through shared memory in boxes that TMA stores."""
        k, p, c, size = self.k, self.p, self.c, self.p.result.nbytes
        widths, buffers = c.boxes(size), c.box_buffers(size)
        extents = (*(() if self.groups else self.batch), self.m, self.n)
        d = whole(self.output.d, p.result, extents)
        # the columns that the widest boxes leave over have narrower ones, each with the swizzle of its width
        places = {columns: buffers if columns == widths[0] else 1 for columns in widths}
        ones = (1,) * (len(extents) - 2)
        shapes = {columns: (*ones, *self._in_d(ROWS, columns)) for columns in places}
        kinds = {}  # by width: the map, the places in shared memory
        for columns, box in shapes.items():
            own, wide = "" if columns == widths[0] else str(columns), box[-1] * size
            save = k.tensor_map(f"save{own}", d, box, mode=f"{wide}B")
            atom = atom_layout(f"Layout_K_SW{wide}_Atom", p.result)
            layout, many = tile_to_shape(atom, box[-2:]), c.consumers * places[columns]
            kinds[columns] = save, k.shared(f"box{own}", p.result, layout, stages=many)

        def ring(box: Box) -> Tensor:
            many, tiles = places[box.columns], kinds[box.columns][1]
            return tiles[None, None, k.thread // 128 * many + box.place] if many * c.consumers > 1 else tiles

        order = boxes_of(c.consumer_m, widths, places)
        if p.reads_c:
            self.added = Added(k, p, c, self.output, extents, order, shapes, places, ring, self._in_d)
        packed = k.reg("packed", 4)
        taken, per = k.reg("taken", 4) if self.groups else packed, c.result_vec // 4  # eights of a vector
        load, store = instr.LDMATRIX[4], instr.STMATRIX[4]
        if c.crossed:
            load, store = instr.LDMATRIX_TRANS[4], instr.STMATRIX_TRANS[4]

        def pack_box(acc: Fragment, box: Box, into: Tensor) -> None:
            warp, lane, i = k.thread // 32 % 4, k.thread % 32, box.row // ROWS
            if size == 4:
                pairs = k.get_slice(tiled_mma(p, box.columns), k.thread % 128).partition_C(into)
            with k.Unroll("j", box.columns // 8 // per) as j:
                at = box.column // 8 + j * per
                sums = acc.at((0, 0, at), i, 0, values=c.result_vec)
                # 16 rows by 16 columns of a warp, of which a lane addresses half a row, or half a column
                sixteen = into.at(warp * 16 + lane % 16, j * 16 + lane // 16 * 8)
                if c.crossed:
                    sixteen = into.at(j * 16 + lane // 16 * 8 + lane % 8, warp * 16 + lane // 8 % 2 * 8)

                def brought(into: Reg) -> None:
                    if size == 2:
                        k.do(load, into, sixteen)
                    for h in range(2 * (size == 4)):
                        k.do(instr.LDS[8], into.slice(2 * h, count=2), pairs.at((0, h, j), 0, 0))

                self.output.finish(sums, 2 * i, at, brought)
                if size == 2:
                    k.do(instr.convert(c.result_vec, "f32", p.result.name), packed, sums)
                    k.do(store, sixteen, packed)
                else:
                    for h in range(2):
                        k.do(instr.STS[8], pairs.at((0, h, j), 0, 0), acc.at((0, h, at), i, 0, values=2))

        def part_of(mine: Tensor, row: Expr, column: Expr, columns: int) -> None:
            """The rows of a box that D has for the group, by the threads of a consumer."""
            take = box_copy(columns, p.result)
            me = k.get_slice(take, k.thread % 128)
            source, tile = me.partition_S(mine), self.output.tile((row, column), (ROWS, columns))
            there = me.partition_D(tile)
            with k.Unroll("y", source.shape[1]) as y:
                k.do(instr.LDS[16], taken, source.at(0, y, 0))
                self.output.put(taken, there.coordinate(0, y, 0))

        def leave(acc: Fragment, corner: tuple[Expr, Expr]) -> None:
            group, thread = k.thread // 128, k.thread % 128
            for x, box in enumerate(order):
                save, mine = kinds[box.columns][0], ring(box)
                # boxes committed since this place was filled may stay unread; first all of the tile before is
                # waited for, unless C has been
                if box.before or not (x or self.added):
                    with k.If(thread.eq(0)):  # it alone commits, and its wait counts what it committed
                        k.bulk_wait(box.since, read=True)
                        if self.added:
                            self.added.bring(box, corner, self.output.lead)
                if self.added:  # to where C has come nobody reads or writes
                    self.added.wait(box, self.nth)
                if box.before or x == 0:
                    with k.Else() if self.added else nullcontext():
                        self._sync(group)
                pack_box(acc, box, mine)
                k.fence_async()  # each thread's own stores, before the barrier: TMA is another proxy
                self._sync(group)
                row, column = self._in_d(corner[0] + box.row, corner[1] + box.column)
                with k.If(thread.eq(0)):
                    there = local_tile(d, shapes[box.columns], (0,) * len(extents))
                    there = there.moved(*self.output.lead, row, column)
                    with k.If(row + ROWS <= self.output.m) if self.groups else nullcontext():
                        k.tma_store(save, mine, there)
                    k.bulk_commit()  # without a box too, so that waits may count
                if self.groups:
                    with k.If(self.output.m < row + ROWS):
                        part_of(mine, row, column, box.columns)

        return leave

    def _in_d(self, row: Any, column: Any) -> tuple[Any, Any]:
        """Row and column of D, or extents there, of those of a tile."""
        return (column, row) if self.c.crossed else (row, column)

    def _sync(self, group: Expr) -> None:
        """The threads of a consumer meet."""
        for i in range(self.c.consumers):
            with self.k.If(group.eq(i)) if self.c.consumers > 1 else nullcontext():
                self.k.named_barrier(1 + i, 128)

    def _rows(self) -> Leave:
        """Results through shared memory in rows that threads write, 16 rows of a warp at a time."""
        k, c, vec, part = self.k, self.c, self.c.result_vec, min(self.c.result_vec, 4)
        columns = c.box_columns()
        mma, take, layout = stage_copies(columns, vec, turned=c.crossed)
        stage = k.shared("stage", "f32", layout, stages=4 * c.consumers, align_bytes=1024)
        out = k.reg("out", vec)

        def leave(acc: Fragment, corner: tuple[Expr, Expr]) -> None:
            warp, lane = k.thread // 32, k.thread % 32
            mine = stage[None, None, warp]
            given = k.get_slice(mma, lane).partition_C(mine)
            taken = k.get_slice(take, lane).partition_S(mine)
            _, rows, across = taken.shape
            row = k.let("first_row", corner[0] + warp % 4 * 16)
            column = k.let("first_column_of_tile", corner[1])
            with k.Unroll("i", c.consumer_m // ROWS) as i, k.Unroll("q", c.written_n // columns) as q:
                at = row + i * ROWS, column + q * columns
                if c.crossed:
                    tile = self.output.tile(at[::-1], (columns, 16)).transposed
                else:
                    tile = self.output.tile(at, (16, columns))
                there = k.get_slice(take, lane).partition_D(tile)
                values = 1 if c.crossed else 2  # side by side in a row of D
                with k.Unroll("j", columns // 8) as j, k.Unroll("h", 2) as h:
                    for pair in range(0, 2, values):
                        sums = acc.at((pair, h, q * (columns // 8) + j), i, 0, values=values)
                        k.do(instr.STS[4 * values], given.at((pair, h), 0, j), sums)
                k.do(instr.WARP_SYNC)
                with k.Unroll("y", rows) as y, k.Unroll("x", across) as x:
                    with k.Unroll("e", vec // part) as e:
                        k.do(instr.LDS[4 * part], out.slice(e * part, count=part), taken.at((0, e), y, x))
                    self.output.write(out, there.coordinate(0, y, x))
                k.do(instr.WARP_SYNC)

        return leave
