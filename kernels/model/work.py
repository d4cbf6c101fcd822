"""The time of a launch, from the work that it states.

Memory moves bytes, multiprocessors issue instructions and pass wavefronts, and blocks wait for what they
asked for.  These happen at the same time, and none hides the others completely:

    time = launch + beside + |(memory, instructions, wavefronts, waiting, starting)|_3

    memory          bytes / the memory's rate
    instructions    four per cycle on every multiprocessor
    wavefronts      of shared memory, or lines of the L1 cache, one per cycle on every multiprocessor
    waiting         turns of the places for blocks * what a block takes alone
    starting        what a multiprocessor takes to start its blocks

A launch takes `halving_us` less for every halving of the blocks that start, below the multiprocessors.

With a large power the longest of them is left, with 1 their sum.  3 serves the laws that were fitted with
powers of their own, 2.5 to 4.1: on the committed times of long rows no choice differs, on those of
gemm-sm90 first choices have 0.9740 of the fastest instead of 0.9739.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.kernels.model.boards import Machine

POWER = 3.0
"""The power of the sum of what happens at the same time."""

READ, WRITTEN = 0.91, 1.11
"""Bytes that a byte which memory reads counts for, and one that it writes: of a copy, about two of two.

Fitted to 163 maps of one and two inputs on an H200 with a cold L2 (2026-11-30)."""

ISSUED = 4
"""Instructions that a multiprocessor issues per cycle: one by each of its schedulers."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a launch.

    `nbytes` are those of memory, more where runs are short; `instructions` and `wavefronts` those of all
    warps.  `blocks` follow each other on `at_once` places, and each takes `block_us` alone.  `beside_us` is
    before and after: launches of further kernels, barriers of all blocks.  `starts` are the blocks that
    start; 0 where a law states a launch of its own.

    >>> Work(nbytes=2e6, blocks=528, at_once=264, block_us=1.5).instructions
    0.0
    """

    nbytes: float
    instructions: float = 0.0
    wavefronts: float = 0.0
    blocks: float = 0.0
    at_once: float = 1.0
    block_us: float = 0.0
    beside_us: float = 0.0
    starts: float = 0.0


def p_norm(*parts: Any, power: Any = POWER) -> Any:
    """The time of what happens at the same time; of many, where parts are arrays.

    >>> round(p_norm(3, 3, 3), 3), round(p_norm(8, 0), 3)
    (4.327, 8.0)
    """
    return sum(part**power for part in parts) ** (1 / power)


def moved_bytes(read: float, written: float) -> float:
    """Bytes of memory that take as long as reading some and writing others.

    >>> moved_bytes(100.0, 0.0), round(moved_bytes(100.0, 100.0))
    (91.0, 202)
    """
    return READ * read + WRITTEN * written


def time_us(w: Work, m: Machine, power: float = POWER) -> float:
    """The microseconds of a launch on the board of these numbers.

    >>> from layoutalg.kernels.model import machine_of
    >>> few, many = (Work(1e6, blocks=n, at_once=264, block_us=2.0) for n in (9, 2640))
    >>> [round(time_us(w, machine_of("sm_90")), 1) for w in (few, many)]
    [5.3, 23.3]
    """
    cycles = m.sms * m.cycles_per_us
    waiting = max(1.0, w.blocks / w.at_once) * w.block_us
    issue = w.instructions / (ISSUED * cycles), w.wavefronts / cycles
    parts = w.nbytes / m.bytes_per_us, *issue, waiting, w.starts * m.start_us / m.sms
    halvings = log2(m.sms / min(m.sms, w.starts)) if w.starts else 0.0
    return float(m.launch_us - m.halving_us * halvings + w.beside_us + p_norm(*parts, power=power))


def stream_us(
    nbytes: float, instructions: float, blocks: int, threads: int, flight: int, m: Machine
) -> float:
    """The microseconds of a launch that goes through memory once: `instructions` of all warps, in blocks of
    so many threads, each with `flight` bytes on their way.

    >>> from layoutalg.kernels.model import machine_of
    >>> round(stream_us(1e8, 1e6, 4096, 256, 64, machine_of("sm_90")), 1)
    26.1
    """
    chip = find_arch(m.arch)
    held = min(chip.max_blocks_per_sm, chip.max_warps_per_sm * chip.lanes // threads)
    idle = ceil(blocks / m.sms) * m.sms / blocks  # some multiprocessors have a block less, or none
    waits = blocks, m.sms * held, m.load_us + m.byte_us * flight
    return time_us(Work(nbytes, instructions * idle, 0.0, *waits, starts=blocks), m)
