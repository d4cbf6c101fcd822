"""Walks over rows that do not start at vectors, or run backwards: arithmetic that no layout can express.

The idea.  A layout of integers says where a vector is if every row starts at one, and no stride is below 0:
indices are unsigned.  Where rows start at any element, the vector that an element lies in depends on the
remainder of an address, which is neither linear in the coordinate nor known before the kernel runs.  Four
answers, each a `Walk` whose coordinates are still layouts and whose addresses are not:

    Backwards       a mode that runs backwards on a side is counted from its end there
    HeadTail        reductions: the vectors that lie inside of a row, and single elements before and behind
    MaskedRows      norms along rows: all vectors that touch a row; other elements are masked
    CutRows         reductions of floats: vectors as of MaskedRows, other elements are neutral

A masked vector has the same place in source and destination, and is written element by element
where it is cut.  In place that is not done: a vector would be read while a neighbour writes part of it.

Notes.  Whole vectors are read: up to the last 16-byte unit that holds an element.  A difference wraps where
the vector before the first is requested, which no predicate lets through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise.tensors import Form, Mode
from layoutalg.kernels.rowwise.walk import (
    Bases,
    Chunk,
    Crd,
    Index,
    Side,
    Tiling,
    Walk,
    aligned,
    coordinate,
)

LONG_VECTORS = 16
"""The number of vectors from which on a row is long compared with the single elements at its ends."""

# --- modes that run backwards --------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Backwards(Walk):
    """A walk some of whose modes run backwards in the destination or the weights.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.walk import Tiling
    >>> form = Form((Mode(8, 1, 1, True), Mode(5, 8, -8, False)), 0, 0)
    >>> w = Backwards(form, Tiling(dtype("f32"), 4, 1, 2))
    >>> w.counted((2, 3), form.modes, "dst"), w.along((2, 3), form.modes, "dst")
    ((2, 1), 10)
    """

    def counted(self, crd: Crd, modes: Sequence[Mode], side: Side) -> Crd:
        """A coordinate as a side counts it: from the end of modes that run backwards there."""
        return tuple(
            minus(m.extent - 1, i, 2 * m.extent) if getattr(m, side) < 0 else i
            for i, m in zip(crd, modes, strict=True)
        )

    def begin(self, bases: Bases, step: Index) -> tuple[Index, Index, Index, Index]:
        """The distance of a step along its row, and its start in source, destination and weights."""
        at, *crd = coordinate(self.step_extents, step)
        source, target, weight = (self.along(tuple(crd), self.outer, s) for s in ("src", "dst", "weight"))
        return at * self.tiling.vec, bases.source + source, bases.target + target, weight


# --- reductions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeadTail(Backwards):
    """The walk of a reduction: vectors inside of rows, and the elements of head and tail one by one."""

    @cached_property
    def aligned(self) -> bool:
        """True when every row starts at a vector, so that there is no head; columns always do."""
        return not self.rows or aligned(self.form, self.tiling.vec)

    @property
    def edges(self) -> int:
        """The most single elements of a row."""
        if not self.rows:
            return 0
        return self.lead.extent % self.tiling.vec if self.aligned else 2 * self.tiling.vec

    @cached_property
    def edge_steps(self) -> int:
        """The most single elements of all rows that are reduced together."""
        return self.edges * prod(m.extent for m in self.outer)

    def chunk(self, bases: Bases, step: Index) -> Chunk:
        """The vector of a step: from the first one on that starts inside of the row."""
        if self.aligned:
            return super().chunk(bases, step)
        along, begin, _, weight = self.begin(bases, step)
        vec = self.tiling.vec
        at = (begin + (vec - 1)) // vec * vec + along
        return Chunk(at, 0, weight, at, begin, begin + self.lead.extent)

    def target(self, place: Index, e: int = 0) -> Crd:
        """The coordinate of element e of a vector of rows, among the kept modes of the form."""
        crd = coordinate(self.row_extents, place)
        return crd if self.rows else (crd[0] * self.tiling.vec + e, *crd[1:])

    def exists(self, step: Index, chunk: Chunk) -> tuple[Index, ...]:
        """The predicates that a step exists and its vector ends inside of the row."""
        return (*self.inside(chunk), step < self.steps)

    def inside(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicate that a vector ends inside of its row."""
        return () if self.aligned else (chunk.at + self.tiling.vec <= chunk.high,)

    def edge(self, bases: Bases, number: Index) -> tuple[Chunk, tuple[Index, ...]]:
        """Single element `number` of the row that begins at `bases`, and the predicates that it exists.

        They are those of the vectors that a row's first and last element lie in, where these stick out.
        """
        vec, n, outer = self.tiling.vec, self.lead.extent, tuple(m.extent for m in self.outer)
        ends = (self.edges,) if self.aligned else (vec, 2)
        crd = coordinate((*ends, *outer), number)
        begin, weight = (self.along(crd[len(ends) :], self.outer, side) for side in ("src", "weight"))
        begin = bases.source + begin
        exists = (number < self.edge_steps,)
        if self.aligned:
            along = n // vec * vec + crd[0]
            return Chunk(begin + along, 0, weight, along), exists
        i, end = crd[:2]
        at = (begin + end * n) // vec * vec + i
        limit = end * (begin + n) + (end ^ 1) * ((begin + (vec - 1)) // vec * vec)
        return Chunk(at, 0, weight, at, begin), (*exists, at >= begin, at < limit)

    def index(self, chunk: Chunk) -> Index:
        """The number of a vector's first element among those that are reduced with it, by rows."""
        if not self.rows:
            return chunk.weight
        along = minus(chunk.at, chunk.low, 2 * self.lead.extent + 4 * self.tiling.vec)
        return chunk.weight + self.along((along,), (self.lead,), "weight")


# --- norms ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskedRows(Backwards):
    """Rows of a norm some of which start or end inside vectors.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> from layoutalg.kernels.rowwise.walk import Tiling
    >>> x = normalise(axes_problem((8, 130), 1, "f32", keeps=True))
    >>> w = MaskedRows(x, Tiling(dtype("f32"), 4, 1, 32))
    >>> chunk = w.chunk(w.bases(1), 0)
    >>> w.vectors, chunk.source, chunk.low, chunk.high
    (34, 128, 2, 132)
    """

    @property
    def vectors(self) -> int:
        """The most vectors that a row touches."""
        vec = self.tiling.vec
        return -(-(self.lead.extent + (vec - 1)) // vec)

    @property
    def cut(self) -> bool:
        """The first and the last vector of a row hold elements of others."""
        return True

    def chunk(self, bases: Bases, step: Index) -> Chunk:
        """The vector of a step, from the one on that the row's first element lies in."""
        at, source, target, weight = self.begin(bases, step)
        vec = self.tiling.vec
        low = source % vec
        source, target = source // vec * vec + at, target // vec * vec + at
        return Chunk(source, target, weight, at, low, low + self.lead.extent)

    def inside(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicate that a vector holds an element of the row."""
        return (chunk.at < chunk.high,)

    def weight_of(self, chunk: Chunk, e: int) -> Index:
        """The place of the weight of element e of a row's vector, from `chunk.weight` on."""
        return self.along((minus(chunk.at + e, chunk.low, 2 * self.lead.extent),), (self.lead,), "weight")


# --- reductions of floats ------------------------------------------------------------------------------


@dataclass(frozen=True)
class CutRows(MaskedRows, HeadTail):
    """Rows of a reduction some of which start or end inside vectors: all vectors that touch a row.

    Elements of others are replaced by what changes nothing.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> from layoutalg.kernels.rowwise.walk import Tiling
    >>> x = normalise(axes_problem((8, 130), 1, "f32"))
    >>> w = CutRows(x, Tiling(dtype("f32"), 4, 1, 32))
    >>> w.vectors, w.steps, w.edges
    (33, 33, 0)
    """

    @cached_property
    def phases(self) -> int:
        """The common divisor of the places in a vector where rows start: its size, if all are 0."""
        return gcd(self.tiling.vec, self.form.src_offset, *(m.src for m in self.form.modes[1:]))

    @property
    def vectors(self) -> int:
        """The most vectors that a row touches."""
        vec = self.tiling.vec
        return -(-(self.lead.extent + (vec - self.phases)) // vec)

    @property
    def edges(self) -> int:
        """No element is read alone."""
        return 0

    def inside(self, chunk: Chunk) -> tuple[Index, ...]:
        """The predicate that a vector holds an element of the row: at least one vector less can."""
        return super().inside(chunk) if self.phases < self.tiling.vec else ()

    def whole(self, chunk: Chunk) -> Index:
        """The predicate that all elements of a vector are the row's."""
        ends = chunk.at + self.tiling.vec <= chunk.high
        return ends if self.phases == self.tiling.vec else (chunk.low <= chunk.at) & ends


def reduction_walk(form: Form, tiling: Tiling, words: int) -> HeadTail:
    """The walk of a reduction to values of so many words.  Raises UnsupportedError.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> from layoutalg.kernels.rowwise.walk import Tiling
    >>> x = normalise(axes_problem((100, 33), 1, "f32"))
    >>> [type(reduction_walk(x, Tiling(dtype("f32"), vec, 1, 32), 1)).__name__ for vec in (1, 4)]
    ['HeadTail', 'CutRows']
    """
    vec, lead = tiling.vec, form.lead
    if not (lead.extent % vec or (form.src_offset % vec) or any(m.src % vec for m in form.modes[1:])):
        return HeadTail(form, tiling)
    if lead.reduced:  # single elements cost little where rows are long and have two ends alone
        short = lead.extent < LONG_VECTORS * vec or len(form.reduced) > 1
        return CutRows(form, tiling) if words == 1 and short else HeadTail(form, tiling)
    raise UnsupportedError(f"loads of {vec} elements: not all rows of columns start at such loads")
