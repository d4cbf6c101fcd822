"""Packed kernels: a block copies runs of memory, many short rows each, and finds rows in shared memory.

tile        slabs of groups, runs of slabs, and the walk of a block inside of its tile
copies      runs to shared memory and back, as one stream of 16-byte units
plan        which threads take which groups: candidates, and how long they take by a model
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.packed.copies import PackedRun
from layoutalg.kernels.rowwise.packed.plan import NORM, REDUCTION, Ranked, ranked, way_us
from layoutalg.kernels.rowwise.packed.tile import RUN_BYTES, PackedWalk, packed_walk

__all__ = [
    "NORM",
    "REDUCTION",
    "RUN_BYTES",
    "PackedRun",
    "PackedWalk",
    "Ranked",
    "packed_walk",
    "ranked",
    "way_us",
]
