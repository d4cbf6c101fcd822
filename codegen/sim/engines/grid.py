"""Barriers of the blocks of a cooperative launch, and their counters in global memory.

The idea.  All blocks of the launch run at the same time, as those of one cluster do, and share their clocks.
A block counts when all its warps have arrived; what its threads did before is known to those who wait for
as many arrivals at the same counter, and nothing else orders blocks.

    meet(group, count, arrivals)     the group's warps arrive, and wait for so many blocks

A counter has to be what the blocks before have left, 0 at first: another may release too early, or never.

Sources: PTX ISA 9.0, 8.8 (memory consistency model); CUDA C++ Programming Guide, grid synchronization.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy

from layoutalg.codegen.sim.engines.knowledge import ALL_LANES, AgentClocks, Knowledge
from layoutalg.codegen.sim.engines.tensor_copies import Place
from layoutalg.codegen.sim.hazards import Array
from layoutalg.codegen.sim.machine import Group, Machine, Wait


@dataclass(slots=True, eq=False)
class Counter:
    """The knowledge of the blocks that arrived, in order, and for each block the warps that are there."""

    arrived: list[Knowledge] = field(default_factory=list)
    warps: dict[int, list[Knowledge]] = field(default_factory=dict)


class Grid:
    """A block's view of the counters of its launch, by their byte."""

    def __init__(self, machine: Machine, clocks: AgentClocks, counters: dict[int, Counter]) -> None:
        self.machine, self.clocks, self.counters = machine, clocks, counters

    def start(self) -> None:
        """A new block begins."""
        if self.machine.rank == 0:
            self.counters.clear()

    def meet(self, group: Group, count: Place, arrivals: Array) -> None:
        """The group's warps arrive and wait.  Raises SimulationError for another counter."""
        at = self.machine.checked(group, count.buffer, count.offsets, 4, "counts in")[:1]
        own = self.counters.setdefault(int(at[0]), Counter())
        here = own.warps.setdefault(self.machine.rank, [])
        agents = (group.first_agent + numpy.flatnonzero(group.active.warps)).tolist()
        here += [self.clocks.release(warp, ALL_LANES) for warp in agents]
        for warp in agents:
            group.waits.append(self._wait(warp, own, int(arrivals[group.active.index][0, 0])))
        if len(here) < self.clocks.per_block:
            return
        value = int(count.buffer.memory.gather(at, 4)[0, 0])
        if value != len(own.arrived):
            raise group.fail(
                f"finds {value} in the counter of its barrier, where {len(own.arrived)} blocks have arrived: "
                "it is 0 before the launch"
            )
        count.buffer.memory.scatter(at, numpy.uint32(value + 1), 4)
        own.arrived.append(_joined(here, self.clocks.agents))
        own.warps[self.machine.rank] = []

    def _wait(self, warp: int, counter: Counter, arrivals: int) -> Wait:
        def happened() -> bool:
            return len(counter.arrived) >= arrivals

        def passed() -> None:
            known = _joined(counter.arrived[:arrivals], self.clocks.agents)
            self.clocks.acquire(warp, ALL_LANES, known)
            self.clocks.sync_warps(numpy.array([warp]))

        def missing() -> str:
            return f"{arrivals} blocks at a barrier where {len(counter.arrived)} have arrived"

        return Wait(happened, passed, missing)

    def passed(self, group: Group) -> bool:
        """Whether all that the group waits for have arrived."""
        return self.machine.mbarriers.passed(group)


def _joined(several: list[Knowledge], agents: int) -> Knowledge:
    known = Knowledge.nothing(agents)
    for knowledge in several:
        known.join(knowledge)
    return known
