"""Random tensors with some modes reduced: shapes, axes, strides, gaps, broadcasts, misalignment."""

from __future__ import annotations

import random
from math import prod

from layoutalg.kernels.reduce_modes import AxesProblem, axes_problem

DTYPES = {"f32": 4, "f16": 2, "bf16": 2}
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 48, 63, 64, 65, 96, 100, 127, 128, 129, 200, 255, 257)


def random_axes(rng: random.Random, most: int, *, keeps: bool = False) -> AxesProblem:
    """A problem of up to `most` elements: half of them dense, the others with gaps and offsets."""
    dtype = rng.choice(list(DTYPES))
    rank = rng.choice((1, 2, 2, 2, 3, 3, 4, 5, 6, 8))
    shape: list[int] = []
    for _ in range(rank):
        left = most // max(1, prod(shape))
        shape.append(rng.choice([n for n in SIZES if n <= left] or [1]))
    rng.shuffle(shape)
    axes = tuple(k for k in range(rank) if rng.random() < 0.5)
    wild = rng.random() < 0.5
    src, src_low = _strides(rng, shape, wild=wild, reads=True)
    dst, dst_low = _strides(rng, shape, wild=wild, reads=False, skip=() if keeps else axes)
    places = 16 // DTYPES[dtype]
    offsets = [low + (rng.randrange(places) if wild else 0) for low in (src_low, dst_low)]
    return axes_problem(tuple(shape), axes, dtype, src, dst, *offsets, keeps=keeps)


def _strides(
    rng: random.Random, shape: list[int], *, wild: bool, reads: bool, skip: tuple[int, ...] = ()
) -> tuple[tuple[int, ...], int]:
    """Strides in an order of modes that may be random, and how far below coordinate 0 they reach."""
    order = [k for k in reversed(range(len(shape))) if k not in skip]
    if wild and rng.random() < 0.6:
        rng.shuffle(order)
    strides, step, low = [0] * len(shape), 1, 0
    if wild and rng.random() < 0.2:
        step = rng.choice((2, 3, 4))
    for k in order:
        strides[k] = step
        if wild and reads and rng.random() < 0.1:
            strides[k] = 0
            continue
        if wild and rng.random() < 0.08:
            strides[k] = -step
            low += (shape[k] - 1) * step
        step *= shape[k]
        if wild and rng.random() < 0.3:
            step += rng.choice((1, 2, 4, 8, 16))
    return tuple(strides), low
