"""Values as HTML: what a notebook puts into its page, self-contained and with all text escaped.

The idea.  Notebooks prefer HTML to SVG, so the HTML holds the picture, too: the rows of a report are a
table, a picture scrolls where it is wider than the page, and what has no picture is its text.

>>> from layoutalg.layout import Layout
>>> as_html(Layout((1 << 20, 4)))
'<pre>(1048576,4):(1,1048576)</pre>'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from layoutalg.analysis import (
    DramReport,
    GlobalReport,
    Report,
    SharedReport,
    report_notes,
    report_rows,
    sentence,
)
from layoutalg.draw.scene import clean
from layoutalg.draw.shown import picture_of
from layoutalg.draw.svg import as_svg
from layoutalg.synthesis import Synthesis


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
