"""The time of rows that blocks or clusters keep on chip: what the choice of a cluster minimises.

The idea.  Memory moves bytes as long as blocks request them; a row's blocks request, wait for each other,
write, and leave.  The more rows are resident, the less of that is seen:

    memory      bytes read and written, by the memory's bandwidth
    turn        what a row takes alone: its start, the exchange of its blocks, the rounds of its threads, the
                bytes of a block; more for elements of two bytes, of which there are twice as many
    waiting     rows / resident clusters * turn
    time        launch + (memory^p + waiting^p)^(1/p)

    f32, 512 rows of 262144       16 blocks of 256 threads, 48 KB each in shared memory, 16 words in registers
    bf16, 4096 rows of 32768      3 blocks of 128 threads, 22 KB each

Fitted to the ways of a softmax of 14 problems on one H200 with a cold L2 (tests/gpu/long_rows, columns of
powers of two, 2026-11-23).  28 problems of lengths that were drawn judge it (tests/data/long_rows.json);
KEPT_REGISTERS and `second_launch` came in after a first version had been held to these, so they are not wholly
unseen.

Rows that no cluster holds are read twice, except for what stays on chip: blocks that are all resident read
their parts of rows, wait for each other, and write.  What a block has read last is still in its shared
memory.  For S bytes, some of which are kept, memory moves

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

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.model import resident_clusters

KEPT_REGISTERS: Mapping[tuple[bool, int], int] = MappingProxyType(
    {(False, 0): 40, (False, 16): 64, (False, 32): 88, (True, 0): 64, (True, 16): 80, (True, 32): 128}
)
"""Registers of a thread, by whether elements have two bytes and by the words that it holds: NVRTC takes so
many or fewer in 90 % of 1631 kernels of 128 and 256 threads, and in 82 % of 653 of 512."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows that blocks keep: `rows` of `row_bytes`, in `cluster` blocks of `rounds` vectors per thread.

    `block_bytes` of a block, `held_words` in the registers of a thread, `each` blocks per multiprocessor.
    """

    rows: int
    row_bytes: int
    narrow: bool
    """Elements of two bytes."""
    cluster: int
    rounds: int
    block_bytes: int
    held_words: int
    each: int


@dataclass(frozen=True, slots=True)
class TurnRates:
    """Microseconds of a launch, of a row, and for each block, round, 64 KB and register of it.

    `second_launch` comes on top for a second kernel, `narrow_...` for elements of two bytes; `memory` is in
    bytes per microsecond, `power` the p.
    """

    launch: float = 6.0
    second_launch: float = 2.5
    row: float = 0.19
    block: float = 0.08
    round: float = 0.0235
    per_64k: float = 1.65
    narrow_64k: float = 0.9
    narrow_word: float = 0.025
    memory: float = 4.28e6
    power: float = 2.45


def kept_us(x: Kept, sms: int, rates: TurnRates | None = None) -> float:
    """Microseconds that the model gives a launch; infinite where no cluster is resident.

    >>> one = Kept(512, 1 << 20, False, 16, 16, 1 << 16, 16, 4)
    >>> two = Kept(512, 1 << 20, False, 8, 32, 1 << 17, 16, 2)
    >>> kept_us(one, 132) < kept_us(two, 132)
    True
    """
    r = rates or TurnRates()
    clusters = resident_clusters(sms, x.cluster, x.each)
    if not clusters:
        return float("inf")
    turn = r.row + r.block * x.cluster + r.round * x.rounds
    turn += (r.per_64k + r.narrow_64k * x.narrow) * x.block_bytes / (1 << 16)
    turn += r.narrow_word * x.narrow * x.held_words
    waiting = max(1.0, x.rows / clusters) * turn
    memory = 2 * x.rows * x.row_bytes / r.memory
    together: float = (memory**r.power + waiting**r.power) ** (1 / r.power)
    return r.launch + together


def split_us(rows: int, row_bytes: int, rates: TurnRates | None = None) -> float:
    """Microseconds of rows of which many blocks read parts, twice, by two kernels.

    >>> split_us(64, 1 << 20) > kept_us(Kept(64, 1 << 20, False, 16, 16, 1 << 16, 16, 4), 132)
    True
    """
    r = rates or TurnRates()
    return r.launch + r.second_launch + 3 * rows * row_bytes / r.memory


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
