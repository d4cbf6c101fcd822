"""Composition of layouts, on which the whole algebra rests, and the normal form of a swizzled layout.

    composed     composition, by mode and with swizzles
    normal       normal_form: a chain of swizzles applied to an offset plus a plain layout; rotated_layout:
                 each row rotated by its number, modulo a length that is not a power of two
    digits       composition of two plain layouts, digit by digit, or the coordinate where there is none
    coordinates  composition of layouts whose strides are coordinates, packed into fields of one integer
    symbolic     composition, complement and comparison of layouts with symbols

>>> from layoutalg.layout import Layout
>>> print(composition(Layout((6, 4), (4, 1)), Layout(12, 2)))
(3,4):(8,1)
"""

from __future__ import annotations

from layoutalg.compose.composed import Chain, Tiler, by_mode, composition, fitting_modes, tiler_text
from layoutalg.compose.coordinates import Fields, axes_of
from layoutalg.compose.digits import compose_layouts
from layoutalg.compose.normal import (
    NormalForm,
    Rotation,
    find_normal_form,
    find_rotation,
    need_normal_form,
    normal_form,
    rotated_layout,
)
from layoutalg.compose.symbolic import complement_symbols, downcast_symbols, require_same, upcast_symbols

__all__ = [
    "Chain", "Fields", "NormalForm", "Rotation", "Tiler", "axes_of", "by_mode", "complement_symbols",
    "compose_layouts", "composition", "downcast_symbols", "find_normal_form", "find_rotation",
    "fitting_modes", "need_normal_form", "normal_form", "require_same", "rotated_layout", "tiler_text",
    "upcast_symbols",
]  # fmt: skip
