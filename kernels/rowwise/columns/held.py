"""Columns that one block holds, in registers or in shared memory, until their statistics are known.

The idea.  Columns of few rows are read once.  A slab is `side` vectors wide, and `share` threads have its
rows in turn; what they exchange costs as much for one row as for twenty, and a narrow slab tears lines, so
that few threads with many rows each are best, as long as there are enough of them to wait for memory:

    softmax (174,302848) bf16      slabs of 256 bytes, 8 threads per column, 22 rows each in shared memory
    layer norm (53,31888) f32      4 threads per column, 14 rows each in registers

All that fits is ranked by the time that a model gives it:

    time = launch + |(memory, issue, waiting)|_p

    memory     bytes read and written by the memory's bandwidth, of which narrow slabs have a part
    issue      instructions of all warps: of vectors and their elements, and of what threads exchange
    waiting    waves of blocks x what a block takes alone

Notes.  RATES are fitted to times of all that fits on one H200.  They choose among candidates: of 17 problems
the way that the model chooses has 0.95 of the fastest in the mean, 0.85 at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf, log2

from layoutalg.arch import Arch
from layoutalg.errors import ResourceError
from layoutalg.kernels.rowwise.walk import LINE_BYTES, SECTOR_BYTES, VECTOR_BYTES, WARP, WORD_BYTES
from layoutalg.model import occupancy_of

SIDE_BYTES = 64
"""The least width of a slab."""

HELD_THREADS = (64, 128, 256, 512)
"""The numbers of threads of a block that are tried."""

MOST_WORDS, LEAST_SHARED_WORDS = 64, 33
"""The most words of a thread in registers, and the least in shared memory."""

BLOCK_REGISTERS = 1 << 16
"""The most registers of a block."""

HELD_BYTES = 100 << 10
"""The most shared memory of a block: two blocks fit on a multiprocessor."""


@dataclass(frozen=True, slots=True)
class HeldColumns:
    """A slab `side` vectors wide, held by `share` threads per column, in shared memory or in registers.

    `by_one`: one warp joins the statistics of the others; else each thread joins those of its column.
    Each thread has `rounds` vectors, of `vec` elements and `vector_bytes`.
    """

    side: int
    share: int
    shared: bool
    by_one: bool
    rounds: int
    vec: int
    vector_bytes: int

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return self.side * self.share

    @property
    def words(self) -> int:
        """32-bit registers of a vector."""
        return max(1, self.vector_bytes // WORD_BYTES)

    @property
    def narrow(self) -> bool:
        """True for elements of two bytes."""
        return self.vector_bytes < WORD_BYTES * self.vec

    @property
    def units(self) -> int:
        """Parts of a block whose threads have one statistic before they exchange through shared memory."""
        return self.threads // max(WARP, self.side)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        held = self.rounds * self.threads * self.vector_bytes if self.shared else 0
        exchanged = 2 * self.units * self.side * self.vec * WORD_BYTES if self.units > 1 else 0
        return held + exchanged


def held_columns(rows: int, across: int, vec: int, vector_bytes: int) -> Iterator[HeldColumns]:
    """The slabs that fit: of `rows`, `across` vectors side by side.

    >>> sorted({s.share for s in held_columns(3, 1 << 20, 4, 16)})
    [1, 2]
    """
    words = max(1, vector_bytes // WORD_BYTES)
    for threads in HELD_THREADS:
        for share in (1 << n for n in range(threads.bit_length())):
            side, rounds = threads // share, -(-rows // share)
            if share > rows or side * vector_bytes < SIDE_BYTES or side > across:
                continue
            for by_one in (False, True) if side <= WARP < threads and share > 1 else (False,):
                if rounds * words <= MOST_WORDS:
                    yield HeldColumns(side, share, False, by_one, rounds, vec, vector_bytes)
                if rounds * words >= LEAST_SHARED_WORDS and rounds * threads * vector_bytes <= HELD_BYTES:
                    yield HeldColumns(side, share, True, by_one, rounds, vec, vector_bytes)


@dataclass(frozen=True, slots=True)
class HeldRates:
    """The rates of the model: memory in bytes per microsecond, instructions, and microseconds of a block.

    `of_64` and so on are the shares of the memory's rate for slabs of so many bytes; rows that start inside
    sectors cost `torn` per sector of a slab's width, `torn_lines` per line where vectors are narrow.
    `alone` is the cost of a block that has a multiprocessor to itself.
    """

    launch: float = 3.0
    memory: float = 4.17e6
    of_64: float = 0.885
    of_128: float = 0.957
    torn: float = 1.13
    torn_lines: float = 0.385
    vector: float = 17.9
    """Instructions of a thread per vector, more in shared memory, per element, more of two bytes and more for
    a mean; per value of a butterfly; of the warp that joins, per part."""
    shared: float = 8.27
    element: float = 2.33
    narrow: float = 10.95
    mean: float = 2.1
    halving: float = 3.48
    joining: float = 17.6
    turn: float = 0.075
    """Microseconds of a block: of its own, per round, per value that each thread or one warp joins."""
    round: float = 0.0845
    join: float = 0.0305
    join_by_one: float = 0.0338
    alone: float = 1.105
    cycles: float = 1755.0
    power: float = 2.89


RATES = HeldRates()
"""The rates fitted to 527 times on an H200, 2026-11-23."""


def registers(s: HeldColumns) -> int:
    """Registers of a thread, about."""
    own = 20 + 3 * s.vec + 8 * s.by_one + (0 if s.shared else s.rounds * s.words)
    return min(own, BLOCK_REGISTERS // s.threads, 255)


def copy_us(nbytes: int) -> float:
    """Microseconds of a copy of so many bytes."""
    return RATES.launch + 2 * nbytes / RATES.memory


def held_us(s: HeldColumns, slabs: int, nbytes: int, chip: Arch, formula: str, *, apart: bool) -> float:
    """Microseconds that the model gives so many slabs of a tensor of `nbytes`; infinite where none fits.

    `apart`: rows do not start at sectors.
    """
    r, sms = RATES, chip.board.sms if chip.board else 1
    try:
        each = _neighbours(chip.name, s.threads, registers(s), s.shared_bytes)
    except ResourceError:
        return inf
    width, warps = s.side * s.vector_bytes, -(-s.threads // WARP)
    torn = r.torn * SECTOR_BYTES if s.vector_bytes == VECTOR_BYTES else r.torn_lines * LINE_BYTES
    memory = 2 * nbytes / (r.memory * {64: r.of_64, 128: r.of_128}.get(width, 1.0))
    memory *= (1 + apart * torn / width) / min(1.0, slabs / sms)
    exchanges = 1 if formula == "rms_norm" else 2
    parts = s.units if s.units > 1 else 0
    element = r.element + r.narrow * s.narrow + r.mean * (formula == "layer_norm")
    halvings = log2(max(1, min(s.share, WARP // min(WARP, s.side))))
    per_thread = s.rounds * (r.vector + r.shared * s.shared + s.vec * element)
    instructions = warps * (per_thread + exchanges * s.vec * halvings * r.halving)
    turn, lanes = r.turn + r.round * s.rounds, s.side / WARP
    if s.by_one:
        instructions += r.joining * parts * s.vec * max(1.0, lanes)
        turn += r.join_by_one * parts * s.vec * lanes
    else:
        turn += r.join * parts * s.vec * exchanges
    issue = slabs * instructions / (4 * sms * r.cycles)
    waiting = max(1.0, slabs / (sms * each)) * turn
    together: float = (memory**r.power + issue**r.power + waiting**r.power) ** (1 / r.power)
    return r.launch + together * (1 + (r.alone - 1) * {1: 1.0, 2: 0.4}.get(each, 0.0))


@lru_cache(1024)
def _neighbours(arch: str, threads: int, registers_per_thread: int, shared_bytes: int) -> int:
    return occupancy_of(
        arch, threads=threads, registers_per_thread=registers_per_thread, shared_bytes=shared_bytes
    ).blocks_per_sm
