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
its own program counter and a seeded scheduler lets one run up to its next wait.  A deadlock of the first
kind is run again warp by warp before it is believed.  The kernel is run as it is given: `check` and `lower`
are the caller's.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy

from layoutalg import budget
from layoutalg.arch import CHUNK_BYTES, DEFAULT_ARCH, Arch, find_arch
from layoutalg.budget import budget_of
from layoutalg.codegen.expr import Var
from layoutalg.codegen.instr import WARP, WARPGROUP
from layoutalg.codegen.program import (
    SCRATCH,
    Body,
    Global,
    If,
    Kernel,
    LaunchSequence,
    Roles,
    Shared,
    calls,
    check_integers,
    walk,
)
from layoutalg.codegen.sim.engines import BoundMap, connected
from layoutalg.codegen.sim.hazards import Array
from layoutalg.codegen.sim.machine import Buffer, Group, Lanes, Machine, Memory
from layoutalg.codegen.sim.memtrace import MemTrace
from layoutalg.codegen.sim.statements import Program
from layoutalg.errors import (
    ArgumentTypeError,
    ShapeError,
    SimulationError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.limits import Most

Argument: TypeAlias = "int | numpy.integer[Any] | Array"
Block: TypeAlias = tuple[int, int, int]

SIMULATED = 5
"""Budgets that a simulated launch has: about ten seconds of one core."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """The record of a simulated launch.

    `grid` in blocks, `blocks` how many of them were run; `group` the way they were run in the end;
    `executed[name][w]` how often warp w of a block executed an instruction, over all blocks; `moved` the
    bytes that TMA has loaded and stored, whole boxes; `counted` bytes as a profiler counts them: of global
    sectors that TMA has loaded, each block of a multicast its own, and stored, and of shared memory that
    wgmma has read.
    """

    kernel: Kernel
    arch: Arch
    grid: Block
    blocks: int
    group: Literal["block", "warp"]
    executed: Mapping[str, tuple[int, ...]]
    traced: MemTrace | None
    moved: Mapping[str, int]
    counted: Mapping[str, int]

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
    arch: str | Arch = DEFAULT_ARCH,
    group: Literal["block", "warp"] = "block",
    seed: int = 0,
    blocks: Iterable[Block] | None = None,
    trace: bool = True,
) -> Simulation:
    """Run `kernel` on `args`: an int for each parameter, a C-contiguous NumPy array for each pointer.

    Arrays hold the buffer's elements, or its bytes as uint8; those of writable pointers are modified.
    `blocks` are the (x, y, z) of the blocks to run, all of them by default.  Raises ArgumentTypeError,
    ShapeError or UnknownNameError for arguments that do not fit, ResourceError for arrays of more than
    Most.ARRAYS, UndecidedError past SIMULATED times the usual budget of work (layoutalg.budget),
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
    grid = kernel.blocks(values)
    nbytes = sum(array.nbytes for array in arrays.values())
    Most.ARRAYS.guard(nbytes, f"bytes of arrays of {kernel.name} in the simulator")
    chosen = None if blocks is None else _given_blocks(blocks, grid)

    def run() -> Iterable[Block]:
        return _blocks(grid) if chosen is None else chosen

    # one program counter for a block cannot enter both sides of a branch in which each waits for the other
    again = group == "block" and _waits_in_branches(kernel)
    written = [p.name for p in kernel.pointers if p.writable]
    before = {name: arrays[name].copy() for name in written} if again else {}
    with budget_of(f"{kernel.name}: not all of it was simulated when", SIMULATED * budget.UNITS):
        try:
            return _launch(kernel, chip, values, arrays, run(), grid, group, seed, trace)
        except _Deadlock:
            if not again:
                raise
        for name, raw in before.items():
            arrays[name][:] = raw
        return _launch(kernel, chip, values, arrays, run(), grid, "warp", seed, trace)


class _Deadlock(SimulationError):
    """No group can go on."""


def _launch(
    kernel: Kernel, chip: Arch, params: Mapping[Var, int], arrays: Mapping[str, Array],
    chosen: Iterable[Block], grid: Block, way: Literal["block", "warp"], seed: int, traced: bool,
) -> Simulation:  # fmt: skip
    units = _units(kernel, params, arrays, traced, way, math.prod(grid))
    done, clusters = 0, _clusters(kernel, chosen, grid)
    choose: Callable[[list[Group]], Group] = random.Random(seed).choice
    if way == "warp" and _updated(kernel):  # the other order of atomics
        choose, clusters = operator.itemgetter(-1), reversed(list(clusters))
    for cluster in clusters:
        for unit, block in zip(units, cluster, strict=True):
            x, y, z = block
            unit.start(x + grid[0] * (y + grid[1] * z))
            for g in unit.groups:
                g.start(str(block))
                for var, value in zip(kernel.block_vars, block, strict=True):
                    g.frame[unit.program.slots[var]] = value
        _run_cluster(units, choose)
        done += len(units)
    executed: dict[str, Array] = {}
    for unit in units:
        for s, counts in zip(unit.program.statements, unit.program.executed(unit.groups), strict=True):
            executed[s.instr.name] = executed.get(s.instr.name, 0) + counts
    per_warp = {name: tuple(counts.tolist()) for name, counts in executed.items()}
    own = [u.machine for u in units if u.asynchronous]
    moved = {way: sum(machine.tma.moved[way] for machine in own) for way in ("load", "store")}
    counted = {way: sum(machine.tma.sectors[way] for machine in own) for way in ("load", "store")}
    counted["wgmma"] = sum(machine.matrix.read_bytes for machine in own)
    return Simulation(
        kernel, chip, grid, done, way, MappingProxyType(per_warp), units[0].program.trace,
        MappingProxyType(moved), MappingProxyType(counted),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """A block of a cluster, or the block: its machine, its program and its groups."""

    machine: Machine
    program: Program
    groups: list[Group]
    asynchronous: bool

    def start(self, number: int) -> None:
        """Block `number` of the grid begins."""
        self.machine.start_block(number)
        if self.asynchronous:
            self.machine.mbarriers.start()
            self.machine.tma.start()
            self.machine.matrix.start_block()
            self.machine.cluster.start()
            self.machine.grid.start()

    def finish(self) -> None:
        """The block ends.  Raises SimulationError for what it leaves undone."""
        for g in self.groups:
            lane = g.copies.never_committed()
            if lane is not None:
                g.statement = lambda: "the end of the kernel"
                raise g.fail("has started a copy that it never commits", lane)
        if self.asynchronous:
            block = self.groups[0].block
            self.machine.tma.finish(self.groups)
            self.machine.matrix.finish(self.groups)
            self.machine.mbarriers.finish(block)
            self.machine.cluster.leave(block)


def _units(
    kernel: Kernel, params: Mapping[Var, int], arrays: Mapping[str, Array], traced: bool,
    way: Literal["block", "warp"], launched: int,
) -> list[_Unit]:  # fmt: skip
    """The blocks of one cluster or of a cooperative launch, which share their clocks, or one block."""
    asynchronous = _is_asynchronous(kernel)
    warps = -(-kernel.threads // WARP)
    machines = [Machine(warps, kernel.shared_bytes)]
    if asynchronous:
        blocks = launched if kernel.cooperative else kernel.cluster_blocks
        Most.WARPS.guard(blocks * warps, f"warps of {kernel.name} that wait for each other, simulated")
        machines = connected(kernel, warps, blocks)
    globals_ = _global_buffers(kernel, machines[0], arrays)
    maps = {m.name: BoundMap(m.name, m.evaluate(params), globals_[m.source.name]) for m in kernel.maps}
    units: list[_Unit] = []
    for machine in machines:
        machine.backwards = way == "warp"
        machine.buffers.update(globals_, **_shared_buffers(kernel, machine))
        trace: MemTrace | Literal[True] | None = True if traced else None
        program = Program(kernel, machine, maps, units[0].program.trace if units else trace)
        units.append(_Unit(machine, program, _groups(kernel, program, params, way), asynchronous))
    return units


def _is_asynchronous(kernel: Kernel) -> bool:
    """Whether anything but the warps of a block works, or waits elsewhere than at the block's barrier."""
    instrs = {s.instr for s in calls(kernel.body)}
    return (
        bool(kernel.maps or kernel.barriers)
        or kernel.cluster_blocks > 1
        or kernel.cooperative
        or any("." in instr.method or instr.requires.warpgroup_converged for instr in instrs)
    )


def _clusters(kernel: Kernel, chosen: Iterable[Block], grid: Block) -> Iterator[list[Block]]:
    """The blocks of every cluster in which a chosen block lies, by rank; all of a cooperative launch."""
    if kernel.cooperative:
        yield list(_blocks(grid))
        return
    if kernel.cluster_blocks == 1:
        for block in chosen:
            yield [block]
        return
    cx, cy, cz = kernel.cluster
    for n, side in zip(grid, kernel.cluster, strict=True):
        if n % side:
            raise ShapeError(
                f"a grid of {grid} blocks of {kernel.name} has no whole clusters of {kernel.cluster}"
            )
    for x, y, z in dict.fromkeys((x // cx, y // cy, z // cz) for x, y, z in chosen):
        yield [(x * cx + i, y * cy + j, z * cz + k) for k in range(cz) for j in range(cy) for i in range(cx)]


def _groups(
    kernel: Kernel, program: Program, params: Mapping[Var, int], way: Literal["block", "warp"]
) -> list[Group]:
    """The warps of a block one by one, or as many together as do the same, with threads and parameters.

    A group lies in one role, or in none; the four warps of a warpgroup stay together where one is told what
    to do.
    """
    groups, machine = [], program.machine
    starts = set(range(0, machine.warps, 1 if way == "warp" else machine.warps))
    for s in walk(kernel.body):
        if isinstance(s, Roles):
            starts |= {edge for part in s.parts for edge in (part.first_warp, part.first_warp + part.warps)}
    for first, warps in _of_warpgroups(kernel, machine.warps):
        starts -= {w for w in range(first, first + warps) if (w - first) % (WARPGROUP // WARP)}
    edges = [*sorted(first for first in starts if first < machine.warps), machine.warps]
    for first, end in itertools.pairwise(edges):
        threads = numpy.arange(first * WARP, end * WARP)
        frame = program.scope.frame()
        frame[program.slots[kernel.tid]] = threads
        for var, value in params.items():
            frame[program.slots[var]] = value
        agent = machine.agents.start + first
        exists = Lanes.of(threads < kernel.threads, agent * WARP)
        groups.append(Group(first, exists, program.operands.register_words, frame, first_agent=agent))
    return groups


def _of_warpgroups(kernel: Kernel, warps: int) -> Iterator[tuple[int, int]]:
    """(first, number) of the warps that execute instructions of whole warpgroups: roles, or all."""

    def has(body: Body) -> bool:
        return any(s.instr.requires.warpgroup_converged for s in calls(body))

    parts = [part for s in kernel.body if isinstance(s, Roles) for part in s.parts]
    if has(tuple(s for s in kernel.body if not isinstance(s, Roles))):
        yield 0, warps
    else:
        yield from ((part.first_warp, part.warps) for part in parts if has(part.body))


def _run_cluster(units: list[_Unit], choose: Callable[[list[Group]], Group]) -> None:
    """Run groups until all have finished, each up to its next wait, the one that is chosen of those that can
    go on.  Raises _Deadlock when none can.
    """
    running = {g: unit.program.run(g) for unit in units for g in unit.groups}
    groups, unit_of = list(running), {g: unit for unit in units for g in unit.groups}
    waiting: dict[Group, Callable[[], bool]] = {}
    while running:
        able = [g for g in running if g not in waiting or waiting[g]()]
        if not able:
            raise _deadlock(groups, running)
        g = choose(able)
        waiting.pop(g, None)
        condition = next(running[g], None)
        if condition is not None:
            waiting[g] = condition
            continue
        del running[g]
        unit = unit_of[g]
        if unit.asynchronous:
            unit.machine.cluster.end(g)
        if not any(other in running for other in unit.groups):
            unit.finish()


def _deadlock(groups: list[Group], running: Mapping[Group, object]) -> _Deadlock:
    stuck = list(running)
    waiting = [f"warp {w} waits at {g.statement()}{_missing(g)}" for g in stuck for w in _executing(g)]
    finished = [f"warp {g.first_warp} has finished" for g in groups if g not in running]
    return _Deadlock(
        f"deadlock in block {stuck[0].block}: nobody can go on; {', '.join(waiting + finished)}",
        statement=stuck[0].statement(),
    )


def _missing(group: Group) -> str:
    """Say what keeps a group waiting, where that is known."""
    missing = dict.fromkeys(wait.missing() for wait in group.waits if not wait.asked())
    return "".join(f", for {what}" for what in missing)


def _executing(group: Group) -> list[int]:
    warps: list[int] = (group.first_warp + numpy.flatnonzero(group.active.warps)).tolist()
    return warps


def _waits_in_branches(kernel: Kernel) -> bool:
    """True when lanes may part before a wait: only then can a program look dead that is not."""
    branches = [s for s in walk(kernel.body) if isinstance(s, If)]
    return any(s.instr.ready is not None for s in calls(tuple(branches)))


# --- memory --------------------------------------------------------------------------------------------


def _widths(kernel: Kernel) -> tuple[dict[str, int], set[str]]:
    """The gcd of all access widths to each buffer, and the buffers that are read."""
    widths: dict[str, int] = {}
    loaded: set[str] = set()

    def note(name: str, width: int, *, read: bool) -> None:
        widths[name] = math.gcd(widths.get(name, 0), width)
        loaded.update({name} if read else ())

    for s in calls(kernel.body):
        for operand, at in s.memory:
            width = math.gcd(operand.bytes, CHUNK_BYTES) if operand.role == "place" else operand.bytes
            note(at.buffer.name, width, read=operand.role != "write")
        if m := s.tensor_map:
            note(m.source.name, m.element.nbytes, read=s.instr.engine == "tma")
    return widths, loaded


def _updated(kernel: Kernel) -> set[str]:
    """The buffers with atomics."""
    return {
        at.buffer.name for s in calls(kernel.body) for operand, at in s.memory if operand.role == "update"
    }


def _global_buffers(kernel: Kernel, machine: Machine, arrays: Mapping[str, Array]) -> dict[str, Buffer]:
    """Every pointer's buffer; those that are written have a shadow, with the gcd of the widths as granule."""
    widths, loaded = _widths(kernel)
    updated, buffers = _updated(kernel), {}
    for p in kernel.pointers:
        raw, shadow = arrays[p.name], None
        if p.writable and p.name in widths:
            reads, updates = p.name in loaded, p.name in updated
            shadow = machine.watch_global(len(raw), widths[p.name], reads=reads, updates=updates)
        buffers[p.name] = Buffer(p.name, Memory(raw), 0, len(raw), shadow=shadow)
    return buffers


def _shared_buffers(kernel: Kernel, machine: Machine) -> dict[str, Buffer]:
    """Every buffer of shared memory; those that overlap have one shadow."""
    widths, _ = _widths(kernel)
    updated, buffers = _updated(kernel), {}
    for part in _overlapping(kernel.shared):
        start, end = part[0].offset_bytes, max(s.offset_bytes + s.size_bytes for s in part)
        granule = math.gcd(*(widths.get(s.name, 0) for s in part)) or 16
        start = start // granule * granule
        updates = any(b.name in updated for b in part)
        watched = machine.watch_shared(start, end - start, granule, updates=updates)
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
    for p in kernel.pointers:
        for q in kernel.pointers:
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


def simulate_sequence(
    sequence: LaunchSequence,
    given: Mapping[str, Any],
    *,
    arch: str | Arch = DEFAULT_ARCH,
    group: Literal["block", "warp"] = "block",
    seed: int = 0,
    trace: bool = True,
) -> tuple[Simulation, ...]:
    """Run all kernels, as they are, on NumPy buffers and scalars `given` by name; buffers are modified.

    All bits of scratch memory are set before: what is read there and was not written is not a number.  Raises
    what `simulate` raises, ArgumentTypeError for a missing name.

    >>> from layoutalg.codegen.program import launch_sequence
    >>> simulate_sequence(launch_sequence([]), {})
    ()
    """
    chunks = max(1, -(-sequence.scratch_bytes // CHUNK_BYTES))
    scratch = numpy.full(chunks * CHUNK_BYTES, 255, numpy.uint8)
    steps = zip(sequence.kernels, sequence.arguments({**given, SCRATCH: scratch}), strict=True)
    return tuple(
        simulate(kernel, _as_bytes(args), arch=arch, group=group, seed=seed, trace=trace)
        for kernel, args in steps
    )


def _as_bytes(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x.reshape(-1).view("u1") if hasattr(x, "dtype") else x for name, x in args.items()}
