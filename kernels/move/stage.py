"""The tile of a permute: the elements that a block moves, their pieces, and their places in shared memory.

The idea.  A block moves the product of `tile[k]` coordinates of every mode k, in two phases:

    load     chunk x of the tile: `chunk` elements that lie together in the source, aligned in memory
    store    vector x of the tile: `vec` elements that lie together in the destination, aligned in memory

A row, a run of elements that are contiguous in the source, is staged as memory has it: it starts in shared
memory as many bytes after a 16-byte boundary as in the source.  So rows of odd length are read 16 bytes at a
time, and because the distance of two rows in shared memory is that in the source modulo 16, every row's
start is one linear function of its coordinates: nothing depends on the row but its address.

    f32 rows of 99 elements, tile 64 wide     source  396 bytes apart = 12 mod 16      staged 268 bytes apart

The destination is written in aligned vectors too.  Where its rows start between vectors, a block owns the
vectors that START in its tile, and stages `lead` more coordinates in front, which its neighbour owns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import Any, Literal, TypeAlias

from layoutalg.kernels.move.problem import Mode, Moves
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, ScaledBasis, Swizzle

PLAIN = Swizzle(0, 4, 3)
"""The identity swizzle."""

WORD_BYTES = 4
"""The bytes of a bank."""

LINE_BYTES = 128
"""The bytes of all banks, and of the lines of the L2."""

LEAD_PARTS = 4
"""A lead of whole runs is staged where it is at most the tile divided by this number."""

ENOUGH_BYTES = 64
"""Runs that end with their mode are extended into the next one while they are shorter: two sectors."""


_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "pad_bytes": ("_placement", "coefficients", "tile_bytes", "_over_bytes", "run_layout", "layout"),
    "lanes": ("lanes", "word_rows"), "swizzle": ("layout",), "walk": ("walk",),
    "turned": ("word_rows",), "lines": (), "threads": (), "loading": (), "storing": (),
}  # fmt: skip
"""Cached values of a stage that follow from a field of its configuration, by that field."""

Digits: TypeAlias = "tuple[tuple[int, int, int], ...]"
"""A layout of coordinates: (extent, step, mode) of each digit of a number, the lowest first."""


@dataclass(frozen=True, slots=True)
class PermuteConfig:
    """The way a block permutes; `tile` in coordinates of each mode, `chunk` and `vec` in elements.

    `way` "direct" moves single elements from memory to memory; "staged" through shared memory, whose rows
    are `pad_bytes` further apart than needed and whose byte offsets go through `swizzle`.  `turned`:
    32-bit words of several rows are transposed in registers, where single elements would be gathered
    otherwise.  `via`: chunks are copied asynchronously, or loaded and stored; with `lines` the L2 fetches
    whole lines for the former.  `lanes` consecutive lanes store one run of the destination (0: all that there
    are), the next lanes another.  Of `threads` the first `loading` load and the first `storing` store (0:
    all).  Consecutive blocks walk along the fastest modes of the `walk` side first; "tile": along the modes
    that tiles cut first, then along the destination's; "rows": the mode that rows go on in counts as cut,
    even where tiles have one coordinate of it.  A block owns whole groups of `align` elements of the
    destination (0: vectors), a power of two: sectors or lines that no other block writes.

    >>> from layoutalg.kernels import find_family
    >>> family = find_family("permute")
    >>> family.choose(family.problem((64, 32, 16), (2, 0, 1), "f32"), "sm_90").way
    'staged'
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
    lines: bool = False
    lanes: int = 0
    loading: int = 0
    storing: int = 0
    walk: Literal["target", "source", "tile", "rows"] = "target"
    align: int = 0


@dataclass(frozen=True)
class Stage:
    """The geometry of a configuration, in plain numbers.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((97, 99), (1, 0), "f32"))
    >>> stage = Stage(x, PermuteConfig("staged", (97, 64), 256, 4, 4))
    >>> stage.counts, stage.chunks, stage.coefficients, stage.lead
    ((1, 2), 17, (268, 4), 0)
    """

    moves: Moves
    config: PermuteConfig

    def arranged(self, **changes: Any) -> Stage:
        """The tile with other fields of its configuration, those of `_FOLLOWS`: what is known of it otherwise
        is kept."""
        if all(getattr(self.config, name) == value for name, value in changes.items()):
            return self
        other = Stage(self.moves, replace(self.config, **changes))
        gone = {"moves", "config"}.union(*(_FOLLOWS[name] for name in changes))
        vars(other).update((name, value) for name, value in vars(self).items() if name not in gone)
        return other

    # --- the tile --------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of an element of the source, as it is staged."""
        return self.moves.element_bytes

    @property
    def dst_size(self) -> int:
        """Bytes of an element of the destination."""
        return self.moves.result_bytes

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes of the problem."""
        return self.moves.modes

    @property
    def tile(self) -> tuple[int, ...]:
        """Coordinates of each mode that a block owns."""
        return self.config.tile

    @property
    def elements(self) -> int:
        """Elements of a tile."""
        return prod(self.tile)

    @cached_property
    def by_source(self) -> tuple[int, ...]:
        """Modes by source stride, broadcast ones last."""
        strides = [abs(m.src) for m in self.modes]
        return tuple(sorted(range(len(strides)), key=lambda k: (strides[k] == 0, strides[k])))

    @cached_property
    def src_run(self) -> tuple[int, ...]:
        """Modes of the tile that make a contiguous run of the source, a row, fastest first."""
        return self._run(self.by_source, [m.src for m in self.modes])

    @cached_property
    def dst_run(self) -> tuple[int, ...]:
        """Modes of the tile that make a contiguous run of the destination, fastest first.

        Of narrow elements only as many as whole vectors need where the next one is fastest in the source: it
        then counts runs, whose elements are neighbours in words.
        """
        run = self._run(range(len(self.modes)), self.dst_strides)
        for n in range(1, len(run)) if self.size < WORD_BYTES else ():
            if run[n] != self.by_source[0]:
                continue
            length = prod(self.tile[k] for k in run[:n])
            aligned = self._starts(self.moves.dst_offset, self.dst_strides, run[:n]) % self.unit == 0
            if aligned and length % self.unit == 0 and length * self.dst_size >= ENOUGH_BYTES:
                return run[:n]
        return run

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
    def src_length(self) -> int:
        """Elements of a row, its halo included."""
        return prod(self.held[k] for k in self.src_run)

    @cached_property
    def row_lead(self) -> int:
        """Elements of a halo in front of a row: 0 where rows have none of their own."""
        return self.lead * self.modes[self.last].src if self.halo and self.last in self.src_run else 0

    @cached_property
    def dst_length(self) -> int:
        """Elements of a run of the destination."""
        return prod(self.tile[k] for k in self.dst_run)

    @cached_property
    def dst_inner(self) -> int:
        """Elements of a run of the destination along all but its last mode."""
        return prod(self.tile[k] for k in self.dst_run[:-1])

    @cached_property
    def src_aligned(self) -> bool:
        """True when every row of every tile starts at a chunk."""
        return gcd(self.src_starts, self.row_lead) % self.config.chunk == 0

    @cached_property
    def dst_aligned(self) -> bool:
        """True when every run of the destination in every tile starts at a unit."""
        return not self.dst_run or self.dst_starts % self.unit == 0

    @cached_property
    def src_starts(self) -> int:
        """The greatest common divisor of a line and of everywhere a row can start, its halo aside."""
        return self._starts(self.moves.src_offset, self.src_strides, self.src_run)

    @cached_property
    def dst_starts(self) -> int:
        """The greatest common divisor of a line and of everywhere a run of the destination can start."""
        return self._starts(self.moves.dst_offset, self.dst_strides, self.dst_run)

    def _starts(self, offset: int, strides: Sequence[int], run: tuple[int, ...]) -> int:
        """`src_starts` or `dst_starts` of a run."""
        found = gcd(LINE_BYTES, offset)
        for k, (m, t) in enumerate(zip(self.modes, self.tile, strict=True)):
            if k not in run:
                found = gcd(found, strides[k])
            elif t < m.extent:
                found = gcd(found, t * strides[k])
        return found

    @property
    def unit(self) -> int:
        """Elements of the destination that one block owns together."""
        return self.config.align or self.config.vec

    @cached_property
    def lead(self) -> int:
        """Coordinates of the destination run's last mode, `last`, that lie in front of the tile's own.

        0 where every run of the destination starts at a unit.
        """
        return 0 if self.dst_aligned else -(-(self.unit - 1) // self.dst_inner)

    @cached_property
    def last(self) -> int:
        """The mode that has a lead; -1 where none has."""
        return self.dst_run[-1] if self.lead else -1

    @cached_property
    def halo(self) -> bool:
        """True when the lead is staged: neighbouring tiles share the runs of the destination.

        Where a coordinate is a whole run of inner modes and much of the tile, staging it costs more than the
        vectors that are stored in pieces.
        """
        if not self.lead or self.dst_length % self.unit:
            return False
        if self.dst_inner > 1 and self.lead * LEAD_PARTS > self.tile[self.last]:
            return False
        if self.last in self.src_run and self.last != self.src_run[-1]:
            return False
        return self.tile[self.last] < self.modes[self.last].extent

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each mode."""
        return tuple(
            -(-(m.extent + (self.lead if self.halo and k == self.last else 0)) // t)
            for k, (m, t) in enumerate(zip(self.modes, self.tile, strict=True))
        )

    @cached_property
    def walk(self) -> tuple[int, ...]:
        """The modes in the order in which consecutive blocks walk along them."""
        if self.config.walk == "source":
            return self.by_source
        cut = self.by_source if self.config.walk in ("tile", "rows") else ()
        further = self._row_goes_on if self.config.walk == "rows" else -1
        first = [k for k in cut if 1 < self.tile[k] < self.modes[k].extent or k == further]
        return (*first, *(k for k in range(len(self.modes)) if k not in first))

    @cached_property
    def _row_goes_on(self) -> int:
        """The mode along which the source goes on where a row ends; -1 where a row ends in its mode."""
        length = prod(self.modes[k].extent for k in self.src_run)
        whole = all(self.tile[k] == self.modes[k].extent for k in self.src_run)
        behind = self.by_source[len(self.src_run) :]
        return behind[0] if whole and behind and self.modes[behind[0]].src == length else -1

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return prod(self.counts)

    @property
    def block_digits(self) -> Digits:
        """Block -> first coordinate of each mode that it owns."""
        return tuple((self.counts[k], self.tile[k], k) for k in self.walk)

    @property
    def element_digits(self) -> Digits:
        """Element of the tile -> its coordinate."""
        return tuple((t, 1, k) for k, t in enumerate(self.tile))

    # --- loading ---------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Coordinates of each mode that a block loads; 1 where the source broadcasts."""
        return tuple(
            (t + (self.lead if self.halo and k == self.last else 0)) if m.src else 1
            for k, (m, t) in enumerate(zip(self.modes, self.tile, strict=True))
        )

    @cached_property
    def chunks(self) -> int:
        """Chunks of a row."""
        chunk = self.config.chunk
        return -(-(self.src_length + (0 if self.src_aligned else chunk - 1)) // chunk)

    @cached_property
    def src_rows(self) -> tuple[int, ...]:
        """Modes that count the rows, by source stride."""
        return tuple(k for k in self.by_source if k not in self.src_run and self.held[k] > 1)

    @property
    def loads(self) -> int:
        """Chunks of a tile."""
        return self.chunks * prod(self.held[k] for k in self.src_rows)

    @property
    def chunk_digits(self) -> Digits:
        """Chunk -> coordinate: of the modes that count rows, and behind all modes the elements along it."""
        rows = ((self.held[k], 1, k) for k in self.src_rows)
        return ((self.chunks, self.config.chunk, self.moves.rank), *rows)

    @cached_property
    def is_straight(self) -> bool:
        """True when strides alone say where every chunk lies: rows start at chunks, and none is cut."""
        moves = self.moves
        whole = moves.src_elems % self.config.chunk == 0 and not moves.src_swizzle
        return whole and self.src_aligned and not self.halo and all(m.src >= 0 for m in self.modes)

    @property
    def lead_bytes(self) -> int:
        """Bytes of the lead in front of a row in shared memory."""
        return self.lead * self.coefficients[self.last] if self.lead and not self.halo else 0

    @property
    def src_strides(self) -> tuple[int, ...]:
        """Strides of the source; along a mode that runs backwards, of the elements in their order."""
        return tuple(abs(m.src) for m in self.modes)

    @property
    def dst_strides(self) -> tuple[int, ...]:
        """Strides of the destination."""
        return tuple(m.dst for m in self.modes)

    # --- shared memory ---------------------------------------------------------------------------------

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return self.config.chunk * self.size

    @cached_property
    def coefficients(self) -> tuple[int, ...]:
        """Bytes of shared memory between neighbours along each mode; 0 where the source broadcasts."""
        return self._placement[0]

    @cached_property
    def tile_bytes(self) -> int:
        """Shared memory of a block: whole lines of the banks, so that the swizzle stays inside.

        Every access lies inside.  A tile starts less than a chunk behind a boundary, and ends `span` later;
        chunks end with the line, vectors reach `over` further.  Where rows start at chunks all tiles start
        `ahead` of a boundary, by the lead that lies in front of them in their rows; vectors then reach no
        further than the lead that `over` counts once more than `span` does.
        """
        span, over = self._placement[1], self._over_bytes
        if not self.src_aligned:
            return _whole_lines(self.chunk_bytes + span + over)
        lead = self.lead * self.coefficients[self.last] if self.last in self.src_run and not self.halo else 0
        ahead = -lead % self.chunk_bytes
        return _whole_lines(span + max(over, ahead + max(0, over - lead)))

    @cached_property
    def _over_bytes(self) -> int:
        """The bytes past the tile that a vector cut by the end of its run reaches: it is gathered whole."""
        if not self.dst_run or self.unit == 1:
            return 0
        held = self.dst_length + self.lead * self.dst_inner
        end = self.vectors * self.config.vec + self.lead * self.dst_inner
        furthest = max((self.run_layout(position) for position in range(held, end)), default=0)
        last: int = self.run_layout(self.dst_length - 1)
        return furthest - last if furthest > last else 0

    @cached_property
    def _placement(self) -> tuple[tuple[int, ...], int]:
        """The coefficients, and the bytes from the tile's first element to its last."""
        found = [0] * len(self.modes)
        step = self.size
        for k in self.src_run:
            found[k] = step
            step *= self.held[k]
        span = step + (self.lead * found[self.last] if self.last in self.src_run and not self.halo else 0)
        pad, unit = self.config.pad_bytes, self.chunk_bytes if self.src_aligned else self.size
        for k in self.src_rows:
            residue = self.modes[k].src * self.size % self.chunk_bytes
            found[k] = row_distance(span, residue, self.chunk_bytes, unit) + pad
            dummy = self.lead if k == self.last and not self.halo else 0
            span += (self.held[k] + dummy - 1) * found[k]
            pad = 0
        return tuple(found), span

    @cached_property
    def run_layout(self) -> Layout:
        """Position in a run of the destination -> bytes of shared memory from its first element.

        A lead moves positions past the run's end, so that the last mode takes what is left, even one of 1.
        """
        run = self.dst_run
        return Layout(tuple(self.tile[k] for k in run), tuple(self.coefficients[k] for k in run))

    @cached_property
    def layout(self) -> AnyLayout:
        """The layout of the tile's bytes in shared memory."""
        plain, swizzle = Layout(self.tile_bytes, 1), self.config.swizzle
        return ComposedLayout(swizzle, 0, plain) if swizzle.bits else plain

    # --- storing ---------------------------------------------------------------------------------------

    @property
    def group(self) -> int:
        """Runs of the destination whose elements are neighbours in shared memory, stored by one thread."""
        return 4 // self.size if self.config.turned else 1

    @cached_property
    def can_turn(self) -> bool:
        """True when words of several rows can be transposed in registers."""
        size, c = self.size, self.config
        if size >= WORD_BYTES or not self.src_run or not self.dst_rows:
            return False
        group, first = WORD_BYTES // size, self.src_run[0]
        if self.lead and self.modes[first].dst % self.unit:
            return False  # runs of a group start at different places of their units
        if first != self.dst_rows[0] or first in self.dst_run:
            return False
        words = Stage(self.moves, replace(c, chunk=group))
        whole = (c.vec, c.chunk, self.tile[first])
        return all(n % group == 0 for n in whole) and words.src_aligned

    @cached_property
    def vectors(self) -> int:
        """Vectors of a run of the destination."""
        more = self.unit - 1 if self.lead and not self.halo else 0
        return -(-(self.dst_length + more) // self.config.vec)

    @cached_property
    def dst_rows(self) -> tuple[int, ...]:
        """Modes that count the runs of the destination, by source stride."""
        return tuple(k for k in self.by_source if k not in self.dst_run and self.tile[k] > 1)

    @cached_property
    def lanes(self) -> int:
        """Consecutive threads that store one run of the destination."""
        lanes = self.config.lanes
        return lanes if lanes and self.vectors % lanes == 0 and self.dst_rows else self.vectors

    @cached_property
    def word_rows(self) -> int:
        """Neighbouring runs that share a 32-bit word of shared memory and are kept apart in a warp."""
        apart = 4 // self.size if self.size < 4 and self.lanes < self.vectors else 1
        return apart if self.group == 1 and self.dst_rows and self.tile[self.dst_rows[0]] % apart == 0 else 1

    @property
    def vector_digits(self) -> Digits:
        """Vector, or group of them -> coordinate: of the modes that count runs, and behind all modes the
        elements along the run.

        `lanes` of a run come first, then as many of other runs, those that share a word last.
        """
        vec, along = self.config.vec, self.moves.rank
        rows = [(self.tile[k], 1, k) for k in self.dst_rows]
        if rows:
            extent, _, k = rows[0]
            rows[0] = extent // self.group, self.group, k
        if self.lanes == self.vectors:
            return ((self.vectors, vec, along), *rows)
        (extent, step, k), *others = rows
        apart = self.word_rows
        first = (self.lanes, vec, along), (extent // apart, apart * step, k), (apart, step, k)
        return (*first, (self.vectors // self.lanes, self.lanes * vec, along), *others)

    @property
    def stores(self) -> int:
        """Vectors of a tile; those of a group count once."""
        return self.vectors * prod(self.tile[k] for k in self.dst_rows) // self.group


@lru_cache(maxsize=1 << 10)
def coordinates(digits: Digits) -> Layout:
    """Number -> coordinate, as a layout; a digit of extent 1 is none.

    >>> print(coordinates(((4, 8, 1), (3, 1, 0), (1, 1, 2))), coordinates(((4, 8, 1), (3, 1, 0)))(7))
    (4,3):(8@1,1@0) (1,24)
    """
    counting = [digit for digit in digits if digit[0] > 1]
    return Layout(
        tuple(n for n, *_ in counting), tuple(ScaledBasis(step, mode) for _, step, mode in counting)
    )


def coordinate_of(layout: Layout, number: Any, rank: int) -> tuple[Any, ...]:
    """The coordinate of a number, an int, an array or an index expression, filled up to `rank` modes.

    >>> coordinate_of(coordinates(((4, 8, 1), (3, 1, 0))), 7, 3)
    (1, 24, 0)
    """
    found = layout(number) if layout.shape else ()
    return (*found, *(0,) * (rank - len(found)))


def _whole_lines(nbytes: int) -> int:
    """Lines of 128 bytes, all banks once, that hold as many."""
    return -(-nbytes // LINE_BYTES) * LINE_BYTES


def row_distance(span: int, residue: int, chunk_bytes: int, unit_bytes: int) -> int:
    """The least distance, `residue` modulo a chunk, of rows of `span` bytes whose chunks do not meet.

    Rows start at any multiple of `unit_bytes`.

    >>> row_distance(256, 0, 16, 16), row_distance(256, 12, 16, 4), row_distance(5, 1, 16, 1)
    (256, 268, 33)
    """
    starts = range(0, chunk_bytes, unit_bytes)
    most = max(-(-(start + span) // chunk_bytes) - (start + residue) // chunk_bytes for start in starts)
    return residue + chunk_bytes * max(0, most)
