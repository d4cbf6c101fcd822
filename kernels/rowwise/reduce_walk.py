"""How a block walks over a tensor that is reduced: which thread reads what, for ints, arrays, expressions.

The idea.  A thread is one of `fast` lanes that share outputs, of `kept` that have others, of `slow` groups
that share outputs again; it reads vectors along the first mode.

    rows       the first mode is reduced      a vector is `vec` values of one output; a thread has `outs`
    columns    the first mode is kept         a vector is one value each of `vec` outputs

    tid = lane + fast * (column + kept * group)

What is reduced is counted in steps: vectors of a row (times the outer reduced modes), or rows of a column.
Thread (lane, group) takes step number (round * depth + u) * fast * slow + lane + fast * group, for `depth`
values of u at once: so many loads are in flight.  Rounds are dealt to `splits` blocks in turn.

    R 8192:1, K 8192:8192->1  f32      vec 4, fast 32, slow 8: a row is 2048 steps, 8 a thread, one round

Rows that do not start at vectors have an aligned middle, which vectors read, and at most vec - 1 elements in
front and behind: `edges`, which are read one by one.

Notes.  The kernel calls these functions on its thread's index, the prediction on arrays of all of them: what
is predicted is what is printed.  Index values are >= 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Any, TypeAlias

from layoutalg.kernels.rowwise.reduce_modes import Axes, Mode

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""


@dataclass(frozen=True, slots=True)
class ReduceConfig:
    """How one block works; see the module's text.

    `vec` elements per load; `lanes_per_row`, a power of two up to 32, `rows_per_block` and `groups_per_row`,
    a power of two, are threads; `rows_per_thread` where rows are reduced; `depth` loads of each in flight;
    `splits` blocks share the steps of an output.
    """

    vec: int
    lanes_per_row: int
    rows_per_block: int
    groups_per_row: int
    depth: int
    rows_per_thread: int = 1
    splits: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes_per_row * self.rows_per_block * self.groups_per_row

    @property
    def threads_per_row(self) -> int:
        """Threads of a block that share an output."""
        return self.lanes_per_row * self.groups_per_row


def digits(x: Index, extents: Sequence[int]) -> list[Index]:
    """The digits of x in a mixed radix, lowest first; the last one is what is left.

    >>> digits(23, (2, 3, 5))
    [1, 2, 3]
    """
    found = []
    for n in extents[:-1]:
        found.append(x % n)
        x = x // n
    return [*found, x] if extents else []


@dataclass(frozen=True)
class Walk:
    """The geometry of a configuration on a problem's shortest form, in plain numbers.

    >>> from layoutalg.kernels.rowwise.reduce_modes import axes_problem, normalise
    >>> x = normalise(axes_problem((8192, 8192), 1, "f32"))
    >>> walk = Walk(x, ReduceConfig(4, 32, 1, 8, 8))
    >>> walk.rows, walk.steps, walk.rounds, walk.left, walk.blocks
    (True, 2048, 1, 0, 8192)
    """

    axes: Axes
    config: ReduceConfig

    @cached_property
    def first(self) -> Mode:
        """The first mode; one of a single reduced element where nothing is left."""
        return self.axes.modes[0] if self.axes.modes else Mode(1, 1, 0, True)

    @property
    def rows(self) -> bool:
        """True when vectors lie along what is reduced."""
        return self.first.reduced

    # --- outputs ---------------------------------------------------------------------------------------

    @cached_property
    def kept_extents(self) -> tuple[int, ...]:
        """Extents of the kept modes, the first one in vectors where it is the first of all."""
        extents = [m.extent for m in self.axes.kept]
        if not self.rows:
            extents[0] //= self.config.vec
        return tuple(extents)

    @cached_property
    def places(self) -> int:
        """Outputs, or vectors of them: what kept threads count."""
        return prod(self.kept_extents)

    @property
    def values(self) -> int:
        """Values that a thread ends up with."""
        return self.config.rows_per_thread if self.rows else self.config.vec

    @cached_property
    def groups(self) -> int:
        """Blocks that have different outputs."""
        return -(-self.places // (self.config.rows_per_block * self.config.rows_per_thread))

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.groups * self.config.splits

    @property
    def ragged(self) -> bool:
        """True when the last block has threads without outputs."""
        return self.places % (self.config.rows_per_block * self.config.rows_per_thread) != 0

    def place(self, group: Index, out: Index, column: Index) -> Index:
        """Number `out` of the outputs of a thread."""
        return (group * self.config.rows_per_thread + out) * self.config.rows_per_block + column

    def source(self, place: Index) -> Index:
        """Where an output's elements start in the source, in elements after the first of all."""
        total: Index = 0
        for k, (i, m) in enumerate(zip(digits(place, self.kept_extents), self.axes.kept, strict=True)):
            total = total + i * (m.src if k or self.rows else m.src * self.config.vec)
        return total

    def target(self, place: Index, e: int = 0, split: Index = 0) -> Index:
        """Where value e of a place goes: in the destination, or in the workspace of the splits."""
        width = 1 if self.rows else self.config.vec
        if self.config.splits > 1:
            return split * self.axes.outputs + place * width + e
        total: Index = self.axes.dst_offset
        for k, (i, m) in enumerate(zip(digits(place, self.kept_extents), self.axes.kept, strict=True)):
            vec = width if k == 0 else 1
            if m.dst < 0:  # the mirror of i vec + e
                at = flipped(i, m.extent // vec) * vec + (vec - 1 - e if k == 0 and vec > 1 else 0)
            else:
                at = i * vec + (e if k == 0 else 0)
            total = total + at * abs(m.dst)
        return total

    @cached_property
    def target_vec(self) -> int:
        """Elements of a vector that lie together, aligned to their number, where they are written."""
        if self.rows:
            return 1
        if self.config.splits > 1:
            return gcd(self.config.vec, self.axes.outputs)
        first, *others = self.axes.kept
        if first.dst != 1:
            return 1
        return gcd(self.config.vec, self.axes.dst_offset, *(m.dst for m in others))

    # --- steps -----------------------------------------------------------------------------------------

    @cached_property
    def outer(self) -> tuple[Mode, ...]:
        """The reduced modes that are counted one by one: not the one that rows run along."""
        return self.axes.reduced[1:] if self.rows else self.axes.reduced

    @cached_property
    def aligned(self) -> bool:
        """True when every row starts at a vector."""
        others = [m.src for m in self.axes.modes[1:]]
        return gcd(self.axes.src_offset, *others) % self.config.vec == 0

    @cached_property
    def vectors(self) -> int:
        """Vectors of a row, at most; 1 for columns."""
        return self.first.extent // self.config.vec if self.rows else 1

    @cached_property
    def steps(self) -> int:
        """Loads that an output needs, edges aside."""
        return self.vectors * prod(m.extent for m in self.outer)

    @cached_property
    def edges(self) -> int:
        """Single elements of a row, at most."""
        vec = self.config.vec
        if not self.rows:
            return 0
        return self.first.extent % vec if self.aligned else 2 * vec

    @cached_property
    def edge_steps(self) -> int:
        """Single elements that an output needs, at most."""
        return self.edges * prod(m.extent for m in self.outer)

    @property
    def edge_rounds(self) -> int:
        """Single elements of a thread, at most."""
        return -(-self.edge_steps // self.config.threads_per_row)

    @property
    def stride(self) -> int:
        """Steps of a whole round."""
        return self.config.threads_per_row * self.config.depth

    @property
    def rounds(self) -> int:
        """Rounds in which every thread has all its steps."""
        return self.steps // self.stride

    @property
    def left(self) -> int:
        """Steps after the last whole round."""
        return self.steps % self.stride

    @property
    def additions(self) -> int:
        """Additions that an element can pass through on its way to a thread's or the block's value."""
        c = self.config
        turns = -(-self.rounds // c.splits) * c.depth + -(-self.left // c.threads_per_row) + self.edge_rounds
        within = (c.vec - 1).bit_length() if self.rows else 0
        return within + turns + (c.lanes_per_row - 1).bit_length() + (c.groups_per_row - 1).bit_length()

    def step(self, number: Index, start: Index) -> tuple[Index, tuple[Index, ...]]:
        """Step `number` of the output that starts at `start`: the element, and what says that it exists."""
        piece, *crd = digits(number, (self.vectors, *(m.extent for m in self.outer)))
        begin = self._begin(start, crd)
        if not self.rows:
            return begin, ()
        vec = self.config.vec
        if self.aligned:
            return begin + piece * (vec * self.first.src), ()
        at = (begin + (vec - 1)) // vec * vec + piece * vec
        return at, (at + vec <= begin + self.first.extent,)

    def _begin(self, start: Index, crd: Sequence[Index]) -> Index:
        """The first element of a row, or of a step of a column."""
        outer = (i * m.src for i, m in zip(crd, self.outer, strict=True))
        return start + sum(outer, start=0) + self.axes.src_offset

    def edge(self, number: Index, start: Index) -> tuple[Index, tuple[Index, ...]]:
        """Single element `number` of the output that starts at `start`, and what says that it exists.

        They are those of the vectors that a row's first and last element lie in, where these stick out.
        """
        vec, n = self.config.vec, self.first.extent
        outer = [m.extent for m in self.outer]
        if self.aligned:
            i, *crd = digits(number, (self.edges, *outer))
        else:
            i, end, *crd = digits(number, (vec, 2, *outer))
        begin = self._begin(start, crd)
        if self.aligned:
            return begin + (n // vec * vec + i), ()
        at = (begin + end * n) // vec * vec + i
        limit = end * (begin + n) + (end ^ 1) * ((begin + (vec - 1)) // vec * vec)
        return at, (at >= begin, at < limit)


def flipped(i: Index, extent: int) -> Index:
    """extent - 1 - i for 0 <= i < extent.

    >>> [flipped(i, 5) for i in range(5)]
    [4, 3, 2, 1, 0]
    """
    top = 1 << (extent - 1).bit_length()
    return ((i ^ (top - 1)) + extent) % top
