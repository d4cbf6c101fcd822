"""How long a launch of a reduction takes: a model that tells good configurations from bad ones.

The idea.  Five things take time, and what overlaps does not add up:

    memory      the bytes, by the memory's bandwidth, and more for short pieces of rows
    lines       128-byte lines that the L1 cache looks up, one a cycle on every SM
    issue       instructions, four a cycle on every SM
    waiting     waves of blocks x rounds of a thread x the latency of a round
    joining     barriers between the groups of threads that share outputs

    time = launch + joining + sqrt(max(memory, lines, issue)^2 + waiting^2)

Notes.  The numbers of `Rates` are those of an H200: of 900 timed kernels, good ones and bad ones, half are
within 4 %, nine in ten within 16 %.  They choose among candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from layoutalg.kernels.rowwise.reduce_walk import ReduceConfig, Walk

LINE_BYTES = 128
WARP = 32


@dataclass(frozen=True, slots=True)
class Rates:
    """What the model knows of a GPU: microseconds, bytes, and what an SM does in a microsecond.

    A round of loads takes `latency_us`, and `byte_us` more for every byte that a thread has in flight;
    memory (bytes a microsecond) reads pieces of n contiguous bytes as if they were `piece_bytes` longer, and
    loads of n bytes as if they were `narrow_bytes` wider.
    """

    sms: int = 132
    threads: int = 2048
    launch_us: float = 2.5
    join_us: float = 0.1
    latency_us: float = 0.5
    byte_us: float = 0.003
    memory: float = 4.5e6
    piece_bytes: float = 8.0
    narrow_bytes: float = 0.3
    cycles: float = 1900.0


def resident(c: ReduceConfig, rates: Rates) -> int:
    """Blocks that run on an SM at once.

    >>> resident(ReduceConfig(4, 32, 1, 8, 8), Rates())
    8
    """
    return max(1, min(32, rates.threads // c.threads))


def model_us(walk: Walk, element_bytes: int, result_bytes: int, rates: Rates) -> float:
    """The time that the model gives a launch, in microseconds.

    >>> from layoutalg.kernels.rowwise.reduce_modes import axes_problem, normalise
    >>> x = normalise(axes_problem((8192, 8192), 1, "f32"))
    >>> 60 < model_us(Walk(x, ReduceConfig(4, 32, 1, 8, 8)), 4, 4, Rates()) < 70
    True
    """
    c = walk.config
    warps = walk.groups * c.threads // WARP
    loads = warps * c.rows_per_thread * (-(-walk.steps // c.threads_per_row) + walk.edge_rounds)
    written = walk.places * walk.values // c.rows_per_thread * c.splits * result_bytes
    streaming = max(
        _memory_us(walk, element_bytes, rates),
        loads * _lines(walk, element_bytes) / (rates.sms * rates.cycles),
        _instructions(walk, element_bytes, warps, loads) / (4 * rates.sms * rates.cycles),
    )
    waves = -(-walk.blocks // (rates.sms * resident(c, rates)))
    rounds = -(-walk.rounds // c.splits) + (1 if walk.left else 0)
    flight = (
        min(c.depth, -(-walk.steps // (c.threads_per_row * c.splits)))
        * c.rows_per_thread
        * c.vec
        * element_bytes
    )
    waiting = waves * rounds * (rates.latency_us + rates.byte_us * flight)
    joining = rates.join_us * (c.groups_per_row - 1).bit_length()
    return rates.launch_us + joining + hypot(streaming, waiting) + written / rates.memory


def _memory_us(walk: Walk, element_bytes: int, rates: Rates) -> float:
    c = walk.config
    read = (walk.steps * c.vec + 2 * walk.edge_steps) * walk.places * element_bytes
    wide = c.vec * element_bytes
    piece = (c.lanes_per_row * c.depth if walk.rows else c.rows_per_block) * wide
    if piece >= walk.first.extent * element_bytes and _apart(walk) == walk.first.extent:
        piece = max(piece, WARP * wide)  # whole rows that touch
    return read / rates.memory * (1 + rates.piece_bytes / piece + rates.narrow_bytes / wide)


def _apart(walk: Walk) -> int:
    """Elements between the pieces that neighbouring threads of a warp read."""
    near = (walk.axes.kept if walk.rows else walk.outer)[:1]
    return near[0].src if near else 1 << 40


def _lines(walk: Walk, element_bytes: int) -> float:
    """Lines of a warp's load."""
    c = walk.config
    together = min(WARP, c.lanes_per_row if walk.rows else c.rows_per_block)
    piece, pieces = together * c.vec * element_bytes, WARP / together
    apart = pieces * min(max(piece, LINE_BYTES), _apart(walk) * element_bytes)
    return max(WARP * c.vec * element_bytes, apart) / LINE_BYTES


def _instructions(walk: Walk, element_bytes: int, warps: int, loads: int) -> float:
    """Instructions of all warps: to fetch and fold, to join lanes, to find and store outputs."""
    c = walk.config
    fetch = 6 + c.vec * (1 if element_bytes == 4 else 2) + (0 if walk.aligned or not walk.rows else 4)
    lanes = 3 * walk.values * (c.lanes_per_row - 1).bit_length()
    return loads * fetch + warps * (60 + lanes + 8 * walk.values)
