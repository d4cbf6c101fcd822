"""Rows and slabs of columns that the blocks of a cluster keep together, on Hopper.

    exchange    partial statistics of every block in all blocks, by one exchange
    kept_time   the time of rows that blocks keep, whole or in part: what the choice of a cluster minimises
    slab_plan   which slabs of columns clusters keep, ranked by the share of a copy that is expected

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.cluster.exchange import Exchange
from layoutalg.kernels.rowwise.cluster.kept_time import (
    GRID_DEPTH,
    GRID_STAGED,
    LONE_THREADS,
    KEPT_REGISTERS,
    SEVERAL_THREADS,
    Kept,
    grid_us,
    kept_us,
    moved_bytes,
    share_of_copy,
    split_us,
)
from layoutalg.kernels.rowwise.cluster.slab_plan import BLOCK_BYTES, neighbours, slab_bytes, slabs

__all__ = [
    "BLOCK_BYTES",
    "GRID_DEPTH",
    "GRID_STAGED",
    "LONE_THREADS",
    "KEPT_REGISTERS",
    "SEVERAL_THREADS",
    "Exchange",
    "Kept",
    "grid_us",
    "kept_us",
    "moved_bytes",
    "neighbours",
    "share_of_copy",
    "slab_bytes",
    "slabs",
    "split_us",
]
