"""The parts of a page that do not move, as pieces of HTML: costs, ranked layouts, index code, pictures.

Every text goes through `escaped`: a layout, an access and an error's sentence are a user's text.

>>> escaped("<b> & \\"c\\"")
'&lt;b&gt; &amp; &quot;c&quot;'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

from layoutalg.algebra import storage_order
from layoutalg.analysis import Access, Report, SharedReport, report_notes, report_rows, sentence
from layoutalg.arch import Arch
from layoutalg.compose import find_normal_form
from layoutalg.draw import as_svg, layout_access_picture
from layoutalg.errors import LayoutAlgError, printable
from layoutalg.glossary import look_up
from layoutalg.indexing import code
from layoutalg.layout import AnyLayout, leaves, modes, size
from layoutalg.limits import Most
from layoutalg.optional import has_numpy
from layoutalg.page.engine import Engine
from layoutalg.synthesis import (
    Choice,
    Synthesis,
    certificate_words,
    choices_of,
    ranked_choices,
    refusal,
    synthesize,
)

MOST_PICTURE_BYTES = 600_000
"""Bytes of all drawn pictures of a page; what does not fit is named, with the command that draws it."""

TARGETS = {"cuda": "CUDA C++", "cpp": "CuTe C++", "triton": "Triton", "python": "Python"}
"""Languages that the index function is shown in, with their names."""

TERMS = ("bank", "wavefront", "phase", "ideal", "sector", "swizzle")


def escaped(text: str) -> str:
    """Text as HTML shows it, control characters as what they are; also between quotes.

    >>> escaped("a < b")
    'a &lt; b'
    """
    return escape(printable(text), quote=True)


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text.

    >>> paragraph("a < b", "soft")
    '<p class="soft">a &lt; b</p>'
    """
    return f"<p{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escaped(text)}</p>"


def table(caption: str, columns: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls where it is wider than the page; the cells are HTML, the heads plain text.

    >>> table("times", ("a < b",), [["1"]]).count("<td>1</td>")
    1
    """
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(caption or "table")}">' + (
        f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def costs(layout: AnyLayout, named: Sequence[tuple[str, Report]], refused: Sequence[tuple[str, str]]) -> str:
    """The costs of accesses on a layout: a table per kind of memory, a sentence per access."""
    parts = [f"<h3><code>{escaped(str(layout))}</code></h3>"]
    for part in report_rows(named):
        parts.append(table(part.title, part.columns, [[escaped(cell) for cell in r] for r in part.rows]))
    parts += [paragraph(sentence(name, report)) for name, report in named]
    parts += [paragraph(f"{name}: {reason}", "bad") for name, reason in refused]
    parts += [paragraph(note, "soft") for note in report_notes(report for _, report in named)]
    return "".join(parts)


def ranking(
    engine: Engine, named: Sequence[tuple[str, Report]], number_of: Callable[[AnyLayout], int]
) -> str:
    """Layouts of the tile without conflicts for its accesses to shared memory, best first.

    `number_of` gives the number of a layout's model, which its button opens.
    """
    specs = [name for name, report in named if isinstance(report, SharedReport)]
    order = storage_order(engine.layout)
    if not specs:
        return paragraph("No access is to shared memory: there is nothing to search.", "soft")
    if order is None:
        remark = f"{engine.layout} is not stored by rows or by columns without gaps, as this search needs."
        return paragraph(f"{remark}  The command layoutalg synthesize reads it as a tile.", "soft")
    accesses = [engine.access(spec) for spec in specs]
    try:
        synthesis = synthesize(
            engine.layout.shape, accesses, element=engine.element, order=order, arch=engine.machine
        )
    except LayoutAlgError as error:
        return paragraph(str(error), "soft")
    choices = ranked_choices(choices_of(synthesis), None)
    rows = [_ranked(choice, number_of(choice.layout)) for choice in choices]
    columns = ("layout", "kind", "wavefronts", "ideal", "extra bytes", "TMA", "")
    stored = {"row": "rows", "col": "columns"}[order]
    head = paragraph(f"For {', '.join(specs)} on {engine.element.name}, stored by {stored}, best first.")
    remark = "" if synthesis.layout is not None else paragraph(refusal(synthesis), "bad")
    return head + remark + table("", columns, rows) + _proof(synthesis)


def _ranked(choice: Choice, number: int) -> list[str]:
    free = "good" if choice.total == choice.ideal_total else "bad"
    return [
        f"<code>{escaped(str(choice.layout))}</code>",
        escaped(choice.kind),
        f'<span class="{free}">{choice.total:,}</span>',
        f"{choice.ideal_total:,}",
        f"{choice.extra_bytes:,}",
        escaped("unswizzled" if choice.tma == "none" else choice.tma),
        f'<button type="button" data-open="{number}">Open</button>',
    ]


def _proof(synthesis: Synthesis) -> str:
    """Why the answer holds, in words; proved again where NumPy is."""
    if not has_numpy():
        return paragraph(
            "The certificate is proved again by layoutalg synthesize, which needs NumPy.", "soft"
        )
    items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in certificate_words(synthesis))
    return f"<details><summary>Why this holds</summary><ol>{items}</ol></details>"


def index_code(engine: Engine) -> str:
    """The index function of a layout in several languages, proved, and what its terms mean."""
    parts = [f"<h3><code>{escaped(str(engine.layout))}</code></h3>"]
    items = "".join(f"<li>{sentence}</li>" for sentence in explained(engine))
    parts.append(f"<ul>{items}</ul>" if items else "")
    for target, name in TARGETS.items():
        try:
            text = code(engine.layout, target, "offset")
        except LayoutAlgError as error:
            parts.append(paragraph(f"{name}: {error}", "soft"))
            continue
        opened = " open" if target == "cuda" else ""
        parts.append(
            f'<details{opened}><summary>{name}</summary><pre tabindex="0">{escaped(text)}</pre></details>'
        )
    return "".join(parts)


def explained(engine: Engine) -> list[str]:
    """Explain what each part of a layout adds to the offset, a sentence each, as HTML.

    >>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
    >>> explained(Engine(tile, "f16"))[0]
    'mode 0, of 64: a step moves 64 elements (128 bytes).'
    """
    form = find_normal_form(engine.layout)
    if form is None:
        return []
    bits, out = engine.element.bits, []
    for number, mode in enumerate(modes(form.layout)):
        steps = [(extent, stride) for extent, stride in leaves(mode) if extent > 1]
        parts = [
            f"{'a step moves' if n == 0 else f'the next digit, of {extent}, moves'} {stride:,} "
            f"element{'' if stride == 1 else 's'} ({stride * bits / 8:,g} bytes)"
            for n, (extent, stride) in enumerate(steps)
        ]
        out.append(f"mode {number}, of {size(mode)}: {'; '.join(parts) or 'it has one place'}.")
    if form.offset:
        out.append(f"{form.offset:,} elements are added to all.")
    for swizzle in reversed(tuple(form.swizzles)):
        low, read = swizzle.base + max(0, -swizzle.shift), swizzle.base + max(0, swizzle.shift)
        out.append(
            f"{swizzle} then XORs bits {read} to {read + swizzle.bits - 1} of the offset into bits {low} to "
            f"{low + swizzle.bits - 1}: blocks of {1 << swizzle.base} elements stay whole and change places, "
            f"in a pattern that begins again every {swizzle.period:,} elements."
        )
    return [escaped(sentence) for sentence in out]


def pictures(
    layout: AnyLayout, accesses: Sequence[tuple[str, Access]], machine: Arch, room: int
) -> list[str]:
    """The library's picture of each access, as SVG, while `room` bytes last; else the command that draws it.

    >>> from layoutalg.arch import find_arch
    >>> from layoutalg.layout import Layout
    >>> pictures(Layout((32, 32)), [], find_arch("sm_90"), 100)
    []
    """
    out: list[str] = []
    for spec, access in accesses:
        command = f'layoutalg draw "{layout}" --access "{spec}" --dtype {access.element.name} -o picture.svg'
        try:
            drawn = (
                as_svg(layout_access_picture(layout, access, machine))
                if size(layout) <= Most.ONE_BY_ONE.number
                else ""
            )
        except LayoutAlgError as error:
            out.append(paragraph(f"{spec}: {error}", "soft"))
            continue
        if not drawn or len(drawn) > room:
            out.append(paragraph(f"The picture of {spec} has no room here: {command}", "soft"))
            continue
        room -= len(drawn)
        title = escaped(f"{spec} on {layout}")
        out.append(
            f"<details{' open' if not out else ''}><summary>{title}</summary>"
            f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">{drawn}</div></details>'
        )
    return out


def terms() -> str:
    """The meanings of the words of a page."""
    return (
        f"<dl>{''.join(f'<dt><strong>{t}</strong></dt><dd>{escaped(look_up(t))}</dd>' for t in TERMS)}</dl>"
    )
