"""The division of the groups of a packed tile among threads, and its time by a model.

The idea.  Memory is read and written in whole lines whatever the rows are, so what is left to choose is how
little the rest costs: instructions, most of them for what is done once per group and thread, and wavefronts
of shared memory.  Few lanes per group make both rare; many make enough threads.  Candidates are few:

    vec        elements of an access to shared memory, where rows start and end at so many
    lanes      threads that share a group, a power of two
    rows       groups of a block at once
    turns      groups of a thread, one after the other

    time = launch + |(memory, issue, shared, waiting)|_3

    memory     bytes by the memory's bandwidth; of several runs, one of n bytes counts as n + run_bytes
    issue      instructions of all warps, four per cycle on every multiprocessor
    shared     wavefronts of all accesses to shared memory, one per cycle
    waiting    waves of blocks x the latency of a block, which grows with its turns, and with what a thread
               reads again and again as its registers do not hold it

Notes.  The numbers of `PackedRates` were fitted to 700 kernels timed on an H200: half of them are within 4 %,
nine in ten within 14 %.  They choose among candidates; they are not a bound from below.  `read_us` is of one
kernel alone: layer norm of 22x8x491x243 f32 over modes 0 and 3, 168 accesses per thread, took 95 us where 43
were expected without it (tests/gpu/ragged_rows, seed 20261131).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import NamedTuple

from layoutalg.dtype import DType
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.rowwise.packed.tile import PackedWalk, packed_walk
from layoutalg.kernels.rowwise.problems import Form, Mode
from layoutalg.kernels.rowwise.walk import VECTOR_BYTES, WARP, WORD_BYTES, Tiling

TILES = (
    (64, 4 << 10), (64, 8 << 10), (128, 8 << 10), (128, 16 << 10), (256, 16 << 10), (256, 32 << 10),
    (256, 64 << 10),
)  # fmt: skip
"""The threads of a block and the approximate bytes of its tile, for each tile that is tried."""

MOST_WORDS = 32
"""The most registers of a thread that hold elements of a group."""


@dataclass(frozen=True, slots=True)
class PackedRates:
    """The rates of a GPU in the model, and the instruction counts of a packed kernel.

    A warp's turn takes `turn` instructions, `lane` more for every halving of an exchange, `access` for each
    access and `element` for each element of it, `narrow` more for an element that has to be widened.
    """

    turn: float
    lane: float
    access: float
    element: float
    narrow: float
    turn_us: float
    passes: float
    """The accesses to shared memory per element, beside those of the copies."""
    copies: float
    read_us: float = 0.0
    """The wait for an access, in all passes, of a thread that does not hold its elements in registers."""
    launch_us: float = 2.5
    block_us: float = 0.9
    memory: float = 4.42e6
    run_bytes: float = 60.0
    cycles: float = 1900.0


NORM = PackedRates(
    turn=11, lane=10, access=2.8, element=14.5, narrow=1.6, turn_us=0.28, passes=2, copies=2, read_us=0.14,
)  # fmt: skip
REDUCTION = PackedRates(turn=4, lane=5, access=4.4, element=0, narrow=0.85, turn_us=0.09, passes=1, copies=1)


@dataclass(frozen=True, slots=True)
class Way:
    """The division of the groups of a tile among the threads of a block; see the module's text."""

    vec: int
    lanes: int
    rows: int
    turns: int

    def tiling(self, element: DType) -> Tiling:
        """The threads of a block."""
        return Tiling(element, self.vec, self.rows, self.lanes, 1, self.turns)


def ways(form: Form, element: DType, *, both: bool) -> Iterator[tuple[Way, PackedWalk | LayoutAlgError]]:
    """Yield the ways that are tried for a form, each with its walk or with its refusal.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> x = normalise(axes_problem((9000, 10), 1, "f32"))
    >>> sorted({way.lanes for way, walk in ways(x, dtype("f32"), both=False) if isinstance(walk, PackedWalk)})
    [1, 2, 4]
    """
    lead = min(form.modes, key=lambda m: m.src, default=None)
    if lead is None:
        return
    widest = VECTOR_BYTES // element.nbytes if lead.reduced else 1
    for vec in (v for v in (1, 2, 4, 8) if v <= widest and lead.extent % v == 0):
        steps = form.count // vec
        for lanes in (n for n in (1, 2, 4, 8, 16, 32) if n == 1 or 2 * n <= steps):
            if lanes < WARP and lanes * 4 * MOST_WORDS < steps * max(1, vec * element.nbytes // WORD_BYTES):
                continue
            tried = {(t // lanes, max(1, n // (t // lanes * form.count * element.nbytes))) for t, n in TILES}
            for rows, turns in sorted(tried):
                if turns > 1 and rows * (turns // 2) >= form.outputs:
                    continue
                way = Way(vec, lanes, rows, turns)
                try:
                    yield way, packed_walk(form, way.tiling(element), both=both)
                except LayoutAlgError as refusal:
                    yield way, refusal


class Ranked(NamedTuple):
    """A way that fits, its time by the model, and whether its threads hold their elements in registers."""

    us: float
    way: Way
    held: bool
    walk: PackedWalk


def ranked(
    form: Form, element: DType, rates: PackedRates, sms: int, moved_bytes: int, room: int
) -> list[Ranked]:
    """The ways that fit into at most `room` bytes of shared memory per block, the fastest first.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> x = normalise(axes_problem((1 << 20, 10), 1, "f32", keeps=True))
    >>> best = ranked(x, dtype("f32"), NORM, 132, 80 << 20, 100 << 10)[0]
    >>> best.way.lanes, best.held
    (1, True)
    """
    found = []
    for way, walk in ways(form, element, both=rates.copies > 1):
        if isinstance(walk, PackedWalk) and walk.shared_bytes <= room:
            words = -(-walk.steps // way.lanes) * max(1, walk.tiling.nbytes // WORD_BYTES)
            held = words <= MOST_WORDS
            found.append(Ranked(way_us(walk, rates, sms, moved_bytes, held=held), way, held, walk))
    return sorted(found, key=lambda one: one.us)


def way_us(walk: PackedWalk, rates: PackedRates, sms: int, moved_bytes: int, *, held: bool = True) -> float:
    """The time that the model gives a packed kernel, in microseconds.

    `held`: a thread holds its part of a group in registers; else it reads shared memory at each step.
    """
    t, size = walk.tiling, walk.tiling.element.nbytes
    accesses = -(-walk.steps // t.lanes)
    once = rates.turn + rates.lane * log2(t.lanes)
    each = rates.access + t.vec * (rates.element + (rates.narrow if size < WORD_BYTES else 0))
    turns = walk.tiles * t.rows_per_thread * t.threads / WARP
    issue = turns * (once + accesses * each * (1 if held else 1.5)) / 4
    waves = _waves(walk.form, t.lanes, t.vec, t.element)
    copied = walk.tiles * walk.all_units * walk.unit * size / 128
    shared = turns * accesses * waves * rates.passes * (1 if held else 2) + copied * rates.copies
    run = walk.run_elems * size
    alone = rates.run_bytes / run if walk.parts.runs > 1 else 0.0
    memory = moved_bytes / rates.memory * (1 + alone)
    blocks = _resident(walk, accesses * max(1, t.nbytes // WORD_BYTES) if held else 8)
    turn_us = rates.turn_us + (0 if held else rates.read_us * accesses)
    waiting = max(1.0, walk.tiles / (sms * blocks)) * (rates.block_us + turn_us * t.rows_per_thread)
    streams = (memory, issue / (sms * rates.cycles), shared / (sms * rates.cycles), waiting)
    return float(rates.launch_us + sum(x**3.2 for x in streams) ** (1 / 3.2))


def _resident(walk: PackedWalk, words: float) -> int:
    """Blocks that run on a multiprocessor at once, by threads, shared memory and about how many registers."""
    t = walk.tiling
    nbytes = walk.shared_bytes + (1 << 10)
    registers = (24 + 1.5 * words) * t.threads
    return max(1, min(32, 2048 // t.threads, int(65536 // registers), (228 << 10) // nbytes))


@lru_cache(256)
def _waves(run: Form, lanes: int, vec: int, element: DType) -> int:
    """Wavefronts of a warp's first access to the elements of its groups, in a tile of a form."""
    kept, reduced = run.kept, run.reduced
    size, per = element.nbytes, vec if run.lead.reduced else 1
    return wavefronts(
        [
            (_along(kept, lane // lanes) + _along(reduced, lane % lanes * per)) * size
            for lane in range(min(WARP, lanes * run.outputs))
        ],
        vec * size,
    )


def _along(modes: tuple[Mode, ...], index: int) -> int:
    """The distance in elements from the first coordinate of modes to number `index`."""
    found = 0
    for m in modes:
        index, at = divmod(index, m.extent)
        found += at * m.src
    return found


def wavefronts(offsets: list[int], nbytes: int) -> int:
    """Wavefronts of a warp's access to shared memory of `nbytes` per lane: what `analysis.wavefronts` counts.

    >>> wavefronts([40 * lane for lane in range(32)], 4)
    2
    """
    together, most = WARP // max(1, nbytes // WORD_BYTES), 0
    for first in range(0, len(offsets), together):
        banks: dict[int, set[int]] = {}
        for offset in offsets[first : first + together]:
            for word in range(offset // WORD_BYTES, (offset + nbytes - 1) // WORD_BYTES + 1):
                banks.setdefault(word % WARP, set()).add(word)
        most += max(map(len, banks.values()), default=0)
    return most
