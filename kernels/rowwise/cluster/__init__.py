"""Rows and slabs of columns that the blocks of a cluster keep together, on Hopper.

    exchange    partial statistics of every block in all blocks, by one exchange
    slabs       statistics of a slab of columns, from threads to the factors of a cluster

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.cluster.exchange import Exchange
from layoutalg.kernels.rowwise.cluster.slabs import join_slab

__all__ = ["Exchange", "join_slab"]
