"""A drawing as data: boxes, words, lines and dots on a page whose unit is a pixel, y downwards.

The idea.  What is drawn where is decided once; here it becomes SVG, and PNG or PDF in
`draw.files`, so that the three show the same.  Text is monospaced, so that its width follows from its length.

>>> text_width("1234"), Scene("t", 10, 10, (Dot(5, 5, 2),)).shapes[0].fill
(29, '#111')

A scene as SVG: one self-contained file, no fonts, scripts or links.

The idea.  Shapes that follow each other and look alike share a group, so that a grid of cells stays small.
There is no style sheet: the page of a notebook would take its rules for its own.

>>> from layoutalg.draw.scene import Scene, Words
>>> "a &lt; b" in scene_svg(Scene("t", 10, 10, (Words(0, 9, "a < b"),)))
True

Colours: 32 for the cells of a picture, one per bank, and 8 for the lines of a chart.

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

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby
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


_ARROW = 7


def scene_svg(scene: Scene) -> str:
    """The scene as a standalone SVG document; all text is escaped.

    >>> scene_svg(Scene("t", 10, 10, (Box(0, 0, 5, 5, "#fff"),))).count("<rect")
    2
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width}" height="{scene.height}" '
        f'viewBox="0 0 {scene.width} {scene.height}" style="max-width:100%;height:auto" role="img" '
        f'font-family="{FONT}" font-size="12" fill="#111">'
    )
    lines = [
        head,
        f"<title>{_escape(scene.title)}</title>",
        f'<rect width="{scene.width}" height="{scene.height}" fill="#fff"/>',
    ]
    for shared, shapes in groupby(scene.shapes, _shared):
        parts = [_element(shape) for shape in shapes]
        lines += [f"<g{shared}>", *parts, "</g>"] if shared and len(parts) > 1 else _alone(shared, parts)
    return "\n".join([*lines, "</svg>", ""])


def _alone(shared: str, parts: list[str]) -> Iterator[str]:
    """Elements without a group: each has the attributes itself."""
    for part in parts:
        name, _, rest = part.partition(" ")
        yield f"{name}{shared} {rest}"


def _shared(shape: Shape) -> str:
    """The attributes that a group of such shapes has; they begin with a space."""
    match shape:
        case Box():
            stroke = _attribute("stroke", shape.stroke, "none")
            return stroke + _attribute("stroke-width", _number(shape.stroke_width), "1") if stroke else ""
        case Words():
            return (
                _attribute("text-anchor", shape.anchor, "start")
                + _attribute("fill", shape.color, "#111")
                + _attribute("font-weight", "bold" if shape.bold else "", "")
                + _attribute("font-size", _number(shape.size), "12")
            )
        case Line():
            dash = ",".join(map(_number, shape.dash))
            return (
                f' fill="none" stroke="{shape.color}"'
                + _attribute("stroke-width", _number(shape.width), "1")
                + _attribute("stroke-dasharray", dash, "")
            )
        case Dot():
            return _attribute("stroke", shape.stroke, "none")


def _element(shape: Shape) -> str:
    """The element without the attributes of its group."""
    match shape:
        case Box():
            sides = f'width="{_number(shape.width)}" height="{_number(shape.height)}"'
            return f'<rect x="{_number(shape.x)}" y="{_number(shape.y)}" {sides} fill="{shape.fill}"/>'
        case Words():
            x, y = _number(shape.x), _number(shape.y)
            turned = f' transform="rotate(-90 {x} {y})"' if shape.turned else ""
            return f'<text x="{x}" y="{y}"{turned}>{_escape(shape.text)}</text>'
        case Line():
            path = "M" + " ".join(f"{_number(x)},{_number(y)}" for x, y in shape.points)
            return f'<path d="{path}{_head(shape) if shape.arrow else ""}"/>'
        case Dot():
            return (
                f'<circle cx="{_number(shape.x)}" cy="{_number(shape.y)}" r="{_number(shape.radius)}" '
                f'fill="{shape.fill}"/>'
            )


def arrow_head(line: Line) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """The three points of the head of a line: one side, the tip, the other side.

    >>> arrow_head(Line(((0, 0), (10, 0))))[1]
    (10, 0)
    """
    (x0, y0), (x1, y1) = line.points[-2:]
    angle = math.atan2(y1 - y0, x1 - x0)
    first, other = (
        (x1 - _ARROW * math.cos(angle + turn), y1 - _ARROW * math.sin(angle + turn)) for turn in (0.45, -0.45)
    )
    return first, (x1, y1), other


def _head(line: Line) -> str:
    return " M" + " ".join(f"{_number(x)},{_number(y)}" for x, y in arrow_head(line))


def _attribute(name: str, value: str, default: str) -> str:
    return "" if value == default else f' {name}="{value}"'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _escape(text: str) -> str:
    return escape(clean(text), quote=False)


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
