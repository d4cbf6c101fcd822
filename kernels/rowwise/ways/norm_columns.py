"""The configurations of norms over columns: slabs that are held, and slabs that are read twice.

Notes.  Times are those of `norm_model`.  Slabs of 32 bytes, of which the parts of all resident blocks would
fit L2, are slower than reading wider ones from memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from types import MappingProxyType

from layoutalg.kernels.rowwise.walk import (
    LINE_BYTES,
    MOST_THREADS,
    SECTOR_BYTES,
    WARP,
    WORD_BYTES,
    power_above,
)
from layoutalg.kernels.rowwise.ways.norm_model import held_columns, norm_us, slabs
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

HELD_WAYS = 8
"""The number of slabs held by a block that are configurations."""


@dataclass(frozen=True)
class ColumnWays(Ways):
    """A form of columns: slabs of so many threads side by side, and what holds them."""

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

    def tiles(self, side: int) -> int:
        """Slabs with so many threads side by side."""
        return self.walk(NormConfig(self.vec, side, 1, "global")).tiles


def columns(x: ColumnWays) -> Iterator[NormConfig]:
    """Configurations of columns: slabs that a block or a cluster holds, and those that are read twice."""
    held = held_columns(x.form.count, x.form.outputs // x.vec, x.vec, x.vector_bytes)
    yield from sorted(held, key=lambda c: norm_us(x, c))[:HELD_WAYS]
    clusters = MOST_CLUSTER.get(x.chip.compute_capability[0], 1) if x.room else 1
    if clusters > 1 and not x.apart:
        by_clusters = slabs(x.form.count, x.vec, x.vector_bytes, x.machine.sms, clusters)
        yield from (c for c in by_clusters if c.rows_per_block <= x.across)
    share = power_above(x.form.count * x.words / COLUMN_WORDS)  # as few threads as have room
    c = NormConfig(x.vec, max(x.lanes(SECTOR_BYTES), power_above(128 / share)), share, "registers")
    if c.threads < MOST_THREADS:
        yield c
    yield from _columns_twice(x)


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
    yield from (
        twice(side, threads, 16) for side in (wide, line) if x.tiles(side) >= NEARLY_ALL * x.machine.sms
    )
    least, most = (LONE_STEPS, 8) if x.vec == 1 else (LEAST_STEPS, 4)
    tiles = x.tiles(wide)
    parts = (blocks * x.machine.sms // tiles for blocks in (most, most // 2, most // 4))
    short = min(2 * x.machine.sms // tiles, steps * wide * x.pitch_bytes // SPLIT_BYTES)
    splits = next((n for n in parts if n and steps // n >= least), max(1, short))
    yield twice(wide, 512 if x.vec == 1 else 256, 12, splits)
