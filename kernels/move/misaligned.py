"""The partition of rows that start anywhere, run backwards or are cut: arithmetic that no layout does.

The reason.  A layout is linear in its coordinates.  These are not:

    a row's chunk        f(c) // chunk * chunk: where a row lies inside of a chunk depends on the row
    a run's vector       the same on the way out; a block owns the vectors that START in its tile, and stages
                         `lead` more coordinates in front, which its neighbour owns
    a backward mode      extent - 1 - c, where all numbers are >= 0 and c may pass the extent
    the ends of a run    which elements of a vector exist, where the tile or the tensor cuts it

Whatever is aligned, forward and uncut adds nothing: `simplify` proves it of expressions, and predicates that
always hold are not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.codegen.expr import minus
from layoutalg.kernels.move.stage import Stage

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""


# --- loading -------------------------------------------------------------------------------------------


def block_base(stage: Stage, origins: Sequence[Index]) -> Index:
    """Elements between a chunk's boundary and the first element of a block's tile, lead included.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((97, 99), (1, 0), "f32", src_offset=2))
    >>> block_base(Stage(x, PermuteConfig("staged", (97, 64), 256, 4, 1)), (0, 64))
    2
    """
    chunk = stage.config.chunk
    total: Index = stage.moves.src_offset
    for k, m in enumerate(stage.modes):
        if m.src < 0:
            total = total + (m.extent - 1) * -m.src % chunk
        if k == stage.last:
            total = total + -stage.lead * m.src % chunk
        total = total + origins[k] * (m.src % chunk)
    return total % chunk


def bent(stage: Stage, at: Sequence[Index]) -> list[Index]:
    """The coordinate of the source: along a mode that has a halo, or runs backwards, another one."""
    found = list(at)
    if stage.halo and not stage.row_lead:
        found[stage.last] = minus(at[stage.last], stage.lead)
    for k, m in enumerate(stage.modes):
        if m.src < 0:
            found[k] = minus(m.extent - 1, found[k])
    return found


def in_halo(stage: Stage, at: Sequence[Index]) -> list[Index]:
    """The predicates that a coordinate along the mode with a halo exists."""
    if not stage.halo or stage.row_lead or stage.held[stage.last] == 1:
        return []
    return [at[stage.last] >= stage.lead, at[stage.last] < stage.modes[stage.last].extent + stage.lead]


def in_row(stage: Stage, along: Index, start: Index, origins: Sequence[Index]) -> list[Index]:
    """The predicates that a chunk `along` a row that starts at `start` has elements of the row."""
    if not stage.src_run:
        return []
    last, chunk, exists = stage.src_run[-1], stage.config.chunk, list[Index]()
    m, inner = stage.modes[last], stage.src_length // stage.held[last]
    if not stage.src_aligned:
        exists.append(along < start % chunk + stage.src_length)
    if m.extent % stage.tile[last] or stage.row_lead:
        end = m.extent * inner + stage.row_lead
        exists.append(origins[last] * inner + along < start % chunk + end)
    return exists


def to_chunk(start: Index, chunk: int) -> Index:
    """The boundary in front of a row's start."""
    return start // chunk * chunk


# --- storing -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ends:
    """The existing elements of a vector, `along` a run of the destination that starts at element `start`."""

    stage: Stage
    along: Index
    start: Index
    origins: Sequence[Index]

    @property
    def first(self) -> Index:
        """The vector's first element in the destination, swizzles aside."""
        unit = self.stage.unit
        return self.start // unit * unit + self.along

    @property
    def _lead(self) -> int:
        """Elements of the lead."""
        return self.stage.lead * self.stage.dst_inner

    def position(self, e: Index) -> Index:
        """Element e's position in the run, counted from the lead's first: never negative."""
        unit, position = self.stage.unit, self.along + e
        if self.stage.lead:  # e - start % unit + lead
            position = position + ((self.start % unit) ^ (unit - 1)) + (self._lead - (unit - 1))
        return position

    def after(self, e: int) -> tuple[Index, ...]:
        """The predicates that element e is not in front of what the block owns."""
        position = self.position(e)
        if self.stage.halo:
            return (position + self.origins[self.stage.last] * self.stage.dst_inner >= self._lead,)
        return (position >= self._lead,) if self.stage.lead else ()

    def before(self, e: int) -> tuple[Index, ...]:
        """The predicates that element e is not past what the block owns, nor past the tensor."""
        stage = self.stage
        if not stage.dst_run:
            return ()
        last, inner = stage.dst_run[-1], stage.dst_inner
        position, found = self.position(e), []
        if not stage.halo and stage.vectors * stage.config.vec != stage.dst_length:
            found.append(position < self._lead + stage.dst_length)
        if stage.halo or stage.modes[last].extent % stage.tile[last]:
            end = self._lead + stage.modes[last].extent * inner
            found.append(position + self.origins[last] * inner < end)
        return tuple(found)

    @property
    def whole(self) -> tuple[Index, ...]:
        """The predicates that all elements of the vector exist, if its run does."""
        return self.all_of(0, self.stage.config.vec)

    def all_of(self, first: int, count: int) -> tuple[Index, ...]:
        """The predicates that `count` elements from `first` on exist, if the vector's run does."""
        return self.after(first) + self.before(first + count - 1)

    def exists(self, e: int) -> tuple[Index, ...]:
        """The predicates that element e exists, if its run does."""
        return self.after(e) + self.before(e)


def parts(stage: Stage) -> list[tuple[int, int]]:
    """(first element, elements) of what a vector is stored in where it is not whole: words, or elements.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((63, 65), (1, 0), "f16"))
    >>> parts(Stage(x, PermuteConfig("staged", (63, 64), 256, 8, 8)))
    [(0, 2), (2, 2), (4, 2), (6, 2)]
    """
    vec, word = stage.config.vec, max(1, 4 // stage.dst_size)
    count = word if vec > word else 1
    return [(first, count) for first in range(0, vec, count)]
