"""Estimates from facts: occupancy, roofline, L2 locality of a block order, asynchronous copies.

occupancy      occupancy_of: blocks per multiprocessor, and what limits them; resident_clusters of a GPU
roofline       roofline_of: bound by memory or by arithmetic, and at which rate
l2_order       l2_locality, best_band: the L2 reuse of an order of thread blocks (rasterization)
async_copies   sectors and wavefronts of cp.async and cp.async.bulk
"""

from __future__ import annotations

from layoutalg.model.async_copies import copied_sectors, copied_wavefronts, tag_sectors
from layoutalg.model.l2_order import best_band, block_place, l2_locality
from layoutalg.model.occupancy import Occupancy, occupancy_of, resident_clusters
from layoutalg.model.roofline import (
    Roofline,
    balance_point,
    gemm_intensities,
    mean_rate,
    roofline_of,
    tile_intensity,
)

__all__ = [
    "Occupancy", "Roofline", "balance_point", "best_band", "block_place", "copied_sectors",
    "copied_wavefronts", "gemm_intensities", "l2_locality", "mean_rate", "occupancy_of", "resident_clusters",
    "roofline_of", "tag_sectors", "tile_intensity",
]  # fmt: skip
