"""Products of warpgroups as tile programs, with operands and results: for the simulator and for a GPU.

case = Case("f16", "f16", "f32", a_mode="64B", a_major="MN")
kernel, a, b = one_block(case), *operands(case)
d = result(case)                 launch or simulate with {"a": a.stored, "b": b.stored, "d": d}
expected(case, a, b)             D as NumPy computes it; all numbers are small, so that sums are exact
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from layoutalg import Layout, make_tiled_copy, make_tiled_copy_C, make_tiled_mma, tile_to_shape
from layoutalg import codegen as cg
from layoutalg.arch import WGMMA_TYPES, Major, atom_layout, find_swizzle_mode
from layoutalg.atoms import MMA_ATOMS
from layoutalg.codegen.instr import decode, encode
from layoutalg.codegen.language import KernelBuilder, Tensor
from layoutalg.codegen.program import Kernel
from layoutalg.dtype import dtype

ROW_BYTES = 128
"""Bytes along K of a one-block product's operands."""


@dataclass(frozen=True)
class Case:
    """Types of A, B and D, N, and how the operands lie in shared memory; A in registers where `rs`."""

    a: str
    b: str
    d: str
    n: int = 64
    a_mode: str = "128B"
    a_major: Major = "K"
    b_mode: str = "128B"
    b_major: Major = "K"
    rs: bool = False

    def __str__(self) -> str:
        a = "registers" if self.rs else f"{self.a_major}{self.a_mode}"
        return f"{self.d}_{self.a}_{self.b}_n{self.n}_{a}_{self.b_major}{self.b_mode}"

    @property
    def k(self) -> int:
        """Columns of A."""
        return ROW_BYTES // dtype(self.a).nbytes

    @property
    def atom(self) -> str:
        """The name of the atom."""
        types = "".join(t.upper() for t in (self.d, self.a, self.b))
        start = f"SM90_64x{self.n}x{WGMMA_TYPES[self.a].k}_{types}_{'RS' if self.rs else 'SS'}"
        return next(name for name in (start, f"{start}_TN") if name in MMA_ATOMS)


def shared_layout(mode: str, major: Major, element: str, shape: tuple[int, int]) -> Any:
    """The atom of a mode, tiled to a shape."""
    name = f"Layout_{major}_{find_swizzle_mode(mode).atom}_Atom"
    return tile_to_shape(atom_layout(name, element), shape)


def fill(k: KernelBuilder, source: Tensor, tile: Tensor, major: Major) -> None:
    """Copy all of a source of two modes to shared memory, in vectors of 16 bytes along its major mode."""
    element, (rows, columns) = str(source.element), source.shape
    vector = 16 // dtype(element).nbytes
    along, across = (columns // vector, rows) if major == "K" else (rows // vector, columns)
    x = gcd(along, 8)
    y = gcd(across, k.threads // x)
    threads, values = Layout((y, x), (x, 1)), Layout((1, vector))
    if major == "MN":
        threads, values = Layout((x, y)), Layout((vector, 1))
    copy = make_tiled_copy("UniversalCopy<uint128_t>", element, threads, values)
    me = k.get_slice(copy, k.tid % (x * y))
    with k.If(k.tid < x * y):
        k.store(k.load(me.partition_S(source)), me.partition_D(tile))


def one_block(case: Case) -> Kernel:
    """D (64 x N) = A B of one warpgroup: stores to shared memory, a fence between proxies, products."""
    k = cg.Kernel("product", threads=128)
    (m, n, depth), mma = (64, case.n, case.k), make_tiled_mma(case.atom)
    me = k.get_slice(mma)
    a = k.tensor("a", case.a, (m, depth), (depth, 1) if case.a_major == "K" else (1, m))
    b = k.tensor("b", case.b, (n, depth), (depth, 1) if case.b_major == "K" else (1, n))
    d = k.tensor("d", case.d, (m, n), (n, 1), writable=True)
    tile_b = k.shared("tile_b", case.b, shared_layout(case.b_mode, case.b_major, case.b, (n, depth)))
    fill(k, b, tile_b, case.b_major)
    left: Any
    if case.rs:
        left = me.fragment_A("left", (m, depth))
        k.load(me.partition_A(a), into=left)
    else:
        tile_a = k.shared("tile_a", case.a, shared_layout(case.a_mode, case.a_major, case.a, (m, depth)))
        fill(k, a, tile_a, case.a_major)
        left = me.partition_A(tile_a)
    k.do(cg.FENCE_PROXY_ASYNC)
    k.do(cg.BAR)
    acc = me.fragment_C("acc", (m, n))
    k.do(cg.WGMMA_FENCE)
    k.mma(mma, acc, left, me.partition_B(tile_b), accumulate=0)
    k.do(cg.WGMMA_COMMIT)
    k.do(cg.WGMMA_WAIT, 0)
    k.store(acc, me.partition_C(d))
    return k.build()


def epilogue(columns: int = 128) -> Kernel:
    """D (64 x columns) of f16 = A B: rounded, by stmatrix to swizzled tiles, from there by TMA to D."""
    k = cg.Kernel("epilogue", threads=128)
    m, n, depth = 64, columns, 64
    mma = make_tiled_mma(Case("f16", "f16", "f32", n=n).atom)
    me, matrices = k.get_slice(mma), k.get_slice(make_tiled_copy_C("SM90_U32x4_STSM_N", mma, "f16"))
    a, b = k.tensor("a", "f16", (m, depth), (depth, 1)), k.tensor("b", "f16", (n, depth), (depth, 1))
    d = k.tensor("d", "f16", (m, n), (n, 1), writable=True)
    save = k.tensor_map("save", d, (m, 64), mode="128B")
    tile_a, tile_b, tile_d = (
        k.shared(f"tile_{x}", "f16", shared_layout("128B", "K", "f16", shape))
        for x, shape in (("a", (m, depth)), ("b", (n, depth)), ("d", (m, n)))
    )
    fill(k, a, tile_a, "K")
    fill(k, b, tile_b, "K")
    k.fence_async()
    k.do(cg.BAR)
    acc = me.fragment_C("acc", (m, n))
    k.do(cg.WGMMA_FENCE)
    k.mma(mma, acc, me.partition_A(tile_a), me.partition_B(tile_b), accumulate=0)
    k.do(cg.WGMMA_COMMIT)
    k.warpgroup_wait(0, acc)
    k.store(matrices.retile(k.map(acc.to("f16"))), matrices.partition_D(tile_d))
    k.fence_async()
    k.do(cg.BAR)
    with k.If(k.tid.eq(0)):
        for i in range(n // 64):
            tile = cg.local_tile(tile_d, (m, 64), (0, i))
            k.tma_store(save, tile, cg.local_tile(d, (m, 64), (0, i)))
        k.bulk_commit()
        k.bulk_wait(0)
    return k.build()


# --- numbers -----------------------------------------------------------------------------------------------


class Numbers(NamedTuple):
    """A matrix: its numbers, and the array that holds them as a kernel takes it."""

    values: Any
    stored: Any


def numbers(element: str, shape: tuple[int, int], seed: int, *, turned: bool = False) -> Numbers:
    """Random integers, small enough that sums are exact; `turned` column by column in memory."""
    low, high = {"u8": (0, 256), "s8": (-128, 128)}.get(element, (-4, 5))
    values = np.random.default_rng(seed).integers(low, high, shape)
    return Numbers(values.astype(np.float64), stored(values.T.copy() if turned else values, element))


def stored(values: Any, element: str) -> Any:
    """Numbers as the elements of an array."""
    if element in ("e4m3", "e5m2"):
        every = decode(np.arange(256, dtype=np.uint8).view(np.uint32).reshape(1, -1), element)[0]
        codes = {x: code for code, x in reversed(list(enumerate(every.tolist())))}
        return np.vectorize(codes.__getitem__)(values).astype(np.uint8)
    if element == "bf16":
        return encode(values.astype(np.float64), element).view(np.uint16)
    return values.astype(dtype(element).numpy_name)


def operands(case: Case, seed: int = 0) -> tuple[Numbers, Numbers]:
    """A and B."""
    return (
        numbers(case.a, (64, case.k), seed, turned=case.a_major == "MN"),
        numbers(case.b, (case.n, case.k), seed + 1, turned=case.b_major == "MN"),
    )


def result(case: Case) -> Any:
    """An array for D, of numbers that no product is."""
    return np.full((64, case.n), 77, dtype(case.d).numpy_name)


def expected(a: Numbers, b: Numbers) -> Any:
    """D."""
    return a.values @ b.values.T


# --- all of them -------------------------------------------------------------------------------------------

MODES = ("none", "32B", "64B", "128B")
PLACES: tuple[tuple[str, Major], ...] = tuple((mode, major) for mode in MODES for major in ("K", "MN"))

KINDS = (
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"), ("e4m3", "e5m2", "f16"), ("e5m2", "e4m3", "f32"), ("s8", "s8", "s32"),
    ("u8", "s8", "s32"), ("u8", "u8", "s32"),
)  # fmt: skip


def cases() -> list[Case]:
    """Every type in every mode and major that it has, and with A in registers; mixed pairs; other N."""
    found = []
    for a, b, d in KINDS:
        places = [place for place in PLACES if WGMMA_TYPES[a].transposable or place[1] == "K"]
        for i, (mode, major) in enumerate(places):
            found.append(Case(a, b, d, a_mode=mode, a_major=major, b_mode=mode, b_major=major))
            if (a, d) == ("f16", "f32"):
                other, turned = places[(i + 3) % len(places)]
                found.append(Case(a, b, d, a_mode=mode, a_major=major, b_mode=other, b_major=turned))
        found.append(Case(a, b, d, rs=True))
    found += [Case("f16", "f16", "f32", n=n) for n in (8, 40, 192, 256)]
    found += [Case("s8", "s8", "s32", n=n) for n in (24, 48, 240)]
    found.append(Case("bf16", "bf16", "f32", n=96, b_mode="64B", b_major="MN"))
    return found


def all_pairs() -> list[Case]:
    """Every pair of modes and majors of f16."""
    return [
        Case("f16", "f16", "f32", a_mode=x, a_major=p, b_mode=y, b_major=q)
        for x, p in PLACES
        for y, q in PLACES
    ]


# --- rings -------------------------------------------------------------------------------------------------

BM, BN, BK = 128, 128, 64
RING_BYTES = (BM + BN) * BK * 2


def ring(stages: int, lag: int = 0, registers: tuple[int, int] = (0, 0), *, side: int = BM) -> Kernel:
    """D = A B of f16, side x side x 64 per block: a producer of boxes, and a consumer per 64 rows."""
    k = cg.Kernel(f"ring_{stages}_{lag}", threads=128 + 2 * side)
    m, n, depth = k.extent("m", 1 << 14, side), k.extent("n", 1 << 14, side), k.extent("k", 1 << 14, BK)
    rows, columns = k.grid((m, n), (side, side))
    a, b = k.tensor("a", "f16", (m, depth), (depth, 1)), k.tensor("b", "f16", (n, depth), (depth, 1))
    d = k.tensor("d", "f32", (m, n), (n, 1), writable=True)
    maps = [k.tensor_map(f"load_{t.buffer.name}", t, (side, BK), mode="128B") for t in (a, b)]
    tile_a, tile_b = (
        k.shared(f"tile_{x}", "f16", shared_layout("128B", "K", "f16", (side, BK)), stages=stages)
        for x in "ab"
    )
    mma = make_tiled_mma(f"SM90_64x{side}x16_F32F16F16_SS", (side // 64, 1, 1))
    acc = k.get_slice(mma, 0).fragment_C("acc", (side, side))

    def me() -> Any:
        return k.get_slice(mma, k.thread)

    def produce(tile: Any, stage: Any, full: Any) -> None:
        k.tma_load(maps[0], cg.local_tile(a, (side, BK), (rows, tile)), tile_a[None, None, stage], full)
        k.tma_load(maps[1], cg.local_tile(b, (side, BK), (columns, tile)), tile_b[None, None, stage], full)

    def consume(tile: Any, stage: Any) -> None:
        left, right = me().partition_A(tile_a), me().partition_B(tile_b)
        k.do(cg.WGMMA_FENCE)
        k.mma(mma, acc, left[None, None, None, stage], right[None, None, None, stage])
        k.do(cg.WGMMA_COMMIT)
        k.warpgroup_wait(lag)

    def end() -> None:
        k.warpgroup_wait(0, acc)
        k.store(acc, me().partition_C(cg.local_tile(d, (side, side), (rows, columns))))

    tma = cg.TmaRing(4 * side * BK, consumer=side // 16, registers=registers, lag=lag)
    tiles = k.let("tiles", depth // BK)
    cg.pipeline(k, tiles, stages, produce, consume, tma=tma, begin=lambda: k.clear(acc), end=end)
    return k.build()


def multicast(stages: int = 3) -> Kernel:
    """The same by clusters of two blocks, one above the other: each brings half of B to both."""
    k = cg.Kernel("multicast", threads=384)
    m, n, depth = k.extent("m", 1 << 14, 2 * BM), k.extent("n", 1 << 14, BN), k.extent("k", 1 << 14, BK)
    rows, columns = k.grid((m, n), (BM, BN))
    k.cluster(2)
    a, b = k.tensor("a", "f16", (m, depth), (depth, 1)), k.tensor("b", "f16", (n, depth), (depth, 1))
    d = k.tensor("d", "f32", (m, n), (n, 1), writable=True)
    load_a = k.tensor_map("load_a", a, (BM, BK), mode="128B")
    load_b = k.tensor_map("load_b", b, (BN // 2, BK), mode="128B")
    tile_a, tile_b = (
        k.shared(f"tile_{x}", "f16", shared_layout("128B", "K", "f16", (128, BK)), stages=stages)
        for x in "ab"
    )
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", 4, stages)
    tiles, mine = k.let("tiles", depth // BK), k.let("mine", k.rank)
    k.init(full, empty)
    mma = make_tiled_mma("SM90_64x128x16_F32F16F16_SS", (2, 1, 1))
    with k.roles() as roles:
        with roles.role("producer", 4), k.If(k.thread.eq(0)), k.For("kt", tiles) as kt:
            stage, turn = kt % stages, kt // stages
            k.wait(empty[stage], (turn + 1) % 2, cluster=True)
            k.expect(full[stage], RING_BYTES)
            k.tma_load(load_a, cg.local_tile(a, (BM, BK), (rows, kt)), tile_a[None, None, stage], full[stage])
            piece = cg.local_tile(b, (BN // 2, BK), (columns * 2 + mine, kt))
            into = cg.local_tile(tile_b[None, None, stage], (BN // 2, BK), (mine, 0))
            k.tma_load(load_b, piece, into, full[stage], blocks=3)
        with roles.role("consumer", 8):
            me = k.get_slice(mma, k.thread)
            acc = me.fragment_C("acc", (BM, BN))
            left, right = me.partition_A(tile_a), me.partition_B(tile_b)
            k.clear(acc)
            with k.For("kt", tiles) as kt:
                stage = kt % stages
                k.wait(full[stage], kt // stages % 2)
                k.do(cg.WGMMA_FENCE)
                k.mma(mma, acc, left[None, None, None, stage], right[None, None, None, stage])
                k.do(cg.WGMMA_COMMIT)
                k.warpgroup_wait(0)
                with k.If((k.thread % 128).eq(0)):
                    for rank in range(2):
                        k.arrive(empty[stage], rank)
            k.warpgroup_wait(0, acc)
            k.store(acc, me.partition_C(cg.local_tile(d, (BM, BN), (rows, columns))))
    k.cluster_sync()
    return k.build()


def ring_operands(m: int, n: int, depth: int) -> tuple[Numbers, Numbers]:
    """A and B of a ring."""
    return numbers("f16", (m, depth), 1), numbers("f16", (n, depth), 2)


def wide(major: Major = "K") -> Kernel:
    """D (128 x 128) = A B of one warpgroup: two instructions along M and N, eight along K."""
    k, (m, n, depth) = cg.Kernel("wide", threads=128), (128, 128, 128)
    mma = make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    me, acc = k.get_slice(mma), k.get_slice(mma).fragment_C("acc", (m, n))
    a = k.tensor("a", "f16", (m, depth), (depth, 1) if major == "K" else (1, m))
    b = k.tensor("b", "f16", (n, depth), (depth, 1))
    d = k.tensor("d", "f32", (m, n), (n, 1), writable=True)
    tile_a = k.shared("tile_a", "f16", shared_layout("128B", major, "f16", (m, depth)))
    tile_b = k.shared("tile_b", "f16", shared_layout("64B", "K", "f16", (n, depth)))
    fill(k, a, tile_a, major)
    fill(k, b, tile_b, "K")
    k.fence_async()
    k.do(cg.BAR)
    k.do(cg.WGMMA_FENCE)
    k.mma(mma, acc, me.partition_A(tile_a), me.partition_B(tile_b), accumulate=0)
    k.do(cg.WGMMA_COMMIT)
    k.warpgroup_wait(0, acc)
    k.store(acc, me.partition_C(d))
    return k.build()


RINGS: dict[str, Callable[[], Kernel]] = {
    "2": lambda: ring(2), "3": lambda: ring(3, lag=1), "4": lambda: ring(4, lag=1, registers=(40, 232)),
    "5": lambda: ring(5, lag=2), "multicast": multicast,
}  # fmt: skip
"""Rings of every depth, and of a cluster."""
