"""Footprint, gaps and cycles of layouts that no list holds, and what has none."""

from __future__ import annotations

import pytest

from layoutalg.decide import cycles, footprint, gaps, is_contiguous, order
from layoutalg.errors import NotInjectiveError, UndecidedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle


def test_large_layouts_take_no_longer() -> None:
    big = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((1 << 20, 1 << 20), (1 << 20, 1)))
    assert footprint(big) == (0, (1 << 40) - 1, 1 << 40, 1 << 40) and is_contiguous(big) and gaps(big) == ()
    padded = Layout((1 << 20, 1 << 20), ((1 << 20) + 8, 1))
    assert gaps(padded) == ((8, (1 << 20) - 1),)
    assert cycles(Layout((1 << 20, 1 << 20), (1 << 20, 1))) == ((1, 1 << 20), (2, (1 << 39) - (1 << 19)))


def test_what_has_no_cycles_is_refused() -> None:
    with pytest.raises(NotInjectiveError, match="it is not a permutation"):
        cycles(Layout((4, 8), (9, 1)))
    with pytest.raises(UndecidedError, match="no closed form"):
        order(Layout((3 << 20, 5), (5, 1)))
    torn = ComposedLayout(Swizzle(3, 0, 24), 0, Layout((1 << 13, 3), (1 << 14, 5)))
    with pytest.raises(UndecidedError):
        gaps(torn)
