"""wgmma.mma_async: the types, shapes and operand sources that exist.

The idea.  D (64 x N) += A (64 x K) B (K x N), where K is 32 bytes of operand, N steps by 8 (by 16 past 32 for
integers), B lies in shared memory and A there or in registers.  Only 16-bit operands in shared memory may be
M-major or N-major; everything else is K-major.

>>> WGMMA_TYPES["bf16"].k, WGMMA_TYPES["s8"].n_sizes[:6], WGMMA_TYPES["tf32"].transposable
(16, (8, 16, 24, 32, 48, 64), False)

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation using
wgmma.mma_async", matrix shapes, syntax and description; integer N of 240 and 256: CUTLASS,
include/cute/arch/mma_sm90_gmma.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

WGMMA_M = 64
"""Rows of A and D of one instruction."""


@dataclass(frozen=True, slots=True)
class WgmmaType:
    """The limits that a type of A sets: the types of B, the accumulators, the sizes along N and K."""

    name: str
    k: int
    b_types: tuple[str, ...]
    accumulators: tuple[str, ...]
    n_sizes: tuple[int, ...]
    transposable: bool = False


_EVERY_8 = tuple(range(8, 257, 8))
_INTEGER = (8, 16, 24, *range(32, 257, 16))

_TABLE = (
    WgmmaType("f16", 16, ("f16",), ("f32", "f16"), _EVERY_8, transposable=True),
    WgmmaType("bf16", 16, ("bf16",), ("f32",), _EVERY_8, transposable=True),
    WgmmaType("tf32", 8, ("tf32",), ("f32",), _EVERY_8),
    WgmmaType("e4m3", 32, ("e4m3", "e5m2"), ("f32", "f16"), _EVERY_8),
    WgmmaType("e5m2", 32, ("e4m3", "e5m2"), ("f32", "f16"), _EVERY_8),
    WgmmaType("s8", 32, ("s8", "u8"), ("s32",), _INTEGER),
    WgmmaType("u8", 32, ("s8", "u8"), ("s32",), _INTEGER),
    WgmmaType("b1", 256, ("b1",), ("s32",), _INTEGER),
)

WGMMA_TYPES: Mapping[str, WgmmaType] = MappingProxyType({t.name: t for t in _TABLE})
"""By the type of A, read only."""
