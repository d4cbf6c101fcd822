"""Rows and slabs of columns that the blocks of a cluster keep together, on Hopper.

    exchange    partial statistics of every block in all blocks, by one exchange
    resident    how many clusters a GPU holds at a time
    kept_time   how long rows take that blocks keep: what the choice of a cluster minimises
    slab_plan   which slabs of columns clusters keep, ranked by the share of a copy that is expected

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.cluster.exchange import Exchange
from layoutalg.kernels.rowwise.cluster.kept_time import REGISTERS, Kept, kept_us, split_us
from layoutalg.kernels.rowwise.cluster.resident import SIZES, resident_clusters
from layoutalg.kernels.rowwise.cluster.slab_plan import BLOCK_BYTES, neighbours, slab_bytes, slabs

__all__ = [
    "BLOCK_BYTES",
    "REGISTERS",
    "SIZES",
    "Exchange",
    "Kept",
    "kept_us",
    "neighbours",
    "resident_clusters",
    "slab_bytes",
    "slabs",
    "split_us",
]
