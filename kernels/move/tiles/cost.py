"""The time of memory for a tile, relative to a copy: the criterion for tiles, units and widths.

The idea.  A permute moves the bytes of a copy, and also what its runs share with others: sectors that two
rows request from the L2, half lines that memory fills twice since the second row comes too late to
find them in the L2, sectors and lines of the destination that two runs or two warps write parts of.  Too few
bytes in flight leave the memory idle.

    time = 0.83 + 0.26 in + 0.04 in half lines + 0.02 in lines + 0.31 refilled
           + 1.17 out + 0.6 warp sectors + 0.06 warp lines
           + 4500 / bytes in flight + 0.13 idle threads + 250 / bytes of a tile
           + 1.4 multiprocessors / blocks + instructions and wavefronts

    in            sectors that rows touch beyond those of a copy, as a share of these; "refilled" what memory
                  fills: lines where copies ask for whole ones, else half lines
    out           sectors that runs of the destination touch, likewise; "warp" what its warps touch

Fitted, but for half lines and lines of rows, to 848 configurations of 125 random tensors that an H200 timed
(tests/gpu/tune_permute.py, seeds 2027 and 2028): 14 % root mean square.  Sectors that warps write parts of,
wavefronts and a vector's instructions were weighed once more on 1,099 configurations of seeds 2027 and 2029,
for the choice: of those of each tensor it has 0.978 of the fastest in the geometric mean, 0.974 before.
"""

from __future__ import annotations

from math import gcd, prod
from types import MappingProxyType

from layoutalg.arch import Arch
from layoutalg.kernels.move.stage import Stage
from layoutalg.kernels.move.tiles.units import (
    HALF_LINE_BYTES,
    LINE_BYTES,
    SECTOR_BYTES,
    filled_units,
    loaded_units,
    stored_units,
)

SM_THREADS = 2048
"""Threads of a multiprocessor."""

WEIGHTS = MappingProxyType(
    {
        "copy": 0.825, "in": 0.26, "in half lines": 0.04, "in lines": 0.02, "refilled": 0.31, "out": 1.17,
        "warp sectors": 0.6, "warp lines": 0.06, "in flight": 4500.0, "idle threads": 0.13, "tile": 250.0,
        "idle multiprocessors": 1.4, "large": 2e-6, "instruction": 0.51, "wavefront": 2.1,
    }
)  # fmt: skip
"""The cost of each part, as a share of the time of a copy."""

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
    (1.08, 0.99)
    """
    sms = arch.board.sms if arch.board else 1
    elements, moved = prod(m.extent for m in stage.modes), moved_bytes(stage)
    read, written = elements * stage.size, elements * stage.dst_size
    filled = LINE_BYTES if stage.config.lines else HALF_LINE_BYTES
    resident = min(
        SM_THREADS // stage.config.threads,
        arch.shared_bytes_per_sm // (stage.tile_bytes + arch.reserved_shared_bytes_per_block),
    )
    flight = min(max(1, resident), stage.blocks / sms) * prod(stage.held) * stage.size
    parts = {
        "copy": 1,
        "in": (loaded_units(stage, SECTOR_BYTES) * SECTOR_BYTES - read) / moved,
        "in half lines": (loaded_units(stage, HALF_LINE_BYTES) * HALF_LINE_BYTES - read) / moved,
        "in lines": (loaded_units(stage, LINE_BYTES) * LINE_BYTES - read) / moved,
        "refilled": (filled_units(stage, filled) * filled - read) / moved,
        "out": (stored_units(stage, SECTOR_BYTES) * SECTOR_BYTES - written) / moved,
        "warp sectors": _warps(stage, SECTOR_BYTES, moved),
        "warp lines": _warps(stage, LINE_BYTES, moved),
        "in flight": 1 / flight,
        "tile": 1 / (prod(stage.tile) * stage.size),
        "idle threads": max(0, 1 - stage.config.threads * resident / SM_THREADS),
        "idle multiprocessors": sms / stage.blocks,
        "large": max(0, stage.tile_bytes - LARGE_BYTES),
    }
    return sum(WEIGHTS[name] * part for name, part in parts.items())


def moved_bytes(stage: Stage) -> float:
    """Bytes that are stored; where elements are converted, the mean of either side."""
    return prod(m.extent for m in stage.modes) * (stage.size + stage.dst_size) / 2


def _warps(stage: Stage, unit_bytes: int, moved: float) -> float:
    """Units that warps write beyond those that they fill, over those of a copy."""
    vec, size = stage.config.vec, stage.dst_size
    lanes = min(stage.lanes, 32)
    run_bytes, piece_bytes = stage.dst_length * size, lanes * vec * size
    modes = enumerate(zip(stage.modes, stage.counts, strict=True))
    runs = prod(count if k in stage.dst_run else m.extent for k, (m, count) in modes)
    pieces = runs * -(-run_bytes // piece_bytes)
    start = stage.unit * size if stage.lead else _aligned_bytes(stage, unit_bytes)
    start = gcd(start, piece_bytes) if run_bytes > piece_bytes else start
    return pieces * (unit_bytes - gcd(start, unit_bytes)) / moved


def _aligned_bytes(stage: Stage, unit_bytes: int) -> int:
    """The alignment of the starts of a destination's runs, up to a unit."""
    size = stage.dst_size
    starts = gcd(unit_bytes, stage.moves.dst_offset * size)
    for k, (m, t) in enumerate(zip(stage.modes, stage.tile, strict=True)):
        step = t if k in stage.dst_run else 1
        if k not in stage.dst_run or t < m.extent:
            starts = gcd(starts, step * m.dst * size)
    return starts
