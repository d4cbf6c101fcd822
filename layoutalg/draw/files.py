"""The bytes of a drawing's file: SVG, PNG or PDF of a picture, a diagram or a chart.

>>> from layoutalg.draw.picture import layout_picture
>>> from layoutalg.layout import Layout
>>> as_file(layout_picture(Layout((2, 2))), "svg")[:4]
b'<svg'

A scene as PNG or PDF, by matplotlib: its wheels bring the font, so that pictures look alike everywhere.

Notes.  matplotlib is an extra, `pip install layoutalg[draw]`; SVG needs nothing.  A unit of the scene is a
point of a PDF and two pixels of a PNG, one where the picture is large.  The file says nothing of when or by
whom it was made: one scene gives the same bytes again.

>>> from layoutalg.draw.scene import Scene
>>> scene_image(Scene("t", 10, 10, ()), "gif")
Traceback (most recent call last):
layoutalg.errors.UnknownNameError: unknown image format 'gif': accepted are png, pdf
"""

from __future__ import annotations

import io
import warnings
from itertools import groupby
from typing import Any, TypeAlias

from layoutalg.draw.chart import Chart, chart_scene
from layoutalg.draw.picture import Diagram, Picture
from layoutalg.draw.scene import Box, Dot, Line, Scene, Shape, Words, arrow_head, clean, scene_svg
from layoutalg.draw.svg import picture_scene
from layoutalg.errors import ResourceError, UnsupportedError, check_choice, check_type
from layoutalg.optional import import_trouble

IMAGE_FORMATS = ("png", "pdf")
"""The formats of `scene_image`."""

MAX_SIDE = 14_400
"""The longest side in units: the largest page of a PDF (ISO 32000-1, annex C.2)."""

_SHARP = 4_000
"""The longest side, in units, at which a unit is two pixels."""

_FONT, _ADVANCE = "DejaVu Sans Mono", 0.602
"""The font that matplotlib brings, and the width of its letters at the size 1."""


def scene_image(scene: Scene, file_format: str) -> bytes:
    """The scene as `png` or `pdf`.

    Raises UnknownNameError for another format, ResourceError for a side above MAX_SIDE, UnsupportedError,
    saying how to get it, where matplotlib is missing.
    """
    check_choice("image format", file_format, IMAGE_FORMATS)
    longest = max(scene.width, scene.height)
    if longest > MAX_SIDE:
        raise ResourceError(
            f"side of a {file_format} in pixels", longest, MAX_SIDE, hint="draw fewer rows, or an SVG"
        )
    if trouble := import_trouble("matplotlib", "pip install 'layoutalg[draw]'"):
        raise UnsupportedError(f"a picture as {file_format} needs matplotlib: {trouble}; SVG needs nothing")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(scene.width / 72, scene.height / 72))
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.set_axis_off()
    for layer, (kind, shapes) in enumerate(groupby(scene.shapes, type)):
        _LAYERS[kind](axes, list(shapes), layer + 1)
    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        if file_format == "png":
            dots = 144 if longest <= _SHARP else 72
            figure.savefig(written, format="png", dpi=dots, metadata={"Software": None})
        else:
            nameless = {"CreationDate": None, "Creator": None, "Producer": None}
            figure.savefig(written, format="pdf", metadata=nameless)
    return written.getvalue()


def _boxes(axes: Any, shapes: list[Box], layer: int) -> None:
    from matplotlib.collections import PolyCollection

    corners = [
        [(b.x, b.y), (b.x + b.width, b.y), (b.x + b.width, b.y + b.height), (b.x, b.y + b.height)]
        for b in shapes
    ]
    axes.add_collection(
        PolyCollection(
            corners, facecolors=[b.fill for b in shapes], edgecolors=[b.stroke for b in shapes],
            linewidths=[b.stroke_width for b in shapes], zorder=layer,
        )
    )  # fmt: skip


def _words(axes: Any, shapes: list[Words], layer: int) -> None:
    """Each letter of a look is one outline with its places, which is far quicker than a text per cell."""
    from matplotlib.collections import PathCollection

    places: dict[tuple[str, str, bool, float, bool], list[tuple[float, float]]] = {}
    for words in shapes:
        text, step = clean(words.text), _ADVANCE * words.size
        back = {"start": 0.0, "middle": 0.5, "end": 1.0}[words.anchor] * step * len(text)
        for n, letter in enumerate(text):
            if not letter.isspace():
                along = n * step - back
                at = (words.x, words.y - along) if words.turned else (words.x + along, words.y)
                look = (letter, words.color, words.bold, words.size, words.turned)
                places.setdefault(look, []).append(at)
    for (letter, color, bold, size, turned), at_all in places.items():
        outline = _glyph(letter, size, bold, turned)
        drawn = PathCollection(
            [outline], offsets=at_all, offset_transform=axes.transData, facecolors=[color], linewidths=[0],
            zorder=layer,
        )  # fmt: skip
        drawn.set_snap(False)
        drawn.set_transform(axes.figure.dpi_scale_trans)
        axes.add_collection(drawn)


def _glyph(letter: str, size: float, bold: bool, turned: bool) -> Any:
    """The outline of a letter in inches, y upwards."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    font = FontProperties(family=_FONT, weight="bold" if bold else "normal")
    outline = TextPath((0, 0), letter, size=size / 72, prop=font)
    return Affine2D().rotate_deg(90).transform_path(outline) if turned else outline


def _lines(axes: Any, shapes: list[Line], layer: int) -> None:
    for line in shapes:
        dash = (0, line.dash) if line.dash else "-"
        for points in (line.points, *((arrow_head(line),) if line.arrow else ())):
            x, y = zip(*points, strict=True)
            axes.plot(
                x, y, color=line.color, linewidth=line.width, zorder=layer,
                linestyle=dash if points is line.points else "-", solid_capstyle="butt",
            )  # fmt: skip


def _dots(axes: Any, shapes: list[Dot], layer: int) -> None:
    from matplotlib.patches import Circle

    for dot in shapes:
        axes.add_patch(
            Circle((dot.x, dot.y), dot.radius, facecolor=dot.fill, edgecolor=dot.stroke, zorder=layer)
        )


_LAYERS: dict[type[Shape], Any] = {Box: _boxes, Words: _words, Line: _lines, Dot: _dots}


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
