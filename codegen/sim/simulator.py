"""Back end 2: run a tile program on NumPy lanes, with every access checked, and traced.

The idea.  The program that is printed as CUDA is executed here, block by block, with the state a GPU has:
registers that may be unwritten, shared memory that may be uninitialised, copies in flight, barriers.

    run = simulate(kernel, {"n": 1000, "x": x})         writes into x
    run.trace.totals()                                  what every memory operand cost
    run.executed["lds32"]                               how often each warp executed it

What a GPU may punish raises SimulationError: an access out of bounds or misaligned, a race, a barrier in
divergent code, a deadlock, an unwritten register, uninitialised bytes stored to global memory.  Races are
found by vector clocks (hazards), so the verdict does not depend on the order in which warps happen to run.

Notes.  With group="block" all warps of a block advance together, the fast way; with group="warp" each has
its own program counter and a seeded scheduler chooses who runs up to its next wait.  A deadlock of the first
kind is run again warp by warp before it is believed.  The kernel is run as it is given: `check` and `lower`
are the caller's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy

from layoutalg import budget
from layoutalg.arch import Arch, find_arch
from layoutalg.budget import budget_of
from layoutalg.codegen.expr import Expr, Var, evaluate
from layoutalg.codegen.instr import WARP, WARPGROUP
from layoutalg.codegen.program import Do, Global, If, Kernel, MemRef, Shared, check_integers, walk
from layoutalg.codegen.sim.hazards import Array
from layoutalg.codegen.sim.machine import Buffer, Group, Lanes, Machine, Memory
from layoutalg.codegen.sim.memtrace import MemTrace
from layoutalg.codegen.sim.statements import Program
from layoutalg.errors import (
    ArgumentTypeError,
    ResourceError,
    ShapeError,
    SimulationError,
    UnknownNameError,
    UnsupportedError,
)

Argument: TypeAlias = "int | numpy.integer[Any] | Array"
Block: TypeAlias = tuple[int, int, int]

MAX_ARRAY_BYTES = 1 << 34
"""Bytes of all arrays of a simulated launch, at most; pages that nothing touches take no memory."""

SIMULATED = 5
"""Budgets that a simulated launch has: about ten seconds of one core."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What a simulated launch did.

    `grid` in blocks, `blocks` how many of them were run; `group` the way they were run in the end;
    `executed[name][w]` how often warp w of a block executed an instruction, over all blocks.
    """

    kernel: Kernel
    arch: Arch
    grid: Block
    blocks: int
    group: Literal["block", "warp"]
    executed: Mapping[str, tuple[int, ...]]
    traced: MemTrace | None

    @property
    def trace(self) -> MemTrace:
        """Every memory access.  Raises UnsupportedError if the simulation ran without."""
        if self.traced is None:
            raise UnsupportedError(f"the simulation of {self.kernel.name} ran with trace=False")
        return self.traced


def simulate(
    kernel: Kernel,
    args: Mapping[str, Argument],
    *,
    arch: str | Arch = "sm_90",
    group: Literal["block", "warp"] = "block",
    seed: int = 0,
    blocks: Iterable[Block] | None = None,
    trace: bool = True,
) -> Simulation:
    """Run `kernel` on `args`: an int for each parameter, a C-contiguous NumPy array for each pointer.

    Arrays hold the buffer's elements, or its bytes as uint8; those of writable pointers are modified.
    `blocks` are the (x, y, z) of the blocks to run, all of them by default.  Raises ArgumentTypeError,
    ShapeError or UnknownNameError for arguments that do not fit, ResourceError for arrays of more than
    MAX_ARRAY_BYTES, UndecidedError past SIMULATED times the usual budget of work (layoutalg.budget),
    SimulationError for what the kernel does.

    >>> from layoutalg.codegen.instr import LDG, STG
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("reverse", threads=32)
    >>> src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    >>> v = k.reg("v", 1)
    >>> k.do(LDG[4], v, k.at(src, k.tid))
    >>> k.do(STG[4], k.at(dst, k.tid ^ 31), v)
    >>> x = numpy.zeros(32, dtype=numpy.int32)
    >>> run = simulate(k.build(), {"src": numpy.arange(32, dtype=numpy.int32), "dst": x})
    >>> x[0], run.executed["stg32"], run.trace.total("st.global.b32")
    (np.int32(31), (1,), (1, 4, 4))
    """
    if group not in {"block", "warp"}:
        raise UnknownNameError("group", str(group), ("block", "warp"))
    chip = find_arch(arch)
    values, arrays = _bind(kernel, args)
    grid = _grid(kernel, values)
    if (nbytes := sum(array.nbytes for array in arrays.values())) > MAX_ARRAY_BYTES:
        raise ResourceError(f"bytes of arrays of {kernel.name} in the simulator", nbytes, MAX_ARRAY_BYTES)
    given = None if blocks is None else _given_blocks(blocks, grid)

    def run() -> Iterable[Block]:
        return _blocks(grid) if given is None else given

    again = group == "block" and _waits_in_branches(kernel)
    written = [p.name for p in kernel.params if isinstance(p, Global) and p.writable]
    before = {name: arrays[name].copy() for name in written} if again else {}
    with budget_of(f"{kernel.name}: not all of it was simulated when", SIMULATED * budget.UNITS):
        try:
            return _launch(
                kernel,
                chip,
                values,
                arrays,
                _blocks(grid) if given is None else given,
                grid,
                group,
                seed,
                trace,
            )
        except _Deadlock:
            if not again:
                raise
        for name, raw in before.items():
            arrays[name][:] = raw
        return _launch(kernel, chip, values, arrays, run(), grid, "warp", seed, trace)


class _Deadlock(SimulationError):
    """No group can go on."""


def _launch(
    kernel: Kernel,
    chip: Arch,
    params: Mapping[Var, int],
    arrays: Mapping[str, Array],
    chosen: Iterable[Block],
    grid: Block,
    way: Literal["block", "warp"],
    seed: int,
    traced: bool,
) -> Simulation:
    machine = Machine(-(-kernel.threads // WARP), kernel.shared_bytes)
    program = Program(kernel, machine, _buffers(kernel, machine, arrays), traced=traced)
    groups = _groups(kernel, program, params, machine.warps if way == "block" else _warps_together(kernel))
    order, done = random.Random(seed), 0
    for block in chosen:
        x, y, z = block
        machine.start_block(x + grid[0] * (y + grid[1] * z))
        for g in groups:
            g.start(str(block))
            for var, value in zip(kernel.block_vars, block, strict=True):
                g.frame[program.slots[var]] = value
        _run_block(program, groups, order)
        done += 1
    executed: dict[str, Array] = {}
    for s, counts in zip(program.statements, program.executed, strict=True):
        executed[s.instr.name] = executed.get(s.instr.name, 0) + counts
    per_warp = {name: tuple(counts.tolist()) for name, counts in executed.items()}
    return Simulation(kernel, chip, grid, done, way, MappingProxyType(per_warp), program.trace)


def _warps_together(kernel: Kernel) -> int:
    """The fewest warps that share a program counter: those of a warpgroup, where one is told what to do."""
    calls = (s for s in walk(kernel.body) if isinstance(s, Do))
    return WARPGROUP // WARP if any(s.instr.requires.warpgroup_converged for s in calls) else 1


def _groups(kernel: Kernel, program: Program, params: Mapping[Var, int], size: int) -> list[Group]:
    """The warps of a block in groups of `size`, their frames holding thread and parameter values."""
    groups = []
    for first in range(0, program.machine.warps, size):
        threads = numpy.arange(first * WARP, min(first + size, program.machine.warps) * WARP)
        frame = program.scope.frame()
        frame[program.slots[kernel.tid]] = threads
        for var, value in params.items():
            frame[program.slots[var]] = value
        exists = Lanes.of(threads < kernel.threads, first * WARP)
        groups.append(Group(first, exists, program.operands.register_words, frame))
    return groups


def _run_block(program: Program, groups: list[Group], order: random.Random) -> None:
    """Run groups until all have finished, each up to its next wait.  Raises _Deadlock when none can go on."""
    running = {g: program.run(g) for g in groups}
    waiting: dict[Group, Callable[[], bool]] = {}
    while running:
        able = [g for g in running if g not in waiting or waiting[g]()]
        if not able:
            raise _deadlock(groups, running)
        g = order.choice(able)
        waiting.pop(g, None)
        condition = next(running[g], None)
        if condition is None:
            del running[g]
        else:
            waiting[g] = condition
    for g in groups:
        g.statement = lambda: "the end of the kernel"
        lane = g.copies.never_committed()
        if lane is not None:
            raise g.fail("has started a copy that it never commits", lane)
        program.machine.matrix.check_end(g)


def _deadlock(groups: list[Group], running: Mapping[Group, object]) -> _Deadlock:
    stuck = list(running)
    waiting = [f"warp {w} waits at {g.statement()}" for g in stuck for w in _executing(g)]
    finished = [f"warp {g.first_warp} has finished" for g in groups if g not in running]
    return _Deadlock(
        f"deadlock in block {stuck[0].block}: nobody can go on; {', '.join(waiting + finished)}",
        statement=stuck[0].statement(),
    )


def _executing(group: Group) -> list[int]:
    warps: list[int] = (group.first_warp + numpy.flatnonzero(group.active.warps)).tolist()
    return warps


def _waits_in_branches(kernel: Kernel) -> bool:
    """True when lanes may part before a wait: only then can a program look dead that is not."""
    branches = [s for s in walk(kernel.body) if isinstance(s, If)]
    inside = (s for branch in branches for s in walk((*branch.body, *branch.orelse)))
    return any(isinstance(s, Do) and s.instr.ready is not None for s in inside)


# --- memory --------------------------------------------------------------------------------------------


def _buffers(kernel: Kernel, machine: Machine, arrays: Mapping[str, Array]) -> dict[str, Buffer]:
    """Every buffer with its shadow, whose granule is the gcd of all access widths to it."""
    widths: dict[str, int] = {}
    loaded = set()
    for s in walk(kernel.body):
        if isinstance(s, Do):
            for operand, arg in zip(s.instr.operands, s.args, strict=True):
                if isinstance(arg, MemRef):
                    widths[arg.buffer.name] = math.gcd(widths.get(arg.buffer.name, 0), operand.bytes)
                    loaded |= {arg.buffer.name} if operand.role == "read" else set()
    buffers = {}
    for p in kernel.params:
        if isinstance(p, Global):
            raw, shadow = arrays[p.name], None
            if p.writable and p.name in widths:
                shadow = machine.watch_global(len(raw), widths[p.name], reads=p.name in loaded)
            buffers[p.name] = Buffer(p.name, Memory(raw), 0, len(raw), shadow=shadow)
    for part in _overlapping(kernel.shared):
        start, end = part[0].offset_bytes, max(s.offset_bytes + s.size_bytes for s in part)
        granule = math.gcd(*(widths.get(s.name, 0) for s in part)) or 16
        start = start // granule * granule
        watched = machine.watch_shared(start, end - start, granule)
        for b in part:
            buffers[b.name] = machine.shared_buffer(b.name, b.offset_bytes, b.size_bytes, watched)
    return buffers


def _overlapping(shared: tuple[Shared, ...]) -> list[list[Shared]]:
    """Shared buffers in parts that have no byte in common."""
    parts: list[list[Shared]] = []
    end = 0
    for s in sorted(shared, key=lambda s: s.offset_bytes):
        if not parts or s.offset_bytes >= end:
            parts.append([])
        parts[-1].append(s)
        end = max(end, s.offset_bytes + s.size_bytes)
    return parts


# --- arguments -----------------------------------------------------------------------------------------


def _bind(kernel: Kernel, args: Mapping[str, Argument]) -> tuple[dict[Var, int], dict[str, Array]]:
    """Values of the integer parameters, and the bytes of each pointer's array."""
    names = [p.name for p in kernel.params]
    for name in args:
        if name not in names:
            raise UnknownNameError(f"argument of {kernel.name}", str(name), names)
    values: dict[Var, int] = {}
    arrays: dict[str, Array] = {}
    for p in kernel.params:
        if p.name not in args:
            raise ArgumentTypeError(f"{kernel.name} needs the argument {p.name}; it was not given")
        if isinstance(p, Global):
            arrays[p.name] = _bytes(kernel, p, args[p.name])
        else:
            values[p] = _integer(kernel, p, args[p.name])
    check_integers(kernel, {p.name: value for p, value in values.items()})
    pointers = [p for p in kernel.params if isinstance(p, Global)]
    for p in pointers:
        for q in pointers:
            if p.writable and p is not q and numpy.may_share_memory(arrays[p.name], arrays[q.name]):
                raise ArgumentTypeError(f"{p.name} of {kernel.name} is written and overlaps {q.name}")
    return values, arrays


def _integer(kernel: Kernel, p: Var, value: object) -> int:
    if not isinstance(value, int | numpy.integer) or isinstance(value, bool):
        raise ArgumentTypeError(f"{p.name} of {kernel.name} is {value!r}; an int is needed")
    return int(value)


def _bytes(kernel: Kernel, p: Global, value: object) -> Array:
    who = f"{p.name} of {kernel.name}"
    if not isinstance(value, numpy.ndarray) or value.dtype.hasobject:
        raise ArgumentTypeError(f"{who} is a {type(value).__name__}; a NumPy array of numbers is needed")
    if value.itemsize not in {1, p.element_bytes} or value.nbytes % p.element_bytes:
        raise ArgumentTypeError(
            f"{who} has elements of {value.itemsize} bytes, {value.nbytes} in all; elements of "
            f"{p.element_bytes} bytes are needed, or raw bytes"
        )
    if not value.flags.c_contiguous:
        raise ArgumentTypeError(f"{who} is not C-contiguous; pass its base array and the strides")
    if p.writable and not value.flags.writeable:
        raise ArgumentTypeError(f"{who} is written, and the array is read-only")
    raw: Array = value.reshape(-1).view(numpy.uint8)
    return raw


def _grid(kernel: Kernel, values: Mapping[Var, int]) -> Block:
    x, y, z = (_evaluate(extent, values) for extent in kernel.grid)
    return x, y, z


def _evaluate(extent: Expr, values: Mapping[Var, int]) -> int:
    return int(evaluate(extent, values))


def _blocks(grid: Block) -> Iterator[Block]:
    """All blocks, x fastest."""
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                yield x, y, z


def _given_blocks(blocks: Iterable[Block], grid: Block) -> list[Block]:
    """The blocks to run; raises ShapeError for one outside the grid."""
    chosen = [(int(x), int(y), int(z)) for x, y, z in blocks]
    for block in chosen:
        if any(not 0 <= b < n for b, n in zip(block, grid, strict=True)):
            raise ShapeError(f"block {block} is not in the grid {grid}")
    return chosen
