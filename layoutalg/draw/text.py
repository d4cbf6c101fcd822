r"""Pictures as text: aligned grids for a terminal, a log or a docstring, in colour where it is wanted.

The idea.  Every panel becomes a block of lines of equal width.  A panel wider than the page is folded into
blocks of columns; panels that fit next to each other stand side by side.

>>> from layoutalg.draw import layout_picture
>>> from layoutalg.layout import Layout
>>> print(as_text(layout_picture(Layout((2, 4), (4, 1))), unicode=False))
(2,4):(4,1)
<BLANKLINE>
offsets
  | 0 1 2 3
--+--------
0 | 0 1 2 3
1 | 4 5 6 7
<BLANKLINE>
rows run through mode 0, 2, columns through 4; the colour is the offset mod 8
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from layoutalg.draw.picture import Cell, Panel, Picture, fold
from layoutalg.draw.scene import PALETTE, clean
from layoutalg.errors import check_type

GAP = "    "

_CODES = re.compile("\x1b[^m]*m")
"""ANSI codes, which take no column of the screen."""


def as_text(picture: Picture, *, width: int = 100, color: bool = False, unicode: bool = True) -> str:
    """Render a picture as lines of at most `width` columns (a single column of cells is never split).

    `color` adds ANSI 24-bit backgrounds; `unicode` draws the rules with box characters.

    >>> from layoutalg.draw import layout_picture
    >>> from layoutalg.layout import Layout
    >>> as_text(layout_picture(Layout(3)), unicode=False).splitlines()[-3]
    '0 | 0 1 2'
    """
    check_type("as_text", picture, Picture, "a picture")
    lines = [clean(picture.title), ""]
    for row in _lined_up(picture, width, color, unicode) or _side_by_side(
        [
            block
            for panel in picture.panels
            if panel.cells or panel.title
            for block in _blocks(panel, width, color, unicode)
        ],
        width,
    ):
        lines += [*row, ""]
    for note in picture.notes:
        lines += textwrap.wrap(clean(note), width)
    return "\n".join(lines)


_Block = tuple[int, list[str]]
"""The visible width of a block, and its lines (which may hold invisible ANSI codes)."""


def _blocks(panel: Panel, width: int, color: bool, unicode: bool) -> list[_Block]:
    """A panel as one block, or as several when its columns do not fit the page."""
    label, cell = _widths([panel])
    fit = max(1, (width - label - 2) // (cell + 1))
    return [_block(part, label, cell, color, unicode) for part in fold(panel, fit)]


def _lined_up(picture: Picture, width: int, color: bool, unicode: bool) -> list[list[str]]:
    """The rows of panels whose columns continue from one to the next; empty where that does not fit."""
    if not picture.lined_up or not picture.across:
        return []
    label, cell = _widths(picture.panels)
    blocks = [_block(panel, label, cell, color, unicode) for panel in picture.panels]
    across = picture.across
    columns = [max(block[0] for block in blocks[n::across]) for n in range(min(across, len(blocks)))]
    if sum(columns) + len(GAP) * (len(columns) - 1) > width:
        return []
    free = ["" for _ in ("title", "heads", "rule")]
    rows = []
    for start in range(0, len(blocks), across):
        row = [
            (wide, lines if panel.cells else free)
            for wide, panel, (_, lines) in zip(
                columns, picture.panels[start : start + across], blocks[start : start + across], strict=False
            )
        ]
        rows.append(_join(row))
    return rows


def _widths(panels: Sequence[Panel]) -> tuple[int, int]:
    """The widths of the longest label of a row, and of the longest cell or head of a column."""
    names = [name for panel in panels for name in panel.rows]
    texts = [c.text for panel in panels for row in panel.cells for c in row]
    texts += [name for panel in panels for name in panel.columns]
    return max(map(len, names), default=0), max(map(len, texts), default=1)


def _block(panel: Panel, label: int, cell: int, color: bool, unicode: bool) -> _Block:
    vertical, horizontal, cross = ("│", "─", "┼") if unicode else ("|", "-", "+")
    head = " ".join(clean(name).rjust(cell) for name in panel.columns)
    lines = [clean(panel.title), f"{'':{label}} {vertical} {head}"]
    lines.append(horizontal * (label + 1) + cross + horizontal * (1 + len(head)))
    for name, row in zip(panel.rows, panel.cells, strict=True):
        body = " ".join(_paint(content, cell, color) for content in row)
        lines.append(f"{clean(name):>{label}} {vertical} {body}")
    return max(len(lines[0]), label + 3 + len(head)), lines


def _paint(cell: Cell, width: int, color: bool) -> str:
    text = clean(cell.text).rjust(width)
    if not color or cell.hue is None:
        return text
    red, green, blue = PALETTE[cell.hue]
    return f"\x1b[30;48;2;{red};{green};{blue}m{text}\x1b[0m"


def _side_by_side(blocks: list[_Block], width: int) -> list[list[str]]:
    """Group blocks into rows of blocks that fit the page, and join each row line by line."""
    rows: list[list[_Block]] = []
    for block in blocks:
        used = sum(w + len(GAP) for w, _ in rows[-1]) if rows else width
        if rows and used + block[0] <= width:
            rows[-1].append(block)
        else:
            rows.append([block])
    return [_join(row) for row in rows]


def _join(row: list[_Block]) -> list[str]:
    height = max(len(lines) for _, lines in row)
    joined = [""] * height
    for index, (width, lines) in enumerate(row):
        for number in range(height):
            line = lines[number] if number < len(lines) else ""
            last = index == len(row) - 1
            padding = "" if last else " " * (width - len(_CODES.sub("", line))) + GAP
            joined[number] += line + padding
    return [line.rstrip() for line in joined]
