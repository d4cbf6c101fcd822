"""Random permute problems: shapes, permutations, element widths, strides, gaps, broadcasts, misalignment."""

from __future__ import annotations

import random
from math import prod
from typing import Any

from layoutalg.kernels.permute_modes import CARRIER, PermuteProblem, move_problem

WIDTHS = {"u8": 1, "f16": 2, "f32": 4, "f64": 8, "c128": 16}
SIZES = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    12,
    16,
    17,
    24,
    31,
    32,
    48,
    63,
    64,
    65,
    96,
    100,
    127,
    128,
    129,
    200,
    255,
    256,
    257,
)


def random_problem(rng: random.Random, most: int) -> PermuteProblem:
    """A problem of up to `most` elements: half of them dense, the others with gaps and offsets."""
    dtype = rng.choice(list(WIDTHS))
    rank = rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8))
    shape: list[int] = []
    for _ in range(rank):
        left = most // max(1, prod(shape))
        shape.append(rng.choice([n for n in SIZES if n <= left] or [1]))
    rng.shuffle(shape)
    wild = rng.random() < 0.5
    src, src_low = _strides(rng, shape, wild, reads=True)
    dst, dst_low = _strides(rng, shape, wild, reads=False)
    places = 16 // WIDTHS[dtype]
    offsets = [low + (rng.randrange(places) if wild else 0) for low in (src_low, dst_low)]
    return move_problem(tuple(shape), dtype, src, dst, offsets[0], offsets[1])


def _strides(rng: random.Random, shape: list[int], wild: bool, *, reads: bool) -> tuple[tuple[int, ...], int]:
    """Strides in a random order of modes, and how far below coordinate 0 they reach."""
    order = list(range(len(shape)))
    if rng.random() < 0.8:
        rng.shuffle(order)
    strides, step, low = [0] * len(shape), 1, 0
    if wild and rng.random() < 0.2:
        step = rng.choice((2, 3, 4))
    for k in order:
        strides[k] = step
        if wild and reads and rng.random() < 0.15:
            strides[k] = 0
            continue
        if wild and rng.random() < 0.08:
            strides[k] = -step
            low += (shape[k] - 1) * step
        step *= shape[k]
        if wild and rng.random() < 0.3:
            step += rng.choice((1, 2, 4, 8, 16))
    return tuple(strides), low


def random_buffers(p: PermuteProblem, seed: int) -> tuple[Any, Any]:
    """A random source and a random old destination, as flat arrays of the element's width."""
    import numpy

    rng = numpy.random.default_rng(seed)
    raw = [
        rng.integers(0, 256, n * p.element_bytes, dtype=numpy.uint8) for n in (p.source_elems, p.target_elems)
    ]
    return raw[0].view(CARRIER[p.element_bytes]), raw[1].view(CARRIER[p.element_bytes])
