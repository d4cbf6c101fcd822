"""The memory trace: which bytes every executed instruction touched, and what that costs by the analysis.

The idea.  A simulated kernel leaves a record of each memory operand of each warp instruction: statement,
block, warp, 32 addresses and a mask.  Counted with the same definitions that predict the cost of a layout,
it is the prediction's check: a kernel is what its layouts say it is.

    trace.totals("sm_90")          one row a memory operand of the program: instructions, cost, ideal
    trace.instructions(site)       the addresses themselves

Notes.  Shared addresses count from the start of the block's shared memory, global ones from a base that is
a multiple of 256 bytes, as an allocation's is.  A warp without an active lane does not execute the
instruction and leaves no record.  Cost and ideal are wavefronts for shared memory and sectors for global
memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy

from layoutalg.arch import DEFAULT_ARCH, Arch, Space, find_arch
from layoutalg.codegen.costs import warp_costs

Array: TypeAlias = "numpy.ndarray[Any, Any]"
_CHUNK = 4096
"""Instructions counted at a time, to bound memory."""


@dataclass(frozen=True, slots=True)
class Site:
    """A memory operand of the program: statement number (in program order) and text, operation, buffer.

    `base_bytes` is where the buffer starts in its address space.
    """

    statement: int
    text: str
    op: str
    space: Space
    buffer: str
    base_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Instructions:
    """The instructions of a site, in order: `block` and `warp` (n,), `addresses` and `active` (n, 32)."""

    block: Array
    warp: Array
    addresses: Array
    active: Array


@dataclass(frozen=True, slots=True)
class AccessTotal:
    """The cost of all instructions of one site: wavefronts (shared) or sectors (global).

    `worst` is the costliest single instruction.
    """

    site: Site
    instructions: int
    total: int
    ideal_total: int
    worst: int

    @property
    def conflict_free(self) -> bool:
        """True when no instruction costs more than its ideal."""
        return self.total == self.ideal_total


class MemTrace:
    """The trace of one simulation; `lanes` per warp.

    >>> trace = MemTrace((Site(0, "lds32(v, tile[tid * 128])", "ld.shared.b32", "shared", "tile", 0),))
    >>> every = numpy.ones(32, dtype=bool)
    >>> trace.record(0, block=0, first_warp=0, offsets=numpy.arange(32) * 128, mask=every)
    >>> [(t.instructions, t.total, t.ideal_total) for t in trace.totals("sm_90")]
    [(1, 32, 1)]
    """

    def __init__(self, sites: Sequence[Site], lanes: int = 32) -> None:
        self.sites = tuple(sites)
        self.lanes = lanes
        self._records: list[list[tuple[int, int, Any, Array]]] = [[] for _ in self.sites]
        self._counted: dict[tuple[int, Arch, int], AccessTotal] = {}

    def record(self, site: int, *, block: int, first_warp: int, offsets: Any, mask: Array) -> None:
        """Note an execution by the lanes of `mask`; `offsets`, int or array, from the buffer's start."""
        self._records[site].append((block, first_warp, offsets, mask))

    def instructions(self, site: int | Site) -> Instructions:
        """Everything that a site executed, one row a warp instruction."""
        number = site if isinstance(site, int) else self.sites.index(site)
        records = self._records[number]
        if not records:
            none = numpy.zeros(0, dtype=numpy.int64)
            empty = numpy.zeros((0, self.lanes), dtype=numpy.int64)
            return Instructions(none, none, empty, empty.astype(bool))
        active = numpy.concatenate([mask for *_, mask in records]).reshape(-1, self.lanes)
        offsets = [
            at if isinstance(at, numpy.ndarray) else numpy.full(len(mask), at) for _, _, at, mask in records
        ]
        addresses = numpy.concatenate(offsets).reshape(-1, self.lanes) + self.sites[number].base_bytes
        warps = [len(mask) // self.lanes for *_, mask in records]
        block = numpy.repeat([block for block, *_ in records], warps)
        warp = numpy.concatenate(
            [numpy.arange(first, first + n) for (_, first, *_), n in zip(records, warps, strict=True)]
        )
        ran = active.any(axis=1)
        return Instructions(block[ran], warp[ran], numpy.where(active, addresses, 0)[ran], active[ran])

    def totals(self, arch: str | Arch = DEFAULT_ARCH) -> tuple[AccessTotal, ...]:
        """Cost and ideal of every site that executed, in program order.

        Raises UnknownNameError and UnsupportedError as `layoutalg.analysis` does for an operation.
        """
        machine = find_arch(arch)
        return tuple(self._total(n, machine) for n, records in enumerate(self._records) if records)

    def total(
        self, op: str, arch: str | Arch = DEFAULT_ARCH, *, statements: Collection[int] | None = None
    ) -> tuple[int, int, int]:
        """(instructions, cost, ideal) of every site of an operation together, or of those of some
        statements."""
        machine = find_arch(arch)
        totals = [
            self._total(n, machine)
            for n, site in enumerate(self.sites)
            if site.op == op and (statements is None or site.statement in statements)
        ]
        return (
            sum(t.instructions for t in totals),
            sum(t.total for t in totals),
            sum(t.ideal_total for t in totals),
        )

    def _total(self, number: int, machine: Arch) -> AccessTotal:
        """Counted once for the records that a site has."""
        key = number, machine, len(self._records[number])
        if key not in self._counted:
            self._counted[key] = self._count(number, machine)
        return self._counted[key]

    def _count(self, number: int, machine: Arch) -> AccessTotal:
        site, ran = self.sites[number], self.instructions(number)
        total = ideal = worst = 0
        for start in range(0, len(ran.block), _CHUNK):
            rows = slice(start, start + _CHUNK)
            cost, floor = warp_costs(site.op, site.space, machine, ran.addresses[rows], ran.active[rows])
            total, ideal = total + int(cost.sum()), ideal + int(floor.sum())
            worst = max(worst, int(cost.max()))
        return AccessTotal(site, len(ran.block), total, ideal, worst)
