"""Random strides of random tensors: with gaps, broadcast and turned round modes."""

from __future__ import annotations

import random
from collections.abc import Sequence


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
        if wild and rng.random() < 0.08:
            strides[k] = -step
            low += (shape[k] - 1) * step
        step *= shape[k]
        if wild and rng.random() < 0.3:
            step += rng.choice((1, 2, 4, 8, 16))
    return tuple(strides), low
