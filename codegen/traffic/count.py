"""What the memory accesses of any tile program cost, read off the program itself.

The idea.  A program says where every lane of every warp reads and writes, so its wavefronts and sectors are
counted, not predicted: once for each memory operand, block, turn of a loop and warp.  That is the definition,
`traffic_enumerated`.  `traffic` counts the same numbers from classes: executions of one access that cannot be
told apart by what they cost are counted once and multiplied (see classes).  Costs add up, so accesses
are taken one by one, and how they depend on blocks and loops never multiplies.

    traffic(kernel, {"n": 1 << 30})["st.global.b128"]       Cost(instructions, sectors, ideal sectors)

Notes.  Parameters are ints and are checked as a launch checks them.  Registers and data play no part: no
address of a tile program depends on them.  A program and its lowered form have the same traffic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy

from layoutalg.arch import Arch, Space, find_arch
from layoutalg.codegen.program import Do, Kernel
from layoutalg.codegen.traffic.accesses import MemoryAccess, ProgramReader
from layoutalg.codegen.traffic.classes import classes_of
from layoutalg.codegen.traffic.cost import Cost, Costs, Prediction
from layoutalg.codegen.traffic.split import Evaluator

_ROWS = 4096
"""Instructions whose lanes are counted at a time, to bound memory."""


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
    points would have to be told apart than classes.MAX_POINTS, UnsupportedError for an operation that
    the architecture lacks.

    >>> from layoutalg.codegen.program import KernelBuilder
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


def traffic_by_access(
    kernel: Kernel, params: Mapping[str, int], arch: str | Arch = "sm_90"
) -> tuple[AccessTraffic, ...]:
    """The costs of every memory operand of the program, in program order.  Raises as `traffic` does."""
    machine = find_arch(arch)
    return tuple(_count(access, machine) for access in ProgramReader(kernel, params, machine).accesses())


def _count(access: MemoryAccess, machine: Arch) -> AccessTraffic:
    """The cost of one access: of a representative of every class, times its weight."""
    place, op, space = access.place, access.operand.op, access.space
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
