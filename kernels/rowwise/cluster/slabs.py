"""Norms over columns, of which the blocks of a cluster keep a slab until its statistics are known.

The idea.  Slabs are 64 or 128 bytes wide: memory is read by halves of lines, and written by lines.  A slab is
too large for a block, so that the blocks of a cluster have rows of it in turn, in shared memory and in
registers.  Statistics are made of groups of vectors while others are on their way, and are joined by few
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

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from layoutalg.codegen.expr import Const, Expr, as_expr
from layoutalg.codegen.instr import BAR, CP_COMMIT, CP_WAIT, LDS, STS
from layoutalg.codegen.program import Kernel, Reg, Shared
from layoutalg.kernels.rowwise.block import Group, RowBlock, Vector, Visit
from layoutalg.kernels.rowwise.block_reduce import get, put
from layoutalg.kernels.rowwise.cluster.exchange import Exchange
from layoutalg.kernels.rowwise.norm_plan import NormConfig
from layoutalg.kernels.rowwise.problems import NormProblem
from layoutalg.kernels.rowwise.slab_plan import neighbours
from layoutalg.kernels.rowwise.walk import WARP, Bases, Walk

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.norm import Norm


class SlabBlock(RowBlock):
    """A block of a cluster that keeps slabs of columns.

    `arriving`: copies of the slab are on their way, and `groups` waits for each.  `following` is the
    cluster's next slab.
    """

    def __init__(
        self, name: str, problem: NormProblem, walk: Walk, config: NormConfig, notes: list[str]
    ) -> None:
        super().__init__(name, problem, walk, config, notes, writes=True)
        held = (s for s in self.schedule.segments if s.hold == "shared")
        self.copies = sum(-(-s.count // config.depth) for s in held)
        self.clusters = walk.blocks // config.cluster
        self.turns = -(-walk.tiles // self.clusters)
        self.arriving, self.in_warps, self.following = False, True, self.tile

    def slabs(self) -> Iterator[Expr]:
        """The slabs of the block's cluster in turn, the first of which is on its way; each with its turn."""
        k, first, tiles = self.k, self.tile, self.walk.tiles
        if self.turns == 1:
            self.arriving = True
            yield Const(0)
            return
        with k.For("turn", self.turns) as turn:
            tile = k.let("slab", first + turn * self.clusters)
            with self.where([tile < tiles] if tiles % self.clusters else []):
                self.tile, self.arriving = tile, True
                self.following = k.let("following", tile + self.clusters)
                self.place, self.bases = self._stands("slab_", tile)
                yield turn

    def hold(self) -> None:
        """Start all copies and loads of a slab."""
        for group in self._rounds("shared", "registers"):
            self._fetch(group)

    def groups(self, *, backwards: bool = False) -> Iterator[Group]:
        """Groups of vectors in turn, in registers, as soon as they are there."""
        arriving, self.arriving = self.arriving, False
        for group in self._rounds("shared", "registers"):
            kept = group.hold == "shared"
            if arriving and kept:
                self.k.do(CP_WAIT, self.copies - 1)
            if kept:
                group.visit(self._recall)
            yield group
            if arriving and kept:
                self.k.do(CP_COMMIT)

    def results(self, visit: Visit) -> None:
        """Visit every vector for the last time; its place is then the next slab's."""
        for group in self.groups():
            group.visit(visit)
            if self.turns > 1:
                with self._next_slab():
                    group.visit(self._copy if group.hold == "shared" else self._load)
                if group.hold == "shared":
                    self.k.do(CP_COMMIT)

    def _fetch(self, group: Group) -> None:
        shared = group.hold == "shared"
        group.visit(self._copy if shared else self._load)
        if shared:
            self.k.do(CP_COMMIT)

    @contextmanager
    def _next_slab(self) -> Iterator[None]:
        """Code in which the block stands in its cluster's next slab, where there is one."""
        here = self.place, self.bases
        with self.where([self.following < self.walk.tiles]):
            self.place, self.bases = self._stands("next_", self.following)
            with self.present():
                yield
        self.place, self.bases = here

    def _stands(self, name: str, tile: Expr) -> tuple[Expr, Bases]:
        """The thread's place in a slab, and where its columns begin."""
        place = self.k.let(f"{name}place", as_expr(self.walk.place(tile, self.row)))
        source, target, at, row = self.walk.bases(place)
        where = (self.k.let(f"{name}{x}", as_expr(y)) for x, y in (("source", source), ("target", target)))
        return place, Bases(*where, at, row)


def build_slabs(name: str, p: NormProblem, walk: Walk, c: NormConfig, notes: list[str], norm: Norm) -> Kernel:
    """The tile program of a norm whose columns the blocks of a cluster keep."""
    b = SlabBlock(name, p, walk, c, notes)
    words = sum(b.stat(name).shape[0] for name in norm.partials)
    x = Exchange(b.k, b.tiling.rows_per_block, words)
    room = Room(b, norm)
    x.open()
    b.hold()

    def result(v: Vector) -> None:
        norm.apply(b, f := b.floats(v), v)
        b.store(f, v)

    b.k.min_blocks = neighbours(b.k.shared_end(1), c.threads)
    for turn in b.slabs():
        x.turn = turn
        norm.start(b)
        norm.online(b)
        room.join(x)
        b.results(result)
    return b.k.build()


class Room:
    """Shared memory in which the warps of a block meet: a slot for each, and one for the factors."""

    def __init__(self, b: SlabBlock, norm: Norm) -> None:
        self.b, self.norm, self.side = b, norm, b.tiling.rows_per_block
        self.own, self.others = (
            [b.stat(name) for name in names] for names in (norm.partials, norm.partials.values())
        )
        self.factors, self.warps = [b.stat(name) for name in norm.factors], b.tiling.threads // WARP
        self.part = b.partials(self.warps * self.side * _words(self.own))
        self.final = b.partials(self.side * _words(self.factors))

    def join(self, x: Exchange) -> None:
        """From the statistics of threads to the factors of the cluster's columns, in every thread."""
        b, k, norm = self.b, self.b.k, self.norm
        norm.combine(b)
        with b.where([k.tid % WARP < self.side] if self.side < WARP else []):
            self._words(self.part, k.tid // WARP, self.own, store=True)
        k.do(BAR)
        x.meet()
        with k.If(k.tid < WARP):
            self._joined(self.warps, lambda warp: self._words(self.part, warp, self.others, store=False))
            for to in self._shares(x.blocks):
                x.send(b.row, to, *self.own)
            x.wait()
            self._joined(x.blocks, lambda block: x.take(block * x.senders + b.row, *self.others))
            norm.ready(b)
            with b.where([b.y.eq(0)]):
                self._words(self.final, 0, self.factors, store=True)
        k.do(BAR)
        if b.turns > 1:
            with b.where([b.following < b.walk.tiles]):
                x.again()
        self._words(self.final, 0, self.factors, store=False)

    def _words(self, buffer: Shared, slot: Expr | int, planes: list[Reg], *, store: bool) -> None:
        """Store, or load, the words of a thread's columns in a slot of all columns, plane after plane."""
        b, before = self.b, as_expr(slot) * (self.side * _words(planes))
        for d in planes:
            (n,) = d.shape
            (put if store else get)(b, STS if store else LDS, buffer, before + b.row * n, d)
            before = before + self.side * n

    def _joined(self, slots: int, take: Callable[[Expr], None]) -> None:
        """Join the statistics of all slots, in the threads of the first warp."""
        self.norm.start(self.b)
        for slot in self._shares(slots):
            take(slot)
            self.norm.join(self.b)
        self.norm.combine(self.b)

    def _shares(self, count: int) -> Iterator[Expr]:
        """Of so many slots those that a thread of the first warp has, as code for each."""
        b, readers = self.b, max(1, WARP // self.side)
        with b.k.Unroll("n", -(-count // readers)) as n:
            slot = n * readers + b.y
            with b.where([slot < count] if count % readers else []):
                yield slot


def _words(planes: list[Reg]) -> int:
    return sum(d.shape[0] for d in planes)
