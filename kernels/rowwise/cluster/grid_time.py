"""The time of rows that no cluster holds: they are read twice, except for what stays on chip.

The idea.  Blocks that are all resident read their parts of rows, wait for each other, and write.  What a
block has read last is still in its shared memory.  For S bytes, some of which are kept, memory moves

    moved    S + (S - kept) + S        read, read again, written; 2 S where all is kept
    share    2 S / moved               of a copy, at most

    64 MB, 25 kept      0.77        178 MB    0.70        512 MB    0.68

    time     launches + turns * (the barrier + moved / the memory's bandwidth)

Of several rows some are read at once, and the next in turn: then more of these is kept, and the barrier is
paid for each turn.

Fitted to the ways of ten problems on one H200 with a cold L2 (tests/gpu/whole_rows, seed 20261123,
2026-11-23), within 4 % of their times; two others on seeds that it has not seen: within 6 and 8 %.  Rows of
several modes that start anywhere, whose every vector is masked, take longer, and were left out.
"""

from __future__ import annotations

from dataclasses import dataclass

GRID_DEPTH, GRID_STAGED = 2, 12
"""Vectors of a thread at a time, and those in shared memory: 192 KB of a multiprocessor."""

LONE_THREADS, SEVERAL_THREADS = 1024, 512
"""Threads of a block for one row, and for several, of which fewer were timed with 1024."""


def moved_bytes(nbytes: int, kept: int) -> int:
    """Bytes that memory moves of rows of so many, of which so many are kept between reading and writing.

    >>> [moved_bytes(n, 56) for n in (40, 56, 178)]
    [80, 112, 478]
    """
    return 2 * nbytes + max(0, nbytes - kept)


def share_of_copy(nbytes: int, kept: int) -> float:
    """The bound on the share of a copy of as many bytes.

    >>> [round(share_of_copy(n << 20, 56 << 20), 2) for n in (64, 178, 512)]
    [0.94, 0.74, 0.69]
    """
    return 2 * nbytes / moved_bytes(nbytes, kept)


@dataclass(frozen=True, slots=True)
class GridRates:
    """Microseconds of two launches, and of a turn: the barrier, and until memory is busy again; bytes per
    microsecond."""

    launch: float = 4.0
    turn: float = 5.0
    memory: float = 4.2e6


def grid_us(rows: int, row_bytes: int, at_once: int, ring: int, rates: GridRates | None = None) -> float:
    """Microseconds of rows, so many at once, of which `ring` bytes stay in shared memory.

    >>> grid_us(1, 178 << 20, 1, 25 << 20) < grid_us(1, 178 << 20, 1, 0)
    True
    >>> grid_us(4, 40 << 20, 1, 25 << 20) < grid_us(4, 40 << 20, 4, 25 << 20)
    True
    """
    r = rates or GridRates()
    whole, left = divmod(rows, at_once)
    turns = [at_once] * whole + [left] * (left > 0)
    return r.launch + sum(r.turn + moved_bytes(n * row_bytes, ring) / r.memory for n in turns)
