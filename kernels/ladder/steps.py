"""The published ladders of matrix products, and the steps after them, as data.

A ladder is a base configuration and a list of options: each step takes over what the one before has and sets
some fields anew.  The first steps are published kernels, programs of this room; the last are configurations
of the library's own.  Sizes are multiples of the tile.

    gemm-simt    v1 to v8 as published, then what brings it to the kernel that is chosen
    gemm-sm75    a tensor-core GEMM in six kernels for a T4, as published, 8 to 96 % of cuBLAS, and one more
    gemm-sm80    the same with f32 sums; two more steps need sm_80
    gemm-sm90    from a wgmma behind copies by threads to clusters, ping-pong and stores by TMA
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from layoutalg.kernels.gemm import SimtConfig, Sm75Config, Sm80Config, Sm90Config
from layoutalg.kernels.ladder.hgemm import Hgemm
from layoutalg.kernels.ladder.hopper import Hopper
from layoutalg.kernels.ladder.sgemm import Sgemm

C = TypeVar("C")


def ladder(base: C, options: Mapping[str, Mapping[str, Any]]) -> Mapping[str, C]:
    """The configuration of each step: the base with the options of all steps up to it.

    >>> steps = ladder(Sm80Config(128, 128, 64, 2, 2, 3), {"deep": {"stages": 4}, "wide": {"tile_n": 256}})
    >>> [(c.tile_n, c.stages) for c in steps.values()]
    [(128, 4), (256, 4)]
    """
    found = {}
    for name, fields in options.items():
        base = replace(base, **fields)  # type: ignore[type-var]
        found[name] = base
    return MappingProxyType(found)


SIMT_LADDER: Mapping[str, Any] = {
    **ladder(
        Sgemm(),
        {
            "v1": {"shared": False},
            "v2": {"shared": True, "order": "k"},
            "v3": {},  # the same from a linear thread index, which threads have from the start
            "v4": {"order": "mn"},
            "v5": {"thread_n": 4, "vector": 4, "single": True},
            "v6": {"single": False, "fragment": 4},
            "v7": {"tile_m": 64, "tile_n": 64, "tile_k": 16, "thread_m": 4},
            "v8": {"tile_m": 128, "tile_n": 128, "tile_k": 8, "thread_m": 8, "thread_n": 8},
            "warp tiles": {"warp_tiles": True},
        },
    ),
    **ladder(
        SimtConfig(128, 128, 8, 8, 8, 4, via="registers", stages=1, panel=1),
        {
            "prefetch": {},  # the next tile is loaded into registers while one is multiplied
            "double buffer": {"stages": 2},  # two tiles in shared memory, one barrier per tile
            "cp.async": {"via": "cp.async", "stages": 3},  # a ring of three
            "wide": {"tile_n": 256, "thread_m": 16, "panel": 8, "edges": True},  # blocks in panels
        },
    ),
}
"""Fused multiply-adds: from a thread per element to the widest tile."""

COPIES: Mapping[str, Mapping[str, Any]] = {
    "1 hierarchical tiles": {},
    "2 vectors": {"vector": 8},
    "3 swizzle": {"swizzled": True},
    "4 copy ahead": {"ahead": True},
}
"""The first steps of both ladders of mma.sync."""

SM75_LADDER: Mapping[str, Any] = {
    **ladder(
        Hgemm(),
        {
            **COPIES,
            "5 tile 256x256x32, lean index code": {"tile_n": 256, "tile_k": 32, "lean": True},
            "6 two buffers": {"stages": 2},
        },
    ),
    "7 results through shared memory": Sm75Config(256, 256, 32, 4, 2, panel=1),
}
"""Tensor cores before cp.async, with f16 sums: six kernels as published for a T4, and the epilogue that their
author left undone."""

PUBLISHED: Mapping[str, float] = MappingProxyType(
    dict(zip(SM75_LADDER, (0.08, 0.24, 0.50, 0.70, 0.867, 0.96), strict=False))
)
"""The shares of cuBLAS that the published kernels reach on a T4, 8192 x 8192 x 8192."""

SM80_LADDER: Mapping[str, Any] = {
    **ladder(
        Hgemm(lean=True), {**COPIES, "5 tile 256x128x32": {"tile_k": 32}, "6 two buffers": {"stages": 2}}
    ),
    "7 cp.async ring, mma k16": Sm80Config(256, 128, 32, 4, 2, 4),
    "8 two fragments, tile 128x256x64": Sm80Config(128, 256, 64, 2, 4, 4),
}
"""The same with f32 sums, and two steps that need sm_80.  f32 sums of 256 x 256 do not fit eight warps, so
that the fifth step keeps 256 x 128."""

SM90_LADDER: Mapping[str, Any] = {
    **ladder(
        Hopper(128, 128, 1, 1),
        {
            "1 wgmma": {},  # threads copy a tile to shared memory, then a warpgroup multiplies it
            "2 TMA": {"loop": "tma"},  # one thread starts the copies
            "3 ring of 4": {"stages": 4},  # three steps ahead
            "4 roles": {"loop": "roles"},  # a warpgroup copies, one multiplies with a group in flight
            "5 tile 128x256": {"tile_n": 256, "consumers": 2},
        },
    ),
    **ladder(
        Sm90Config(128, 256, 4, 2, through="shared"),
        {
            "6 persistent": {},  # results in rows of 16 bytes
            "7 clusters of 2": {"cluster_m": 2},  # each block loads half of B for both
            "8 ping-pong": {
                "tile_n": 128,
                "stages": 5,
                "pingpong": True,
            },  # a tile for each consumer
            "9 stmatrix, TMA stores": {"through": "tma"},
            "10 one tile for both": {"tile_n": 256, "stages": 4, "pingpong": False, "cluster_m": 1},
            # each loads half of A for both; the choice for the problem of the comparison
            "11 high, clusters beside": {"tile_m": 256, "tile_n": 128, "cluster_n": 2},
        },
    ),
}

LADDERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gemm-simt": SIMT_LADDER, "gemm-sm75": SM75_LADDER, "gemm-sm80": SM80_LADDER,
        "gemm-sm90": SM90_LADDER,
    }
)  # fmt: skip
"""The ladders by the name of the family."""
