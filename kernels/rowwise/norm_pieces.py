"""What a walk over a tensor that is normalised is made of: rounds, places in a ring, vectors.

The idea.  A thread goes through rounds, one vector each; `norm_walk` says which.  Rounds that have something
in common are a segment, and a vector is where it lies and which of its elements belong to its row:

    Segment    rounds that exist in every thread, or not; in registers, in shared memory, or read again
    Ring       places in shared memory that rounds use in turn
    Chunk      a vector; Bases are what all chunks of a thread start from
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""

Hold: TypeAlias = Literal["registers", "shared", "global"]
"""Where a block's elements stay between the statistics and the result; global: they are read twice."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rounds `first` to first + count - 1; `plain` ones exist in every thread and lie inside of rows.

    `hold` says where their vectors are.
    """

    first: int
    count: int
    plain: bool
    hold: Hold


@dataclass(frozen=True, slots=True)
class Ring:
    """Places in shared memory for groups of `depth` rounds: `slots` of them, used again `turns` times.

    `plain`: all rounds are, and fill them.
    """

    slots: int
    turns: int
    plain: bool


class Bases(NamedTuple):
    """Where a thread's elements begin: a row's or a column's first element in source and destination.

    Of skewed columns it is the first one of the row, and `at` the thread's place on from a vector before it.
    """

    source: Index
    target: Index
    at: Index


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

    def has(self, e: Index) -> Index:
        """The predicate that element e is the row's."""
        return (self.at + e >= self.low) & (self.at + e < self.high)
