"""The cost of the memory accesses of any tile program, read off the program itself.

The idea.  A program says where every lane of every warp reads and writes, so its wavefronts and sectors are
counted, not predicted: once for each memory operand, block, turn of a loop and warp.  That is the definition,
`traffic_enumerated`.  `traffic` counts the same numbers from classes: executions of one access that cannot be
told apart by what they cost are counted once and multiplied (see classes).  Costs add up, so accesses
are taken one by one, and how they depend on blocks and loops never multiplies.

    traffic(kernel, {"n": 1 << 30})["st.global.b128"]       Cost(instructions, sectors, ideal sectors)

Whatever else a program does is not in these numbers: `unstated` names it, and `uncounted` the part of it that
moves memory.  A time that is made of them is that of a program without either.

Notes.  Parameters are ints and are checked as a launch checks them.  An access whose address, or whether it
is executed, depends on numbers in registers is not counted, nor is an atomic.  A program and its lowered form
have the same traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.arch import DEFAULT_ARCH, Arch, Space, find_arch
from layoutalg.codegen import instr
from layoutalg.codegen.costs.accesses import MemoryAccess, ProgramReader, without_data
from layoutalg.codegen.costs.classes import Classes, classes_of, lanes_of
from layoutalg.codegen.costs.cost import Cost, Costs, Prediction
from layoutalg.codegen.costs.split import Array
from layoutalg.codegen.instr import Instr
from layoutalg.codegen.program import Do, Kernel, LaunchSequence, calls

_ROWS = 4096
"""Instructions whose lanes are counted at a time, to bound memory."""

_ACCESSES = (
    instr.LDG, instr.LDG_FRESH, instr.STG, instr.STG_WHOLE, instr.LDS, instr.STS, instr.CP_ASYNC,
    instr.CP_ASYNC_LINE, instr.CP_ASYNC_ZFILL, instr.LDMATRIX, instr.LDMATRIX_TRANS, instr.STMATRIX,
    instr.STMATRIX_TRANS, instr.CLEAR,
)  # fmt: skip
_MOVES = (
    instr.MOVE, instr.SELECT, instr.BYTE_PERMUTE, instr.MOVMATRIX, instr.TRANSPOSE_8, instr.TRANSPOSE_16
)  # fmt: skip
_WAITS = (instr.BAR, instr.WARP_SYNC, instr.CP_COMMIT, instr.CP_WAIT, instr.GRID_WAIT)
STATED: frozenset[Instr] = frozenset((*(x for table in _ACCESSES for x in table.values()), *_MOVES, *_WAITS))
"""Instructions that only access memory at the addresses of lanes, move registers for that, or wait for it."""

_ENGINES = frozenset({"place", "map", "update"})
"""Roles of memory that no lane's address says the extent of: boxes of TMA, tiles of descriptors, peers; and
of atomics, whose cost depends on who meets."""


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


def traffic(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH) -> Prediction:
    """The costs of a launch by instruction, for the integer parameters by name.

    Shared memory is counted in wavefronts, global memory in sectors; instructions per warp.  Raises
    ArgumentTypeError and ShapeError for parameters that a launch would refuse, ResourceError where more
    points would have to be told apart than Most.BLOCKS, UnsupportedError for an operation that
    the architecture lacks.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.instr import LDG
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


def unstated(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """The instructions of some programs whose cost their traffic does not state, by name, each once: all that
    compute, atomics, everything asynchronous but cp.async, and every instruction that is not STATED.

    >>> from layoutalg.codegen.instr import LDG, Instr, updated
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("squares", threads=32)
    >>> v = k.reg("v", 1)
    >>> k.do(LDG[4], v, k.at(k.pointer("x", 4), k.tid))
    >>> k.do(Instr("square", (updated("d", 1),), "void square(u32& d) {}", lambda machine, group, d: d), v)
    >>> unstated([k.build()])
    ('square',)
    """
    instrs = (s.instr for kernel in kernels for s in calls(kernel.body))
    return tuple(dict.fromkeys(x.name for x in instrs if x not in STATED))


def uncounted(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """The instructions of some programs that access memory which their traffic does not count, as `unstated`.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> uncounted([KernelBuilder("nothing", threads=32).build()])
    ()
    """
    found: dict[str, None] = {}
    for kernel in kernels:
        counted = {id(s) for s in calls(without_data(kernel.body))}
        for s in calls(kernel.body):
            engine = any(operand.role in _ENGINES for operand in s.instr.operands)
            if engine or (s.memory and id(s) not in counted):
                found[s.instr.name] = None
    return tuple(found)


def sequence_traffic(
    sequence: LaunchSequence,
    scalars: Mapping[str, int] = MappingProxyType({}),
    arch: str | Arch = DEFAULT_ARCH,
) -> tuple[Prediction, ...]:
    """The costs of every launch of a sequence; `scalars` are integers of the call that it does not have.

    Raises as `traffic` does.

    >>> from layoutalg.codegen.program import launch_sequence
    >>> sequence_traffic(launch_sequence([]))
    ()
    """
    known = {**dict(sequence.scalars), **scalars}
    return tuple(traffic(kernel, known, arch) for kernel in sequence.kernels)


def traffic_by_access(
    kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH
) -> tuple[AccessTraffic, ...]:
    """The costs of every memory operand of the program, in program order.  Raises as `traffic` does."""
    machine = find_arch(arch)
    known: dict[object, Classes] = {}
    accesses = ProgramReader(kernel, params, machine).accesses()
    return tuple(_count(access, machine, known) for access in accesses)


def copied(
    kernel: Kernel,
    params: Mapping[str, int],
    nbytes: int,
    counts: Callable[[Array, Array, Array], Array],
    arch: str | Arch = DEFAULT_ARCH,
) -> int:
    """The sum of what `counts` says of every instruction that copies `nbytes` per lane to shared memory.

    `counts` takes byte addresses in global and in shared memory and active lanes, (instructions, lanes) each,
    and must not change when all lanes of a side move by whole lines: as `layoutalg.model.tag_sectors`.
    Raises as `traffic` does.

    >>> from layoutalg.codegen.instr import CP_ASYNC
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.layout import Layout
    >>> from layoutalg.model import tag_sectors
    >>> k = KernelBuilder("copies", threads=64)
    >>> tile, src = k.shared_buffer("tile", 16, Layout((64,)), 64, 16), k.pointer("src", 16)
    >>> k.do(CP_ASYNC[16], k.at(tile, k.tid), k.at(src, k.block(0, 100) * 65 + k.tid))
    >>> copied(k.build(), {}, 16, tag_sectors)
    3600
    """
    total = 0
    reader = ProgramReader(kernel, params, find_arch(arch))
    for place in reader.copies(nbytes):
        classes = classes_of(place)
        for start in range(0, len(classes.weights), _ROWS):
            rows = slice(start, start + _ROWS)
            (source, target), active, weights = lanes_of(place, classes, reader.lane, rows)
            total += int(counts(source * active, target * active, active) @ weights)
    return total


def _count(access: MemoryAccess, machine: Arch, known: dict[object, Classes]) -> AccessTraffic:
    """The cost of one access: that of a representative of every class, times its weight."""
    place, op, space = access.place, access.operand.op, access.space
    classes = classes_of(place, known)
    costs = Costs(machine)
    for start in range(0, len(classes.weights), _ROWS):
        (address,), active, weights = lanes_of(place, classes, access.lane, slice(start, start + _ROWS))
        costs.lanes(op, space, address, active, weights)
    cost = costs.found.get(op, Cost(0, 0, 0))
    return AccessTraffic(
        access.statement, access.buffer.name, op, space, cost, place.scope.executions, len(classes.weights)
    )
