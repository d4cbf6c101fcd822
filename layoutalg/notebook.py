"""Shown: a base of values that a notebook shows as pictures, with the drawing left to layoutalg.draw.

A notebook (Jupyter, VS Code, ...) calls a value's `_repr_html_` and `_repr_svg_`.  Drawing is above all
that is drawn, so it is imported here by name, when a notebook calls.

>>> from layoutalg.layout import Layout
>>> Layout((2, 2))._repr_svg_()[:4], Layout((1 << 20, 4))._repr_svg_()
('<svg', None)
"""

from __future__ import annotations

import importlib
from typing import Any


class Shown:
    """Values of this class have a picture, a text in HTML, or both; see `layoutalg.draw.picture_of`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The value as a piece of an HTML page."""
        return str(_draw().as_html(self))

    def _repr_svg_(self) -> str | None:
        """The picture of the value, or None where there is none."""
        picture = _draw().picture_of(self)
        return None if picture is None else str(_draw().as_svg(picture))


def _draw() -> Any:
    return importlib.import_module("layoutalg.draw")
