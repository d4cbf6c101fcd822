"""Operands made ready to run: where an instruction's values come from and go to, for a group of lanes.

The idea.  Each argument of a statement is compiled once, to a source (group -> value, poison) if its operand
carries data in, to a target (group, value, poison) if it carries data out, to both for `inout`:

    imm            the int
    place          where in a buffer each lane means; the effect itself accesses it
    barrier, map   which mbarriers the lanes mean; the tensor map
    register       words of the register file, at an index made of unroll variables and ints
    value          an expression, one word per lane
    deferred       the place of registers, which an engine accesses later
    memory         an access of the machine at byte offsets from the start of a buffer, noted in the trace

Values are uint32 arrays (lanes, words); poison has the same shape, None where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy

from layoutalg.codegen.expr import Expr, simplify
from layoutalg.codegen.instr import WARP, Operand
from layoutalg.codegen.program import Arg, BarrierRef, Do, Kernel, Let, MemRef, RegRef, TensorMapParam
from layoutalg.codegen.sim.closures import Closure, Scope
from layoutalg.codegen.sim.engines import BarrierPlace, BoundMap, Place, RegisterPlace
from layoutalg.codegen.sim.hazards import Array
from layoutalg.codegen.sim.machine import Buffer, Group, Machine
from layoutalg.codegen.sim.memtrace import MemTrace, Site
from layoutalg.errors import IRError, UnsupportedError

Source: TypeAlias = "Callable[[Group], tuple[Any, Array | None]]"
Target: TypeAlias = "Callable[[Group, Array, Array | None], None]"

GLOBAL_ALIGN_BYTES = 256
"""The number of bytes that an allocation's address is a multiple of."""


class Operands:
    """Compiles the operands of a kernel's statements for a machine with its buffers, and tensor maps by name.

    `sites` lists the memory operands compiled so far; once `trace` is set, every access is noted there.
    """

    def __init__(self, kernel: Kernel, machine: Machine, maps: Mapping[str, BoundMap]) -> None:
        self.machine, self.buffers, self.maps = machine, machine.buffers, maps
        buffers = machine.buffers
        self.sites: list[Site] = []
        self.trace: MemTrace | None = None
        self.register_words = 0
        self._registers: dict[str, int] = {}
        for reg in kernel.regs:
            self._registers[reg.name] = self.register_words
            self.register_words += math.prod(reg.shape)
        self._bases: dict[str, int] = {}  # global buffers lie one after the other in the trace
        end = 0
        for p in kernel.pointers:
            self._bases[p.name] = end
            end += -(-buffers[p.name].size_bytes // GLOBAL_ALIGN_BYTES) * GLOBAL_ALIGN_BYTES

    def compile(
        self, operand: Operand, arg: Arg, s: Do, statement: int, scope: Scope
    ) -> tuple[Source | None, Target | None]:
        """Source and target of an operand of `s`.  Raises IRError where the argument does not fit."""
        match operand.role, arg:
            case "imm", int():
                return partial(_immediate, arg), None
            case (("in" | "out" | "inout"), RegRef()) if arg.words == operand.words:
                start = scope.compile(self._word(arg, s))
                if operand.deferred:
                    return partial(_place_of_registers, str(arg), arg.words, start), None
                source = self._reading(arg, start) if operand.role != "out" else None
                target = partial(_write_register, self.machine, arg, start) if operand.role != "in" else None
                return source, target
            case "value", _ if isinstance(arg, Expr):
                return partial(_value, scope.compile(arg)), None
            case "read", MemRef():
                access = self._access(operand, arg, s, statement, scope)
                source = partial(self._do, self.machine.load, *access)
                first = partial(first_lanes, operand.lanes)
                return source if operand.lanes == WARP else partial(
                    read_where, source, first, operand.words
                ), None
            case "write", MemRef() if s.instr.engine is None:
                access = self._access(operand, arg, s, statement, scope)
                target = partial(self._do, self.machine.store, *access)
                return None, target if operand.lanes == WARP else partial(_of_first, target, operand.lanes)
            case "write", MemRef() if s.instr.engine == "cp.async":
                access = self._access(operand, arg, s, statement, scope)
                return None, partial(self._do, self.machine.start_copy, *access)
            case "update", MemRef():
                _, buffer, _, offsets, _ = self._access(operand, arg, s, statement, scope)
                return partial(_place, buffer, offsets), None
            case "place", MemRef():
                _, buffer, _, offsets, _ = self._access(operand, arg, s, statement, scope)
                return partial(_place, buffer, offsets), None
            case "barrier", BarrierRef():
                return partial(_barrier, arg.barrier.name, scope.compile(arg.stage)), None
            case "map", TensorMapParam() if arg.name in self.maps:
                return partial(_immediate, self.maps[arg.name]), None
            case "write", MemRef():
                raise UnsupportedError(f"the simulator has no engine {s.instr.engine}, which '{s}' needs")
            case _:
                words = f" of {operand.words} words" if operand.words else ""
                raise IRError(
                    "operand", s, f"operand {operand.name} of '{s}' is {operand.role}{words}; it got {arg}"
                )

    def register(self, ref: RegRef, s: Do | Let, scope: Scope) -> Source:
        """The source of the words of a register."""
        return self._reading(ref, scope.compile(self._word(ref, s)))

    def _reading(self, ref: RegRef, start: Closure) -> Source:
        return partial(_read_register, self.machine, ref, ref.words, start)

    def _word(self, ref: RegRef, s: Do | Let) -> Expr:
        """Number of the first register word of `ref`."""
        if ref.reg.name not in self._registers:
            raise IRError("register", s, f"{ref.reg.name} of '{s}' is not a register of the kernel")
        for e, extent in zip(ref.index, ref.reg.shape, strict=False):
            if e.facts.hi >= extent:
                raise IRError("register index", s, f"{ref}: {e} reaches {e.facts.hi}, the mode has {extent}")
        return simplify(ref.offset + self._registers[ref.reg.name])

    def _access(
        self, operand: Operand, ref: MemRef, s: Do, statement: int, scope: Scope
    ) -> tuple[int, Buffer, int, Closure, bool]:
        """(site, buffer, width, offsets, whether these are kept) of a memory operand."""
        if ref.buffer.name not in self.buffers:
            raise IRError("buffer", s, f"{ref.buffer.name} of '{s}' is not a buffer of the kernel")
        buffer, space, size = self.buffers[ref.buffer.name], ref.buffer.space, ref.buffer.unit_bytes
        if operand.role in ("write", "update") and not ref.buffer.writable:
            raise IRError("read only", s, f"{buffer.name} is read only and '{s}' writes it")
        if space != operand.space:
            raise IRError("space", s, f"operand {operand.name} of {s.instr} is in {operand.space} memory")
        base = self._bases.get(buffer.name, buffer.base)
        index = ref.index if size == 1 else ref.index * size
        offsets = scope.compile(index)
        if operand.role not in ("place", "update"):
            self.sites.append(Site(statement, str(s), operand.op, space, buffer.name, base))
        return len(self.sites) - 1, buffer, operand.bytes, offsets, scope.is_fixed(index)

    def _do(
        self, access: Callable[..., Any], site: int, buffer: Buffer, width: int, offsets: Closure,
        fixed: bool, group: Group, *moved: Array | None,
    ) -> Any:  # fmt: skip
        """Note an access of the active lanes, and let the machine perform it."""
        at = offsets(group.frame)
        if self.trace is not None:
            self.trace.record(
                site, block=self.machine.block, first_warp=group.first_warp, offsets=at,
                mask=group.active.mask,
            )  # fmt: skip
        return access(group, buffer, at, width, *moved, site if fixed else -1)


def first_lanes(lanes: int, group: Group) -> Array:
    """Mark the first lanes of each warp."""
    first: Array = numpy.arange(group.lanes) % WARP < lanes
    return first


def _of_first(target: Target, lanes: int, group: Group, value: Array, poison: Array | None) -> None:
    """A store by the first lanes of each warp."""
    outer, inner = group.active, group.narrowed(first_lanes(lanes, group))
    if inner is not None:
        group.active = inner
        target(group, value, poison)
        group.active = outer


def read_where(
    source: Source, where: Callable[[Group], Array], words: int, group: Group
) -> tuple[Any, Array | None]:
    """Read in the lanes that are marked; the others get zeros."""
    outer, inner = group.active, group.narrowed(where(group))
    if inner is None:
        return numpy.zeros((group.lanes, words), dtype=numpy.uint32), None
    group.active = inner
    result = source(group)
    group.active = outer
    return result


def _immediate(value: Any, group: Group) -> tuple[Any, None]:
    return value, None


def _place(buffer: Buffer, offsets: Closure, group: Group) -> tuple[Place, None]:
    return Place(buffer, _per_lane(numpy.asarray(offsets(group.frame)), group)), None


def _barrier(name: str, stage: Closure, group: Group) -> tuple[BarrierPlace, None]:
    return BarrierPlace(name, stage(group.frame)), None


def _value(compute: Closure, group: Group) -> tuple[Array, None]:
    return _per_lane(numpy.asarray(compute(group.frame), dtype=numpy.uint32), group)[:, None], None


def _per_lane(value: Array, group: Group) -> Array:
    """A value of all lanes, or one for each, as one for each."""
    return value if value.ndim else numpy.full(group.lanes, value)


def _read_register(
    machine: Machine, ref: RegRef, words: int, first: Closure, group: Group
) -> tuple[Array, Array | None]:
    start, registers = first(group.frame), group.registers
    if registers.locks is not None:
        _check_free(machine, ref, start, words, group, "reads")
    i = registers.unwritten(start, words, group.active)
    if i is not None:
        raise group.fail(f"reads register {ref}, which nothing has written", i)
    return registers.read(start, words, group.active)


def _write_register(
    machine: Machine, ref: RegRef, first: Closure, group: Group, value: Array, poison: Array | None
) -> None:
    start = first(group.frame)
    if group.registers.locks is not None:
        _check_free(machine, ref, start, value.shape[1], group, "writes")
    group.registers.write(start, group.active, value, poison)


def _check_free(machine: Machine, ref: RegRef, start: int, words: int, group: Group, does: str) -> None:
    """Raise SimulationError for registers that an unfinished product owns."""
    i = group.registers.locked(start, words, group.active)
    if i is not None:
        lane = int(group.active.threads[i, 0]) - WARP * group.first_agent
        raise group.fail(f"{does} register {ref}, {machine.matrix.owner(group, lane, start, words)}", i)


def _place_of_registers(name: str, words: int, first: Closure, group: Group) -> tuple[RegisterPlace, None]:
    return RegisterPlace(first(group.frame), words, name), None
