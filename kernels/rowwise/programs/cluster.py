"""Clusters: the statistics of all blocks in each of them, and the columns that the blocks keep.

An exchange.  Every block has a room with a slot for each sender of the cluster, and an mbarrier that counts
the bytes of all slots.  A sender stores its words into its slot of every block by st.async, whose bytes
complete at that block's mbarrier; a thread that has waited there reads all slots.  No others wait, and each
block sees the same words in the same order, so that all blocks compute equal bits.

    x = Exchange(k, senders=16, words=2)    softmax by 16 warps: maximum and sum of a warp
    x.open()                                first of all: the block announces itself
    ...                                     loads: the peers start in the meantime
    x.meet()                                before the first `send`: all threads, once
    with k.If(lane < x.blocks):             lane r of a warp sends to block r
        x.send(k.tid // 32, lane, m, s)
    x.wait()                                all threads that read
    x.take(slot, m_b, s_b)                  slot = block of the cluster * senders + sender

    rows        a sender is a warp, a plane has one word: lane l takes slots l, l + 32 and so on, joins them,
                and butterflies join the lanes
    columns     a sender is one of the threads side by side in a slab, once the block has joined its rows; a
                plane has a word for each column of the thread's vector, so that `words` is planes x columns;
                the threads of one warp that share columns send to the blocks, and take their slots, in turn

Notes.  A block may leave when its `wait` is over: its peers have sent, and what it has sent they wait for
themselves.  So each room serves one exchange; a second one has an `Exchange` of its own, opened with it, or
follows in the same room: `again` announces that it is free, `meet` waits for all, and `turn` counts.
Only st.async writes to the room: no proxy fence is needed.

Source: PTX ISA 9.0, 9.7.9.13 (st.async), 9.7.13.15 (mbarrier).

A slab of columns.  Slabs are 64 or 128 bytes wide: memory is read by halves of lines, and written by lines.
A slab is too large for a block, so that the blocks of a cluster have rows of it in turn, in shared memory and
in registers.  Statistics are made of groups of vectors while others are on their way, and are joined by few
threads, as every join costs exponentials or divisions:

    warps       butterflies join the rows of a warp; its first threads write what it has of each column
    a barrier
    one warp    its threads take the warps' words in turn, join them, and butterflies join the threads
    exchange    they send them to all blocks, and take those of all blocks in the same way
    a barrier   factors lie in shared memory, where every thread reads those of its columns

Clusters that are resident go on from slab to slab: where a vector was, the next slab's one is copied to as
soon as its result is stored, so that memory is never idle.

Notes.  The order is the same in all blocks, and so are the bits.  Each thread reads back its own vectors: a
place is free when its thread has read it.  Groups of copies are counted by what follows them: while
statistics are made, every group that was awaited is followed by an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Expr, Operand, as_expr, minus
from layoutalg.codegen.instr import BAR, CP_COMMIT, CP_WAIT, LDS, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, Reg, RegRef, Shared
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.programs.block import Group, RowBlock, Vector
from layoutalg.kernels.rowwise.programs.block_reduce import get, put
from layoutalg.kernels.rowwise.programs.recipes import Norm
from layoutalg.kernels.rowwise.walk import WARP, Bases, Index, Walk
from layoutalg.kernels.rowwise.ways import NormConfig, neighbours
from layoutalg.layout import Layout


class Exchange:
    """The room of a block for the words of `senders` senders of each block, and its mbarrier.

    `blocks` of the cluster, which the builder already knows; `words` of a sender; `slots` in all.

    >>> k = KernelBuilder("sums", threads=64)
    >>> _ = k.block(0, 8)
    >>> k.cluster(4)
    >>> Exchange(k, senders=2, words=3).slots
    8
    """

    def __init__(self, k: KernelBuilder, senders: int, words: int) -> None:
        self.k, self.words, self.senders, self.blocks = k, words, senders, k.blocks_of_cluster
        self.slots = self.blocks * senders
        pitch = words if words in (1, 2) else -(-words // 4) * 4
        self.room = k.shared("room", "f32", Layout((pitch, self.slots)), align_bytes=16)
        self.came, self.packed = k.mbarrier("came"), k.reg("packed_words", words)
        self.turn = as_expr(0)

    def open(self) -> None:
        """Initialise the mbarrier, and announce the block; no thread waits."""
        k = self.k
        with k.If(k.tid.eq(0)):
            k.do(instr.MBARRIER_INIT, self.came[0], 1)
            k.do(instr.FENCE_BARRIER_INIT)
            self._expect()
        k.do(instr.WARP_SYNC)
        k.do(instr.CLUSTER_ARRIVE_RELAXED)

    def meet(self) -> None:
        """Wait until all blocks of the cluster have opened theirs, in every turn."""
        self.k.do(instr.CLUSTER_WAIT)

    def send(self, sender: Operand, to: Operand, *planes: Reg) -> None:
        """Store the words of all planes into the sender's slot in block `to` of the cluster."""
        k, packed = self.k, self.packed
        for i, word in enumerate(_words(planes)):
            k.do(instr.MOVE, packed[i], word)
        slot = k.rank * self.senders + as_expr(sender)
        for first, count in self._vectors():
            words = packed.slice(first, count=count)
            k.do(instr.ST_ASYNC[4 * count], self.room.at(first, slot), self.came[0], as_expr(to), words)

    def wait(self) -> None:
        """Wait until all slots are filled."""
        self.k.wait(self.came[0], self.turn % 2, cluster=True)

    def again(self) -> None:
        """Open the room for the next turn, by all threads, after the readers have read; no thread waits."""
        with self.k.If(self.k.tid.eq(0)):
            self._expect()
        self.k.do(instr.WARP_SYNC)
        self.k.do(instr.CLUSTER_ARRIVE)

    def _expect(self) -> None:
        self.k.expect(self.came[0], 4 * self.words * self.slots)

    def take(self, slot: Expr, *planes: Reg) -> None:
        """Load the words of a slot into planes."""
        k, packed = self.k, self.packed
        for first, count in self._vectors():
            k.do(instr.LDS[4 * count], packed.slice(first, count=count), self.room.at(first, slot))
        for i, word in enumerate(_words(planes)):
            k.do(instr.MOVE, word, packed[i])

    def _vectors(self) -> Iterator[tuple[int, int]]:
        """The words of a slot as vectors: (first word, words)."""
        first = 0
        while left := self.words - first:
            count = 4 if left >= 4 else 2 if left >= 2 else 1
            yield first, count
            first += count


def _words(planes: tuple[Reg, ...]) -> Iterator[RegRef]:
    return (d[i] for d in planes for i in range(*d.shape))


LAG = 2
"""Groups of copies that are on their way while statistics are made of the one before them."""


class SlabBlock(RowBlock):
    """A block of a cluster that keeps one slab of columns.

    Its warps meet in shared memory: a slot for each in `part`, one for the factors in `final`; `x` is the
    exchange with other blocks, if there are any.
    """

    in_warps, arriving = True, 0

    def __init__(
        self, name: str, problem: NormProblem, walk: Walk, config: NormConfig, notes: list[str], norm: Norm
    ) -> None:
        super().__init__(name, problem, walk, config, notes, writes=True)
        self.norm, self.side, self.warps = norm, self.tiling.rows_per_block, config.threads // WARP
        words = _count(own := norm.planes(self))
        self.x = Exchange(self.k, self.side, words) if config.cluster > 1 else None
        self.own, self.others, self.factors = own, norm.others(self), [self.stat(n) for n in norm.factors]
        self.part = self.partials(self.warps * self.side * words)
        self.final = self.partials(self.side * _count(self.factors))
        if self.x is not None:
            self.k.min_blocks = neighbours(self.k.shared_end(1), config.threads)
            self.x.open()

    def write(self) -> None:
        """The program: statistics of what is kept, then results of it."""
        self.hold()
        self.norm.start(self)
        self.norm.online(self)
        self.meet()
        self.each(self.result)

    def result(self, v: Vector) -> None:
        """A vector becomes its result."""
        self.norm.result(self, v)

    def used(self, name: str) -> Reg:
        """The registers of a factor, from which results are made."""
        return self.stat(name)

    def joined(self) -> AbstractContextManager[None]:
        """Code of the threads that make results of the statistics that are joined."""
        return self.present()

    def meet(self) -> None:
        """Turn the statistics of threads into the factors of the cluster's columns, in every thread."""
        k, norm, x = self.k, self.norm, self.x
        norm.combine(self)
        with self.where([k.tid % WARP < self.side] if self.side < WARP else []):
            self._words(self.part, k.tid // WARP, self.own, store=True)
        k.do(BAR)
        if x is not None:
            x.meet()
        with k.If(k.tid < WARP):
            read = partial(self._words, self.part, planes=self.others, store=False)
            norm.joined(self, map(read, self._shares(self.warps)))
            if x is not None:
                self._exchanged(x)
            norm.ready(self)
            with self.where([self.y.eq(0)]):
                self._words(self.final, 0, self.factors, store=True)
        k.do(BAR)
        with self.joined():
            self._words(self.final, 0, [self.used(name) for name in norm.factors], store=False)

    def _exchanged(self, x: Exchange) -> None:
        """Join the statistics of the blocks of a cluster, in the threads of the first warp."""
        for to in self._shares(x.blocks):
            x.send(self.row, to, *self.own)
        x.wait()

        def take(block: Expr) -> None:
            x.take(block * x.senders + self.row, *self.others)

        self.norm.joined(self, map(take, self._shares(x.blocks)))

    def _words(self, buffer: Shared, slot: Expr | int, planes: list[Reg], *, store: bool) -> None:
        """Store, or load, the words of a thread's columns in a slot of all columns, plane after plane."""
        before = as_expr(slot) * (self.side * _count(planes))
        for d in planes:
            (n,) = d.shape
            (put if store else get)(self, STS if store else LDS, buffer, before + self.row * n, d)
            before = before + self.side * n

    def _shares(self, count: int) -> Iterator[Expr]:
        """The slots, of `count`, of a thread of the first warp; the caller writes the code of each."""
        readers = max(1, WARP // self.side)
        with self.k.Unroll("n", -(-count // readers)) as n:
            slot = n * readers + self.y
            with self.where([slot < count] if count % readers else []):
                yield slot

    def hold(self) -> None:
        """Start all copies and loads: as many groups arrive in turn."""
        self.arriving = 0
        for group in self._rounds("shared", "registers"):
            self._fetch(group)
            if group.hold == "shared":
                self.k.do(CP_COMMIT)
        shared = (s for s in self.schedule.segments if s.hold == "shared")
        self.arriving = sum(-(-s.count // self.config.depth) for s in shared)

    def groups(self, *, backwards: bool = False) -> Iterator[Group]:
        """Groups of vectors in turn, in registers; the first time as soon as they are there."""
        arriving, self.arriving = self.arriving, 0
        for group in self._rounds("shared", "registers"):
            awaited = arriving > 0 and group.hold == "shared"
            if awaited:
                self.k.do(CP_WAIT, arriving - 1)
            if group.hold == "shared":
                group.visit(self._recall)
            yield group
            if awaited:  # an empty group, so that as many follow the next one
                self.k.do(CP_COMMIT)


class TurningBlock(SlabBlock):
    """A block of a cluster that goes from slab to slab: `turn` counts, `following` is the slab that comes in.

    While `result` is made of the vectors of the slab before, their places are filled with those of the one
    that follows, and statistics are made of these as they arrive: `groups` are of that slab.
    """

    turn: Expr
    following: Expr
    before: Expr
    of_before = False

    @property
    def clusters(self) -> int:
        """Clusters that are resident."""
        return self.walk.blocks // self.config.cluster

    def write(self) -> None:
        """The program: a turn for each slab of the block's cluster, and one more."""
        k, x, tiles = self.k, self.x, self.walk.tiles
        with k.For("turn", -(-tiles // self.clusters) + 1) as turn:
            self.turn = turn
            self.following = k.let("following", self.tile + turn * self.clusters)
            self.before = k.let("before", self.tile + minus(turn, 1) * self.clusters)
            self.norm.start(self)
            self.norm.online(self)
            with k.If(self.follows):
                if x is not None:
                    x.turn = turn
                self.meet()
                if x is not None:
                    with k.If(self.following + self.clusters < tiles):
                        x.again()

    def result(self, v: Vector) -> None:
        """A vector of the slab before becomes its result."""
        self.of_before = True
        super().result(v)
        self.of_before = False

    def used(self, name: str) -> Reg:
        """The registers of a factor of the slab before."""
        return self.reg(f"slab_{name}", self.statistics)

    def stat(self, name: str) -> Reg:
        """The registers of a statistic of the slab that follows; of factors in results, of the other."""
        return self.used(name) if self.of_before and name in self.norm.factors else super().stat(name)

    def has_row(self, place: Expr, *, exact: bool = False) -> list[Expr]:
        """The predicate that a place is one of the rows: of several modes the slab does not tell."""
        return super().has_row(place) or [place < self.walk.places] * (len(self.walk.row_extents) > 1)

    def joined(self) -> AbstractContextManager[None]:
        """Code of all threads: they make results when the next slab comes in."""
        return nullcontext()

    @property
    def follows(self) -> Expr:
        """The predicate that there is a slab that follows."""
        return self.following < self.walk.tiles

    def groups(self, *, backwards: bool = False) -> Iterator[Group]:
        """Groups of the slab that follows, behind the code that stores those of the slab before."""
        k, (main, others) = self.k, self._parts()
        for group in others:
            self._turn_over(group)
        k.do(CP_COMMIT)
        whole = main.count // self.config.depth
        lag = min(LAG, max(0, whole - 1))
        # a group is committed in every turn, and one for `others` before all: when all but `lag` have come,
        # that of `lag` turns ago is there, while the copies behind it are on their way
        for first, count in ((0, lag), (lag, whole - lag)):
            if not count:
                continue
            with k.For("g", count) as g:
                self._turn_over(self._main(main, g + first))
                k.do(CP_COMMIT)
                if first == lag:
                    k.do(CP_WAIT, lag)
                    yield from self._arrived(self._main(main, g))
        for left in reversed(range(lag)):
            k.do(CP_WAIT, left)
            yield from self._arrived(self._main(main, whole - 1 - left))
        if not whole:
            k.do(CP_WAIT, 0)
        for group in others:
            yield from self._arrived(group)

    def _parts(self) -> tuple[Group, list[Group]]:
        """The plain rounds in shared memory that are whole groups, and what is left, as groups."""
        depth, schedule = self.config.depth, self.schedule
        main, others = Group(self, 0, 0, 0, True, "shared"), []
        for s in schedule.segments:
            if s.hold == "registers":
                others.append(Group(self, s.first, s.first - schedule.staged, s.count, s.plain, s.hold))
                continue
            first, whole = s.first, s.count // depth * depth
            if s.plain and whole:
                main = Group(self, first, schedule.registers, whole, True, s.hold, first)
                first += whole
            for at in range(first, s.first + s.count, depth):
                count = min(depth, s.first + s.count - at)
                others.append(Group(self, at, schedule.registers, count, s.plain, s.hold, at))
        return main, others

    def _main(self, main: Group, g: Index) -> Group:
        """Group g of the plain ones."""
        first = g * self.config.depth + main.first
        return replace(main, first=first, count=self.config.depth, slot=first)

    def _turn_over(self, group: Group) -> None:
        """Store the results of a group, and fetch what follows into its place."""
        with self._standing("slab_", self.before, [self.turn >= 1, self.before < self.walk.tiles]):
            if group.hold == "shared":
                group.visit(self._recall)
            group.visit(self.result)
        with self._standing("next_", self.following, [self.follows]):
            self._fetch(group)

    def _arrived(self, group: Group) -> Iterator[Group]:
        """A group of the slab that follows, which is there, in registers."""
        with self.where([self.follows]):
            if group.hold == "shared":
                group.visit(self._recall)
            yield group

    @contextmanager
    def _standing(self, name: str, tile: Expr, where: list[Expr]) -> Iterator[None]:
        """Code at a position in a slab, under predicates that the slab exists."""
        here = self.place, self.bases
        with self.where(where):
            self.place = self.k.let(f"{name}place", as_expr(self.walk.place(tile, self.row)))
            source, target, row = self.walk.bases(self.place)
            come, go = self.k.let(f"{name}from", as_expr(source)), self.k.let(f"{name}to", as_expr(target))
            self.bases = Bases(come, go, row)
            with self.present():
                yield
        self.place, self.bases = here


def build_slabs(name: str, p: NormProblem, walk: Walk, c: NormConfig, notes: list[str], norm: Norm) -> Kernel:
    """The tile program of a norm whose columns the blocks of a cluster keep."""
    block = TurningBlock if 0 < c.resident < walk.tiles else SlabBlock
    b = block(name, p, walk, c, notes, norm)
    b.write()
    return b.k.build()


def _count(planes: list[Reg]) -> int:
    return sum(d.shape[0] for d in planes)
