"""Numbers that are not given: the values that they are counted with, and the rows that depend on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from layoutalg.arch import Arch
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.source.costs import LANE_NAMES, Cost, period_of, rule_of
from layoutalg.source.machine import ASKED, Bound, Touch
from layoutalg.source.terms import SIZE, ZERO, Sum, atoms_of, constant, sizes, substitute, unwrapped, variable

TAKEN = 1024
"""The value that is taken for a size that is not given: a multiple of every tile, and past each thread."""

MOST_TAKEN = 192
"""Assignments of values that are tried for an access, until one brings a lane to it."""

FEW_TAKEN = 32
"""Assignments of values with which an access is looked for at its worst."""

FEW_LANES = 1 << 23
"""Lanes that are looked at with each of them; if they are too many with each, the first has more."""


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
        self.of |= {turn: set(sizes(bound.turns)) for turn, bound in bounds.items()}

    def names_in(self, *sums: Sum) -> set[str]:
        """The numbers on which sums depend, by the turns of loops too."""
        return {name for each in sums for v in each.variables for name in self.of.get(v, ())}

    def sized(
        self, touches: Sequence[Touch], machine: Arch, count: Callable[[Sequence[Touch], int], Cost]
    ) -> Sized:
        """The cost of an access by its touches, with the first values with which it is at its worst.

        Raises UnsupportedError where no thread comes to it with any of those that are tried.
        """
        reached = [touch for touch in touches if not touch.never]
        names = sorted(set().union(*(self._all_names(touch) for touch in reached)))
        if not names:
            return Sized(count(touches, Most.LANES.number), list(touches), {}, (), ())
        touches = reached
        rule = rule_of(touches[0].op, machine)
        period, shared = period_of(rule, machine), rule.space == "shared"
        moving = set().union(*(self._moving(touch, period) for touch in touches))
        masking = set().union(*(self.names_in(*self._deciding(touch, shared)) for touch in touches))
        every = moving.union(*(self._times(touch) for touch in touches))
        best: Sized | None = None
        failed: LayoutAlgError | None = None
        tries = [*itertools.islice(self._assignments(names, touches), MOST_TAKEN)]
        each = [(taken, FEW_LANES) for taken in tries] + [(tries[0], Most.LANES.number)]
        for at, (taken, most) in enumerate(each):
            if best is not None and at >= FEW_TAKEN:
                break
            try:
                own = [self.with_values(touch, taken) for touch in touches]
                cost = count(own, most)
                unmasked = count([self._full(*pair) for pair in zip(touches, own, strict=True)], most)
                full = cost.ways == unmasked.ways
            except LayoutAlgError as error:
                failed = failed or error
                continue
            turned = all(turns > 0 for touch in own for _, turns in touch.turns)
            if (
                turned and not unmasked.instructions
            ):  # other conditions turn all lanes off, whatever these are
                return Sized(cost, own, taken, (), ())
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
                most = max(substitute(bound.turns, by).high, 0)
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
        return [
            c for c in touch.conditions
            if (names := self.names_in(c))
            and (every or c.variables & LANE_NAMES or any(name.startswith(ASKED) for name in names))
        ]  # fmt: skip

    def _full(self, touch: Touch, own: Touch) -> Touch:
        """A touch of all lanes for which the conditions hold that depend on nothing that is not given."""
        pairs = zip(touch.conditions, own.conditions, strict=True)
        return replace(own, conditions=tuple(c for was, c in pairs if not self.names_in(was)))

    def _assignments(self, names: Sequence[str], touches: Sequence[Touch]) -> Iterator[dict[str, int]]:
        """Values for names: sizes first, then small ones, no least one where conditions have a most one,
        those that rise or fall in the order of the parameters, then those at which conditions change, and
        none of some parameters."""
        changes: dict[str, set[int]] = {name: set() for name in names}
        below, above = set[str](), set[str]()  # a number that is at least, or at most, what one of these is
        for atom in atoms_of(*(c for touch in touches for c in touch.conditions)):
            inner = atom.args[0] if atom.op in ("zero", "nonneg") else ZERO
            for part, k in inner.parts if atom.op == "nonneg" else ():
                (above if k > 0 else below).add(str(part.data)[1:])
            for (part, k), *others in [inner.parts] if inner.parts else []:
                if not others and part.op in ("var", "open") and str(part.data)[1:] in changes:
                    at = -inner.constant // k
                    changes[str(part.data)[1:]] |= {at - 1, at, at + 1}
        for value in (TAKEN, TAKEN << 6, TAKEN >> 3, 1, 0):
            yield {name: self._within(name, value) for name in names}
        yield {name: self._within(name, TAKEN * (name in above)) for name in names}
        order = [name for name in self.ranges if name in below & above]
        for ordered in (order, order[::-1]):
            rising = {name: TAKEN * at for at, name in enumerate(ordered, 1)}
            yield {name: self._within(name, rising.get(name, TAKEN << 6)) for name in names}
        each = {name: (1, 0, 2, *sorted(changes[name])) for name in names}
        for value in (TAKEN, TAKEN - 1):  # of the second one, all bits are set
            for n in range(max(map(len, each.values()))):
                for name in (name for name in names if n < len(each[name])):
                    yield {o: self._within(o, each[name][n] if o == name else value) for o in names}
            rows = [name for name in self.ranges if name in names]
            for first, last in itertools.combinations(range(len(rows) + 1), 2):  # parameters in a row
                yield {o: self._within(o, 0 if o in rows[first:last] else value) for o in names}

    def _within(self, name: str, value: int) -> int:
        low, high = self.ranges[name]
        return min(max(value, low), high)
