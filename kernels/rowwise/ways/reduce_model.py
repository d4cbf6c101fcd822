"""The time of a reduction's launch, by a model of an H200 that chooses among candidates.

Five things take time, and what overlaps does not add up:

    memory      the bytes, by the memory's bandwidth, and more for short runs of rows
    lines       128-byte lines that the L1 cache looks up, one per cycle on every SM
    issue       instructions, four per cycle on every SM
    waiting     waves of blocks x rounds of a thread x the latency of a round
    barriers    between the groups of threads that share rows

    work = max(lines, issue)
    time = launch + barriers + sqrt(sqrt(memory^4 + work^4)^2 + waiting^2)

and no less than an SM takes to start its blocks.

Notes.  The numbers of `Rates` are those of an H200: of 220 timed reductions, by good plans and bad ones, half
take 0.92 to 1.00 of what it says, and eight in ten 0.90 to 1.05.  They choose among candidates; they are not
a bound from below.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, hypot, prod
from typing import TYPE_CHECKING

from layoutalg.kernels.model import Machine
from layoutalg.kernels.rowwise.packed import REDUCTION, PackedWalk, packed_us
from layoutalg.kernels.rowwise.unaligned import CutRows, SkewedSums
from layoutalg.kernels.rowwise.walk import LINE_BYTES, WARP

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.ways.reduce_plan import Pass, ReduceConfig

REGISTERS, CUT_FIRST, CUT_MORE = 1 << 16, 24, 6
"""Registers of a multiprocessor; by NVRTC, of a thread that reads cut vectors, and per vector in flight."""

APART, APART_REGISTERS, WIDE_DEPTH = 12, 40, 16
"""Instructions of a load whose step is taken apart, beside those of `_instructions`: 8 to 18 in 24 main
loops; registers of a thread with so many loads in flight."""

PACKED_MARGIN = 1.04
"""The factor of the time of runs that are copied: the two models agree no better."""


SM_THREADS = 2048
"""Threads of a multiprocessor."""

BARRIER_US, START_US = 0.1, 0.08
"""Microseconds between groups of threads that share rows, per halving of them; of a multiprocessor to start a
block."""

LATENCY_US, BYTE_US = 0.5, 0.003
"""Microseconds of a round of loads, and more for every byte that a thread has in flight."""

SHORT_RUN_BYTES, NARROW_BYTES = 8.0, 0.3
"""Bytes by which runs, and loads, are longer for the memory than they are."""

OF_ONE, OF_SKEWED = 5.5e4, 3.6e4
"""Bytes per microsecond that a multiprocessor alone reads, and of skewed columns."""


def resident(c: ReduceConfig, *, cut: bool = False) -> int:
    """Blocks that run on an SM at once.

    Vectors that are `cut` hold registers for their places too; other kernels have 32, or little more.
    """
    blocks = min(32, SM_THREADS // c.threads)
    if cut:  # a vector in flight keeps its place and its row's ends until it is folded
        blocks = min(blocks, REGISTERS // (c.threads * (CUT_FIRST + CUT_MORE * c.depth * c.rows_per_thread)))
    return max(1, blocks)


def pass_us(p: Pass, m: Machine) -> float:
    """The time that the model gives a pass, in microseconds."""
    return _pass_us(p, m, resident(p.config, cut=isinstance(p.walk, CutRows)), 0, 1.0)


def counted_us(p: Pass, m: Machine) -> float:
    """The same by what machine code has of columns whose steps are taken apart, of several reduced modes.

    NVRTC 13.5 for sm_90a makes 8 to 18 instructions more of each load than `pass_us` knows, and gives threads
    40 registers or more where 16 loads are in flight and threads are not a power of two, so that fewer blocks
    are resident, and the last of their waves may be short.
    """
    c, walk = p.config, p.walk
    if walk.rows or sum(m.extent > 1 for m in walk.reduced) < 2:
        return pass_us(p, m)
    blocks = resident(c)
    if c.depth >= WIDE_DEPTH and c.threads & (c.threads - 1):
        blocks = max(1, min(blocks, REGISTERS // (c.threads * APART_REGISTERS)))
    waves = walk.blocks / (m.sms * blocks)
    last = 1.0 if waves <= 1 else waves / (ceil(waves) if waves < 2 else waves + 0.25)
    return _pass_us(p, m, blocks, APART, last**0.5)


def _pass_us(p: Pass, m: Machine, at_once: int, further: int, share: float) -> float:
    """The time of a pass with `at_once` blocks on an SM, `further` instructions of each load, and a share of
    the rates of memory and instructions."""
    c, walk = p.config, p.walk
    if isinstance(walk, PackedWalk):
        moved = prod(m.extent for m in p.form.modes) * p.element.nbytes + p.form.outputs * p.result.nbytes
        return PACKED_MARGIN * packed_us(walk, REDUCTION, replace(m, bytes_per_us=4.42e6), moved)
    warps = walk.tiles * c.threads // WARP
    loads = warps * c.rows_per_thread * (-(-(walk.steps + walk.edge_steps) // c.threads_per_row))
    written = walk.places * walk.values * c.splits * p.result.nbytes
    work = max(
        loads * _lines(p) / (m.sms * m.cycles_per_us),
        (_instructions(p, warps, loads) + loads * further) / (4 * m.sms * m.cycles_per_us),
    )
    streaming = (_memory_us(p, m) ** 4 + work**4) ** 0.25 / share
    waves = -(-walk.blocks // (m.sms * at_once))
    rounds = -(-p.rounds // c.splits) + (1 if p.tail_steps else 0) + -(-p.edge_rounds // 4)
    steps = min(c.depth, -(-walk.steps // (c.threads_per_row * c.splits)))
    flight = steps * c.rows_per_thread * p.walk.tiling.nbytes
    waiting = waves * rounds * (LATENCY_US + BYTE_US * flight)
    barriers = BARRIER_US * (c.groups_per_row - 1).bit_length()
    running = max(hypot(streaming, waiting), walk.blocks / m.sms * START_US)
    return m.launch_us + barriers + running + written / m.bytes_per_us


def _memory_us(p: Pass, m: Machine) -> float:
    c, walk = p.config, p.walk
    read = (walk.steps * c.vec + 2 * walk.edge_steps) * walk.places * p.element.nbytes
    run = (
        c.lanes_per_row * c.depth if walk.rows else min(c.rows_per_block, walk.vectors)
    ) * p.walk.tiling.nbytes
    if walk.rows and walk.outer:
        run = min(run, walk.lead.extent * p.element.nbytes)
    if run >= walk.lead.extent * p.element.nbytes and _apart(p) == walk.lead.extent:
        run = max(run, WARP * p.walk.tiling.nbytes)  # whole rows that touch
    busy = min(m.sms, walk.blocks) * (OF_SKEWED if isinstance(walk, SkewedSums) else OF_ONE)
    share = 1 + SHORT_RUN_BYTES / run + NARROW_BYTES / p.walk.tiling.nbytes
    return max(read / m.bytes_per_us * share, read / busy)


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
    fetch = 6 + c.vec * (1 if p.element.nbytes == 4 else 2) + (0 if p.walk.aligned else 4)
    parts = sum(m.extent > 1 for m in p.walk.reduced)
    fetch += 16 if p.walk.rows and parts > 1 else 0  # to take a step's number apart
    fetch += 30 if isinstance(p.walk, CutRows) else 0
    lanes = 3 * values * (c.lanes_per_row - 1).bit_length()
    return loads * fetch + warps * (60 + lanes + 8 * values)
