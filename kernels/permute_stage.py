"""Who moves what: the tile of a permute in index arithmetic that runs on ints, arrays and expressions alike.

The idea.  A block moves the product of `tile[k]` coordinates of every mode k, in two phases:

    load     chunk x of the tile: `chunk` elements that lie together in the source, aligned in memory
    store    vector x of the tile: `vec` elements that lie together in the destination, aligned in memory

`load(x, origins)` and `store(x, origins)` say where chunk and vector x lie in global and in shared memory and
when they exist.  The kernel calls them on its thread's index, the prediction on arrays of all of them: what
is predicted is what is printed.

A row is a run of elements that are contiguous in the source.  It is staged as it is aligned in memory: the
first element of a row that starts `shift` elements after a 16-byte boundary is `shift` elements into its
row of shared memory.  So odd row lengths are still read 16 bytes at a time.  The destination is written in
aligned vectors likewise: where rows of it start between vectors, a block owns the vectors that START in its
tile, and stages `lead` more coordinates in front, which its neighbour owns.

Notes.  Index values are >= 0 and there is no subtraction: `minus` is x - y modulo a power of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Any, Literal, TypeAlias

from layoutalg.kernels.permute_modes import Mode, Moves, swizzled
from layoutalg.layout import Layout
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""


PLAIN = Swizzle(0, 4, 3)
"""No swizzle."""


@dataclass(frozen=True, slots=True)
class PermuteConfig:
    """How one block works; `tile` in coordinates of each mode, `chunk` and `vec` in elements.

    `way` "direct" moves single elements from memory to memory; "staged" through shared memory, whose rows
    are `pad_bytes` apart and whose byte offsets go through `swizzle`.  `turned`: 32-bit words of several
    rows are transposed in registers, where single elements would be gathered otherwise.  `via`: chunks are
    copied asynchronously, or loaded and stored.
    """

    way: Literal["direct", "staged"]
    tile: tuple[int, ...]
    threads: int
    chunk: int = 1
    vec: int = 1
    turned: bool = False
    pad_bytes: int = 0
    swizzle: Swizzle = PLAIN
    via: Literal["cp.async", "registers"] = "cp.async"


@dataclass(frozen=True, slots=True)
class Load:
    """Chunk x: element `source` of the source, byte `place` of the tile.

    It exists where all of `exists` hold; it lies inside the source buffer where `inside` holds (None:
    always).
    """

    source: Index
    place: Index
    exists: tuple[Index, ...]
    inside: Index | None


@dataclass(frozen=True, slots=True)
class Store:
    """Vector x: its elements go to `target` and on, one by one where it is not `whole`.

    `row` is the predicate of its row; element e lies at byte `places[e]` of the tile and exists where
    all of `exists[e]` hold.
    """

    target: Index
    row: tuple[Index, ...]
    whole: tuple[Index, ...]
    places: tuple[Index, ...]
    exists: tuple[tuple[Index, ...], ...]


def minus(x: Index, y: Index, most: int) -> Index:
    """x - y for 0 <= y <= x <= most; some number below 2 * most + 2 where y > x.

    >>> minus(9, 4, 9), minus(9, 9, 100)
    (5, 0)
    """
    top = 1 << most.bit_length()
    if isinstance(y, int):
        return (x + (top - y)) % top if y else x
    return (x + 1 + (y ^ (top - 1))) % top


def digits(x: Index, extents: Sequence[int]) -> list[Index]:
    """The digits of x in a mixed radix, lowest first.

    >>> digits(23, (2, 3, 5))
    [1, 2, 3]
    """
    found = []
    for n in extents[:-1]:
        found.append(x % n)
        x = x // n
    return [*found, x] if extents else []


@dataclass(frozen=True)
class Stage:
    """The geometry of a configuration.

    >>> from layoutalg.kernels.permute_modes import normalise, permute_problem
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> stage = Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4))
    >>> stage.loads, stage.stores, stage.tile_bytes
    (1024, 1024, 16384)
    >>> stage.load(17, (0, 0)).source, stage.store(17, (0, 0)).places
    (68, (1028, 1284, 1540, 1796))
    """

    moves: Moves
    config: PermuteConfig

    # --- the tile --------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.moves.element_bytes

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes of the problem."""
        return self.moves.modes

    @property
    def tile(self) -> tuple[int, ...]:
        """Coordinates of each mode that a block owns."""
        return self.config.tile

    @cached_property
    def by_source(self) -> tuple[int, ...]:
        """Modes by source stride, broadcast ones last."""
        strides = [abs(m.src) for m in self.modes]
        return tuple(sorted(range(len(strides)), key=lambda k: (strides[k] == 0, strides[k])))

    @cached_property
    def src_run(self) -> tuple[int, ...]:
        """Modes of the tile that make a contiguous run of the source, fastest first."""
        return self._run(self.by_source, [m.src for m in self.modes])

    @cached_property
    def dst_run(self) -> tuple[int, ...]:
        """Modes of the tile that make a contiguous run of the destination, fastest first."""
        return self._run(tuple(range(len(self.modes))), [m.dst for m in self.modes])

    def _run(self, order: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
        run, length = [], 1
        for k in order:
            if strides[k] != length or self.tile[k] == 1 < self.modes[k].extent:
                break
            run.append(k)
            length *= self.modes[k].extent
            if self.tile[k] < self.modes[k].extent:
                break
        return tuple(run)

    @cached_property
    def lead(self) -> int:
        """Coordinates of the destination run's last mode that are kept free or staged in front of a tile.

        0 where every row of the destination starts at a vector.
        """
        vec = self.config.vec
        if self.dst_aligned:
            return 0
        inner = prod(self.tile[k] for k in self.dst_run[:-1])
        return -(-(vec - 1) // inner)

    @cached_property
    def dst_aligned(self) -> bool:
        """True when every row of the destination in every tile starts at a vector."""
        return (
            self._starts(self.moves.dst_offset, [m.dst for m in self.modes], self.dst_run) % (self.config.vec)
            == 0
        )

    @cached_property
    def src_aligned(self) -> bool:
        """True when every row of the source in every tile starts at a chunk."""
        return (
            self._starts(self.moves.src_offset, [m.src for m in self.modes], self.src_run)
            % (self.config.chunk)
            == 0
        )

    def _starts(self, offset: int, strides: Sequence[int], run: tuple[int, ...]) -> int:
        """The greatest common divisor of everywhere a row of a tile can start (16 for none)."""
        found = gcd(16, offset)
        for k, (m, t) in enumerate(zip(self.modes, self.tile, strict=True)):
            if k not in run:
                found = gcd(found, strides[k])
            elif t < m.extent:
                found = gcd(found, t * strides[k])
        return found

    @cached_property
    def halo(self) -> bool:
        """True when the lead is staged: neighbouring tiles share the rows of the destination."""
        if not self.lead:
            return False
        last, whole = self.dst_run[-1], self.dst_length % self.config.vec == 0
        return whole and self.tile[last] < self.modes[last].extent and last not in self.src_run

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each mode."""
        found = []
        for k, (m, t) in enumerate(zip(self.modes, self.tile, strict=True)):
            more = self.lead if self.halo and k == self.dst_run[-1] else 0
            found.append(-(-(m.extent + more) // t))
        return tuple(found)

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return prod(self.counts)

    def origins(self, block: Index) -> list[Index]:
        """First coordinate of each mode that a block owns; blocks walk along the destination first."""
        tiles = digits(block, self.counts)
        return [b * t for b, t in zip(tiles, self.tile, strict=True)]

    # --- shared memory ---------------------------------------------------------------------------------

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Coordinates of each mode that a block stages; 1 where the source broadcasts."""
        found = []
        for k, (m, t) in enumerate(zip(self.modes, self.tile, strict=True)):
            more = self.lead if self.halo and k == self.dst_run[-1] else 0
            found.append(t + more if m.src else 1)
        return tuple(found)

    @cached_property
    def src_length(self) -> int:
        """Elements of a row."""
        return prod(self.tile[k] for k in self.src_run)

    @cached_property
    def chunks(self) -> int:
        """Chunks of a row."""
        chunk = self.config.chunk
        return -(-(self.src_length + (0 if self.src_aligned else chunk - 1)) // chunk)

    @cached_property
    def src_rows(self) -> tuple[int, ...]:
        """Modes that count the rows, by source stride."""
        return tuple(k for k in self.by_source if k not in self.src_run and self.held[k] > 1)

    @cached_property
    def row_bytes(self) -> int:
        """Distance of two rows in shared memory."""
        return self.chunks * self.config.chunk * self.size + self.config.pad_bytes

    @cached_property
    def coefficients(self) -> tuple[int, ...]:
        """Bytes of shared memory between neighbours along each mode."""
        found = [0] * len(self.modes)
        step = self.size
        for k in self.src_run:
            found[k] = step
            step *= self.tile[k]
        step = self.row_bytes
        for k in self.src_rows:
            found[k] = step
            step *= self.held[k]
        return tuple(found)

    @cached_property
    def slack_bytes(self) -> int:
        """Bytes in front of the tile for the lead, where nothing is staged there."""
        if not self.lead or self.halo:
            return 0
        return -(-self.lead * self.coefficients[self.dst_run[-1]] // 16) * 16

    @cached_property
    def tile_bytes(self) -> int:
        """Shared memory of a block: whole lines of the banks, so that the swizzle stays inside."""
        rows = prod(self.held[k] for k in self.src_rows)
        return -(-(self.slack_bytes + rows * self.row_bytes) // 128) * 128

    @cached_property
    def layout(self) -> AnyLayout:
        """Where a byte of the tile lies in shared memory."""
        plain, swizzle = Layout(self.tile_bytes, 1), self.config.swizzle
        return ComposedLayout(swizzle, 0, plain) if swizzle.bits else plain

    def _shift(self, place: Sequence[Index], origins: Sequence[Index], led: bool) -> Index:
        """Elements between the chunk boundary and the first element of a row: 0 where rows are aligned.

        `place` are coordinates in the tile, with the lead included if `led`.
        """
        chunk = self.config.chunk
        if self.src_aligned:
            return 0
        total: Index = self.moves.src_offset
        for k, m in enumerate(self.modes):
            step = m.src % chunk
            if m.src < 0:
                total = total + (m.extent - 1) * -m.src % chunk
            if led and k == self.dst_run[-1] and k not in self.src_run:
                total = total + -self.lead * m.src % chunk
            total = total + origins[k] * step
            if k not in self.src_run:
                total = total + place[k] * step
        return total % chunk

    # --- the two phases --------------------------------------------------------------------------------

    @property
    def loads(self) -> int:
        """Chunks of a tile."""
        return self.chunks * prod(self.held[k] for k in self.src_rows)

    def load(self, x: Index, origins: Sequence[Index]) -> Load:
        """Chunk x of the tile of a block."""
        chunk = self.config.chunk
        piece, *rows = digits(x, (self.chunks, *(self.held[k] for k in self.src_rows)))
        place: list[Index] = [0] * len(self.modes)
        for k, i in zip(self.src_rows, rows, strict=True):
            place[k] = i
        start: Index = self.moves.src_offset
        exists: list[Index] = []
        for k, m in enumerate(self.modes):
            if not m.src:
                continue
            at = origins[k] + place[k]
            if self.halo and k == self.dst_run[-1]:
                exists += [at >= self.lead, at < m.extent + self.lead]
                at = minus(at, self.lead, self.counts[k] * self.tile[k] + self.lead)
            elif k in self.src_rows and m.extent % self.tile[k]:
                exists.append(at < m.extent)
            if m.src < 0:
                at = minus(m.extent - 1, at, m.extent + self.tile[k])
            start = start + at * abs(m.src)
        shift = self._shift(place, origins, self.halo)
        if self.src_run:
            last = self.src_run[-1]
            inner = self.src_length // self.tile[last]
            m = self.modes[last]
            if not self.src_aligned:
                exists.append(piece * chunk < shift + self.src_length)
            if m.extent % self.tile[last]:
                exists.append(origins[last] * inner + piece * chunk < shift + m.extent * inner)
        source = swizzled(start // chunk * chunk + piece * chunk, self.moves.src_swizzle)
        inside = None if self.moves.src_elems % chunk == 0 else source + chunk <= self.moves.src_elems
        at = sum((i * self.coefficients[k] for k, i in enumerate(place)), piece * (chunk * self.size))
        return Load(source, at + self.slack_bytes, tuple(exists), inside)

    @property
    def elements(self) -> int:
        """Elements of a tile."""
        return prod(self.tile)

    def direct(self, x: Index, origins: Sequence[Index]) -> tuple[Index, Index, tuple[Index, ...]]:
        """Element x of the tile of a block: source, destination, and when it exists."""
        source: Index = self.moves.src_offset
        target: Index = self.moves.dst_offset
        exists: list[Index] = []
        for m, t, o, i in zip(self.modes, self.tile, origins, digits(x, self.tile), strict=True):
            at = o + i
            if m.extent % t:
                exists.append(at < m.extent)
            target = target + at * m.dst
            if m.src < 0:
                at = minus(m.extent - 1, at, m.extent + t)
            source = source + at * abs(m.src)
        return (
            swizzled(source, self.moves.src_swizzle),
            swizzled(target, self.moves.dst_swizzle),
            tuple(exists),
        )

    @property
    def group(self) -> int:
        """Rows of the destination whose elements are neighbours in shared memory, moved by one thread."""
        return 4 // self.size if self.config.turned else 1

    @cached_property
    def dst_length(self) -> int:
        """Elements of a run of the destination."""
        return prod(self.tile[k] for k in self.dst_run)

    @cached_property
    def vectors(self) -> int:
        """Vectors of a run of the destination."""
        vec = self.config.vec
        more = vec - 1 if self.lead and not self.halo else 0
        return -(-(self.dst_length + more) // vec)

    @cached_property
    def dst_rows(self) -> tuple[int, ...]:
        """Modes that count the runs of the destination, by source stride."""
        return tuple(k for k in self.by_source if k not in self.dst_run and self.tile[k] > 1)

    @property
    def stores(self) -> int:
        """Vectors of a tile; those of a group count once."""
        return self.vectors * prod(self.tile[k] for k in self.dst_rows) // self.group

    def store(self, x: Index, origins: Sequence[Index], member: int = 0) -> Store:
        """Vector x of the tile of a block, of row `member` of its group."""
        vec = self.config.vec
        extents = [self.tile[k] for k in self.dst_rows]
        if self.group > 1:
            extents[0] //= self.group
        w, *rows = digits(x, (self.vectors, *extents))
        place: list[Index] = [0] * len(self.modes)
        for n, (k, i) in enumerate(zip(self.dst_rows, rows, strict=True)):
            place[k] = i * self.group + member if n == 0 and self.group > 1 else i
        row: list[Index] = []
        start: Index = self.moves.dst_offset
        for k, m in enumerate(self.modes):
            at = origins[k] + place[k]
            if k in self.dst_rows and m.extent % self.tile[k]:
                row.append(at < m.extent)
            start = start + at * m.dst
        if not self.dst_run:
            where = self._place(place, origins)
            target = swizzled(start, self.moves.dst_swizzle)
            return Store(target, tuple(row), (), (where,), ((),))
        phase = start % vec if self.lead else 0
        target = swizzled(start // vec * vec + w * vec, self.moves.dst_swizzle)
        runs = [w * vec + e for e in range(vec)]
        free = self.lead * self._dst_inner
        if self.lead:  # position in the run plus `free`, never negative: e - phase + free
            runs = [q + (phase ^ (vec - 1)) + (free - (vec - 1)) for q in runs]
        inside = [self._inside(q, free, origins[self.dst_run[-1]]) for q in runs]
        places = []
        for q in runs:
            spot = list(place)
            parts = digits(q, tuple(self.tile[k] for k in self.dst_run))
            for k, i in zip(self.dst_run, parts, strict=True):
                spot[k] = i
            places.append(self._place(spot, origins))
        whole = tuple(low for low, _ in inside[:1] for low in low) + inside[-1][1]
        each = tuple(low + high for low, high in inside)
        return Store(target, tuple(row), whole, tuple(places), each)

    @cached_property
    def _dst_inner(self) -> int:
        """Elements of the destination run along all but its last mode."""
        return prod(self.tile[k] for k in self.dst_run[:-1])

    def _inside(self, q: Index, free: int, origin: Index) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """What says that position q - free of a run is not before, and not past, what the block owns."""
        last, inner = self.dst_run[-1], self._dst_inner
        extent, tile = self.modes[last].extent, self.tile[last]
        low: tuple[Index, ...] = ()
        high: tuple[Index, ...] = ()
        at = origin * inner + q
        if self.halo:
            low = (at >= free,)
        elif self.lead:
            low = (q >= free,)
        if not self.halo and self.vectors * self.config.vec != self.dst_length:
            high = (q < free + tile * inner,)
        if self.halo or extent % tile:
            high += (at < free + extent * inner,)
        return low, high

    def _place(self, place: Sequence[Index], origins: Sequence[Index]) -> Index:
        """Byte of the tile of coordinates `place`, lead included."""
        total: Index = self._shift(place, origins, self.lead > 0) * self.size
        for k, i in enumerate(place):
            total = total + i * self.coefficients[k]
        if self.slack_bytes:
            total = total + (self.slack_bytes - self.lead * self.coefficients[self.dst_run[-1]])
        return total
