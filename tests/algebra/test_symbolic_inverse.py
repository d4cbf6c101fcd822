"""Inverses of layouts with symbols are those of the layouts that numbers make of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sympy

from layoutalg import Layout, errors, left_inverse, right_inverse, same_function
from layoutalg.layout import free_symbols, substituted

N, M = sympy.symbols("n m", integer=True, positive=True)


def drawn(rng: random.Random) -> Layout:
    """Modes that continue each other in an order drawn anew, here and there with a gap at the end."""
    extents = [rng.choice((1, 2, 4, 8, N, M, 2 * N)) for _ in range(rng.randint(1, 4))]
    strides: list[Any] = [0] * len(extents)
    current: Any = 1
    order = rng.sample(range(len(extents)), len(extents))
    for number, k in enumerate(order):
        gap = 16 if number == len(order) - 1 and rng.random() < 0.3 else 1
        strides[k] = sympy.expand(current * gap)
        current = current * extents[k]
    return Layout(tuple(extents), tuple(strides))


def at(layout: Layout, values: dict[Any, int]) -> Layout:
    """The layout for numbers."""
    return Layout(substituted(layout.shape, values), substituted(layout.stride, values))


@pytest.mark.parametrize(("seed", "count"), [(46401, 40), pytest.param(46402, 1000, marks=pytest.mark.deep)])
def test_an_inverse_holds_for_all_values(seed: int, count: int) -> None:
    rng, met = random.Random(seed), 0
    for _ in range(count):
        layout = drawn(rng)
        for inverse in (right_inverse, left_inverse):
            try:
                found = inverse(layout)
            except errors.UndecidedError:
                continue
            met += 1
            for _ in range(3):
                values = {s: rng.randint(1, 5) for s in (N, M)}
                numbers = {s: values[s] for s in free_symbols(layout.shape, layout.stride)}
                plain, own = (
                    at(layout, numbers),
                    at(found, {s: values[s] for s in free_symbols(found.shape, found.stride)}),
                )
                assert same_function(own, inverse(plain)), (str(layout), str(found), values)
    assert met > count


def test_what_some_values_decide_is_undecided() -> None:
    assert str(right_inverse(Layout((4, N), (1, 8)))) == "4:1"
    for inverse, layout in ((right_inverse, Layout((N, 8), (N, 1))), (left_inverse, Layout((4, N), (1, 8)))):
        with pytest.raises(errors.UndecidedError, match="for all values of the symbols"):
            inverse(layout)
