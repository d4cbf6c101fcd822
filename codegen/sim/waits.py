"""A timeline of waits: a kernel whose warps have roles, as a row per warp and a column per turn.

The idea.  Each warp of block 0 is followed by number alone, as `main_loops` follows a thread: nothing is
computed.  What it does with mbarriers, copies by TMA and wgmma is one event each.  Then the events of all
warps are played against each other: an event takes a turn, a wait the turns until its phase has completed, by
its count of arrivals and the copies that were announced to it:

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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from layoutalg.codegen.expr import evaluate
from layoutalg.codegen.program import BarrierRef, Do, For, Kernel, Let, Roles, Stmt
from layoutalg.codegen.sim.main_loops import Env, block_zero, followed
from layoutalg.draw import Cell, Panel, Picture
from layoutalg.errors import UnsupportedError
from layoutalg.limits import Most

COPY_TURNS, MMA_TURNS, WARP = 6, 4, 32

Place: TypeAlias = tuple[str, int]
"""A barrier by name and stage."""


@dataclass(frozen=True, slots=True)
class Event:
    """An act of a warp in a turn: `lanes` arrive, and with bytes to expect announce `copies`."""

    what: Literal["wait", "arrive", "copy", "mma", "commit", "mma wait"]
    place: Place | None = None
    number: int = 0
    lanes: int = 1
    copies: int = 0


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
    """The turns of the warps of block 0, for values of the kernel's parameters.

    Raises UnsupportedError for a kernel without roles, of a cluster of several blocks, or whose waits never
    end, ShapeError for values that the kernel is not right for, ResourceError past
    Most.FOLLOWED.
    """
    if not any(isinstance(s, Roles) for s in kernel.body):
        raise UnsupportedError(f"warps of {kernel.name} have no roles: `timeline` follows its thread 0")
    if any(n != 1 for n in kernel.cluster):
        raise UnsupportedError(f"{kernel.name} runs in clusters: arrivals of other blocks are not followed")
    env, seen = block_zero(kernel, params), [0]
    names, lists = [], []
    lets: list[Stmt] = []
    for s in kernel.body:
        if isinstance(s, Let):
            lets.append(s)
        for role in s.parts if isinstance(s, Roles) else ():
            for warp in range(role.warps):
                lanes = [
                    {**env, kernel.tid: role.first_thread + WARP * warp + n, role.thread: WARP * warp + n}
                    for n in range(WARP)
                ]
                met = followed((*lets, *role.body), lanes, seen)
                events = _announced([event for s, some in met for event in _event(s, some)])
                if events:
                    names.append(f"{role.name} {warp}")
                    lists.append(events)
    counts = {barrier.name: barrier.count for barrier in kernel.barriers}
    return _merged(kernel.name, names, _played(kernel.name, lists, counts))


def _event(s: Do | For, lanes: list[Env]) -> Iterator[Event]:
    """The event of an instruction; none for those that concern neither barriers, copies nor products."""
    if isinstance(s, For):
        return
    name = s.instr.name
    bar = next((a for a in s.args if isinstance(a, BarrierRef)), None)
    stage = None if bar is None else (bar.barrier.name, _value(bar.stage, lanes[0]))
    if name.startswith("mbarrier_wait"):
        yield Event("wait", stage, _value(s.args[1], lanes[0]))
    elif name.startswith("mbarrier_arrive"):
        yield Event("arrive", stage, lanes=len(lanes), copies=-1 if "expect" in name else 0)
    elif name.startswith("tma_load"):
        yield Event("copy", stage)
    elif name.startswith("wgmma_m"):
        yield Event("mma")
    elif name == "wgmma_commit":
        yield Event("commit")
    elif name == "wgmma_wait":
        yield Event("mma wait", number=_value(s.args[0], lanes[0]))


def _value(what: Any, env: Env) -> int:
    """A number of the program, written out or an expression."""
    return what if isinstance(what, int) else int(evaluate(what, env))


def _announced(events: list[Event]) -> list[Event]:
    """The events with products in a row as one, and with the copies that each announcement is about."""
    joined: list[Event] = []
    for n, event in enumerate(events):
        if event.what == "mma" and joined and joined[-1].what == "mma":
            continue
        if event.copies:
            later = events[n + 1 :]
            until = next((i for i, e in enumerate(later) if e.copies and e.place == event.place), len(later))
            copies = sum(e.what == "copy" and e.place == event.place for e in later[:until])
            event = Event(event.what, event.place, lanes=event.lanes, copies=copies)
        joined.append(event)
    return joined


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
    landings: list[tuple[int, Place]] = []
    turn = -1
    while True:
        turn += 1
        Most.FOLLOWED.guard(turn, "turns of a timeline")
        for at, bar in [landing for landing in landings if landing[0] == turn]:
            landings.remove((at, bar))
            phases[bar].due -= 1
        for bar, phase in phases.items():
            if phase.arrived >= counts[bar[0]] and phase.due <= 0:
                phase.completed += 1
                phase.arrived -= counts[bar[0]]
        working = [warp for warp in warps if warp.next < len(warp.events)]
        if not working:
            return [tuple(warp.turns) for warp in warps]
        before = [warp.next for warp in working]
        done = [(warp, _step(warp, turn, phases)) for warp in working]
        for warp, event in done:
            if event is None:
                continue
            warp.next += 1
            if event.place is not None:
                phase = phases.setdefault(event.place, _Phase())
                if event.what == "arrive":
                    phase.arrived += event.lanes
                    phase.due += event.copies
                elif event.what == "copy":
                    landings.append((turn + COPY_TURNS, event.place))
        moved = landings or before != [warp.next for warp in working]
        if not moved and all(end <= turn for warp in warps for end in warp.ends):
            stuck = ", ".join(dict.fromkeys(warp.turns[-1].text for warp in working))
            raise UnsupportedError(f"warps of {kernel} wait for ever: {stuck}")


def _step(warp: _Warp, turn: int, phases: Mapping[Place, _Phase]) -> Event | None:
    """Note what the warp does in a turn; its event where it goes on, None where it waits."""
    event = warp.events[warp.next]
    name = "" if event.place is None else f"{event.place[0]}{event.place[1]}"
    stage = warp.stage if event.place is None else event.place[1]
    match event.what:
        case "wait":
            completed = phases[event.place].completed if event.place and event.place in phases else 0
            passed = (completed + 1) % 2 == event.number
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
            warp.turns.append(Turn(f"copy{event.place[1] if event.place else ''}", stage))
        case _:
            warp.turns.append(Turn(f"{name}+", stage))
    return event


def _merged(kernel: str, names: list[str], rows: list[tuple[Turn, ...]]) -> RoleTimeline:
    """Neighbouring warps that do the same in each turn as one row, with what each row has waited for."""
    merged = []
    for turns, same in groupby(zip(names, rows, strict=True), lambda pair: pair[1]):
        warps = [name for name, _ in same]
        last = f"-{warps[-1].rpartition(' ')[2]}" if len(warps) > 1 else ""
        merged.append((warps[0] + last, turns))
    waited: dict[tuple[str, str], int] = {}
    for name, turns in merged:
        for turn in turns:
            if turn.waits:
                barrier = turn.text.rstrip("?").rstrip("0123456789")
                waited[name, barrier] = waited.get((name, barrier), 0) + 1
    return RoleTimeline(kernel, tuple(merged), MappingProxyType(waited))
