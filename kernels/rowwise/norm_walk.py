"""How a block walks over a tensor that is normalised: which thread holds what, for ints, arrays, expressions.

The idea.  A block has `kept` threads side by side that have other statistics, times `sharing` threads that
make statistics together.  A thread's loads are vectors along the first mode:

    rows       the first mode is reduced: a vector is `vec` values of one statistic     tid = y + sharing * x
    columns    the first mode is kept: a vector is one value each of `vec` statistics   tid = x + kept * y

What a thread of number y takes are steps: vectors of a row (times the outer reduced modes), or rows of a
column; of `splits` blocks, block s takes

    step = (s * rounds + i) * sharing + y      in round i

Rows that do not start at vectors are `ragged`: their first and last vectors hold elements of the neighbours,
which are read, masked, and not written.  Columns are `skewed` where the rows of a block's tile start at
different places of vectors: each row has its own shift, the same for all rows of a thread, because `period`
divides `sharing`.  A tile writes whole vectors all the same, those of the row that begin in it; so it reaches
further to the left in rows of a larger shift, and to have the statistics of all that it writes it reads a
vector more on either side:

    (8191,8193) f32 over 0, 8 threads side by side: tile 1 writes w of rows 0, 1, 2, 3 from columns 24, 23,
    22, 21 on, and has the statistics of columns 21 to 47

        row 0   |20 r 23|24 w 27|28 w 31| ... |44 w 47|48 r 51|
        row 1   |19 r 22|23 w 26|27 w 30| ... |43 w 46|47 r 50|

Notes.  The kernel calls these functions on its thread's index, the prediction on arrays of all of them: what
is predicted is what is printed.  Index values are >= 0: a difference stops there.  Where rows are ragged,
whole vectors are read: up to the last 16-byte unit that holds an element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from layoutalg.codegen.expr import minus
from layoutalg.kernels.move.misaligned import digits
from layoutalg.kernels.rowwise.norm_modes import NormMode, NormModes
from layoutalg.kernels.rowwise.norm_pieces import Bases, Chunk, Hold, Index, Ring, Segment
from layoutalg.kernels.rowwise.norm_vectors import places_of_rows

WARP = 32


@dataclass(frozen=True, slots=True)
class NormConfig:
    """How a block works; see the module's text.

    `vec` elements a load, `depth` vectors of a thread at once where they are not in registers.  With hold
    "shared" the first `staged` rounds are in shared memory, the others in registers; 0: all are.  With hold
    "global" so many rounds, a multiple of depth, are on their way to shared memory; 0: they are loaded.
    """

    vec: int
    rows_per_block: int
    threads_per_row: int
    hold: Hold
    depth: int = 4
    splits: int = 1
    staged: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows_per_block * self.threads_per_row


@dataclass(frozen=True)
class Walk:
    """The walk of a configuration over a problem.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> w = Walk(shortest(norm_problem("softmax", (64, 1000), 1, "f32")), NormConfig(4, 1, 32, "registers"))
    >>> w.rows, w.steps, w.rounds, w.blocks
    (True, 250, 8, 64)
    """

    modes: NormModes
    config: NormConfig

    @property
    def lead(self) -> NormMode:
        """The first mode, along which vectors lie."""
        return self.modes.modes[0]

    @property
    def rows(self) -> bool:
        """True when the first mode is reduced."""
        return self.lead.reduced

    @cached_property
    def others(self) -> tuple[NormMode, ...]:
        """The reduced modes but the first one."""
        return tuple(m for m in self.modes.modes[1:] if m.reduced)

    @cached_property
    def ragged(self) -> bool:
        """True when rows start or end inside of vectors."""
        return self.rows and any(v % self.config.vec for v in places_of_rows(self.modes))

    @cached_property
    def skewed(self) -> bool:
        """True when rows of a tile of columns start at different places of vectors."""
        return not self.rows and any(v % self.config.vec for v in places_of_rows(self.modes))

    @cached_property
    def period(self) -> int:
        """Rows after which a place of a vector returns; 1 where all rows of a tile start alike."""
        vec = self.config.vec
        return vec // gcd(self.others[0].src, vec) if self.skewed else 1

    @cached_property
    def width(self) -> int:
        """Columns of a tile: of each row of a skewed one, all vectors but the first and the last."""
        return (self.config.rows_per_block - 2 * self.skewed) * self.config.vec

    @cached_property
    def vectors(self) -> int:
        """Vectors of a row, at most."""
        vec = self.config.vec
        return -(-(self.lead.extent + (vec - 1 if self.ragged else 0)) // vec)

    @cached_property
    def steps(self) -> int:
        """What the threads that share a statistic have to take."""
        return prod(m.extent for m in self.others) * (self.vectors if self.rows else 1)

    @cached_property
    def rounds(self) -> int:
        """Steps of a thread, at most."""
        return -(-self.steps // (self.config.threads_per_row * self.config.splits))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Extents that count the places side by side: kept modes, the first in vectors, or in whole tiles."""
        kept, c = [m.extent for m in self.modes.modes if not m.reduced], self.config
        if self.skewed:
            return (-(-(kept[0] + c.vec - 1) // self.width) * c.rows_per_block, *kept[1:])
        return tuple(kept) if self.rows else (kept[0] // c.vec, *kept[1:])

    @cached_property
    def tiles(self) -> int:
        """Blocks side by side."""
        return -(-prod(self.columns) // self.config.rows_per_block)

    @property
    def blocks(self) -> int:
        """Blocks of a launch."""
        return self.tiles * self.config.splits

    @property
    def statistics(self) -> int:
        """Statistics of a thread: 1 of a row, one for each element of a vector of columns."""
        return 1 if self.rows else self.config.vec

    @property
    def words(self) -> tuple[int, ...]:
        """Words that a thread tells of a part: its statistics, and of layer norm the number of elements."""
        n = self.statistics
        return (n, n) if self.modes.problem.op == "softmax" else (n, n, 1)

    @property
    def told(self) -> tuple[int, ...]:
        """Words that all blocks of a part tell: of all columns, and of places past skewed tiles."""
        return tuple(prod(self.columns) * n for n in self.words)

    def told_at(self, plane: int, split: Index, column: Index) -> Index:
        """Where a thread of a column finds its words of a plane of what a part tells: the first of them.

        Of skewed columns it is the tile's first word; `place` says which ones are a thread's.
        """
        n, before = self.words[plane], self.config.splits * sum(self.told[:plane])
        at = split * self.told[plane] + before
        if self.skewed and n > 1:
            return at + column // self.config.rows_per_block * (self.config.rows_per_block * n)
        return at + column * n

    @property
    def exchange_unit(self) -> int | None:
        """Threads that have one statistic after butterflies and meet the others in shared memory, or None."""
        kept, sharing = self.config.rows_per_block, self.config.threads_per_row
        if self.rows:
            return WARP if sharing > WARP else None
        unit = max(WARP, kept)
        return unit if kept * sharing > unit else None

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The rounds in order: plain ones, and those that edges cut.

        >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
        >>> x = shortest(norm_problem("softmax", (64, 1001), 1, "f16"))
        >>> [(s.first, s.count, s.plain) for s in Walk(x, NormConfig(8, 1, 32, "registers")).segments]
        [(0, 1, False), (1, 2, True), (3, 1, False)]
        """
        share, splits = self.config.threads_per_row, self.config.splits
        full, first = self.steps // share, 0
        if splits > 1:  # the last block's rounds are cut, and every block runs the same text
            full = self.rounds if self.steps % (share * splits) == 0 else 0
        if self.skewed:
            full = 0
        if self.ragged:
            whole = self.lead.extent // self.config.vec
            full, first = (whole // share, 1) if not self.others and splits == 1 else (0, 0)
        if full <= first:
            return tuple(self._held((0, self.rounds, False)))
        return tuple(self._held((0, first, False), (first, full, True), (full, self.rounds, False)))

    @cached_property
    def staged(self) -> int:
        """Rounds that shared memory has room for."""
        return self.rounds if self.config.hold == "shared" and not self.config.staged else self.config.staged

    @cached_property
    def ring(self) -> Ring | None:
        """How what is read twice goes through shared memory, if it does."""
        if self.config.hold != "global" or not self.config.staged:
            return None
        turns = -(-self.rounds // self.config.staged)
        plain = turns * self.config.staged == self.rounds and all(s.plain for s in self.segments)
        return Ring(self.config.staged // self.config.depth, turns, plain)

    def _held(self, *parts: tuple[int, int, bool]) -> Iterator[Segment]:
        """Rounds (from, to, plain), those in shared memory apart from those that are not."""
        hold, kept = self.config.hold, self.staged if self.config.hold == "shared" else 0
        if hold == "global":
            yield from self._read_twice(*parts)
            return
        for start, stop, plain in parts:
            middle = min(max(start, kept), stop)
            if middle > start:
                yield Segment(start, middle - start, plain, "shared")
            if stop > middle:
                yield Segment(middle, stop - middle, plain, "registers")

    def _read_twice(self, *parts: tuple[int, int, bool]) -> Iterator[Segment]:
        """Rounds that are read twice, `depth` at a time; what is left of plain ones stays in registers."""
        depth, alone = self.config.depth, self.config.splits == 1 and not self.staged
        for start, stop, plain in parts:
            groups = (stop - start) // depth
            last = start + (groups if groups > 1 else 0) * depth if plain and alone else stop
            if last > start:
                yield Segment(start, last - start, plain, "global")
            if stop > last:
                yield Segment(last, stop - last, plain, "registers")

    # --- places ----------------------------------------------------------------------------------------

    def thread(self, tid: Index) -> tuple[Index, Index]:
        """(x, y) of a thread: which column of the block, which of those that share it.

        Rows with the same shift are neighbours, so that those of a warp have.
        """
        c = self.config
        if self.rows:
            return tid // c.threads_per_row, tid % c.threads_per_row
        y, alike = tid // c.rows_per_block, c.threads_per_row // self.period
        return tid % c.rows_per_block, y if self.period == 1 else y % alike * self.period + y // alike

    def block(self, block: Index) -> tuple[Index, Index]:
        """(first column, split) of a block."""
        if self.config.splits == 1:
            return block * self.config.rows_per_block, 0
        return block % self.tiles * self.config.rows_per_block, block // self.tiles

    def step(self, split: Index, i: Index, y: Index) -> Index:
        """The step that thread y takes in round i."""
        return (split * self.rounds + i) * self.config.threads_per_row + y

    def bases(self, column: Index) -> Bases:
        """Where a column, or a tile of skewed ones, starts in source and destination."""
        found = iter(digits(column, self.columns))
        source: Index = self.modes.src_offset
        target: Index = self.modes.dst_offset
        first: Index = 0
        for k, m in enumerate(self.modes.modes):
            if m.reduced:
                continue
            at = next(found)
            if k == 0 and self.skewed:
                side, tile = at % self.config.rows_per_block, at // self.config.rows_per_block
                first = tile * self.width + side * self.config.vec
                continue
            at = at * (self.config.vec if k == 0 else 1)
            source, target = source + at * m.src, target + _along(at, m.extent, m.dst)
        return Bases(source, target, first)

    def chunk(self, bases: Bases, step: Index) -> Chunk:
        """The vector of a step."""
        if self.skewed:
            return self._skewed_chunk(bases, step)
        source, target, at = bases
        weight: Index = 0
        extents, vec = [m.extent for m in self.others], self.config.vec
        if self.rows:
            x, *rest = digits(step, [self.vectors, *extents])
            at = x * vec
        else:
            rest = digits(step, extents)
        for m, i in zip(self.others, rest, strict=True):
            source, target = source + i * m.src, target + _along(i, m.extent, m.dst)
            weight = weight + _along(i, m.extent, m.weight)
        if self.ragged:
            low = source % vec
            source, target = source // vec * vec + at, target // vec * vec + at
            return Chunk(source, target, weight, at, low, low + self.lead.extent)
        if not self.rows:
            return Chunk(source, target, weight)
        source, target = source + at * self.lead.src, target + _along(at, self.lead.extent, self.lead.dst)
        return Chunk(source, target, weight, at, 0, self.lead.extent)

    def _skewed_chunk(self, bases: Bases, step: Index) -> Chunk:
        """The vector of a step: a thread's steps of all rounds start alike, so that one shift is enough."""
        (m,), share, vec = self.others, self.config.threads_per_row, self.config.vec
        y, turn = step % share, step // share
        low = self.shift(bases, y) + vec
        source, target = (
            minus((base + y * stride) // vec * vec + bases.at, vec) + turn * (share * stride)
            for base, stride in ((bases.source, m.src), (bases.target, m.dst))
        )
        return Chunk(source, target, _along(step, m.extent, m.weight), bases.at, low, low + self.lead.extent)

    def shift(self, bases: Bases, y: Index) -> Index:
        """The place in a vector at which a thread's rows of a skewed tile start."""
        return (bases.source + y * self.others[0].src) % self.config.vec

    def place(self, side: Index, shift: Index, e: Index) -> Index:
        """Which of the kept * vec places of a skewed tile element e of a thread's vectors has.

        Each column whose statistics the tile needs has one, whatever the row's shift.
        """
        c = self.config
        return (side * c.vec + (c.vec + e - shift)) % (c.rows_per_block * c.vec)

    @property
    def vector_weights(self) -> bool:
        """True when a row's weights are read as vectors: two for each of the row's where that is ragged."""
        places = [m.weight for m in self.others] + [*self.modes.problem.parameters.values()]
        return self.rows and self.lead.weight == 1 and not any(at % self.config.vec for at in places)

    def weight_of(self, chunk: Chunk, e: int) -> Index:
        """Where the weight of element e of a row's vector is, from `chunk.weight` on."""
        lead = self.lead
        at = minus(chunk.at + e, chunk.low) if self.ragged else chunk.at + e
        return _along(at, lead.extent, lead.weight)

    def exists(self, step: Index, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that a step exists, and the vector of a row holds an element of it."""
        found = [step < self.steps]
        if self.ragged:
            found.append(chunk.at < chunk.high)
        return tuple(found)

    def readable(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that a vector of a step that exists can be read: a skewed one may be past an end."""
        if not self.skewed:
            return ()
        return chunk.at + self.config.vec > chunk.low, chunk.at < chunk.high

    def owned(self, side: Index) -> tuple[Index, ...]:
        """The predicates that a thread writes its vectors: the sides of a skewed tile are others'."""
        return (side >= 1, side < self.config.rows_per_block - 1) if self.skewed else ()


def _along(i: Index, extent: int, stride: int) -> Index:
    """i * stride, from the end where the stride is negative."""
    return minus(extent - 1, i) * -stride if stride < 0 else i * stride


def powers(low: int, high: int) -> Sequence[int]:
    """The powers of two from `low` below `high`.

    >>> powers(1, 32)
    [1, 2, 4, 8, 16]
    """
    found = []
    while low < high:
        found.append(low)
        low *= 2
    return found
