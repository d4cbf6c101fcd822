"""Loops of a kernel, read once for all turns where that is exact, and turn by turn where it is not.

The idea.  The body is tried with every variable that it changes standing for itself.  What the try leaves says
how the variable goes from turn to turn:

    v + d                 d the same in each turn:                        v(t) = v0 + d t
    v + d(others)         d a function of the turn alone:                 v(t) = v0 + a table of sums
    f(v, others)          known numbers go on from known numbers:         v(t) = a table
    f(others)             set anew, without itself:                       v(t) = f at turn t - 1; v0 in turn 0

The number of turns follows from the condition: `v0 + d t < n` ends at a quotient, anything else of known numbers
by going on until it is false.  Where lanes leave at different turns, the condition stays with every access.
Then the body is read once, with t a variable.  Loops that are none of this are read turn by turn, up to
MOST_UNROLLED turns; of what is still not known every access says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from layoutalg.source.front import Node
from layoutalg.source.machine import Condition, Frame, conjunction, disjunction
from layoutalg.source.statements import Statements
from layoutalg.source.terms import (
    FREE,
    ONE,
    ZERO,
    Sum,
    add,
    constant,
    extreme,
    floor_div,
    held,
    is_zero,
    minus,
    multiply,
    scale,
    select,
    substitute,
    table,
    values,
    variable,
)
from layoutalg.source.values import Address, Cells, Number, Record, Unknown, Value, unknown

MOST_UNROLLED = 160
MOST_TABLED = 1 << 16
MOST_TURNS = 1 << 40


class NoForm(Exception):
    """A loop that is not read once for all turns, and why."""


@dataclass(slots=True)
class _Parts:
    """The parts of a loop; `first`: the condition is asked before the first turn."""

    condition: Node | None
    step: Node | None
    body: Node
    first: bool


@dataclass(slots=True)
class _Tried:
    """What a try of the body leaves: names of the variables' stand-ins, values after a turn, the condition."""

    names: dict[str, int]
    after: dict[int, Value]
    condition: Condition


class Reader(Statements):
    """All of a kernel."""

    def loop(self, node: Node) -> bool:
        """Read a loop."""
        if node.kind == "for":
            init, condition, step, body = node.children
            if init is not None:
                self.run(init)
            assert body is not None
            parts = _Parts(condition, step, body, True)
        elif node.kind == "while":
            assert node.children[-1] is not None
            parts = _Parts(node.children[0], None, node.children[-1], True)
        else:
            assert node.children[0] is not None
            parts = _Parts(node.children[1], None, node.children[0], False)
        start, mark = dict(self.variables), len(self.touches)
        registers = dict(self.registers)
        carried = ""
        try:
            self._at_once(parts)
            carried = next((t.why for t in self.touches[mark:] if t.carried), "")
            if not carried and not self._lost(start):
                return False
            reason = carried or "what it leaves in variables is not known"
        except NoForm as error:
            reason = str(error)
        after, touched = self.variables, self.touches[mark:]
        self.variables = dict(start)
        del self.touches[mark:]
        self.unrolling += 1
        try:
            self._turn_by_turn(parts)
        except NoForm as error:
            self.variables, self.registers = dict(start), registers
            del self.touches[mark:]
            if carried or touched:
                self.variables = after
                self.touches += touched
                return False
            self._not_read(parts, f"{reason}; {error}" if str(error) != reason else reason)
        finally:
            self.unrolling -= 1
        return False

    def _lost(self, start: dict[int, Value]) -> bool:
        """Whether a number that was known before is not known behind the loop, by the loop alone."""
        for key, value in self.variables.items():
            if key in start and isinstance(value, Unknown) and value.carried:
                return True
            if key in start and isinstance(value, Cells):
                inner = (*value.elements.values(), value.rest)
                if any(isinstance(v, Unknown) and v.carried for v in inner):
                    return True
        return False

    def _not_read(self, parts: _Parts, why: str) -> None:
        """The body once, under a condition that is not known."""
        carried = bool(self.turns)  # of an outer loop that is read turn by turn, more is known
        reason = Unknown(f"the turns of its loop are not known: {why}", carried=carried)
        for key in self._changed(parts):
            self.variables[key] = Unknown(f"a loop changes it: {why}", carried=carried)
        with self.frame("loop"), self.under(reason):
            if parts.condition is not None:
                self.condition(parts.condition)
            self.run(parts.body)
            if parts.step is not None:
                self.value(parts.step)
        for key in self._changed(parts):
            self.variables[key] = Unknown(f"a loop changes it: {why}", carried=carried)

    # --- once for all turns -----------------------------------------------------------------------------

    def _at_once(self, parts: _Parts) -> None:
        for key in _declared_in(parts.body):
            self.variables.pop(key, None)
        start = dict(self.variables)
        tried = self._tried(parts, start)
        self.loops += 1
        name = f"t{self.loops}"
        forms, guard, turns, count = self._solved(tried, start, parts, name)
        turn = variable(name, 0, max(turns - 1, 0))
        self._enter(forms, start, turn, tried)
        depth = len(self.turns)
        self.turns.append((name, turns))
        with self.frame("loop"), self.under(ZERO if turns == 0 else substitute(guard, {name: turn})):
            if parts.first and parts.condition is not None:
                self.condition(parts.condition)
            self.run(parts.body)
            if not parts.first and parts.condition is not None:
                self.condition(parts.condition)
            if parts.step is not None:
                self.value(parts.step)
        del self.turns[depth:]
        ended = self.variables
        self.variables = dict(ended)
        self._enter(forms, start, count, tried)
        for key, value in ended.items():
            if isinstance(value, Cells) and key in start:
                self.variables[key] = _settled(value, name)
            elif isinstance(value, Record) and key in start and key in tried.after:
                self.variables[key] = Unknown("a loop changes it", carried=True)

    def _enter(self, forms: dict[int, Any], start: dict[int, Value], turn: Sum, tried: _Tried) -> None:
        """Give every variable that the loop changes its value at a turn."""
        for key in tried.after:
            before = start[key]
            form = forms.get(key)
            if isinstance(form, Unknown):
                self.variables[key] = form
            elif form is not None and isinstance(before, Number):
                self.variables[key] = Number(form(turn), before.bits, before.signed)
            elif form is not None and isinstance(before, Address):
                self.variables[key] = Address(before.array, form(turn))

    def _tried(self, parts: _Parts, start: dict[int, Value]) -> _Tried:
        """One turn with every changed variable standing for itself."""
        names: dict[str, int] = {}
        changed = [key for key in self._changed(parts) if key in start]
        mark, registers = len(self.turns), dict(self.registers)
        self.trying += 1
        try:
            for key in changed:
                before = start[key]
                name = f"v{key}.{self.trying}"
                stand = variable(name, -FREE, FREE, fresh=True)
                if isinstance(before, Number):
                    names[name] = key
                    self.variables[key] = Number(stand, before.bits, before.signed)
                elif isinstance(before, Address):
                    names[name] = key
                    self.variables[key] = Address(before.array, stand)
                elif isinstance(before, Cells):
                    self.variables[key] = Cells({}, Unknown("a loop changes it", carried=True))
            around = [f for f in self.stack if isinstance(f, Frame)]
            offs = [(f.off, f.turn_off) for f in around]
            with self.frame("loop") as frame:
                condition: Condition = ONE
                if parts.first:
                    condition = self.condition(parts.condition)
                    self.stack.append(condition)
                ended = self.run(parts.body)
                for left, kept in frame.leaving:
                    self.variables = kept if ended else self.merge(left, kept, self.variables)
                if parts.step is not None:
                    self.value(parts.step)
                if not parts.first:
                    condition = self.condition(parts.condition)
            left = bool(frame.breaks) or any(
                (f.off, f.turn_off) != before for f, before in zip(around, offs, strict=True)
            )
            for one, (off, turn_off) in zip(around, offs, strict=True):
                one.off, one.turn_off = off, turn_off
            if left:
                raise NoForm("lanes leave the loop inside of it")
            after = {key: self.variables.get(key, start[key]) for key in changed}
        finally:
            self.trying -= 1
            self.variables = dict(start)
            self.registers = registers
            del self.turns[mark:]
        return _Tried(names, after, condition)

    def _solved(
        self, tried: _Tried, start: dict[int, Value], parts: _Parts, name: str
    ) -> tuple[dict[int, Any], Sum, int, Sum]:
        """(value at a turn for each variable, condition of a turn, turns at most, turns of a lane)."""
        stands = {n: key for n, key in tried.names.items()}
        begin = {n: _plain(start[key]) for n, key in stands.items()}
        after: dict[str, Sum] = {}
        forms: dict[int, Any] = {}
        for n, key in stands.items():
            value = tried.after[key]
            ended = _plain(value)
            if ended is None or (isinstance(value, Address) and value.array != _array(start[key])):
                forms[key] = _changed_to(value)
            else:
                after[n] = ended
        for key, value in tried.after.items():
            if key not in stands.values() and not isinstance(start[key], Cells):
                forms[key] = value if isinstance(value, Unknown) else unknown(start[key])
        solved: dict[str, Any] = {}
        for n in list(after):
            step = minus(after[n], _stand(n))
            if not step.variables & set(stands):
                solved[n] = _Affine(begin[n], step)
        kinds = {n: _kind(start[key]) for n, key in stands.items()}
        walk = _Walk(begin, after, kinds, self.threads)
        turns, count, guard = self._counted(tried, solved, walk, parts, name)
        if turns <= MOST_TABLED:
            self._rest(solved, walk, turns)
        for n, key in stands.items():
            if key not in forms:
                found = solved.get(n)
                forms[key] = found if found is not None else Unknown("a loop changes it from turn to turn", carried=True)
        return forms, guard, turns, count

    def _counted(
        self, tried: _Tried, solved: dict[str, Any], walk: _Walk, parts: _Parts, name: str
    ) -> tuple[int, Sum, Sum]:
        """(most turns, turns of a lane, condition of a turn)."""
        condition = tried.condition
        if isinstance(condition, Unknown):
            raise NoForm(condition.why) if not condition.name else _Wanted(condition)
        t = variable(name, 0, FREE, fresh=True)
        needed = condition.variables & set(tried.names)
        if needed <= set(solved):
            at = substitute(condition, {n: solved[n](t) for n in needed})
            found = _ends(at, name)
            if found is not None:
                reached = variable(name, 0, max(found.high, 0))
                for n in needed:
                    form, (width, signed) = solved[n](reached), walk.kinds[n]
                    if held(form, width, signed).key != form.key:
                        raise NoForm("a number that ends it may leave its type")
                count = found if parts.first else add(found, ONE)
                turns = max(count.high, 0)
                if turns > MOST_TURNS:
                    raise NoForm("it has no end that is known")
                if not parts.first and not count.known:
                    raise NoForm("lanes leave it behind different turns")
                guard = ONE if count.known else substitute(at, {name: variable(name, 0, max(turns - 1, 0))})
                return turns, count, guard
        states = walk.closure(needed)
        if states is None or not condition.variables <= {*needed, *_LANES}:
            raise NoForm("its condition is not of numbers that are known turn by turn")
        turns = walk.turns(states, condition, parts.first)
        return turns, constant(turns), ONE

    def _rest(self, solved: dict[str, Any], walk: _Walk, turns: int) -> None:
        """Solve what goes on in another way than by a constant step, as far as it is known turn by turn."""
        import numpy as np

        begin, after = walk.begin, walk.after
        progress = True
        while progress:
            progress = False
            waiting = [n for n in after if n not in solved]
            for n in waiting:
                states = walk.closure({n})
                if states is not None:
                    history = walk.history(states, turns)
                    for m, entries in history.items():
                        if m not in solved:
                            solved[m] = _Table(ZERO, entries)
                    progress = True
                    break
                step = minus(after[n], _stand(n))
                if n not in step.variables:
                    states = walk.closure(step.variables - _LANES)
                    if states is not None:
                        each = walk.steps(step, walk.history(states, turns), turns)
                        sums = np.concatenate([np.zeros((1, *each.shape[1:]), dtype=np.int64), np.cumsum(each, axis=0)])
                        solved[n] = _Table(begin[n], sums)
                        progress = True
                        break
                free = after[n].variables & set(after)
                if n not in free and free <= set(solved):
                    solved[n] = _Previous(begin[n], after[n], {m: solved[m] for m in free})
                    progress = True
                    break

    # --- turn by turn -----------------------------------------------------------------------------------

    def _turn_by_turn(self, parts: _Parts) -> None:
        """Read the body for each turn; raises NoForm where it does not end."""
        with self.frame("loop") as frame:
            for number in range(MOST_UNROLLED + 1):
                condition: Condition = ONE
                if parts.first or number:
                    condition = self.condition(parts.condition)
                if isinstance(condition, Unknown):
                    raise _Wanted(condition) if condition.name else NoForm(condition.why)
                if not condition.known and (condition.fresh or condition.variables & {n for n, _ in self.turns}):
                    raise NoForm("its condition depends on another loop")
                whole = conjunction(condition, self._inside(frame))
                if isinstance(whole, Sum) and whole.known and not whole.constant:
                    self._after_breaks(frame)
                    return
                if number == MOST_UNROLLED:
                    break
                before = dict(self.variables)
                frame.leaving = []
                frame.turn_off = ZERO
                with self.under(condition):
                    ended = self.run(parts.body)
                for left, kept in frame.leaving:
                    self.variables = kept if ended else self.merge(left, kept, self.variables)
                    ended = False
                frame.turn_off = ZERO
                if ended:
                    self._after_breaks(frame)
                    return
                with self.under(condition):
                    if parts.step is not None:
                        self.value(parts.step)
                if isinstance(condition, Sum) and not condition.known:
                    self.variables = self.merge(condition, self.variables, before)
        raise NoForm(f"it was read for {MOST_UNROLLED} turns and has not ended")

    def _inside(self, frame: Frame) -> Condition:
        off = frame.off
        return off if isinstance(off, Unknown) else minus(ONE, off)

    def _after_breaks(self, frame: Frame) -> None:
        """Lanes that broke off go on with the values that they had."""
        for condition, kept in frame.breaks:
            self.variables = self.merge(condition, kept, self.variables)

    # --- what a loop changes ----------------------------------------------------------------------------

    def _changed(self, parts: _Parts) -> list[int]:
        """The variables that the body or the step may change, those of functions that they call with them."""
        found: dict[int, None] = {}
        for part in (parts.condition, parts.step, parts.body):
            if part is not None:
                self._changed_in(part, found, set())
        return list(found)

    def _changed_in(self, top: Node, found: dict[int, None], entered: set[int]) -> None:
        for node in top.walk():
            targets: list[Node | None] = []
            if node.kind == "assign" or (node.kind == "unary" and node.value in ("x++", "x--", "++x", "--x", "&")):
                targets = [node.children[0]]
            elif node.kind == "asm" and node.value is not None:
                targets = list(node.children[: node.value["outputs"]])
            elif node.kind == "call":
                targets = list(node.children)
                if node.value["object"] is not None:
                    targets.append(node.value["object"])
                number = node.value["function"]
                function = self.kernel.functions.get(number)
                if function is not None and function.body is not None and number not in entered:
                    entered.add(number)
                    self._changed_in(function.body, found, entered)
            elif node.kind == "var" and node.children and node.children[0] is not None:
                declared = self.declaration(node.value[0])
                if declared.type.kind == "reference":
                    targets = [node.children[0]]
            for target in targets:
                key = _root(target)
                if key is not None:
                    if key in self.references:
                        place = self.references[key]
                        while place.base is not None:
                            place = place.base
                        if place.variable >= 0:
                            found[place.variable] = None
                        elif place.address is not None and place.address.array.space == "local":
                            found[place.address.array.key] = None
                    else:
                        found[key] = None


class _Wanted(NoForm):
    """A loop whose turns --set would tell."""

    def __init__(self, why: Unknown) -> None:
        super().__init__(why.why)
        self.unknown = why


# --- forms ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Affine:
    """begin + step * turn."""

    begin: Sum
    step: Sum

    def __call__(self, turn: Sum) -> Sum:
        return add(self.begin, multiply(turn, self.step))


@dataclass(frozen=True, slots=True)
class _Table:
    """begin + entries[turn]."""

    begin: Sum
    entries: Any

    def __call__(self, turn: Sum) -> Sum:
        return add(self.begin, table(turn, self.entries))


@dataclass(frozen=True, slots=True)
class _Previous:
    """begin in turn 0, later a function of the turn before."""

    begin: Sum
    after: Sum
    others: dict[str, Any]

    def __call__(self, turn: Sum) -> Sum:
        before = extreme("max", minus(turn, ONE), ZERO)
        later = substitute(self.after, {n: form(before) for n, form in self.others.items()})
        return select(is_zero(turn), self.begin, later)


def _ends(condition: Sum, name: str) -> Sum | None:
    """The turns until a condition is false, where it is of comparisons of begin + step * turn; None elsewhere."""
    if condition.known:
        return None if condition.constant else ZERO
    if len(condition.parts) != 1:
        return _ends_unequal(condition, name)
    atom, k = condition.parts[0]
    if k != 1 or condition.constant:
        return _ends_unequal(condition, name)
    if atom.op == "and":
        counts = [_ends(arg, name) for arg in atom.args]
        first, second = counts
        if first is None or second is None:
            return None
        return extreme("min", first, second)
    if atom.op != "nonneg":
        return None
    inner = atom.args[0]
    step = sum(k for a, k in inner.parts if a.op == "var" and a.data == name)
    rest = Sum(inner.constant, tuple((a, k) for a, k in inner.parts if not (a.op == "var" and a.data == name)))
    if name in rest.variables or step >= 0 or rest.high >= FREE:
        return None
    return floor_div(extreme("max", add(rest, constant(-step)), ZERO), -step)


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


def _plain(value: Value) -> Sum | None:
    if isinstance(value, Number):
        return value.sum
    return value.offset if isinstance(value, Address) else None


def _kind(value: Value) -> tuple[int, bool]:
    return (value.bits, value.signed) if isinstance(value, Number) else (64, True)


def _array(value: Value) -> object:
    return value.array if isinstance(value, Address) else None


def _stand(name: str) -> Sum:
    return variable(name, -FREE, FREE, fresh=True)


def _changed_to(value: Value) -> Unknown:
    """What a variable is after a loop that sets it to something that is no number."""
    found = unknown(value)
    return Unknown(found.why, found.name, found.carried)


def _settled(value: Cells, name: str) -> Cells:
    """Elements that a loop has set: those that depend on its turn are not known behind it."""

    def of(one: Value) -> Value:
        plain = _plain(one)
        if plain is not None and name in plain.variables:
            return Unknown("an element of an array in registers is set in a loop", carried=True)
        return one

    return Cells({k: of(v) for k, v in value.elements.items()}, of(value.rest))


_LANES = frozenset({"x", "y", "z"})


class _Walk:
    """Variables that are known in every turn: `begin` before the first, `after` a turn by those before it."""

    def __init__(
        self, begin: dict[str, Sum], after: dict[str, Sum], kinds: dict[str, tuple[int, bool]], threads: dict[str, Any]
    ) -> None:
        self.begin, self.after, self.kinds, self.threads = begin, after, kinds, threads

    def closure(self, names: Iterable[str]) -> set[str] | None:
        """The variables that these depend on; None where one is not known in every turn."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            n = waiting.pop()
            if n in found:
                continue
            if n not in self.after or not self.begin[n].variables <= _LANES or self.begin[n].fresh:
                return None
            found.add(n)
            for m in self.after[n].variables:
                if m in self.after:
                    waiting.append(m)
                elif m not in _LANES:
                    return None
        return found

    def _first(self, states: set[str]) -> dict[str, Any]:
        import numpy as np

        return {n: np.asarray(values(self.begin[n], self.threads), dtype=np.int64) for n in states}

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
            elif value.size and int(np.abs(value).max()) >= 1 << 61:
                raise NoForm("a number of it grows past 2^61")
            out[n] = value
        return out

    def turns(self, states: set[str], condition: Sum, first: bool) -> int:
        """Turns until a condition is false."""
        import numpy as np

        now = self._first(states)
        for turn in range(MOST_TABLED):
            if first or turn:
                holds = np.asarray(values(condition, {**self.threads, **now}))
                if holds.min() != holds.max():
                    raise NoForm("lanes leave it at different turns")
                if not holds.min():
                    return turn
            now = self._next(now)
        raise NoForm("it has no end that is known")

    def history(self, states: set[str], turns: int) -> dict[str, Any]:
        """The values in turns 0 to `turns`: arrays whose first axis is the turn."""
        import numpy as np

        now = self._first(states)
        rows: dict[str, list[Any]] = {n: [now[n]] for n in states}
        for _ in range(turns):
            now = self._next(now)
            for n in states:
                rows[n].append(now[n])
        return {n: np.stack(np.broadcast_arrays(*given)) for n, given in rows.items()}

    def steps(self, step: Sum, history: dict[str, Any], turns: int) -> Any:
        """The values of a step in every turn."""
        import numpy as np

        wide = any(h.ndim == 2 for h in history.values()) or bool(step.variables & _LANES)
        env = dict(self.threads)
        for n, entries in history.items():
            env[n] = entries[:turns] if entries.ndim == 2 or not wide else entries[:turns, None]
        shape = (turns, len(self.threads["thread"])) if wide else (turns,)
        return np.broadcast_to(np.asarray(values(step, env), dtype=np.int64), shape)


def _root(node: Node | None) -> int | None:
    """The variable that an expression names, through members, elements and casts; None for memory."""
    while node is not None:
        if node.kind == "name":
            return int(node.value)
        if node.kind in ("subscript", "member", "cast") or (node.kind == "unary" and node.value in ("&", "*")):
            node = node.children[0] if node.children else None
        else:
            return None
    return None


def _declared_in(body: Node) -> list[int]:
    """The variables that are declared inside."""
    return [node.value[0] for node in body.walk() if node.kind == "var"]
