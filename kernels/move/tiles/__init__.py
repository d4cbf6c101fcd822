"""The choice of a permute's tile: the tiles that exist, the units that their runs touch, and their cost.

shapes    tiles by the bytes of their runs on either side
units     sectors, half lines and lines that runs touch: a law, and its definition
cost      the time of a tile relative to a copy
"""

from __future__ import annotations

from layoutalg.kernels.move.tiles.cost import WEIGHTS, memory_time, moved_bytes
from layoutalg.kernels.move.tiles.shapes import by_source, even_part, tile_bytes, tiles
from layoutalg.kernels.move.tiles.units import (
    HALF_LINE_BYTES,
    LINE_BYTES,
    SECTOR_BYTES,
    filled_units,
    loaded_units,
    mean_units,
    mean_units_enumerated,
    stored_units,
)

__all__ = [
    "HALF_LINE_BYTES",
    "LINE_BYTES",
    "SECTOR_BYTES",
    "WEIGHTS",
    "by_source",
    "even_part",
    "filled_units",
    "loaded_units",
    "mean_units",
    "mean_units_enumerated",
    "memory_time",
    "moved_bytes",
    "stored_units",
    "tile_bytes",
    "tiles",
]
