"""Colours: 32 for the cells of a picture, one per bank, and 8 for the lines of a chart.

The idea.  A line of all banks is eight runs of 16 bytes, and each run has a colour; the four banks of a run
are shades of it.  The eight are told apart by readers who see no difference of red and green or of blue and
yellow: over all pairs, CIEDE2000 is at least 10 under normal sight and under protanopia, deuteranopia and
tritanopia as Machado, Oliveira and Fernandes model them at full severity (IEEE TVCG 15, 2009), and so it is
over all shades of two different runs.  They become lighter from run to run, so that a grey print keeps their
order, and black text is readable on each (WCAG contrast above 5).  The colours of lines hold the same
distance, and stand out from white with a contrast of 3 or more.

`python -m tests.draw.search_palette` found them; `tests/draw/test_palette.py` computes all that is said here.

>>> len(PALETTE), PALETTE[0] == CHUNK_COLORS[0], PALETTE[4] == CHUNK_COLORS[1], len(LINE_COLORS)
(32, True, True, 8)
"""

from __future__ import annotations

from typing import TypeAlias

Color: TypeAlias = tuple[int, int, int]
"""Red, green and blue of sRGB, 0 to 255 each."""

_WHITENED_PERCENT = (0, 4, 8, 12)


def _color(text: str) -> Color:
    red, green, blue = (int(text[i : i + 2], 16) for i in (0, 2, 4))
    return red, green, blue


def _mix(color: Color, percent: int) -> Color:
    """Move `color` towards white by `percent`."""
    red, green, blue = (part + (255 - part) * percent // 100 for part in color)
    return red, green, blue


CHUNK_COLORS: tuple[Color, ...] = tuple(
    map(_color, ("a28382", "8f9d41", "1ca9fd", "e599bf", "9fc99e", "d5d872", "dadcff", "b2ffe6"))
)
"""The eight colours of cells, one for each 16 bytes of a line of all banks, from dark to light."""

PALETTE: tuple[Color, ...] = tuple(
    _mix(color, percent) for color in CHUNK_COLORS for percent in _WHITENED_PERCENT
)
"""The colours of cells by hue, 0 to 31: four shades of each of the eight."""

LINE_COLORS: tuple[Color, ...] = tuple(
    map(_color, ("2912ff", "869c05", "48000e", "2396ff", "b98690", "506505", "2a0661", "6e5061"))
)
"""The colours of lines and points on white."""


def hex_color(color: Color) -> str:
    """A colour as CSS and SVG write it.

    >>> hex_color(CHUNK_COLORS[0])
    '#a28382'
    """
    return "#{:02x}{:02x}{:02x}".format(*color)
