"""How long memory takes for a tile, relative to a copy: what tiles, units and widths are chosen by.

The idea.  A permute moves the bytes of a copy, and beside them what its runs share with others: half lines
of the source that two rows touch, sectors and lines of the destination that two runs or two warps write
parts of.  Neighbours that work at the same time find them in the L2; far apart, the memory is asked again.
Too few bytes in flight leave the memory idle.

    time = 0.92 + 0.14 in64 + 0.35 in64, where neighbours are far apart + 0.92 out32 + 0.13 warps32
           + 0.05 warps128 + 2.95 KB / in flight + 0.09 idle threads + 0.25 multiprocessors / blocks
           + instructions and wavefronts

where in64 are half lines that rows touch, over those of a copy, less 1; out32 sectors that runs write;
warps32 and warps128 sectors and lines that warps write.  Fitted to 1,233 configurations of 65 random tensors
timed on an H200 (tests/gpu/tune_permute.py, seed 2027): 11 % root mean square; of the 20 configurations of a
tensor its choice has 0.98 of the best on average.  Last term but one: not fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from types import MappingProxyType

from layoutalg.arch import Arch
from layoutalg.kernels.move.stage import Stage
from layoutalg.kernels.move.tiles.units import (
    HALF_LINE_BYTES,
    LINE_BYTES,
    SECTOR_BYTES,
    loaded_units,
    stored_units,
)

NEAR_BYTES = 8 << 20
"""What is moved between two tiles that share units, for the second to find them in the L2."""

SM_THREADS = 2048
"""Threads of a multiprocessor."""

WEIGHTS = MappingProxyType(
    {
        "copy": 0.88, "in": 0.13, "in, far": 0.43, "in lines": 0.015, "out": 0.92, "out lines": 0.045,
        "warp sectors": 0.165, "warp lines": 0.055, "in flight": 2400.0, "idle threads": 0.07,
        "idle multiprocessors": 0.25, "large": 2e-6, "block": 80.0, "instruction": 0.48, "wavefront": 1.35,
    }
)  # fmt: skip
"""What a part costs, as a share of the time of a copy."""

LARGE_BYTES = 48 << 10
"""Tiles with more shared memory leave fewer blocks to overlap."""


def memory_time(stage: Stage, arch: Arch) -> float:
    """The time that a configuration takes, as a share of a copy's, instructions and wavefronts aside.

    >>> from layoutalg.arch import find_arch
    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((9997, 9999), (1, 0), "f32"))
    >>> def time(align):
    ...     stage = Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4, align=align))
    ...     return round(memory_time(stage, find_arch("sm_90")), 2)
    >>> time(0), time(8)
    (1.18, 1.13)
    """
    sms = arch.board.sms if arch.board else 1
    moved = moved_bytes(stage)
    halves = loaded_units(stage, HALF_LINE_BYTES) * HALF_LINE_BYTES / moved - 1
    resident = min(
        SM_THREADS // stage.config.threads,
        arch.shared_bytes_per_sm // (stage.tile_bytes + arch.reserved_shared_bytes_per_block),
    )
    flight = min(max(1, resident), stage.blocks / sms) * prod(stage.held) * stage.size
    parts = {
        "copy": 1,
        "in": halves,
        "in, far": halves * (_apart(stage) * prod(stage.tile) * stage.size > NEAR_BYTES),
        "in lines": loaded_units(stage, LINE_BYTES) * LINE_BYTES / moved - 1,
        "out": stored_units(stage, SECTOR_BYTES) * SECTOR_BYTES / moved - 1,
        "out lines": stored_units(stage, LINE_BYTES) * LINE_BYTES / moved - 1,
        "block": stage.blocks / moved,
        "warp sectors": _warps(stage, SECTOR_BYTES, moved),
        "warp lines": _warps(stage, LINE_BYTES, moved),
        "in flight": 1 / flight,
        "idle threads": max(0, 1 - stage.config.threads * resident / SM_THREADS),
        "idle multiprocessors": sms / stage.blocks,
        "large": max(0, stage.tile_bytes - LARGE_BYTES),
    }
    return sum(WEIGHTS[name] * part for name, part in parts.items())


def moved_bytes(stage: Stage) -> int:
    """Bytes that are stored."""
    return prod(m.extent for m in stage.modes) * stage.size


def _warps(stage: Stage, unit_bytes: int, moved: int) -> float:
    """Units that warps write beyond those that they fill, over those of a copy."""
    vec, size = stage.config.vec, stage.size
    lanes = min(stage.lanes, 32)
    run_bytes, piece_bytes = stage.dst_length * size, lanes * vec * size
    modes = enumerate(zip(stage.modes, stage.counts, strict=True))
    runs = prod(count if k in stage.dst_run else m.extent for k, (m, count) in modes)
    pieces = runs * -(-run_bytes // piece_bytes)
    start = stage.unit * size if stage.lead else _aligned_bytes(stage, unit_bytes)
    start = gcd(start, piece_bytes) if run_bytes > piece_bytes else start
    return pieces * (unit_bytes - gcd(start, unit_bytes)) / moved


def _aligned_bytes(stage: Stage, unit_bytes: int) -> int:
    """What the starts of a destination's runs are multiples of, up to a unit."""
    starts = gcd(unit_bytes, stage.moves.dst_offset * stage.size)
    for k, (m, t) in enumerate(zip(stage.modes, stage.tile, strict=True)):
        step = t if k in stage.dst_run else 1
        if k not in stage.dst_run or t < m.extent:
            starts = gcd(starts, step * m.dst * stage.size)
    return starts


def _apart(stage: Stage) -> int:
    """Blocks from a tile to the one that the end of its rows goes on in; 0 where none does."""
    run = stage.src_run
    order: Sequence[int] = stage.by_source
    cut = [k for k in run if stage.tile[k] < stage.modes[k].extent]
    after = cut or [k for k in order if k not in run]
    if not after or stage.counts[after[0]] == 1:
        return 0
    return prod(stage.counts[k] for k in stage.walk[: stage.walk.index(after[0])])
