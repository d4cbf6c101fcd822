"""The picture that a notebook shows of a value, where the value has one of a size that can be read.

The idea.  A layout is drawn by its offsets, a swizzle before and after, a linear map by its bits, an atom by
its lanes, a report as its table.  A large layout is drawn in the units that its swizzle keeps whole, or in
vectors of 8 or 4 elements, one per cell.

Notes.  A layout that is larger still, or has symbols for extents, has no picture here; the functions of this
room draw up to Most.CELLS, or say in an error why not.

>>> from layoutalg.layout import Layout
>>> picture_of(Layout((64, 64), (64, 1))), picture_of(Layout((1 << 20, 4)))
(<Picture '(64,64):(64,1)': 64 x 8>, None)

Values as HTML: what a notebook puts into its page, self-contained and with all text escaped.

The idea.  Notebooks prefer HTML to SVG, so the HTML holds the picture, too: the rows of a report are a
table, a picture scrolls where it is wider than the page, and what has no picture is its text.

>>> from layoutalg.layout import Layout
>>> as_html(Layout((1 << 20, 4)))
'<pre>(1048576,4):(1,1048576)</pre>'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape

from layoutalg.algebra import upcast
from layoutalg.analysis import (
    DramReport,
    GlobalReport,
    Report,
    SharedReport,
    report_notes,
    report_rows,
    sentence,
)
from layoutalg.atoms import CopyAtom, MMAAtom, TiledCopy, TiledMMA
from layoutalg.draw.atoms import copy_picture, mma_picture
from layoutalg.draw.picture import (
    Cell,
    Panel,
    Picture,
    layout_picture,
    linear_picture,
    swizzle_picture,
    tv_picture,
)
from layoutalg.draw.scene import clean
from layoutalg.draw.svg import as_svg
from layoutalg.errors import LayoutAlgError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles, flatten_tree, product
from layoutalg.synthesis import Synthesis

MAX_FINE = 1024
"""Elements up to which a notebook draws each, where it could draw vectors; with a swizzle a quarter of it."""

MAX_SHOWN = 4096
"""Cells up to which a notebook draws a value at all."""

_FREE, _CONFLICT = 3, 4
"""Hues of the verdict on an access."""


def picture_of(value: object) -> Picture | None:
    """The picture that a notebook shows, or None for what has none or would be too large to be read.

    Layouts, swizzles, linear layouts, reports, syntheses, atoms, tiled MMAs (by their C), tiled copies and
    pictures have one.

    >>> picture_of(Swizzle(2, 0, 2)), picture_of("text")
    (<Picture 'Sw<2,0,2>': 4 x 4, 4 x 4>, None)
    """
    try:
        match value:
            case Picture():
                return value
            case Layout() | ComposedLayout():
                return _of_layout(value)
            case Swizzle() | Swizzles():
                return _readable(swizzle_picture(value))
            case LinearLayout():
                return _readable(linear_picture(value))
            case SharedReport() | GlobalReport() | DramReport():
                return _of_reports(value.op, [value])
            case Synthesis():
                return _of_synthesis(value)
            case MMAAtom():
                return mma_picture(value)
            case CopyAtom():
                return copy_picture(value)
            case TiledMMA():
                return _of_threads(value, value.get_layoutC_TV(), value.tile_shape[:2])
            case TiledCopy():
                return _of_threads(value, value.layout_tv, value.tile_shape)
    except LayoutAlgError:  # symbols where numbers are needed, too many cells: no picture
        pass
    return None


def _of_layout(layout: AnyLayout, vectors: Sequence[int] = (8, 4)) -> Picture | None:
    """The picture of a layout by elements or by vectors of one of these lengths, whichever can be read."""
    draw, fine, most = layout_picture, MAX_FINE, MAX_SHOWN
    if isinstance(layout, ComposedLayout) and layout.swizzles:
        vectors = (1 << min(swizzle.base for swizzle in layout.swizzles),)
        draw, fine, most = swizzle_picture, MAX_FINE // 4, MAX_SHOWN // 2
    if any(type(extent) is not int for extent in flatten_tree(layout.shape)):
        return None
    cells = product(layout.shape)
    if cells > fine:
        for length in vectors:
            with suppress(LayoutAlgError):  # vectors of this length are not in one piece
                wide = upcast(layout, length)
                if product(wide.shape) <= most:
                    return _by_vectors(layout, draw(wide), length)
    return draw(layout) if cells <= most else None


def _of_threads(value: TiledMMA | TiledCopy, layout_tv: Layout, tile: Sequence[int]) -> Picture | None:
    """The picture of the thread that holds each element of a tile, where a cell has room for its text."""
    if product(tuple(tile)) > MAX_FINE:
        return None
    return replace(tv_picture(layout_tv, tuple(tile)), title=str(value))


def _by_vectors(layout: AnyLayout, picture: Picture, length: int) -> Picture:
    """The picture of a layout in vectors, under the names of the layout in elements."""
    note = f"a cell is {length} elements; its number counts such cells, and its colour is that number mod 8"
    names = [panel.title for panel in picture.panels]
    if isinstance(layout, ComposedLayout) and len(names) == 2:
        names = [f"before {layout.outer}", f"after {layout.outer}"]
    panels = [replace(panel, title=name) for panel, name in zip(picture.panels, names, strict=True)]
    return replace(picture, title=str(layout), panels=tuple(panels), notes=(note, *picture.notes[1:]))


def _readable(picture: Picture) -> Picture | None:
    cells = sum(len(panel.rows) * len(panel.columns) for panel in picture.panels)
    return picture if cells <= MAX_SHOWN else None


def _of_synthesis(result: Synthesis) -> Picture:
    """The tables of the accesses, and the layout in vectors of 16 bytes."""
    tables = _of_reports(str(result).splitlines()[0], result.reports)
    drawn = None if result.layout is None else _of_layout(result.layout, (128 // result.element.bits,))
    if drawn is None:
        return tables
    return replace(tables, panels=(*tables.panels, *drawn.panels), notes=(*tables.notes, *drawn.notes))


def _of_reports(title: str, reports: Sequence[Report | DramReport]) -> Picture:
    """The tables and sentences that print shows of reports, as panels and notes."""
    named = [(report.op, report) for report in reports]
    sentences = [sentence(name, report) for name, report in named]
    panels = []
    for table in report_rows(named):
        names = tuple(row[0] for row in table.rows)
        cells = tuple(
            tuple(Cell(text, _verdict(head, text)) for head, text in zip(table.columns, row, strict=True))[1:]
            for row in table.rows
        )
        panels.append(Panel(table.title, names, table.columns[1:], cells))
    return Picture(title, tuple(panels), (*sentences, *report_notes(reports)), across=1)


def _verdict(head: str, text: str) -> int | None:
    if head == "conflict":
        return _FREE if text == "none" else _CONFLICT
    return None


def as_html(value: object) -> str:
    """The value as a piece of an HTML page: the tables of reports, a picture, or its text.

    >>> from layoutalg.layout import Layout
    >>> as_html(Layout((2, 2)))[:38]
    '<div style="overflow-x:auto"><svg xmln'
    """
    if isinstance(value, (SharedReport, GlobalReport, DramReport)):
        return "".join(_tables([value]))
    if isinstance(value, Synthesis):
        drawn = "" if value.layout is None else as_html(value.layout)
        return "".join((_paragraph(str(value).splitlines()[0]), *_tables(value.reports), drawn))
    picture = picture_of(value)
    if picture is None:
        return f"<pre>{_escape(str(value))}</pre>"
    return f'<div style="overflow-x:auto">{as_svg(picture)}</div>'


def _tables(reports: Sequence[Report | DramReport]) -> Iterator[str]:
    """The content that print shows too: the tables, a sentence per report, the notes."""
    named = [(report.op, report) for report in reports]
    for table in report_rows(named):
        head, rows = _row(table.columns, "th"), [_row(row, "td") for row in table.rows]
        yield f"<table><caption>{_escape(table.title)}</caption><thead>{head}</thead>"
        yield f"<tbody>{''.join(rows)}</tbody></table>"
    yield from map(_paragraph, [*(sentence(name, report) for name, report in named), *report_notes(reports)])


def _row(cells: Sequence[str], tag: str) -> str:
    """A row whose first cell stands to the left, the others to the right."""
    sides = ["left", *["right"] * (len(cells) - 1)]
    inside = [
        f'<{tag} style="text-align:{s}">{_escape(c)}</{tag}>' for s, c in zip(sides, cells, strict=True)
    ]
    return f"<tr>{''.join(inside)}</tr>"


def _paragraph(text: str) -> str:
    return f"<p>{_escape(text)}</p>"


def _escape(text: str) -> str:
    return escape(clean(text))
