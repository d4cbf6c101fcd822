"""Rows and slabs of columns that the blocks of a cluster keep together, on Hopper.

    exchange    partial statistics of every block in all blocks, by one exchange
    resident    how many clusters a GPU holds at a time
    kept_time   how long rows take that blocks keep: what the choice of a cluster minimises

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.cluster.exchange import Exchange
from layoutalg.kernels.rowwise.cluster.kept_time import REGISTERS, Kept, kept_us, split_us
from layoutalg.kernels.rowwise.cluster.resident import SIZES, resident_clusters

__all__ = ["REGISTERS", "SIZES", "Exchange", "Kept", "kept_us", "resident_clusters", "split_us"]
