"""Permutes that are timed: five that the literature quotes, and twenty drawn at random with a seed.

Dense tensors of 2 to 6 modes, with extents that are powers of two, multiples of eight, or neither.
"""

from __future__ import annotations

import random
from math import prod
from typing import TypeAlias

from layoutalg.kernels.move.problem import normalise, permute_problem

Case: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""(shape, axes)."""

CASES: tuple[Case, ...] = (
    ((64, 1024, 16, 128), (0, 2, 1, 3)),
    ((256, 1024, 1024), (2, 0, 1)),
    ((128, 224, 224, 3), (0, 3, 1, 2)),
    ((96, 96, 96, 96), (3, 2, 1, 0)),
    ((31, 63, 127, 255), (3, 1, 0, 2)),
)
"""Heads before tokens, a batched transpose, NHWC to NCHW, all modes reversed, nothing a power of two."""

DTYPES = ("f32", "f16", "u8")
SEED, DRAWN = 2026, 20
ELEMS = 1 << 26
"""The approximate number of elements of a drawn problem."""


def random_cases(seed: int = SEED, count: int = DRAWN) -> tuple[Case, ...]:
    """Dense problems that are no plain copies, the same for the same seed.

    >>> random_cases() == random_cases(), len(random_cases(seed=1, count=3))
    (True, 3)
    """
    rng = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        rank = rng.randint(2, 6)
        cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
        shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
        kind = rng.choice(("power", "eight", "any", "mixed"))
        shape = tuple(_extent(rng, ELEMS**share, kind) for share in shares)
        axes = tuple(rng.sample(range(rank), rank))
        case = (shape, axes)
        if normalise(permute_problem(*case, "f32")).rank > 1 and ELEMS // 2 < prod(shape) < 2 * ELEMS:
            found.append(case)
    return tuple(found)


def _extent(rng: random.Random, about: float, kind: str) -> int:
    kind = rng.choice(("power", "eight", "any")) if kind == "mixed" else kind
    if kind == "power":
        return 1 << max(0, round(about).bit_length() - 1)
    if kind == "eight":
        return max(1, round(about / 8) * 8)
    return max(1, round(about))
