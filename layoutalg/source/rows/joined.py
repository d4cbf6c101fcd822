"""The accesses that a compiler joins into one of a vector: as it may, or as its machine code says.

The idea.  Accesses are counted as they are written, each an instruction.  A compiler may join neighbours,
such as loads of c[0], c[1], c[2], c[3], where they are at an aligned address in every lane and nothing
between them orders memory; their lanes are then apart by a vector, not by the distance that conflicts.  So
accesses that differ by constants alone, and turns of a loop that step from neighbour to neighbour, are
counted in the joined form too: by the same definition, which refuses an address that is not aligned.

Whether a compiler does it is not known without its code, and the counts stay those of the text.  Its code has
so many instructions of each op at a line.  Where a single choice of forms for the accesses of the line has
these ops, in these proportions, the accesses have these forms.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from layoutalg.arch import Arch
from layoutalg.errors import LayoutAlgError
from layoutalg.source.costs import Cost, Launch, cost_of, sum_of
from layoutalg.source.machine import Touch
from layoutalg.source.rows.records import Row
from layoutalg.source.terms import Sum, add, constant, scale, variable

VECTOR_BYTES = (16, 8, 4)
"""Bytes per lane of one instruction, the widest first."""

MOST_CHOICES = 4096
"""Choices of forms for the accesses of a line that are compared with its code."""

Place: TypeAlias = tuple[str, int]
"""A file, "" for the source itself, and the line on which a statement ends."""

Code: TypeAlias = Mapping[Place, Counter[str]]
"""The number of instructions of each op in the machine code of a kernel, by place."""

_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_OP = re.compile(r"(ld|st)\.(shared|global)\.b(\d+)\Z")


class Joined(NamedTuple):
    """The joined form of some accesses: its op, what it is called in PTX, its cost, and its accesses."""

    op: str
    name: str
    cost: Cost
    touches: tuple[Touch, ...]

    @property
    def words(self) -> str:
        """A sentence without its subject."""
        unit = "wavefront" if ".shared" in self.op else "sector"
        many = "one" if self.cost.instructions == 1 else f"{self.cost.instructions:,}"
        total = f"{self.cost.total:,} {unit}{'' if self.cost.total == 1 else 's'}"
        return f"counted as written; a compiler probably joins these into {many} {self.name} of {total}"


@dataclass(frozen=True, slots=True)
class Joiner:
    """The joined forms of the accesses of a kernel.

    `touches` are in the order of execution, `fenced` the loops in which something orders memory.
    """

    touches: Sequence[Touch]
    fenced: Collection[str]
    launch: Launch
    machine: Arch

    def rows(self) -> Iterator[tuple[Row, Joined]]:
        """The rows of a table whose accesses may be joined, where that changes the ratio to the ideal."""
        for group in self._groups():
            try:
                written = _sum(group, self.launch, self.machine)
            except LayoutAlgError:  # its row says why it is not read
                continue
            joined = next(self._forms(group), None)
            if joined is not None and joined.cost.total * written.ideal != written.total * joined.cost.ideal:
                for touch in group:
                    yield (touch.line, touch.column, touch.op, touch.array), joined

    def _groups(self) -> Iterator[list[Touch]]:
        """Accesses that differ by constants alone, nothing between which orders memory."""
        groups: dict[object, list[Touch]] = {}
        moved: set[tuple[int, str, str]] = set()
        for touch in self.touches:
            space = "global" if ".global" in touch.op or ":global" in touch.op else touch.array
            moved |= {(touch.epoch, touch.op[:2], touch.array), (touch.epoch, touch.op[:2], space)}
            if not touch.why and touch.align > touch.width and _OP.match(touch.op):
                groups.setdefault(_alike(touch), []).append(touch)
        return (group for group in groups.values() if not _ordered(group[0], moved))

    def _forms(self, group: Sequence[Touch]) -> Iterator[Joined]:
        """The vectors that accesses make, the widest first."""
        for wide in VECTOR_BYTES:
            if group[0].width < wide <= group[0].align:
                starts = _by_constants(group, wide) or _by_turns(group, wide, self.fenced)
                joined = _counted_joined(starts, wide, self.launch, self.machine) if starts else None
                if joined is not None:
                    yield joined

    def compiled(
        self, code: Code, place_of: Callable[[Touch], Place]
    ) -> Iterator[tuple[Touch, Counter[str]]]:
        """The accesses in the forms that machine code has, as they are written where it does not decide; each
        with the instructions of its kind at the statements that it is of."""
        grouped = {id(touch): number for number, group in enumerate(self._groups()) for touch in group}
        alike: dict[object, list[Touch]] = {}
        for touch in self.touches:
            alike.setdefault(grouped.get(id(touch), (touch.op, id(touch))), []).append(touch)
        clusters: list[tuple[str, set[Place], list[list[Touch]]]] = []
        for group in alike.values():
            places, members, kind = {place_of(touch) for touch in group}, [group], kind_of(group[0].op)
            for other in [c for c in clusters if c[0] == kind and not places.isdisjoint(c[1])]:
                clusters.remove(other)
                places |= other[1]
                members = other[2] + members
            clusters.append((kind, places, members))
        for kind, places, members in clusters:
            chosen = self._chosen(members, _ops_at(code, places, kind))
            for group, form in zip(members, chosen, strict=True):
                ops = _ops_at(code, {place_of(touch) for touch in group}, kind)
                yield from ((touch, ops) for touch in form)

    def _chosen(self, members: Sequence[Sequence[Touch]], ops: Counter[str]) -> Sequence[Sequence[Touch]]:
        """The only forms of some accesses that have these instructions in these proportions."""
        forms = [
            [list(group), *(list(joined.touches) for joined in self._forms(group) if joined.op in ops)]
            if group[0].align > group[0].width else [list(group)]
            for group in members
        ]  # fmt: skip
        if math.prod(map(len, forms)) > MOST_CHOICES:
            return members
        fitting = [choice for choice in itertools.product(*forms) if _fits(choice, ops)]
        return fitting[0] if len(fitting) == 1 else members


def _fits(choice: Iterable[Sequence[Touch]], ops: Counter[str]) -> bool:
    """Whether accesses have these ops in these proportions."""
    counts: Counter[str] = Counter()
    for touch in itertools.chain.from_iterable(choice):
        counts[touch.op] += math.prod(turns for _, turns in touch.turns)
    total, compiled = counts.total(), ops.total()
    return all(counts[op] * compiled == ops[op] * total for op in {*counts, *ops})


def kind_of(op: str) -> str:
    """An op without the width that a compiler may change.

    >>> kind_of("ld.shared.b32"), kind_of("ldmatrix.x4"), kind_of("cp.async.16:global")
    ('ld.shared', 'ldmatrix.x4', 'cp.async.16')
    """
    plain = _OP.match(op)
    return f"{plain[1]}.{plain[2]}" if plain else op.partition(":")[0]


def statement_ends(text: str) -> list[int]:
    r"""The lines on which a statement of a text ends, or its head: its instructions may be of any of its own.

    >>> statement_ends('a[i] = 0;\nasm(";"\n);')
    [1, 3]
    """
    lines = _QUOTED.sub('""', text).splitlines()
    return [number for number, line in enumerate(lines, 1) if re.search("[;{}]", line)]


def statement_end(ends: Sequence[int], line: int) -> int:
    """The line on which the statement of a line ends."""
    at = bisect.bisect_left(ends, line)
    return ends[at] if at < len(ends) else line


def _ops_at(code: Code, places: Iterable[Place], kind: str) -> Counter[str]:
    """The instructions of a kind in the machine code of some statements."""
    total: Counter[str] = Counter()
    for place in places:
        total.update({op: count for op, count in code.get(place, {}).items() if kind_of(op) == kind})
    return total


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


def _by_constants(group: Sequence[Touch], wide: int) -> list[Touch]:
    """The vectors that accesses make which differ by constants; none where they do not."""
    width = group[0].width
    count = wide // width
    places = sorted({touch.offset.constant for touch in group})
    runs = [places[at : at + count] for at in range(0, len(places), count)]
    if any(run != list(range(run[0], run[0] + wide, width)) for run in runs):
        return []
    parts = Sum(0, group[0].offset.parts)
    return [replace(group[0], offset=add(parts, constant(run[0]))) for run in runs]


def _by_turns(group: Sequence[Touch], wide: int, fenced: Collection[str]) -> list[Touch]:
    """The vectors that the turns of a loop make, which steps from neighbour to neighbour; none elsewhere."""
    first = group[0]
    count = wide // first.width
    if len({touch.offset.key for touch in group}) > 1:
        return []
    for name, turns in first.turns:
        steps = [(atom, k) for atom, k in first.offset.parts if atom.op == "var" and atom.data == name]
        rest = Sum(first.offset.constant, tuple(p for p in first.offset.parts if p not in steps))
        alone = name not in rest.variables and not any(name in c.variables for c in first.conditions)
        if name in fenced or len(steps) != 1 or steps[0][1] != first.width or not alone or turns % count:
            continue
        offset = add(rest, scale(variable(name, 0, turns // count - 1), wide))
        fewer = tuple((n, t // count if n == name else t) for n, t in first.turns)
        return [replace(each, offset=offset, turns=fewer) for each in group]
    return []


def _counted_joined(starts: Sequence[Touch], wide: int, launch: Launch, machine: Arch) -> Joined | None:
    """The cost of vectors; None where a lane is not aligned."""
    head = starts[0].op.rpartition(".")[0]
    op, unit = f"{head}.b{8 * wide}", max(starts[0].width, 4)
    touches = tuple(replace(touch, op=op, width=wide) for touch in starts)
    try:
        total = _sum(touches, launch, machine)
    except LayoutAlgError:
        return None
    return Joined(op, f"{head}.v{wide // unit}.b{8 * unit}" if wide > unit else op, total, touches)
