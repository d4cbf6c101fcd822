"""The work of a reduction's launch, by which its candidates are timed.

memory          the bytes, more for short runs of rows and few multiprocessors
instructions    those of the multiprocessors that have blocks: to load, to fold, to exchange
wavefronts      128-byte lines that the L1 cache looks up
waiting         waves of blocks x rounds of a thread x the latency of a round
beside          barriers between the groups of threads that share rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from layoutalg.arch import find_arch
from layoutalg.kernels.model import Machine, Work, moved_bytes, time_us
from layoutalg.kernels.rowwise.packed import REDUCTION, PackedWalk, packed_us
from layoutalg.kernels.rowwise.unaligned import CutRows, HeadTail
from layoutalg.kernels.rowwise.walk import LINE_BYTES, WARP, WORD_BYTES

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.ways.reduce_plan import Pass, ReduceConfig

LEAST, BESIDE, CUT_FIRST, CUT_MORE = 32, 20, 24, 6
"""Registers of a thread by NVRTC, at least and beside its values and loads in flight; of a thread that reads
cut vectors, and per vector in flight."""

BARRIER_US = 0.09
"""Microseconds between groups of threads that share rows, per halving of them."""

SHORT_RUN_BYTES = 8.0
"""Bytes by which runs are longer for the memory than they are."""

OF_ONE = 9e4
"""Bytes per microsecond that a multiprocessor alone reads."""

LOAD_US, BYTE_US = 0.45, 0.0044
"""Microseconds of a round of loads, and more for every byte that a thread has in flight."""

LOAD, APART_ROWS, APART_COLUMNS = 13.0, 16, 12
"""Instructions of a load, of its place and its predicate; more where a step's number is taken apart."""

FOLDING: Mapping[str, float] = MappingProxyType(
    {"arg": 21, "arg_s64": 21, "logsumexp": 13, "nll": 13, "moments": 8}
)
"""Instructions that join an element to a value of several words, and 1 to one of a word.  Machine code has 15
of "arg", which wait for each other, 7 to 15 of "logsumexp" and 5 to 8 of "moments"."""


def resident(c: ReduceConfig, walk: HeadTail, words: int, m: Machine) -> int:
    """Blocks that run on an SM at once, whose threads fold values of so many words."""
    flight, values = c.depth * c.rows_per_thread, c.rows_per_thread * walk.values
    if isinstance(walk, CutRows):  # a vector in flight keeps its place and its row's ends until it is folded
        registers = CUT_FIRST + CUT_MORE * flight
    else:
        registers = max(LEAST, BESIDE + flight * walk.tiling.words + values * words)
    chip = find_arch(m.arch)
    by_threads = min(chip.max_blocks_per_sm, chip.max_warps_per_sm * WARP // c.threads)
    return max(1, min(by_threads, chip.registers_per_sm // (c.threads * registers)))


def plan_us(passes: Sequence[Pass], m: Machine) -> float:
    """The time of passes, in microseconds: each starts while the one before it ends."""
    first, *others = passes
    return pass_us(first, m) + sum(pass_us(p, m, 0) - m.launch_us + m.dependent_us for p in others)


def pass_us(p: Pass, m: Machine, launches: int = 1) -> float:
    """The time of a pass, in microseconds; with 0 launches the one before it has started its blocks."""
    c, walk = p.config, p.walk
    if isinstance(walk, PackedWalk):
        moved = prod(m.extent for m in p.form.modes) * p.element.nbytes + p.form.outputs * p.result.nbytes
        return packed_us(walk, replace(REDUCTION, element=FOLDING.get(p.fold, 0.0)), m, moved)
    warps = walk.tiles * c.threads // WARP
    loads = warps * c.rows_per_thread * (-(-(walk.steps + walk.edge_steps) // c.threads_per_row))
    written = walk.places * walk.values * c.splits * p.result.nbytes
    waves = -(-walk.blocks // (m.sms * resident(c, walk, p.words, m)))
    rounds = -(-p.rounds // c.splits) + (1 if p.tail_steps else 0) + -(-p.edge_rounds // 4)
    steps = min(c.depth, -(-walk.steps // (c.threads_per_row * c.splits)))
    flight = steps * c.rows_per_thread * walk.tiling.nbytes
    idle = ceil(walk.blocks / m.sms) * m.sms / walk.blocks  # some multiprocessors have a block less, or none
    return time_us(
        Work(
            moved_bytes(_read_bytes(p, m), written),
            _instructions(p, warps, loads) * idle,
            loads * _lines(p) * idle,
            blocks=waves,
            block_us=rounds * (LOAD_US + BYTE_US * flight),
            beside_us=BARRIER_US * (c.groups_per_row - 1).bit_length(),
            starts=walk.blocks * launches,
        ),
        m,
    )


def _read_bytes(p: Pass, m: Machine) -> float:
    """Bytes that take the memory as long as what is read: short runs take longer, and so do few
    multiprocessors."""
    c, walk, loaded = p.config, p.walk, p.walk.tiling.nbytes
    read = (walk.steps * c.vec + 2 * walk.edge_steps) * walk.places * p.element.nbytes
    run = (c.lanes_per_row * c.depth if walk.rows else min(c.rows_per_block, walk.vectors)) * loaded
    if walk.rows and walk.outer:
        run = min(run, walk.lead.extent * p.element.nbytes)
    if run >= walk.lead.extent * p.element.nbytes and _apart(p) == walk.lead.extent:
        run = max(run, WARP * loaded)  # whole rows that touch
    busy = min(m.sms, walk.blocks) * OF_ONE
    return read * max(1 + SHORT_RUN_BYTES / run, m.bytes_per_us / busy)


def _apart(p: Pass) -> int:
    """Elements between the runs that neighbouring threads of a warp read."""
    near = (p.form.kept if p.walk.rows else p.walk.outer)[:1]
    if not p.walk.rows and p.walk.vectors < min(WARP, p.config.rows_per_block):
        near = p.form.kept[1:2]
    return near[0].src if near else 1 << 40


def _lines(p: Pass) -> float:
    """Lines of a warp's load."""
    c = p.config
    together = min(WARP, c.lanes_per_row if p.walk.rows else min(c.rows_per_block, p.walk.vectors))
    run, runs = together * p.walk.tiling.nbytes, WARP / together
    apart = runs * min(max(run, LINE_BYTES), _apart(p) * p.element.nbytes)
    return max(WARP * p.walk.tiling.nbytes, apart) / LINE_BYTES


def _instructions(p: Pass, warps: int, loads: int) -> float:
    """Instructions of all warps: to fetch and fold, to exchange between lanes, to find and store results."""
    c, values = p.config, p.values
    fold = FOLDING.get(p.fold, 1.0) + (p.element.nbytes < WORD_BYTES)
    fetch = LOAD + c.vec * fold + (0 if p.walk.aligned else 4)
    if sum(m.extent > 1 for m in p.walk.reduced) > 1:
        fetch += APART_ROWS if p.walk.rows else APART_COLUMNS
    fetch += 30 if isinstance(p.walk, CutRows) else 0
    lanes = 3 * values * p.words * (c.lanes_per_row - 1).bit_length()
    return loads * fetch + warps * (60 + lanes + 8 * values)
