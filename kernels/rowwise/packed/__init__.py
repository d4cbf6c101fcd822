"""Packed kernels: a block copies runs of memory, many short rows each, and finds rows in shared memory.

tile        slabs of groups, runs of slabs, and the walk of a block inside of its tile
copies      runs to shared memory and back, as one stream of 16-byte units
plan        which threads take which groups: candidates, and how long they take by a model
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.packed.copies import PackedRun
from layoutalg.kernels.rowwise.packed.plan import (
    NORM,
    REDUCTION,
    Ranked,
    Way,
    ranked,
    wavefronts,
    way_us,
    ways,
)
from layoutalg.kernels.rowwise.packed.tile import RUN_BYTES, PackedWalk, Slabs, packed_walk, unit_of

__all__ = [
    "NORM",
    "REDUCTION",
    "RUN_BYTES",
    "PackedRun",
    "PackedWalk",
    "Ranked",
    "Slabs",
    "Way",
    "packed_walk",
    "ranked",
    "unit_of",
    "wavefronts",
    "way_us",
    "ways",
]
