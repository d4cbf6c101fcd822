"""The 32 background colours of a picture, one per bank: four shades of eight colours, black text on each.

The eight colours are ColorBrewer's qualitative scheme Set2 (Cynthia Brewer, colorbrewer2.org), chosen
because neighbours stay apart in print and for most readers who see colours differently.

>>> len(PALETTE), PALETTE[0]
(32, (102, 194, 165))
"""

from __future__ import annotations

_SET2 = ("66c2a5", "fc8d62", "8da0cb", "e78ac3", "a6d854", "ffd92f", "e5c494", "b3b3b3")
_WHITENED_PERCENT = (0, 20, 40, 60)


def _mix(color: str, percent: int) -> tuple[int, int, int]:
    """`color` with so many percent of the way to white."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (0, 2, 4))
    return (
        red + (255 - red) * percent // 100,
        green + (255 - green) * percent // 100,
        blue + (255 - blue) * percent // 100,
    )


PALETTE: tuple[tuple[int, int, int], ...] = tuple(
    _mix(color, percent) for color in _SET2 for percent in _WHITENED_PERCENT
)
"""(red, green, blue), 0 to 255 each, by hue."""
