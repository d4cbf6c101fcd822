"""The plan of a softmax or layer norm: who shares statistics, where elements stay, when a tensor is split.

The idea.  A row, or a slab of columns a few sectors wide, is best read once and kept until its statistics are
known.  What fits decides:

    registers    up to `HELD_WORDS` words a thread: several blocks on a multiprocessor hide each other's waits
    shared       up to `SHARED_BYTES` a block
    global       read twice: slabs of columns are as narrow as a sector, so that what all resident blocks
                 work on stays in L2
    split        where there are too few rows or columns for the multiprocessors: parts of each are given to
                 blocks of their own, and a second kernel joins them

    softmax (65536,1024) f32 over 1       a warp holds a row in 32 registers a lane
    softmax (8192,8192) f32 over 0        512 threads take 8 columns, twice

Notes.  Everything is chosen by size: the numbers below were found on an H200.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from layoutalg.arch import Arch, find_arch
from layoutalg.kernels.norm_modes import NormModes
from layoutalg.kernels.norm_walk import NormConfig, Walk, can_vector, words

VECTOR_BYTES = 16
"""The widest access of a lane."""

HELD_WORDS = 32
"""Registers of a thread that hold elements."""

SHARED_BYTES = 200 << 10
"""Shared memory of a block that holds elements."""

MOST_THREADS = 1024
SECTOR_BYTES, LINE_BYTES = 32, 128

FILLING_THREADS = 1024
"""Threads of a multiprocessor below which more threads share a row."""

SPLIT_BYTES = 64 << 10
"""A part of a split is at least so long."""

DEPTH = 8
"""Loads of a thread in flight where it reads twice."""


def configs(x: NormModes, arch: str | Arch = "sm_90") -> tuple[NormConfig, ...]:
    """The configurations that fit a problem, best first.

    >>> from layoutalg.kernels.norm_modes import norm_problem, shortest
    >>> configs(shortest(norm_problem("softmax", (65536, 1024), 1, "f32")))[0]
    NormConfig(vec=4, kept=4, sharing=32, hold='registers', depth=4, splits=1, staged=0, batch=0)
    """
    board = find_arch(arch).board
    sms = board.sms if board else 1
    vec = VECTOR_BYTES // x.element_bytes
    while not can_vector(x, vec):
        vec //= 2
    asynchronous = find_arch(arch).compute_capability >= (8, 0)
    found = _rows(x, vec, sms) if x.modes[0].reduced else _columns(x, vec, sms)
    fits = [c for c in found if _fits(Walk(x, c), asynchronous=asynchronous)]
    return tuple(dict.fromkeys(fits))


def _fits(w: Walk, *, asynchronous: bool) -> bool:
    """True when what a configuration holds has room."""
    c, size = w.config, w.modes.element_bytes
    held = (w.rounds - w.staged) * words(c.vec, size)
    if c.hold != "registers" and w.steps <= c.sharing:
        return False  # most threads would have nothing to do
    match c.hold:
        case "registers":
            return held <= HELD_WORDS
        case "shared":
            room = w.staged * c.threads * c.vec * size <= SHARED_BYTES and held <= HELD_WORDS
            return asynchronous and c.vec * size >= 4 and room and w.staged <= w.rounds
        case _:
            return True


def _power(n: float) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, ceil(n) - 1).bit_length()


def _rows(x: NormModes, vec: int, sms: int) -> list[NormConfig]:
    plain = Walk(x, NormConfig(vec, 1, 32, "global", DEPTH))
    steps, rows, held = plain.steps, x.outputs, HELD_WORDS // words(vec, x.element_bytes)
    sharing = _power(steps / held)
    while sharing < 256 and sharing < steps and rows * sharing < sms * FILLING_THREADS:
        sharing *= 2
    sharing = min(MOST_THREADS, sharing)
    kept = max(1, 128 // sharing)
    while kept > 1 and kept * sharing > 32 and rows // kept < 2 * sms:
        kept //= 2
    row_bytes = x.count * x.element_bytes
    found = [NormConfig(vec, kept, sharing, "registers")]
    found += [NormConfig(vec, 1, threads, "shared") for threads in (512, 1024)]
    twice = NormConfig(vec, 1, 512, "global", DEPTH)
    parts = min(-(-4 * sms // rows), row_bytes // SPLIT_BYTES)
    if parts > 1 and rows < sms:
        split = replace(twice, splits=parts)
        return [split, *found, twice] if rows < sms // 2 else [*found, split, twice]
    return [*found, twice]


def _columns(x: NormModes, vec: int, sms: int) -> list[NormConfig]:
    steps, size = x.count, x.element_bytes
    held = HELD_WORDS // words(vec, size)
    columns = x.outputs // vec
    found: list[NormConfig] = []
    widths = (4 * LINE_BYTES, LINE_BYTES, 2 * SECTOR_BYTES, SECTOR_BYTES)
    lanes = list(dict.fromkeys(min(32, max(1, w // (vec * size))) for w in widths))
    for kept in lanes:
        sharing = max(_power(steps / held), -(-32 // kept))
        while kept * sharing < 128 and sharing < steps:
            sharing *= 2
        side = kept
        while side * sharing < 128:
            side *= 2
        enough = columns // side >= sms or kept == lanes[-1]
        if side * sharing <= MOST_THREADS // 2 and enough:
            found.append(NormConfig(vec, side, sharing, "registers"))
    for kept in lanes:
        sharing = _power(steps / held)
        if MOST_THREADS // 2 < kept * sharing <= MOST_THREADS and columns // kept >= sms:
            found.append(NormConfig(vec, kept, sharing, "registers"))
    narrow = lanes[-1]
    found.append(NormConfig(vec, narrow, 512 // narrow, "shared"))
    twice = NormConfig(vec, narrow, 512 // narrow, "global", DEPTH)
    wide = lanes[1] if len(lanes) > 1 else lanes[0]
    blocks = -(-columns // wide)
    parts = min(-(-4 * sms // blocks), steps * wide * vec * size // SPLIT_BYTES)
    split = NormConfig(vec, wide, 512 // wide, "global", DEPTH, splits=max(1, parts))
    few = -(-columns // narrow) < sms // 2
    return [*found, split, twice] if few or steps * SECTOR_BYTES > 512 << 10 else [*found, twice, split]


def slab_bytes(w: Walk) -> int:
    """What a block reads.

    >>> from layoutalg.kernels.norm_modes import norm_problem, shortest
    >>> x = shortest(norm_problem("softmax", (64, 1000), 1, "f32"))
    >>> slab_bytes(Walk(x, NormConfig(4, 1, 32, "global")))
    4000
    """
    return w.modes.count * w.modes.element_bytes * w.config.kept * w.statistics // w.config.splits
