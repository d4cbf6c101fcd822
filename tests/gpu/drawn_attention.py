"""Attention of drawn shapes on a GPU, beside PyTorch's back ends.

python -m tests.gpu.drawn_attention SEED out.json [COUNT]

Lengths are log-uniform from 1024 to 32768, a multiple of 1, 8, 64 or 128; heads have 64, 128 or 256 elements
of bf16; half of the problems are causal.  Ours, cuDNN's and FlashAttention's kernels are launched in turn, in
an order drawn for each round, on a cold L2 with the host ahead.  A ratio is the time of the fastest other
over ours: above 1 ours is faster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from math import exp, log
from random import Random
from statistics import geometric_mean
from typing import Any, NamedTuple

import layoutalg as la
from tests.gpu.timing import Run, Turns, one_stream, write

COUNT, ROUNDS = 30, 7
LENGTHS = (1024, 32768)
ELEMENTS = 1 << 25
"""Elements of q, about: batches are drawn so that a problem has 0.3 to 2 times as many, and are 1 to 16."""


class Shape(NamedTuple):
    """Elements of a head, its mask, the length of queries and keys, batches and heads."""

    d: int
    causal: bool
    length: int
    batch: int
    heads: int


def drawn(seed: int, count: int = COUNT) -> Iterator[Shape]:
    """The shapes of a seed.

    >>> next(drawn(11, 1))
    Shape(d=128, causal=False, length=20480, batch=1, heads=16)
    """
    rng = Random(seed)
    for _ in range(count):
        d, length = rng.choice((64, 128, 256)), round(exp(rng.uniform(*map(log, LENGTHS))))
        multiple = rng.choice((1, 8, 64, 128))
        length -= length % multiple
        heads = rng.choice((4, 8, 12, 16, 24, 32))
        batch = max(1, min(16, round(ELEMENTS / (length * heads * d) * rng.uniform(0.3, 2))))
        yield Shape(d, rng.random() < 0.5, length, batch, heads)


def measured(shape: Shape, turns: Turns) -> dict[str, Any]:
    """The microseconds of each contender, and the ratio."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    b, h, s, d = shape.batch, shape.heads, shape.length, shape.d
    q, k, v = (torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16) for _ in "qkv")

    def other(backend: Any) -> object:
        with sdpa_kernel([backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=shape.causal)

    runs: dict[str, Run] = {
        "ours": la.ops.prepare("attention", q, k=k, v=v, causal=shape.causal),
        "cudnn": partial(other, SDPBackend.CUDNN_ATTENTION),
        "flash": partial(other, SDPBackend.FLASH_ATTENTION),
    }
    us = turns.medians(runs)
    return {
        **shape._asdict(),
        "us": us,
        "ratio": min(t for name, t in us.items() if name != "ours") / us["ours"],
    }


def main(words: Sequence[str]) -> int:
    """See the module's text."""
    seed, path, count = int(words[0]), words[1], int(words[2]) if words[2:] else COUNT
    rows = list[dict[str, Any]]()
    with one_stream():
        turns = Turns(ROUNDS)
        for shape in drawn(seed, count):
            rows.append(measured(shape, turns))
            print(rows[-1], flush=True)
            write(path, rows, seed=seed)
    ratios = [row["ratio"] for row in rows]
    print(f"{len(rows)} problems: mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
