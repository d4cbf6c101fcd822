"""Random permute problems: shapes, permutations, element widths, strides, gaps, broadcasts, misalignment."""

from __future__ import annotations

import random
from math import prod
from typing import Any

from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.problem import PermuteProblem, move_problem
from tests.strides import drawn_strides

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
    src, src_low = drawn_strides(rng, shape, _order(rng, rank), wild=wild, broadcast=0.15)
    dst, dst_low = drawn_strides(rng, shape, _order(rng, rank), wild=wild)
    places = 16 // WIDTHS[dtype]
    offsets = [low + (rng.randrange(places) if wild else 0) for low in (src_low, dst_low)]
    return move_problem(tuple(shape), dtype, src, dst, offsets[0], offsets[1])


def _order(rng: random.Random, rank: int) -> list[int]:
    """The modes by stride: most often in a random order."""
    order = list(range(rank))
    if rng.random() < 0.8:
        rng.shuffle(order)
    return order


def random_buffers(p: PermuteProblem, seed: int) -> tuple[Any, Any]:
    """A random source and a random old destination, as flat arrays of the element's width."""
    import numpy

    rng = numpy.random.default_rng(seed)
    raw = [
        rng.integers(0, 256, n * p.element_bytes, dtype=numpy.uint8) for n in (p.source_elems, p.target_elems)
    ]
    return raw[0].view(CARRIER[p.element_bytes]), raw[1].view(CARRIER[p.element_bytes])
