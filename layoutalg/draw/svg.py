"""Pictures on a page: cells become boxes and words of a scene, and a scene SVG, PNG or PDF.

The idea.  A cell is a rectangle and a text; its size follows from the longest text of the panel.  Panels
stand side by side while they fit a page of 1600 units, then wrap; a panel far wider than the page is folded
into blocks of columns.  Of four shades that share a colour, dots at the left of a cell tell which one it is:
none for the first, then one, two and three; so a bank is known without its colour.

>>> from layoutalg.draw import layout_picture
>>> from layoutalg.layout import Layout
>>> as_svg(layout_picture(Layout(2))).count("<rect")
11
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from layoutalg.draw.picture import Panel, Picture, fold
from layoutalg.draw.scene import (
    LETTER,
    PALETTE,
    Box,
    Scene,
    Shape,
    Words,
    clean,
    hex_color,
    scene_svg,
    text_width,
)
from layoutalg.errors import check_type

PAGE = 1600
MARGIN = 16
ROW = 20
GRAY = "#555"
_WIDEST = 2400
_TITLE = 26
_UNTOUCHED = ("#fff", "#ddd")
_SHADES = 4


def as_svg(picture: Picture) -> str:
    """Render a picture as a standalone SVG document; all text is escaped.

    >>> from layoutalg.draw import Picture
    >>> "a &lt; b" in as_svg(Picture("a < b", ()))
    True
    """
    return scene_svg(picture_scene(picture))


def picture_scene(picture: Picture) -> Scene:
    """The picture as shapes on a page.

    >>> from layoutalg.draw import Picture
    >>> picture_scene(Picture("empty", (), ("a note",))).shapes[-1].text
    'a note'
    """
    check_type("as_svg", picture, Picture, "a picture")
    shapes: list[Shape] = []
    y, right = MARGIN + _TITLE, MARGIN + text_width(picture.title, 8.6)
    like = _common(picture)
    for band in _bands(picture, like):
        for panel, x in band:
            shapes += _panel(panel, x, y, like)
            right = max(right, x + _size(panel, like)[0])
        y += max(_size(panel, like)[1] for panel, _ in band) + MARGIN
    for at, shape in _legend(picture, y):
        shapes.append(shape)
        right = max(right, at)
    y += (ROW + MARGIN) * bool(picture.legend) + MARGIN // 2
    notes, y, right = note_lines(picture.notes, y, right)
    title = Words(MARGIN, MARGIN + 10, picture.title, bold=True, size=14)
    return Scene(picture.title, right + MARGIN, y, (title, *shapes, *notes))


def note_lines(notes: tuple[str, ...], y: int, right: int) -> tuple[list[Words], int, int]:
    """Notes below a drawing that ends at y: their lines, then how far down and to the right the page goes."""
    letters = max(84, int((right - MARGIN) / LETTER))
    lines = [line for note in notes for line in textwrap.wrap(clean(note), letters)]
    shown = [Words(MARGIN, y + n * ROW, line, color=GRAY) for n, line in enumerate(lines)]
    widest = max((MARGIN + text_width(line) for line in lines), default=0)
    return shown, y + ROW * len(lines), max(right, widest)


def _legend(picture: Picture, y: int) -> Iterator[tuple[int, Shape]]:
    """A box and a text per colour, each with how far to the right it reaches."""
    x = MARGIN
    for hue, label in picture.legend:
        yield from ((x + 16, shape) for shape in _cell(hue, x, y, 16, 14))
        x += 22 + text_width(label)
        yield x, Words(x - text_width(label), y + 11, label)
        x += MARGIN


def _bands(picture: Picture, like: Panel | None) -> list[list[tuple[Panel, int]]]:
    """Panels that stand side by side, each with its left edge."""
    if across := picture.across:
        rows = [picture.panels[n : n + across] for n in range(0, len(picture.panels), across)]
        count = min(across, len(picture.panels))
        widths = [max(_size(row[n], like)[0] for row in rows if n < len(row)) for n in range(count)]
        lefts = [MARGIN + sum(widths[:n]) + n * 2 * MARGIN for n in range(count)]
        return [list(zip(row, lefts, strict=False)) for row in rows]
    bands: list[list[tuple[Panel, int]]] = []
    x = PAGE
    for wide in picture.panels:
        for panel in fold(wide, max(1, (_WIDEST - _label_width(wide)) // _cell_width(wide))):
            width = _size(panel, like)[0]
            if not bands or x + width > PAGE:
                x = MARGIN
                bands.append([])
            bands[-1].append((panel, x))
            x += width + 2 * MARGIN
    return bands


def _common(picture: Picture) -> Panel | None:
    """For panels that line up, one whose cells and labels are as wide as the widest of all."""
    if not picture.lined_up:
        return None
    rows = tuple(name for panel in picture.panels for name in panel.rows)
    columns = tuple(name for panel in picture.panels for name in panel.columns)
    return Panel("", rows, columns, tuple(row for panel in picture.panels for row in panel.cells))


def _panel(panel: Panel, x: int, y: int, like: Panel | None) -> list[Shape]:
    """The shapes of one panel whose upper left corner is (x, y)."""
    if not panel.cells:
        return [Words(x, y + 12, panel.title, bold=True)] if panel.title else []
    cell, label = _cell_width(like or panel), _label_width(like or panel)
    top, left = y + 2 * ROW, x + label
    boxes: list[Box] = []
    dots: list[Box] = []
    frames: list[Box] = []
    texts: list[Words] = []
    for row, cells in enumerate(panel.cells):
        line = top + row * ROW
        for column, content in enumerate(cells):
            at = left + column * cell
            box, *shade = _cell(content.hue, at, line, cell, ROW)
            boxes.append(box)
            dots += shade
            if content.marked:
                frames.append(Box(at + 1, line + 1, cell - 2, ROW - 2, stroke="#111", stroke_width=2))
            if content.text:
                words = Words(at + cell // 2, line + 14, content.text, "middle", bold=content.marked)
                texts.append(words)
    heads = [
        Words(left + n * cell + cell // 2, top - 6, name, "middle", GRAY)
        for n, name in enumerate(panel.columns)
    ]
    names = [Words(left - 6, top + n * ROW + 14, name, "end", GRAY) for n, name in enumerate(panel.rows)]
    # shapes that look alike follow each other, so that they share a group
    boxes.sort(key=lambda box: box.stroke == "#fff")
    texts.sort(key=lambda words: words.bold)
    title = Words(x, y + 12, panel.title, bold=True)
    return [title, *heads, *names, *boxes, *dots, *frames, *texts]


def _cell(hue: int | None, x: int, y: int, width: int, height: int) -> list[Box]:
    """The box of a colour, and the dots that tell its shade."""
    if hue is None:
        fill, stroke = _UNTOUCHED
        return [Box(x + 1, y + 1, width - 2, height - 2, fill, stroke)]
    box = Box(x, y, width, height, hex_color(PALETTE[hue]), "#fff")
    return [box, *(Box(x + 1, y + 2 + 4 * n, 2, 2, GRAY) for n in range(hue % _SHADES))]


def _size(panel: Panel, like: Panel | None) -> tuple[int, int]:
    """Width and height a panel takes, its title and labels included."""
    model = like or panel
    width = _label_width(model) + len(panel.columns) * _cell_width(model)
    return max(width, text_width(panel.title, 7.6)), (2 + len(panel.rows)) * ROW


def _cell_width(panel: Panel) -> int:
    texts = [cell.text for row in panel.cells for cell in row]
    return max(26, 8 + max((text_width(text) for text in [*texts, *panel.columns]), default=0))


def _label_width(panel: Panel) -> int:
    return 10 + max((text_width(name) for name in panel.rows), default=0)
