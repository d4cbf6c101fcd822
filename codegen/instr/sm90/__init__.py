"""Instructions of sm_90: what Hopper adds.

wgmma   products of a warpgroup, asynchronous, and what orders them
tiles   operands in shared memory, as their descriptors describe them
"""

from __future__ import annotations

from layoutalg.codegen.instr.sm90.tiles import SharedTile
from layoutalg.codegen.instr.sm90.wgmma import (
    WARPGROUP,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WGMMA_WAIT,
    Product,
    wgmma,
)

__all__ = ["WARPGROUP", "WGMMA_COMMIT", "WGMMA_FENCE", "WGMMA_WAIT", "Product", "SharedTile", "find_wgmma"]
