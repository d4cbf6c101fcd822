"""Edits of a text that give a shared array another layout.

The idea.  One edit of the declaration is enough for a padding where each use of the array is an element,
named with all its dimensions, and where no inner index leaves its dimension (`hindrances` has none).
Everything else, and every swizzle, has accesses that must be rewritten: these are named by line, with what
else knows where elements are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from layoutalg.arch import Arch
from layoutalg.errors import LayoutAlgError
from layoutalg.source.costs import Launch, cost_of
from layoutalg.source.fixes.arrays import SharedArray
from layoutalg.source.front import LINES, Declaration
from layoutalg.source.machine import Touch
from layoutalg.source.rows import KernelReading
from layoutalg.source.terms import Sum, compare, constant, either


class Edit(NamedTuple):
    """A change of the text: at a line and column (in bytes), `before` becomes `after`."""

    line: int
    column: int
    before: str
    after: str


# --- one edit, or accesses to rewrite -------------------------------------------------------------------


def hindrances(array: SharedArray, reading: KernelReading, launch: Launch, machine: Arch) -> tuple[str, ...]:
    """Uses that keep an edit of the declaration from being enough, by line; () where it is enough."""
    written = array.declared.written
    if len(array.dims) < 2 or array.dynamic:
        return ()
    if written is None:
        return ("its declaration is not written in this file",)
    reasons: dict[str, None] = {}
    for use in written.uses:
        if use.form:
            reasons[f"line {use.line}, {use.form}: {use.text}"] = None
        elif (use.line, use.column) not in reading.seen:
            reasons[f"line {use.line} is not read: {use.text}"] = None
    named = {(use.line, use.column) for use in written.uses}
    for line, _ in sorted(set(array.declared.references) - named):
        reasons[f"line {line}, a macro names it"] = None
    for touch in (*array.touches, *array.unread):
        if not _inside(touch, len(array.dims), launch, machine):
            reasons[f"line {touch.line}, an index may be past the end of a row"] = None
    return tuple(reasons)


def _inside(touch: Touch, dims: int, launch: Launch, machine: Arch) -> bool:
    """Whether the subscripts of an access, but the first, are proved to stay in their dimensions."""
    if len(touch.inner) != dims:
        return False
    for index, extent in touch.inner[1:]:
        if index.low < 0 or index.high >= extent:
            outside = _outside(index, extent)
            try:
                wild = replace(touch, conditions=(*touch.conditions, outside), why="")
                if cost_of(wild, launch, machine).instructions:
                    return False
            except LayoutAlgError:
                return False
    return True


def _outside(index: Sum, extent: int) -> Sum:
    return either(compare("<", index, constant(0)), compare(">=", index, constant(extent)))


def padding_edit(array: SharedArray, pad: int) -> Edit | None:
    """The edit of the declaration that makes each row longer by `pad` elements."""
    written = array.declared.written
    if written is None:
        return None
    start, end = written.extents[-1]
    text = written.text.encode()
    before = text[start:end].decode()
    plain = before.strip()
    after = str(int(plain) + pad) if plain.isascii() and plain.isdecimal() and plain[0] != "0" else (
        f"{plain} + {pad}" if plain.isidentifier() else f"({plain}) + {pad}"
    )  # fmt: skip
    above = text[:start]
    line = written.line + above.count(b"\n")
    column = start - above.rfind(b"\n") if b"\n" in above else written.column + start
    return Edit(line, column, before, after)


def edited(declared: Declaration, edits: Sequence[Edit]) -> str:
    """The statement of a declaration with some edits, on one line."""
    written = declared.written
    if written is None:
        return ""
    lines = written.text.encode().split(b"\n")
    for edit in sorted(edits, reverse=True):
        row = edit.line - written.line
        if 0 <= row < len(lines):
            at = edit.column - (written.column if row == 0 else 1)
            lines[row] = lines[row][:at] + edit.after.encode() + lines[row][at + len(edit.before.encode()) :]
    return " ".join(line.decode().strip() for line in lines)


def rewriting(array: SharedArray, pitch: int, elements: int, hinder: Sequence[str]) -> tuple[str, ...]:
    """The accesses that an index function asks to be rewritten, and what else knows where elements are.

    `elements` are those that the array then has; rows are of `pitch` elements as they are declared or read.
    """
    name, inner = array.name, array.dims[1:]
    larger = elements > array.size and not array.dynamic
    head = f"declare it as {name}[{elements}] and write " if larger else "write "
    if inner:
        index = "".join(f"[{axis}]" for axis in "ijkl"[: len(inner)])
        row = _row(inner)
        base = name if larger else f"(&{name}{'[0]' * len(array.dims)})"
        to = f"{name}{index}[col] as {base}[{name}_index({row}, col)]"
    else:
        to = f"{name}[i] as {name}[{name}_index(i / {pitch}, i % {pitch})]"
    lines = sorted({touch.line % LINES for touch in (*array.touches, *array.unread)})
    words = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    return (f"{head}{to}, in {words}", *(hinder or _others(array)))


def _row(inner: Sequence[int]) -> str:
    """The number of a row, of the indices in front of the last one."""
    row = "i"
    for axis, extent in zip("jkl", inner[:-1], strict=False):
        row = f"({row}) * {extent} + {axis}" if "+" in row else f"{row} * {extent} + {axis}"
    return row


def _others(array: SharedArray) -> Iterator[str]:
    """The uses of an array other than uses of its elements."""
    written = array.declared.written
    for use in written.uses if written is not None else ():
        if use.form:
            yield f"line {use.line}, {use.form}: {use.text}"
