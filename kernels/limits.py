"""What limits a launch that moves data: bytes of memory, or cycles of all load-store units.

The idea.  The load-store unit of a multiprocessor takes one wavefront of shared memory a cycle, or one
request to global memory; cycles are those of the peak clock, which the board's rate of multiply-adds gives:

    least_us = max(bytes / bandwidth, (wavefronts + requests) / (multiprocessors * clock))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from layoutalg.arch import Arch, Board, find_arch
from layoutalg.codegen.costs import Prediction
from layoutalg.errors import UnsupportedError

FLOPS_PER_CYCLE = 256
"""Of a multiprocessor with 128 FMA lanes, as boards' rates count them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What one unit is asked for, and the least time it needs, in microseconds."""

    unit: str
    asked: int
    least_us: float

    def __str__(self) -> str:
        return f"{self.unit}: {self.asked}, {self.least_us:.1f} us"


def find_board(arch: str | Arch) -> Board:
    """The board of an architecture.  Raises UnsupportedError where there is none.

    >>> find_board("sm_90").sms
    132
    """
    chip = find_arch(arch)
    if chip.board is None:
        raise UnsupportedError(f"{chip.name} has no board whose rates could bound a launch")
    return chip.board


def limits(
    moved_bytes: int, predictions: Iterable[Prediction], arch: str | Arch = "sm_90"
) -> tuple[Bound, ...]:
    """The bounds of some launches that move so many bytes of memory, the tightest first.

    Raises UnsupportedError for an architecture without a board.

    >>> [str(b) for b in limits(1 << 27, [])]
    ['bytes of memory: 134217728, 28.0 us', 'load-store cycles: 0, 0.0 us']
    """
    board = find_board(arch)
    clock = board.f32_flops_per_s / (board.sms * FLOPS_PER_CYCLE)
    cycles = sum(
        cost.instructions if "global" in op else cost.total for one in predictions for op, cost in one.items()
    )
    found = (
        Bound("bytes of memory", moved_bytes, moved_bytes / board.dram_bytes_per_s * 1e6),
        Bound("load-store cycles", cycles, cycles / (board.sms * clock) * 1e6),
    )
    return tuple(sorted(found, key=lambda b: -b.least_us))
