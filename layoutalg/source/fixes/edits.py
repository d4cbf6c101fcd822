"""Edits of a text that give a shared array another layout.

The idea.  One edit of the declaration is enough for a padding where each use of the array is an element,
named with all its dimensions, and where no inner index leaves its dimension (`hindrances` has none).
Everything else, and every swizzle, has accesses that must be rewritten: these are named by line, with what
else knows where elements are.  The number of bytes is held against the limits of the architecture.

Sources.  CUDA C++ Programming Guide, "Compute Capabilities": static and dynamic shared memory per block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from layoutalg.arch import Arch
from layoutalg.errors import LayoutAlgError
from layoutalg.source.costs import Launch, cost_of
from layoutalg.source.front import LINES, Declaration, Type
from layoutalg.source.machine import Touch
from layoutalg.source.rows import KernelReading
from layoutalg.source.terms import Sum, compare, constant, either


class Edit(NamedTuple):
    """A change of the text: at a line and column (in bytes), `before` becomes `after`."""

    line: int
    column: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A shared array: its declaration, and its accesses, those that are not read (`unread`) apart.

    `dims` are its extents, the first 0 where the launch gives it; elements are what the innermost one counts.
    """

    declared: Declaration
    touches: tuple[Touch, ...]
    unread: tuple[Touch, ...]
    dims: tuple[int, ...]
    element: Type

    @property
    def name(self) -> str:
        """The name in the source."""
        return self.declared.name

    @property
    def dynamic(self) -> bool:
        """Whether the launch gives its size."""
        return bool(self.dims) and self.dims[0] == 0

    @property
    def reach(self) -> int:
        """Elements from its start to the end of the last access that was read."""
        return -(-max((t.offset.high + t.width for t in self.touches), default=0) // self.element.bytes)

    @property
    def size(self) -> int:
        """Elements, of a dynamic array those that are reached."""
        return self.reach if self.dynamic else prod(self.dims)


def shared_array(reading: KernelReading, declared: Declaration) -> SharedArray:
    """The array of a declaration, with all accesses of the reading to it."""
    dims, kind = [], declared.type
    while kind.kind == "array" and kind.to is not None:
        dims.append(kind.extent)
        kind = kind.to

    def own(touches: Sequence[Touch]) -> tuple[Touch, ...]:
        return tuple(t for t in touches if t.declared is not None and t.declared.key == declared.key)

    return SharedArray(declared, own(reading.touches), own(reading.unread), tuple(dims), kind)


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


# --- memory ---------------------------------------------------------------------------------------------


def static_bytes(reading: KernelReading, declared: Declaration) -> int:
    """The most static shared memory of a kernel that has the declaration."""
    kernels = (own for own in reading.together if any(d.key == declared.key for d in own))
    return max((sum(_up(d.type.bytes, d.type.align) for d in own) for own in kernels), default=0)


def _up(nbytes: int, align: int) -> int:
    return -(-nbytes // align) * align


def past_limit(array: SharedArray, reading: KernelReading, machine: Arch, more: int, dynamic: int) -> str:
    """The reason why `more` static bytes, or `dynamic` bytes of the launch, do not fit; "" where they do."""
    static = static_bytes(reading, array.declared) + (0 if array.dynamic else more)
    if not array.dynamic:
        limit = machine.static_shared_bytes_per_block
        if more and static > limit:
            return f"{static:,} bytes of static shared memory, and at most {limit:,} compile"
        return ""
    limit = machine.max_shared_bytes_per_block
    if static + dynamic > limit:
        most = f"a block of {machine.name} has at most {limit:,}"
        return f"{static + dynamic:,} bytes of shared memory, and {most}"
    return ""


def same_memory(array: SharedArray, reading: KernelReading) -> tuple[str, ...]:
    """Other arrays of the launch's memory, in a kernel that has this one: they start where it starts."""
    if not array.dynamic:
        return ()
    kernels = (own for own in reading.together if any(d.key == array.declared.key for d in own))
    others = {d.name for own in kernels for d in own if d.type.kind == "array" and d.type.extent == 0
              and d.key != array.declared.key}  # fmt: skip
    return tuple(sorted(others))
