"""Rows and slabs of columns that the blocks of a cluster keep together, on Hopper.

    exchange    partial statistics of every block in all blocks, by one exchange
    slabs       norms over columns, whose slabs the blocks of a cluster keep

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.cluster.exchange import Exchange
from layoutalg.kernels.rowwise.cluster.slabs import build_slabs

__all__ = ["Exchange", "build_slabs"]
