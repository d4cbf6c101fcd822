"""Small tile programs that the simulator's tests share, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy

from layoutalg.codegen.instr import BAR, LDG, LDS, STG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import Simulation, simulate
from layoutalg.layout import AnyLayout, Layout

WAYS: tuple[dict[str, Any], ...] = (
    {"group": "block"},
    {"group": "warp", "seed": 0},
    {"group": "warp", "seed": 1},
    {"group": "warp", "seed": 2},
)
"""All warps together, and one at a time in three orders."""


def every_way(kernel: Kernel, make_args: Callable[[], Mapping[str, Any]]) -> list[Simulation]:
    """Run a kernel in every way, on fresh arguments each."""
    return [simulate(kernel, make_args(), **way) for way in WAYS]


def copy_through_shared(threads: int, *, barrier: bool = True, mirror: int = 0) -> Kernel:
    """y[tid] = x[tid ^ mirror] by way of shared memory."""
    k = KernelBuilder("through_shared", threads)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    tile = k.shared_buffer("tile", 4, Layout((threads,)), threads, 16)
    v, w = k.reg("v", 1), k.reg("w", 1)
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    if barrier:
        k.do(BAR)
    k.do(LDS[4], w, k.at(tile, k.tid ^ mirror))
    k.do(STG[4], k.at(y, k.tid), w)
    return k.build()


def transpose_tile(layout: AnyLayout, size_elems: int, element_bytes: int = 4, side: int = 32) -> Kernel:
    """y = x transposed, one side x side tile with one warp a block: rows are written, columns are read."""
    k = KernelBuilder("transpose_tile", 32)
    x, y = k.pointer("x", element_bytes, (side, 1)), k.pointer("y", element_bytes, (side, 1), writable=True)
    tile = k.shared_buffer("tile", element_bytes, layout, size_elems, 1024)
    v, w = k.reg("v", side, max(1, element_bytes // 4)), k.reg("w", side, max(1, element_bytes // 4))
    with k.Unroll("i", side) as i:
        k.do(LDG[element_bytes], v[i], k.at(x, i, k.tid))
        k.do(STS[element_bytes], k.at(tile, i, k.tid), v[i])
    k.do(BAR)
    with k.Unroll("j", side) as j:
        k.do(LDS[element_bytes], w[j], k.at(tile, k.tid, j))
        k.do(STG[element_bytes], k.at(y, j, k.tid), w[j])
    return k.build()


def floats(n: int) -> numpy.ndarray[Any, Any]:
    """0, 1, 2, ... as 32-bit floats."""
    return numpy.arange(n, dtype=numpy.float32)
