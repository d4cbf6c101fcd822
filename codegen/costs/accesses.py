"""The memory accesses of a program: each operand with all that decides where and when it is executed.

The idea.  A walk over the statements that keeps what encloses them: names stay names, with what they stand
for; loops, blocks and warps become axes; branches, guards and trip counts become conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from layoutalg.arch import Arch, Space
from layoutalg.codegen.costs.classes import Address, Place, Scope
from layoutalg.codegen.costs.split import Axis, Evaluator
from layoutalg.codegen.expr import (
    Add,
    And,
    Const,
    Expr,
    FloorDiv,
    Minus,
    Mod,
    Var,
    Xor,
    evaluate,
    minus,
    variables,
)
from layoutalg.codegen.instr import WARP, Operand
from layoutalg.codegen.program import (
    Body,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    MemRef,
    RegRef,
    Roles,
    Shared,
    Stmt,
    Unroll,
    check_integers,
    expressions,
    walk,
    with_bodies,
)
from layoutalg.errors import ArgumentTypeError

_LONG = 256
"""Values of a variable from which on it is taken apart into digits."""


def without_data(body: Body, data: frozenset[Var] = frozenset()) -> Body:
    """The statements whose addresses, branches and turns depend on no number of a register.

    >>> number = Var("number", 8, "data")
    >>> named = [Let(Var(name, 9, "let"), value) for name, value in (("i", Const(0)), ("j", number))]
    >>> body = (If(number < 4, tuple(named)), *named)
    >>> [str(s) for s in without_data(body, frozenset({number}))]
    ['i = 0']
    """
    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(var, value):
                if isinstance(value, RegRef) or variables(value) & data:
                    data |= {var}
                    continue
            case For() | If() | Do() if any(variables(e) & data for e in expressions(s)):
                continue
        known = data
        out.append(with_bodies(s, lambda inner: without_data(inner, known)))  # noqa: B023
    return tuple(out)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A memory operand of a statement; `lane` is the axis of the lanes of a warp."""

    statement: Do
    operand: Operand
    buffer: Global | Shared
    place: Place
    lane: Axis

    @property
    def space(self) -> Space:
        """The memory that it reads or writes."""
        return self.buffer.space


class ProgramReader:
    """Finds every memory operand of a kernel, with all that decides where and when it is executed."""

    def __init__(self, kernel: Kernel, params: Mapping[str, int], machine: Arch) -> None:
        kernel = replace(kernel, body=without_data(kernel.body))
        self.kernel, self.machine = kernel, machine
        self.values = bound(kernel, params)
        self.divisors = divisors(kernel, self.values)
        self.lane = Axis("lane", machine.lanes, machine.lanes)
        warps = -(-kernel.threads // machine.lanes)
        warp = Axis("warp", warps, warps)
        scope = Scope({var: Const(value) for var, value in self.values.items()})
        for var, extent in zip(kernel.block_vars, kernel.blocks(self.values), strict=True):
            scope = self._ranging(scope, var, extent)
        scope = scope.running(kernel.tid, warps, ((warp, machine.lanes),))
        scope = scope.let(kernel.tid, ((warp, machine.lanes), (self.lane, 1)))
        if kernel.threads % machine.lanes:
            scope = scope.where(kernel.tid < kernel.threads)
        self.scope = scope

    def accesses(self) -> Iterator[MemoryAccess]:
        """Every memory operand, in program order."""
        for s, scope in self._body(self.kernel.body, self.scope):
            reading = _reading(s, scope)
            for operand, at in s.memory:
                if operand.role not in ("place", "update"):
                    site = Place(s, (self._address(at),), reading if operand.role == "read" else scope)
                    yield MemoryAccess(s, operand, at.buffer, site, self.lane)

    def copies(self, nbytes: int) -> Iterator[Place]:
        """Every instruction that copies `nbytes` per lane from global to shared memory, at both addresses."""
        for s, scope in self._body(self.kernel.body, self.scope):
            ends = {o.role: at for o, at in s.memory if o.bytes == nbytes}
            match ends:
                case {"read": MemRef(Global()) as source, "write": MemRef(Shared()) as target}:
                    by_lines = replace(self._address(source), modulus=self.machine.line_bytes)
                    yield Place(s, (by_lines, self._address(target)), _reading(s, scope))

    def _body(self, body: Body, scope: Scope) -> Iterator[tuple[Do, Scope]]:
        """Every instruction with what encloses it, if it is executed at all."""
        for s in body:
            match s:
                case Let(var, value):
                    scope = scope.let(var, value) if isinstance(value, Expr) else scope
                case Unroll(var, count, inner):
                    yield from self._body(inner, self._ranging(scope, var, count))
                case For():
                    yield from self._loop(s, scope)
                case If(condition, inner, orelse):
                    yield from self._body(inner, scope.where(condition))
                    yield from self._body(orelse, scope.where(condition, wanted=False))
                case Roles(parts):
                    for part in parts:
                        tid, first = self.kernel.tid, part.first_thread
                        mine = scope.where((first <= tid) & (tid < first + WARP * part.warps))
                        yield from self._body(part.body, mine.let(part.thread, minus(tid, first)))
                case Do():
                    if scope.executions:
                        yield s, scope
                case _:
                    assert_never(s)

    def _loop(self, loop: For, scope: Scope) -> Iterator[tuple[Do, Scope]]:
        count = Evaluator(scope.names, {}).split(loop.count)
        inside = self._ranging(scope, loop.var, int(count.hi))
        if not count.exact:
            inside = inside.where(loop.var < loop.count)
        for c in loop.carry:
            inside = inside.let(c.var, c.first + c.step * loop.var)
        yield from self._body(loop.body, inside)

    def _address(self, at: MemRef) -> Address:
        machine, buffer = self.machine, at.buffer
        line = machine.banks * machine.bank_bytes if buffer.space == "shared" else machine.sector_bytes
        return Address(at.index, buffer.unit_bytes, buffer.offset_bytes, line)

    def _ranging(self, scope: Scope, var: Var, extent: int) -> Scope:
        """The scope in which a variable takes every value below `extent`.

        A long one is taken apart into the digits that the program uses, the highest again in two.
        """
        weights = [1] if extent <= _LONG else [1, *self._radices(var, extent)]
        ends = [*weights[1:], extent]
        sizes = [-(-end // weight) for weight, end in zip(weights, ends, strict=True)]
        digits = [(Axis(var.name, n, n), weight) for n, weight in zip(sizes, weights, strict=True)]
        if (high := sizes[-1]) > _LONG:
            step = 1 << high.bit_length() // 2
            rows = (Axis(var.name, -(-high // step), high), step * weights[-1])
            digits[-1:] = [(Axis(var.name, step, high), weights[-1]), rows]
        inside = scope.running(var, extent, tuple(reversed(digits)))
        return inside if extent % digits[-1][1] == 0 else inside.where(var < extent)

    def _radices(self, var: Var, extent: int) -> list[int]:
        """The divisors of a variable in the program, as far as each is a multiple of the one before."""
        radices: list[int] = []
        for divisor in sorted(d for d in self.divisors.get(var, ()) if 1 < d < extent):
            if divisor % (radices[-1] if radices else 1) == 0:
                radices.append(divisor)
        return radices


def _reading(s: Do, scope: Scope) -> Scope:
    """The scope in which an instruction reads: where its guards hold."""
    for guard in s.guards:
        scope = scope.where(guard)
    return scope


def divisors(kernel: Kernel, values: Mapping[Var, int]) -> dict[Var, set[int]]:
    """The divisors of a program's variables, for given parameters; those of a named value count
    for the variable that the value is, except for an offset and the direction.
    """
    by_var: dict[Var, set[int]] = {}

    def divided(x: Expr, *radices: int) -> None:
        if (var := _moved(x)) is not None:
            by_var.setdefault(var, set()).update(radices)

    waiting = [e for s in walk(kernel.body) for e in expressions(s)]
    seen: set[Expr] = set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.children
            match node:
                case FloorDiv(x, by) | Mod(x, by) if variables(by) <= set(values):
                    divided(x, int(evaluate(by, values)))
                case And(x, Const(mask)) if mask:  # a field of bits is a digit
                    divided(x, mask & -mask, 1 << mask.bit_length())
    for s in reversed([s for s in walk(kernel.body) if isinstance(s, Let)]):
        if isinstance(s.value, Expr):
            divided(s.value, *by_var.get(s.var, ()))
    return {var: radices for var, radices in by_var.items() if radices}


def _moved(node: Expr) -> Var | None:
    """The variable that a value is, except for an offset and the direction."""
    match node:
        case Var():
            return node
        case Add(x, Const()) | Minus(x, Const()) | Minus(Const(), x) | Xor(x, Const()) | Mod(x, Const()):
            return _moved(x)
    return None


def bound(kernel: Kernel, params: Mapping[str, int]) -> dict[Var, int]:
    """The values of a kernel's integer parameters, checked as a launch checks them."""
    missing = [p.name for p in kernel.integers if p.name not in params]
    if missing:
        raise ArgumentTypeError(f"{kernel.name} needs a value for {', '.join(missing)}")
    check_integers(kernel, params)
    return {p: params[p.name] for p in kernel.integers}
