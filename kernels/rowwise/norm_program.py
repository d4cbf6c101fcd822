"""The parts that softmax and layer norm are made of: fetching, visiting, reducing in a block, storing.

The idea.  A `Body` is a kernel being written.  What a thread holds are vectors, and every step of the
algorithm visits all of them, wherever they are held:

    registers    loaded once, v[i] for every round i
    shared       copied asynchronously; each thread reads back its own vectors, so that nobody waits
    global       loaded again, `depth` of them at a time; what is left of plain rounds stays in registers

    for group in body.groups():      vectors that are in registers together
        group.visit(visit)           code for each of these vectors
    body.store(f, v)                 a vector of results; where a row starts or ends inside, its elements

Notes.  What threads tell each other is in norm_exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from layoutalg.codegen.expr import Const, Expr, Var, as_expr, minus
from layoutalg.codegen.instr import (
    CP_ASYNC,
    CP_COMMIT,
    CP_WAIT,
    LDG,
    LDS,
    MOVE,
    STG,
    STG_WHOLE,
    fill,
    pack,
    unpack,
    within,
)
from layoutalg.codegen.program import Global, KernelBuilder, MemRef, Reg, RegRef
from layoutalg.kernels.rowwise.norm_modes import NormModes
from layoutalg.kernels.rowwise.norm_pieces import Bases, Chunk, Hold, Index, Ring
from layoutalg.kernels.rowwise.norm_vectors import words
from layoutalg.kernels.rowwise.norm_walk import NormConfig, Walk
from layoutalg.layout import Layout

Visit: TypeAlias = "Callable[[Vector], None]"
"""What is done with a vector."""


class Body:
    """A kernel that is being written: a block's indices, registers and buffers, and the parts above.

    `only_owned`: from here on only vectors that the block writes are read, for a second time.
    `writes` says that it writes the destination, in place the source; else it saves statistics.  `backwards`
    turns the order of the blocks round: what the kernel before has read last is read first, while L2 has it.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> x = shortest(norm_problem("softmax", (8, 128), 1, "f32"))
    >>> Body("softmax", x, NormConfig(4, 2, 16, "registers"), [], writes=True).v.shape
    (2, 4)
    """

    def __init__(
        self,
        name: str,
        x: NormModes,
        c: NormConfig,
        notes: list[str],
        *,
        writes: bool,
        backwards: bool = False,
    ) -> None:
        self.walk, self.config, self.modes = Walk(x, c), c, x
        self.size, self.element = x.element_bytes, str(x.problem.dtype)
        self.k = k = KernelBuilder(name, c.threads, notes=notes)
        in_place = x.problem.in_place
        self.src = k.pointer("dst" if in_place else "src", self.size, writable=in_place and writes)
        self.dst = self.src if in_place or not writes else k.pointer("dst", self.size, writable=True)
        block: Expr = k.block(0, self.walk.blocks)
        if backwards:
            block = k.let("block", self.walk.blocks - 1 - block)
        first, split = self.walk.block(block)
        side, y = self.walk.thread(k.tid)
        self.side, self.y = k.let("side", as_expr(side)), k.let("y", as_expr(y))
        self.split = k.let("split", as_expr(split))
        self.column = k.let("column", as_expr(first + self.side))
        source, target, at = map(as_expr, self.walk.bases(self.column))
        self.bases = Bases(k.let("source", source), k.let("target", target), k.let("at", at))
        self.places = self._places() if self.walk.skewed else ()
        held = sum(s.count for s in self.walk.segments if s.hold == "registers")
        fetched = 0 if c.hold == "registers" else c.depth
        self.v = k.reg("v", held + fetched, words(c.vec, self.size))
        if self.walk.staged:
            room = self.walk.staged * c.threads * self.nbytes
            self.held = k.shared_buffer("held", 1, Layout((room,)), room, 16)
        self.only_owned, self.saves = False, not writes
        self._regs: dict[str, Reg] = {}
        self._extras: dict[str, Global] = {}
        self._exchanges = 0

    def _places(self) -> tuple[Var, ...]:
        """The places in a skewed tile of the columns of a thread's vectors."""
        shift = self.walk.shift(self.bases, self.y)
        found = (self.walk.place(self.side, shift, e) for e in range(self.config.vec))
        return tuple(self.k.let(f"place{e}", as_expr(at)) for e, at in enumerate(found))

    def next_exchange(self) -> int:
        """A number for an exchange between threads: each has a buffer of its own."""
        self._exchanges += 1
        return self._exchanges - 1

    @property
    def statistics(self) -> int:
        """Statistics of a thread."""
        return self.walk.statistics

    @property
    def nbytes(self) -> int:
        """Bytes of a vector."""
        return self.config.vec * self.size

    def reg(self, name: str, count: int) -> Reg:
        """Registers by name, declared when they are first asked for."""
        if name not in self._regs:
            self._regs[name] = self.k.reg(name, count)
        return self._regs[name]

    def filled(self, name: str, count: int, word: int) -> Reg:
        """Registers by name, set to a word here."""
        found = self.reg(name, count)
        self.k.do(fill(count), found, Const(word))
        return found

    def extra(self, name: str) -> Global:
        """A further source by name, declared when it is first asked for."""
        if name not in self._extras:
            self._extras[name] = self.k.pointer(name, self.size)
        return self._extras[name]

    def copied(self, name: str, d: Reg) -> Reg:
        """Registers by name, set to what `d` has here."""
        found = self.reg(name, *d.shape)
        for i in range(*d.shape):
            self.k.do(MOVE, found[i], d[i])
        return found

    # --- where code stands -----------------------------------------------------------------------------

    @contextmanager
    def where(self, predicates: Iterable[Index]) -> Iterator[None]:
        """Code under the conjunction of predicates; under nothing if there are none."""
        total: Expr | None = None
        for p in predicates:
            total = as_expr(p) if total is None else total & as_expr(p)
        if total is None:
            yield
        else:
            with self.k.If(total):
                yield

    @contextmanager
    def present(self) -> Iterator[None]:
        """Code of threads whose column exists."""
        columns = prod(self.walk.columns)
        with self.where([self.column < columns] if columns % self.config.rows_per_block else []):
            yield

    # --- vectors ---------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Fetch what stays: into shared memory, and into registers; of what is read twice, what is left."""
        fetch: dict[Hold, Visit] = {"shared": self._copy, "registers": self._load}
        for group in self._rounds(*fetch):
            group.visit(fetch[group.hold])
        if self.config.hold == "shared":
            self.k.do(CP_COMMIT)
            self.k.do(CP_WAIT, 0)

    def groups(self, *, backwards: bool = False) -> Iterator[Group]:
        """Groups of vectors in turn, in registers; what is written while one is current follows its fetch.

        Backwards, those that were read last come first, while L2 has them.
        """
        if self.walk.ring:
            yield from self._stream(self.walk.ring, backwards=backwards)
            return
        fetch: dict[Hold, Visit] = {"shared": self._recall, "global": self._load}
        for group in self._rounds("registers", *fetch, backwards=backwards):
            if group.hold in fetch:
                group.visit(fetch[group.hold])
            yield group

    def ahead(self, *, backwards: bool = False) -> None:
        """Start the first copies, where `groups` reads through a ring: that goes on from there."""
        ring = self.walk.ring
        if ring is not None:
            with self.present():
                for slot in range(ring.slots):
                    self._start(self._turn(ring, slot, slot, backwards=backwards, plain=ring.plain))

    def _stream(self, ring: Ring, *, backwards: bool) -> Iterator[Group]:
        """All rounds, through a ring in shared memory: each copy is followed by the next into its place."""
        k = self.k
        with self.present(), k.For("turn", ring.turns) as turn, k.Unroll("slot", ring.slots) as slot:
            k.do(CP_WAIT, ring.slots - 1)
            n = turn * ring.slots + slot
            group = self._turn(ring, n, slot, backwards=backwards, plain=ring.plain)
            group.visit(self._recall)
            yield group
            following = self._turn(ring, n + ring.slots, slot, backwards=backwards, plain=False)
            # forwards, the steps of a turn past the last do not exist; backwards they would be the first ones
            self._start(following, [turn + 1 < ring.turns] if backwards else [])

    def _start(self, group: Group, where: Iterable[Index] = ()) -> None:
        with self.where(where):
            group.visit(self._copy)
        self.k.do(CP_COMMIT)

    def _turn(self, ring: Ring, n: Index, slot: Index, *, backwards: bool, plain: bool) -> Group:
        """Group n of those that go through a ring, in a slot of it."""
        depth, every = self.config.depth, ring.turns * ring.slots
        n = minus(every - 1, n) if backwards else n
        return Group(self, n * depth, 0, depth, plain, "shared", slot * depth)

    def each(self, visit: Visit, *, backwards: bool = False) -> None:
        """Visit every vector."""
        for group in self.groups(backwards=backwards):
            group.visit(visit)

    def _rounds(self, *holds: Hold, backwards: bool = False) -> Iterator[Group]:
        """The rounds that are held so: in registers all at once, others `depth` at a time in a loop."""
        depth, segments = self.config.depth, [s for s in self.walk.segments if s.hold in holds]
        fetched = sum(s.count for s in self.walk.segments if s.hold == "registers")
        with self.present():
            for s in segments[:: -1 if backwards else 1]:
                if s.hold == "registers":
                    held = 0 if self.config.hold == "global" else s.first - self.walk.staged
                    yield Group(self, s.first, held, s.count, s.plain, s.hold)
                    continue
                whole, left = divmod(s.count, depth)
                if whole:
                    with self.k.For("g", whole) as g:
                        first = (whole - 1 - g if backwards else g) * depth + s.first
                        yield Group(self, first, fetched, depth, s.plain, s.hold, first)
                if left:
                    rest = whole * depth + s.first
                    yield Group(self, rest, fetched, left, s.plain, s.hold, rest)

    def _load(self, v: Vector) -> None:
        with self._into(v):
            self.k.do(LDG[self.nbytes], v.words, self.k.at(self.src, v.chunk.source))

    def _copy(self, v: Vector) -> None:
        with self.where(self._wanted(v)):
            self.k.do(CP_ASYNC[self.nbytes], self._place(v), self.k.at(self.src, v.chunk.source))

    def _recall(self, v: Vector) -> None:
        with self._into(v):
            self.k.do(LDS[self.nbytes], v.words, self._place(v))

    def _into(self, v: Vector) -> AbstractContextManager[None]:
        """Code that fills a vector's registers where it is wanted; they are zeros where it is not."""
        if self.walk.skewed:
            self.k.do(fill(words(self.config.vec, self.size)), v.words, Const(0))
        return self.where(self._wanted(v))

    def _wanted(self, v: Vector) -> tuple[Index, ...]:
        """The predicates that a vector of a step that exists is to be read."""
        owned = self.walk.owned(self.side) if self.only_owned else ()
        return *self.walk.readable(v.chunk), *owned

    def _place(self, v: Vector) -> MemRef:
        """Where a thread keeps a vector in shared memory."""
        return self.k.at(self.held, (v.slot * self.config.threads + self.k.tid) * self.nbytes)

    def floats(self, v: Vector) -> RegRef:
        """The elements of a vector as floats: its own registers if they are."""
        return self.widened(v.words, self.config.vec, "f")

    def widened(self, words: RegRef, vec: int, name: str) -> RegRef:
        """Packed elements as floats, in registers of a name; floats stay where they are."""
        if self.element == "f32":
            return words
        f = self.reg(name, vec)
        self.k.do(unpack(vec, self.element), f, words)
        return RegRef(f, ())

    def masked(self, v: Vector, other: Reg) -> RegRef:
        """The elements as floats, those of other rows replaced."""
        f = self.floats(v)
        if v.cut and self.walk.rows:
            at, low, high = map(as_expr, (v.chunk.at, v.chunk.low, v.chunk.high))
            self.k.do(within(self.config.vec), f, at, low, high, other)
        return f

    def store(self, f: RegRef, v: Vector) -> None:
        """Write a vector of floats as elements; of one that its row shares with others, those of the row."""
        packed: RegRef | Reg = f
        if self.element != "f32":
            packed = self.reg("packed", words(self.config.vec, self.size))
            self.k.do(pack(self.config.vec, self.element), packed, f)
        with self.where(self.walk.owned(self.side)):
            self._store(f, packed, v)

    def _store(self, f: RegRef, packed: RegRef | Reg, v: Vector) -> None:
        k, vec, chunk = self.k, self.config.vec, v.chunk
        to = k.at(self.dst, chunk.target)
        whole = STG_WHOLE[self.nbytes]
        if not v.cut:
            k.do(whole, to, packed)
            return
        with k.If(as_expr(chunk.low <= chunk.at) & as_expr(chunk.at + vec <= chunk.high)):
            k.do(whole, to, packed)
        with k.Else():
            for e in range(vec):
                with k.If(as_expr(chunk.has(e))):
                    one: RegRef | Reg = RegRef(f.reg, (*f.index, Const(e)))
                    if self.element != "f32":
                        single = self.reg("single", 1)
                        k.do(pack(1, self.element), single, one)
                        one = single
                    k.do(STG[self.size], k.at(self.dst, chunk.target + e), one)


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector that is visited: its registers, its place in global and in shared memory.

    `plain`: it exists in every thread; `cut`: some of its elements may be another row's.
    """

    words: RegRef
    chunk: Chunk
    slot: Index
    plain: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Vectors that are in registers together: those of `count` rounds from `first` on.

    `held` is the first one's register, `slot` its place in shared memory; `hold` says where they come from.
    """

    body: Body
    first: Index
    held: int
    count: int
    plain: bool
    hold: Hold
    slot: Index = 0

    def visit(self, visit: Visit) -> None:
        """Write code for every vector, where it exists."""
        b, walk = self.body, self.body.walk
        with b.k.Unroll("u", self.count) as u:
            step = b.k.let("step", as_expr(walk.step(b.split, self.first + u, b.y)))
            chunk = walk.chunk(b.bases, step)
            exists = [] if self.plain else list(walk.exists(step, chunk))
            if exists and b.config.splits > 1:  # the next block's steps follow
                exists.append(as_expr(self.first + u) < walk.rounds)
            with b.where(exists):
                cut = (walk.ragged or walk.skewed) and not self.plain
                visit(Vector(b.v[u + self.held], chunk, self.slot + u, self.plain, cut))
