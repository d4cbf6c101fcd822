"""A tile program made ready to run: every statement a generator over a group of lanes.

The idea.  Each statement is compiled once to `run(group)`, which executes it for the group's active lanes:
`If` and `For` narrow the lanes and restore them, loops set a variable in the group's frame, `Do` moves data

    registers, memory -> sources -> arrays (lanes, words) -> effect -> arrays -> targets -> registers, memory

A generator yields only where an instruction has to wait, and what it yields is the condition to go on.  Who
runs next is the scheduler's choice (see simulate): each group has its own program counter, whatever its size.

Notes.  An effect is applied first, then `ready` is called: a barrier arrives, then waits.  An effect that
sees poison (see machine) is applied twice, to the poisoned bits as 0 and as 1; what differs is poison.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never

import numpy

from layoutalg.budget import spend
from layoutalg.codegen.expr import Var
from layoutalg.codegen.instr import WARP
from layoutalg.codegen.program import Do, For, If, Kernel, Let, RegRef, Role, Roles, Stmt, Unroll
from layoutalg.codegen.sim.closures import Closure, Scope
from layoutalg.codegen.sim.engines import BoundMap
from layoutalg.codegen.sim.hazards import Array
from layoutalg.codegen.sim.machine import Group, Machine
from layoutalg.codegen.sim.memtrace import MemTrace
from layoutalg.codegen.sim.operands import Operands, Source, Target, read_where
from layoutalg.errors import IRError

Waits: TypeAlias = Iterator[Callable[[], bool]]
Step: TypeAlias = "Callable[[Group], Waits | None]"
"""A statement made ready: None where it has been executed, without a wait."""

Steps: TypeAlias = tuple[Step, ...]
Turns: TypeAlias = "Callable[[Group], Iterator[Steps]]"
"""The turns of a statement with statements inside: the next ones to execute, variables and lanes set."""


class Body(NamedTuple):
    """Statements made ready, and whether any of them may wait."""

    steps: Steps
    waits: bool


STATEMENT = 60
"""Units of work (layoutalg.budget) of a statement that a group executes: mostly NumPy's calls, whatever the
number of lanes."""

PER_WARP = 4
"""Units of work that each warp of the group adds."""


class Program:
    """A kernel's statements as generators, for a machine with its buffers, and tensor maps by name.

    `slots` are the places of the kernel's thread, block and parameter variables in a group's frame; groups
    count by number how often they have executed statement `statements[n]`; `trace` holds every memory
    operand: a new one for True, or that of another block of the cluster.
    """

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        maps: Mapping[str, BoundMap],
        trace: MemTrace | Literal[True] | None,
    ) -> None:
        self.machine = machine
        self.operands = Operands(kernel, machine, maps)
        self.scope = Scope()
        bound = (kernel.tid, *kernel.block_vars, *kernel.integers)
        self.slots = {var: self.scope.declare(var) for var in bound}
        self.statements: list[Do] = []
        self._body = self._compile(kernel.body, self.scope, ())
        self.trace = self.operands.trace = MemTrace(self.operands.sites) if trace is True else trace

    def run(self, group: Group) -> Waits:
        """Execute the program for a group, to its end."""
        return _in_turns(partial(_once, self._body), group)

    def executed(self, groups: Iterable[Group]) -> Array:
        """Count how often each warp of a block's groups executed each statement, (statements, warps)."""
        counts: Array = numpy.zeros((len(self.statements), self.machine.warps), dtype=numpy.int64)
        for group in groups:
            for (number, lanes), times in group.executed.items():
                first = group.first_warp
                counts[number, first : first + len(lanes.warps)] += times * lanes.warps
        return counts

    def _compile(self, body: tuple[Stmt, ...], scope: Scope, loops: tuple[Var, ...]) -> Body:
        steps: list[Step] = []
        waits = False

        def add(turns: Turns, bodies: Iterable[Body]) -> None:
            nonlocal waits
            inside = any(body.waits for body in bodies)
            waits = waits or inside
            steps.append(partial(_in_turns if inside else _at_once, turns))

        for s in body:
            match s:
                case Do():
                    steps.append(self._do(s, scope, loops))
                    waits = waits or s.instr.ready is not None
                case Let(var, value):
                    if isinstance(value, RegRef):
                        source = self.operands.register(value, s, scope)
                        steps.append(partial(_take, scope.declare(var), source, str(s)))
                    else:
                        compute = scope.compile(value)
                        steps.append(partial(_let, scope.declare(var, value), compute))
                case For(var, count, inner, _, carry):
                    trips, inside = scope.compile(count), scope.inner()
                    slot = inside.declare(var)
                    places = [
                        (inside.declare(c.var), scope.compile(c.first), scope.compile(c.step)) for c in carry
                    ]
                    repeated = self._compile(inner, inside, (*loops, var))
                    add(partial(_for, slot, trips, repeated.steps, places), [repeated])
                case Unroll(var, n, inner):
                    inside = scope.inner()
                    slot = inside.declare(var)
                    repeated = self._compile(inner, inside, (*loops, var))
                    add(partial(_unroll, slot, n, repeated.steps), [repeated])
                case If(condition, inner, orelse):
                    yes = self._compile(inner, scope.inner(), loops)
                    no = self._compile(orelse, scope.inner(), loops)
                    add(partial(_if, scope.compile(condition), yes.steps, no.steps), [yes, no])
                case Roles(parts):
                    roles = [self._role(part, scope, loops) for part in parts]
                    add(partial(_roles, roles), [body for *_, body in roles])
                case _:
                    assert_never(s)
        return Body(tuple(steps), waits)

    def _role(self, part: Role, scope: Scope, loops: tuple[Var, ...]) -> tuple[Role, int, Body]:
        inside = scope.inner()
        return part, inside.declare(part.thread), self._compile(part.body, inside, loops)

    def _do(self, s: Do, scope: Scope, loops: tuple[Var, ...]) -> Step:
        number, machine, instr = len(self.statements), self.machine, s.instr
        self.statements.append(s)
        where = partial(_where, s, {v.name: scope.compile(v) for v in loops})
        sources: list[Source] = []
        targets: list[Target] = []
        shapes: list[int] = []
        acts = any(o.role in ("place", "update", "barrier", "map") for o in instr.operands)
        allowed = [scope.compile(guard) for guard in s.guards]
        for operand, arg in s.pairs:
            if operand.role == "guard":
                continue
            source, target = self.operands.compile(operand, arg, s, number, scope)
            if source is not None and operand.role == "read" and allowed:
                source = partial(read_where, source, partial(_holds, allowed[0]), operand.words)
            if source is not None:
                sources.append(source)
            if target is not None:
                targets.append(target)
                shapes.append(operand.words)

        try:
            _check_arity(instr.effect, len(sources))
        except TypeError as error:
            raise IRError(
                "effect", s, f"the effect of {instr} is called with {len(sources)} values: {error}"
            ) from error

        whole_warps, whole_warpgroups = instr.requires.warp_converged, instr.requires.warpgroup_converged

        def run(group: Group) -> None:
            group.number, group.statement = number, partial(where, group.frame)
            lanes = group.active
            ran = group.executed
            ran[number, lanes] = ran.get((number, lanes), 0) + 1
            spend(STATEMENT + PER_WARP * len(lanes.warps))
            if whole_warps:
                machine.check_whole_warps(group, instr.name)
            if whole_warpgroups:
                machine.check_whole_warpgroups(group, instr.name)
            taken = [source(group) for source in sources]
            if acts and any(poison is not None for _, poison in taken):
                raise group.fail("passes on bytes that nobody has written")
            results = _apply(s, machine, group, taken, shapes)
            for target, (value, poison) in zip(targets, results, strict=True):
                target(group, value, poison)

        if (ready := instr.ready) is None:
            return run

        def run_and_wait(group: Group) -> Waits:
            run(group)
            if not ready(machine, group):
                yield partial(ready, machine, group)

        return run_and_wait


@functools.lru_cache(maxsize=1 << 10)
def _check_arity(effect: Callable[..., Any], values: int) -> None:
    """Check that an effect can be called with so many values.  Raises TypeError."""
    inspect.signature(effect).bind(None, None, *(None for _ in range(values)))


def _holds(guard: Closure, group: Group) -> Array:
    """Mark the lanes where a guard holds."""
    return numpy.broadcast_to(numpy.asarray(guard(group.frame), dtype=bool), group.lanes)


def _at_once(turns: Turns, group: Group) -> None:
    """A statement in which nothing waits."""
    for steps in turns(group):
        for step in steps:
            step(group)


def _in_turns(turns: Turns, group: Group) -> Waits:
    """A statement in which something may wait."""
    for steps in turns(group):
        for step in steps:
            waits = step(group)
            if waits is not None:
                yield from waits


def _let(slot: int, value: Closure, group: Group) -> None:
    group.frame[slot] = value(group.frame)


def _take(slot: int, source: Source, text: str, group: Group) -> None:
    """The number of a register as an index."""
    group.statement = lambda: repr(text)
    value, poison = source(group)
    if poison is not None and poison[group.active.index].any():
        raise group.fail("takes bytes that nobody has written as an index")
    group.frame[slot] = value[:, 0].astype(numpy.int64)


def _once(body: Body, group: Group) -> Iterator[Steps]:
    yield body.steps


def _for(
    slot: int, count: Closure, body: Steps, places: list[tuple[int, Closure, Closure]], group: Group
) -> Iterator[Steps]:
    trips, frame = count(group.frame), group.frame
    for carried, first, _ in places:
        frame[carried] = first(frame)
    # places move behind the body, as the pointers of the printed loop do
    body = (*body, partial(_advance, [(carried, step) for carried, _, step in places])) if places else body
    if not isinstance(trips, numpy.ndarray):
        yield from _unroll(slot, trips, body, group)
        return
    outer = group.active
    for n in range(int(trips[outer.index].max())):
        inner = group.narrowed(trips > n)
        if inner is not None:
            group.frame[slot], group.active = n, inner
            yield body
            group.active = outer


def _advance(places: list[tuple[int, Closure]], group: Group) -> None:
    for carried, step in places:
        group.frame[carried] = group.frame[carried] + step(group.frame)


def _unroll(slot: int, count: int, body: Steps, group: Group) -> Iterator[Steps]:
    for n in range(count):
        group.frame[slot] = n
        yield body


def _if(condition: Closure, yes: Steps, no: Steps, group: Group) -> Iterator[Steps]:
    holds = condition(group.frame)
    if not isinstance(holds, numpy.ndarray):
        yield yes if holds else no
        return
    outer = group.active
    holds = holds.astype(bool, copy=False)
    for body, wanted in ((yes, True), (no, False)):
        inner = group.narrowed(holds if wanted else ~holds) if body else None
        if inner is not None:
            group.active = inner
            yield body
            group.active = outer


def _roles(parts: list[tuple[Role, int, Body]], group: Group) -> Iterator[Steps]:
    """A group lies in one role, or in none."""
    for part, slot, body in parts:
        if part.first_warp <= group.first_warp < part.first_warp + part.warps:
            first = group.first_warp * WARP - part.first_thread
            group.frame[slot] = numpy.arange(first, first + group.lanes)
            yield body.steps


def _where(s: Do, loops: Mapping[str, Closure], frame: list[Any]) -> str:
    values = ", ".join(f"{name} = {value(frame)}" for name, value in loops.items())
    return f"'{s}' with {values}" if values else f"'{s}'"


def _apply(
    s: Do, machine: Machine, group: Group, taken: list[tuple[Any, Array | None]], words: list[int]
) -> list[tuple[Array, Array | None]]:
    """The outputs of an instruction's effect and their poison."""
    values = [value for value, poison in taken if poison is None]
    if len(values) == len(taken):
        result = s.instr.effect(machine, group, *values)
        if result is None and not words:
            return []
        return [(value, None) for value in _outputs(s, group, result, words)]
    # a bit of the result that is the same for both may still depend on the poison: two runs cannot see that
    low = [value if poison is None else value & ~poison for value, poison in taken]
    high = [value if poison is None else value | poison for value, poison in taken]
    zeros = _outputs(s, group, s.instr.effect(machine, group, *low), words)
    ones = _outputs(s, group, s.instr.effect(machine, group, *high), words)
    return [(a, a ^ b) for a, b in zip(zeros, ones, strict=True)]


def _is_words(value: Array, words: int, lanes: int) -> bool:
    return value.shape == (lanes, words) and bool(value.dtype == numpy.uint32)


def _outputs(s: Do, group: Group, result: Any, words: list[int]) -> tuple[Array, ...]:
    """The results of an effect, as one uint32 array (lanes, words) per output."""
    values = () if result is None else (result,) if isinstance(result, numpy.ndarray) else tuple(result)
    if len(values) != len(words) or not all(map(_is_words, values, words, repeat(group.lanes))):
        got = [(value.shape, str(value.dtype)) for value in values]
        raise IRError("effect", s, f"{s.instr} must return uint32 of {group.lanes} x {words}, returned {got}")
    # What an effect passes on may be the registers themselves, which the first of several outputs changes.
    return values if len(values) == 1 else tuple(value.copy() for value in values)
