"""Edits of a text by which an array gets the layout of a fix: of subscripts, and of a declaration's extents.

The idea.  Elements are named by subscripts.  A swizzle is a change of the last index, in terms of the row or
of the index itself, and a pad one of an extent, or of the factor by which rows are apart:

    s[i][j]      s[i][j ^ (i % 8 * 4)]           float s[32][32]      float s[32][32 + 1]
    p[E]         p[E ^ (E / 64 % 8 * 8)]         p[row * d + x]       p[row * (d + 1) + x]

Several edits may do it; `proposals` has them in order, and none is right before the changed text was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeAlias

from layoutalg.layout import Swizzle
from layoutalg.source.fixes.arrays import SharedArray
from layoutalg.source.fixes.edits import Edit
from layoutalg.source.fixes.remedies import Fix, Remedy
from layoutalg.source.front import LINES, MACRO, extents
from layoutalg.source.rows import KernelReading

_CHAIN = re.compile(rb"[A-Za-z_]\w*(?:\s*(?:\.|->)\s*[A-Za-z_]\w*)*(?=\s*\[)")
"""A name, perhaps of a member, with a bracket behind it."""

_FACTOR = re.compile(r"(?<![\w.])\w+(?=\s*\*)|(?<=\*)\w+(?![\w.]*\s*[(\[.])|(?<=\*\s)\w+(?![\w.]*\s*[(\[.])")
_CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|//|\n")
"""Text that may not be written twice, and the ends of lines."""

_NAMED = re.compile(rb"(?<![\w.>])([A-Za-z_]\w*)(?=\s*\[)")
_MACRO = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_LINE = re.compile(rb"(?:\\\r?\n|[^\n])*")
_WORD = re.compile(rb"\w+")

MOST_INDICES = 4

Proposal: TypeAlias = Mapping[int, Sequence[Edit]]
"""Edits by the number of the fix."""


class Site(NamedTuple):
    """A name with subscripts: its text's number, and where what is in each bracket starts and ends."""

    text: int
    spans: tuple[tuple[int, int], ...]


class Texts:
    """The source of a reading and the headers of its own, by number."""

    def __init__(self, reading: KernelReading) -> None:
        self.paths = reading.paths
        own = b"" if reading.asked is None else reading.asked.text.encode()
        self.given = [own, *(Path(path).read_bytes() for path in self.paths[1:])]

    def offset(self, line: int, column: int) -> tuple[int, int]:
        """The number of a text and the byte in it of a line, in the numbering of all texts, and column."""
        number, row = divmod(line, LINES)
        at = 0
        for _ in range(row - 1):
            at = self.given[number].find(b"\n", at) + 1
        return number, at + column - 1

    def site(self, number: int, at: int) -> Site | None:
        """The name with subscripts that starts at a byte of a text."""
        chain = _CHAIN.match(self.given[number], at)
        if chain is None:
            return None
        return Site(number, tuple(extents(self.given[number], chain.end(), MOST_INDICES)[0]))

    def within(self, number: int, span: tuple[int, int]) -> str:
        """The text between two bytes."""
        return self.given[number][span[0] : span[1]].decode("utf-8", "replace")

    def edit(self, number: int, span: tuple[int, int], after: str) -> Edit:
        """The edit that makes another text of some bytes."""
        text, start = self.given[number], span[0]
        line, column = text.count(b"\n", 0, start) + 1, start - text.rfind(b"\n", 0, start)
        return Edit(self.paths[number], line, column, self.within(number, span), after)

    def changed(self, edits: Sequence[Edit]) -> list[bytes]:
        """All texts with some edits."""
        texts = list(self.given)
        for edit in sorted(set(edits), reverse=True):
            number, at = self.offset(self.paths.index(edit.file) * LINES + edit.line, edit.column)
            behind = texts[number][at + len(edit.before.encode()) :]
            texts[number] = texts[number][:at] + edit.after.encode() + behind
        return texts


def proposals(
    texts: Texts, fixes: Mapping[int, Fix], reading: KernelReading, strict: bool
) -> Iterator[Proposal]:
    """Edits for fixes of one kind that are for the parts of one array, the likeliest first.

    `strict`: there may be more accesses than were read, and only a declaration of rows serves them all.
    """
    (first, fix), *_ = fixes.items()
    array, padding = fix.remedy.tile.array, fix.kind == "padding"
    named = None if strict else _by_name(texts, array, reading)
    if padding and len(array.dims) > 1 and (named is not None or not fix.hinder):
        span = _extent(texts, array)
        if span is not None:
            yield {first: [texts.edit(*span, _longer(texts.within(*span), fix.remedy))]}
    if strict or (padding and (len(array.dims) > 1 or array.dynamic or array.whole is not None)):
        return  # rows of more dimensions are declared, and dynamic memory is the launch's to give
    ways = []
    if len(array.dims) == 1:
        ways.append(_by_pointers(texts, fixes, reading))
    if array.whole is None and named:
        ways.append({first: named})
    made: list[Proposal] = []
    for sites, last in product(ways, (False, True)):
        made.append({n: edits for n in fixes if (edits := _edits(texts, fixes, n, sites, last))})
        if made[-1] not in made[:-1]:
            yield made[-1]


# --- where ----------------------------------------------------------------------------------------------


def _extent(texts: Texts, array: SharedArray) -> tuple[int, tuple[int, int]] | None:
    """The text of an array's declaration, and the bytes of its innermost extent."""
    written = array.declared.written
    if written is None:
        return None
    number, at = texts.offset(written.line, written.column)
    return number, (at + written.extents[-1][0], at + written.extents[-1][1])


def _by_pointers(
    texts: Texts, fixes: Mapping[int, Fix], reading: KernelReading
) -> dict[int, dict[Site, int]]:
    """The subscripts of names by which the part of each fix is accessed, with the bytes of what they name:
    where the array is declared, in macros, and in functions that are called.

    Of a part that is also accessed from elsewhere than its start, none.
    """
    array = next(iter(fixes.values())).remedy.tile.array
    number, opened = texts.offset(array.declared.line, array.declared.column)
    text, starts = texts.given[number], {fix.start: n for n, fix in fixes.items()}
    scope = range(opened + 1, _block_end(text, opened))
    macros = {macro[1]: macro for macro in _MACRO.finditer(text)}
    found: dict[int, dict[Site, int]] = {n: {} for n in fixes}
    names: dict[bytes, dict[int, int]] = {}
    for touch in reading.touches:
        if touch.declared is None or touch.declared.key != array.declared.key:
            continue
        where, at = texts.offset(touch.line, touch.column)
        n = starts.get(touch.base.constant) if touch.base.known else None
        inside, site = where == number and at in scope, texts.site(where, at)
        if n is not None and site is not None and where == number and not inside:
            found[n][site] = touch.width
        elif n is not None and inside:
            word = _WORD.match(text, at)
            macro = macros.get(word[0]) if word is not None else None
            span = macro.span(2) if macro is not None else (at, text.find(b";", at))
            if (name := _NAMED.search(text, *span)) is not None:
                others = [t.width for t in fixes[n].remedy.tile.array.touches]
                width = array.element.bytes if array.element.bytes > 1 else min(others)
                own = names.setdefault(name[1], {})
                own[n] = touch.width if site is not None else own.get(n, width)
        elif inside:
            for fix in fixes.values():
                if touch.offset.high >= fix.start and touch.offset.low < fix.end:
                    starts.pop(fix.start, None)
    bodies = [
        m.span(2) for m in macros.values() if re.search(rb"\b%s\b" % m[1], text[scope.start : scope.stop])
    ]
    for name in _NAMED.finditer(text):
        at = name.start()
        within = at in scope or any(start <= at < end for start, end in bodies)
        site = texts.site(number, at)
        if within and site is not None:
            for n, width in names.get(name[1], {}).items():
                found[n][Site(number, site.spans[:1])] = width
    return {n: found[n] for n in starts.values()}


def _block_end(text: bytes, at: int) -> int:
    """The end of the block that a byte is in, or of the text."""
    depth = 0
    for brace in re.compile(rb"[{}]").finditer(text, at):
        depth += 1 if brace[0] == b"{" else -1
        if depth < 0:
            return brace.start()
    return len(text)


def _by_name(texts: Texts, array: SharedArray, reading: KernelReading) -> dict[Site, int] | None:
    """All places where an array is named with all its subscripts; None where another use is not followed."""
    written = array.declared.written
    sites: dict[Site, int] = {}
    for use in written.uses if written is not None else ():
        number, at = texts.offset(use.line, use.column)
        spots = [at]
        if use.form == MACRO:
            end = _LINE.match(texts.given[number], at)
            name = re.compile(rf"\b{re.escape(array.name)}(?=\s*\[)".encode())
            spots = [m.start() for m in name.finditer(texts.given[number], at, end.end() if end else at)]
        named = (site for spot in spots if (site := texts.site(number, spot)) is not None)
        found = [site for site in named if len(site.spans) >= len(array.dims)]
        seen = use.form == MACRO or (use.line, use.column) in reading.seen
        if not seen or (use.form == MACRO and not found):
            return None
        sites |= dict.fromkeys((Site(number, s.spans[: len(array.dims)]) for s in found), array.element.bytes)
    return sites


# --- what -----------------------------------------------------------------------------------------------


def _edits(
    texts: Texts, fixes: Mapping[int, Fix], number: int, ways: Mapping[int, Mapping[Site, int]], last: bool
) -> list[Edit]:
    """The edits of all sites of a fix, each its first or last form that suits all fixes there; or none."""
    edits = []
    fix = fixes[number]
    for site, width in ways.get(number, {}).items():
        indices = [texts.within(site.text, span) for span in site.spans]
        forms = [_forms(indices, fixes[n].remedy, width) for n, own in ways.items() if site in own]
        both = [form for form in forms[0] if all(form in others for others in forms[1:])]
        if not both or any(_CHANGES.search(index) for index in indices):
            return []
        other = last and (fix.kind == "padding" or len(forms) > 1)
        edits.append(texts.edit(site.text, site.spans[-1], both[-1 if other else 0]))
    if edits and fix.kind == "padding":
        span = _extent(texts, fix.remedy.tile.array)
        if span is None:
            return []
        size = texts.within(*span)
        forms = [_forms([size], fix.remedy, fix.remedy.tile.element_bytes)[:-1]]
        more = f"{_bare(size)} + {fix.remedy.elements - fix.remedy.tile.array.size}"
        edits.append(texts.edit(*span, ([*forms[0], more])[-1 if last else 0]))
    return edits


def _forms(indices: Sequence[str], remedy: Remedy, width: int) -> list[str]:
    """The forms that the last of some indices may take, which counts `width` bytes."""
    tile, by, index = remedy.tile, remedy.by, indices[-1]
    times, rest = divmod(width, tile.element_bytes)
    if rest or times & (times - 1):
        return []
    if not isinstance(by, Swizzle):
        pad, pitch = by // times, tile.pitch // times
        if len(indices) > 1 or by % times or tile.pitch % times:
            return []
        more = "" if pad == 1 else f" * {pad}"
        return [*_with_factors(index, f"({{}} + {pad})"), f"{_bare(index)} + {_bare(index)} / {pitch}{more}"]
    base = by.base - times.bit_length() + 1
    if len(indices) == 1:
        distance, row = 1 << base + by.shift if base >= 0 else 0, index
        divisors = [str(distance), *dict.fromkeys(_FACTOR.findall(index))]
    else:
        columns = tile.pitch.bit_length() - 1
        distance = by.base + by.shift - columns
        if tile.pitch != 1 << columns or distance < 0 or by.base + by.bits > columns:
            return []
        row, count = indices[-2], tile.array.dims[-2]
        if len(indices) > 2 and count % (1 << distance + by.bits):
            if len(indices) > 3:
                return []
            row = f"{_bare(indices[-3])} * {count} + {_bare(row)}"
        divisors = [str(1 << distance)]
    if base < 0:
        return []
    scaled = f" * {1 << base}" if base else ""
    parts = (f"{_bare(row)}{'' if d == '1' else f' / {d}'} % {1 << by.bits}{scaled}" for d in divisors)
    return [f"{_bare(index)} ^ ({part})" for part in parts]


def _with_factors(index: str, form: str) -> Iterator[str]:
    """The index with each of its factors in turn in another form."""
    for factor in _FACTOR.finditer(index):
        yield f"{index[: factor.start()]}{form.format(factor[0])}{index[factor.end() :]}"


def _longer(extent: str, remedy: Remedy) -> str:
    """The extent of rows with their pad."""
    plain = extent.strip()
    if isinstance(remedy.by, int) and re.fullmatch(r"[1-9][0-9]*", plain, re.ASCII):
        return extent.replace(plain, str(int(plain) + remedy.by))
    return extent.replace(plain, f"{_bare(plain)} + {remedy.by}")


def _bare(text: str) -> str:
    """A text that may stand beside an operator."""
    text = text.strip()
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"
