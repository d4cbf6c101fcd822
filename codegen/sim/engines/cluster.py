"""Blocks that run together: barriers of a cluster and of a grid, accesses to another block's shared memory.

The idea.  Every access to a peer is checked for three things by the clocks, so that no schedule has to show
them: the peer has started (its life is known), it has not left, and before it leaves it knows of the access.

    cluster_arrive, cluster_wait     all warps of all blocks that have not ended
    reach(group, rank)               the group's active lanes touch the memory of the block of a rank

A relaxed arrival carries the lives of blocks and fenced initialisations of mbarriers, no other knowledge.

Cooperative launches.  All blocks of the launch run at the same time, as those of one cluster do, and share
their clocks. A block counts when all its warps have arrived; what its threads did before is known to those
who wait for as many arrivals at the same counter, and nothing else orders blocks.

    meet(group, count, arrivals)     the group's warps arrive, and wait for so many blocks

A counter has to be what the blocks before have left, 0 at first: another may release too early, or never.

Sources: PTX ISA 9.0, 9.7.13.3 (barrier.cluster) and 8.8 (memory consistency model); CUDA C++ Programming
Guide, distributed shared memory and grid synchronization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy

from layoutalg.codegen.instr import WARP, WARPGROUP
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim.engines.knowledge import ALL_LANES, AgentClocks, Knowledge
from layoutalg.codegen.sim.engines.matrix_engine import MatrixEngine
from layoutalg.codegen.sim.engines.mbarriers import BarrierPlace, Flight, Mbarriers, Phases, meeting
from layoutalg.codegen.sim.engines.tensor_copies import Place, TensorCopies
from layoutalg.codegen.sim.hazards import WARP_BITS, Array, Shadow
from layoutalg.codegen.sim.machine import Buffer, Group, Machine, Memory, Wait, refusal
from layoutalg.errors import SimulationError


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
        here += [self.clocks.release(warp, ALL_LANES) for warp in group.agents]
        awaited = int(arrivals[group.active.index][0, 0])
        group.waits.append(
            meeting(
                self.clocks, group.agents, lambda: len(own.arrived) >= awaited,
                lambda: _joined(own.arrived[:awaited], self.clocks.agents),
                lambda: f"{awaited} blocks at a barrier where {len(own.arrived)} have arrived",
            )
        )  # fmt: skip
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


def _joined(several: Iterable[Knowledge], agents: int) -> Knowledge:
    known = Knowledge.nothing(agents)
    for knowledge in several:
        known.join(knowledge)
    return known


@dataclass(slots=True, eq=False)
class ClusterBarrier:
    """barrier.cluster: who has arrived, who has left, and what was known each time that it was complete."""

    clocks: AgentClocks
    arrived: dict[int, Knowledge] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)  # agent -> the generation it is to wait for
    ended: set[int] = field(default_factory=set)
    done: list[Knowledge] = field(default_factory=list)

    def start(self) -> None:
        """A new cluster begins."""
        for part in (self.arrived, self.waiting, self.ended, self.done):
            part.clear()

    def end(self, agents: set[int]) -> None:
        """Warps have ended: no one waits for them."""
        self.ended |= agents
        self.check()

    def check(self) -> None:
        """Complete the barrier if all have arrived."""
        everyone = self.clocks.per_block * self.clocks.blocks
        if self.arrived and len(self.arrived.keys() | self.ended) == everyone:
            self.done.append(_joined(self.arrived.values(), self.clocks.agents))
            self.arrived.clear()

    def arrive(self, warp: int, known: Knowledge) -> None:
        """A warp arrives, and hands on what it knows."""
        self.arrived[warp] = known
        self.waiting[warp] = len(self.done)

    def wait(self, warp: int) -> Wait:
        """The wait of a warp that has arrived."""
        generation = self.waiting.pop(warp)

        def missing() -> str:
            everyone = set(range(self.clocks.per_block * self.clocks.blocks))
            late = sorted(everyone - self.arrived.keys() - self.ended)
            shown = ", ".join(self.clocks.warp_name(w) for w in late[:4])
            return f"the cluster barrier: {len(late)} warps have not arrived, warp {shown} among them"

        return meeting(
            self.clocks, [warp], lambda: len(self.done) > generation, lambda: self.done[generation], missing
        )


class Cluster:
    """A block's view of its cluster; `peers` are the machines by rank, itself included."""

    def __init__(self, machine: Machine, barrier: ClusterBarrier) -> None:
        self.machine, self.clocks, self.barrier = machine, barrier.clocks, barrier
        self.peers: list[Machine] = [machine]
        self.has_left = False
        threads = self.clocks.per_block * self.clocks.blocks << WARP_BITS
        self._touched: Array = numpy.zeros((2, threads), dtype=numpy.int64)  # read, written: epochs of peers
        self._where: dict[int, str] = {}

    def start(self) -> None:
        """A new block begins."""
        self.has_left = False
        if self.machine.rank == 0:
            self.barrier.start()
        self._touched[:] = 0
        self._where.clear()

    def arrive(self, group: Group, *, relaxed: bool) -> None:
        """The active warps arrive at the barrier of the cluster."""
        for warp in group.agents:
            if warp in self.barrier.waiting:
                raise group.fail("arrives at the cluster barrier again before it has waited there")
            known = self.clocks.release(warp, ALL_LANES)
            if relaxed:
                agents = numpy.arange(self.clocks.agents)
                carried = (agents >= self.clocks.first_init) & (agents < self.clocks.first_engine)
                known = known.only(carried)
            self.barrier.arrive(warp, known)
        self.barrier.check()

    def wait(self, group: Group) -> None:
        """The active warps wait for all warps of the cluster."""
        for warp in group.agents:
            if warp not in self.barrier.waiting:
                raise group.fail("waits at the cluster barrier where it has not arrived")
            group.waits.append(self.barrier.wait(warp))

    # --- the memory of peers ---------------------------------------------------------------------------

    def reach(self, group: Group, rank: int, *, by_engine: bool = False, writes: bool = False) -> None:
        """The active lanes touch the shared memory of the block of a rank.  Raises where they may not.

        The block waits at its barrier for what an engine brings there, or leaves with bytes in flight.
        """
        if rank >= len(self.peers):
            raise group.fail(f"reaches for the block of rank {rank} in a cluster of {len(self.peers)}")
        if rank == self.machine.rank:
            return
        peer = self.peers[rank].cluster
        if peer.has_left:
            raise group.fail(f"touches the shared memory of the block of rank {rank}, which has left")
        life = (self.clocks.first_life + rank) << WARP_BITS
        threads = group.active.threads[:, 0]
        for i in (0, len(threads) - 1):
            if not self.clocks.knows(int(threads[i]), life, self.clocks.floor + 1):
                raise group.fail(
                    f"touches the shared memory of the block of rank {rank}, which may not have started: a "
                    "cluster barrier is needed before", i,
                )  # fmt: skip
        if by_engine:
            return
        peer._touched[int(writes), threads] = self.clocks.now[threads >> WARP_BITS]
        for warp in numpy.unique(threads >> WARP_BITS).tolist():
            peer._where[warp] = f"in {group.statement()}"

    def load(self, group: Group, place: Place, ranks: Array, *, nbytes: int) -> Array:
        """Words (lanes, n) that the active lanes read of peers."""
        out = numpy.zeros((group.lanes, nbytes // 4), dtype=numpy.uint32)
        for rank, buffer in self._each(group, place, ranks):
            values, poison = self.machine.load(group, buffer, place.offsets, nbytes)
            if poison is not None and poison[group.active.index].any():
                raise group.fail(
                    f"reads bytes of {buffer.name} in the block of rank {rank} that nobody has written"
                )
            out[group.active.index] = values[group.active.index]
        return out

    def store(self, group: Group, place: Place, ranks: Array, values: Array, *, nbytes: int) -> None:
        """The active lanes write words to peers."""
        for _, buffer in self._each(group, place, ranks, writes=True):
            self.machine.store(group, buffer, place.offsets, nbytes, values, None)

    def store_async(
        self, group: Group, place: Place, bar: BarrierPlace, ranks: Array, values: Array, *, nbytes: int
    ) -> None:
        """The active lanes send words to peers, whose barriers count the bytes."""
        for rank, buffer in self._each(group, place, ranks, by_engine=True):
            lanes, barriers = group.active, self.peers[rank].mbarriers
            at = self.machine.checked(group, buffer, place.offsets, nbytes, "sends")
            (shadow, poison), mine = buffer.watched(), values[lanes.index].copy()
            granules = shadow.granules(at, nbytes)
            stages = numpy.broadcast_to(numpy.asarray(bar.stage), group.lanes)[lanes.index]
            for stage in numpy.unique(stages).tolist():
                phases, which = barriers.of[bar.name][stage], stages == stage
                first = int(which.argmax())
                barriers.usable(group, phases, first, by_engine=True)
                race = shadow.start(granules[which], lanes.threads[which], phases.engine)
                if race is not None:
                    raise refusal(group, buffer, at, "sends to", race, f" in the block of rank {rank}")
                land = partial(
                    _land, buffer, poison, shadow, at[which], granules[which], mine[which], nbytes, phases
                )
                total, what = nbytes * int(which.sum()), f"by {group.statement()}"
                barriers.bring(group, phases, Flight(total, land, what), first)

    def _each(
        self, group: Group, place: Place, ranks: Array, *, by_engine: bool = False, writes: bool = False
    ) -> Iterator[tuple[int, Buffer]]:
        """Each rank that active lanes mean, with the buffer there; only these lanes are active meanwhile."""
        outer = group.active
        for rank in numpy.unique(ranks[outer.index, 0]).tolist():
            group.active = group.narrowed(ranks[:, 0] == rank) or outer
            self.reach(group, rank, by_engine=by_engine, writes=writes)
            yield rank, self.peers[rank].buffers[place.buffer.name]
            group.active = outer

    # --- the end ---------------------------------------------------------------------------------------

    def end(self, group: Group) -> None:
        """A group's warps have ended: the cluster's barrier does not wait for them."""
        warps = len(group.exists.warps)
        self.barrier.end(set(range(group.first_agent, group.first_agent + warps)))

    def leave(self, block: str) -> None:
        """The block ends.  Raises SimulationError unless it knows of every access of a peer."""
        self.has_left = True
        mine = range(self.machine.agents.start, self.machine.agents.stop)
        for wrote, thread in numpy.argwhere(self._touched).tolist():
            epoch = int(self._touched[wrote, thread])
            other = thread if wrote else thread + (self.clocks.first_read << WARP_BITS)
            if not any(self.clocks.warp_knows(w, other, epoch) for w in mine):
                where = self._where[thread >> WARP_BITS]
                raise SimulationError(
                    f"block {block} may leave while {self.clocks.who(thread)} touches its shared memory, "
                    f"{where}: a cluster barrier, or a wait for it, is needed at the end", statement=where,
                )  # fmt: skip


def connected(kernel: Kernel, warps: int, blocks: int) -> list[Machine]:
    """The machines of the blocks of one cluster, or of a cooperative launch, by rank, with their barriers and
    engines, and one clock space."""
    stages = [name for bar in kernel.barriers for name in Mbarriers.stage_names(bar)]
    names, warpgroups = [], -(-warps * WARP // WARPGROUP)
    for rank in range(blocks):
        of = f" of the block of rank {rank}" if blocks > 1 else ""
        names += [f"the copy for {stage}{of}" for stage in stages]
        names += [f"a TMA store of warp {warp}{of}" for warp in range(warps)]
        names += [f"a TMA store of warp {warp}{of}" for warp in range(warps)]  # in global memory
        names += [f"a wgmma of warpgroup {n}{of}" for n in range(warpgroups)]
    clocks = AgentClocks(warps, blocks, names)
    barrier, counters = ClusterBarrier(clocks), dict[int, Counter]()
    machines = [Machine(warps, kernel.shared_bytes, clocks=clocks, rank=rank) for rank in range(blocks)]
    per_block = len(stages) + 2 * warps + warpgroups
    for rank, machine in enumerate(machines):
        first = clocks.first_engine + rank * per_block
        machine.mbarriers = Mbarriers(machine, clocks, kernel.barriers, first)
        machine.tma = TensorCopies(machine, clocks, first + len(stages))
        machine.matrix = MatrixEngine(machine, first + len(stages) + 2 * warps)
        machine.cluster, machine.grid = Cluster(machine, barrier), Grid(machine, clocks, counters)
    for machine in machines:
        machine.mbarriers.peers = [m.mbarriers for m in machines]
        machine.cluster.peers = machines
    return machines


def _land(
    buffer: Buffer, poison: Memory, shadow: Shadow, at: Array, granules: Array, values: Array, nbytes: int,
    phases: Phases,
) -> None:  # fmt: skip
    """Words that st.async brings arrive."""
    buffer.memory.scatter(at, values, nbytes)
    poison.scatter(at, 0, nbytes)
    shadow.finish(granules, phases.engine)
