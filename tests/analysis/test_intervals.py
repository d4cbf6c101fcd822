"""between: every choice of digits in the interval, each in one family, however large the digits."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis.classes.intervals import between
from layoutalg.analysis.classes.residues import ResidueDigit
from layoutalg.errors import UndecidedError

NOWHERE = (0, 0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(0, 12)), max_size=4),
    st.integers(-5, 60),
    st.integers(0, 40),
)
def test_every_choice_is_in_one_family(parts: list[tuple[int, int, int]], low: int, length: int) -> None:
    digits = tuple(ResidueDigit(first, extent, 1, NOWHERE) for first, extent, _ in parts)
    weights = [weight for _, _, weight in parts]
    seen: Counter[tuple[int, ...]] = Counter()
    for family in between(digits, weights, low, low + length):
        seen.update(itertools.product(*(range(d.first, d.first + d.extent) for d in family)))
    everything = itertools.product(*(range(first, first + extent) for first, extent, _ in parts))
    inside = {
        c for c in everything if low <= sum(v * w for v, w in zip(c, weights, strict=True)) < low + length
    }
    assert set(seen) == inside and set(seen.values()) <= {1}


def test_large_digits_are_not_walked() -> None:
    digits = (ResidueDigit(0, 1 << 30, 1, NOWHERE), ResidueDigit(0, 1 << 30, 1, NOWHERE))
    found = list(between(digits, (1, 1 << 30), 12345, (1 << 59) + 7))
    counts = [a.extent * b.extent for a, b in found]
    assert sum(counts) == (1 << 59) + 7 - 12345 and len(found) <= 3
    (one,) = between((ResidueDigit(0, 1 << 80, 1, NOWHERE),), (1,), 5, 1 << 70)
    assert one[0].extent == (1 << 70) - 5


def test_digits_that_overlap_too_much_are_refused() -> None:
    digits = (ResidueDigit(0, 1000, 1, NOWHERE), ResidueDigit(0, 1000, 1, NOWHERE))
    with pytest.raises(UndecidedError, match="more than 64 values"):
        list(between(digits, (1, 1), 500, 900))
