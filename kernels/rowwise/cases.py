"""Reductions, softmax and layer norms that are timed: `CASES` of the literature, odd ones and small ones, and
`random_cases`, the same for the same seed."""

from __future__ import annotations

import random
from math import prod
from typing import NamedTuple

from layoutalg.kernels.rowwise.problems import FOLD

Shape = tuple[int, ...]


class Case(NamedTuple):
    """`op` over `axes` of a dense tensor of `shape` and `dtype`."""

    op: str
    shape: Shape
    axes: Shape
    dtype: str

    def __str__(self) -> str:
        shape, axes = ("x".join(map(str, self.shape)), ",".join(map(str, self.axes)))
        return f"{self.op} {shape} over {axes} {self.dtype}"


DTYPES = ("f32", "f16", "bf16")

REDUCED: tuple[tuple[Shape, Shape], ...] = (
    ((8192, 8192), (1,)), ((8192, 8192), (0,)), ((65536, 1024), (1,)), ((65536, 1024), (0,)),
    ((1024, 65536), (1,)), ((1024, 65536), (0,)), ((64, 256, 56, 56), (0, 2, 3)), ((32, 1024, 1024), (1,)),
    ((1 << 26,), (0,)), ((8191, 8193), (1,)), ((8191, 8193), (0,)), ((256, 256), (1,)), ((256, 256), (0,)),
)  # fmt: skip
"""(shape, axes) that are summed, of every type."""

NORMED: tuple[tuple[Shape, Shape, tuple[str, ...]], ...] = (
    ((8192, 8192), (1,), ("f32", "bf16")), ((8192, 8192), (0,), ("f32", "bf16")),
    ((65536, 1024), (1,), ("f32", "bf16")), ((65536, 1024), (0,), ("f32", "bf16")),
    ((32, 1024, 1024), (1,), ("f32", "bf16")), ((64, 1000), (1,), ("f32",)), ((4096, 50257), (1,), ("f16",)),
    ((1, 1 << 24), (1,), ("f32",)), ((8191, 8193), (1,), ("f32", "bf16")),
    ((8191, 8193), (0,), ("f32", "bf16")),
)  # fmt: skip
"""(shape, axes, types) of which softmax and layer norm are made."""

DRAWN_NORMS = ("softmax", "layer_norm")
"""The norms that random cases are drawn from: another one would change what a seed draws."""

RMS_NORMED: tuple[tuple[Shape, Shape], ...] = (((8192, 8192), (1,)), ((65536, 1024), (1,)))
"""(shape, axes) of which rms norms of f32 and bf16 are made."""

CASES = tuple(
    [Case("sum", shape, axes, dtype) for shape, axes in REDUCED for dtype in DTYPES]
    + [
        Case(op, shape, axes, dtype)
        for op in DRAWN_NORMS
        for shape, axes, dtypes in NORMED
        for dtype in dtypes
    ]
    + [Case("rms_norm", shape, axes, dtype) for shape, axes in RMS_NORMED for dtype in ("f32", "bf16")]
)

SEED, DRAWN_REDUCED, DRAWN_NORMED = 2027, 12, 8
ELEMS = 1 << 25
"""Elements of a drawn tensor, about."""


def random_cases(
    seed: int = SEED, reduced: int = DRAWN_REDUCED, normed: int = DRAWN_NORMED
) -> tuple[Case, ...]:  # fmt: skip
    """Dense tensors of 2 to 5 modes with some of them reduced, the same for the same seed.

    >>> random_cases() == random_cases(), len(random_cases(1, 3, 2))
    (True, 5)
    """
    rng = random.Random(seed)
    found: list[Case] = []
    for ops, count in ((tuple(FOLD), reduced), (DRAWN_NORMS, reduced + normed)):
        while len(found) < count:
            rank = rng.randint(2, 5)
            cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
            shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
            grain = rng.choice((1, 1, 8, 32))
            shape = tuple(max(1, round(ELEMS**share / grain)) * grain for share in shares)
            axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank - 1))))
            case = Case(rng.choice(ops), shape, axes, rng.choice(DTYPES))
            if ELEMS // 2 < prod(shape) < 2 * ELEMS:
                found.append(case)
    return tuple(found)
