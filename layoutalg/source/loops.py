"""Loops of a kernel, read once for all turns where that is exact, and turn by turn where it is not.

The idea.  The body is tried with every variable that it changes standing for itself.  What the try leaves
says how the variable goes from turn to turn:

    v + d                 d the same in each turn:                        v(t) = v0 + d t
    v + d(others)         d a function of the turn alone:                 v(t) = v0 + a table of sums
    f(v, others)          known numbers go on from known numbers:         v(t) = a table
    f(others)             set anew, without itself:                       v(t) = f at turn t - 1; v0 in turn 0

The number of turns follows from the condition: `v0 + d t < n` ends at a quotient, anything else of known
numbers by going on until it is false.  Where lanes leave at different turns, the condition stays with every
access. Then the body is read once, with t a variable.  Loops that are none of this are read turn by turn, up
to MOST_UNROLLED turns; of what is still not known every access says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

from layoutalg.limits import Most
from layoutalg.source.front import Node, Type
from layoutalg.source.machine import Bound, Frame, TooLong
from layoutalg.source.recurrences import (
    CARRIED,
    LANES,
    MoreChanges,
    NoForm,
    Parts,
    Tried,
    Walk,
    affine,
    alike,
    array_of,
    changed_to,
    declared_in,
    entering,
    kind_of,
    plain,
    settled,
    stand_in,
    turns_until,
    undisturbed,
)
from layoutalg.source.statements import Statements
from layoutalg.source.terms import (
    FREE,
    ONE,
    ZERO,
    Sum,
    add,
    constant,
    held,
    minus,
    nonnegative,
    sizes,
    substitute,
    tabled,
    unwrapped,
    variable,
)
from layoutalg.source.values import (
    UNSET,
    Address,
    Cells,
    Condition,
    Number,
    Real,
    Unknown,
    Value,
    chosen,
    conjunction,
    disjunction,
    inverse,
    lost,
    number,
)  # fmt: skip

_COUNTER = Type("int", "long", 8, 8, True)
"""The type of the number of a turn."""

MOST_UNROLLED = 1024
MOST_TURNS = 1 << 40
FEW_UNROLLED = 16
"""Turns of a loop that is read turn by turn when it is met again, without a trial of all at once."""

SHARE = 2
"""The part of all steps that a loop may take which is read turn by turn."""

MOST_DEPTH = 256
"""Operations inside one another in a number that a loop makes turn by turn; later accesses have them all."""

FEW = 4
"""Turns that are read one by one with their sums as they are."""


class Reader(Statements):
    """All of a kernel; `changes` are the variables that loops are known to change, by their bodies."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.changes: dict[int, dict[int, None]] = {}

    def loop(self, node: Node) -> bool:
        """Read a loop."""
        if node.kind == "for":
            init, condition, step, _ = node.children
            if init is not None:
                self.run(init)
            parts = Parts(condition, step, node.part(3), True)
        elif node.kind == "while":
            parts = Parts(node.children[0], None, node.part(-1), True)
        else:
            parts = Parts(node.children[1], None, node.part(0), False)
        counter = self.hold(number(0, _COUNTER), _COUNTER)
        self.counters.append(counter)
        try:
            return self._looped(node, parts, counter)
        finally:
            self.counters = self.counters[: self.counters.index(counter)]
            self.variables.pop(counter, None)

    def _looped(self, node: Node, parts: Parts, counter: int) -> bool:
        """Read a loop whose turns are counted in a variable of no name."""
        start, mark, back = dict(self.variables), len(self.touches), self.kept()
        if id(node) in self.unrolled:
            with contextlib.suppress(NoForm):
                self._one_by_one(parts)
                return False
        carried = ""
        changed, formless = self._changed(parts), set[int]()
        while True:
            try:
                self._at_once(parts, {**changed, counter: None}, formless)
                carried = next((t.why or CARRIED.why for t in self.touches[mark:] if t.carried), "")
                if not carried and not self._lost(start, changed):
                    return False
                reason = carried or "what it leaves in variables is not known"
                break
            except MoreChanges as more:
                changed |= dict.fromkeys(more.keys)
                formless |= more.formless
                back()
            except NoForm as error:
                reason = str(error)
                break
        touched, once = len(self.touches) > mark, self.kept()
        back()
        try:
            if self._one_by_one(parts) <= FEW_UNROLLED:
                self.unrolled.add(id(node))
        except NoForm as error:
            if carried or touched:
                once()
                return False
            self.unrolling += 1
            self._not_read(parts, f"{reason}; {error}" if str(error) != reason else reason, error.name)
            self.unrolling -= 1
        return False

    def _one_by_one(self, parts: Parts) -> int:
        """Read a loop turn by turn, and return its turns; where it does not end, all is as it was before."""
        back, until = self.kept(), self.until
        self.until = min(until, self.steps + self.most_steps // SHARE)
        self.unrolling += 1
        try:
            return self._turn_by_turn(parts)
        except (NoForm, TooLong) as error:
            back()
            if isinstance(error, NoForm) or self.until == until:  # a loop around it has taken too long
                raise
            raise NoForm(f"turn by turn it takes more than {self.most_steps // SHARE:,} steps") from None
        finally:
            self.unrolling -= 1
            self.until = until

    def _lost(self, start: dict[int, Value], changed: Collection[int]) -> bool:
        """Whether a variable that the loop changes is not known behind it, for want of its turns."""
        for key, before in start.items():
            value = self.variables.get(key, before)
            inner = (*value.elements.values(), value.rest) if isinstance(value, Cells) else (value,)
            fresh = key in changed or value is not before
            if fresh and any(isinstance(v, Unknown) and v.carried for v in inner):
                return True
        return False

    def _not_read(self, parts: Parts, why: str, name: str) -> None:
        """The body once, under a condition that is not known; a value of `name` would settle it."""
        carried = bool(self.turns)  # of an outer loop that is read turn by turn, more is known
        reason = Unknown(f"the turns of its loop are not known: {why}", name, carried)
        lost = Unknown(f"a loop changes it: {why}", name, carried)
        start, back = dict(self.variables), self.kept()
        changed = {key for key in (*self._changed(parts), self.counters[-1]) if key in start}
        while True:
            self.lose(changed, lost)
            before = dict(self.variables)
            with self.frame("loop"), self.under(reason):
                if parts.condition is not None:
                    self.condition(parts.condition)
                self.run(parts.body)
                if parts.step is not None:
                    self.value(parts.step)
            fresh = {k for k in start if self.variables.get(k) is not before[k]} - changed
            if not fresh:
                break
            changed |= fresh
            back()
        self.lose(changed, lost)

    # --- once for all turns -----------------------------------------------------------------------------

    def _at_once(self, parts: Parts, may_change: Collection[int], formless: set[int]) -> None:
        for key in declared_in(parts.body):
            self.variables.pop(key, None)
        start = dict(self.variables)
        tried = self._tried(parts, start, may_change, formless)
        self.loops += 1
        counter, name = self.counters[-1], f"t{self.loops}"
        forms, guard, turns, count = self._solved(tried, start, parts, name)
        if self.trying and all(callable(forms.get(k)) or isinstance(start[k], Real) for k in tried.after):
            self._enter(forms, start, count, tried)  # nothing that is accessed is kept, and no value is left
            return
        turn = variable(name, 0, max(turns - 1, 0))
        self._enter(forms, start, turn, tried)
        before = dict(self.variables)
        depth = len(self.turns)
        self.turns.append((name, turns))
        with self.frame("loop") as frame, self.under(ZERO if turns == 0 else substitute(guard, {name: turn})):
            condition: Condition = ONE
            if parts.first and parts.condition is not None:
                condition = self.condition(parts.condition)
            ended = self.run(parts.body)
            for left, saved in frame.leaving:
                self.variables = saved if ended else self.merge(left, saved, self.variables)
                ended = False
            if not parts.first and parts.condition is not None:
                condition = self.condition(parts.condition)
            if parts.step is not None:
                self.value(parts.step)
            self._count(counter)
        del self.turns[depth:]
        self._more(before, tried.after)
        self._as_tried(before, tried, forms)
        if isinstance(condition, Unknown):
            raise NoForm(condition.why, condition.name)
        after = self.variables
        self.variables = dict(after)
        self._enter(forms, start, count, tried)
        some = nonnegative(minus(count, ONE))
        for key in tried.after:
            value = after.get(key, UNSET)
            if isinstance(value, (Number, Address, Cells)) and not callable(forms.get(key)):
                self.variables[key] = chosen(some, settled(value, name, minus(count, ONE)), start[key])

    def _count(self, counter: int) -> None:
        """Go on to the next turn of a loop."""
        value = self.variables[counter]
        if isinstance(value, Number):
            self.variables[counter] = Number(add(value.sum, ONE), value.bits)

    def _more(self, before: dict[int, Value], known: Collection[int]) -> None:
        """Raise where a turn has changed a variable that was not known to change."""
        fresh = [k for k, v in before.items() if k not in known and self.variables.get(k) is not v]
        if fresh:
            raise MoreChanges(fresh)

    def _as_tried(self, before: dict[int, Value], tried: Tried, forms: dict[int, Any]) -> None:
        """Raise where a turn has changed a variable in another way than the try.

        The trial turn assumes that a pointer stays in its array.  Where it does not, the turn stores to a
        place that is not known, and a variable that had a form by the trial has none.
        """
        formless = set[int]()
        for key in tried.after.keys() - tried.formless:
            value, entered, form = self.variables.get(key), before[key], forms.get(key)
            if isinstance(entered, Cells):
                same = isinstance(value, Cells) and undisturbed(entered, value)
            else:
                same = form is None or isinstance(form, Unknown) or alike(entered, value)
            if not same:
                formless.add(key)
        if formless:
            raise MoreChanges([], formless)

    def _enter(self, forms: dict[int, Any], start: dict[int, Value], turn: Sum, tried: Tried) -> None:
        """Give every variable that the loop changes its value at a turn."""
        for key in tried.after:
            before = start[key]
            form = forms.get(key)
            if isinstance(form, Unknown):
                self.variables[key] = lost(self.kind_of_variable(key), form)
            elif isinstance(before, Cells):
                known = key not in tried.formless
                self.variables[key] = entering(before, tried.after[key]) if known else Cells({}, CARRIED)
            elif form is not None and isinstance(before, Number):
                self.variables[key] = Number(form(turn), before.bits, before.signed)
            elif form is not None and isinstance(before, Address):
                self.variables[key] = Address(before.array, form(turn))

    def _tried(
        self, parts: Parts, start: dict[int, Value], may_change: Collection[int], formless: set[int]
    ) -> Tried:
        """Read a trial turn in which every changed variable stands for itself."""
        names: dict[str, int] = {}
        counter = self.counters[-1]
        changed = [key for key in may_change if key in start]
        back, around = self.kept(), self.departed()
        self.trying += 1
        try:
            for key in changed:
                before = start[key]
                name = f"v{key}.{self.trying}"
                stand = stand_in(name, kind_of(before))
                if key in formless:
                    self.variables[key] = lost(self.kind_of_variable(key), CARRIED)
                elif isinstance(before, Number):
                    names[name] = key
                    self.variables[key] = Number(stand, before.bits, before.signed)
                elif isinstance(before, Address):
                    names[name] = key
                    self.variables[key] = Address(before.array, stand)
                elif isinstance(before, Cells):
                    self.variables[key] = Cells({}, CARRIED)
                elif (
                    not isinstance(before, Unknown) or before is UNSET
                ):  # it holds what an earlier turn has set
                    self.variables[key] = lost(self.kind_of_variable(key), CARRIED)
            entered = dict(self.variables)
            with self.frame("loop") as frame:
                condition: Condition = ONE
                if parts.first:
                    made = self.made
                    condition = self.condition(parts.condition)
                    if self.made != made or any(self.variables.get(k) is not v for k, v in entered.items()):
                        raise NoForm("its condition loads, stores or sets variables")
                    self.stack.append(condition)
                ended = self.run(parts.body)
                for left, saved in frame.leaving:
                    self.variables = saved if ended else self.merge(left, saved, self.variables)
                    ended = False
                if parts.step is not None:
                    self.value(parts.step)
                self._count(counter)
                if not parts.first:
                    condition = self.condition(parts.condition)
            if frame.breaks or self.departed() != around:
                raise NoForm("lanes leave the loop inside of it")
            self._more(entered, changed)
            after = {key: self.variables.get(key, start[key]) for key in changed}
        finally:
            self.trying -= 1
            back()
        return Tried(names, after, condition, formless)

    def _solved(
        self, tried: Tried, start: dict[int, Value], parts: Parts, name: str
    ) -> tuple[dict[int, Any], Sum, int, Sum]:
        """(value at a turn for each variable, condition of a turn, turns at most, turns of a lane)."""
        names = dict(tried.names)
        begin = {n: p for n, key in names.items() if (p := plain(start[key])) is not None}
        after: dict[str, Sum] = {}
        forms: dict[int, Any] = {}
        for n, key in names.items():
            value = tried.after[key]
            ended = plain(value)
            if isinstance(value, Address) and value.array != array_of(start[key]):
                name_of = value.array.name
                forms[key] = Unknown(f"a loop changes it to an address in {name_of}", carried=True)
            elif ended is None:
                forms[key] = changed_to(value)
            else:
                after[n] = ended
        for key, value in tried.after.items():
            if key not in names.values() and not isinstance(start[key], Cells):
                reason = value if isinstance(value, Unknown) else start[key]
                forms[key] = reason if isinstance(reason, Unknown) and reason is not UNSET else CARRIED
        kinds = {n: kind_of(start[key]) for n, key in names.items()}
        walk = Walk(begin, after, kinds, self.threads)
        solved: dict[str, Any] = {}
        for n in list(after):
            step = minus(after[n], stand_in(n, walk.kinds[n]))
            if not step.variables & set(names):
                solved[n] = affine(begin[n], step)
        turns, count, guard = self._counted(tried, solved, walk, parts, name)
        if turns <= Most.ONE_BY_ONE.number:
            walk.rest(solved, turns)
        for n in [n for n in after if n not in solved]:
            if (states := walk.closure({n})) is not None:
                solved |= {m: cycle for m, cycle in walk.cycles(states).items() if m not in solved}
        for n, key in names.items():
            if key not in forms:
                closed = solved.get(n)
                forms[key] = (
                    closed
                    if closed is not None
                    else Unknown("a loop changes it from turn to turn", carried=True)
                )
        return forms, guard, turns, count

    def _counted(
        self, tried: Tried, solved: dict[str, Any], walk: Walk, parts: Parts, name: str
    ) -> tuple[int, Sum, Sum]:
        """(most turns, turns of a lane, condition of a turn)."""
        condition = tried.condition
        if isinstance(condition, Unknown):
            raise NoForm(condition.why, condition.name)
        t = variable(name, 0, FREE, fresh=True)
        needed = condition.variables & set(tried.names)
        if needed <= set(solved):
            at = unwrapped(substitute(condition, {n: solved[n](t) for n in needed}))
            until = turns_until(at, name)
            if until is not None and sizes(until):
                return self._by_sizes(until, at, condition, {n: solved[n] for n in needed}, walk, parts, name)
            if until is not None and until.high <= MOST_TURNS:
                reached = variable(name, 0, max(until.high, 0))
                for n in needed:
                    form, (width, signed) = solved[n](reached), walk.kinds[n]
                    if held(form, width, signed).key != form.key:
                        raise NoForm("a number that ends it may leave its type")
                within = substitute(condition, {n: solved[n](reached) for n in needed})
                if within.key != substitute(at, {name: reached}).key:
                    raise NoForm("a number in its condition may leave its type")
                count = until if parts.first else add(until, ONE)
                turns = max(count.high, 0)
                if turns > MOST_TURNS:
                    raise NoForm("it has no end that is known")
                if not parts.first and not count.known:
                    raise NoForm("lanes leave it behind different turns")
                guard = ONE if count.known else substitute(at, {name: variable(name, 0, max(turns - 1, 0))})
                return turns, count, guard
        states = walk.closure(needed)
        if states is None or not condition.variables <= {*needed, *LANES}:
            raise NoForm("its condition is not of numbers that are known turn by turn")
        turns = walk.turns(states, condition, parts.first)
        return turns, constant(turns), ONE

    def _by_sizes(
        self, until: Sum, at: Sum, condition: Sum, forms: dict[str, Any], walk: Walk, parts: Parts, name: str
    ) -> tuple[int, Sum, Sum]:
        """The answer of `_counted` where numbers that are not given decide how many turns there are."""
        turns = max(until.high, 0) + 1
        reached = variable(name, 0, turns)
        ends = {n: form(reached) for n, form in forms.items()}
        self.bounds[name] = Bound(
            add(until, ZERO if parts.first else ONE),
            (*(held(end, *walk.kinds[n]) for n, end in ends.items()), substitute(condition, ends)),
        )
        turn = variable(name, 0, turns - 1)
        if parts.first:
            return turns, until, substitute(at, {name: turn})
        if until.variables & LANES:
            raise NoForm("lanes leave it behind different turns")
        return turns, add(until, ONE), nonnegative(minus(until, turn))

    # --- turn by turn -----------------------------------------------------------------------------------

    def _turn_by_turn(self, parts: Parts) -> int:
        """Read the body for each turn, and return their number; raises NoForm where it does not end."""
        effects = parts.condition is not None and self.acts(parts.condition)
        with self.frame("loop") as frame:
            for turn in range(MOST_UNROLLED + 1):
                condition: Condition = ONE
                if parts.first or turn:
                    inside = self._inside(frame)
                    condition = self.only_where(inside, lambda: self.condition(parts.condition))
                if isinstance(condition, Unknown):
                    raise NoForm(condition.why, condition.name)
                if names := sizes(condition):
                    if names[0] in self.opened:
                        raise NoForm(f"{names[0]} is not known")
                    raise NoForm(f"{names[0]} is not known: --set {names[0]}=VALUE", names[0])
                if not condition.known and (
                    condition.fresh or condition.variables & {n for n, _ in self.turns}
                ):
                    raise NoForm("its condition depends on another loop")
                running = conjunction(condition, self._inside(frame))
                if turn >= FEW and isinstance(running, Sum):
                    running = tabled(running, self.threads)
                    condition = tabled(condition, self.threads)
                if isinstance(running, Sum) and running.known and not running.constant:
                    self.after_breaks(frame)
                    return turn
                if effects:  # for lanes that have ended, it is not asked again
                    frame.breaks.append((conjunction(self._inside(frame), inverse(condition)),
                                         dict(self.variables)))  # fmt: skip
                    frame.off = disjunction(frame.off, inverse(condition))
                if turn == MOST_UNROLLED:
                    break
                self.variables[self.counters[-1]] = number(turn, _COUNTER)
                before = dict(self.variables)
                frame.leaving = []
                frame.turn_off = ZERO
                with self.under(condition):
                    ended = self.run(parts.body)
                for left, saved in frame.leaving:
                    self.variables = saved if ended else self.merge(left, saved, self.variables)
                    ended = False
                frame.turn_off = ZERO
                if ended:  # lanes that did not come in go on with what they had
                    self.variables = self.merge(condition, self.variables, before)
                    self.after_breaks(frame)
                    return turn
                if parts.step is not None:
                    with self.under(condition):
                        self.value(parts.step)
                if isinstance(condition, Sum) and not condition.known:
                    self.variables = self.merge(condition, self.variables, before)
                if turn >= FEW:
                    self._tabled(frame, before)
        raise NoForm(f"it was read for {MOST_UNROLLED} turns and has not ended")

    def _tabled(self, frame: Frame, before: dict[int, Value]) -> None:
        """Keep what a turn has changed small."""
        for key, value in self.variables.items():
            if isinstance(value, Number) and before.get(key) is not value:
                small = tabled(value.exact, self.threads)
                self.variables[key] = Number(small, value.bits, value.signed)
                if small.depth > MOST_DEPTH:
                    raise NoForm("from turn to turn, a number of it is made of more and more others")
        if isinstance(frame.off, Sum):
            frame.off = tabled(frame.off, self.threads)

    def _inside(self, frame: Frame) -> Condition:
        off = frame.off
        return off if isinstance(off, Unknown) else minus(ONE, off)

    # --- what a loop changes ----------------------------------------------------------------------------

    def _changed(self, parts: Parts) -> dict[int, None]:
        """The variables that a loop is known to change: by its text, and by what was read of it before."""
        if id(parts.body) not in self.changes:
            keys = self.changes[id(parts.body)] = {}
            for part in (parts.condition, parts.step, parts.body):
                if part is not None:
                    self.changed_in(part, keys, set())
        return self.changes[id(parts.body)]
