"""Products of warpgroups as tile programs, with operands and results: what the simulator and an H200 are asked.

    case = Case("f16", "f16", "f32", a_mode="64B", a_major="MN")
    kernel, a, b = one_block(case), *operands(case)
    d = result(case)                 launch or simulate with {"a": a.stored, "b": b.stored, "d": d}
    expected(case, a, b)             D as NumPy computes it; all numbers are small, so that sums are exact
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from layoutalg import Layout, make_tiled_copy, make_tiled_mma, tile_to_shape
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


def fill(k: KernelBuilder, source: Tensor, tile: Tensor, major: Major, threads: int) -> None:
    """Copy all of a source of two modes to shared memory, in vectors of 16 bytes along its major mode."""
    element = source.element.name
    vector = 16 // dtype(element).nbytes
    along = source.shape[1 if major == "K" else 0] // vector
    lanes = min(along, 8)
    if major == "K":
        copy = make_tiled_copy(
            "UniversalCopy<uint128_t>", element, Layout((threads // lanes, lanes), (lanes, 1)), Layout((1, vector))
        )
    else:
        copy = make_tiled_copy(
            "UniversalCopy<uint128_t>", element, Layout((lanes, threads // lanes)), Layout((vector, 1))
        )
    me = k.get_slice(copy)
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
    fill(k, b, tile_b, case.b_major, k.threads)
    left: Any
    if case.rs:
        left = me.fragment_A("left", (m, depth))
        k.load(me.partition_A(a), into=left)
    else:
        tile_a = k.shared("tile_a", case.a, shared_layout(case.a_mode, case.a_major, case.a, (m, depth)))
        fill(k, a, tile_a, case.a_major, k.threads)
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
    """Every type in every mode; f16 and bf16 in every mode and major; every type with A in registers."""
    found = []
    for a, b, d in KINDS:
        places = PLACES if WGMMA_TYPES[a].transposable else [(mode, "K") for mode in MODES]
        for i, (mode, major) in enumerate(places):
            other, turned = places[(i + 3) % len(places)]
            found.append(Case(a, b, d, a_mode=mode, a_major=major, b_mode=mode, b_major=major))
            found.append(Case(a, b, d, a_mode=mode, a_major=major, b_mode=other, b_major=turned))
        found.append(Case(a, b, d, rs=True))
    return found


def all_pairs() -> list[Case]:
    """Every pair of modes and majors of f16."""
    return [
        Case("f16", "f16", "f32", a_mode=x, a_major=p, b_mode=y, b_major=q) for x, p in PLACES for y, q in PLACES
    ]
