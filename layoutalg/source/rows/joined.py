"""Accesses that a compiler may join: vectors of neighbours, with their cost.

Accesses are counted as they are written, each an instruction.  A compiler may join neighbours, such as loads
of c[0], c[1], c[2], c[3], where they are at an aligned address in every lane and nothing between them orders
memory; their lanes are then apart by a vector, not by the distance that conflicts.  So accesses that differ
by constants alone, and turns of a loop that step from neighbour to neighbour, are counted in the joined form
too: by the same definition, which refuses an address that is not aligned.  Whether a compiler does it is not
known; the counts of a kernel stay those of its text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from layoutalg.arch import Arch
from layoutalg.errors import LayoutAlgError
from layoutalg.source.costs import Cost, Launch, cost_of, sum_of
from layoutalg.source.machine import Touch
from layoutalg.source.rows.records import Row
from layoutalg.source.terms import Sum, add, constant, scale, variable

VECTOR_BYTES = (16, 8, 4)
"""Bytes per lane of one instruction, the widest first."""

_OP = re.compile(r"(ld|st)\.(shared|global)\.b(\d+)\Z")


class Joined(NamedTuple):
    """The joined form of some accesses: its instruction, what it is called in PTX, and its cost."""

    op: str
    name: str
    cost: Cost

    @property
    def words(self) -> str:
        """A sentence without its subject."""
        unit = "wavefront" if ".shared" in self.op else "sector"
        many = "one" if self.cost.instructions == 1 else f"{self.cost.instructions:,}"
        total = f"{self.cost.total:,} {unit}{'' if self.cost.total == 1 else 's'}"
        return f"counted as written; a compiler may join these into {many} {self.name} of {total}"


def joined_rows(
    touches: Sequence[Touch], fenced: Collection[str], launch: Launch, machine: Arch
) -> Iterator[tuple[Row, Joined]]:
    """The rows of a table whose accesses may be joined, where that changes the ratio to the ideal.

    `touches` are in the order of execution, `fenced` the loops in which something orders memory.
    """
    groups: dict[object, list[Touch]] = {}
    moved: set[tuple[int, str, str]] = set()
    for touch in touches:
        space = "global" if ".global" in touch.op or ":global" in touch.op else touch.array
        moved |= {(touch.epoch, touch.op[:2], touch.array), (touch.epoch, touch.op[:2], space)}
        if not touch.why and touch.align > touch.width and _OP.match(touch.op):
            groups.setdefault(_alike(touch), []).append(touch)
    for group in groups.values():
        if _ordered(group[0], moved):
            continue
        try:
            written = _sum(group, launch, machine)
        except LayoutAlgError:  # its row says why it is not read
            continue
        joined = _by_constants(group, launch, machine) or _by_turns(group, fenced, launch, machine)
        if joined is not None and joined.cost.total * written.ideal != written.total * joined.cost.ideal:
            for touch in group:
                yield (touch.line, touch.column, touch.op, touch.array), joined


def _alike(touch: Touch) -> object:
    """A key that is equal for accesses that differ only by a constant, with no fence between them."""
    declared = touch.declared.key if touch.declared is not None else None
    where = (tuple(c.key for c in touch.conditions), touch.turns, touch.epoch)
    return touch.op, touch.array, declared, Sum(0, touch.offset.parts).key, where


def _ordered(touch: Touch, moved: Collection[tuple[int, str, str]]) -> bool:
    """Whether an access of the other kind, to what may be the same memory, may be between some accesses."""
    other = "st" if touch.op.startswith("ld") else "ld"
    memory = "global" if ".global" in touch.op else touch.array
    return (touch.epoch, other, memory) in moved


def _sum(touches: Sequence[Touch], launch: Launch, machine: Arch) -> Cost:
    """The cost of some accesses together."""
    total = Cost()
    for touch in touches:
        total = sum_of(total, cost_of(touch, launch, machine))
    return total


def _by_constants(group: Sequence[Touch], launch: Launch, machine: Arch) -> Joined | None:
    """The widest vectors that accesses make which differ by constants."""
    width = group[0].width
    places = sorted({touch.offset.constant for touch in group})
    for wide in VECTOR_BYTES:
        count = wide // width
        if count < 2 or wide > group[0].align:
            continue
        runs = [places[at : at + count] for at in range(0, len(places), count)]
        if any(run != list(range(run[0], run[0] + wide, width)) for run in runs):
            continue
        parts = Sum(0, group[0].offset.parts)
        starts = [replace(group[0], offset=add(parts, constant(run[0]))) for run in runs]
        joined = _counted_joined(starts, wide, launch, machine)
        if joined is not None:
            return joined
    return None


def _by_turns(
    group: Sequence[Touch], fenced: Collection[str], launch: Launch, machine: Arch
) -> Joined | None:
    """The widest vectors that the turns of a loop make, which steps from neighbour to neighbour."""
    first = group[0]
    if len({touch.offset.key for touch in group}) > 1:
        return None
    for name, turns in first.turns:
        steps = [(atom, k) for atom, k in first.offset.parts if atom.op == "var" and atom.data == name]
        rest = Sum(first.offset.constant, tuple(p for p in first.offset.parts if p not in steps))
        alone = name not in rest.variables and not any(name in c.variables for c in first.conditions)
        if name in fenced or len(steps) != 1 or steps[0][1] != first.width or not alone:
            continue
        for wide in VECTOR_BYTES:
            count = wide // first.width
            if count < 2 or wide > first.align or turns % count:
                continue
            offset = add(rest, scale(variable(name, 0, turns // count - 1), wide))
            fewer = tuple((n, t // count if n == name else t) for n, t in first.turns)
            joined = _counted_joined(
                [replace(each, offset=offset, turns=fewer) for each in group], wide, launch, machine
            )
            if joined is not None:
                return joined
    return None


def _counted_joined(starts: Sequence[Touch], wide: int, launch: Launch, machine: Arch) -> Joined | None:
    """The cost of vectors; None where a lane is not aligned."""
    head = starts[0].op.rpartition(".")[0]
    op, unit = f"{head}.b{8 * wide}", max(starts[0].width, 4)
    try:
        total = _sum([replace(touch, op=op, width=wide) for touch in starts], launch, machine)
    except LayoutAlgError:
        return None
    return Joined(op, f"{head}.v{wide // unit}.b{8 * unit}" if wide > unit else op, total)
