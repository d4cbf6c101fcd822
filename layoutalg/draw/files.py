"""The bytes of a drawing's file: SVG, PNG or PDF of a picture, a diagram or a chart.

>>> from layoutalg.draw.picture import layout_picture
>>> from layoutalg.layout import Layout
>>> as_file(layout_picture(Layout((2, 2))), "svg")[:4]
b'<svg'
"""

from __future__ import annotations

from typing import TypeAlias

from layoutalg.draw.chart import Chart, chart_scene
from layoutalg.draw.diagrams import Diagram
from layoutalg.draw.picture import Picture
from layoutalg.draw.scene import IMAGE_FORMATS, Scene, scene_image, scene_svg
from layoutalg.draw.svg import picture_scene
from layoutalg.errors import check_choice, check_type

Drawing: TypeAlias = Picture | Diagram | Chart
"""All that can be drawn into a file."""

FILE_FORMATS = ("svg", *IMAGE_FORMATS)
"""The formats of files."""


def as_file(drawn: Drawing, file_format: str) -> bytes:
    """The drawing as `svg`, `png` or `pdf`; the last two need matplotlib, `pip install layoutalg[draw]`.

    Raises UnknownNameError for another format, UnsupportedError where matplotlib is missing, ResourceError
    for a PNG or PDF of more than 14,400 units a side.

    >>> as_file(Picture("empty", ()), "gif")
    Traceback (most recent call last):
    layoutalg.errors.UnknownNameError: unknown file format 'gif': accepted are svg, png, pdf
    """
    check_type("as_file", drawn, (Picture, Diagram, Chart), "a picture, a diagram or a chart")
    check_choice("file format", file_format, FILE_FORMATS)
    scene = _scene(drawn)
    return scene_svg(scene).encode() if file_format == "svg" else scene_image(scene, file_format)


def _scene(drawn: Drawing) -> Scene:
    match drawn:
        case Picture():
            return picture_scene(drawn)
        case Diagram():
            return drawn.scene
        case Chart():
            return chart_scene(drawn)
