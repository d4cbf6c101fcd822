"""Rows and slabs of columns that the blocks of a cluster keep together, on Hopper.

    exchange    partial statistics of every block in all blocks, by one exchange

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.cluster.exchange import Exchange

__all__ = ["Exchange"]
