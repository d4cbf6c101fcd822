"""The ladder of gemm-sm90: from a wgmma behind copies by threads to clusters, ping-pong and stores by TMA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from layoutalg.kernels.gemm import Sm90Config


@dataclass(frozen=True, slots=True)
class Sm90Step(Sm90Config):
    """A configuration with the options of the third ladder.

    `loop` is how operands come where a block computes one tile: copied by "threads", by "tma" that one of the
    threads that multiply starts, or by a warpgroup of its own ("roles"); "persistent" are the kernels that
    users run, whose blocks compute tile after tile.
    """

    loop: Literal["threads", "tma", "roles", "persistent"] = "persistent"


BASE = Sm90Step(128, 128, 1, 1, through="shared", result_vec=2, loop="threads")

OPTIONS: Mapping[str, Mapping[str, object]] = {
    "1 wgmma": {},  # threads copy a tile to shared memory, then a warpgroup multiplies it
    "2 TMA": {"loop": "tma"},  # one thread starts the copies
    "3 ring of 4": {"stages": 4},  # three steps ahead
    "4 roles": {"loop": "roles"},  # a warpgroup copies, one multiplies with a group in flight
    "5 tile 128x256": {"tile_n": 256, "consumers": 2},
    "6 persistent": {"loop": "persistent", "result_vec": 8},  # results in rows of 16 bytes
    "7 clusters of 2": {"cluster_m": 2},  # each block loads half of B for both
    "8 ping-pong": {"tile_n": 128, "stages": 5, "pingpong": True},  # a tile for each consumer, in turn
    "9 stmatrix, TMA stores": {"through": "tma"},
    "10 one tile for both": {"tile_n": 256, "stages": 4, "pingpong": False, "cluster_m": 1},
    "11 high, clusters beside": {
        "tile_m": 256,
        "tile_n": 128,
        "cluster_n": 2,
    },  # each loads half of A for both
}
"""The fields that each step changes; the last step is the choice for the problem of the comparison."""
