"""A drawing as data: boxes, words, lines and dots on a page whose unit is a pixel, y downwards.

The idea.  What is drawn where is decided once; `scene.markup` writes it as SVG and `scene.raster` as PNG or
PDF, so that the three show the same.  Text is monospaced, so that its width follows from its length.

>>> text_width("1234"), Scene("t", 10, 10, (Dot(5, 5, 2),)).shapes[0].fill
(29, '#111')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

FONT = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
"""The fonts of text, the first that is there."""

LETTER = 7.25
"""Width of a letter at the size 12."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle by its upper left corner; `fill` and `stroke` are colours or "none"."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"
    stroke_width: float = 1


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text whose base line is at y; with `turned` it runs upwards."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    color: str = "#111"
    bold: bool = False
    size: float = 12
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; `dash` lengths of strokes and gaps, `arrow` a head at its end."""

    points: tuple[tuple[float, float], ...]
    color: str = "#111"
    width: float = 1
    dash: tuple[float, ...] = ()
    arrow: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle, or a ring of `stroke`."""

    x: float
    y: float
    radius: float
    fill: str = "#111"
    stroke: str = "none"


Shape: TypeAlias = Box | Words | Line | Dot
"""A part of a scene; later ones lie over earlier ones."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A page with its title, which screen readers read out, and its shapes."""

    title: str
    width: int
    height: int
    shapes: tuple[Shape, ...]


def text_width(text: str, letter: float = LETTER) -> int:
    """The width of a text in units; all letters of a monospaced font are equally wide."""
    return round(len(text) * letter)


def clean(text: str) -> str:
    r"""`text` with U+FFFD for each control character: XML forbids them, terminals obey them.

    >>> ascii(clean("a\x1b[2Jb"))
    "'a\\ufffd[2Jb'"
    """
    return _CONTROL.sub("\ufffd", text)
