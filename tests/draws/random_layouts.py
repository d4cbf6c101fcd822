"""Operands of random calls as text: layouts of every kind, shapes, coordinates, tilers.

Plain, compact, padded, of size-1 modes, of zero, negative and huge strides, under swizzles and chains of
them, composed with outer layouts, with coordinates and symbols as strides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16)


class Text(str):
    """An operand that is written as it stands."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def nested(rng: random.Random, items: Sequence[Any]) -> Any:
    """Items as a tree, in order: bare, flat or nested."""
    tree: list[Any] = [*items]
    for _ in range(rng.choice((0, 0, 1, 2))):
        if tree:
            start = rng.randrange(len(tree))
            stop = rng.randint(start + 1, len(tree))
            tree[start:stop] = [tuple(tree[start:stop])]
    return tree[0] if len(tree) == 1 and rng.random() < 0.8 else tuple(tree)


def alike(tree: Any, values: list[Any]) -> Any:
    """A tree of the same form with the values as leaves, which are taken from the list."""
    return tuple(alike(part, values) for part in tree) if isinstance(tree, tuple) else values.pop(0)


def extents(rng: random.Random, most: int = 512) -> list[int]:
    """Extents of a layout of at most so many elements."""
    out: list[int] = []
    for _ in range(rng.choice((1, 1, 2, 2, 2, 3, 3, 4, 5))):
        n = rng.choice(EXTENTS)
        out.append(n if n * prod(out) <= most else 1)
    return out


def in_order(rng: random.Random, sizes: Sequence[int], padding: Sequence[int] = (0,)) -> list[int]:
    """Strides that grow in some order of the modes."""
    strides, step = [0] * len(sizes), 1
    for mode in rng.sample(range(len(sizes)), len(sizes)):
        strides[mode] = step
        step = step * sizes[mode] + rng.choice(padding)
    return strides


def layout(rng: random.Random, sizes: list[int] | None = None) -> Text:
    """A layout without swizzles."""
    kind = rng.choice(("any", "compact", "compact", "padded", "ones", "zeros", "signed", "binary", "huge"))
    drawn = extents(rng) if sizes is None else sizes
    if sizes is None and kind == "ones":
        drawn = [n if rng.random() < 0.4 else 1 for n in drawn]
    if sizes is None and kind == "binary":
        drawn = [1 << rng.randrange(5) for _ in drawn]
    if sizes is None and kind == "huge":
        drawn = [rng.choice((n, 1 << rng.randint(5, 20), rng.randint(17, 3000))) for n in drawn]
    strides = in_order(rng, drawn)
    if kind == "padded":
        strides = in_order(rng, drawn, (0, 1, 2, 4, 8))
    elif kind in {"any", "ones"}:
        strides = [rng.randint(0, 64) for _ in drawn]
    elif kind == "zeros":
        strides = [s * (rng.random() < 0.6) for s in strides]
    elif kind == "signed":
        strides = [s * rng.choice((1, -1)) for s in strides]
    elif kind == "binary":
        strides = rng.choice((strides, [rng.choice((0, 1, 2, 4, 8, 16, 32, 64)) for _ in drawn]))
    elif kind == "huge" and rng.random() < 0.4:
        strides = [rng.choice((s, rng.randint(1, 1 << 40), 1 << rng.randint(1, 40))) for s in strides]
    shape = nested(rng, drawn)
    return Text(f"Layout({shape!r}, {alike(shape, strides)!r})")


def swizzle(rng: random.Random) -> Text:
    bits = rng.randint(0, 3)
    return Text(f"Swizzle({bits}, {rng.randint(0, 5)}, {rng.choice((1, 1, 1, -1)) * rng.randint(1, 5)})")


def chain(rng: random.Random) -> Text:
    return Text(repr(tuple(swizzle(rng) for _ in range(rng.choice((1, 2, 2, 3))))))


def swizzled(rng: random.Random, sizes: list[int] | None = None) -> Text:
    outer, offset = rng.choice((swizzle, swizzle, chain))(rng), rng.choice((0, 0, 0, 1, 8, 64, 57))
    return Text(f"ComposedLayout({outer}, {offset}, {layout(rng, sizes)})")


def stacked(rng: random.Random, sizes: list[int] | None = None) -> Text:
    """A layout over a layout, or over a swizzled one, or under one."""
    outer = rng.choice((layout, layout, swizzle, chain))(rng)
    inner = rng.choice((layout, swizzled))(rng, sizes)
    return Text(f"ComposedLayout({outer}, {rng.choice((0, 0, 1, rng.randint(1, 40)))}, {inner})")


def coordinates(rng: random.Random) -> Text:
    """A layout whose strides are coordinates."""
    drawn = extents(rng, 256)
    if rng.random() < 0.4:
        return Text(f"make_identity_layout({nested(rng, drawn)!r})")
    strides = [
        Text(
            f"ScaledBasis({rng.choice((1, 1, 1, 2, 4, -1))}, {rng.randrange(3)}{rng.choice(('', '', ', 0'))})"
        )
        for _ in drawn
    ]
    shape = nested(rng, drawn)
    return Text(f"Layout({shape!r}, {alike(shape, strides)!r})")


def symbolic(rng: random.Random) -> Text:
    """A layout with symbols."""
    sizes: list[Any] = [
        rng.choice((*EXTENTS, Text("n"), Text("m"), Text("4*n"))) for _ in range(rng.randint(1, 3))
    ]
    strides = [
        rng.choice((1, 2, 8, Text("n"), Text("ld"), Text("2*n"), Text("n*m"), Text("ld + 1"))) for _ in sizes
    ]
    shape = nested(rng, sizes)
    return Text(f"Layout({shape!r}, {alike(shape, strides)!r})")


def small(rng: random.Random) -> Text:
    return layout(rng, [rng.choice((1, 2, 2, 3, 4, 4, 6, 8)) for _ in range(rng.randint(1, 2))])


def tiler(rng: random.Random, deep: int = 2) -> Any:
    kind = rng.choice(("extent", "layout", "layout", "none") + ("tuple",) * (deep > 0))
    if kind == "tuple":
        return tuple(tiler(rng, deep - 1) for _ in range(rng.randint(1, 3)))
    return None if kind == "none" else rng.randint(1, 16) if kind == "extent" else small(rng)


def shape(rng: random.Random) -> Any:
    return nested(rng, extents(rng, 256))


def coordinate(rng: random.Random) -> Any:
    return nested(rng, [rng.choice((0, 1, 2, 3, None, None, 5, 11)) for _ in range(rng.randint(1, 3))])


def anything(rng: random.Random, sizes: list[int] | None = None) -> Text:
    return rng.choice((layout, layout, layout, layout, swizzled, swizzled, stacked))(rng, sizes)
