"""Matrix fragments as the PTX manual states them: row and column of value i of a lane, shape by shape.

Written out formula by formula (PTX ISA 9.0, 9.7.14.5.1 to 9.7.14.5.13 and 9.7.15.5.1), in the manual's terms:
g is the lane's group, lane // 4, and t its number there, lane % 4.  B is stated as row k and column n.
"""

from __future__ import annotations

from collections.abc import Callable

Formula = Callable[[int, int, int], tuple[int, int]]
"""(g, t, i) -> (row, column)."""


def c8(g: int, t: int, i: int) -> tuple[int, int]:
    """Accumulators of the m8n8 shapes."""
    return g, 2 * t + (i & 1)


def c16(g: int, t: int, i: int) -> tuple[int, int]:
    """Accumulators of the m16n8 shapes."""
    return (g if i < 2 else g + 8), 2 * t + (i & 1)


FRAGMENTS: dict[tuple[str, int], tuple[Formula, Formula, Formula]] = {
    ("m8n8k4", 64): (lambda g, t, i: (g, t), lambda g, t, i: (t, g), c8),
    ("m8n8k16", 8): (lambda g, t, i: (g, 4 * t + i), lambda g, t, i: (4 * t + i, g), c8),
    ("m8n8k32", 4): (lambda g, t, i: (g, 8 * t + i), lambda g, t, i: (8 * t + i, g), c8),
    ("m8n8k128", 1): (lambda g, t, i: (g, 32 * t + i), lambda g, t, i: (32 * t + i, g), c8),
    ("m16n8k4", 32): (lambda g, t, i: (g + 8 * i, t), lambda g, t, i: (t, g), c16),
    ("m16n8k4", 64): (lambda g, t, i: (g + 8 * i, t), lambda g, t, i: (t, g), c16),
    ("m16n8k8", 16): (
        lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)), lambda g, t, i: (2 * t + i, g), c16,
    ),
    ("m16n8k8", 32): (
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
        lambda g, t, i: (t if i == 0 else t + 4, g), c16,
    ),
    ("m16n8k8", 64): (
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
        lambda g, t, i: (t if i == 0 else t + 4, g), c16,
    ),
    ("m16n8k16", 16): (
        lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, 2 * t + (i & 1) + (0 if i < 4 else 8)),
        lambda g, t, i: (2 * t + (i & 1) + (0 if i < 2 else 8), g), c16,
    ),
    ("m16n8k16", 64): (
        lambda g, t, i: (g if i % 2 == 0 else g + 8, 2 * i + t if i % 2 == 0 else 2 * i - 2 + t),
        lambda g, t, i: (t + 4 * i, g), c16,
    ),
    ("m16n8k16", 8): (
        lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3)), lambda g, t, i: (4 * t + i, g), c16,
    ),
    ("m16n8k32", 8): (
        lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, 4 * t + (i & 3) + (0 if i < 8 else 16)),
        lambda g, t, i: (4 * t + (i & 3) + (0 if i < 4 else 16), g), c16,
    ),
    ("m16n8k32", 4): (
        lambda g, t, i: (g if i < 8 else g + 8, 8 * t + (i & 7)), lambda g, t, i: (8 * t + (i & 7), g), c16,
    ),
    ("m16n8k64", 4): (
        lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8, 8 * t + (i & 7) + (0 if i < 16 else 32)),
        lambda g, t, i: (8 * t + (i & 7) + (0 if i < 8 else 32), g), c16,
    ),
    ("m16n8k128", 1): (
        lambda g, t, i: (g if i < 32 else g + 8, 32 * t + (i & 31)), lambda g, t, i: (32 * t + i, g), c16,
    ),
    ("m16n8k256", 1): (
        lambda g, t, i: (g if i < 32 or 64 <= i < 96 else g + 8, 32 * t + (i & 31) + (0 if i < 64 else 128)),
        lambda g, t, i: (32 * t + (i & 31) + (0 if i < 32 else 128), g),
        c16,
    ),
}  # fmt: skip
"""A, B and C by shape and bits of an element of A; complex elements are pairs of 64 bits, each its own."""


def quad_pair(order: str, sums: str) -> tuple[Formula, Formula, Formula]:
    """m8n8k4 of sm_70: g is 0 for lanes below 16 and 1 above, t is lane % 4; order as in TN, NT, NN, TT."""

    def c(g: int, t: int, i: int) -> tuple[int, int]:
        if sums == "f16":
            return t + 4 * g, i
        return (t & 1) + (i & 2) + 4 * g, (i & 4) + (t & 2) + (i & 1)

    return (
        (lambda g, t, i: (t + 4 * g, i)) if order[0] == "T" else (lambda g, t, i: (i % 4 + 4 * g, t)),
        (lambda g, t, i: (i, t + 4 * g)) if order[1] == "N" else (lambda g, t, i: (t, i % 4 + 4 * g)),
        c,
    )


def wgmma_row(warp: int, g: int, half: int) -> int:
    """Row of a warpgroup's fragment: 16 rows a warp, in two halves."""
    return 16 * warp + g + 8 * half


def wgmma_sums(warp: int, g: int, t: int, i: int) -> tuple[int, int]:
    """D of wgmma m64nN: eight columns at a time."""
    return wgmma_row(warp, g, i >> 1 & 1), 8 * (i >> 2) + 2 * t + (i & 1)


def wgmma_a(bits: int) -> Callable[[int, int, int, int], tuple[int, int]]:
    """A of wgmma from registers: 32 bytes of K, elements of `bits` bits."""
    e = 32 // bits

    def element(warp: int, g: int, t: int, i: int) -> tuple[int, int]:
        register, inside = divmod(i, e)
        return wgmma_row(warp, g, register & 1), e * t + inside + 4 * e * (register >> 1)

    return element
