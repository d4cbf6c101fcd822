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

from dataclasses import dataclass
from math import ceil, hypot, prod
from typing import TYPE_CHECKING

from layoutalg.kernels.rowwise.packed import REDUCTION, RUN_BYTES, PackedWalk, way_us
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


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of a GPU in the model: microseconds, bytes, and work of an SM per microsecond.

    A round of loads takes `latency_us`, and `byte_us` more for every byte that a thread has in flight;
    memory (bytes per microsecond) reads runs of n contiguous bytes as if they were `run_bytes` longer, and
    loads of n bytes as if they were `narrow_bytes` wider, and one SM alone reads `of_one`, skewed columns
    `of_skewed` bytes per microsecond.  An SM starts a block in `block_us`.  A block has `room` bytes for runs
    that it copies, 0 without asynchronous copies.
    """

    sms: int = 132
    threads: int = 2048
    launch_us: float = 2.5
    barrier_us: float = 0.1
    latency_us: float = 0.5
    byte_us: float = 0.003
    memory: float = 4.5e6
    run_bytes: float = 8.0
    narrow_bytes: float = 0.3
    cycles: float = 1900.0
    block_us: float = 0.08
    of_one: float = 5.5e4
    of_skewed: float = 3.6e4
    room: int = RUN_BYTES


def resident(c: ReduceConfig, rates: Rates, *, cut: bool = False) -> int:
    """Blocks that run on an SM at once.

    Vectors that are `cut` hold registers for their places too; other kernels have 32, or little more.
    """
    blocks = min(32, rates.threads // c.threads)
    if cut:  # a vector in flight keeps its place and its row's ends until it is folded
        blocks = min(blocks, REGISTERS // (c.threads * (CUT_FIRST + CUT_MORE * c.depth * c.rows_per_thread)))
    return max(1, blocks)


def pass_us(p: Pass, rates: Rates) -> float:
    """The time that the model gives a pass, in microseconds."""
    return _pass_us(p, rates, resident(p.config, rates, cut=isinstance(p.walk, CutRows)), 0, 1.0)


def counted_us(p: Pass, rates: Rates) -> float:
    """The same by what machine code has of columns whose steps are taken apart, of several reduced modes.

    NVRTC 13.5 for sm_90a makes 8 to 18 instructions more of each load than `pass_us` knows, and gives threads
    40 registers or more where 16 loads are in flight and threads are not a power of two, so that fewer blocks
    are resident, and the last of their waves may be short.
    """
    c, walk = p.config, p.walk
    if walk.rows or sum(m.extent > 1 for m in walk.reduced) < 2:
        return pass_us(p, rates)
    blocks = resident(c, rates)
    if c.depth >= WIDE_DEPTH and c.threads & (c.threads - 1):
        blocks = max(1, min(blocks, REGISTERS // (c.threads * APART_REGISTERS)))
    waves = walk.blocks / (rates.sms * blocks)
    last = 1.0 if waves <= 1 else waves / (ceil(waves) if waves < 2 else waves + 0.25)
    return _pass_us(p, rates, blocks, APART, last**0.5)


def _pass_us(p: Pass, rates: Rates, at_once: int, further: int, share: float) -> float:
    """The time of a pass with `at_once` blocks on an SM, `further` instructions of each load, and a share of
    the rates of memory and instructions."""
    c, walk = p.config, p.walk
    if isinstance(walk, PackedWalk):
        moved = prod(m.extent for m in p.form.modes) * p.element.nbytes + p.form.outputs * p.result.nbytes
        return PACKED_MARGIN * way_us(walk, REDUCTION, rates.sms, moved)
    warps = walk.tiles * c.threads // WARP
    loads = warps * c.rows_per_thread * (-(-(walk.steps + walk.edge_steps) // c.threads_per_row))
    written = walk.places * walk.values * c.splits * p.result.nbytes
    work = max(
        loads * _lines(p) / (rates.sms * rates.cycles),
        (_instructions(p, warps, loads) + loads * further) / (4 * rates.sms * rates.cycles),
    )
    streaming = (_memory_us(p, rates) ** 4 + work**4) ** 0.25 / share
    waves = -(-walk.blocks // (rates.sms * at_once))
    rounds = -(-p.rounds // c.splits) + (1 if p.tail_steps else 0) + -(-p.edge_rounds // 4)
    steps = min(c.depth, -(-walk.steps // (c.threads_per_row * c.splits)))
    flight = steps * c.rows_per_thread * p.walk.tiling.nbytes
    waiting = waves * rounds * (rates.latency_us + rates.byte_us * flight)
    barriers = rates.barrier_us * (c.groups_per_row - 1).bit_length()
    running = max(hypot(streaming, waiting), walk.blocks / rates.sms * rates.block_us)
    return rates.launch_us + barriers + running + written / rates.memory


def _memory_us(p: Pass, rates: Rates) -> float:
    c, walk = p.config, p.walk
    read = (walk.steps * c.vec + 2 * walk.edge_steps) * walk.places * p.element.nbytes
    run = (
        c.lanes_per_row * c.depth if walk.rows else min(c.rows_per_block, walk.vectors)
    ) * p.walk.tiling.nbytes
    if walk.rows and walk.outer:
        run = min(run, walk.lead.extent * p.element.nbytes)
    if run >= walk.lead.extent * p.element.nbytes and _apart(p) == walk.lead.extent:
        run = max(run, WARP * p.walk.tiling.nbytes)  # whole rows that touch
    busy = min(rates.sms, walk.blocks) * (rates.of_skewed if isinstance(walk, SkewedSums) else rates.of_one)
    share = 1 + rates.run_bytes / run + rates.narrow_bytes / p.walk.tiling.nbytes
    return max(read / rates.memory * share, read / busy)


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
