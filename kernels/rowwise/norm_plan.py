"""The plan of a softmax or layer norm: who shares statistics, where elements stay, when a tensor is split.

The idea.  A row, or a slab of columns a few sectors wide, is best read once and kept until its statistics are
known.  What fits decides:

    registers    up to `FEW_WORDS` words a thread: many blocks on a multiprocessor hide each other's waits
    shared       up to `SHARED_BYTES` a block, and what is left in registers
    global       read twice, by slabs two lines wide
    split        where there are too few rows or columns for the multiprocessors: parts of each are given to
                 blocks of their own, and a second kernel joins them

    softmax (65536,1024) f32 over 1       two warps hold a row in 16 registers a lane
    softmax (32,1024,1024) f32 over 1     256 threads stage 64 bytes of 1024 rows in shared memory
    softmax (8192,8192) f32 over 0        512 threads read 256 bytes of 8192 rows, twice

Notes.  Everything is chosen by size: the numbers below were found on an H200.  Slabs of 32 bytes, whose parts
of all resident blocks would fit L2, are slower than reading wider ones from memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from layoutalg.arch import Arch, find_arch
from layoutalg.kernels.rowwise.norm_modes import NormModes
from layoutalg.kernels.rowwise.norm_vectors import can_skew, can_vector, places_of_rows, words
from layoutalg.kernels.rowwise.norm_walk import WARP, NormConfig, Walk

VECTOR_BYTES = 16
"""The widest access of a lane."""

FEW_WORDS, HELD_WORDS = 16, 32
"""Registers of a thread that hold elements: rather, and at most."""

SHARED_BYTES, EXCHANGE_BYTES = 200 << 10, 16 << 10
"""Shared memory of a block that holds elements, at most, and what it is sure to need beside."""

MOST_THREADS = 1024
WORD_BYTES, SECTOR_BYTES, LINE_BYTES = 4, 32, 128

FILLING_THREADS = 1024
"""Threads of a multiprocessor below which more threads share a row."""

SPLIT_BYTES = 16 << 10
"""A part of a split is at least so long."""

LEAST_STEPS, LONE_STEPS = 1900, 900
"""Rows of columns that a part of a split has, rather: of vectors, and of single elements."""

MOST_SIDE = 64
"""Threads side by side."""

LEAST_ROWS = 128
"""Rows from which on skewed columns pay: what their threads exchange is as much for few rows as for many."""

LEAST_SKEWED, SKEWED_COLUMNS = 8, 128
"""Threads side by side of skewed columns, at least: two write nothing.  Columns of a tile read twice."""


def configs(x: NormModes, arch: str | Arch = "sm_90") -> tuple[NormConfig, ...]:
    """The configurations that fit a problem, best first.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> configs(shortest(norm_problem("softmax", (65536, 1024), 1, "f32")))[0]
    NormConfig(vec=4, rows_per_block=1, threads_per_row=64, hold='registers', depth=4, splits=1, staged=0)
    """
    chip = find_arch(arch)
    sms = chip.board.sms if chip.board else 1
    most = min(SHARED_BYTES, chip.max_shared_bytes_per_block - EXCHANGE_BYTES)
    found: list[NormConfig] = []
    for vec in _vectors(x):
        copies = chip.compute_capability >= (8, 0) and vec * x.element_bytes >= 4
        room = most if copies else 0
        ways = _rows(x, vec, sms, room) if x.modes[0].reduced else _columns(x, vec, sms, room)
        found += (c for c in ways if _fits(Walk(x, c), room))
    return tuple(dict.fromkeys(found))


def _vectors(x: NormModes) -> Iterator[int]:
    """Elements of a vector, best first: skewed ones rather than those of a word or less."""
    widest = vec = VECTOR_BYTES // x.element_bytes
    while not can_vector(x, vec):
        vec //= 2
    if vec * x.element_bytes <= WORD_BYTES and x.count >= LEAST_ROWS and can_skew(x, widest):
        yield widest
    yield vec


def _fits(w: Walk, room: int) -> bool:
    """True when what a configuration holds has room, and most threads have something to do."""
    c, size = w.config, w.modes.element_bytes
    if w.skewed and (
        c.rows_per_block < LEAST_SKEWED
        or c.threads_per_row % w.period
        or c.threads_per_row < _alike(c.rows_per_block, w.period)
    ):
        return False
    held = (w.rounds - w.staged) * words(c.vec, size)
    if c.hold != "registers" and w.steps <= c.threads_per_row:
        return False
    if c.threads > MOST_THREADS or w.staged > w.rounds or w.staged * c.threads * c.vec * size > room:
        return False
    return c.hold == "global" or held <= HELD_WORDS


def _power(n: float) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, ceil(n) - 1).bit_length()


def _rows(x: NormModes, vec: int, sms: int, room: int) -> Iterator[NormConfig]:
    """Configurations of rows, best first."""
    width, rows = words(vec, x.element_bytes), x.outputs
    steps = Walk(x, NormConfig(vec, 1, 32, "global")).steps
    splits = min(ceil(2 * sms / rows), x.count * x.element_bytes // SPLIT_BYTES)
    twice = NormConfig(vec, 1, 512, "global", 8)
    if rows < sms // 2 and splits > 1:
        if room and steps >= 8 * twice.threads_per_row * splits:
            yield replace(twice, splits=splits, depth=4, staged=8)
        yield replace(twice, splits=splits)
    for held in (FEW_WORDS, HELD_WORDS):
        sharing = _power(steps * width / (held + width))
        while sharing < min(256, steps) and rows * sharing < sms * FILLING_THREADS:
            sharing *= 2
        if sharing <= MOST_THREADS:
            yield NormConfig(vec, max(1, 64 // sharing), sharing, "registers")
        if held == FEW_WORDS:
            yield NormConfig(vec, 1, 512, "shared")
            fits = room // (512 * vec * x.element_bytes)
            yield NormConfig(vec, 1, 512, "shared", staged=fits)  # the rest in registers
    yield twice


def _columns(x: NormModes, vec: int, sms: int, room: int) -> Iterator[NormConfig]:
    """Configurations of columns, best first."""
    slabs = _Slabs(x, vec, sms, room)
    yield from _held_columns(slabs)
    yield from _skewed_twice(slabs) if slabs.skewed else _columns_twice(slabs)


@dataclass(frozen=True)
class _Slabs:
    """Columns side by side in vectors of `vec`, and the room that a block has in shared memory."""

    x: NormModes
    vec: int
    sms: int
    room: int

    @cached_property
    def skewed(self) -> bool:
        """True when vectors do not lie alike in all rows."""
        return not can_vector(self.x, self.vec)

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return self.vec * self.x.element_bytes

    @property
    def pitch_bytes(self) -> int:
        """Bytes of a row from a vector to the next, as far as sectors care."""
        return min(SECTOR_BYTES, self.vector_bytes * max(1, self.x.modes[0].src))

    @cached_property
    def across(self) -> int:
        """Threads side by side that have columns at all."""
        if self.skewed:
            return _power(ceil((self.x.modes[0].extent + self.vec - 1) / self.vec) + 2)
        return _power(self.x.outputs / self.vec)

    def lanes(self, nbytes: int) -> int:
        """Threads side by side whose vectors are so many bytes, no more than there are columns."""
        found = min(MOST_SIDE, 1 << (nbytes // self.pitch_bytes).bit_length() - 1, self.across)
        return max(LEAST_SKEWED if self.skewed else 1, found)

    def walk(self, kept: int) -> Walk:
        """The walk of tiles with so many threads side by side."""
        return Walk(self.x, NormConfig(self.vec, kept, 1, "global"))

    def enough(self, kept: int) -> bool:
        """True when there are tiles for nearly all multiprocessors."""
        return self.walk(kept).tiles >= 0.9 * self.sms


def _held_columns(s: _Slabs) -> Iterator[NormConfig]:
    """Slabs that are read once: in registers, and wide ones in shared memory."""
    apart = any(v * s.x.element_bytes % SECTOR_BYTES for v in places_of_rows(s.x))
    sizes = (2 * LINE_BYTES, LINE_BYTES) if s.skewed else (LINE_BYTES, 2 * SECTOR_BYTES)
    wider, narrow = [s.lanes(n) for n in sizes], s.lanes(2 * SECTOR_BYTES if s.skewed else SECTOR_BYTES)
    wide_enough = [kept for kept in wider if s.enough(kept)]
    yield from (c for kept in wide_enough if (c := _in_registers(s, kept)).threads <= 512)
    ways = [(kept, blocks) for kept in wide_enough for blocks in (3, 2)]  # blocks of a multiprocessor
    for kept, blocks in ways if apart else sorted(ways, key=lambda way: -way[1]):
        if s.x.count * kept * s.vector_bytes <= s.room // blocks:
            yield NormConfig(s.vec, kept, 256 // kept, "shared")
    if (c := _in_registers(s, narrow)).threads <= MOST_THREADS:
        yield c
    if s.enough(wider[-1]):
        yield NormConfig(s.vec, wider[-1], 512 // wider[-1], "shared", 8)


def _in_registers(s: _Slabs, kept: int) -> NormConfig:
    """As few threads a column as have room for it: up to two, which exchange little, hold more."""
    held = s.x.count * words(s.vec, s.x.element_bytes)
    sharing = _power(held / HELD_WORDS)
    if sharing > 2:
        sharing = max(_power(held / FEW_WORDS), -(-WARP // kept))
    if s.skewed:
        sharing = max(sharing, _alike(kept, s.walk(kept).period))
    return NormConfig(s.vec, max(kept, _power(128 / sharing)), sharing, "registers")


def _skewed_twice(s: _Slabs) -> Iterator[NormConfig]:
    """Slabs of skewed columns that are read twice: without a ring of copies, and at least 16 rounds long."""
    kept = max(LEAST_SKEWED, min(SKEWED_COLUMNS // s.vec, s.across))
    sharing = 256 // kept
    splits = min(16 // s.vec * s.sms // s.walk(kept).tiles, s.x.count // (16 * sharing))
    yield NormConfig(s.vec, kept, sharing, "global", s.vec, max(1, splits))


def _columns_twice(s: _Slabs) -> Iterator[NormConfig]:
    """Slabs that are read twice, whole or in as many parts as fill the multiprocessors once."""
    steps, wide, line = s.x.count, s.lanes(2 * LINE_BYTES), s.lanes(LINE_BYTES)
    depth = 16 if s.vec == 1 else 8 if s.vector_bytes <= WORD_BYTES else 4

    def twice(kept: int, threads: int, staged: int, splits: int = 1) -> NormConfig:
        sharing = max(min(WARP, threads // kept), 256 // kept)
        rounds = ceil(steps / (sharing * splits))
        staged = min(staged, rounds // depth * depth) if s.room and depth == 4 else 0
        return NormConfig(s.vec, kept, sharing, "global", depth, splits, staged if staged > depth else 0)

    threads = MOST_THREADS if s.vector_bytes < WORD_BYTES else 512
    yield from (twice(kept, threads, 16) for kept in (wide, line) if s.enough(kept))
    least, most = (LONE_STEPS, 8) if s.vec == 1 else (LEAST_STEPS, 4)
    tiles = s.walk(wide).tiles
    parts = (blocks * s.sms // tiles for blocks in (most, most // 2, most // 4))
    short = min(2 * s.sms // tiles, steps * wide * s.pitch_bytes // SPLIT_BYTES)
    splits = next((n for n in parts if n and steps // n >= least), max(1, short))
    yield twice(wide, 512 if s.vec == 1 else 256, 12, splits)


def _alike(kept: int, period: int) -> int:
    """The fewest threads that share statistics of skewed columns so that a warp's rows start alike."""
    return period * max(1, WARP // kept) if period > 1 else 1
