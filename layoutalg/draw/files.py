"""The bytes of a drawing's file: SVG, PNG, PDF or LaTeX of a picture, a diagram or a chart.

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
from collections.abc import Iterator
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


_TEX_LETTERS = str.maketrans(
    {letter: f"\\{letter}" for letter in "#$%&_{}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)

_TEX_ANCHORS = {"start": "base west", "middle": "base", "end": "base east"}


_TEX = r"""\documentclass[tikz]{standalone}
\begin{document}
\begin{tikzpicture}[x=1pt,y=-1pt,inner sep=0pt]
\useasboundingbox (0,0) rectangle (%d,%d);
%s
\end{tikzpicture}
\end{document}
"""


def scene_tex(scene: Scene) -> str:
    r"""The scene as a LaTeX document of one TikZ picture, as CuTe's print_latex writes; a unit is a point.

    >>> drawn = scene_tex(Scene("t", 10, 10, (Dot(2, 9, 1), Words(2, 9, "a_b"))))
    >>> r"\path[fill={rgb,255:red,17;green,17;blue,17}] (2,9) circle (1);" in drawn, r"{a\_b};" in drawn
    (True, True)
    """
    lines = (line for shape in scene.shapes for line in _tex_lines(shape))
    return _TEX % (scene.width, scene.height, "\n".join(lines))


def _tex_lines(shape: Shape) -> Iterator[str]:
    """The commands of TikZ that draw a shape."""
    match shape:
        case Box(x=x, y=y):
            colors = {"fill": shape.fill, "draw": shape.stroke}
            look = [f"{what}={_tex_color(color)}" for what, color in colors.items() if color != "none"]
            look.append(f"line width={shape.stroke_width:g}pt")
            yield rf"\path[{','.join(look)}] ({x:g},{y:g}) rectangle +({shape.width:g},{shape.height:g});"
        case Words():
            size = 0.8 * shape.size  # Computer Modern's typewriter letters are wider than the page's
            bold = r"\bfseries" if shape.bold else ""
            font = rf"\ttfamily{bold}\fontsize{{{size:g}}}{{{size:g}}}\selectfont"
            look = [f"anchor={_TEX_ANCHORS[shape.anchor]}", f"font={font}", f"text={_tex_color(shape.color)}"]
            look += ["rotate=90"] * shape.turned
            text = clean(shape.text).translate(_TEX_LETTERS)
            yield rf"\node[{','.join(look)}] at ({shape.x:g},{shape.y:g}) {{{text}}};"
        case Line():
            look = [f"draw={_tex_color(shape.color)}", f"line width={shape.width:g}pt"]
            dash = " ".join(f"{'off' if n % 2 else 'on'} {long:g}pt" for n, long in enumerate(shape.dash))
            for points in (shape.points, *((arrow_head(shape),) if shape.arrow else ())):
                dashed = [f"dash pattern={dash}"] if dash and points is shape.points else []
                path = " -- ".join(f"({x:g},{y:g})" for x, y in points)
                yield rf"\path[{','.join(look + dashed)}] {path};"
        case Dot():
            stroke = "" if shape.stroke == "none" else f",draw={_tex_color(shape.stroke)}"
            look = [f"fill={_tex_color(shape.fill)}{stroke}"]
            yield rf"\path[{','.join(look)}] ({shape.x:g},{shape.y:g}) circle ({shape.radius:g});"


def _tex_color(color: str) -> str:
    """A colour, #rgb or #rrggbb, as xcolor takes it inside of TikZ's options."""
    digits = color[1:] if len(color) == 7 else "".join(digit * 2 for digit in color[1:])
    red, green, blue = (int(digits[i : i + 2], 16) for i in (0, 2, 4))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


Drawing: TypeAlias = Picture | Diagram | Chart
"""All that can be drawn into a file."""

FILE_FORMATS = ("svg", "tex", *IMAGE_FORMATS)
"""The formats of files."""


def as_file(drawn: Drawing, file_format: str) -> bytes:
    """The drawing as `svg`, `tex`, `png` or `pdf`; the last two need matplotlib, `layoutalg[draw]`.

    Raises UnknownNameError for another format, UnsupportedError where matplotlib is missing, ResourceError
    for a PNG or PDF of more than 14,400 units a side.

    >>> as_file(Picture("empty", ()), "gif")
    Traceback (most recent call last):
    layoutalg.errors.UnknownNameError: unknown file format 'gif': accepted are svg, tex, png, pdf
    """
    check_type("as_file", drawn, (Picture, Diagram, Chart), "a picture, a diagram or a chart")
    check_choice("file format", file_format, FILE_FORMATS)
    scene = _scene(drawn)
    texts = {"svg": scene_svg, "tex": scene_tex}
    return texts[file_format](scene).encode() if file_format in texts else scene_image(scene, file_format)


def _scene(drawn: Drawing) -> Scene:
    match drawn:
        case Picture():
            return picture_scene(drawn)
        case Diagram():
            return drawn.scene
        case Chart():
            return chart_scene(drawn)
