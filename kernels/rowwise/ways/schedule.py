"""A configuration of a norm, and the rounds of its threads: which vectors, and where they stay.

A thread goes through rounds, one vector each; of `splits` blocks, block s takes round i as

    step = (s * rounds + i) * threads_per_row + y

Blocks of a cluster hold a row as if they were one: block r takes round i as step (i * cluster + r) * ... + y.
So do the `splits` blocks of a row that are resident together.

Rounds that have something in common are a segment: those that exist in every thread and lie inside of rows
are plain, and segments differ in where their vectors stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from layoutalg.arch import Arch
from layoutalg.dtype import DType
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.model import Machine
from layoutalg.kernels.rowwise.forms import Stream, stream_of
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.packed import packed_walk
from layoutalg.kernels.rowwise.tensors import Form
from layoutalg.kernels.rowwise.unaligned import Backwards, MaskedRows
from layoutalg.kernels.rowwise.walk import (
    SECTOR_BYTES,
    VECTOR_BYTES,
    WARP,
    WORD_BYTES,
    Tiling,
    Walk,
    can_vector,
    row_ends,
)

Hold: TypeAlias = Literal["registers", "shared", "global"]
"""The place of a block's elements between the statistics and the result; "global": they are read twice."""

RESIDENT_THREADS = 1024
"""The threads of a multiprocessor whose blocks wait for each other: 64 registers for each."""


@dataclass(frozen=True, slots=True)
class NormConfig:
    """The way a block computes a norm; see the module's text.

    `vec` elements per load, `depth` vectors of a thread at once where they are not in registers.  With hold
    "shared" the first `staged` rounds are in shared memory, the others in registers; 0: all are.  With hold
    "global" so many rounds, a multiple of depth, are on their way to shared memory; 0: they are loaded.
    The blocks of a `cluster` hold a row together; of clusters that hold columns so many are `resident`, and
    each goes on to the next slab when it has stored one; 0: there is one for each slab.  Of a split so many
    blocks are `resident`, all of them, and keep what they read last; 0: two kernels.  With `turns` a
    block copies a run of rows to shared memory as it lies there, and its threads have so many rows each, in
    turn.  With a `width` the tensor is a stream, whose rows have so many columns: see `forms`.

    >>> from layoutalg.kernels import find_family
    >>> family = find_family("softmax")
    >>> family.choose(family.problem((64, 1000), 1, "f16"), "sm_90").hold
    'registers'
    """

    vec: int
    rows_per_block: int
    threads_per_row: int
    hold: Hold
    depth: int = 4
    splits: int = 1
    staged: int = 0
    cluster: int = 1
    turns: int = 0
    resident: int = 0
    width: int = 0

    @property
    def dealt(self) -> int:
        """Blocks that have the rounds of a tile in turn; 1: each has rounds that follow each other."""
        return self.splits if self.width or self.together else self.cluster

    @property
    def together(self) -> bool:
        """True for a split of rows whose blocks are resident, and wait for each other in one launch."""
        return self.splits > 1 and self.resident > 0 and not self.width

    @property
    def blocks_per_sm(self) -> int:
        """Blocks that a multiprocessor has to keep at a time: where they wait for each other, those of
        `RESIDENT_THREADS` threads."""
        return max(1, RESIDENT_THREADS // self.threads) if self.together else 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows_per_block * self.threads_per_row


def walk_of(form: Form, element: DType, c: NormConfig) -> Walk:
    """The walk of a configuration: threads of a row side by side, or those of columns."""
    rows, share = form.lead.reduced, c.threads_per_row
    if c.turns:
        return packed_walk(form, Tiling(element, c.vec, c.rows_per_block, share, 1, c.turns), both=True)
    lanes, groups = (share, 1) if rows else (1, share)
    parts = {"splits": c.splits, "cluster": c.cluster, "resident": c.resident}
    if c.width:
        return Walk(stream_with(form, c).columns, Tiling(element, c.vec, c.rows_per_block, 1, share, **parts))
    tiling = Tiling(element, c.vec, c.rows_per_block, lanes, groups, **parts)
    if any(v % c.vec for v in row_ends(form)):
        return MaskedRows(form, tiling)
    backwards = any(min(m.dst, m.weight) < 0 for m in form.modes)
    return Backwards(form, tiling) if backwards else Walk(form, tiling)


@dataclass(frozen=True)
class Ways:
    """A problem's form in vectors of `vec`, and what is there for it: a board, shared memory of a block."""

    problem: NormProblem
    form: Form
    vec: int
    machine: Machine
    chip: Arch
    room: int = 0

    @property
    def element(self) -> DType:
        """Type of the elements."""
        return self.problem.dtype

    def walk(self, c: NormConfig) -> Walk:
        """The walk of a configuration."""
        return walk_of(self.form, self.element, c)

    @cached_property
    def apart(self) -> bool:
        """True where rows do not start at sectors."""
        return any(v * self.element.nbytes % SECTOR_BYTES for v in row_ends(self.form))

    @property
    def words(self) -> int:
        """32-bit registers of a vector."""
        return max(1, self.vector_bytes // WORD_BYTES)

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return self.vec * self.element.nbytes


def checked_walk(p: NormProblem, form: Form, c: NormConfig) -> Walk:
    """The walk of a configuration from any source.

    Raises UnsupportedError for vectors at which not all rows start, unless runs are copied or a tensor is a
    stream: those have checks of their own.

    >>> from layoutalg.kernels.rowwise.tensors import normalise
    >>> from layoutalg.kernels.rowwise.norms import norm_problem
    >>> p = norm_problem("softmax", (9, 33), 1, "f32", in_place=True)
    >>> checked_walk(p, normalise(p.axes), NormConfig(4, 1, 32, "shared"))
    Traceback (most recent call last):
    ...
    layoutalg.errors.UnsupportedError: softmax (9,33) over (1) f32, src (33,1) -> dst (33,1), in_place by \
vectors of 4 elements, at which not all rows start and end; the nearest is vec = 1
    """
    if c.turns or c.width:
        return walk_of(form, p.dtype, c)
    widths = (vec for vec in (1, 2, 4, 8) if vec * p.dtype.nbytes <= VECTOR_BYTES)
    accepted = [vec for vec in widths if can_vector(form, vec, in_place=p.rows_apart)]
    if c.vec not in accepted:
        near = max((vec for vec in accepted if vec <= c.vec), default=1)
        raise UnsupportedError(
            f"{p} by vectors of {c.vec} elements, at which not all rows start and end; the nearest is "
            f"vec = {near}"
        )
    return walk_of(form, p.dtype, c)


def stream_with(form: Form, c: NormConfig) -> Stream:
    """The stream of a configuration.  Raises UnsupportedError where the form is none, or holds vectors."""
    found = stream_of(form, c.width)
    if found is None or not found.has_vectors(c.vec) or c.hold != "global" or c.cluster > 1:
        raise UnsupportedError(
            f"{form} as a stream of {c.width} columns in vectors of {c.vec}, by {c.hold}, "
            f"clusters of {c.cluster}: dense rows that are whole vectors are read twice, by global"
        )
    return found


def can_cluster(walk: Walk, c: NormConfig) -> bool:
    """True where the blocks of a cluster can keep what they compute: one row, or columns that start at
    vectors, which are not split."""
    if c.hold == "global" or c.splits > 1:
        return False
    if walk.rows:
        return c.rows_per_block == 1
    return c.hold == "shared" and not walk.cut and c.rows_per_block <= WARP


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
    """The rounds of a walk's threads."""

    walk: Walk
    config: NormConfig

    @cached_property
    def rounds(self) -> int:
        """The most steps of a thread."""
        c = self.config
        return -(-self.walk.steps // (c.threads_per_row * c.splits * c.cluster))

    @cached_property
    def staged(self) -> int:
        """Rounds that shared memory has room for."""
        return self.rounds if self.config.hold == "shared" and not self.config.staged else self.config.staged

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The rounds in order: plain ones, and those that the ends of rows cut."""
        walk, c, splits = self.walk, self.config, self.config.splits
        share = c.threads_per_row * c.dealt
        full, first = walk.steps // share, 0
        if splits > 1 and c.dealt == 1:  # the last block's rounds are cut, and every block runs the same text
            full = self.rounds if walk.steps % (share * splits) == 0 else 0
        if walk.cut:
            whole = walk.lead.extent // self.config.vec
            inside = walk.rows and not walk.outer and (splits == 1 or c.together)
            full, first = (whole // share, 1) if inside else (0, 0)
        if full <= first:
            return tuple(self._held((0, self.rounds, False)))
        return tuple(self._held((0, first, False), (first, full, True), (full, self.rounds, False)))

    @cached_property
    def ring(self) -> Ring | None:
        """The ring in shared memory for elements that are read twice; None without one."""
        if self.config.hold != "global" or not self.config.staged:
            return None
        turns = -(-self.rounds // self.config.staged)
        plain = turns * self.config.staged == self.rounds and all(s.plain for s in self.segments)
        return Ring(self.config.staged // self.config.depth, turns, plain)

    @property
    def plain(self) -> tuple[int, int]:
        """The first of the plain rounds, and the first behind them; (0, 0) where there are none."""
        return next(((s.first, s.first + s.count) for s in self.segments if s.plain), (0, 0))

    @property
    def registers(self) -> int:
        """Rounds whose vectors are in registers."""
        return sum(s.count for s in self.segments if s.hold == "registers")

    def _held(self, *parts: tuple[int, int, bool]) -> Iterator[Segment]:
        """Rounds (from, to, plain) by where they stay; what is left of plain ones that are read twice, after
        whole groups of `depth`, stays in registers."""
        depth, twice = self.config.depth, self.config.hold == "global"
        for start, stop, plain in parts:
            middle = stop if twice else min(max(start, self.staged), stop)
            if twice and plain and self.config.splits == 1 and not self.staged and not self.config.width:
                groups = (stop - start) // depth
                middle = start + (groups if groups > 1 else 0) * depth
            if middle > start:
                yield Segment(start, middle - start, plain, "global" if twice else "shared")
            if stop > middle:
                yield Segment(middle, stop - middle, plain, "registers")
