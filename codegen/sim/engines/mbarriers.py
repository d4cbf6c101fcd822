"""Barriers of some threads of a block: mbarriers with their phases and bytes, and named barriers.

The idea.  An mbarrier counts: arrivals that are missing, bytes that are announced, copies in flight.  A
phase is complete when no arrival is missing and what is in flight is what is announced.  Copies arrive at the
latest moment, when a waiter finds nothing else missing; so a program that relies on an earlier one fails:

    arrive_expect_tx(full, 8192)     0 of 1 arrivals missing, 8192 bytes announced
    tma_load ... full                8192 bytes in flight, which nobody sees
    wait(full, 0)                    they land, phase 0 is complete, the waiter knows who arrived and what

A barrier remembers what those who arrived at its running phase know, and of all complete phases together.
What may not be: a barrier that nobody has initialised, or not visibly; a second initialisation; more arrivals
than a phase takes; more bytes than it announces.  A wait that never ends says what is missing (see Wait).

A wait means one phase, and says only its parity.  Two rules keep it to that phase in every order, whichever
the simulator runs:

    not early    who waits for phase n knows that phase n - 1 is complete; n - 2 has the same parity
    not late     phase n + 1 is completed by somebody who knows that the wait is over; who comes later waits
                 for n + 2

A wait counts as a read of the barrier.  It is over, too, when work started behind it is done.  A warp that
arrives at a named barrier has to know, in the same way, of all that met there before.

Sources: PTX ISA 9.0, 9.7.13.15 (mbarrier: phases, tx-count, expect-tx and complete-tx operations).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy

from layoutalg.codegen.instr import WARP
from layoutalg.codegen.program import Mbarrier
from layoutalg.codegen.sim.engines.knowledge import ALL_LANES, SEEN, AgentClocks, Knowledge
from layoutalg.codegen.sim.hazards import WARP_BITS, Array
from layoutalg.codegen.sim.machine import Group, Machine, Wait, as_bits
from layoutalg.errors import SimulationError


class Flight(NamedTuple):
    """Bytes on their way to a barrier's block, and how they land."""

    nbytes: int
    land: Callable[[], None]
    what: str


@dataclass(slots=True, eq=False)
class Waited:
    """A wait of lanes of a warp for a phase; `epoch` once it is over.

    `behind` are engines, and in which epoch they were first given work behind the wait.  `late` is what is
    raised where the next phase may be complete before.
    """

    phase: int
    warp: int
    lanes: int
    late: SimulationError
    epoch: int = 0
    behind: dict[int, int] = field(default_factory=dict)

    @property
    def threads(self) -> tuple[int, int]:
        """The first and the last of its lanes."""
        first = (self.lanes & -self.lanes).bit_length() - 1
        return WARP * self.warp + first, WARP * self.warp + self.lanes.bit_length() - 1

    def over_in(self, order: Knowledge, first_read: int) -> bool:
        """Whether it is known to be over: the lanes have read the barrier, or what they started is done."""
        if not self.epoch:
            return False
        if any(order.epochs[SEEN, engine] >= epoch for engine, epoch in self.behind.items()):
            return True
        return all(order.has(thread + (first_read << WARP_BITS), self.epoch) for thread in self.threads)


@dataclass(slots=True, eq=False)
class Phases:
    """An mbarrier: `phase` counts the phases that are complete.

    `gathering` is what those know who arrived at the running phase, `brought` those who started its copies;
    `ends` are the engine's epochs of complete phases, `waits` are for the newest of them and the running one.
    """

    name: str
    count: int
    engine: int
    gathering: Knowledge
    brought: Knowledge
    done: Knowledge
    phase: int = 0
    missing: int = 0
    announced: int = 0
    flights: list[Flight] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    waits: list[Waited] = field(default_factory=list)
    init_thread: int = -1
    init_epoch: int = 0
    init_fenced: bool = False

    @property
    def in_flight(self) -> int:
        """Bytes that copies bring in the running phase."""
        return sum(f.nbytes for f in self.flights)

    def needs(self) -> str:
        """Say what the running phase lacks."""
        parts = []
        if self.missing:
            parts.append(f"{self.missing} of {self.count} arrivals")
        if self.announced > self.in_flight:
            parts.append(f"{self.announced - self.in_flight} of {self.announced} bytes")
        return f"phase {self.phase} of {self.name} lacks {' and '.join(parts) or 'nothing'}"


class BarrierPlace(NamedTuple):
    """An operand: which barrier of an array each lane means, one for all or an array (lanes,)."""

    name: str
    stage: Any


class Mbarriers:
    """The barriers of one block; `peers` are those of the cluster by rank, itself included."""

    def __init__(
        self, machine: Machine, clocks: AgentClocks, declared: tuple[Mbarrier, ...], first_engine: int
    ) -> None:
        self.machine, self.clocks, self.declared, self.first_engine = machine, clocks, declared, first_engine
        self.peers: list[Mbarriers] = [self]
        self.start()

    def start(self) -> None:
        """A new block begins: no barrier is initialised."""
        self._named: dict[int, _Named] = {}
        self.of: dict[str, list[Phases]] = {}
        engines, agents, nothing = count(self.first_engine), self.clocks.agents, Knowledge.nothing
        for bar in self.declared:
            self.of[bar.name] = [
                Phases(name, bar.count, next(engines), nothing(agents), nothing(agents), nothing(agents))
                for name in self.stage_names(bar)
            ]

    @staticmethod
    def stage_names(bar: Mbarrier) -> list[str]:
        """The name of each mbarrier of an array."""
        return [f"{bar.name}[{n}]" for n in range(bar.stages)] if bar.stages > 1 else [bar.name]

    def all(self) -> Iterator[Phases]:
        """Every mbarrier of the block."""
        for stages in self.of.values():
            yield from stages

    # --- what effects call -----------------------------------------------------------------------------

    def init(self, group: Group, place: BarrierPlace, count: int) -> None:
        """Phase 0 of a barrier begins."""
        for bar, _, lanes, i in self._meant(group, place):
            if bar.init_thread >= 0:
                raise group.fail(
                    f"initialises {bar.name} again, which {self.clocks.who(bar.init_thread)} has "
                    "initialised: its memory is in use", i,
                )  # fmt: skip
            if lanes & (lanes - 1):
                raise group.fail(f"is one of several lanes that initialise {bar.name}; one thread does", i)
            thread = int(group.active.threads[i, 0])
            bar.init_thread, bar.init_epoch = thread, int(self.clocks.now[thread >> WARP_BITS])
            bar.count = bar.missing = count

    def fence_proxy(self, group: Group, *, cta: bool = False) -> None:
        """Make what the active lanes know and have written visible to the asynchronous proxy; with `cta`
        what threads of the block wrote to its own shared memory."""
        for w, lanes in enumerate(group.active.mask.reshape(-1, WARP)):
            if lanes.any():
                self.clocks.fence_proxy(group.first_agent + w, as_bits(lanes), cta=cta)

    def fence_inits(self, group: Group) -> None:
        """Initialisations by the active lanes become visible to engines and, with arrivals, to peers."""
        threads = set(group.active.threads[:, 0].tolist())
        for bar in self.all():
            if bar.init_thread in threads:
                bar.init_fenced = True
                warp = bar.init_thread >> WARP_BITS
                column = self.clocks.first_init + warp
                self.clocks.seen[warp, column] = max(self.clocks.seen[warp, column], bar.init_epoch)

    def arrive(self, group: Group, place: BarrierPlace, nbytes: Array | None = None) -> None:
        """The active lanes arrive, and each announces `nbytes` (lanes, 1)."""
        for bar, warp, lanes, i in self._meant(group, place):
            self.usable(group, bar, i)
            if nbytes is not None:
                first = (warp - group.first_agent) * WARP
                chosen = [first + lane for lane in range(WARP) if lanes >> lane & 1]
                bar.announced += int(nbytes[chosen, 0].sum())
            self._arrived(group, bar, warp, lanes, i)

    def arrive_remote(self, group: Group, place: BarrierPlace, ranks: Array, *, release: bool) -> None:
        """The active lanes arrive at the barriers of the blocks of these ranks.

        What they wrote is known there with `release` alone, and in their own block.
        """
        for rank in numpy.unique(ranks[group.active.index, 0]).tolist():
            inner = group.narrowed(ranks[:, 0] == rank)
            if inner is None:
                continue
            outer, group.active = group.active, inner
            self.machine.cluster.reach(group, rank)
            for bar, warp, lanes, i in self.peers[rank]._meant(group, place):
                self.usable(group, bar, i)
                silent = not release and rank != self.machine.rank
                self._arrived(group, bar, warp, lanes, i, silent=silent)
            group.active = outer

    def wait(self, group: Group, place: BarrierPlace, parity: Array, *, cluster: bool) -> None:
        """The active lanes wait until the phase of a parity is complete.

        What threads of other blocks have written is known from then on with `cluster` alone.
        """
        for bar, warp, lanes, i in self._meant(group, place):
            self.usable(group, bar, i)
            first = (warp - group.first_agent) * WARP
            parities = {int(parity[first + lane, 0]) for lane in range(WARP) if lanes >> lane & 1}
            if parities - {0, 1}:
                raise group.fail(f"waits for parity {max(parities)} of {bar.name}: 0 and 1 are there", i)
            for bit in sorted(parities):
                group.waits.append(self._wait(group, bar, bit, warp, lanes, i, cluster=cluster))

    def passed(self, group: Group) -> bool:
        """Whether all that a group waits for has happened; from then on it knows of it."""
        for wait in [wait for wait in group.waits if wait.asked()]:
            wait.passed()
            group.waits.remove(wait)
        return not group.waits

    # --- phases ----------------------------------------------------------------------------------------

    def usable(self, group: Group, bar: Phases, i: int, *, by_engine: bool = False) -> None:
        """Raise unless active lane i sees that a barrier is initialised, and with `by_engine` engines do."""
        thread, who = int(group.active.threads[i, 0]), bar.init_thread
        if who < 0:
            raise group.fail(f"uses {bar.name}, which nobody has initialised", i)
        column = (self.clocks.first_init + (who >> WARP_BITS)) << WARP_BITS
        fenced = bar.init_fenced and self.clocks.knows(thread, column, bar.init_epoch)
        if thread != who and not fenced and not self.clocks.knows(thread, who, bar.init_epoch):
            raise group.fail(
                f"uses {bar.name}, which {self.clocks.who(who)} has initialised, with no barrier in between",
                i,
            )
        if by_engine and not bar.init_fenced and not self.clocks.visible(thread, who, bar.init_epoch):
            raise group.fail(
                f"starts a copy that completes at {bar.name}, whose initialisation the asynchronous proxy "
                f"may not see: {self.clocks.who(who)} needs a fence_barrier_init behind it", i,
            )  # fmt: skip

    def bring(self, group: Group, bar: Phases, flight: Flight, i: int) -> None:
        """Bytes are on their way to a barrier, started by active lane i."""
        warp, lane = divmod(int(group.active.threads[i, 0]), WARP)
        bar.flights.append(flight)
        bar.brought.join(self.clocks.release(warp, 1 << lane))
        self.work_started(warp, 1 << lane, bar.engine)
        self._check_bytes(group, bar, i)

    def _arrived(
        self, group: Group, bar: Phases, warp: int, lanes: int, i: int, *, silent: bool = False
    ) -> None:
        arrivals = lanes.bit_count()
        if arrivals > bar.missing:
            raise group.fail(
                f"and {arrivals - 1} more lanes of its warp arrive at {bar.name}, whose phase {bar.phase} "
                f"takes {bar.count} arrivals, {bar.missing} of them missing" if arrivals > 1 else
                f"arrives at {bar.name}, whose phase {bar.phase} has all of its {bar.count} arrivals", i,
            )  # fmt: skip
        known = self.clocks.release(warp, lanes)
        bar.gathering.join(known.only(self.clocks.without_writes) if silent else known)
        bar.missing -= arrivals
        self._check_bytes(group, bar, i)
        if not bar.missing and not bar.announced and not bar.flights:
            self._complete(bar)

    def _check_bytes(self, group: Group, bar: Phases, i: int) -> None:
        if not bar.missing and bar.in_flight > bar.announced:
            raise group.fail(
                f"brings phase {bar.phase} of {bar.name} to {bar.in_flight} bytes, {bar.announced} were "
                "announced by expect_tx: a copy counts its whole box, also out of bounds", i,
            )  # fmt: skip

    def _complete(self, bar: Phases) -> None:
        self._check_late(bar)
        for flight in bar.flights:
            flight.land()
        bar.done.join(bar.gathering)
        bar.ends.append(int(self.clocks.now[bar.engine]))
        bar.done.join(self.clocks.engine_done(bar.engine))
        bar.gathering, bar.brought = (Knowledge.nothing(self.clocks.agents) for _ in range(2))
        bar.flights.clear()
        bar.phase, bar.missing, bar.announced = bar.phase + 1, bar.count, 0

    def _check_late(self, bar: Phases) -> None:
        """Raise unless the running phase is completed by somebody who knows that waits for the one before are
        over."""
        order = bar.gathering
        if bar.flights:
            order = order.copy()
            order.join(bar.brought)
        for wait in bar.waits:  # who waits for the running phase itself cannot be late for it
            if wait.phase < bar.phase and not wait.over_in(order, self.clocks.first_read):
                raise wait.late
        bar.waits = [wait for wait in bar.waits if wait.phase == bar.phase]

    def work_started(self, warp: int, lanes: int, engine: int) -> None:
        """Lanes have given work to an engine, behind all that they have waited for."""
        for barriers in self.peers:
            for bar in barriers.all():
                for wait in bar.waits:
                    if wait.warp == warp and wait.epoch and not wait.lanes & ~lanes:
                        wait.behind.setdefault(engine, int(self.clocks.now[engine]))

    def _wait(
        self, group: Group, bar: Phases, parity: int, warp: int, lanes: int, i: int, *, cluster: bool
    ) -> Wait:
        meant = bar.phase - (bar.phase & 1 != parity)
        phase = f"phase {meant}" if meant >= 0 else "the phase before the first"
        # stated now, while the statement that waits is known: a later phase is found complete elsewhere
        late = group.fail(
            f"may come too late for {phase} of {bar.name}: nothing keeps phase {meant + 1} from being "
            f"complete before, and then it waits for phase {meant + 2}", i,
        )  # fmt: skip
        wait = Waited(meant, warp, lanes, late)
        bar.waits.append(wait)

        def happened() -> bool:
            # copies land only here, where nothing else is missing: the latest moment that the program allows
            if bar.phase & 1 == parity and not bar.missing and bar.in_flight == bar.announced:
                self._complete(bar)
            return bar.phase & 1 != parity

        def passed() -> None:
            if meant > 0 and not all(
                self.clocks.knows(thread, bar.engine << WARP_BITS, bar.ends[meant - 1])
                for thread in wait.threads
            ):
                raise group.fail(
                    f"waits for phase {meant} of {bar.name}, and may go on before phase {meant - 1} is "
                    "complete, of which it does not know: phases two apart have the same parity", i,
                )  # fmt: skip
            wait.epoch = int(self.clocks.now[warp])
            known = bar.done if cluster else bar.done.only(self.clocks.not_of_peers[self.machine.rank])
            self.clocks.acquire(warp, lanes, known)

        def missing() -> str:
            return f"parity {parity} of {bar.name}: {bar.needs()}"

        return Wait(happened, passed, missing)

    def _meant(self, group: Group, place: BarrierPlace) -> Iterator[tuple[Phases, int, int, int]]:
        """(barrier, warp's agent, lanes as bits, first active lane) for every barrier and warp."""
        stages, bars = numpy.broadcast_to(numpy.asarray(place.stage), group.lanes), self.of[place.name]
        mask = group.active.mask
        for stage in numpy.unique(stages[mask]).tolist():
            if stage >= len(bars):
                raise group.fail(f"means stage {stage} of {place.name}, which has {len(bars)}")
            chosen = mask & (stages == stage)
            for w, lanes in enumerate(chosen.reshape(-1, WARP)):
                if lanes.any():
                    first = w * WARP + int(lanes.argmax())
                    i = int(numpy.count_nonzero(mask[:first]))
                    yield bars[stage], group.first_agent + w, as_bits(lanes), i

    # --- named barriers --------------------------------------------------------------------------------

    def sync_named(self, group: Group, number: int, threads: int) -> None:
        """The active warps arrive at a named barrier and wait for the others."""
        barrier, generation = self._arrive_named(group, number, threads)
        group.waits.append(
            meeting(
                self.clocks, group.agents, lambda: len(barrier.done) > generation,
                lambda: barrier.done[generation],
                lambda: f"named barrier {number}: {barrier.arrived} of {threads} threads have arrived",
            )
        )  # fmt: skip

    def arrive_named(self, group: Group, number: int, threads: int) -> None:
        """The active warps arrive at a named barrier and go on."""
        self._arrive_named(group, number, threads)

    def _arrive_named(self, group: Group, number: int, threads: int) -> tuple[_Named, int]:
        """The barrier, and the number of the meeting that the active warps have arrived at."""
        nothing = Knowledge.nothing(self.clocks.agents)
        barrier = self._named.setdefault(number, _Named(threads, nothing))
        if barrier.arrived == 0:
            barrier.threads = threads
        if threads != barrier.threads:
            raise group.fail(
                f"arrives at named barrier {number} of {threads} threads; others of {barrier.threads}"
            )
        warps, generation = group.agents, len(barrier.done)
        for warp in warps:
            self._check_meeting(group, number, barrier, warp)
            barrier.came[warp] = int(self.clocks.now[warp])
            barrier.gathering.join(self.clocks.release(warp, ALL_LANES))
        barrier.arrived += WARP * len(warps)
        if barrier.arrived > threads:
            raise group.fail(
                f"arrives at named barrier {number}, which then has {barrier.arrived} of {threads} threads"
            )
        if barrier.arrived == threads:
            barrier.done.append(barrier.gathering)
            barrier.gathering, barrier.arrived = nothing.copy(), 0
            barrier.before, barrier.came = barrier.came, {}
        return barrier, generation

    def _check_meeting(self, group: Group, number: int, barrier: _Named, warp: int) -> None:
        """Raise unless a warp that arrives knows of all arrivals of the generation before: it may have been
        one of them otherwise."""
        for other, epoch in barrier.before.items():
            if other != warp and not self.clocks.warp_knows(warp, other << WARP_BITS, epoch):
                i = int(numpy.count_nonzero(group.active.mask[: WARP * (warp - group.first_agent)]))
                raise group.fail(
                    f"may meet other threads at named barrier {number}: warp {self.clocks.warp_name(other)} "
                    "met some there, and nothing keeps this one from being among them", i,
                )  # fmt: skip

    # --- the end ---------------------------------------------------------------------------------------

    def finish(self, block: str) -> None:
        """The block ends.  Raises SimulationError for bytes that are in flight."""
        for bar in self.all():
            if bar.flights:
                flight = bar.flights[0]
                raise SimulationError(
                    f"block {block} exits while {bar.in_flight} bytes are in flight: nobody has waited for "
                    f"phase {bar.phase} of {bar.name}, {flight.what}", statement=flight.what,
                )  # fmt: skip


def meeting(
    clocks: AgentClocks, warps: Iterable[int], happened: Callable[[], bool], known: Callable[[], Knowledge],
    missing: Callable[[], str],
) -> Wait:  # fmt: skip
    """A wait of whole warps for others, whose lanes then know what is `known` there."""

    def passed() -> None:
        for warp in warps:
            clocks.acquire(warp, ALL_LANES, known())
            clocks.sync_warps(numpy.array([warp]))

    return Wait(happened, passed, missing)


@dataclass(slots=True, eq=False)
class _Named:
    """A named barrier: what those knew who arrived, `done` each time that it was complete, and which warps
    `came` in which epochs, this time and the time `before`."""

    threads: int
    gathering: Knowledge
    arrived: int = 0
    done: list[Knowledge] = field(default_factory=list)
    came: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
