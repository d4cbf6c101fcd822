"""Random layouts for index functions."""

from __future__ import annotations

import random

from layoutalg import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles, parse, size
from tests.draws import random_layouts

LIMIT = 1 << 14
"""Most coordinates of a layout that is drawn."""


def read(text: str) -> AnyLayout:
    """The layout of a text."""
    found = parse(text)
    assert isinstance(found, (Layout, ComposedLayout))
    return found


def tile(rng: random.Random) -> AnyLayout:
    """A layout as kernels have them: plain, nested, padded, broadcast, reversed, or under swizzles."""
    binary = rng.random() < 0.5
    sizes = (
        [1 << rng.randint(0, 5) for _ in range(rng.randint(1, 4))] if binary else random_layouts.extents(rng)
    )
    strides = random_layouts.in_order(rng, sizes, rng.choice(((0,), (0,), (0, 1, 4, 8))))
    kind = rng.random()
    if kind < 0.1:
        strides = [d * (rng.random() < 0.6) for d in strides]
    elif kind < 0.2:
        strides = [d * rng.choice((1, -1)) for d in strides]
    shape = random_layouts.nested(rng, sizes)
    plain = Layout(shape, random_layouts.alike(shape, [*strides]))
    if rng.random() < 0.5 or any(d < 0 for d in strides):
        return plain
    first = _swizzle(rng)
    if binary and rng.random() < 0.4:
        return ComposedLayout(Swizzles(first, _swizzle(rng)), 0, plain)
    return ComposedLayout(first, rng.choice((0, 0, 0, 8, 64)), plain)


def _swizzle(rng: random.Random) -> Swizzle:
    """A swizzle as CuTe has them: its fields do not overlap."""
    bits = rng.randint(1, 3)
    return Swizzle(bits, rng.randint(0, 5), rng.choice((1, 1, 1, -1)) * rng.randint(bits, 5))


def tiles(seed: int, count: int) -> list[AnyLayout]:
    """So many layouts of at most LIMIT coordinates."""
    rng = random.Random(seed)
    out: list[AnyLayout] = []
    while len(out) < count:
        drawn = tile(rng)
        if size(drawn) <= LIMIT:
            out.append(drawn)
    return out
