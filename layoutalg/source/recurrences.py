"""The change of a loop's variables from turn to turn, and the turn at which its condition ends the loop.

    affine       begin + step * turn
    entries_of   begin + a number for each turn
    _cycle       a number for each turn, some of them again and again
    _previous    begin in turn 0, later a function of the turn before
    turns_until  the turns after which a condition on affine variables is false
    entering     the elements of an array at the start of a turn; settled: behind the loop
    Walk         variables that go on from known numbers to known numbers, in every turn
    Parts        of a loop; Tried, what a trial turn leaves

The turn is a sum too: a variable of the loop, or a number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from layoutalg.limits import Most
from layoutalg.source.front import Node
from layoutalg.source.terms import (
    FREE,
    ONE,
    ZERO,
    Sum,
    add,
    constant,
    divide,
    extreme,
    floor_mod,
    is_zero,
    minus,
    multiply,
    nonnegative,
    scale,
    select,
    sizes,
    substitute,
    table,
    values,
    variable,
)
from layoutalg.source.values import Address, Cells, Condition, Number, Unknown, Value, unknown

Form: TypeAlias = Callable[[Sum], Sum]
"""A variable at a turn."""

CARRIED = Unknown("a loop changes it", carried=True)


@dataclass(slots=True)
class Parts:
    """The parts of a loop; `first`: the condition is asked before the first turn."""

    condition: Node | None
    step: Node | None
    body: Node
    first: bool


@dataclass(slots=True)
class Tried:
    """The result of a trial turn of the body: stand-ins, values after the turn, the condition."""

    names: dict[str, int]
    after: dict[int, Value]
    condition: Condition
    formless: set[int]


class NoForm(Exception):
    """A loop that is not read once for all turns, why, and the name whose value would settle it."""

    def __init__(self, why: str, name: str = "") -> None:
        super().__init__(why)
        self.name = name


class MoreChanges(Exception):
    """Variables that a loop changes beyond those that its text names, or that have no form after all."""

    def __init__(self, keys: list[int], formless: Collection[int] = ()) -> None:
        super().__init__("a loop changes more variables")
        self.keys, self.formless = keys, set(formless)


def affine(begin: Sum, step: Sum) -> Form:
    """begin + step * turn."""
    return lambda turn: add(begin, multiply(turn, step))


def entries_of(begin: Sum, entries: Any) -> Form:
    """begin + entries[turn]."""
    return lambda turn: add(begin, table(turn, entries))


def _cycle(entries: Any, first: int) -> Form:
    """A number for each turn, those from `first` on again and again."""

    def at(turn: Sum) -> Sum:
        later = minus(turn, constant(first))
        again = add(constant(first), floor_mod(later, len(entries) - first))
        return table(select(nonnegative(later), again, turn), entries)

    return at


def _previous(begin: Sum, after: Sum, others: dict[str, Form]) -> Form:
    """begin in turn 0, later a function of the turn before."""

    def at(turn: Sum) -> Sum:
        before = extreme("max", minus(turn, ONE), ZERO)
        later = substitute(after, {n: form(before) for n, form in others.items()})
        return select(is_zero(turn), begin, later)

    return at


def turns_until(condition: Sum, name: str) -> Sum | None:
    """The turns until a condition is false, where it compares begin + step * turn; None elsewhere."""
    if condition.known:
        return None if condition.constant else ZERO
    if len(condition.parts) != 1:
        return _ends_unequal(condition, name)
    atom, k = condition.parts[0]
    if k != 1 or condition.constant:
        return _ends_unequal(condition, name)
    if atom.op == "and":
        counts = [turns_until(arg, name) for arg in atom.args]
        first, second = counts
        if first is None or second is None:
            return None
        return extreme("min", first, second)
    if atom.op != "nonneg":
        return None
    step, rest = _by_turn(atom.args[0], name)
    if name in rest.variables | step.variables or step.high >= 0 or (rest.high >= FREE and not sizes(rest)):
        return None
    return divide(extreme("max", minus(rest, step), ZERO), scale(step, -1))


def _by_turn(inner: Sum, name: str) -> tuple[Sum, Sum]:
    """(step, rest) of step * turn + rest."""
    steps, rest = [], []
    for atom, k in inner.parts:
        others = [arg for arg in atom.args if not _is_variable(arg, name)]
        if atom.op == "var" and atom.data == name:
            steps.append(constant(k))
        elif atom.op == "mul" and len(others) == 1:
            steps.append(scale(others[0], k))
        else:
            rest.append((atom, k))
    return add(*steps), Sum(inner.constant, tuple(rest))


def _is_variable(one: Sum, name: str) -> bool:
    return any(atom.op == "var" and atom.data == name for atom, _ in one.parts)


def _ends_unequal(condition: Sum, name: str) -> Sum | None:
    """The turns of `v != n`, where v gets there."""
    if condition.constant != 1 or len(condition.parts) != 1:
        return None
    atom, k = condition.parts[0]
    if k != -1 or atom.op != "zero":
        return None
    inner = atom.args[0]
    if inner.variables != {name} or len(inner.parts) != 1 or inner.parts[0][0].op != "var":
        return None
    turns, left = divmod(-inner.constant, inner.parts[0][1])
    return constant(turns) if not left and turns >= 0 else None


def plain(value: Value) -> Sum | None:
    """The number, or the offset of the address, that a value is; None of others."""
    if isinstance(value, Number):
        return value.sum
    return value.offset if isinstance(value, Address) else None


def kind_of(value: Value) -> tuple[int, bool]:
    """(bits, signed) of a number; those of an address for any other value."""
    return (value.bits, value.signed) if isinstance(value, Number) else (64, True)


def array_of(value: Value) -> object:
    """The array of an address; None of others."""
    return value.array if isinstance(value, Address) else None


def stand_in(name: str, kind: tuple[int, bool]) -> Sum:
    """The stand-in for a variable of a type while a turn is tried."""
    bits, signed = kind
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return variable(name, low, high, fresh=True)


LANES = frozenset({"x", "y", "z"})
MOST_CYCLE = 1024
"""Turns in which variables are to come back to what they were."""


class Walk:
    """Variables that are known in every turn: `begin` before the first, `after` a turn by those before it."""

    def __init__(
        self,
        begin: dict[str, Sum],
        after: dict[str, Sum],
        kinds: dict[str, tuple[int, bool]],
        threads: dict[str, Any],
    ) -> None:
        self.begin, self.after, self.kinds, self.threads = begin, after, kinds, threads

    def closure(self, names: Iterable[str]) -> set[str] | None:
        """The variables that these depend on; None where one is not known in every turn."""
        closed: set[str] = set()
        waiting = list(names)
        while waiting:
            n = waiting.pop()
            if n in closed:
                continue
            if n not in self.after or not self.begin[n].variables <= LANES or self.begin[n].fresh:
                return None
            closed.add(n)
            for m in self.after[n].variables:
                if m in self.after:
                    waiting.append(m)
                elif m not in LANES:
                    return None
        return closed

    def _turns(self, states: set[str]) -> Iterator[dict[str, Any]]:
        """The values of some variables in each turn."""
        import numpy as np

        now = {n: np.asarray(values(self.begin[n], self.threads), dtype=np.int64) for n in states}
        while True:
            yield now
            now = self._next(now)

    def _next(self, now: dict[str, Any]) -> dict[str, Any]:
        """The values a turn later, as their types hold them."""
        import numpy as np

        out = {}
        for n in now:
            value = np.asarray(values(self.after[n], {**self.threads, **now}), dtype=np.int64)
            width, signed = self.kinds[n]
            if width < 64:
                value = value & ((1 << width) - 1)
                if signed:
                    value = np.where(value >= 1 << (width - 1), value - (1 << width), value)
            elif value.size and (
                int(np.abs(value).max()) >= 1 << 61 or (not signed and int(value.min()) < 0)
            ):
                raise NoForm("a number of it grows past 2^61, or below 0")
            out[n] = value
        return out

    def turns(self, states: set[str], condition: Sum, first: bool) -> int:
        """Turns until a condition is false, asked before the first turn or behind it."""
        import numpy as np

        for turn, now in enumerate(islice(self._turns(states), Most.ONE_BY_ONE.number)):
            holds = np.asarray(values(condition, {**self.threads, **now}))
            if holds.min() != holds.max():
                raise NoForm("lanes leave it at different turns")
            if not holds.min():
                return turn if first else turn + 1
        raise NoForm("it has no end that is known")

    def history(self, states: set[str], turns: int) -> dict[str, Any]:
        """The values in turns 0 to `turns`: arrays whose first axis is the turn."""
        return _columns([*islice(self._turns(states), turns + 1)])

    def cycles(self, states: set[str]) -> dict[str, Form]:
        """The values in all turns, where they come back to what they were; empty where they do not soon."""
        rows: list[dict[str, Any]] = []
        seen: dict[tuple[bytes, ...], int] = {}
        for now in islice(self._turns(states), MOST_CYCLE):
            key = tuple(now[n].tobytes() for n in sorted(states))
            if key in seen:
                return {n: _cycle(column, seen[key]) for n, column in _columns(rows).items()}
            seen[key] = len(rows)
            rows.append(now)
        return {}

    def steps(self, step: Sum, history: dict[str, Any], turns: int) -> Any:
        """The values of a step in every turn."""
        import numpy as np

        wide = any(h.ndim == 2 for h in history.values()) or bool(step.variables & LANES)
        env = dict(self.threads)
        for n, entries in history.items():
            env[n] = entries[:turns] if entries.ndim == 2 or not wide else entries[:turns, None]
        shape = (turns, len(self.threads["thread"])) if wide else (turns,)
        return np.broadcast_to(np.asarray(values(step, env), dtype=np.int64), shape)

    def rest(self, solved: dict[str, Any], turns: int) -> None:
        """Solve what goes on in another way than by a constant step, as far as it is known turn by turn."""
        import numpy as np

        begin, after = self.begin, self.after
        progress = True
        while progress:
            progress = False
            waiting = [n for n in after if n not in solved]
            for n in waiting:
                states = self.closure({n})
                if states is not None:
                    history = self.history(states, turns)
                    for m, entries in history.items():
                        if m not in solved:
                            solved[m] = entries_of(ZERO, entries)
                    progress = True
                    break
                step = minus(after[n], stand_in(n, self.kinds[n]))
                if n not in step.variables:
                    states = self.closure(step.variables - LANES)
                    if states is not None:
                        each = self.steps(step, self.history(states, turns), turns)
                        sums = np.concatenate(
                            [np.zeros((1, *each.shape[1:]), dtype=np.int64), np.cumsum(each, axis=0)]
                        )
                        solved[n] = entries_of(begin[n], sums)
                        progress = True
                        break
                free = after[n].variables & set(after)
                if n not in free and free <= set(solved):
                    solved[n] = _previous(begin[n], after[n], {m: solved[m] for m in free})
                    progress = True
                    break


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The values of each variable in some turns, as an array whose first axis is the turn."""
    import numpy as np

    return {n: np.stack(np.broadcast_arrays(*(row[n] for row in rows))) for n in rows[0]}


def changed_to(value: Value) -> Unknown:
    """The value of a variable after a loop that sets it to something that is not a number."""
    reason = unknown(value)
    return Unknown(reason.why, reason.name, reason.carried, data=reason.data)


def entering(before: Cells, after: Value) -> Value:
    """Elements in a turn, where those that a turn sets are not known when it begins."""
    if not isinstance(after, Cells) or after.rest is not CARRIED:
        return Cells({}, CARRIED)
    return Cells({**before.elements, **dict.fromkeys(after.elements, CARRIED)}, before.rest)


def alike(before: Value, after: Value | None) -> bool:
    """Whether a turn leaves a number a number, and an address in its array."""
    return type(before) is type(after) and (after is None or array_of(before) == array_of(after))


def undisturbed(before: Cells, after: Cells) -> bool:
    """Whether a turn leaves the elements as they are that were known when it began."""
    pairs = [(before.rest, after.rest), *((v, after.elements.get(at)) for at, v in before.elements.items())]
    return all(entered is CARRIED or left is entered for entered, left in pairs)


def settled(value: Value, name: str, last: Sum) -> Value:
    """A value at the end of a turn as it is behind the loop, at the end of the last turn."""
    if isinstance(value, Number):
        return Number(substitute(value.sum, {name: last}), value.bits, value.signed)
    if isinstance(value, Address):
        return Address(value.array, substitute(value.offset, {name: last}))
    if isinstance(value, Cells):
        elements = {at: settled(element, name, last) for at, element in value.elements.items()}
        return Cells(elements, settled(value.rest, name, last))
    return value


def declared_in(body: Node) -> list[int]:
    """The variables that are declared inside."""
    return [node.value[0] for node in body.walk() if node.kind == "var"]
