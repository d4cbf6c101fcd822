"""Guards on accesses of up to 2^66 threads, whose active lanes anyone can count: a law past 64-bit words."""

from __future__ import annotations

import random
from math import prod

from layoutalg.analysis import Access, GlobalReport, Guard, analyze
from layoutalg.dtype import dtype
from layoutalg.errors import UndecidedError
from layoutalg.layout import Layout

EXTENTS = (32, 64, 100, 1003, 1 << 20, 1 << 31, (1 << 32) + 32)
SIZES = tuple(1 << bits for bits in (20, 40, 56, 61, 62, 63, 64, 65, 66))
BOUNDS = tuple((1 << bits) + d for bits in (31, 32, 62, 63, 64) for d in (-33, -32, -1, 0, 1, 5, 31, 32))


def draw_case(rng: random.Random) -> tuple[Layout, Guard, int]:
    """A layout that many threads go through again and again, a guard, and how many lanes it leaves active.

    The last mode has stride 0, for no GPU has so many addresses; a warp's lanes are at different ones.
    """
    first = [rng.choice(EXTENTS) for _ in range(rng.choice((1, 2)))]
    shape = (*first, max(1, rng.choice(SIZES) // prod(first) + rng.choice((0, 1, -1, 3))))
    layout, total = Layout(shape, (*(prod(first[:k]) for k in range(len(first))), 0)), prod(shape)
    bound = rng.choice((*BOUNDS, rng.randrange(total), total, total + 7))
    if rng.random() < 0.5:
        return layout, Guard(threads=bound), min(bound, total)
    where = rng.randrange(len(shape))
    below = tuple(bound % (shape[where] + 2) if k == where else None for k in range(len(shape)))
    return layout, Guard(below), total // shape[where] * min(bound % (shape[where] + 2), shape[where])


def active_lanes(layout: Layout, guard: Guard) -> int | None:
    """The same, as `analyze` counts it for a 4-byte load a thread; None where it is undecided."""
    threads = Layout((layout.shape, 1), (Layout(layout.shape).stride, 0))
    access = Access("ld.global.b32", threads, dtype("f32"), active=guard)
    try:
        report = analyze(layout, access)
    except UndecidedError:
        return None
    assert isinstance(report, GlobalReport)
    return report.useful_bytes // 4
