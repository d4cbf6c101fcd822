"""Layouts with up to three symbols in extents, strides and offset, and the values that these may have."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import sympy

from layoutalg import Layout, Swizzle
from layoutalg.symbolic import SymbolicLayout, Values

NAMES = ("ld", "m", "n")
SYMBOLS = {name: sympy.Symbol(name, integer=True, positive=True) for name in NAMES}


class Open(NamedTuple):
    """A layout with symbols, and their values by name."""

    layout: Layout | SymbolicLayout
    values: dict[str, Values]

    def point(self, rng: random.Random) -> dict[str, int]:
        """Values of the symbols: an end of each range as often as one inside."""
        return {name: rng.choice((v.least, v.most, rng.choice(v.range()))) for name, v in self.values.items()}


def drawn(rng: random.Random, *, known_extents: bool = False, swizzles: bool = True) -> Open:
    """A layout whose modes have one leaf or two, under swizzles in a quarter of the draws where they may be.

    >>> print(drawn(random.Random(3)).layout)
    Sw<2,4,4> o Sw<1,2,3> o 8*n+8 o ((8,1)):((1,8*ld))
    """
    swizzled = swizzles and rng.random() < 0.25
    names = rng.sample(NAMES, rng.randint(1, 3))
    values = {name: _values(rng, name) for name in names}

    def leaf(symbolic: float, constants: tuple[int, ...]) -> Any:
        if rng.random() > symbolic:
            return rng.choice(constants)
        term = rng.choice((1, 1, 2, 4, 8, 3)) * SYMBOLS[rng.choice(names)]
        if rng.random() < 0.2:
            term *= SYMBOLS[rng.choice(names)]
        return sympy.expand(term + rng.choice((0, 0, 1, 8)))

    def mode(of: Any) -> Any:
        return of() if rng.random() < 0.6 else (of(), of())

    rank = rng.randint(1, 3)
    shape = tuple(
        mode(lambda: leaf(0.0 if swizzled or known_extents else 0.3, (1, 2, 3, 4, 8, 16)))
        for _ in range(rank)
    )
    stride = _like(shape, lambda: leaf(0.6, (0, 1, 2, 5, 8, 64, -1, -4)))
    offset = leaf(0.3, (0, 0, 8)) if rng.random() < 0.4 or swizzled else 0
    if swizzled:
        stride = _like(stride, None, abs)
        outer = tuple(
            Swizzle(rng.randint(1, 3), rng.randint(0, 4), rng.randint(3, 4)) for _ in range(rng.randint(1, 2))
        )
        return Open(SymbolicLayout(shape, stride, outer, offset), values)
    return Open(
        SymbolicLayout(shape, stride, (), offset) if _integers(shape) else Layout(shape, stride), values
    )


def _integers(tree: Any) -> bool:
    return all(map(_integers, tree)) if isinstance(tree, tuple) else isinstance(tree, int)


def _like(tree: Any, of: Any, also: Any = None) -> Any:
    if isinstance(tree, tuple):
        return tuple(_like(part, of, also) for part in tree)
    return of() if also is None else also(tree) if isinstance(tree, int) else tree


def _values(rng: random.Random, name: str) -> Values:
    first = rng.choice((1, 1, 2, 32))
    modulus = rng.choice((1, 1, 8, 3))
    last = first + rng.choice((7, 40, 300))
    return Values(name, first, last, modulus, rng.randrange(modulus))
