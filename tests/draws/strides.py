"""Random tensors: shapes, and strides with gaps, broadcast and turned round modes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

SIZES = (
    1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 48, 63, 64, 65, 96, 100, 127, 128, 129, 200, 255, 256, 257,
    1000,
)  # fmt: skip


def drawn_shape(rng: random.Random, most: int, ranks: Sequence[int]) -> list[int]:
    """Extents of at most `most` elements, of one of some ranks."""
    shape: list[int] = []
    for _ in range(rng.choice(ranks)):
        left = most // prod(shape)
        shape.append(rng.choice([n for n in SIZES if n <= left] or [1]))
    rng.shuffle(shape)
    return shape


def drawn_order(rng: random.Random, modes: Sequence[int], shuffled: float) -> list[int]:
    """Modes by stride: the last one fastest, or a share of them in a random order."""
    order = list(reversed(modes))
    if rng.random() < shuffled:
        rng.shuffle(order)
    return order


def drawn_strides(
    rng: random.Random, shape: Sequence[int], order: Sequence[int], *, wild: bool, broadcast: float = 0.0
) -> tuple[tuple[int, ...], int]:
    """Strides of the modes in `order`, fastest first, and how far below coordinate 0 they reach; 0 of others.

    Dense ones, unless `wild`; `broadcast` is then the share of modes that have stride 0.
    """
    strides, step, low = [0] * len(shape), 1, 0
    if wild and rng.random() < 0.2:
        step = rng.choice((2, 3, 4))
    for k in order:
        strides[k] = step
        if wild and broadcast and rng.random() < broadcast:
            strides[k] = 0
            continue
        extent = max(1, shape[k])
        if wild and rng.random() < 0.08:
            strides[k] = -step
            low += (extent - 1) * step
        step *= extent
        if wild and rng.random() < 0.3:
            step += rng.choice((1, 2, 4, 8, 16))
    return tuple(strides), low
