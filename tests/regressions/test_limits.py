"""Questions that ran for days, crashed or were answered wrongly where numbers or work were large."""

from __future__ import annotations

import pytest

from layoutalg.budget import UNITS, metered
from layoutalg.errors import UndecidedError
from layoutalg.layout import Layout
from layoutalg.solving import find_coordinate


def test_an_offset_that_a_chain_of_strides_misses_is_decided() -> None:
    layout, offset = Layout((1 << 38, 748063000, 79), (3072, 655360, 3)), 608619029553582
    with metered() as meter:
        assert find_coordinate(layout, offset) is None
    assert meter.units < UNITS // 100
    there = layout((12345678901, 700000000, 7))
    found = find_coordinate(layout, there)
    assert found is not None and layout(found) == there


def test_numbers_past_floating_point_are_reduced_exactly() -> None:
    big = 1 << 1100
    layout = Layout((big, big + 1, 9), (big * 6 + 10, big * 10 + 6, big * 15 + 35))
    try:
        found = find_coordinate(layout, layout((big - 5, big // 3, 7)))
    except UndecidedError as error:
        pytest.fail(str(error))
    assert found is not None and layout(found) == layout((big - 5, big // 3, 7))
