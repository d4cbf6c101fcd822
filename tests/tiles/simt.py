"""Small programs of plain accesses and cp.async that the simulator's tests share, and how they are run."""

from __future__ import annotations

from typing import Any

import numpy

from layoutalg.codegen import instr as isa
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.layout import AnyLayout, Layout

WAYS: tuple[dict[str, Any], ...] = (
    {"group": "block"},
    {"group": "warp", "seed": 0},
    {"group": "warp", "seed": 1},
    {"group": "warp", "seed": 2},
)
"""All warps together, and one at a time in three orders."""


def copy_through_shared(threads: int, *, mirror: int = 0) -> Kernel:
    """y[tid] = x[tid ^ mirror] by way of shared memory."""
    k = KernelBuilder("through_shared", threads)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    tile = k.shared_buffer("tile", 4, Layout((threads,)), threads, 16)
    v, w = k.reg("v", 1), k.reg("w", 1)
    k.do(isa.LDG[4], v, k.at(x, k.tid))
    k.do(isa.STS[4], k.at(tile, k.tid), v)
    k.do(isa.BAR)
    k.do(isa.LDS[4], w, k.at(tile, k.tid ^ mirror))
    k.do(isa.STG[4], k.at(y, k.tid), w)
    return k.build()


def transpose_tile(layout: AnyLayout, size_elems: int, element_bytes: int = 4, side: int = 32) -> Kernel:
    """y = x transposed, one side x side tile with one warp a block: rows are written, columns are read."""
    k = KernelBuilder("transpose_tile", 32)
    x, y = k.pointer("x", element_bytes, (side, 1)), k.pointer("y", element_bytes, (side, 1), writable=True)
    tile = k.shared_buffer("tile", element_bytes, layout, size_elems, 1024)
    v, w = k.reg("v", side, max(1, element_bytes // 4)), k.reg("w", side, max(1, element_bytes // 4))
    with k.Unroll("i", side) as i:
        k.do(isa.LDG[element_bytes], v[i], k.at(x, i, k.tid))
        k.do(isa.STS[element_bytes], k.at(tile, i, k.tid), v[i])
    k.do(isa.BAR)
    with k.Unroll("j", side) as j:
        k.do(isa.LDS[element_bytes], w[j], k.at(tile, k.tid, j))
        k.do(isa.STG[element_bytes], k.at(y, j, k.tid), w[j])
    return k.build()


def floats(n: int) -> numpy.ndarray[Any, Any]:
    """0, 1, 2, ... as 32-bit floats."""
    return numpy.arange(n, dtype=numpy.float32)


THREADS = 64


def steps(words: str, size: int = THREADS) -> Kernel:
    """Two warps that do what the words say with x, y, a tile of `size` words and a register."""
    k = KernelBuilder("steps", THREADS)
    x, y, v = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.reg("v", 1)
    tile, t = k.shared_buffer("tile", 4, Layout((size,)), size, 16), k.tid
    known: dict[str, tuple[Any, ...]] = {
        "load": (isa.LDG[4], v, k.at(x, t)),
        "load^63": (isa.LDG[4], v, k.at(y, t ^ 63)),
        "store": (isa.STG[4], k.at(y, t), v),
        "copy": (isa.CP_ASYNC[4], k.at(tile, t), k.at(x, t)),
        "copy+64": (isa.CP_ASYNC[4], k.at(tile, t + (size - 64)), k.at(x, t)),
        "commit": (isa.CP_COMMIT,),
        "wait": (isa.CP_WAIT, 0),
        "bar": (isa.BAR,),
        "warp": (isa.WARP_SYNC,),
        **{f"read^{n}": (isa.LDS[4], v, k.at(tile, t ^ n if n else t)) for n in (0, 1, 32, 33, 63)},
        "read+64": (isa.LDS[4], v, k.at(tile, t + (size - 64))),
        **{f"write^{n}": (isa.STS[4], k.at(tile, t ^ n if n else t), v) for n in (0, 1, 63)},
    }
    for word in words.split():
        k.do(*known[word])
    return k.build()


def if_below(warps_threads: int, *inner: Any, orelse: Any = None) -> Kernel:
    """An instruction by the first threads alone, and another one by the rest."""
    k = KernelBuilder("branch", THREADS)
    with k.If(k.tid < warps_threads):
        k.do(*inner)
    if orelse is not None:
        with k.Else():
            k.do(orelse)
    return k.build()


def filled_below(threads: int, *, shared: bool) -> Kernel:
    """y = x, of which only the first threads fill their register, or their word of the tile."""
    k = KernelBuilder("filled", THREADS)
    x, y, v = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.reg("v", 1)
    tile = k.shared_buffer("tile", 4, Layout((THREADS,)), THREADS, 16)
    if shared:
        k.do(isa.LDG[4], v, k.at(x, k.tid))
    with k.If(k.tid < threads):
        k.do(*((isa.STS[4], k.at(tile, k.tid), v) if shared else (isa.LDG[4], v, k.at(x, k.tid))))
    if shared:
        k.do(isa.BAR)
        k.do(isa.LDS[4], v, k.at(tile, k.tid))
    k.do(isa.STG[4], k.at(y, k.tid), v)
    return k.build()


def two_blocks(source: int | None, target: int) -> Kernel:
    """y[tid + block * target] = x[tid], or what y has at tid + source, where the next block's is its own."""
    k = KernelBuilder("two_blocks", 32)
    x, y, v = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.reg("v", 1)
    block = k.block(0, 2)
    place = k.at(x, k.tid) if source is None else k.at(y, k.tid + (source if source != 1 else block * 32))
    k.do(isa.LDG[4], v, place)
    k.do(isa.STG[4], k.at(y, k.tid + block * target), v)
    return k.build()


def accesses(width: int, factor: int, offset: int, *, shared: bool = False) -> Kernel:
    """Loads of `width` bytes at tid * factor + offset words, by eight threads, or stores to a tile there."""
    k = KernelBuilder("accesses", THREADS)
    x, v = k.pointer("x", 4), k.reg("v", width // 4)
    tile = k.shared_buffer("tile", 4, Layout((THREADS,)), THREADS, 16)
    k.shared_buffer("next", 4, Layout((THREADS,)), THREADS, 16)
    with k.If(k.tid < THREADS // factor):
        at = k.tid * factor
        k.do(isa.LDG[width], v, k.at(x, at if shared else at + offset))
        if shared:
            k.do(isa.STS[width], k.at(tile, at + offset), v)
    return k.build()


def corner(byte: int) -> Kernel:
    """Three rows of bytes are written, a corner of four rows is turned, a byte of it is stored."""
    k = KernelBuilder("corner", 32)
    x, y = k.pointer("x", 1), k.pointer("y", 1, writable=True)
    tile = k.shared_buffer("tile", 1, Layout((4, 32), (32, 1)), 128, 16)
    v, w, t = k.reg("v", 1), k.reg("w", 4, 1), k.reg("t", 4)
    k.do(isa.LDG[1], v, k.at(x, k.tid))
    for row in range(3):
        k.do(isa.STS[1], k.at(tile, row, k.tid), v)
    k.do(isa.BAR)
    with k.If(k.tid < 8):
        with k.Unroll("r", 4) as r:
            k.do(isa.LDS[4], w[r], k.at(tile, r, k.tid * 4))
        k.do(isa.TRANSPOSE_8, t, *(w[n] for n in range(4)))
        k.do(isa.STS[4], k.at(tile, 3, k.tid * 4), t[0])
        k.do(isa.LDS[1], v, k.at(tile, 3, k.tid * 4 + byte))
        k.do(isa.STG[1], k.at(y, k.tid), v)
    return k.build()
