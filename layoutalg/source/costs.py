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
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from layoutalg.analysis import batch_lanes, served_batch, traffic_batch, warp_rule
from layoutalg.arch import Arch, Instruction, find_instruction
from layoutalg.errors import ResourceError
from layoutalg.limits import Most
from layoutalg.source.machine import Touch
from layoutalg.source.terms import (
    MOST_VALUE,
    Atom,
    Sum,
    add,
    bits,
    both,
    compare,
    constant,
    floor_div,
    floor_mod,
    scale,
    select,
    substitute,
    values,
    variable,
    widest,
)

_CHUNK = 1 << 19
LANE_NAMES = frozenset({"x", "y", "z", "thread"})


class Cost(NamedTuple):
    """Warp instructions; wavefronts or sectors, and the fewest; distinct useful bytes.

    `worst` are the wavefronts, the ideal below zero, and the ways of the worst instruction past its ideal;
    `lanes` are the most of an atomic instruction at one address, 0 of another one.
    """

    instructions: int = 0
    total: int = 0
    ideal: int = 0
    worst: tuple[int, int, int] = (0, 0, 1)
    useful_bytes: int = 0
    lanes: int = 0

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
        return _threads(self.block)

    @property
    def blocks(self) -> dict[str, int]:
        """Extents of the numbers of blocks that are counted."""
        return dict(zip(("bx", "by", "bz"), self.grid or (1, 1, 1), strict=True))


@functools.lru_cache(maxsize=16)
def _threads(block: tuple[int, int, int]) -> dict[str, Any]:
    """`Launch.threads` of a block."""
    import numpy as np

    x, y, z = block
    thread = np.arange(x * y * z)
    return {"x": thread % x, "y": thread // x % y, "z": thread // (x * y), "thread": thread}


def cost_of(
    touch: Touch, launch: Launch, machine: Arch, *, enumerated: bool = False, most: int = Most.LANES.number
) -> Cost:
    """The cost of an access over all turns of its loops, in one block or in all blocks of the grid.

    Raises AlignmentError for lanes that are not aligned, ResourceError for more classes than are counted, and
    for more lanes in them than `most`.
    """
    rule = rule_of(touch.op, machine)
    warp_rule(rule.name, rule.space, machine)
    turns = dict(touch.turns) | launch.blocks
    if touch.never or 0 in turns.values():
        return Cost()
    _check(touch)
    uniform = _Uniform(touch, turns, launch, period_of(rule, machine), enumerated)
    out = Cost()
    for env, counts, times in uniform.classes(most):
        part = _counted(touch, rule, machine, launch, env, counts)
        out = sum_of(out, Cost(part.instructions * times, part.total * times, part.ideal * times, part.worst,
                               part.useful_bytes * times, part.lanes))  # fmt: skip
    return out


def bounds_of(touches: Sequence[Touch], launch: Launch, machine: Arch) -> tuple[int, int] | None:
    """Fewest and most wavefronts or sectors of an instruction, over all data; None where more lacks.

    The fewest are those of one address, by one lane where the others may be off; the most those of addresses
    a whole line apart.
    """
    unread = [touch for touch in touches if touch.why]
    if not unread or any(not (touch.data and touch.width) for touch in unread):
        return None
    warp = Launch((min(math.prod(launch.block), machine.lanes), 1, 1), None)
    lane = lane_variables(warp.block)[0]
    alone = () if "matrix" in unread[0].op else (compare("==", lane, constant(0)),)
    near = replace(unread[0], turns=(), offset=constant(0), conditions=alone)
    far = replace(near, offset=scale(lane, machine.line_bytes), conditions=())
    return cost_of(near, warp, machine).total, cost_of(far, warp, machine).total


def _check(touch: Touch) -> None:
    """Refuse numbers that 64-bit arithmetic might not hold."""
    most = widest(touch.offset, *touch.conditions)
    if most >= MOST_VALUE:
        raise ResourceError("magnitude that a number in an index may reach", most, MOST_VALUE - 1)


def sum_of(a: Cost, b: Cost) -> Cost:
    """The sum of two costs."""
    return Cost(a.instructions + b.instructions, a.total + b.total, a.ideal + b.ideal, max(a.worst, b.worst),
                a.useful_bytes + b.useful_bytes, max(a.lanes, b.lanes))  # fmt: skip


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

    def classes(self, most: int) -> Iterator[tuple[dict[str, Any], Any, int]]:
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
        if (lanes := len(keys) * len(remainders) * threads) > most:
            raise ResourceError("lanes of an access that are looked at", lanes, most)
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
        self._column_of(own, columns, env, known, lambda u: u % self.period)
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
            columns.append(rule(u) if rule is not None else u)
        for atom, _ in mixed:
            if not atom.variables & set(self.inside):
                continue
            if atom.op in ("nonneg", "zero"):
                inner = atom.args[0]
                rest = Sum(inner.constant, tuple((a, k) for a, k in inner.parts if a.variables & LANE_NAMES))
                self._column_of(inner, columns, env, known, _clipped(rest))
            else:
                for arg in atom.args:
                    self._column_of(arg, columns, env, known, None)


def _clipped(rest: Sum) -> Any:
    """The function that clips u to the range in which u + rest may lie on either side of zero."""
    import numpy as np

    return lambda u: np.clip(u, -rest.high - 1, -rest.low + 1)


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
    if padded := warps * lanes - threads:
        offsets, mask = (np.pad(each, ((0, 0), (0, padded))) for each in (offsets, mask))
    offsets, mask = (each.reshape(rows * warps, lanes) for each in (offsets, mask))
    active = mask.any(axis=1)
    if not active.any():
        return Cost()
    times = np.repeat(counts, warps)[active]
    offsets, mask = offsets[active], mask[active]
    lowest = int(np.where(mask, offsets, MOST_VALUE).min())
    if lowest < 0:  # from before the start of the array: shifted by whole lines, which changes nothing
        offsets = offsets + (-lowest // machine.line_bytes + 1) * machine.line_bytes
    checked = batch_lanes(rule, machine, np.where(mask, offsets, 0), mask)
    met = 0
    if touch.op.startswith(("atom.", "red.")):
        met = int(((offsets[:, :, None] == offsets[:, None, :]) & mask[:, None, :])[mask].sum(axis=1).max())
    if rule.space == "shared":
        taken, ideal, ways = served_batch(rule, machine, *checked)
        worst = _worst(taken, ideal, ways)
        total, least = int((taken * times).sum()), int((ideal * times).sum())
        return Cost(int(times.sum()), total, least, worst, lanes=met)
    moved = traffic_batch(rule, machine, *checked)
    fewest = -(-moved[:, 2] // machine.sector_bytes)
    return Cost(
        int(times.sum()), int((moved[:, 0] * times).sum()), int((fewest * times).sum()),
        useful_bytes=int((moved[:, 2] * times).sum()), lanes=met,
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


def exchanged(way: str, value: Sum, by: Sum, width: int, block: tuple[int, int, int]) -> Sum | None:
    """The number of another lane that `__shfl_sync`, or its `way` up, down or xor, gives to each lane.

    None where the number is not one of the thread's place alone, or a warp is not full.
    """
    if value.fresh or by.fresh or "thread" in value.variables or math.prod(block) % 32:
        return None
    x, y, z = lane_variables(block)
    thread = add(x, scale(y, block[0]), scale(z, block[0] * block[1]))
    warp, by = scale(floor_div(thread, 32), 32), floor_mod(by, 32)
    start = scale(floor_div(thread, width), width)
    source = add(start, floor_mod(by, width))
    if way == "xor":
        source = add(warp, bits("xor", floor_mod(thread, 32), by))
    elif way:
        source = add(thread, by if way == "down" else scale(by, -1))
    if way:  # past the segment a lane has its own; xor may ask one in front of it
        inside = compare("<", source, add(start, constant(width)))
        inside = both(inside, compare(">=", source, start)) if way == "up" else inside
        source = select(inside, source, thread)
    row = floor_div(source, block[0])
    place = (floor_mod(source, block[0]), floor_mod(row, block[1]), floor_div(row, block[1]))
    return substitute(value, dict(zip("xyz", place, strict=True)))


def rule_of(op: str, machine: Arch) -> Instruction:
    """The instruction by which an access is counted: atomic ones of global memory as stores."""
    return find_instruction(op.replace("atom.", "st."), machine)


def period_of(rule: Instruction, machine: Arch) -> int:
    """The bytes by whose multiples all lanes may be shifted at the same cost."""
    return machine.sector_bytes if rule.space == "global" else max(rule.width_bytes, machine.bank_bytes)
