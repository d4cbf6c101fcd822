"""A scene as SVG: one self-contained file, no fonts, scripts or links.

The idea.  Shapes that follow each other and look alike share a group, so that a grid of cells stays small.
There is no style sheet: the page of a notebook would take its rules for its own.

>>> from layoutalg.draw.scene import Scene, Words
>>> "a &lt; b" in scene_svg(Scene("t", 10, 10, (Words(0, 9, "a < b"),)))
True
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from itertools import groupby

from layoutalg.draw.scene.shapes import FONT, Box, Dot, Line, Scene, Shape, Words, clean

_ARROW = 7


def scene_svg(scene: Scene) -> str:
    """The scene as a standalone SVG document; all text is escaped.

    >>> scene_svg(Scene("t", 10, 10, (Box(0, 0, 5, 5, "#fff"),))).count("<rect")
    2
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width}" height="{scene.height}" '
        f'viewBox="0 0 {scene.width} {scene.height}" role="img" font-family="{FONT}" font-size="12" '
        f'fill="#111">'
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
