"""What the memory accesses of any tile program cost, read off the program itself.

The idea.  A program says where every lane of every warp reads and writes, so its wavefronts and sectors are
counted, not predicted: once for each memory operand, block, turn of a loop and warp.  That is the definition,
`traffic_enumerated`.  `traffic` counts the same numbers from classes: executions of one access that cannot be
told apart by what they cost are counted once and multiplied (see access_classes).  Costs add up, so accesses
are taken one by one, and how they depend on blocks and loops never multiplies.

    traffic(kernel, {"n": 1 << 30})["st.global.b128"]       Cost(instructions, sectors, ideal sectors)

Notes.  Parameters are ints and are checked as a launch checks them.  Registers and data play no part: no
address of a tile program depends on them.  A program and its lowered form have the same traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import numpy

from layoutalg.arch import Arch, Space, find_arch
from layoutalg.codegen.access_classes import Axis, Evaluator, Place, Scope, classes_of
from layoutalg.codegen.access_cost import Cost, Costs, Prediction
from layoutalg.codegen.contract import check_integers
from layoutalg.codegen.expr import Const, Expr, FloorDiv, Mod, Var, children, evaluate, variables
from layoutalg.codegen.instr import Operand
from layoutalg.codegen.tile import (
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    MemRef,
    Shared,
    Stmt,
    Unroll,
    expressions,
    walk,
)
from layoutalg.errors import ArgumentTypeError

Array: TypeAlias = "numpy.ndarray[Any, Any]"

_ROWS = 4096
"""Instructions whose lanes are counted at a time, to bound memory."""

_LONG = 256
"""Values of a variable from which on it is taken apart into digits."""


@dataclass(frozen=True, slots=True)
class AccessTraffic:
    """The cost of one memory operand, `buffer` of `statement`, over a whole launch.

    `executions` are its points: blocks times turns times warps, those without an active lane included;
    `classes` is how many of them were counted.
    """

    statement: Do
    buffer: str
    op: str
    space: Space
    cost: Cost
    executions: int
    classes: int


def traffic(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = "sm_90") -> Prediction:
    """The costs of a launch by instruction, for the integer parameters by name.

    Shared memory is counted in wavefronts, global memory in sectors; instructions per warp.  Raises
    ArgumentTypeError and ShapeError for parameters that a launch would refuse, ResourceError where more
    points would have to be told apart than access_classes.MAX_POINTS, UnsupportedError for an operation that
    the architecture lacks.

    >>> from layoutalg.codegen.builder import KernelBuilder
    >>> from layoutalg.codegen.instr_sm75 import LDG
    >>> k = KernelBuilder("sums", threads=256)
    >>> n = k.param("n", 1 << 30)
    >>> i = k.block(0, (n + 255) // 256) * 256 + k.tid
    >>> with k.If(i < n): k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("x", 4), i))
    >>> traffic(k.build(), {"n": 10**9})["ld.global.b32"]
    Cost(instructions=31250000, total=125000000, ideal=125000000)
    """
    costs = Costs(arch)
    for access in traffic_by_access(kernel, params, arch):
        if access.cost.instructions:
            costs.add(access.op, access.cost)
    return costs.prediction()


def traffic_by_access(
    kernel: Kernel, params: Mapping[str, int], arch: str | Arch = "sm_90"
) -> tuple[AccessTraffic, ...]:
    """The costs of every memory operand of the program, in program order.  Raises as `traffic` does."""
    machine = find_arch(arch)
    return tuple(_count(access, machine) for access in _Reader(kernel, params, machine).accesses())


@dataclass(frozen=True, slots=True)
class _Access:
    statement: Do
    operand: Operand
    buffer: Global | Shared
    place: Place
    lane: Axis


def _count(access: _Access, machine: Arch) -> AccessTraffic:
    """The cost of one access: of a representative of every class, times its weight."""
    place, op, space = access.place, access.operand.op, _space(access.operand)
    classes = classes_of(place)
    costs = Costs(machine)
    lanes = numpy.arange(access.lane.extent)[None, :]
    for start in range(0, len(classes.weights), _ROWS):
        rows = slice(start, start + _ROWS)
        weights = classes.weights[rows]
        points = {axis: values[rows, None] for axis, values in classes.points.items()}
        evaluator = Evaluator(place.scope.names, {**points, access.lane: lanes})
        active = numpy.ones((len(weights), access.lane.extent), dtype=bool)
        for condition in place.scope.conditions:
            active &= (evaluator.split(condition.predicate).own != 0) == condition.wanted
        address = evaluator.split(place.index).own * place.scale + place.base_bytes
        costs.lanes(op, space, numpy.broadcast_to(address, active.shape), active, weights)
    found = costs.found.get(op, Cost(0, 0, 0))
    return AccessTraffic(
        access.statement, access.buffer.name, op, space, found, place.scope.executions, len(classes.weights)
    )


def _space(operand: Operand) -> Space:
    return "shared" if operand.space == "shared" else "global"


# --- reading the program -------------------------------------------------------------------------------


class _Reader:
    """Finds every memory operand of a kernel, with all that decides where and when it is executed."""

    def __init__(self, kernel: Kernel, params: Mapping[str, int], machine: Arch) -> None:
        self.kernel, self.machine = kernel, machine
        self.values = bound(kernel, params)
        self.divisors = divisors(kernel, self.values)
        self.lane = Axis("lane", machine.lanes, machine.lanes)
        warps = -(-kernel.threads // machine.lanes)
        warp = Axis("warp", warps, warps)
        scope = Scope({var: Const(value) for var, value in self.values.items()})
        for var, extent in zip(kernel.block_vars, grid(kernel, self.values), strict=True):
            scope = self._ranging(scope, var, extent)
        scope = scope.running(kernel.tid, warps, ((warp, machine.lanes),))
        scope = scope.let(kernel.tid, ((warp, machine.lanes), (self.lane, 1)))
        if kernel.threads % machine.lanes:
            scope = scope.where(kernel.tid < kernel.threads)
        self.scope = scope

    def accesses(self) -> Iterator[_Access]:
        """Every memory operand, in program order."""
        yield from self._body(self.kernel.body, self.scope)

    def _body(self, body: tuple[Stmt, ...], scope: Scope) -> Iterator[_Access]:
        for s in body:
            match s:
                case Let(var, value):
                    scope = scope.let(var, value)
                case Unroll(var, count, inner):
                    yield from self._body(inner, self._ranging(scope, var, count))
                case For():
                    yield from self._loop(s, scope)
                case If(condition, inner, orelse):
                    yield from self._body(inner, scope.where(condition))
                    yield from self._body(orelse, scope.where(condition, wanted=False))
                case Do():
                    yield from self._do(s, scope)
                case _:
                    assert_never(s)

    def _loop(self, loop: For, scope: Scope) -> Iterator[_Access]:
        count = Evaluator(scope.names, {}).split(loop.count)
        inside = self._ranging(scope, loop.var, int(count.hi))
        if not count.exact:
            inside = inside.where(loop.var < loop.count)
        for c in loop.carry:
            inside = inside.let(c.var, c.first + c.step * loop.var)
        yield from self._body(loop.body, inside)

    def _do(self, s: Do, scope: Scope) -> Iterator[_Access]:
        operands = tuple(zip(s.instr.operands, s.args, strict=True))
        read = scope
        for operand, arg in operands:
            if operand.role == "guard" and isinstance(arg, Expr):
                read = read.where(arg)
        for operand, arg in operands:
            if isinstance(arg, MemRef):
                inside = read if operand.role == "read" else scope
                if inside.executions:
                    place = self._place(s, arg, inside)
                    yield _Access(s, operand, arg.buffer, place, self.lane)

    def _place(self, s: Do, at: MemRef, scope: Scope) -> Place:
        machine = self.machine
        match at.buffer:
            case Global(element_bytes=scale):
                base, modulus = 0, machine.sector_bytes
            case Shared(offset_bytes=base):
                scale, modulus = 1, machine.banks * machine.bank_bytes
        return Place(s, at.index, scale, base, modulus, scope)

    def _ranging(self, scope: Scope, var: Var, extent: int) -> Scope:
        """The scope in which a variable takes every value below `extent`.

        A long one is taken apart into the digits that the program asks for, the highest again in two.
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
        """What the program divides a variable by, as far as each is a multiple of the one before."""
        radices: list[int] = []
        for divisor in sorted(d for d in self.divisors.get(var, ()) if 1 < d < extent):
            if divisor % (radices[-1] if radices else 1) == 0:
                radices.append(divisor)
        return radices


def divisors(kernel: Kernel, values: Mapping[Var, int]) -> dict[Var, set[int]]:
    """What a program divides its variables by, for given parameters."""
    found: dict[Var, set[int]] = {}
    waiting = [e for s in walk(kernel.body) for e in expressions(s)]
    seen: set[Expr] = set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += children(node)
            match node:
                case FloorDiv(Var() as var, by) | Mod(Var() as var, by) if variables(by) <= set(values):
                    found.setdefault(var, set()).add(int(evaluate(by, values)))
    return found


def bound(kernel: Kernel, params: Mapping[str, int]) -> dict[Var, int]:
    """The values of a kernel's integer parameters, checked as a launch checks them."""
    missing = [p.name for p in kernel.params if isinstance(p, Var) and p.name not in params]
    if missing:
        raise ArgumentTypeError(f"{kernel.name} needs a value for {', '.join(missing)}")
    check_integers(kernel, params)
    return {p: params[p.name] for p in kernel.params if isinstance(p, Var)}


def grid(kernel: Kernel, values: Mapping[Var, int]) -> tuple[int, int, int]:
    """The blocks of a launch along x, y and z."""
    x, y, z = (int(evaluate(extent, values)) for extent in kernel.grid)
    return x, y, z


# --- the definition ------------------------------------------------------------------------------------


def traffic_enumerated(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = "sm_90") -> Prediction:
    """The definition of `traffic`: every block, turn, warp and lane, one after the other.

    Raises as `traffic` does, except that it takes its time.

    >>> from layoutalg.codegen.builder import KernelBuilder
    >>> from layoutalg.codegen.instr_sm75 import LDG
    >>> k = KernelBuilder("rows", threads=64)
    >>> k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("x", 4), k.block(0, 3) * 9 + k.tid))
    >>> traffic_enumerated(k.build(), {})["ld.global.b32"]
    Cost(instructions=6, total=28, ideal=24)
    """
    walker, values = _Walker(kernel, find_arch(arch)), bound(kernel, params)
    nx, ny, nz = grid(kernel, values)
    for z in range(nz):
        for y in range(ny):
            for x in range(nx):
                walker.block({**values, **dict(zip(kernel.block_vars, (x, y, z), strict=True))})
    return walker.costs.prediction()


class _Walker:
    """Runs through a program for the threads of a block at once, and counts its accesses."""

    def __init__(self, kernel: Kernel, machine: Arch) -> None:
        self.kernel, self.lanes = kernel, machine.lanes
        self.tid = numpy.arange(-(-kernel.threads // machine.lanes) * machine.lanes)
        self.costs = Costs(machine)

    def block(self, values: Mapping[Var, int]) -> None:
        """Count one block."""
        self._body(self.kernel.body, {**values, self.kernel.tid: self.tid}, self.tid < self.kernel.threads)

    def _body(self, body: tuple[Stmt, ...], env: Mapping[Var, Any], active: Array) -> None:
        env = dict(env)
        for s in body:
            match s:
                case Let(var, value):
                    env[var] = evaluate(value, env)
                case Unroll(var, count, inner):
                    for i in range(count):
                        self._body(inner, {**env, var: i}, active)
                case For():
                    self._loop(s, env, active)
                case If(condition, inner, orelse):
                    holds = self._everywhere(evaluate(condition, env)) != 0
                    self._branch(inner, env, active & holds)
                    self._branch(orelse, env, active & ~holds)
                case Do():
                    self._do(s, env, active)
                case _:
                    assert_never(s)

    def _branch(self, body: tuple[Stmt, ...], env: Mapping[Var, Any], active: Array) -> None:
        if active.any():
            self._body(body, env, active)

    def _loop(self, loop: For, env: Mapping[Var, Any], active: Array) -> None:
        count = self._everywhere(evaluate(loop.count, env))
        places = {c.var: evaluate(c.first, env) for c in loop.carry}
        for i in range(int((count * active).max())):
            turn = {**env, **places, loop.var: i}
            self._branch(loop.body, turn, active & (i < count))
            places = {c.var: places[c.var] + evaluate(c.step, turn) for c in loop.carry}

    def _do(self, s: Do, env: Mapping[Var, Any], active: Array) -> None:
        operands = tuple(zip(s.instr.operands, s.args, strict=True))
        reading = active
        for operand, arg in operands:
            if operand.role == "guard" and isinstance(arg, Expr):
                reading = reading & (self._everywhere(evaluate(arg, env)) != 0)
        for operand, arg in operands:
            if isinstance(arg, MemRef):
                at = self._everywhere(evaluate(arg.index, env))
                if isinstance(arg.buffer, Global):
                    at = at * arg.buffer.element_bytes
                else:
                    at = at + arg.buffer.offset_bytes
                lanes = reading if operand.role == "read" else active
                self.costs.lanes(
                    operand.op, _space(operand), at.reshape(-1, self.lanes), lanes.reshape(-1, self.lanes)
                )

    def _everywhere(self, value: Any) -> Array:
        """A value in every thread of the block."""
        return numpy.broadcast_to(value, self.tid.shape)
