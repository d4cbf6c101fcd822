"""A timeline of waits: a kernel whose warps have roles, as a row per warp and a column per turn.

The idea.  Each warp of the first block, or of all blocks of its cluster, is followed by number alone, as
`main_loops` follows a thread: nothing is computed.  What it does with mbarriers, copies by TMA and wgmma is
one event each.  Then the events of all warps are played against each other: an event takes a turn, a wait the
turns until its phase has completed, by its count of arrivals and the bytes that were announced to it.  A copy
to several blocks brings its bytes to the barrier of each, and a thread may arrive at a peer's:

    producer     empty0? full0+ copy0 copy0 empty1? ...      ?  waits for a phase of barrier and stage
    consumer     full0? full0? full0? full0? mma ...         +  arrives there

Notes.  The order of events, and what each wait is for, are those of the program.  How many turns a copy or a
product takes is not known here: COPY_TURNS and MMA_TURNS are assumed, so that the length of a wait shows
which side is ahead, and not how long it takes.

>>> from layoutalg.kernels.registry import find_family, find_steps
>>> family = find_family("gemm-sm90")
>>> one = family.launches(family.problem(256), find_steps("gemm-sm90")["4 roles"], "sm_90")
>>> found = role_timeline(one.kernels[0], {**dict(one.scalars), "m": 128, "n": 128, "k": 128, "alpha": 1})
>>> [name for name, _ in found.rows][:2], found.rows[0][1][0].text
(['producer 0', 'consumer 0-3'], 'empty0')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, groupby, product
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy

from layoutalg.codegen.costs import followed
from layoutalg.codegen.expr import Var, evaluate
from layoutalg.codegen.instr import WARP
from layoutalg.codegen.program import BarrierRef, Do, Kernel, Let, Roles, Stmt
from layoutalg.codegen.sim.main_loops import FOLLOWED, block_zero
from layoutalg.draw import Cell, Panel, Picture
from layoutalg.errors import UnsupportedError
from layoutalg.limits import Most

COPY_TURNS = 6
"""Turns that a copy is assumed to take until its bytes land: chosen to be seen, not measured."""

MMA_TURNS = 4
"""Turns of a group of products behind the one before it, likewise."""


class Place(NamedTuple):
    """A stage of a barrier, of the block of a rank."""

    rank: int
    barrier: str
    stage: int


@dataclass(frozen=True, slots=True)
class Event:
    """An act of a warp in a turn: `lanes` arrive, and announce `nbytes`, or a copy brings as many, to places;
    a wait is for the parity `number`, that for products until so many are left."""

    what: Literal["wait", "arrive", "copy", "mma", "commit", "mma wait"]
    places: tuple[Place, ...] = ()
    number: int = 0
    lanes: int = 1
    nbytes: int = 0

    @property
    def barrier(self) -> str:
        """The barrier and its stage."""
        return "".join(f"{place.barrier}{place.stage}" for place in self.places[:1])


@dataclass(frozen=True, slots=True)
class Turn:
    """The entry of a row at a turn; `waits` when its warp goes on later."""

    text: str
    stage: int | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class RoleTimeline:
    """A row of turns per warp that differs from its neighbours, and the turns waited by warp and barrier."""

    kernel: str
    rows: tuple[tuple[str, tuple[Turn, ...]], ...]
    waited: Mapping[tuple[str, str], int]

    def picture(self) -> Picture:
        """A row per warp and a column per turn, coloured by stage; below, which warp has waited for what."""
        count = max(len(turns) for _, turns in self.rows)

        def cell(turns: tuple[Turn, ...], n: int) -> Cell:
            if n >= len(turns):
                return Cell()
            turn = turns[n]
            return Cell(turn.text, None if turn.stage is None else turn.stage % 8 * 4, marked=turn.waits)

        names = tuple(name for name, _ in self.rows)
        grid = tuple(tuple(cell(turns, n) for n in range(count)) for _, turns in self.rows)
        barriers = tuple(dict.fromkeys(barrier for _, barrier in self.waited))
        totals = tuple(tuple(Cell(str(self.waited.get((name, b), 0))) for b in barriers) for name in names)
        panels = (
            Panel("what each warp does, turn by turn", names, tuple(map(str, range(count))), grid),
            Panel("turns waited for", names, barriers, totals),
        )
        notes = (
            "? waits for that barrier and stage, + arrives there, copy is a load by TMA to that stage; the "
            "colour is the stage mod 8",
            f"the order of events is the program's; a copy of {COPY_TURNS} turns and a product of "
            f"{MMA_TURNS} are assumed",
        )
        return Picture(f"who waits for what in {self.kernel}", panels, notes, across=1)


def role_timeline(kernel: Kernel, params: Mapping[str, int]) -> RoleTimeline:
    """The turns of the warps of block 0, and of its cluster, for values of the kernel's parameters.

    Raises UnsupportedError for a kernel without roles or whose waits never end, ShapeError for values that
    the kernel is not right for, ResourceError past Most.FOLLOWED.
    """
    if not any(isinstance(s, Roles) for s in kernel.body):
        raise UnsupportedError(f"warps of {kernel.name} have no roles: `timeline` follows its thread 0")
    zero, seen = block_zero(kernel, params), count(1)
    rows, lists = [], []
    # ranks go along x first
    for rank, place in enumerate(product(*map(range, reversed(kernel.cluster)))):
        env = zero | dict(zip(reversed(kernel.block_vars), place, strict=True))
        lets: list[Stmt] = []
        for s in kernel.body:
            if isinstance(s, Let):
                lets.append(s)
            for role in s.parts if isinstance(s, Roles) else ():
                for warp in range(role.warps):
                    mine = WARP * warp + numpy.arange(WARP)
                    own = {**env, kernel.tid: role.first_thread + mine, role.thread: mine}
                    events: list[Event] = []
                    every = numpy.ones(WARP, dtype=bool)
                    for s, now, active in followed(kernel.tid, (*lets, *role.body), own, every):
                        Most.FOLLOWED.guard(next(seen), FOLLOWED)
                        events += _event(s, now, active, rank) if isinstance(s, Do) else ()
                    if events := _joined(events):
                        rows.append((role.name if rank == 0 else f"block {rank} {role.name}", warp))
                        lists.append(events)
    counts = {barrier.name: barrier.count for barrier in kernel.barriers}
    return _merged(kernel.name, rows, _played(kernel.name, lists, counts))


def _event(s: Do, env: Mapping[Var, Any], active: Any, rank: int) -> Iterator[Event]:
    """The events of an instruction in the block of a rank; none for those that concern neither barriers,
    copies nor products."""
    operands = {o.name: arg for o, arg in s.pairs}

    def values(what: Any) -> list[int]:
        """A number of the program, written out or an expression, in each lane."""
        at = what if isinstance(what, int) else evaluate(what, env)
        of_lanes: list[int] = numpy.broadcast_to(at, active.shape)[active].tolist()
        return of_lanes

    places: tuple[Place, ...] = ()
    if isinstance(bar := operands.get("bar"), BarrierRef):
        places = (Place(rank, bar.barrier.name, values(bar.stage)[0]),)
    match s.instr.method:
        case "mbarriers.wait":
            yield Event("wait", places, values(operands["parity"])[0])
        case "mbarriers.arrive_remote" | "cluster.store_async" as method:
            peers = Counter(values(operands["rank"]))
            for sent in set(peers.values()):
                there = tuple(places[0]._replace(rank=peer) for peer, n in peers.items() if n == sent)
                if method == "cluster.store_async":
                    yield Event("copy", there, nbytes=sent * s.instr.operands[0].bytes)
                else:
                    yield Event("arrive", there, lanes=sent)
        case "mbarriers.arrive":
            lanes, nbytes = int(active.sum()), values(operands.get("nbytes", 0))[0]
            yield Event("arrive", places, lanes=lanes, nbytes=nbytes)
        case "tma.load":
            mask = values(operands.get("blocks", 1 << rank))[0]
            ranks = [peer for peer in range(mask.bit_length()) if mask >> peer & 1]
            there = tuple(places[0]._replace(rank=peer) for peer in ranks)
            yield Event("copy", there, nbytes=s.tensor_map.box_bytes if s.tensor_map else 0)
        case "matrix.commit":
            yield Event("commit")
        case "matrix.wait":
            yield Event("mma wait", number=values(operands["newest"])[0])
        case _ if s.instr.name.startswith("wgmma_m"):
            yield Event("mma")


def _joined(events: list[Event]) -> list[Event]:
    """The events, products in a row as one."""
    pairs = groupby(events, lambda event: event.what == "mma")
    return [event for products, same in pairs for event in ([next(same)] if products else same)]


@dataclass(slots=True)
class _Phase:
    """A barrier's stage: phases that have completed, and what the current one has seen."""

    completed: int = 0
    arrived: int = 0
    due: int = 0


@dataclass(slots=True)
class _Warp:
    """A warp's events, the next of them, its turns so far, and when its committed products end."""

    events: list[Event]
    next: int = 0
    turns: list[Turn] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    stage: int | None = None


def _played(kernel: str, lists: list[list[Event]], counts: Mapping[str, int]) -> list[tuple[Turn, ...]]:
    """The events of all warps, turn by turn; what happens in a turn is seen from the next one on."""
    warps = [_Warp(events) for events in lists]
    phases: dict[Place, _Phase] = {}
    landings: list[tuple[int, Place, int]] = []
    turn = -1
    while True:
        turn += 1
        Most.FOLLOWED.guard(turn, "turns of a timeline")
        # phases move before warps do, so that the order of warps in a turn shows nowhere
        for landing in [landing for landing in landings if landing[0] == turn]:
            landings.remove(landing)
            phases[landing[1]].due -= landing[2]
        for bar, phase in phases.items():
            if phase.arrived >= counts[bar.barrier] and phase.due <= 0:
                phase.completed += 1
                phase.arrived -= counts[bar.barrier]
        working = [warp for warp in warps if warp.next < len(warp.events)]
        if not working:
            return [tuple(warp.turns) for warp in warps]
        before = [warp.next for warp in working]
        done = [(warp, _step(warp, turn, phases)) for warp in working]
        for warp, event in done:
            if event is None:
                continue
            warp.next += 1
            for place in event.places:
                phase = phases.setdefault(place, _Phase())
                if event.what == "arrive":
                    phase.arrived += event.lanes
                    phase.due += event.nbytes
                elif event.what == "copy":  # of a peer's it may land before the bytes are announced
                    landings.append((turn + COPY_TURNS, place, event.nbytes))
        moved = landings or before != [warp.next for warp in working]
        if not moved and all(end <= turn for warp in warps for end in warp.ends):
            stuck = ", ".join(dict.fromkeys(warp.turns[-1].text for warp in working))
            raise UnsupportedError(f"warps of {kernel} wait for ever: {stuck}")


def _step(warp: _Warp, turn: int, phases: Mapping[Place, _Phase]) -> Event | None:
    """Note what the warp does in a turn; its event where it goes on, None where it waits."""
    event = warp.events[warp.next]
    name, stage = event.barrier, event.places[0].stage if event.places else warp.stage
    match event.what:
        case "wait":
            phase = phases.get(event.places[0], _Phase())
            passed = (phase.completed + 1) % 2 == event.number
            warp.turns.append(Turn(name if passed else f"{name}?", stage, waits=not passed))
            warp.stage = stage if passed else warp.stage
            return event if passed else None
        case "mma wait":
            running = sum(end > turn for end in warp.ends)
            passed = running <= event.number
            warp.turns.append(Turn("done" if passed else "mma?", stage, waits=not passed))
            return event if passed else None
        case "commit":
            warp.ends.append(max([turn, *warp.ends]) + MMA_TURNS)
            warp.turns.append(Turn("commit", stage))
        case "mma":
            warp.turns.append(Turn("mma", stage))
        case "copy":
            warp.turns.append(Turn(f"copy{stage}", stage))
        case _:
            warp.turns.append(Turn(f"{name}+", stage))
    return event


def _merged(kernel: str, names: list[tuple[str, int]], rows: list[tuple[Turn, ...]]) -> RoleTimeline:
    """Neighbouring warps of a role that do the same in each turn as one row, with what each row has waited
    for."""
    merged = []
    pairs = zip(names, rows, strict=True)
    for (role, turns), same in groupby(pairs, lambda pair: (pair[0][0], pair[1])):
        warps = [warp for (_, warp), _ in same]
        last = f"-{warps[-1]}" if len(warps) > 1 else ""
        merged.append((f"{role} {warps[0]}{last}", turns))
    waited: Counter[tuple[str, str]] = Counter()
    for name, turns in merged:
        waited.update((name, turn.text.rstrip("?").rstrip("0123456789")) for turn in turns if turn.waits)
    return RoleTimeline(kernel, tuple(merged), MappingProxyType(dict(waited)))
