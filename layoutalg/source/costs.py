"""The cost of an access: warps, turns and blocks sorted by what decides the cost, one of each sort counted.

The idea.  An address is a sum; conditions are comparisons of sums.  Of a value that does not depend on the
thread (the turn of a loop, the number of a block) only this matters:

    in the address, as a summand     its remainder modulo a sector (global) or the width of a lane (shared)
    in a comparison, as a summand    where it lies between the least and the greatest value of the rest
    anywhere else                    its value

Turns and blocks that agree in these are one class.  A loop whose turns only shift the address is not gone
through at all: its remainders follow from its step.  Each class is counted by the definition
(layoutalg.analysis), for all warps of a block.  Every count is equal to the enumerated one, turn by turn and
block by block (`enumerated=True`).

Accesses are counted as they are written, each an instruction.  A compiler may join neighbours, such as loads
of c[0], c[1], c[2], c[3], where they are at an aligned address in every lane and nothing between them orders
memory; their lanes are then apart by a vector, not by the distance that conflicts.  So accesses that differ
by constants alone, and turns of a loop that step from neighbour to neighbour, are counted in the joined form
too: by the same definition, which refuses an address that is not aligned.  Whether a compiler does it is not
known; the counts of a kernel stay those of its text.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from layoutalg.analysis import batch_lanes, served_batch, traffic_batch, warp_rule
from layoutalg.arch import Arch, Instruction, find_instruction
from layoutalg.errors import LayoutAlgError, ResourceError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.source.machine import Bound, Touch
from layoutalg.source.terms import (
    MOST_VALUE,
    SIZE,
    ZERO,
    Atom,
    Sum,
    add,
    atoms_of,
    constant,
    scale,
    sizes,
    substitute,
    unwrapped,
    values,
    variable,
    widest,
)

_CHUNK = 1 << 19
LANE_NAMES = frozenset({"x", "y", "z", "thread"})


class Cost(NamedTuple):
    """Warp instructions; wavefronts or sectors, and the fewest; distinct useful bytes.

    `worst` are the wavefronts, the ideal below zero, and the ways of the worst instruction past its ideal.
    """

    instructions: int = 0
    total: int = 0
    ideal: int = 0
    worst: tuple[int, int, int] = (0, 0, 1)
    useful_bytes: int = 0

    @property
    def ways(self) -> int:
        """The n of n-way conflict: words that a bank of the worst instruction serves in a phase; else 1."""
        return self.worst[2]


@dataclass(slots=True)
class Launch:
    """The threads of a block, and the blocks that are counted."""

    block: tuple[int, int, int]
    grid: tuple[int, int, int] | None

    @property
    def threads(self) -> dict[str, Any]:
        """Numbers of all threads, in the order of warps."""
        import numpy as np

        x, y, z = self.block
        thread = np.arange(x * y * z)
        return {"x": thread % x, "y": thread // x % y, "z": thread // (x * y), "thread": thread}

    @property
    def blocks(self) -> dict[str, int]:
        """Extents of the numbers of blocks that are counted."""
        return dict(zip(("bx", "by", "bz"), self.grid or (1, 1, 1), strict=True))


def cost_of(touch: Touch, launch: Launch, machine: Arch, *, enumerated: bool = False) -> Cost:
    """The cost of an access over all turns of its loops, in one block or in all blocks of the grid.

    Raises AlignmentError for lanes that are not aligned, ResourceError for more classes than are counted.
    """
    rule = find_instruction(touch.op.replace("atom.", "st."), machine)
    warp_rule(rule.name, rule.space, machine)
    turns = dict(touch.turns) | launch.blocks
    if any(c.known and not c.constant for c in touch.conditions) or 0 in turns.values():
        return Cost()
    _check(touch)
    uniform = _Uniform(touch, turns, launch, _period(rule, machine), enumerated)
    out = Cost()
    for env, counts, times in uniform.classes():
        part = _counted(touch, rule, machine, launch, env, counts)
        out = sum_of(out, Cost(part.instructions * times, part.total * times, part.ideal * times, part.worst,
                               part.useful_bytes * times))  # fmt: skip
    return out


def _check(touch: Touch) -> None:
    """Refuse numbers that 64-bit arithmetic might not hold."""
    most = widest(touch.offset, *touch.conditions)
    if most >= MOST_VALUE:
        raise ResourceError("magnitude that a number in an index may reach", most, MOST_VALUE - 1)


def sum_of(a: Cost, b: Cost) -> Cost:
    """The sum of two costs."""
    return Cost(a.instructions + b.instructions, a.total + b.total, a.ideal + b.ideal, max(a.worst, b.worst),
                a.useful_bytes + b.useful_bytes)  # fmt: skip


class _Uniform:
    """The turns and blocks of an access, sorted into classes."""

    def __init__(
        self, touch: Touch, turns: dict[str, int], launch: Launch, period: int, enumerated: bool
    ) -> None:
        self.touch, self.turns, self.period = touch, turns, period
        self.launch = launch
        inside: set[str] = set()
        for condition in touch.conditions:
            inside |= condition.variables
        shifts: dict[str, int] = {}
        for atom, k in touch.offset.parts:
            if atom.op == "var" and atom.data in turns:
                shifts[atom.data] = k
            else:
                inside |= atom.variables
        if enumerated:
            inside |= set(turns)
        self.shifting = {n: k for n, k in shifts.items() if n not in inside}
        self.inside = [n for n in turns if n in inside]
        self.idle = math.prod(turns[n] for n in turns if n not in inside and n not in self.shifting)
        self.enumerated = enumerated

    def classes(self) -> Iterator[tuple[dict[str, Any], Any, int]]:
        """Yield (values of the variables, the turns and blocks that each represents, a factor for all).

        Arrays are of limited length; "shift" is added to the address.
        """
        import numpy as np

        remainders = self._remainders()
        total = math.prod(self.turns[n] for n in self.inside)
        threads = math.prod(self.launch.block)
        if self.enumerated:  # all are kept, of whole warps
            Most.LANES.guard(total * max(threads, 32), "lanes of an access that are enumerated")
        else:
            Most.BLOCKS.guard(total, "turns and blocks that an access tells apart")
        keys, counts = self._representatives(total)
        Most.LANES.guard(len(keys) * len(remainders) * threads, "lanes of an access that are looked at")
        rows = max(1, _CHUNK // threads)
        for shift, times in remainders:
            for at in range(0, len(keys), rows):
                chosen = keys[at : at + rows]
                env = self._digits(chosen)
                env["shift"] = np.full(len(chosen), shift)
                yield env, counts[at : at + rows], times * self.idle

    def _digits(self, combination: Any) -> dict[str, Any]:
        env: dict[str, Any] = {}
        for n in self.inside:
            env[n] = combination % self.turns[n]
            combination = combination // self.turns[n]
        return env

    def _remainders(self) -> list[tuple[int, int]]:
        """Pairs (shift modulo the period, count) over the loops and blocks that only shift the address."""
        tally = {0: 1}
        for n, k in self.shifting.items():
            cycle = self.period // math.gcd(self.period, k)
            each, rest = divmod(self.turns[n], cycle)
            fresh: dict[int, int] = {}
            for (before, times), turn in itertools.product(tally.items(), range(min(cycle, self.turns[n]))):
                here = each + (turn < rest)
                if here:
                    at = (before + k * turn) % self.period
                    fresh[at] = fresh.get(at, 0) + times * here
            tally = fresh
        return sorted(tally.items())

    def _representatives(self, total: int) -> tuple[Any, Any]:
        """The number of a combination of each class, and the size of the class."""
        import numpy as np

        every = np.arange(total)
        if self.enumerated or total == 1:
            return every, np.ones(total, dtype=np.int64)
        env = self._digits(every)
        known: dict[int, Any] = {}
        columns: list[Any] = []
        own = Sum(0, tuple((a, k) for a, k in self.touch.offset.parts if not self._is_shift(a)))
        self._column_of(own, columns, env, known, lambda u, _: u % self.period)
        for condition in self.touch.conditions:
            self._column_of(condition, columns, env, known, None)
        if not columns:
            return every[:1], np.array([total])
        rows = np.stack([np.broadcast_to(c, total) for c in columns], axis=1)
        _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
        return first, counts

    def _is_shift(self, atom: Atom) -> bool:
        return atom.op == "var" and atom.data in self.shifting

    def _column_of(
        self, total: Sum, columns: list[Any], env: dict[str, Any], known: dict[int, Any], rule: Any
    ) -> None:
        """Add the parts of a sum that distinguish turns and blocks: uniform summands, also inside others."""
        if not total.variables & set(self.inside):
            return
        alone = tuple((a, k) for a, k in total.parts if not a.variables & LANE_NAMES)
        mixed = tuple((a, k) for a, k in total.parts if a.variables & LANE_NAMES)
        if alone:
            u = values(Sum(0, alone), env, known)
            columns.append(rule(u, total) if rule is not None else u)
        for atom, _ in mixed:
            if not atom.variables & set(self.inside):
                continue
            if atom.op == "nonneg":
                inner = atom.args[0]
                rest = Sum(inner.constant, tuple((a, k) for a, k in inner.parts if a.variables & LANE_NAMES))
                clip = _clipped(rest)
                self._column_of(inner, columns, env, known, clip)
            elif atom.op == "zero":
                inner = atom.args[0]
                rest = Sum(inner.constant, tuple((a, k) for a, k in inner.parts if a.variables & LANE_NAMES))
                self._column_of(inner, columns, env, known, _clipped(rest))
            else:
                for arg in atom.args:
                    self._column_of(arg, columns, env, known, None)


def _clipped(rest: Sum) -> Any:
    """The function that clips u to the range in which u + rest may lie on either side of zero."""
    import numpy as np

    return lambda u, _: np.clip(u, -rest.high - 1, -rest.low + 1)


def _counted(
    touch: Touch, rule: Instruction, machine: Arch, launch: Launch, env: dict[str, Any], counts: Any
) -> Cost:
    """The cost of some classes: every warp of a block by the definition."""
    import numpy as np

    lanes = machine.lanes
    threads = math.prod(launch.block)
    rows = len(counts)
    wide = {n: v[:, None] for n, v in env.items()} | launch.threads
    known: dict[int, Any] = {}
    mask = np.ones((rows, threads), dtype=bool)
    for condition in touch.conditions:
        mask &= np.broadcast_to(np.asarray(values(condition, wide, known)) != 0, mask.shape)
    fixed = {n: np.zeros(1, dtype=np.int64) for n in touch.offset.variables if n not in wide}
    offsets = np.asarray(values(touch.offset, wide | fixed, known)) + wide["shift"]
    offsets = np.broadcast_to(offsets, mask.shape)
    warps = -(-threads // lanes)
    padded = warps * lanes - threads
    offsets = np.pad(offsets, ((0, 0), (0, padded))).reshape(rows * warps, lanes)
    mask = np.pad(mask, ((0, 0), (0, padded))).reshape(rows * warps, lanes)
    active = mask.any(axis=1)
    if not active.any():
        return Cost()
    times = np.repeat(counts, warps)[active]
    offsets, mask = offsets[active], mask[active]
    lowest = int(np.where(mask, offsets, MOST_VALUE).min())
    if lowest < 0:  # from before the start of the array: shifted by whole lines, which changes nothing
        offsets = offsets + (-lowest // machine.line_bytes + 1) * machine.line_bytes
    checked = batch_lanes(rule, machine, np.where(mask, offsets, 0), mask)
    if rule.space == "shared":
        taken, ideal, ways = served_batch(rule, machine, *checked)
        worst = _worst(taken, ideal, ways)
        return Cost(int(times.sum()), int((taken * times).sum()), int((ideal * times).sum()), worst)
    moved = traffic_batch(rule, machine, *checked)
    if touch.op.startswith("atom."):  # on words of their own, lanes ask for the sectors that stores ask for
        words = np.sort(np.where(mask, offsets, MOST_VALUE + np.arange(lanes)), axis=1)
        if (words[:, 1:] == words[:, :-1]).any():
            raise UnsupportedError("lanes of an atomic operation meet on one word, and take turns there that "
                                   "are not counted")  # fmt: skip
    fewest = -(-moved[:, 2] // machine.sector_bytes)
    return Cost(
        int(times.sum()), int((moved[:, 0] * times).sum()), int((fewest * times).sum()),
        useful_bytes=int((moved[:, 2] * times).sum()),
    )  # fmt: skip


def _worst(taken: Any, ideal: Any, ways: Any) -> tuple[int, int, int]:
    """`Cost.worst` of some instructions: that of `layoutalg.analysis.worst_rank`."""
    import numpy as np

    past = np.flatnonzero(taken > ideal)
    if not past.size:
        return (0, 0, 1)
    most = past[taken[past] == taken[past].max()]
    least = most[ideal[most] == ideal[most].min()]
    return int(taken[least[0]]), -int(ideal[least[0]]), int(ways[least].max())


def lane_variables(block: tuple[int, int, int]) -> tuple[Sum, Sum, Sum]:
    """Numbers of a thread along x, y and z."""
    return tuple(variable(n, 0, extent - 1) for n, extent in zip("xyz", block, strict=True))  # type: ignore[return-value]


# --- numbers that are not given ----------------------------------------------------------------------------

TAKEN = 1024
"""The value that is taken for a size that is not given: a multiple of every tile, and past each thread."""

MOST_TAKEN = 32
"""Assignments of values that are tried for an access."""


class Sized(NamedTuple):
    """The cost of an access with a value for each number that is not given, its touches with these values.

    `sizes` are the numbers that decide how often it is executed, or what it costs; with other values of what
    it `depends` on, the ways or the efficiency may be others.
    """

    cost: Cost
    touches: list[Touch]
    taken: dict[str, int]
    sizes: tuple[str, ...]
    depends: tuple[str, ...]


class Open:
    """Numbers that are not given: the bounds of their values, and the loops whose turns they decide.

    The idea.  Such a number is alike in all lanes.  As a summand of an address it shifts all of them, which
    changes nothing where it is a multiple of the period.  In a condition it turns lanes off, which adds to
    no instruction.  So where an address has it in no other way, and an access to shared memory has as many
    ways with the values that are taken as with all of its lanes, it has no more with any others.
    """

    def __init__(self, ranges: Mapping[str, tuple[int, int]], bounds: Mapping[str, Bound]) -> None:
        self.ranges, self.bounds = ranges, bounds
        self.of = {SIZE + name: {name} for name in ranges}
        self.of |= {turn: set(sizes(bound.count)) for turn, bound in bounds.items()}

    def names_in(self, *sums: Sum) -> set[str]:
        """The numbers on which sums depend, by the turns of loops too."""
        return {name for each in sums for v in each.variables for name in self.of.get(v, ())}

    def sized(
        self, touches: Sequence[Touch], machine: Arch, count: Callable[[Sequence[Touch]], Cost]
    ) -> Sized:
        """The cost of an access by its touches, with the first values with which it is at its worst.

        Raises UnsupportedError where no thread comes to it with any of those that are tried.
        """
        names = sorted(set().union(*(self._all_names(touch) for touch in touches)))
        if not names:
            return Sized(count(touches), list(touches), {}, (), ())
        rule = find_instruction(touches[0].op, machine)
        period, shared = _period(rule, machine), rule.space == "shared"
        moving = set().union(*(self._moving(touch, period) for touch in touches))
        masking = set().union(*(self.names_in(*self._deciding(touch, shared)) for touch in touches))
        every = moving.union(*(self._times(touch) for touch in touches))
        best: Sized | None = None
        failed: LayoutAlgError | None = None
        for taken in itertools.islice(self._assignments(names, touches), MOST_TAKEN):
            try:
                own = [self.with_values(touch, taken) for touch in touches]
                cost = count(own)
                full = cost.ways == count([self._full(*pair) for pair in zip(touches, own, strict=True)]).ways
            except LayoutAlgError as error:
                failed = failed or error
                continue
            if cost.instructions and (full or best is None):
                depends = moving if shared and full else moving | masking
                best = Sized(cost, own, taken, tuple(sorted(every)), tuple(sorted(depends)))
            if cost.instructions and full:
                break
        if best is None:
            raise failed or UnsupportedError(f"whether a thread comes to it depends on {', '.join(names)}")
        return best

    def with_values(self, touch: Touch, taken: Mapping[str, int]) -> Touch:
        """A touch with values for the numbers that are not given.

        Raises UnsupportedError where these would divide by zero, or end a loop by a number past its type.
        """
        by = {SIZE + name: constant(value) for name, value in taken.items()}
        turns = []
        for name, most in touch.turns:
            if (bound := self.bounds.get(name)) is not None:
                most = max(substitute(bound.count, by).high, 0)
                exact = [substitute(each, by | {name: variable(name, 0, most)}) for each in bound.exact]
                if any(each.key != unwrapped(each).key for each in exact):
                    raise UnsupportedError("a number that ends its loop may leave its type")
                by[name] = variable(name, 0, max(most - 1, 0))
            turns.append((name, most))
        offset, *conditions = (substitute(each, by) for each in (touch.offset, *touch.conditions))
        for atom in atoms_of(offset, *conditions):
            if atom.op == "quot" and atom.args[1].low <= 0 <= atom.args[1].high:
                raise UnsupportedError("it depends on a division by a number that may be zero")
        inner = tuple((substitute(index, by), extent) for index, extent in touch.inner)
        return replace(touch, offset=offset, conditions=tuple(conditions), turns=tuple(turns), inner=inner)

    def _all_names(self, touch: Touch) -> set[str]:
        return self._times(touch) | self.names_in(touch.offset)

    def _times(self, touch: Touch) -> set[str]:
        """The numbers that decide how often, and by which lanes, an access is executed."""
        turns = (self.of.get(name, set()) for name, _ in touch.turns)
        return self.names_in(*touch.conditions).union(*turns)

    def _moving(self, touch: Touch, period: int) -> set[str]:
        """The numbers that an address has in another way than as a summand of multiples of the period."""
        offset = unwrapped(touch.offset)
        parts = (
            Sum(0, ((atom, k),)) for atom, k in offset.parts if atom.variables & LANE_NAMES or k % period
        )
        return self.names_in(*parts)

    def _deciding(self, touch: Touch, every: bool) -> list[Sum]:
        """The conditions that depend on them, all or those that turn off a part of the lanes."""
        return [c for c in touch.conditions if self.names_in(c) and (every or c.variables & LANE_NAMES)]

    def _full(self, touch: Touch, own: Touch) -> Touch:
        """A touch of all lanes for which the conditions hold that depend on nothing that is not given."""
        pairs = zip(touch.conditions, own.conditions, strict=True)
        return replace(own, conditions=tuple(c for was, c in pairs if not self.names_in(was)))

    def _assignments(self, names: Sequence[str], touches: Sequence[Touch]) -> Iterator[dict[str, int]]:
        """Values for names: sizes first, then small ones, then those at which conditions change."""
        changes: dict[str, set[int]] = {name: set() for name in names}
        for atom in atoms_of(*(c for touch in touches for c in touch.conditions)):
            inner = atom.args[0] if atom.op in ("zero", "nonneg") else ZERO
            for (part, k), *others in [inner.parts] if inner.parts else []:
                if not others and part.op == "var" and str(part.data)[1:] in changes:
                    at = -inner.constant // k
                    changes[str(part.data)[1:]] |= {at - 1, at, at + 1}
        for value in (TAKEN, TAKEN << 6, TAKEN >> 3, 1, 0):
            yield {name: self._within(name, value) for name in names}
        for name in names:
            for value in (0, 1, 2, *sorted(changes[name])):
                yield {other: self._within(other, value if other == name else TAKEN) for other in names}

    def _within(self, name: str, value: int) -> int:
        low, high = self.ranges[name]
        return min(max(value, low), high)


def _period(rule: Instruction, machine: Arch) -> int:
    """The bytes by whose multiples all lanes may be shifted at the same cost."""
    return machine.sector_bytes if rule.space == "global" else max(rule.width_bytes, machine.bank_bytes)


# --- what a compiler may join ------------------------------------------------------------------------------

VECTOR_BYTES = (16, 8, 4)
"""Bytes per lane of one instruction, the widest first."""

Row = tuple[int, int, str, str]
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
