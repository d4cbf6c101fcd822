"""The walk of a block over a tensor that is reduced or normalised: layouts, for ints, arrays, expressions.

The idea.  A row is a set of elements reduced together, in any direction of memory.  They are counted in
steps of one vector, `vec` elements along the first mode:

    rows       the first mode is reduced     a vector is `vec` elements of one row
    columns    the first mode is kept        a vector is one element each of `vec` rows

A block is a tiled copy of vectors: rows_per_block by threads_per_row threads, and what a thread has of the
coordinates (row, step) is its partition.  Two more layouts say which vector that is, in coordinates of the
normal form's modes, and an address is the inner product of coordinate and stride:

    softmax (65536,1024) f32 over 1, 64 threads per row, vectors of 4

        threads     (1,(64,1)):(64,(1,64))      (row, thread of the row) -> tid
        partition   (64,((4,1),(1,4)))          (tid, (value, (row, i))) -> (row, step)
        coordinates     65536:1@0               row -> coordinate of the kept modes
                        256:1@0                 step -> coordinate of the reduced modes, the first in vectors

The layouts hold integers; a block's place, a split's share and a loop's variable are added to coordinates.
Source, destination and weights take the same coordinate, and the kernel's tensors its accesses: an index is
the row's, under a name, and what its step adds to it.

Notes.  All functions run on ints, arrays and expressions.  Rows that do not start at vectors, and modes that
run backwards, are not layouts: see `unaligned`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, gcd, prod
from typing import Any, Literal, NamedTuple, TypeAlias

from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.expr import Expr, as_expr
from layoutalg.dtype import DType
from layoutalg.kernels.rowwise.tensors import Form, Mode
from layoutalg.layout import Layout, ScaledBasis, has_bases

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""

Crd: TypeAlias = tuple[Index, ...]
"""A coordinate."""

Side: TypeAlias = Literal["src", "dst", "weight"]
"""The array in which a coordinate has a place."""

WARP, MOST_THREADS = 32, 1024
"""Lanes of a warp, and the most threads of a block."""

WORD_BYTES, VECTOR_BYTES, SECTOR_BYTES, LINE_BYTES = 4, 16, 32, 128
"""A register, the widest access of a lane, and what memory and the L1 cache move at once."""


def power_above(n: float) -> int:
    """The least power of two that is not below n.

    >>> [power_above(n) for n in (0, 1, 2.5, 32)]
    [1, 1, 4, 32]
    """
    return 1 << max(0, ceil(n) - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Tiling:
    """The arrangement of a block's threads over rows and their vectors of `vec` elements.

    tid = lane + lanes * (row + rows_per_block * group): lanes * groups threads share a row, and each has
    `rows_per_thread` of them; `splits` blocks share the steps of a row, or the `cluster` blocks of a cluster.
    `resident` clusters, or blocks of splits, are launched, which go on from tile to tile; 0: one per tile.
    """

    element: DType
    vec: int
    rows_per_block: int
    lanes: int
    groups: int = 1
    rows_per_thread: int = 1
    splits: int = 1
    cluster: int = 1
    resident: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows_per_block * self.threads_per_row

    @property
    def threads_per_row(self) -> int:
        """Threads of a block that share a row."""
        return self.lanes * self.groups

    @property
    def nbytes(self) -> int:
        """Bytes of a vector."""
        return self.vec * self.element.nbytes

    @property
    def words(self) -> int:
        """32-bit registers of a vector."""
        return max(1, self.nbytes // 4)


class Bases(NamedTuple):
    """The start of a row's elements in source and destination, and its coordinate, where walks need it."""

    source: Index
    target: Index
    row: Crd = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A vector: its first element in source and destination, and which of its elements are the row's.

    Element e is the row's where low <= at + e < high.  `weight` is where the weights of the row, or of the
    step of a column, begin.  `crd` is its coordinate in the walk's modes; () where the places are no inner
    products of one.
    """

    source: Index
    target: Index
    weight: Index
    at: Index = 0
    low: Index = 0
    high: Index = 0
    crd: Crd = ()

    @property
    def ends(self) -> tuple[Expr, Expr, Expr]:
        """(at, low, high) as expressions."""
        return as_expr(self.at), as_expr(self.low), as_expr(self.high)

    def has(self, e: Index) -> Index:
        """The predicate that element e is the row's."""
        return (self.at + e >= self.low) & (self.at + e < self.high)


@dataclass(frozen=True)
class Walk:
    """The walk of a tiling over a problem's normal form; all rows start at vectors.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> x = normalise(axes_problem((64, 1000), 1, "f32"))
    >>> w = Walk(x, Tiling(dtype("f32"), 4, 1, 32))
    >>> w.rows, w.steps, w.blocks
    (True, 250, 64)
    """

    form: Form
    tiling: Tiling

    # --- modes, the first one in vectors ---------------------------------------------------------------

    @cached_property
    def lead(self) -> Mode:
        """The first mode, along which vectors lie, in elements."""
        return self.form.lead

    @cached_property
    def rows(self) -> bool:
        """Whether vectors lie along the reduced modes."""
        return self.lead.reduced

    @property
    def vectors(self) -> int:
        """Vectors along the first mode."""
        return self.lead.extent // self.tiling.vec

    @property
    def _lead(self) -> Mode:
        """The first mode in vectors."""
        m, vec = self.lead, self.tiling.vec
        return Mode(self.vectors, m.src * vec, m.dst * vec, m.reduced, m.weight * vec)

    @cached_property
    def outer(self) -> tuple[Mode, ...]:
        """The reduced modes but the one that rows run along."""
        return self.form.reduced[1:] if self.rows else self.form.reduced

    @cached_property
    def kept(self) -> tuple[Mode, ...]:
        """The modes of a row's coordinate."""
        return self.form.kept if self.rows else (self._lead, *self.form.kept[1:])

    @cached_property
    def reduced(self) -> tuple[Mode, ...]:
        """The modes of a step's coordinate."""
        return (self._lead, *self.outer) if self.rows else self.outer

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes of a vector's coordinate."""
        return self.kept + self.reduced

    @cached_property
    def row_extents(self) -> tuple[int, ...]:
        """Extents of the modes of rows."""
        return tuple(m.extent for m in self.kept)

    @cached_property
    def step_extents(self) -> tuple[int, ...]:
        """Extents of the modes of steps."""
        return tuple(m.extent for m in self.reduced)

    @cached_property
    def places(self) -> int:
        """Rows, or vectors of them side by side."""
        return prod(self.row_extents)

    @cached_property
    def steps(self) -> int:
        """Vectors that the threads of a row have to take."""
        return prod(self.step_extents)

    @property
    def values(self) -> int:
        """Rows of a vector: 1, or its elements for columns."""
        return 1 if self.rows else self.tiling.vec

    @cached_property
    def tiles(self) -> int:
        """Blocks that have different rows."""
        each = self.tiling.rows_per_block * self.tiling.rows_per_thread
        return (self.places + (each - 1)) // each

    @property
    def blocks(self) -> int:
        """Blocks of a launch."""
        if self.tiling.splits > 1 and self.tiling.resident:
            return self.tiling.resident
        clusters = min(self.tiles, self.tiling.resident) if self.tiling.resident else self.tiles
        return clusters * self.tiling.splits * self.tiling.cluster

    # --- the partition of the coordinates (row, step) --------------------------------------------------

    @property
    def threads(self) -> Layout:
        """(row of the block, thread of the row) -> tid."""
        t = self.tiling
        return Layout((t.rows_per_block, (t.lanes, t.groups)), (t.lanes, (1, t.lanes * t.rows_per_block)))

    @cached_property
    def partition(self) -> Layout:
        """(tid, (value, (row, i))) -> (row, step), both from those of the thread's block on.

        All elements of a vector have one coordinate.
        """
        t = self.tiling
        values = Layout((1, t.vec)) if self.rows else Layout((t.vec, 1))
        copy = make_tiled_copy(f"UniversalCopy<uint{8 * t.nbytes}_t>", t.element, self.threads, values)
        turns = max(2, -(-self.steps // t.threads_per_row))  # one alone would have no stride to go on by
        rows, steps = t.rows_per_block * t.rows_per_thread, t.threads_per_row * turns
        row, step = ScaledBasis(1, 0), ScaledBasis(1, 1)
        if self.rows:
            return copy.tidfrg("src", Layout((rows, (t.vec, steps)), (row, (0, step))))
        return copy.tidfrg("src", Layout(((t.vec, rows), steps), ((0, row), step)))

    def thread(self, tid: Index) -> tuple[Index, Index]:
        """(row of the block, thread of the row) of a thread."""
        row, y = called(self.partition, 2, tid, 0)
        return row, y

    def block(self, block: Index) -> tuple[Index, Index]:
        """(number of the tile, split) of a block; blocks of a cluster are neighbours."""
        if (cluster := self.tiling.cluster) > 1:
            return block // cluster, block % cluster
        if self.tiling.splits == 1:
            return block, 0
        return block % self.tiles_at_once, block // self.tiles_at_once

    @property
    def tiles_at_once(self) -> int:
        """Tiles whose parts blocks of a split begin with: all, unless blocks are resident, and go on."""
        return self.tiling.resident // self.tiling.splits or self.tiles

    def place(self, tile: Index, row: Index, n: Index = 0) -> Index:
        """Row n of a thread's: `row` is the thread's first in the block."""
        t = self.tiling
        down, _ = called(self.partition, 2, 0, (0, (n, 0)))
        return tile * (t.rows_per_block * t.rows_per_thread) + down + row

    def is_row(self, place: Index) -> Index:
        """The predicate that a place is one of the rows; of any number of them by its last coordinate."""
        count: Index = self.places
        if isinstance(count, int):
            return place < count
        return coordinate(self.row_extents, place)[-1] < self.row_extents[-1]

    def step(self, y: Index, i: Index) -> Index:
        """Step i of thread y of a row."""
        _, along = called(self.partition, 2, 0, (0, (0, i)))
        return along + y

    # --- addresses -------------------------------------------------------------------------------------

    def counted(self, crd: Crd, modes: Sequence[Mode], side: Side) -> Crd:
        """A coordinate as a side counts it: from the end of modes that run backwards there."""
        return crd

    def along(self, crd: Crd, modes: Sequence[Mode], side: Side) -> Index:
        """The distance in elements of a coordinate from the first one, on a side."""
        strides = (abs(getattr(m, side)) for m in modes)
        return sum((i * d for i, d in zip(self.counted(crd, modes, side), strides, strict=True)), start=0)

    def bases(self, place: Index) -> Bases:
        """The start of a row in source and destination, and its coordinate."""
        crd, form = coordinate(self.row_extents, place), self.form
        source, target = (self.along(crd, self.kept, side) for side in ("src", "dst"))
        return Bases(source + form.src_offset, target + form.dst_offset, crd)

    def chunk(self, bases: Bases, step: Index) -> Chunk:
        """The vector of a step of the row that begins at `bases`."""
        crd, n = coordinate(self.step_extents, step), int(self.rows)
        source, target, weight = (self.along(crd[n:], self.outer, side) for side in ("src", "dst", "weight"))
        source = bases.source + source + self.along(crd[:n], self.reduced[:n], "src")
        target = bases.target + target + self.along(crd[:n], self.reduced[:n], "dst")
        if not self.rows:
            return Chunk(source, target, weight, crd=(*bases.row, *crd))
        return Chunk(
            source, target, weight, crd[0] * self.tiling.vec, 0, self.lead.extent, (*bases.row, *crd)
        )  # fmt: skip

    def exists(self, step: Index, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that a step exists and its vector is one of the row's."""
        return (step < self.steps, *self.inside(chunk))

    def inside(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that the vector of a step that exists is one of the row's."""
        return ()

    def readable(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that a vector of a step that exists can be read."""
        return ()

    def weights(self, chunk: Chunk) -> Crd:
        """The coordinate of a vector's weights; () where their places are no inner products of one."""
        if not chunk.crd or (self.rows and self.lead.weight < 0):
            return ()
        return self.counted(chunk.crd[len(self.kept) :], self.reduced, "weight")

    def weight_of(self, chunk: Chunk, e: int) -> Index:
        """The place of the weight of element e of a row's vector, from `chunk.weight` on."""
        return self.along((chunk.at + e,), (self.lead,), "weight")

    @property
    def cut(self) -> bool:
        """True when some vectors hold elements of several rows or of none."""
        return False


@lru_cache(1024)
def coordinates(extents: tuple[int, ...]) -> Layout:
    """Flat index -> coordinate; the last mode goes on past its extent.

    >>> print(coordinates((784, 64)))
    (784,64):(1@0,1@1)
    """
    most = tuple(as_expr(n).facts.hi for n in extents)
    return Layout(most, tuple(ScaledBasis(1, k) for k in range(len(extents))))


def coordinate(extents: tuple[int, ...], index: Index) -> Crd:
    """The coordinate of a flat index.

    >>> coordinate((4, 5), 6)
    (2, 1)
    """
    return called(coordinates(extents), len(extents), index)


def called(layout: Layout, rank: int, *at: Index) -> Crd:
    """The coordinate that a layout gives, filled up to `rank` modes."""
    found = tuple(layout(*at)) if has_bases(layout) else ()
    return (*found, *(0,) * (rank - len(found)))


def aligned(form: Form, vec: int) -> bool:
    """True when every row of the source starts at a vector."""
    return gcd(form.src_offset, *(m.src for m in form.modes[1:])) % vec == 0


# --- which vectors there are ---------------------------------------------------------------------------


def row_ends(form: Form) -> list[int]:
    """The starts and ends of rows, in elements: vectors are whole where their size divides all of these."""
    return [v for m in form.modes[1:] for v in (m.src, m.dst)] + [
        form.src_offset, form.dst_offset, form.lead.extent
    ]  # fmt: skip


def can_vector(form: Form, vec: int, *, in_place: bool = False) -> bool:
    """True when `vec` elements can be read and written at once, at places that are multiples of vec."""
    lead = form.lead
    if vec == 1:
        return True
    if lead.src != 1 or lead.dst != 1 or lead.extent < vec:
        return False
    if lead.reduced and not in_place:
        return one_phase(form, vec)
    return not any(v % vec for v in row_ends(form))


def one_phase(form: Form, vec: int) -> bool:
    """True when every element's place in a vector of the source is that in one of the destination.

    Coordinate 0 has the same place in both, and so has every step from it, up or down.
    """
    differences = [m.src - m.dst for m in form.modes[1:]] + [form.src_offset - form.dst_start]
    return not any(d % vec for d in differences)
