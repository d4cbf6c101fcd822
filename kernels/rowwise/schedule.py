"""The schedule of a norm: in which rounds a thread takes its vectors, and where they stay between two visits.

The idea.  A thread goes through rounds, one vector each; of `splits` blocks, block s takes round i as

    step = (s * rounds + i) * threads_per_row + y

Rounds that have something in common are a segment: those that exist in every thread and lie inside of rows
are plain, and segments differ in where their vectors are

    registers    loaded once, a register for every round
    shared       copied asynchronously; each thread reads back its own vectors, so that nobody waits
    global       loaded again, `depth` at a time, or through a ring of places in shared memory

Notes.  What is left of plain rounds after whole groups of `depth` stays in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from layoutalg.dtype import DType
from layoutalg.kernels.rowwise.problems import Form
from layoutalg.kernels.rowwise.unaligned import MaskedRows, SkewedColumns, row_ends
from layoutalg.kernels.rowwise.walk import Tiling, Walk

Hold: TypeAlias = Literal["registers", "shared", "global"]
"""Where a block's elements stay between the statistics and the result; global: they are read twice."""


@dataclass(frozen=True, slots=True)
class NormConfig:
    """How a block of a norm works; see the module's text.

    `vec` elements per load, `depth` vectors of a thread at once where they are not in registers.  With hold
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


def walk_of(form: Form, element: DType, c: NormConfig) -> Walk:
    """The walk of a configuration: threads of a row side by side, or those of columns.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> x, c = axes_problem((64, 1001), 1, "f32", keeps=True), NormConfig(4, 1, 32, "registers")
    >>> type(walk_of(normalise(x), dtype("f32"), c)).__name__
    'MaskedRows'
    """
    rows, share = form.lead.reduced, c.threads_per_row
    lanes, groups = (share, 1) if rows else (1, share)
    tiling = Tiling(element, c.vec, c.rows_per_block, lanes, groups, splits=c.splits)
    if not any(v % c.vec for v in row_ends(form)):
        return Walk(form, tiling)
    return MaskedRows(form, tiling) if rows else SkewedColumns(form, tiling)


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


@dataclass(frozen=True)
class Schedule:
    """The rounds of a walk's threads.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> x, c = axes_problem((64, 1001), 1, "f16", keeps=True), NormConfig(8, 1, 32, "registers")
    >>> [(s.first, s.count, s.plain) for s in Schedule(walk_of(normalise(x), dtype("f16"), c), c).segments]
    [(0, 1, False), (1, 2, True), (3, 1, False)]
    """

    walk: Walk
    config: NormConfig

    @cached_property
    def rounds(self) -> int:
        """Steps of a thread, at most."""
        return -(-self.walk.steps // (self.config.threads_per_row * self.config.splits))

    @cached_property
    def staged(self) -> int:
        """Rounds that shared memory has room for."""
        return self.rounds if self.config.hold == "shared" and not self.config.staged else self.config.staged

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The rounds in order: plain ones, and those that the ends of rows cut."""
        walk, share, splits = self.walk, self.config.threads_per_row, self.config.splits
        full, first = walk.steps // share, 0
        if splits > 1:  # the last block's rounds are cut, and every block runs the same text
            full = self.rounds if walk.steps % (share * splits) == 0 else 0
        if walk.cut:
            whole = walk.lead.extent // self.config.vec
            inside = walk.rows and not walk.outer and splits == 1
            full, first = (whole // share, 1) if inside else (0, 0)
        if full <= first:
            return tuple(self._held((0, self.rounds, False)))
        return tuple(self._held((0, first, False), (first, full, True), (full, self.rounds, False)))

    @cached_property
    def ring(self) -> Ring | None:
        """How what is read twice goes through shared memory, if it does."""
        if self.config.hold != "global" or not self.config.staged:
            return None
        turns = -(-self.rounds // self.config.staged)
        plain = turns * self.config.staged == self.rounds and all(s.plain for s in self.segments)
        return Ring(self.config.staged // self.config.depth, turns, plain)

    @property
    def registers(self) -> int:
        """Rounds whose vectors are in registers."""
        return sum(s.count for s in self.segments if s.hold == "registers")

    def _held(self, *parts: tuple[int, int, bool]) -> Iterator[Segment]:
        """Rounds (from, to, plain), those in shared memory apart from those that are not."""
        if self.config.hold == "global":
            yield from self._read_twice(*parts)
            return
        shared = self.staged if self.config.hold == "shared" else 0
        for start, stop, plain in parts:
            middle = min(max(start, shared), stop)
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
