"""How a block walks over a tensor that is reduced or normalised: layouts, for ints, arrays and expressions.

The idea.  A row is what is reduced together, whichever way it lies in memory.  Its elements are counted in
steps of one vector, `vec` elements along the first mode:

    rows       the first mode is reduced     a vector is `vec` elements of one row
    columns    the first mode is kept        a vector is one element each of `vec` rows

A block is a tiled copy of vectors: rows_per_block by threads_per_row threads, and what a thread has of the
coordinates (row, step) is its partition.  Two more layouts say which element that is, in coordinates of the
normal form's modes, and an address is the inner product of coordinate and stride:

    softmax (65536,1024) f32 over 1, 64 threads per row, vectors of 4

        threads     (1,(64,1)):(64,(1,64))      (row, thread of the row) -> tid
        partition   (64,((4,1),(1,4)))          (tid, (value, (row, i))) -> (row, step)
        row_crd     65536:1@1                   row -> coordinate of the kept modes
        step_crd    256:4@0                     step -> coordinate of the reduced modes

The layouts hold integers; a block's place, a split's share and a loop's variable are added to coordinates.

Notes.  The kernel calls these functions on its thread's index, the prediction on arrays of all of them: what
is predicted is what is printed.  Rows that do not start at vectors are not layouts: see `unaligned`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Any, NamedTuple, TypeAlias

from layoutalg.atoms import TiledCopy, make_tiled_copy
from layoutalg.codegen.expr import Expr, as_expr
from layoutalg.dtype import DType
from layoutalg.kernels.rowwise.problems import Form, Mode
from layoutalg.layout import Layout, ScaledBasis, has_bases

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""

WARP, VECTOR_BYTES = 32, 16
"""Lanes of a warp, and the widest access of a lane."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the threads of a block lie over rows and their vectors of `vec` elements.

    tid = lane + lanes * (row + rows_per_block * group): lanes * groups threads share a row, and each has
    `rows_per_thread` of them; `splits` blocks share the steps of a row.
    """

    element: DType
    vec: int
    rows_per_block: int
    lanes: int
    groups: int = 1
    rows_per_thread: int = 1
    splits: int = 1

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
    """Where a row's elements begin in source and destination; `at` is used by skewed columns alone."""

    source: Index
    target: Index
    at: Index = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A vector: its first element in source and destination, and which of its elements are the row's.

    Element e is the row's where low <= at + e < high.  `weight` is where the weights of the row, or of the
    step of a column, begin.
    """

    source: Index
    target: Index
    weight: Index
    at: Index = 0
    low: Index = 0
    high: Index = 0

    @property
    def ends(self) -> tuple[Expr, Expr, Expr]:
        """(at, low, high) as expressions."""
        return as_expr(self.at), as_expr(self.low), as_expr(self.high)

    def has(self, e: Index) -> Index:
        """The predicate that element e is the row's.

        >>> [e for e in range(4) if Chunk(100, 200, 0, 8, 3, 10).has(e)]
        [0, 1]
        """
        return (self.at + e >= self.low) & (self.at + e < self.high)


@dataclass(frozen=True)
class Walk:
    """The walk of a tiling over a problem's normal form; all rows start at vectors.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> x = normalise(axes_problem((64, 1000), 1, "f32"))
    >>> w = Walk(x, Tiling(dtype("f32"), 4, 1, 32))
    >>> w.rows, w.steps, w.blocks
    (True, 250, 64)
    """

    form: Form
    tiling: Tiling

    # --- the coordinates (row, step) -------------------------------------------------------------------

    @cached_property
    def lead(self) -> Mode:
        """The first mode, along which vectors lie."""
        return self.form.lead

    @cached_property
    def rows(self) -> bool:
        """True when vectors lie along what is reduced."""
        return self.lead.reduced

    @cached_property
    def outer(self) -> tuple[Mode, ...]:
        """The reduced modes but the one that rows run along."""
        return self.form.reduced[1:] if self.rows else self.form.reduced

    @cached_property
    def row_extents(self) -> tuple[int, ...]:
        """Extents of the kept modes, the first one in vectors where these lie across rows."""
        extents = [m.extent for m in self.form.kept]
        if not self.rows:
            extents[0] //= self.tiling.vec
        return tuple(extents)

    @property
    def vectors(self) -> int:
        """Vectors of a row along the first mode; 1 for columns."""
        return self.lead.extent // self.tiling.vec if self.rows else 1

    @cached_property
    def step_extents(self) -> tuple[int, ...]:
        """Extents of the reduced modes, the first one in vectors where these lie along rows."""
        outer = [m.extent for m in self.outer]
        return (self.vectors, *outer) if self.rows else tuple(outer)

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
        return -(-self.places // (self.tiling.rows_per_block * self.tiling.rows_per_thread))

    @property
    def blocks(self) -> int:
        """Blocks of a launch."""
        return self.tiles * self.tiling.splits

    # --- layouts ---------------------------------------------------------------------------------------

    @cached_property
    def row_crd(self) -> Layout:
        """Row -> coordinate of the kept modes, in elements; the last one goes on past its extent."""
        return coordinates(self.row_extents, 1 if self.rows else self.tiling.vec)

    @cached_property
    def step_crd(self) -> Layout:
        """Step -> coordinate of the reduced modes, in elements; the last one goes on past its extent."""
        return coordinates(self.step_extents, self.tiling.vec if self.rows else 1)

    @property
    def threads(self) -> Layout:
        """(row of the block, thread of the row) -> tid."""
        t = self.tiling
        return Layout(
            (t.rows_per_block, (t.lanes, t.groups)), (t.lanes, (1, t.lanes * t.rows_per_block))
        )  # fmt: skip

    @cached_property
    def partition(self) -> Layout:
        """(tid, (value, (row, i))) -> (row, step), both from those of the thread's block on."""
        t = self.tiling
        values = Layout((1, t.vec)) if self.rows else Layout((t.vec, 1))
        copy = make_tiled_copy(f"UniversalCopy<uint{8 * t.nbytes}_t>", t.element, self.threads, values)
        own = t.rows_per_block * t.rows_per_thread
        turns = max(2, -(-self.steps // t.threads_per_row))  # one alone would have no stride to go on by
        return vectors_of(copy, (own, t.threads_per_row * turns), along=self.rows, vec=t.vec)

    def thread(self, tid: Index) -> tuple[Index, Index]:
        """(row of the block, thread of the row) of a thread."""
        row, y = coordinate(self.partition, 2, tid, 0)
        return row, y

    def block(self, block: Index) -> tuple[Index, Index]:
        """(number of the tile, split) of a block."""
        if self.tiling.splits == 1:
            return block, 0
        return block % self.tiles, block // self.tiles

    def place(self, tile: Index, row: Index, n: Index = 0) -> Index:
        """Row n of a thread's: `row` is the thread's first in the block."""
        t = self.tiling
        down, _ = coordinate(self.partition, 2, 0, (0, (n, 0)))
        return tile * (t.rows_per_block * t.rows_per_thread) + down + row

    def step(self, y: Index, i: Index) -> Index:
        """Step i of thread y of a row."""
        _, along = coordinate(self.partition, 2, 0, (0, (0, i)))
        return along + y

    # --- addresses -------------------------------------------------------------------------------------

    def bases(self, place: Index) -> Bases:
        """Where a row begins."""
        crd, modes = coordinate(self.row_crd, len(self.row_extents), place), self.form.kept
        return Bases(
            inner(crd, (m.src for m in modes)) + self.form.src_offset,
            inner(*turned(crd, modes, "dst")) + self.form.dst_offset,
        )

    def target(self, place: Index, e: int = 0) -> Index:
        """Where element e of a vector of rows goes in a destination that has the kept modes alone."""
        crd = coordinate(self.row_crd, len(self.row_extents), place)
        crd = crd if self.rows else (crd[0] + e, *crd[1:])
        return inner(*turned(crd, self.form.kept, "dst")) + self.form.dst_offset

    def begin(self, bases: Bases, step: Index) -> tuple[Index, Bases, Index]:
        """Of a step: how far along its row, where that begins in both buffers, and where in the weights."""
        crd, modes, at = coordinate(self.step_crd, len(self.step_extents), step), self.form.reduced, 0
        if self.rows:
            at, crd, modes = crd[0], crd[1:], modes[1:]
        source = bases.source + inner(crd, (m.src for m in modes))
        target = bases.target + inner(*turned(crd, modes, "dst"))
        return at, Bases(source, target), inner(*turned(crd, modes, "weight"))

    def chunk(self, bases: Bases, step: Index) -> Chunk:
        """The vector of a step of the row that begins at `bases`."""
        at, (source, target, _), weight = self.begin(bases, step)
        if not self.rows:
            return Chunk(source, target, weight)
        target = target + inner(*turned((at,), (self.lead,), "dst"))
        return Chunk(source + at * self.lead.src, target, weight, at, 0, self.lead.extent)

    def exists(self, step: Index, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that a step exists and its vector is one of the row's."""
        return (step < self.steps, *self.inside(chunk))

    def inside(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that the vector of a step that exists is one of the row's."""
        return ()

    def readable(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that a vector of a step that exists can be read."""
        return ()

    def written(self, row: Index) -> tuple[Index, ...]:
        """The predicates that a thread writes its vectors."""
        return ()

    def weight_of(self, chunk: Chunk, e: int) -> Index:
        """Where the weight of element e of a row's vector is, from `chunk.weight` on."""
        return inner(*turned((chunk.at + e,), (self.lead,), "weight"))

    @property
    def cut(self) -> bool:
        """True when some vectors hold elements of several rows or of none."""
        return False


# --- layouts of coordinates ----------------------------------------------------------------------------


def coordinates(extents: Sequence[int], step: int = 1) -> Layout:
    """Flat index -> coordinate, of which the first mode counts in steps.

    >>> print(coordinates((784, 64), 4))
    (784,64):(4@0,1@1)
    """
    bases = (ScaledBasis(step if k == 0 else 1, k) for k in range(len(extents)))
    return Layout(tuple(extents), tuple(bases))


def vectors_of(copy: TiledCopy, extents: tuple[int, int], *, along: bool, vec: int) -> Layout:
    """The partition of the coordinates (row, step) of vectors, all elements of which have one coordinate."""
    rows, steps = extents
    row, step = ScaledBasis(1, 0), ScaledBasis(1, 1)
    if along:
        return copy.tidfrg("src", Layout((rows, (vec, steps)), (row, (0, step))))
    return copy.tidfrg("src", Layout(((vec, rows), steps), ((0, row), step)))


def coordinate(layout: Layout, rank: int, *at: Index) -> tuple[Index, ...]:
    """The coordinate that a layout gives, filled up to `rank` modes.

    >>> coordinate(Layout((4, 5), (ScaledBasis(8, 0), ScaledBasis(1, 1))), 2, 6)
    (16, 1)
    """
    found = tuple(layout(*at)) if has_bases(layout) else ()
    return (*found, *(0,) * (rank - len(found)))


def inner(crd: Iterable[Index], strides: Iterable[int]) -> Index:
    """The inner product of a coordinate and strides.

    >>> inner((2, 3), (10, 1))
    23
    """
    return sum((i * d for i, d in zip(crd, strides, strict=True)), start=0)


def minus(x: Index, y: Index, most: int) -> Index:
    """x - y for 0 <= y <= x <= most, modulo a power of two; where y is greater, that power less y - x.

    For differences that no predicate lets through where they are below 0: `Minus` would take a comparison.
    In a loop it also stops NVRTC from computing addresses ahead, which takes up to twice the registers.

    >>> minus(9, 4, 9), minus(9, 9, 100), minus(3, 4, 5)
    (5, 0, 7)
    """
    top = 1 << most.bit_length()
    if isinstance(y, int):
        return (x + (top - y)) % top if y else x
    return (x + 1 + (y ^ (top - 1))) % top


def turned(crd: Sequence[Index], modes: Sequence[Mode], side: str) -> tuple[list[Index], list[int]]:
    """A coordinate and its strides on a side; a mode that runs backwards there is counted from its end.

    >>> turned((2, 3), (Mode(8, 1, 1, True), Mode(5, 8, -8, False)), "dst")
    ([2, 1], [1, 8])
    """
    strides = [getattr(m, side) for m in modes]
    flipped = (
        minus(m.extent - 1, i, 2 * m.extent) if d < 0 else i
        for i, m, d in zip(crd, modes, strides, strict=True)
    )
    return list(flipped), [abs(d) for d in strides]


def aligned(form: Form, vec: int) -> bool:
    """True when every row of the source starts at a vector.

    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> [aligned(normalise(axes_problem((8, n), 1, "f32")), 4) for n in (64, 66)]
    [True, False]
    """
    return gcd(form.src_offset, *(m.src for m in form.modes[1:])) % vec == 0
