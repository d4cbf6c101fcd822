"""Pictures as SVG: one self-contained file, no fonts, scripts or links, readable at its natural size.

The idea.  A cell is a rectangle and a text; its size follows from the longest text of the panel.  Panels
stand side by side while they fit a page of 1600 units, then wrap; a panel far wider than the page is folded
into blocks of columns.  There is no style sheet: the page of a notebook would take its rules for its own.

>>> from layoutalg.draw import layout_picture
>>> from layoutalg.layout import Layout
>>> as_svg(layout_picture(Layout(2))).count("<rect")
3
"""

from __future__ import annotations

import textwrap
from html import escape

from layoutalg.draw.palette import PALETTE, hex_color
from layoutalg.draw.picture import Panel, Picture, clean, fold
from layoutalg.errors import check_type

_PAGE = 1600
_WIDEST = 2400
_MARGIN = 16
_ROW = 20
_LETTER = 7.25
_TITLE = 26
_FONT = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
_BOLD = 'font-weight="bold"'
_GRAY = 'fill="#555"'
_UNTOUCHED = "#f4f4f4"


def as_svg(picture: Picture) -> str:
    """Render a picture as a standalone SVG document; all text is escaped.

    >>> from layoutalg.draw import Picture
    >>> "a &lt; b" in as_svg(Picture("a < b", ()))
    True
    """
    check_type("as_svg", picture, Picture, "a picture")
    parts: list[str] = []
    y, right = _MARGIN + _TITLE, _MARGIN + _length(picture.title, 8.6)
    for band in _bands(picture):
        for panel, x in band:
            parts += _panel(panel, x, y)
            right = max(right, x + _size(panel)[0])
        y += max(_size(panel)[1] for panel, _ in band) + _MARGIN
    y += _MARGIN // 2
    letters = max(84, int((right - _MARGIN) / _LETTER))
    notes = [line for note in picture.notes for line in textwrap.wrap(clean(note), letters)]
    for note in notes:
        y += _ROW
        parts.append(_text(_MARGIN, y - _ROW, note, _GRAY))
        right = max(right, _MARGIN + _length(note))
    width, height = right + _MARGIN, y
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" font-family="{_FONT}" font-size="12" fill="#111">',
            f"<title>{_escape(picture.title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            _text(_MARGIN, _MARGIN + 10, picture.title, f'{_BOLD} font-size="14"'),
            *parts,
            "</svg>",
            "",
        ]
    )


def _bands(picture: Picture) -> list[list[tuple[Panel, int]]]:
    """Panels that stand side by side, each with its left edge."""
    if across := picture.across:
        rows = [picture.panels[n : n + across] for n in range(0, len(picture.panels), across)]
        count = min(across, len(picture.panels))
        widths = [max(_size(row[n])[0] for row in rows if n < len(row)) for n in range(count)]
        lefts = [_MARGIN + sum(widths[:n]) + n * 2 * _MARGIN for n in range(count)]
        return [list(zip(row, lefts, strict=False)) for row in rows]
    bands: list[list[tuple[Panel, int]]] = []
    x = _PAGE
    for whole in picture.panels:
        for panel in fold(whole, max(1, (_WIDEST - _label_width(whole)) // _cell_width(whole))):
            width = _size(panel)[0]
            if not bands or x + width > _PAGE:
                x = _MARGIN
                bands.append([])
            bands[-1].append((panel, x))
            x += width + 2 * _MARGIN
    return bands


def _panel(panel: Panel, x: int, y: int) -> list[str]:
    """The elements of one panel whose upper left corner is (x, y)."""
    cell, label = _cell_width(panel), _label_width(panel)
    top, left = y + 2 * _ROW, x + label
    boxes: list[str] = []
    frames: list[str] = []
    texts: list[str] = []
    marked: list[str] = []
    for row, cells in enumerate(panel.cells):
        line = top + row * _ROW
        for column, content in enumerate(cells):
            fill = _UNTOUCHED if content.hue is None else hex_color(PALETTE[content.hue])
            at = left + column * cell
            boxes.append(f'<rect x="{at}" y="{line}" width="{cell}" height="{_ROW}" fill="{fill}"/>')
            if content.marked:
                box = f'x="{at + 1}" y="{line + 1}" width="{cell - 2}" height="{_ROW - 2}"'
                frames.append(f'<rect {box} fill="none"/>')
            if content.text:
                (marked if content.marked else texts).append(_text(at + cell // 2, line + 14, content.text))
    heads = [_text(left + n * cell + cell // 2, top - 6, name) for n, name in enumerate(panel.columns)]
    names = [_text(left - 6, top + n * _ROW + 14, name) for n, name in enumerate(panel.rows)]
    return [
        _text(x, y + 12, panel.title, _BOLD),
        *_group(f'text-anchor="middle" {_GRAY}', heads),
        *_group(f'text-anchor="end" {_GRAY}', names),
        *_group('stroke="#fff"', boxes),
        *_group('stroke="#111" stroke-width="2"', frames),
        *_group('text-anchor="middle"', texts),
        *_group(f'text-anchor="middle" {_BOLD}', marked),
    ]


def _group(attributes: str, parts: list[str]) -> list[str]:
    return [f"<g {attributes}>", *parts, "</g>"] if parts else []


def _size(panel: Panel) -> tuple[int, int]:
    """Width and height a panel takes, its title and labels included."""
    width = _label_width(panel) + len(panel.columns) * _cell_width(panel)
    return max(width, _length(panel.title, 7.6)), (2 + len(panel.rows)) * _ROW


def _cell_width(panel: Panel) -> int:
    texts = [cell.text for row in panel.cells for cell in row]
    return max(26, 8 + max((_length(text) for text in [*texts, *panel.columns]), default=0))


def _label_width(panel: Panel) -> int:
    return 10 + max((_length(name) for name in panel.rows), default=0)


def _length(text: str, letter: float = _LETTER) -> int:
    """Width of a text in units; every letter of a monospaced font is as wide as the next."""
    return round(len(text) * letter)


def _text(x: int, y: int, text: str, attributes: str = "") -> str:
    return f'<text x="{x}" y="{y}"{attributes and " "}{attributes}>{_escape(text)}</text>'


def _escape(text: str) -> str:
    return escape(clean(text), quote=False)
