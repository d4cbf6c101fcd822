"""The published ladders of matrix products, and the steps after them, as data.

A ladder is a base configuration and a list of options: each step takes over what the one before has and sets
some fields anew.  Options that only steps have are fields of records of their own; what is chosen has those
of the last step.  Sizes are multiples of the tile.

    gemm-simt    v1 to v8 as published, then what brings it to the kernel that is chosen.  Their author's
                 column-major C = A B is row-major D = A B here with the operands exchanged: that A is our B
    gemm-sm75    a tensor-core GEMM in six kernels for a T4, as published, 8 to 96 % of cuBLAS, and one more
    gemm-sm80    the same with f32 sums; two more steps need sm_80
    gemm-sm90    see sm90_steps
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from layoutalg.kernels.gemm import SimtConfig, Sm75Config, Sm80Config
from layoutalg.kernels.ladder.sm90_steps import BASE, OPTIONS, Sm90Step


@dataclass(frozen=True, slots=True)
class SimtStep(SimtConfig):
    """A configuration with the options of the first ladder.

    `weave` lanes along n come first in a warp, then those along m, then the others along n.  With `single` a
    thread copies the elements of a vector one by one.  With one stage, `ahead` loads the next tile into
    registers before the current one is multiplied.  Registers hold so many sets of `fragments`: all but one
    are loaded ahead, while others are multiplied.  `order` is that of stored tiles.
    """

    weave: int = 2
    ahead: bool = False
    fragments: Literal[1, 2, 4, 8] = 2
    order: Literal["mn", "k", "matrix", "turned"] = "mn"
    single: bool = False


@dataclass(frozen=True, slots=True)
class Sm80Step(Sm80Config):
    """A configuration with the options of the second ladder.

    With one stage through registers, `ahead` loads the next tile before the current one is multiplied.
    Registers hold so many sets of `fragments`: all but one are loaded ahead, while others are multiplied.
    Tiles are `swizzled` or plain; the `epilogue` is through shared memory or straight from the registers.
    Addresses are `lowered`, or computed as the program writes them, as far as the compiler leaves them so.
    """

    ahead: bool = True
    fragments: Literal[1, 2, 4, 8] = 2
    swizzled: bool = True
    epilogue: Literal["shared", "direct"] = "shared"
    lowered: bool = True


@dataclass(frozen=True, slots=True)
class Sm75Step(Sm75Config):
    """The same for GPUs without cp.async; of tiles through registers one set of fragments is held."""

    ahead: bool = True
    fragments: Literal[1, 2] = 1
    swizzled: bool = True
    epilogue: Literal["shared", "direct"] = "shared"
    lowered: bool = True


C = TypeVar("C", SimtStep, Sm75Step, Sm80Step, Sm90Step)


def ladder(base: C, options: Mapping[str, Mapping[str, Any]]) -> Mapping[str, C]:
    """The configuration of each step: the base with the options of all steps up to it.

    >>> steps = ladder(Sm80Step(128, 128, 64, 2, 2, 3), {"deep": {"stages": 4}, "wide": {"tile_n": 256}})
    >>> [(c.tile_n, c.stages) for c in steps.values()]
    [(128, 4), (256, 4)]
    """
    found = {}
    for name, fields in options.items():
        base = replace(base, **fields)
        found[name] = base
    return MappingProxyType(found)


SIMT_LADDER: Mapping[str, SimtStep] = ladder(
    SimtStep(
        32, 32, 32, 1, 1, 1, 1, 1, "global", "registers", 1, weave=32, fragments=1, order="k", a_vector=1,
        b_vector=1, fragment=1, pad=0, panel=1, result_vec=1,
    ),
    {
        "v1": {},  # a thread per element, straight from global memory
        "v2": {"via": "registers"},  # tiles in shared memory, both stored along k: B is turned, A is not
        "v3": {},  # the same from a linear thread index, which threads have from the start
        "v4": {"order": "mn"},  # both stored along rows: A is turned, 32-way, which the author leaves
        "v5": {  # four elements per thread, of the copies too, one by one: four sectors for one
            "thread_n": 4, "run_n": 4, "lanes_m": 4, "weave": 8, "a_vector": 4, "b_vector": 4, "single": True,
        },
        "v6": {"single": False, "fragment": 4, "result_vec": 4},  # 16-byte accesses; A is turned 8-way
        "v7": {  # 4 x 4 elements per thread
            "tile_m": 64, "tile_n": 64, "tile_k": 16, "thread_m": 4, "run_m": 4, "lanes_m": 2, "weave": 16,
        },
        "v8": {  # 8 x 8 elements per thread
            "tile_m": 128, "tile_n": 128, "tile_k": 8, "thread_m": 8, "thread_n": 8, "run_m": 8, "run_n": 8,
        },
        "warp tiles": {"lanes_m": 4, "weave": 2, "run_m": 4, "run_n": 4, "pad": 4},  # 4 x 8 lanes
        "prefetch": {"ahead": True, "fragments": 2},  # the next tile loaded into registers meanwhile
        "double buffer": {"ahead": False, "stages": 2},  # two tiles in shared memory, one barrier per tile
        "cp.async": {"via": "cp.async", "turn": "cp.async", "stages": 3},  # a ring of three
        "wide": {"tile_n": 256, "thread_m": 16, "panel": 8, "edges": True},  # blocks in panels
    },
)  # fmt: skip
"""Fused multiply-adds: from a thread per element to the widest tile.

Source: How to optimize SGEMM on NVIDIA GPUs, github.com/yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs."""


_PLAIN: Mapping[str, Any] = {
    "tile_m": 256, "tile_n": 128, "tile_k": 64, "warps_m": 4, "warps_n": 2, "stages": 1, "panel": 1,
    "via": "registers", "ahead": False, "fragments": 1, "mma_k": 8, "swizzled": False, "a_bytes": 2,
    "b_bytes": 2, "epilogue": "direct", "result_vec": 2,
}  # fmt: skip
_COPIES: Mapping[str, Mapping[str, Any]] = {
    "1 hierarchical tiles": {},
    "2 vectors": {"a_bytes": 16, "b_bytes": 16},
    "3 swizzle": {"swizzled": True},
    "4 copy ahead": {"ahead": True},
}

SM75_LADDER: Mapping[str, Sm75Step] = ladder(
    Sm75Step(**_PLAIN, lowered=False),
    {
        **_COPIES,
        "5 tile 256x256x32, lean index code": {"tile_n": 256, "tile_k": 32, "lowered": True},
        "6 two buffers": {"stages": 2},
        "7 results through shared memory": {"epilogue": "shared", "result_vec": 8},
    },
)
"""Tensor cores before cp.async, with f16 sums: six kernels as published for a T4, and the epilogue that their
author left undone."""

PUBLISHED: Mapping[str, float] = MappingProxyType(
    dict(zip(SM75_LADDER, (0.08, 0.24, 0.50, 0.70, 0.867, 0.96), strict=False))
)
"""The shares of cuBLAS that the published kernels reach on a T4, 8192 x 8192 x 8192.

Source: How To Write A Fast Matrix Multiplication From Scratch With Tensor Cores, alexarmbr.github.io, 2024.
"""


SM80_LADDER: Mapping[str, Sm80Step] = ladder(
    Sm80Step(**_PLAIN),
    {
        **_COPIES,
        "5 tile 256x128x32": {"tile_k": 32},
        "6 two buffers": {"stages": 2},
        "7 cp.async ring, mma k16": {
            "via": "cp.async", "stages": 4, "panel": 8, "fragments": 2, "mma_k": 0, "epilogue": "shared",
            "result_vec": 8,
        },
        "8 two fragments, tile 128x256x64": {
            "tile_m": 128, "tile_n": 256, "tile_k": 64, "warps_m": 2, "warps_n": 4
        },
    },
)  # fmt: skip
"""The same with f32 sums, and two steps that need sm_80.  f32 sums of 256 x 256 do not fit eight warps, so
that the fifth step keeps 256 x 128."""


LADDERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gemm-simt": SIMT_LADDER,
        "gemm-sm75": SM75_LADDER,
        "gemm-sm80": SM80_LADDER,
        "gemm-sm90": ladder(BASE, OPTIONS),
    }
)
"""The ladders by the name of the family."""
