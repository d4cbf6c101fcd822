"""The check of a kernel: the accesses of a CUDA source as it is, read and counted.

    [[kernel]]
    file = "sgemm.cu"
    block = "16x16"
    set = {N = 4096, BM = 128}
    limits = ["ways <= 1", "unread <= 0", "efficiency >= 80%"]

With `compile = true`, accesses that the compiler has joined into vectors are counted so: a kernel without
bank conflicts in its machine code passes where its text alone has some.

Nothing of the source is run.  Where a limit is broken or undecided, the accesses that conflict, that move
more sectors than their bytes need, or that are not read are reported by line.

A limit is undecided while an access that it speaks of is not read, unless a limit on `unread` allows that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from layoutalg.checks.fields import (
    ARCH,
    Evidence,
    Field,
    Kind,
    Reading,
    Values,
    a_file,
    a_name,
    a_text,
    a_truth,
)
from layoutalg.checks.limits import Property, Quantity, by_name
from layoutalg.errors import ArgumentTypeError, ParseError
from layoutalg.source import KernelReading, SourceAccess, Unfollowed, read_kernel, refuse_unread
from layoutalg.testing import Scope, listed

SHARED, GLOBAL, LISTED = "shared", "global", "listed"
SHARED_TOTALS, GLOBAL_TOTALS = "shared totals", "global totals"
"""Scopes of quantities: accesses to a memory space, counted as often as executed, or all that are listed."""

_PLAIN = re.compile(r"(ld|st|red)\.(shared|global)\.\w+(\.\w+)?|(ld|st)matrix[.\w]*|cp\.async\.\d+(:global)?")
"""Instructions that are to one memory space."""

_EXTENTS = re.compile(r"[0-9]{1,10}([xX,][0-9]{1,10}){0,2}", re.ASCII)


def _some_extents(value: Any, reading: Reading) -> tuple[int, ...]:
    """256, "16x16" or [16, 16]."""
    if type(value) is int:
        return (value,)
    if isinstance(value, list) and all(type(part) is int for part in value):
        return tuple(value)
    text = a_text(value, reading).strip()
    if not _EXTENTS.fullmatch(text):
        raise ParseError(f"{text!r} is not one to three numbers", text=text)
    return tuple(int(part) for part in re.split("[xX,]", text))


def _some_values(value: Any, reading: Reading) -> dict[str, int | float | str]:
    if not isinstance(value, dict) or not all(type(part) in (int, float, str) for part in value.values()):
        raise ArgumentTypeError("this is not a table of numbers and texts")
    return value


def _reading(values: Values) -> KernelReading:
    path, text = values["file"]
    reading = read_kernel(
        text, values["block"], grid=values["grid"], sets=values["set"], kernel=values["kernel"],
        arch=values["arch"], folder=str(path.resolve().parent), compiled=values["compile"],
    )  # fmt: skip
    refuse_unread(reading)
    return reading


def _counted(reading: KernelReading, part: str) -> Iterator[SourceAccess]:
    """The accesses of a scope of which every value that is not given leaves the quantity as it is."""
    space, _, totals = part.partition(" ")
    for access in reading.memory:
        mine = access.read and (access.ways is not None) == (space == SHARED)
        if mine and not access.elsewhere and not (access.sizes if totals else access.depends):
            yield access


def _ways(reading: KernelReading) -> int | None:
    return max((access.ways or 1 for access in _counted(reading, SHARED)), default=None)


def _efficiency(reading: KernelReading) -> Fraction | None:
    return min((Fraction(access.efficiency or 0) for access in _counted(reading, GLOBAL)), default=None)


def _unread(reading: KernelReading) -> int:
    return sum(access.reached and not access.read for access in reading.memory) + len(reading.unfollowed)


def _total(reading: KernelReading, part: str) -> int:
    return sum(access.total or 0 for access in _counted(reading, part))


def _ideal(reading: KernelReading) -> int:
    return sum(access.ideal_total or 0 for access in _counted(reading, SHARED_TOTALS))


QUANTITIES = by_name(
    Quantity("accesses", "accesses to shared and global memory", None, lambda r: len(r.memory)),
    Quantity(
        "unread", "accesses that are not read, and parts that are not followed", "less", _unread, LISTED
    ),
    Quantity("wavefronts", "of shared memory", "less", lambda r: _total(r, SHARED_TOTALS), SHARED_TOTALS),
    Quantity("ideal", "the fewest wavefronts", None, _ideal, SHARED_TOTALS),
    Quantity("ways", "the worst access's", "less", _ways, SHARED),
    Quantity("sectors", "of global memory", "less", lambda r: _total(r, GLOBAL_TOTALS), GLOBAL_TOTALS),
    Quantity("efficiency", "the worst access's useful share of bytes moved", "more", _efficiency, GLOBAL),
)
"""The quantities of kernels: of the block at the origin, or of a whole grid where the check has one."""


def _conflicts(reading: KernelReading, _: object) -> str:
    texts = [
        f"{a.op} {a.array} {a.ways}-way ({a.place})" for a in _counted(reading, SHARED) if (a.ways or 1) > 1
    ]
    return f"bank conflicts: {', '.join(texts)}" if texts else ""


_FREE = "every access that may be to shared memory is read, and has no bank conflicts"
PROPERTIES = by_name(Property("conflict-free", _FREE, _conflicts, scope=SHARED, shows="ways"))
"""The properties of kernels."""


# --- what was looked at ------------------------------------------------------------------------------------


def _in_space(access: SourceAccess, space: str) -> bool:
    """Whether an access may be to a memory space; where neither it nor its instruction says, it may."""
    if access.elsewhere:
        return True
    if access.read:
        return (access.ways is not None) == (space == SHARED)
    plain = _PLAIN.fullmatch(access.op)
    return plain is None or access.space == space


def _named(access: SourceAccess) -> str:
    return " ".join((f"{access.place},", *filter(None, (access.op or "an access", access.array))))


def _scope(values: Values, reading: KernelReading, part: str, allowed: bool) -> Scope:
    """Accesses that a limit speaks of: those that are counted, and why others are not."""
    if part == LISTED:
        return Scope("accesses", len(reading.memory) + len(reading.unfollowed))
    space, _, totals = part.partition(" ")
    spaces = (space,) if space else (SHARED, GLOBAL)
    mine = [a for a in reading.memory if any(_in_space(a, space) for space in spaces)]
    unread = [_named(a) for a in mine if not a.read and a.reached]
    idle = [_named(a) for a in mine if not a.reached or (a.read and not a.instructions)]
    sized = [a for a in mine if a.elsewhere or (a.sizes if totals else a.depends if space else ())]
    open_ = [f"{_named(a)} ({', '.join(a.sizes)})" for a in sized]
    parts = [f"{piece.place}, {piece.why}" for piece in reading.unfollowed]
    gaps = [] if allowed else [*_gap(unread, _UNREAD), *_gap(parts, _UNFOLLOWED)]
    gaps += _gap(open_, _OPEN)
    if reading.grid is None:
        gaps += _gap(idle, _IDLE)
    what = f"accesses to {space} memory that are counted" if space else "accesses that are counted"
    left = len(mine) - len(unread) - len(idle) - len(open_)
    return Scope(what, left, tuple(gaps), len(unread) + len(open_) + len(parts))


_UNREAD = "access is not read", "accesses are not read"
_OPEN = tuple(f"{what} on values that are not given" for what in ("access depends", "accesses depend"))
_UNFOLLOWED = "part of the kernel is not followed", "parts of the kernel are not followed"
_IDLE = tuple(
    f"{what} not executed by block (0,0,0), and without the key grid no other block is counted"
    for what in ("access is", "accesses are")
)


def _gap(things: Sequence[str], words: Sequence[str]) -> list[str]:
    """A clause on what was not examined; none where nothing was left out."""
    return [f"{len(things)} {words[len(things) > 1]}: {listed(things)}"] if things else []


def _evidence(reading: KernelReading) -> Iterator[Evidence]:
    """Yield, by line, what a kernel does not do at its best."""
    for access in reading.memory:
        what = f"{access.op} {access.array}".strip() or "an access"
        if not access.reached:
            continue
        if not access.read:
            yield _at(access, f"{what} is not read: {access.why}")
        elif access.ways is not None and access.ways > 1:
            cost = f"{access.total} wavefronts, and {access.ideal_total} without conflicts"
            yield _at(access, f"{what}: {access.ways}-way, {cost}")
        elif access.efficiency is not None and access.efficiency < 1:
            cost = f"{access.total} sectors, and {access.ideal_total} would hold its bytes"
            yield _at(access, f"{what}: {access.efficiency:.1%} efficient, {cost}")
    for part in reading.unfollowed:
        yield _at(part, part.why)


def _at(where: SourceAccess | Unfollowed, what: str) -> Evidence:
    """Evidence at a line of the source, at its first one for the line of a header, which is then named."""
    return Evidence(1, f"{where.place}: {what}") if where.file else Evidence(where.line, what)


_SIZES = 'a number, "16x16" or [16, 16]'

KERNEL = Kind(
    "kernel",
    "what the accesses of a CUDA source cost",
    (
        Field("file", "a CUDA source", a_file, required=True),
        Field("block", f"threads of a block, by default as the source launches: {_SIZES}", _some_extents),
        Field("grid", f"blocks of the grid, to count all of them: {_SIZES}", _some_extents),
        Field("set", "a table of values for names that the source leaves open", _some_values, default={}),
        Field("kernel", "one of the source's kernels", a_name),
        Field("compile", "whether accesses are counted as the compiler joins them", a_truth, default=False),
        ARCH,
    ),
    _reading,
    lambda table: f"{table.get('kernel', 'kernels')} of {table['file']}",
    lambda values: QUANTITIES,
    lambda values: PROPERTIES,
    scope=_scope,
    allows="unread",
    evidence=_evidence,
)
