"""The work of a reduction's launch, by which its candidates are timed.

    memory          the bytes, more for short runs of rows, narrow loads and few multiprocessors
    wavefronts      128-byte lines that the L1 cache looks up
    waiting         waves of blocks x rounds of a thread x the latency of a round
    beside          barriers between the groups of threads that share rows

Notes.  The numbers were fitted to 220 reductions that an H200 timed, by good plans and bad ones, under a sum
of other powers; first choices take least by that sum (0.9990 of its best, on 1,800 drawn
ones).  They choose among candidates; they are not a bound from below.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from layoutalg.kernels.model import Machine, Work, time_us
from layoutalg.kernels.rowwise.packed import REDUCTION, PackedWalk, packed_us
from layoutalg.kernels.rowwise.unaligned import CutRows, SkewedSums
from layoutalg.kernels.rowwise.walk import LINE_BYTES, WARP

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.ways.reduce_plan import Pass, ReduceConfig

REGISTERS, CUT_FIRST, CUT_MORE = 1 << 16, 24, 6
"""Registers of a multiprocessor; by NVRTC, of a thread that reads cut vectors, and per vector in flight."""

SM_THREADS = 2048
"""Threads of a multiprocessor."""

BARRIER_US = 0.1
"""Microseconds between groups of threads that share rows, per halving of them."""

SHORT_RUN_BYTES = 8.0
"""Bytes by which runs are longer for the memory than they are."""

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
    """The time of a pass, in microseconds."""
    c, walk = p.config, p.walk
    if isinstance(walk, PackedWalk):
        moved = prod(m.extent for m in p.form.modes) * p.element.nbytes + p.form.outputs * p.result.nbytes
        return packed_us(walk, REDUCTION, m, moved)
    warps = walk.tiles * c.threads // WARP
    loads = warps * c.rows_per_thread * (-(-(walk.steps + walk.edge_steps) // c.threads_per_row))
    written = walk.places * walk.values * c.splits * p.result.nbytes
    waves = -(-walk.blocks // (m.sms * resident(c, cut=isinstance(walk, CutRows))))
    rounds = -(-p.rounds // c.splits) + (1 if p.tail_steps else 0) + -(-p.edge_rounds // 4)
    steps = min(c.depth, -(-walk.steps // (c.threads_per_row * c.splits)))
    flight = steps * c.rows_per_thread * walk.tiling.nbytes
    return time_us(
        Work(
            _read_bytes(p, m) + written,
            _instructions(p, warps, loads),
            loads * _lines(p),
            blocks=waves,
            block_us=rounds * (m.load_us + m.byte_us * flight),
            beside_us=BARRIER_US * (c.groups_per_row - 1).bit_length(),
        ),
        m,
    )


def _read_bytes(p: Pass, m: Machine) -> float:
    """Bytes that take the memory as long as what is read: short runs and narrow loads take longer, and so do
    few multiprocessors."""
    c, walk, loaded = p.config, p.walk, p.walk.tiling.nbytes
    read = (walk.steps * c.vec + 2 * walk.edge_steps) * walk.places * p.element.nbytes
    run = (c.lanes_per_row * c.depth if walk.rows else min(c.rows_per_block, walk.vectors)) * loaded
    if walk.rows and walk.outer:
        run = min(run, walk.lead.extent * p.element.nbytes)
    if run >= walk.lead.extent * p.element.nbytes and _apart(p) == walk.lead.extent:
        run = max(run, WARP * loaded)  # whole rows that touch
    busy = min(m.sms, walk.blocks) * (OF_SKEWED if isinstance(walk, SkewedSums) else OF_ONE)
    return read * max(1 + SHORT_RUN_BYTES / run + m.load_bytes / loaded, m.bytes_per_us / busy)


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
