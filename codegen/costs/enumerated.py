"""The definition of traffic: every block, turn, warp and lane of a launch, one after the other.

`followed` is how: statements in the order in which threads come to them, by number alone.  Pictures of a
pipeline follow one thread so, or one warp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, assert_never

import numpy

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.costs.accesses import bound, without_data
from layoutalg.codegen.costs.cost import Costs, Prediction
from layoutalg.codegen.costs.split import Array
from layoutalg.codegen.expr import Expr, Var, evaluate
from layoutalg.codegen.instr import WARP
from layoutalg.codegen.program import (
    Body,
    Do,
    For,
    If,
    Kernel,
    Let,
    Roles,
    Stmt,
    Unroll,
)

Env: TypeAlias = Mapping[Var, Any]
"""The values of variables: an int that all threads have, or one per thread."""


def traffic_enumerated(
    kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH
) -> Prediction:
    """The definition of `traffic`: every block, turn, warp and lane, one after the other.

    Raises as `traffic` does, except that it takes its time.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.instr import LDG
    >>> k = KernelBuilder("rows", threads=64)
    >>> k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("x", 4), k.block(0, 3) * 9 + k.tid))
    >>> traffic_enumerated(k.build(), {})["ld.global.b32"]
    Cost(instructions=6, total=28, ideal=24)
    """
    values, costs = bound(kernel, params), Costs(find_arch(arch))
    lanes = find_arch(arch).lanes
    tid = numpy.arange(-(-kernel.threads // lanes) * lanes)
    nx, ny, nz = kernel.blocks(values)
    body = without_data(kernel.body)
    for z in range(nz):
        for y in range(ny):
            for x in range(nx):
                env = {**values, **dict(zip(kernel.block_vars, (x, y, z), strict=True)), kernel.tid: tid}
                for s, now, active in followed(kernel.tid, body, env, tid < kernel.threads):
                    if isinstance(s, Do):
                        _count(costs, s, now, active.reshape(-1, lanes))
    return costs.prediction()


def followed(tid: Var, body: Body, env: Env, active: Array) -> Iterator[tuple[Stmt, Env, Array]]:
    """Statements as threads come to them, each with the values of variables and the threads that get there.

    `active` are the threads that execute the body; the value of `tid` counts them.
    """
    env = dict(env)
    for s in body:
        yield s, env, active
        parts: list[tuple[Body, Env, Array]] = []
        match s:
            case Do():
                pass
            case Let(var, value):
                if isinstance(value, Expr):
                    env[var] = evaluate(value, env)
            case Unroll(var, count, inner):
                for i in range(count):
                    yield from followed(tid, inner, {**env, var: i}, active)
            case For():
                yield from _turns(tid, s, env, active)
            case If(condition, inner, orelse):
                holds = numpy.broadcast_to(evaluate(condition, env), active.shape) != 0
                parts = [(inner, env, active & holds), (orelse, env, active & ~holds)]
            case Roles(roles):
                for part in roles:
                    mine = env[tid] - part.first_thread
                    inside = active & (mine >= 0) & (mine < WARP * part.warps)
                    parts.append((part.body, {**env, part.thread: mine}, inside))
            case _:
                assert_never(s)
        for inner, now, there in parts:
            if there.any():
                yield from followed(tid, inner, now, there)


def _turns(tid: Var, loop: For, env: Env, active: Array) -> Iterator[tuple[Stmt, Env, Array]]:
    """The statements of a loop's turns, each by the threads that have as many."""
    count = numpy.broadcast_to(evaluate(loop.count, env), active.shape)
    places = {c.var: evaluate(c.first, env) for c in loop.carry}
    for i in range(int((count * active).max())):
        turn = {**env, **places, loop.var: i}
        yield from followed(tid, loop.body, turn, active & (i < count))
        places = {c.var: places[c.var] + evaluate(c.step, turn) for c in loop.carry}


def _count(costs: Costs, s: Do, env: Env, active: Array) -> None:
    """Add the accesses of an instruction; active lanes are (warps, lanes)."""

    def everywhere(value: Any) -> Array:
        return numpy.broadcast_to(value, active.size).reshape(active.shape)

    reading = active
    for guard in s.guards:
        reading = reading & (everywhere(evaluate(guard, env)) != 0)
    for operand, place in s.memory:
        if operand.role not in ("place", "update"):
            buffer = place.buffer
            at = everywhere(evaluate(place.index, env)) * buffer.unit_bytes + buffer.offset_bytes
            costs.lanes(operand.op, buffer.space, at, reading if operand.role == "read" else active)
