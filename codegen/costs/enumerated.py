"""The definition of traffic: every block, turn, warp and lane of a launch, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import numpy

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.costs.accesses import bound, space_of
from layoutalg.codegen.costs.cost import Costs, Prediction
from layoutalg.codegen.costs.split import Array
from layoutalg.codegen.expr import Var, evaluate
from layoutalg.codegen.instr import WARP
from layoutalg.codegen.program import Body, Do, For, Global, If, Kernel, Let, Roles, Unroll


def traffic_enumerated(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = "sm_90") -> Prediction:
    """The definition of `traffic`: every block, turn, warp and lane, one after the other.

    Raises as `traffic` does, except that it takes its time.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.instr import LDG
    >>> k = KernelBuilder("rows", threads=64)
    >>> k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("x", 4), k.block(0, 3) * 9 + k.tid))
    >>> traffic_enumerated(k.build(), {})["ld.global.b32"]
    Cost(instructions=6, total=28, ideal=24)
    """
    walker, values = _Walker(kernel, find_arch(arch)), bound(kernel, params)
    nx, ny, nz = kernel.blocks(values)
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

    def _body(self, body: Body, env: Mapping[Var, Any], active: Array) -> None:
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
                case Roles(parts):
                    for part in parts:
                        mine = self.tid - part.first_thread
                        inside = active & (mine >= 0) & (mine < WARP * part.warps)
                        self._branch(part.body, {**env, part.thread: mine}, inside)
                case Do():
                    self._do(s, env, active)
                case _:
                    assert_never(s)

    def _branch(self, body: Body, env: Mapping[Var, Any], active: Array) -> None:
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
        reading = active
        for guard in s.guards:
            reading = reading & (self._everywhere(evaluate(guard, env)) != 0)
        for operand, place in s.memory:
            if operand.role != "place":
                at = self._everywhere(evaluate(place.index, env))
                if isinstance(place.buffer, Global):
                    at = at * place.buffer.element_bytes
                else:
                    at = at + place.buffer.offset_bytes
                lanes = reading if operand.role == "read" else active
                self.costs.lanes(
                    operand.op, space_of(operand), at.reshape(-1, self.lanes), lanes.reshape(-1, self.lanes)
                )

    def _everywhere(self, value: Any) -> Array:
        """A value in every thread of the block."""
        return numpy.broadcast_to(value, self.tid.shape)
