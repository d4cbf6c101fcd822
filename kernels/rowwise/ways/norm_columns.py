"""The configurations of norms over columns, best first: slabs that are held, and slabs that are read twice.

Notes.  Times are those of `norm_model`.  Slabs of 32 bytes, of
which the parts of all resident blocks would fit L2, are slower than reading wider ones from memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from types import MappingProxyType

from layoutalg.kernels.rowwise.walk import (
    LINE_BYTES,
    MOST_THREADS,
    SECTOR_BYTES,
    WARP,
    WORD_BYTES,
    Walk,
    power_above,
    row_ends,
)
from layoutalg.kernels.rowwise.ways.norm_model import copy_us, held_columns, held_us, slabs
from layoutalg.kernels.rowwise.ways.schedule import NormConfig, Ways

SPLIT_BYTES = 16 << 10
"""The least length of a part of a split."""

STREAM_BYTES = 16 << 20
"""The bytes of a tensor from which on several kernels pay."""

LEAST_STEPS, LONE_STEPS = 1900, 900
"""The preferred least number of rows in a part of a split of columns: by vectors, and by single elements."""

NEARLY_ALL = 0.9
"""The least share of the multiprocessors that have a tile."""

MOST_SIDE = 64
"""The most threads side by side."""

COLUMN_WORDS = 40
"""The most words of a thread that holds columns in registers."""

MOST_CLUSTER = MappingProxyType({9: 16, 10: 16})
"""The most blocks of a cluster that keeps columns, by the major number of the compute capability."""

TWICE_SHARE, NARROW_TWICE_SHARE, HELD_WAYS = 0.66, 0.58, 8
"""The share of a copy's rate for rows that are read twice, that for softmax and layer norm of two-byte
elements, and the number of slabs held by a block that are configurations.

On an H200, the streams of tests.gpu.ragged_rows, seeds 20261131 to 20261133: 14 of softmax and layer norm of
two-byte elements have 0.52 to 0.61, one of them 0.42; six others 0.62 to 0.67, one of them 0.48."""


@dataclass(frozen=True)
class ColumnWays(Ways):
    """A form of columns: slabs of so many threads side by side, and what holds them."""

    @property
    def clusters(self) -> int:
        """The most blocks of a cluster that keeps columns."""
        return MOST_CLUSTER.get(self.chip.compute_capability[0], 1) if self.room else 1

    @property
    def pitch_bytes(self) -> int:
        """Bytes of a row from a vector to the next, as far as sectors care."""
        return min(SECTOR_BYTES, self.vector_bytes * max(1, self.form.lead.src))

    @cached_property
    def across(self) -> int:
        """Threads side by side that have columns at all."""
        return power_above(self.form.outputs / self.vec)

    def lanes(self, nbytes: int) -> int:
        """Threads side by side whose vectors are so many bytes, no more than there are columns."""
        return max(1, min(MOST_SIDE, 1 << (nbytes // self.pitch_bytes).bit_length() - 1, self.across))

    def slab(self, side: int) -> Walk:
        """The walk of tiles with so many threads side by side."""
        return self.walk(NormConfig(self.vec, side, 1, "global"))

    @cached_property
    def apart(self) -> bool:
        """True where rows do not start at sectors."""
        return any(v * self.element.nbytes % SECTOR_BYTES for v in row_ends(self.form))

    def tiles(self, side: int) -> int:
        """Slabs with so many threads side by side."""
        return self.slab(side).tiles

    def enough(self, side: int) -> bool:
        """True when there are tiles for nearly all multiprocessors."""
        return self.tiles(side) >= NEARLY_ALL * self.machine.sms

    def held(self, side: int) -> NormConfig:
        """Columns in registers, by as few threads as have room."""
        share = power_above(self.form.count * self.words / COLUMN_WORDS)
        return NormConfig(self.vec, max(side, power_above(128 / share)), share, "registers")


def columns(x: ColumnWays) -> Iterator[NormConfig]:
    """Configurations of columns, best first: slabs that a block or a cluster holds, and those that are read
    twice, by the time that is expected of them."""
    nbytes = x.form.count * x.form.outputs * x.element.nbytes
    copy, long = copy_us(nbytes, x.machine), nbytes >= STREAM_BYTES
    ways = sorted(_held(x), key=_us)[:HELD_WAYS]
    if x.clusters > 1 and not x.apart:
        by_clusters = slabs(x.form.count, x.tiles(1), x.vec, x.vector_bytes, x.machine.sms, x.clusters)
        ways += [(copy / share, c) for share, c in by_clusters if c.rows_per_block <= x.across]
    if not long and (c := x.held(x.lanes(SECTOR_BYTES))).threads < MOST_THREADS:
        ways.append((inf, c))
    narrow = x.element.nbytes < WORD_BYTES and x.formula != "rms_norm"
    twice = copy / (NARROW_TWICE_SHARE if narrow else TWICE_SHARE) if long else inf
    ways += [(twice, c) for c in _columns_twice(x)]
    yield from (c for _, c in sorted(ways, key=_us))


def _us(way: tuple[float, NormConfig]) -> float:
    return way[0]


def _held(x: ColumnWays) -> Iterator[tuple[float, NormConfig]]:
    """Slabs that one block holds, each with its time."""
    across = x.form.outputs // x.vec
    for c in held_columns(x.form.count, across, x.vec, x.vector_bytes):
        if c.hold == "registers" or x.room:
            us = held_us(x, c, across, apart=x.apart)
            if us < inf:
                yield us, c


def _columns_twice(x: ColumnWays) -> Iterator[NormConfig]:
    """Slabs that are read twice, whole or in as many parts as fill the multiprocessors once."""
    steps, wide, line = x.form.count, x.lanes(2 * LINE_BYTES), x.lanes(LINE_BYTES)
    depth = 16 if x.vec == 1 else 8 if x.vector_bytes <= WORD_BYTES else 4

    def twice(side: int, threads: int, staged: int, splits: int = 1) -> NormConfig:
        share = max(min(WARP, threads // side), 256 // side)
        rounds = ceil(steps / (share * splits))
        staged = min(staged, rounds // depth * depth) if x.room and depth == 4 else 0
        return NormConfig(x.vec, side, share, "global", depth, splits, staged if staged > depth else 0)

    threads = MOST_THREADS if x.vector_bytes < WORD_BYTES else 512
    yield from (twice(side, threads, 16) for side in (wide, line) if x.enough(side))
    least, most = (LONE_STEPS, 8) if x.vec == 1 else (LEAST_STEPS, 4)
    tiles = x.slab(wide).tiles
    parts = (blocks * x.machine.sms // tiles for blocks in (most, most // 2, most // 4))
    short = min(2 * x.machine.sms // tiles, steps * wide * x.pitch_bytes // SPLIT_BYTES)
    splits = next((n for n in parts if n and steps // n >= least), max(1, short))
    yield twice(wide, 512 if x.vec == 1 else 256, 12, splits)
