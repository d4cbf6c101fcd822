"""The palette: what its text says of it, computed."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.draw import PALETTE
from layoutalg.draw.picture import HUES
from layoutalg.draw.scene import CHUNK_COLORS, LINE_COLORS
from tests.judges.color_vision import DEFICIENCIES, ciede2000, contrast, lab, linear, seen

WAYS = [(name, stored) for name in DEFICIENCIES for stored in (False, True)]

SHARMA = [
    ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
    ((50.0, -1.3802, -84.2814), (50.0, 0.0, -82.7485), 1.0000),
    ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
    ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0011), 7.2195),
    ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
    ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ((22.7233, 20.0904, -46.694), (23.0331, 14.973, -42.5619), 2.0373),
    ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
]
"""Pairs with their differences from the table of the paper."""


@pytest.mark.parametrize(("one", "other", "difference"), SHARMA)
def test_the_formula_is_the_published_one(one: object, other: object, difference: float) -> None:
    assert ciede2000(np.array(one), np.array(other)) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize(("name", "stored"), WAYS)
def test_readers_who_see_colours_differently_tell_them_apart(name: str, stored: bool) -> None:
    one, other = np.triu_indices(8, 1)
    for colors in (CHUNK_COLORS, LINE_COLORS):
        drawn = seen(np.array(colors), name, stored=stored)
        assert len(colors) == 8 and ciede2000(drawn[one], drawn[other]).min() >= 10
    shades = seen(np.array(PALETTE), name, stored=stored)
    one, other = np.triu_indices(32, 1)
    apart = one // 4 != other // 4
    assert ciede2000(shades[one[apart]], shades[other[apart]]).min() >= 10


def test_a_deficiency_leaves_grey_and_changes_red() -> None:
    """A check of the matrices: their rows add to one, and red darkens for a protanope."""
    for name, matrix in DEFICIENCIES.items():
        assert matrix.sum(axis=1) == pytest.approx(1, abs=1e-5), name
    red = np.array([255, 0, 0])
    assert seen(red, "protan")[0] < seen(red, "normal")[0] - 10


def test_grey_keeps_the_order_of_the_runs() -> None:
    light = lab(linear(np.array(CHUNK_COLORS)))[:, 0]
    assert np.diff(light).min() >= 4


def test_text_is_readable_on_cells_and_lines_on_white() -> None:
    assert len(set(PALETTE)) == len(PALETTE) == HUES
    assert contrast(np.array(PALETTE), np.full(3, 0x11)).min() > 5
    assert contrast(np.array(LINE_COLORS), np.full(3, 255)).min() >= 3
