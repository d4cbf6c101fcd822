"""How long rows take that blocks or clusters of them keep: what the choice of a cluster minimises.

The idea.  Memory moves bytes as long as somebody asks for them; a row's blocks ask, wait for each other,
write, and leave.  The more rows are resident, the less of that is seen:

    memory      bytes read and written, by the memory's bandwidth
    turn        what a row takes alone: its start, the exchange of its blocks, the rounds of its threads, the
                bytes of a block; more for elements of two bytes, of which there are twice as many
    waiting     rows / resident clusters * turn
    time        launch + (memory^p + waiting^p)^(1/p)

    f32, 512 rows of 262144       16 blocks of 256 threads, 48 KB each in shared memory, 16 words in registers
    bf16, 4096 rows of 32768      3 blocks of 128 threads, 22 KB each

Fitted to 579 ways of a softmax of 14 sizes on one H200 with a cold L2 (tests/gpu/long_rows, seed 0,
2026-11-23); what it was judged on is in docs/measured.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.kernels.rowwise.cluster.resident import resident_clusters


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

    `memory` in bytes per microsecond, `power` the p; `narrow_...` come on top for elements of two bytes.
    """

    launch: float = 7.0
    row: float = 0.2
    block: float = 0.105
    round: float = 0.0325
    per_64k: float = 1.5
    narrow_64k: float = 1.0
    narrow_word: float = 0.025
    memory: float = 4.28e6
    power: float = 2.5


def registers(held_words: int, *, narrow: bool) -> int:
    """Registers of a thread, about, as NVRTC 13 takes them.

    >>> registers(0, narrow=False), registers(16, narrow=False), registers(32, narrow=True)
    (32, 48, 128)
    """
    found = 48 + 2.5 * held_words if narrow else max(32, 24 + 1.25 * held_words)
    return -(-int(found) // 8) * 8


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


def twice_us(rows: int, row_bytes: int, rates: TurnRates | None = None, launches: int = 1) -> float:
    """Microseconds of rows that are read twice: two readings and a writing.

    >>> twice_us(512, 1 << 20) > kept_us(Kept(512, 1 << 20, False, 16, 16, 1 << 16, 16, 4), 132)
    True
    """
    r = rates or TurnRates()
    return launches * r.launch + 3 * rows * row_bytes / r.memory
