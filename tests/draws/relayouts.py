"""Kernels that relay a tile out and do nothing else: words in, one conversion, words out."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.relayout import relayout
from layoutalg.f2 import LinearLayout, apply
from layoutalg.registers import Conversion, PlanKind, converted
from tests.draws.fragments import elements

Bytes = NDArray[np.uint8]


def words_of(registers: int, bits: int) -> int:
    """32-bit words of as many elements."""
    return -(-registers * bits // 32)


def relayout_kernel(found: Conversion, kind: PlanKind | None = None, groups: int = 1) -> Kernel:
    """Each thread loads its words of `src`, and stores those of `dst`; `groups` tiles side by side."""
    threads, bits = 32 * groups << found.places.in_bits["warp"], found.element.bits
    k = KernelBuilder("relayout", threads)
    given = words_of(1 << found.places.out_bits["register"], bits)
    wanted = words_of(1 << found.places.in_bits["register"], bits)
    src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    held = k.reg("held", given)
    for i in range(given):
        k.do(LDG[4], held[i], k.at(src, k.tid * given + i))
    out = relayout(k, found, held, "out", kind)
    for i in range(wanted):
        k.do(STG[4], k.at(dst, k.tid * wanted + i), out[i])
    return k.build()


def random_tile(layout: LinearLayout, bits: int, seed: int, groups: int = 1) -> Bytes:
    """A random value for each element, as `layout` holds them: (group, warp, lane, register, bytes).

    Elements narrower than a byte are paired: what is drawn is a byte for every 8 bits of neighbours.
    """
    rng = np.random.default_rng(seed)
    places = elements(layout)
    table = rng.integers(0, 256, (groups, int(places.max()) + 1, max(1, bits // 8)), dtype=np.uint8)
    if bits < 8:
        table &= (1 << bits) - 1
    return np.asarray(table[:, places])


def as_words(tile: Bytes, bits: int) -> NDArray[np.uint32]:
    """(…, register, bytes) -> (…, words), registers in order from the low end of each word."""
    if bits < 8:
        grouped = tile[..., 0].reshape(*tile.shape[:-2], -1, 8 // bits)
        flat = np.bitwise_or.reduce(grouped << (np.arange(8 // bits) * bits).astype(np.uint8), axis=-1)
    else:
        flat = tile.reshape(*tile.shape[:-2], -1)
    missing = -flat.shape[-1] % 4
    padded = np.concatenate([flat, np.zeros((*flat.shape[:-1], missing), np.uint8)], axis=-1)
    return np.ascontiguousarray(padded).view(np.uint32)


def expected_words(src: LinearLayout, dst: LinearLayout, tile: Bytes, bits: int) -> NDArray[np.uint32]:
    """The definition: the words of the destination."""
    return as_words(np.stack([converted(src, dst, group) for group in tile]), bits)


def known_bits(registers: int, bits: int) -> NDArray[np.uint32]:
    """Masks of the bits of a lane's words that hold elements."""
    total = registers * bits
    words = words_of(registers, bits)
    return np.array([(1 << min(32, total - 32 * i)) - 1 for i in range(words)], dtype=np.uint32)


def random_pair(seed: int) -> tuple[LinearLayout, LinearLayout]:
    """Register layouts of one tensor, of 32 lanes and 1 to 4 warps: bijections, broadcasts, parts."""
    rng = random.Random(seed)
    registers, lanes, warps = rng.randint(0, 4), 5, rng.randint(0, 2)
    size = registers + lanes + warps
    held = _invertible(rng, size)
    if rng.random() < 0.3:
        held[rng.randrange(size)] = rng.choice([0, *held])
    wanted, places = registers, _invertible(rng, size)
    if rng.random() < 0.4:
        wanted = rng.randint(0, 4)
        places = [rng.randrange(1 << size) for _ in range(wanted + lanes + warps)]
    if rng.random() < 0.5:  # every value stays in its warp
        inside = (1 << (registers + lanes)) - 1
        places = [p & inside for p in places[: wanted + lanes]]
        places += [rng.randrange(inside + 1) | 1 << (registers + lanes + j) for j in range(warps)]
    outs = {"n": 1 << size}
    src = LinearLayout.from_columns(held, {"register": registers, "lane": lanes, "warp": warps}, outs)
    dst = LinearLayout.from_columns(
        [apply(held, p) for p in places], {"register": wanted, "lane": lanes, "warp": warps}, outs
    )
    return src, dst


def _invertible(rng: random.Random, size: int) -> list[int]:
    columns = rng.sample([1 << j for j in range(size)], size)
    for _ in range(rng.choice((0, size, 2 * size))):
        i, j = rng.sample(range(size), 2)
        columns[i] ^= columns[j]
    return columns
