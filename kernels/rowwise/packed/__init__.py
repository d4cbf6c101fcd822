"""Packed kernels: blocks that copy whole runs of memory, many short rows each, and find rows in shared memory.

    tile        slabs of groups, runs of slabs, and the walk of a block inside of its run
    copies      a run to shared memory and back, as one stream of 16-byte units
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.packed.copies import PackedRun
from layoutalg.kernels.rowwise.packed.tile import PackedWalk, Slabs, packed_walk, slabs_of, unit_of

__all__ = ["PackedRun", "PackedWalk", "Slabs", "packed_walk", "slabs_of", "unit_of"]
