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
from layoutalg.source.front import LINES
from layoutalg.source.machine import Touch
from layoutalg.source.rows import KernelReading
from layoutalg.source.terms import Sum, compare, constant, either


class Edit(NamedTuple):
    """A change of a text: at a line and column (in bytes), `before` becomes `after`.

    `file` is the path of a header, "" for the source itself.
    """

    file: str
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
            reasons[f"line {use.line % LINES}, {use.form}: {use.text}"] = None
        elif (use.line, use.column) not in reading.seen:
            reasons[f"line {use.line % LINES} is not read: {use.text}"] = None
    named = {(use.line, use.column) for use in written.uses}
    for line, _ in sorted(set(array.declared.references) - named):
        reasons[f"line {line % LINES}, a macro names it"] = None
    for touch in (*array.touches, *array.unread):
        if not _inside(touch, len(array.dims), launch, machine):
            reasons[f"line {touch.line % LINES}, an index may be past the end of a row"] = None
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


def rewriting(array: SharedArray, pitch: int, elements: int, hinder: Sequence[str]) -> tuple[str, ...]:
    """The accesses that an index function asks to be rewritten, and what else knows where elements are.

    `elements` are those that the array then has; rows are of `pitch` elements as they are declared or read.
    """
    name, inner = array.name, array.dims[1:]
    larger = elements > array.size and not array.dynamic
    whole = (array.whole or array).size + elements - array.size
    head = f"declare it as {name}[{whole}] and write " if larger else "write "
    if inner:
        index = "".join(f"[{axis}]" for axis in "ijkl"[: len(inner)])
        row = _row(inner)
        base = name if larger else f"(&{name}{'[0]' * len(array.dims)})"
        to = f"{name}{index}[col] as {base}[{name}_index({row}, col)]"
    else:
        start = array.start
        at, base = (f"(i - {start})", f"{start} + ") if start else ("i", "")
        to = f"{name}[i] as {name}[{base}{array.function}({at} / {pitch}, {at} % {pitch})]"
    lines = sorted({touch.line % LINES for touch in (*array.touches, *array.unread)})
    words = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    more = elements - array.size
    behind = (f"what is behind it in {name}: {more} elements later",) if array.whole and more else ()
    return (f"{head}{to}, in {words}", *behind, *(hinder or _others(array)))


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
            yield f"line {use.line % LINES}, {use.form}: {use.text}"
