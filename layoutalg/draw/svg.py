"""Pictures as SVG: one self-contained file, no fonts, scripts or links, readable at its natural size.

The idea.  A cell is a rectangle and a text; its size follows from the longest text of the panel.  Panels
stand side by side while they fit a page of 1600 units, then wrap.

>>> from layoutalg.draw import layout_picture
>>> from layoutalg.layout import Layout
>>> as_svg(layout_picture(Layout(2))).count("<rect")
3
"""

from __future__ import annotations

import textwrap
from html import escape

from layoutalg.draw.palette import PALETTE
from layoutalg.draw.picture import Panel, Picture, clean

_PAGE = 1600
_MARGIN = 16
_ROW = 20
_LETTER = 7.25
_TITLE = 26
_STYLE = (
    "text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#111}"
    ".h{font-weight:bold;font-size:14px}.p{font-weight:bold}.l,.l text{fill:#555}.c{text-anchor:middle}"
    ".r{text-anchor:end}rect{stroke:#fff}"
)
_UNTOUCHED = "#f4f4f4"


def as_svg(picture: Picture) -> str:
    """Render a picture as a standalone SVG document; all text is escaped.

    >>> from layoutalg.draw import Picture
    >>> "a &lt; b" in as_svg(Picture("a < b", ()))
    True
    """
    parts: list[str] = []
    x, y, band, right = _MARGIN, _MARGIN + _TITLE, 0, _MARGIN + _length(picture.title, 8.6)
    for panel in picture.panels:
        width, height = _size(panel)
        if x > _MARGIN and x + width > _PAGE:
            x, y, band = _MARGIN, y + band + _MARGIN, 0
        parts += _panel(panel, x, y)
        right = max(right, x + width)
        x, band = x + width + 2 * _MARGIN, max(band, height)
    y += band + _MARGIN
    letters = max(60, int((right - _MARGIN) / _LETTER))
    notes = [line for note in picture.notes for line in textwrap.wrap(clean(note), letters)]
    for note in notes:
        parts.append(_text(_MARGIN, y, note, "l"))
        right, y = max(right, _MARGIN + _length(note)), y + _ROW
    width, height = right + _MARGIN, y
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">',
            f"<title>{_escape(picture.title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            _text(_MARGIN, _MARGIN + 10, picture.title, "h"),
            *parts,
            "</svg>",
            "",
        ]
    )


def _panel(panel: Panel, x: int, y: int) -> list[str]:
    """The elements of one panel whose upper left corner is (x, y)."""
    cell, label = _cell_width(panel), _label_width(panel)
    top, left = y + 2 * _ROW, x + label
    boxes, texts = [], []
    for row, cells in enumerate(panel.cells):
        line = top + row * _ROW
        for column, content in enumerate(cells):
            fill = _UNTOUCHED if content.hue is None else "#{:02x}{:02x}{:02x}".format(*PALETTE[content.hue])
            at = left + column * cell
            boxes.append(f'<rect x="{at}" y="{line}" width="{cell}" height="{_ROW}" fill="{fill}"/>')
            if content.text:
                texts.append(_text(at + cell // 2, line + 14, content.text))
    heads = [_text(left + n * cell + cell // 2, top - 6, name) for n, name in enumerate(panel.columns)]
    names = [_text(left - 6, top + n * _ROW + 14, name) for n, name in enumerate(panel.rows)]
    return [
        _text(x, y + 12, panel.title, "p"),
        *_group("l c", heads),
        *_group("l r", names),
        *boxes,
        *_group("c", texts),
    ]


def _group(classes: str, parts: list[str]) -> list[str]:
    return [f'<g class="{classes}">', *parts, "</g>"]


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


def _text(x: int, y: int, text: str, classes: str = "") -> str:
    style = f' class="{classes}"' if classes else ""
    return f'<text x="{x}" y="{y}"{style}>{_escape(text)}</text>'


def _escape(text: str) -> str:
    return escape(clean(text), quote=False)
