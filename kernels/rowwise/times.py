"""The microseconds that the model gives what row families launch, of whichever way a configuration works.

    reductions      the passes of a plan, see `reduce_model`
    cross entropy   the losses, and the launches that add them up
    norms           runs that are copied, see `packed`, streams, and slabs that a cluster keeps, see
                    `norm_model`; else the bytes that memory moves, and turns of the places for blocks

A norm's turn is that of a row of a cluster, see `norm_model`.  What registers alone hold has not been fitted
there: of it a turn waits for its loads too.
"""

from __future__ import annotations

from layoutalg.arch import Arch, find_arch
from layoutalg.kernels.model import Clock, Expected, Machine, Work, time_us
from layoutalg.kernels.rowwise.entropy import CrossEntropyProblem, total
from layoutalg.kernels.rowwise.memory import norm_traffic
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.packed import NORM, PackedWalk, packed_us
from layoutalg.kernels.rowwise.programs import norm_launches
from layoutalg.kernels.rowwise.reductions import ReduceProblem
from layoutalg.kernels.rowwise.walk import touched_share
from layoutalg.kernels.rowwise.ways import (
    CLUSTER_US,
    GRID_TURN_US,
    SPLIT_US,
    WIDEST,
    WIDTHS,
    NormConfig,
    ReduceConfig,
    Schedule,
    form_of,
    plan_us,
    plan_with,
    plans,
    slab_us,
    stream_with,
    stream_work,
    turn_us,
    walk_of,
)
from layoutalg.model import resident_clusters


def reduction_clock(p: ReduceProblem, c: ReduceConfig, arch: str | Arch) -> Clock:
    """The time of all passes.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> p = f.problem((1 << 26,), 0, "f32")
    >>> 60 < f.expected(p, f.choose(p), "sm_90").us < 80
    True
    """
    passes = plan_with(p, c, arch).passes
    return lambda m: Expected(plan_us(passes, m))


def loss_clock(p: CrossEntropyProblem, c: ReduceConfig, arch: str | Arch) -> Clock:
    """The time of the losses, and of what adds them up behind."""
    losses = reduction_clock(p.losses, c, arch)
    if p.reduction == "none":
        return losses
    summed = total(p)
    behind = reduction_clock(summed, plans(summed, arch)[0].passes[0].config, arch)
    return lambda m: Expected(losses(m).us + behind(m).us - m.launch_us + 2 * m.next_launch_us)


def norm_clock(p: NormProblem, c: NormConfig, arch: str | Arch) -> Clock:
    """The time of a norm's launches.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["softmax"]
    >>> p = f.problem((65536, 1024), 1, "f32")
    >>> 120 < f.expected(p, f.choose(p), "sm_90").us < 135
    True
    """
    form, size, chip = form_of(p), p.dtype.nbytes, find_arch(arch)
    walk = walk_of(form, p.dtype, c)
    if isinstance(walk, PackedWalk):
        return lambda m: Expected(packed_us(walk, NORM, m, p.moved_bytes, held=c.hold == "registers"))
    if c.width:
        s = stream_with(form, c)
        return lambda m: Expected(time_us(stream_work(s, c, p.dtype, p.formula, m), m))
    launches, rounds, width = (
        norm_launches(p, arch, c),
        Schedule(walk, c).rounds,
        c.rows_per_block * c.vec * size,
    )
    if c.cluster > 1 and not walk.rows:
        moved = sum(norm_traffic(launches, arch))
        return lambda m: Expected(slab_us(c, walk.form, c.vec * size, moved, m))
    share = (
        1.0
        if walk.rows
        else WIDTHS.get(width, WIDEST if width > max(WIDTHS) else min(WIDTHS.values())) / WIDEST
    )
    nbytes = sum(norm_traffic(launches, arch)) * max(1.0, touched_share(walk)) / share
    turn = turn_us(c.cluster, rounds, rounds * c.threads * c.vec * size * len(p.read))
    turns = -(-walk.places // walk.tiles_at_once) if c.together else 0
    beside = CLUSTER_US * (c.cluster > 1) + GRID_TURN_US * turns
    held = _resident(c, launches.kernels[-1].shared_bytes, chip)

    def time(m: Machine) -> Expected:
        at_once = max(1, resident_clusters(m.sms, c.cluster, held))
        waits = turn + (m.load_us if c.hold == "registers" else 0.0)
        behind = beside + (
            SPLIT_US if c.splits > 1 and not c.together else (len(launches.kernels) - 1) * m.next_launch_us
        )
        return Expected(time_us(Work(nbytes, 0.0, 0.0, walk.blocks / c.cluster, at_once, waits, behind), m))

    return time


def _resident(c: NormConfig, shared_bytes: int, chip: Arch) -> int:
    """Blocks of a multiprocessor, by threads and shared memory."""
    threads = chip.max_warps_per_sm * chip.lanes // c.threads
    shared = chip.shared_bytes_per_sm // (shared_bytes + chip.reserved_shared_bytes_per_block)
    return max(1, min(threads, chip.max_blocks_per_sm, shared))
