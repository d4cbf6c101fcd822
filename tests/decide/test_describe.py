"""Footprint, gaps, aliases and cycles, against the sorted list of offsets."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg.decide import aliasing, cycles, extremes, footprint, gaps, is_bijective, is_contiguous, order
from layoutalg.errors import NotInjectiveError, UndecidedError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table

anything = st.one_of(layouts(negative=True), composed_layouts(), composed_layouts(power_of_two=True))
outside = composed_layouts().map(lambda inner: ComposedLayout(Layout((6, 4), (4, 1)), 0, inner))


@given(st.one_of(anything, outside))
def test_the_footprint_is_that_of_the_table(layout: AnyLayout) -> None:
    values = table(layout)
    try:
        assert extremes(layout) == (min(values), max(values))
    except UnsupportedError:
        return
    assert footprint(layout) == (min(values), max(values), len(set(values)), len(values))
    neighbours = sorted(values) == list(range(min(values), max(values) + 1))
    assert is_contiguous(layout) == neighbours


@given(st.one_of(anything, outside))
@example(Layout((4, 3, 2), (1, 2, 30)))
@example(Layout((2, 2, 2, 2), (1, 4, 5, 40)))
def test_the_gaps_are_those_of_the_table(layout: AnyLayout) -> None:
    values = sorted(set(table(layout)))
    between = Counter(b - a - 1 for a, b in pairwise(values) if b - a > 1)
    assert gaps(layout) == tuple(sorted(between.items()))


@given(st.one_of(anything, outside))
def test_aliases_are_those_of_the_table(layout: AnyLayout) -> None:
    values = table(layout)
    pair, repeats = aliasing(layout)
    assert repeats == len(values) - len(set(values))
    if pair is not None:
        assert pair[0] != pair[1] and values[pair[0]] == values[pair[1]]
    assert (pair is None) == (repeats == 0)


@given(st.one_of(layouts(compact=True, max_size=128), composed_layouts(power_of_two=True, max_size=128)))
@example(ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1))))
@example(ComposedLayout(Swizzle(3, 0, 1), 0, Layout((8, 8), (8, 1))))
def test_the_cycles_are_those_of_the_table(layout: AnyLayout) -> None:
    assume(is_bijective(layout))
    values = table(layout)
    seen: set[int] = set()
    lengths: Counter[int] = Counter()
    for start in range(len(values)):
        length, i = 0, start
        while i not in seen:
            seen.add(i)
            i, length = values[i], length + 1
        if length:
            lengths[length] += 1
    assert cycles(layout) == tuple(sorted(lengths.items()))
    assert order(layout) == math.lcm(*lengths)


def test_large_layouts_take_no_longer() -> None:
    big = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((1 << 20, 1 << 20), (1 << 20, 1)))
    assert footprint(big) == (0, (1 << 40) - 1, 1 << 40, 1 << 40) and is_contiguous(big) and gaps(big) == ()
    padded = Layout((1 << 20, 1 << 20), ((1 << 20) + 8, 1))
    assert gaps(padded) == ((8, (1 << 20) - 1),)
    assert cycles(Layout((1 << 20, 1 << 20), (1 << 20, 1))) == ((1, 1 << 20), (2, (1 << 39) - (1 << 19)))


def test_what_has_no_cycles_is_refused() -> None:
    with pytest.raises(NotInjectiveError, match="it is not a permutation"):
        cycles(Layout((4, 8), (9, 1)))
    with pytest.raises(UndecidedError, match="not linear over F2"):
        order(Layout((3 << 20, 5), (5, 1)))
    torn = ComposedLayout(Swizzle(3, 0, 24), 0, Layout((1 << 13, 3), (1 << 14, 5)))
    with pytest.raises(UndecidedError):
        gaps(torn)
