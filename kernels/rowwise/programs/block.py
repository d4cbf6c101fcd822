"""The code of a block: the rows of its threads, their registers, and visits to all their vectors.

The idea.  `Block` is what every kernel over rows begins with: the builder, the walk, and the coordinates of a
thread.  `RowBlock` adds the source, the destination and the schedule of a norm.  What a thread holds are
vectors, and every step of the algorithm visits all of them, in each of these places:

    registers    loaded once, v[i] for every round i
    shared       copied asynchronously; each thread reads back its own vectors, so that no thread waits
    global       loaded again, `depth` of them at a time; what is left of plain rounds stays in registers

    for group in block.groups():      vectors that are in registers together
        group.visit(visit)            code for each of these vectors
    block.store(f, v)                 a vector of results; where a row starts or ends inside, its elements

Global memory is addressed by tensors: the modes of the walk with the strides of a side.  An access is the
index of its row, under a name, and what the step adds; it keeps its coordinate, so that building a kernel
proves that it stays below the extents.  What no coordinate says, in rows of `unaligned`, has an index alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeAlias

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, as_expr, simplify, variables
from layoutalg.codegen.language import KernelBuilder, Tensor
from layoutalg.codegen.program import Global, MemRef, Reg, RegRef, Shared
from layoutalg.dtype import DType
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.packed import PackedWalk
from layoutalg.kernels.rowwise.programs.runs import PackedRun
from layoutalg.kernels.rowwise.programs.vectors import store_cut
from layoutalg.kernels.rowwise.tensors import Mode
from layoutalg.kernels.rowwise.unaligned import minus
from layoutalg.kernels.rowwise.walk import (
    VECTOR_BYTES,
    WORD_BYTES,
    Bases,
    Chunk,
    Crd,
    Index,
    Side,
    Tiling,
    Walk,
)
from layoutalg.kernels.rowwise.ways import Hold, NormConfig, Ring, Schedule
from layoutalg.layout import Layout

Visit: TypeAlias = "Callable[[Vector], None]"
"""The code for a vector."""


ONE_WORD = frozenset({"count", "every", "more", "zero"})
"""Registers of one word, independent of the statistics of a thread."""


def float_word(x: float) -> int:
    """The bits of the float nearest to x.

    >>> hex(float_word(1.0))
    '0x3f800000'
    """
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return int(bits)


def all_of(predicates: Iterable[Index]) -> Expr:
    """The conjunction of predicates; 1 of none.

    >>> print(all_of([]))
    1
    """
    total: Expr = Const(1)
    for p in predicates:
        total = total & as_expr(p)
    return simplify(total)


class Block:
    """A kernel over rows: the builder `k`, the walk, and the position of a thread.

    `tile` and `split` are the block's, `row` and `y` the thread's row of the block and its number among the
    threads of that row, which are `lane` of group `group`; `thread` has both without a name.  `backwards`
    turns the order of the blocks round: what the kernel before has read last is read first, while L2 has it.
    `run` is the block's run of memory, where it copies one; `of_rows`: the code is of threads with a row.
    """

    src: Tensor
    run: PackedRun
    prefix = ""
    of_rows = False

    def __init__(self, name: str, walk: Walk, notes: list[str], *, backwards: bool = False) -> None:
        self.walk, self.tiling = walk, walk.tiling
        self.element = self.tiling.element
        self.k = k = KernelBuilder(name, self.tiling.threads, notes=notes)
        blocks = simplify(as_expr(walk.blocks))
        for rows in variables(blocks):
            k.param(rows.name, rows.facts.hi)
        block: Expr = k.block(0, blocks)
        k.cluster(self.tiling.cluster)
        if backwards:
            block = k.let("block", minus(walk.blocks - 1, block, walk.blocks))
        tile, split = walk.block(block)
        self.tile = k.let("tile", as_expr(tile))
        self.split = k.let("split", as_expr(split))
        self.thread = row, y = tuple(as_expr(i) for i in walk.thread(k.tid))
        self.lane, self.group = y % self.tiling.lanes, y // self.tiling.lanes
        self.row, self.y = k.let("row", row), k.let("y", y)
        self._regs: dict[str, Reg] = {}
        self._partials = 0
        if isinstance(walk, PackedWalk):
            self.run = PackedRun(k, walk, self.tile, self.where)

    # --- registers -------------------------------------------------------------------------------------

    def reg(self, name: str, count: int) -> Reg:
        """Registers by name, declared on first use."""
        if name not in self._regs:
            self._regs[name] = self.k.reg(self.prefix + name, count)
        return self._regs[name]

    def filled(self, name: str, count: int, word: int) -> Reg:
        """Registers by name, set to a word here."""
        found = self.reg(name, count)
        self.k.do(instr.fill(count), found, Const(word))
        return found

    def copied(self, name: str, d: Reg) -> Reg:
        """Registers by name, set to what `d` has here."""
        found = self.reg(name, *d.shape)
        for i in range(*d.shape):
            self.k.do(instr.MOVE, found[i], d[i])
        return found

    def widened(self, words: RegRef, vec: int, name: str) -> RegRef:
        """Packed elements as floats, in registers of a name; floats and integers stay where they are."""
        if self.element.name not in instr.PACKED:
            return words
        f = self.reg(name, vec)
        some = f.slice(0, count=vec) if f.shape != (vec,) else RegRef(f, ())
        self.k.do(instr.convert(vec, self.element.name, "f32"), some, words)
        return some

    # --- places in global memory -----------------------------------------------------------------------

    def tensor(
        self, name: str, side: Side, modes: Sequence[Mode] | None = None, element: DType | None = None,
        *, writable: bool = False,
    ) -> Tensor:  # fmt: skip
        """A pointer as a tensor: all or some modes on a side, and one of stride 1 behind them.

        That is the offset, or all of a place that is no inner product.  What runs backwards has no extent.
        """
        modes = self.walk.modes if modes is None else modes
        steps = (*(abs(getattr(m, side)) for m in modes), 1)
        bounds = (None if getattr(m, side) < 0 else as_expr(m.extent) for m in modes)
        found = self.k.tensor(name, element or self.element, (None,) * len(steps), steps, writable=writable)
        return replace(found, extents=(*bounds, None))

    def at(self, tensor: Tensor, index: Index, crd: Crd = (), offset: int = 0) -> MemRef:
        """The element at an index, which is that of a coordinate from an offset on where there is one."""
        place = simplify(as_expr(index))
        if not crd:
            return MemRef(tensor.buffer, place)
        return MemRef(tensor.buffer, place, tensor, (*map(as_expr, crd), Const(offset)))

    def source(self, chunk: Chunk) -> MemRef:
        """The address of a vector in the source."""
        return self.at(self.src, chunk.source, chunk.crd, self.walk.form.src_offset)

    # --- the position of code --------------------------------------------------------------------------

    @contextmanager
    def where(self, predicates: Iterable[Index]) -> Iterator[None]:
        """Code under the conjunction of predicates; under nothing if there are none."""
        total = all_of(predicates)
        if total == Const(1):
            yield
        else:
            with self.k.If(total):
                yield

    def has_row(self, place: Expr, *, exact: bool = False) -> list[Expr]:
        """The predicate that a thread's place is one of the rows, or unless `exact` of zeros behind them."""
        if isinstance(self.walk, PackedWalk):
            return [*map(as_expr, self.walk.present(self.run.start, place, exact=exact))]
        each = self.tiling.rows_per_block * self.tiling.rows_per_thread
        whole = self.of_rows or as_expr(self.walk.places).facts.divisible_by(each)
        return [] if whole else [self.walk.is_row(place)]

    def partials(self, size: int) -> Shared:
        """Shared memory for the partials of one exchange, in words: each exchange has its own."""
        self._partials += 1
        return self.k.shared_buffer(f"partials{self._partials - 1}", 4, Layout((size,)), size, 16)


class NormBlock(Block):
    """A block of a norm: the registers of its statistics, and the position of a thread's row.

    `in_warps`: from here on statistics are joined between the lanes of a warp alone.  `saves`: it leaves its
    statistics to another kernel.
    """

    saves = in_warps = False
    _split_partials: Global | None = None

    def __init__(
        self, name: str, problem: NormProblem, walk: Walk, notes: list[str], *, backwards: bool = False
    ) -> None:
        super().__init__(name, walk, notes, backwards=backwards)
        self.problem = problem

    def split_partials(self, *, writable: bool = False) -> Global:
        """The partials of splits in global memory, declared on first use."""
        if self._split_partials is None:
            self._split_partials = self.k.pointer("partial", 4, writable=writable)
        return self._split_partials

    def _stand(self, n: Index = 0) -> None:
        """Set the start of the vectors of the thread's row n."""
        k, walk = self.k, self.walk
        self.place = k.let("place", as_expr(walk.place(self.tile, self.row, n)))
        source, target, row = walk.bases(self.place)
        source, target = k.let("source", as_expr(source)), k.let("target", as_expr(target))
        self.bases = Bases(source, target, row)

    @property
    def statistics(self) -> int:
        """Statistics of a thread: 1 of a row, one for each element of a vector of columns."""
        return self.walk.values

    def stat(self, name: str) -> Reg:
        """The registers of a statistic by name, one value of each; one word of those of `ONE_WORD`."""
        return self.reg(name, 1 if name in ONE_WORD else self.statistics)

    def zeros(self, name: str) -> Reg:
        """The same, set to 0 here."""
        return self.filled(name, self.stat(name).shape[0], 0)

    def present(self) -> AbstractContextManager[None]:
        """Code of threads whose row exists, or is zeros."""
        return self.where(self.has_row(self.place))

    def by_column(self) -> Self:
        """The same block of columns with one column for each thread, in registers of their own."""
        tiling = Tiling(self.element, 1, self.tiling.threads, 1)
        one = copy(self)
        one.prefix, one._regs = "one_", {}
        one.walk, one.tiling = Walk(self.walk.form, tiling), tiling
        return one


class RowBlock(NormBlock):
    """A block of a norm: source, destination, and the vectors that its threads hold or fetch again.

    `writes` says that it writes the destination, in place the source; else it saves statistics.
    """

    def __init__(
        self, name: str, problem: NormProblem, walk: Walk, config: NormConfig, notes: list[str],
        *, writes: bool, backwards: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name, problem, walk, notes, backwards=backwards)
        k, t, self.saves = self.k, self.tiling, not writes
        self.config, self.schedule = config, Schedule(walk, config)
        in_place, packed = problem.in_place, isinstance(walk, PackedWalk)
        modes = () if packed else None
        self.src = self.tensor("dst" if in_place else "src", "src", modes, writable=in_place and writes)
        own = in_place or not writes
        self.dst = self.src if own else self.tensor("dst", "dst", modes, problem.result, writable=True)
        self.result_words = max(1, t.vec * problem.result.nbytes // WORD_BYTES)
        adds = problem.norm.adds
        self.residual = self.tensor("residual", "src", modes, writable=True) if adds else None
        if not packed and not config.together:
            self._stand()
        fetched = 0 if config.hold == "registers" else config.depth
        self.v = k.reg("v", self.schedule.registers + fetched + config.depth * adds, t.words)
        if self.schedule.staged and not packed:
            room = self.schedule.staged * t.threads * t.nbytes
            self.held = k.shared_buffer("held", 1, Layout((room,)), room, 16)
        self._extras: dict[str, Tensor] = {}

    @contextmanager
    def turns(self) -> Iterator[None]:
        """Code for each of a thread's rows in turn, in a run that is in shared memory."""
        count = self.tiling.rows_per_thread
        with self.k.For("turn", count) if count > 1 else nullcontext(0) as turn:
            self._stand(turn)
            for group in self._rounds("registers"):
                group.visit(self._recall)
            yield

    @contextmanager
    def rows_in_turn(self) -> Iterator[Index]:
        """Code for each of the rows that a block of those that are resident has a part of, in turn."""
        walk, first, at_once = self.walk, self.tile, self.walk.tiles_at_once
        count = -(-walk.tiles // at_once)
        with self.k.For("row_turn", count) if count > 1 else nullcontext(0) as turn:
            self.tile = self.k.let("row_tile", first + as_expr(turn) * at_once)
            with self.where([self.tile < walk.tiles] if walk.tiles % at_once else []):
                self._stand()
                yield turn
        self.tile = first

    def extra(self, name: str) -> Tensor:
        """Weight or bias by name, declared on first use."""
        if name not in self._extras:
            self._extras[name] = self.tensor(name, "weight", self.walk.reduced)
        return self._extras[name]

    # --- vectors ---------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Fetch what stays: into shared memory, and into registers; of what is read twice, what is left."""
        for group in self._rounds("shared", "registers"):
            self._fetch(group)
        if self.config.hold == "shared":
            self.k.do(instr.CP_COMMIT)
            self.k.do(instr.CP_WAIT, 0)

    def groups(self, *, backwards: bool = False) -> Iterator[Group]:
        """Groups of vectors in turn, in registers; what is written while one is current follows its fetch.

        Backwards, those that were read last come first, while L2 has them.
        """
        if self.schedule.ring:
            if self.config.together:
                yield from self._keeping(self.schedule.ring, backwards=not backwards)
                return
            yield from self._stream(self.schedule.ring, backwards=backwards)
            return
        fetch: dict[Hold, Visit] = {"shared": self._recall, "global": self._load}
        for group in self._rounds("registers", *fetch, backwards=backwards):
            if group.hold in fetch:
                group.visit(fetch[group.hold])
            yield group

    def ahead(self, *, backwards: bool = False) -> None:
        """Start the first copies, where `groups` reads through a ring: that goes on from there."""
        ring, backwards = self.schedule.ring, backwards != self.config.together
        if ring is not None:
            with self.present():
                for slot in range(ring.slots):
                    group = self._turn(ring, slot, slot, backwards=backwards, plain=ring.plain)
                    self._start(group)

    def _keeping(self, ring: Ring, *, backwards: bool) -> Iterator[Group]:
        """The same where blocks wait for each other: backwards first, then, from what the ring has kept,
        forwards; so the last groups of the first time exist, for any number of rounds."""
        k, (low, high) = self.k, self.schedule.plain
        with self.present(), k.For("turn", ring.turns) as turn, k.For("slot", ring.slots) as slot:
            # a group is committed for every slot that is passed: all but the newest slots - 1 have arrived,
            # and those are of the slots that follow
            k.do(instr.CP_WAIT, ring.slots - 1)
            n, at = turn * ring.slots + slot, slot if backwards else minus(ring.slots - 1, slot, ring.slots)
            here = self._turn(ring, n, at, backwards=backwards, plain=False)
            group = replace(here, first=(first := k.let("first", as_expr(here.first))))
            if low == high:
                group.visit(self._recall)
                yield group
            else:
                # rounds that ends of rows cut are visited one by one: the others need no predicates then
                with k.If((first >= low) & (first + self.config.depth <= high)):
                    plain = replace(group, plain=True)
                    plain.visit(self._recall)
                    yield plain
                with k.Else(), k.For("edge", self.config.depth) as n:
                    one = replace(group, first=first + n, count=1, slot=group.slot + n)
                    one.visit(self._recall)
                    yield one
            next_one = turn * ring.slots + slot + ring.slots
            self._start(self._turn(ring, next_one, at, backwards=backwards, plain=False))

    def _stream(self, ring: Ring, *, backwards: bool) -> Iterator[Group]:
        """All rounds, through a ring in shared memory: each copy is followed by the next into its place."""
        k = self.k
        with self.present(), k.For("turn", ring.turns) as turn, k.Unroll("slot", ring.slots) as slot:
            k.do(instr.CP_WAIT, ring.slots - 1)  # as in `_keeping`
            n = turn * ring.slots + slot
            group = self._turn(ring, n, slot, backwards=backwards, plain=ring.plain)
            group.visit(self._recall)
            yield group
            self._start(self._turn(ring, n + ring.slots, slot, backwards=backwards, plain=False))

    def _start(self, group: Group) -> None:
        """Start the copies of a group."""
        group.visit(self._copy)
        self.k.do(instr.CP_COMMIT)

    def _turn(self, ring: Ring, n: Index, slot: Index, *, backwards: bool, plain: bool) -> Group:
        """Group n of those that go through a ring, in a slot of it."""
        depth, every = self.config.depth, ring.turns * ring.slots
        n = minus(every - 1, n, 2 * every) if backwards else n
        return Group(self, n * depth, 0, depth, plain, "shared", slot * depth)

    def each(self, visit: Visit, *, backwards: bool = False) -> None:
        """Visit every vector."""
        for group in self.groups(backwards=backwards):
            group.visit(visit)

    def _rounds(self, *holds: Hold, backwards: bool = False) -> Iterator[Group]:
        """The rounds that are held so: in registers all at once, others `depth` at a time in a loop."""
        depth, schedule = self.config.depth, self.schedule
        segments = [s for s in schedule.segments if s.hold in holds]
        with self.present():
            for s in segments[:: -1 if backwards else 1]:
                if s.hold == "registers":
                    held = 0 if self.config.hold == "global" else s.first - schedule.staged
                    yield Group(self, s.first, held, s.count, s.plain, s.hold)
                    continue
                whole, left = divmod(s.count, depth)
                if whole:
                    with self.k.For("g", whole) as g:
                        first = (minus(whole - 1, g, whole) if backwards else g) * depth + s.first
                        yield Group(self, first, schedule.registers, depth, s.plain, s.hold, first)
                if left:
                    rest = whole * depth + s.first
                    yield Group(self, rest, schedule.registers, left, s.plain, s.hold, rest)

    def _fetch(self, group: Group) -> None:
        """Fetch a group to where it stays; with a residual by loads, as asynchronous copies compute nothing.

        Sums are stored when `depth` vectors of both have been asked for: no load passes a store.
        """
        if self.residual is None:
            group.visit(self._copy if group.hold == "shared" else self._load)
            return
        for first in range(0, group.count, self.config.depth):
            part = replace(
                group, first=group.first + first, held=group.held + first * (group.hold == "registers"),
                slot=group.slot + first, count=min(self.config.depth, group.count - first),
            )  # fmt: skip
            part.visit(partial(self._load_both, self.residual))
            part.visit(partial(self._add, self.residual, group.hold))

    def _load(self, v: Vector) -> None:
        with self._into(v):
            self.k.do(instr.LDG[self.tiling.nbytes], v.words, self.source(v.chunk))

    def _load_both(self, residual: Tensor, v: Vector) -> None:
        self._load(v)
        with self._into(v, self._other(v)):
            self.k.do(instr.LDG[self.tiling.nbytes], self._other(v), self._of_residual(residual, v))

    def _add(self, residual: Tensor, hold: Hold, v: Vector) -> None:
        """Add a vector of the residual, rounded to the type of the elements; the sum is written over it."""
        k, vec, nbytes = self.k, self.tiling.vec, self.tiling.nbytes
        f = self.floats(v)
        k.do(instr.fold("sum", vec, vec), f, self.widened(self._other(v), vec, "other_floats"))
        if self.element.name != "f32":
            k.do(instr.convert(vec, "f32", self.element.name), v.words, f)
        with self.where(self._wanted(v)):
            k.do(instr.STG_WHOLE[nbytes], self._of_residual(residual, v), v.words)
            if hold == "shared":
                k.do(instr.STS[nbytes], self._slot(v), v.words)

    def _other(self, v: Vector) -> RegRef:
        """The registers of a residual's vector, behind those of the source."""
        return self.v[self.v.shape[0] - self.config.depth + v.n]

    def _of_residual(self, residual: Tensor, v: Vector) -> MemRef:
        return self.at(residual, v.chunk.source, v.chunk.crd, self.walk.form.src_offset)

    def _copy(self, v: Vector) -> None:
        with self.where(self._wanted(v)):
            self.k.do(instr.CP_ASYNC[self.tiling.nbytes], self._slot(v), self.source(v.chunk))

    def _recall(self, v: Vector) -> None:
        with self._into(v):
            self.k.do(instr.LDS[self.tiling.nbytes], v.words, self._slot(v))

    def _into(self, v: Vector, words: RegRef | None = None) -> AbstractContextManager[None]:
        """Code that fills a vector's registers where it is wanted; they are zeros where it is not."""
        wanted = self._wanted(v)
        if wanted:
            self.k.do(instr.fill(self.tiling.words), words or v.words, Const(0))
        return self.where(wanted)

    def _wanted(self, v: Vector) -> tuple[Index, ...]:
        """The predicates that a vector of a step that exists is to be read."""
        return self.walk.readable(v.chunk)

    def _slot(self, v: Vector) -> MemRef:
        """The address of a vector that a thread holds in shared memory."""
        t = self.tiling
        if isinstance(self.walk, PackedWalk):
            return self.run.at(v.chunk.source)
        return self.k.at(self.held, (v.slot * t.threads + self.k.tid) * t.nbytes)

    def floats(self, v: Vector) -> RegRef:
        """The elements of a vector as floats: its own registers if they are."""
        return self.widened(v.words, self.tiling.vec, "f")

    def masked(self, v: Vector, other: Reg) -> RegRef:
        """The elements as floats, those of other rows replaced."""
        f = self.floats(v)
        if v.cut and self.walk.rows:
            self.k.do(instr.within(self.tiling.vec), f, *v.chunk.ends, other)
        return f

    def store(self, f: RegRef, v: Vector) -> None:
        """Write a vector of floats as elements; of one that its row shares with others, those of the row."""
        words, element = f, self.problem.result.name
        if element != "f32":
            words = RegRef(self.reg("packed", self.result_words), ())
            self.k.do(instr.convert(self.tiling.vec, "f32", element), words, f)
        if isinstance(self.walk, PackedWalk):
            self.k.do(instr.STS[self.tiling.nbytes], self._slot(v), words)
            return
        if v.cut:
            store_cut(self, words, v.chunk)
        else:
            self.store_whole(words, v.chunk)

    def store_whole(self, words: RegRef, chunk: Chunk) -> None:
        """Write a vector; of elements that are wider than the source's, in several stores."""
        vec, size, offset = self.tiling.vec, self.problem.result.nbytes, self.walk.form.dst_offset
        crd = chunk.crd and self.walk.counted(chunk.crd, self.walk.modes, "dst")
        some = min(vec, VECTOR_BYTES // size)
        for e in range(0, vec, some):
            part = words if some == vec else RegRef(words.reg, (*words.index, Const(e)), some)
            to = self.at(self.dst, chunk.target + e, crd, offset + e)
            self.k.do(instr.STG_WHOLE[some * size], to, part)


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector that is visited: its registers, its place in shared memory, its number in the group.

    `plain`: it exists in every thread; `cut`: some of its elements may be another row's.
    """

    words: RegRef
    chunk: Chunk
    slot: Index
    n: Index
    plain: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Vectors that are in registers together: those of `count` rounds from `first` on.

    `held` is the first one's register, `slot` its place in shared memory; `hold` says where they come from.
    """

    block: RowBlock
    first: Index
    held: int
    count: int
    plain: bool
    hold: Hold
    slot: Index = 0

    def visit(self, visit: Visit) -> None:
        """Write code for every vector, where it exists."""
        b, walk, rounds = self.block, self.block.walk, self.block.schedule.rounds
        with b.k.Unroll("u", self.count) as u:
            i = b.split * rounds + self.first + u
            if (dealt := b.config.dealt) > 1:
                i = (self.first + u) * dealt + b.split
            step = b.k.let("step", as_expr(walk.step(b.y, i)))
            chunk = walk.chunk(b.bases, step)
            exists = [] if self.plain else list(walk.exists(step, chunk))
            if exists and b.config.splits > 1 and dealt == 1:  # the next block's steps follow
                exists.append(as_expr(self.first + u) < rounds)
            with b.where(exists):
                cut = walk.cut and not self.plain
                visit(Vector(b.v[u + self.held], chunk, self.slot + u, u, self.plain, cut))
