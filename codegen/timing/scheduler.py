"""A scheduler and its warps, event by event: the definition of how long a loop's turn takes.

The idea.  Every warp runs the same loop.  In each cycle the scheduler issues one instruction of one warp: of
those that may, the one whose last was longest ago.  A warp may issue when

    its last instruction's stall has passed         else it is in the state   wait
    the scoreboards it waits for are released                                 short or long scoreboard
    all warps of its block have reached its barrier                           barrier
    the pipe takes it: free, or a place in lsu's queue                        math pipe, mio or lg throttle
    no other warp is issued in that cycle                                     not selected

and these, with `selected` for the cycle of the issue, are the warp states that Nsight Compute counts.  A long
scoreboard is one that global memory releases.  Memory that comes from the L2 is one more pipe, of `l2_bytes`
per cycle and multiprocessor.

The timed part is a window in the middle of the run: from when the first warp has done WARM turns until one
has done all, by what is issued meanwhile.  A pipe whose interval is not a whole number takes an instruction
in the cycle in which it becomes free.

Notes.  Other schedulers are taken to do the same: they have three of four slots of what a
multiprocessor has once.  Caches of instructions and constants always hit; register banks never conflict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from layoutalg.codegen.timing.steps import SCHEDULERS, LoopStep
from layoutalg.errors import ShapeError
from layoutalg.limits import Most

STATES = (
    "selected", "wait", "short scoreboard", "long scoreboard", "barrier", "math pipe throttle",
    "mio throttle", "lg throttle", "not selected",
)  # fmt: skip
"""The states of a warp, in Nsight Compute's words."""

WARM = 16
"""Turns that are simulated before a turn is timed."""


@dataclass(frozen=True, slots=True)
class LoopTime:
    """The time of a loop: `cycles` of a turn of all warps of a scheduler, each of `instructions`.

    `states` are the cycles per issued instruction that a warp spends in each state; their sum is `cpi`, which
    Nsight Compute calls warp cycles per issued instruction.  `total` is when all is done, of all `turns`.
    """

    cycles: float
    instructions: int
    warps: int
    turns: int
    total: float
    states: Mapping[str, float]

    @property
    def cpi(self) -> float:
        """Cycles of a warp per issued instruction."""
        return self.cycles / self.instructions


@dataclass(slots=True)
class _Warp:
    block: int
    place: int = 0
    turn: int = 0
    ready: int = 0
    last: int = -1
    open: float = 0.0
    arrived: bool = False
    boards: dict[int, tuple[float, bool]] = field(default_factory=dict)
    copies: float = 0.0
    groups: list[float] = field(default_factory=list)


def simulate_loop(
    loop: Sequence[LoopStep], warps: int, *, blocks: int = 1, turns: int = WARM + 16, queue: int = 8,
    l2_bytes: float = math.inf,
) -> LoopTime:  # fmt: skip
    """A loop on one scheduler: `warps` of it together, in `blocks` that wait for their own warps only.

    `queue` instructions wait for lsu, `l2_bytes` per cycle come from global memory to a multiprocessor.
    Raises ShapeError for an empty loop, counts that make no sense, and more than Most.STEPS instructions.

    >>> from layoutalg.codegen.timing.steps import LoopStep
    >>> simulate_loop([LoopStep("HMMA", "tensor", 8.0, 2), LoopStep("IADD3", "alu", 2.0, 1)], 2).cycles
    16.0
    """
    if (
        not loop
        or warps < 1
        or blocks < 1
        or warps % blocks
        or turns <= WARM
        or queue < 1
        or not l2_bytes > 0
    ):
        raise ShapeError(
            f"{len(loop)} instructions, {warps} warps in {blocks} blocks, {turns} turns: a loop, blocks of "
            f"as many warps, more than {WARM} turns and positive rates are needed"
        )
    if len(loop) * warps * turns > Most.STEPS.number:
        raise ShapeError(
            f"{len(loop) * warps * turns} instructions to simulate; {Most.STEPS.number} are the most"
        )
    return _Scheduler(loop, warps, blocks, turns, queue, l2_bytes).run()


class _Scheduler:
    def __init__(
        self, loop: Sequence[LoopStep], warps: int, blocks: int, turns: int, queue: int, l2_bytes: float
    ) -> None:
        self.loop, self.turns, self.queue, self.l2_bytes = loop, turns, queue, l2_bytes
        self.warps = [_Warp(block=i * blocks // warps) for i in range(warps)]
        self.free: dict[str, float] = {}
        self.waiting: list[
            tuple[float, bool]
        ] = []  # when lsu takes each instruction, and whether it is global
        self.clock = -1
        self.done = 0.0
        self.window: tuple[int, int] | None = None  # the cycles that are timed, once they have begun
        self.closed = False
        self.issued = 0
        self.states: Counter[str] = Counter()

    def run(self) -> LoopTime:
        alive = list(self.warps)
        while alive:
            best: tuple[int, int, _Warp, list[tuple[str, float]]] | None = None
            for warp in alive:
                reasons = self._reasons(warp)
                if reasons is None:
                    continue
                at = max(self.clock + 1, math.ceil(max(time for _, time in reasons)))
                if best is None or (at, warp.last) < best[:2]:
                    best = at, warp.last, warp, reasons
            if best is None:
                raise ShapeError("every warp waits at a barrier that not all reach")
            self._issue(best[2], best[0], best[3])
            if best[2].turn == self.turns:
                alive.remove(best[2])
        begin, end = self.window or (0, 0)
        loop, warps = len(self.loop), len(self.warps)
        cycles = (end - begin) * loop * warps / self.issued
        scale = cycles / loop / sum(self.states.values())
        states = {name: self.states[name] * scale for name in STATES}
        return LoopTime(cycles, loop, warps, self.turns, self.done, MappingProxyType(states))

    def _reasons(self, warp: _Warp) -> list[tuple[str, float]] | None:
        """Why a warp does not issue its next instruction, each until when; None while it is at a barrier."""
        step = self.loop[warp.place]
        if warp.arrived:
            return None
        reasons: list[tuple[str, float]] = [("wait", warp.ready), ("barrier", warp.open)]
        for board in step.waits:
            until, far = warp.boards.get(board, (0.0, False))
            reasons.append(("long scoreboard" if far else "short scoreboard", until))
        if step.kind == "groups" and len(warp.groups) > step.groups:
            reasons.append(("long scoreboard", warp.groups[len(warp.groups) - 1 - step.groups]))
        if step.pipe == "lsu":
            if len(self.waiting) >= self.queue:
                until, _ = self.waiting[-self.queue]
                reasons.append(("lg throttle" if step.far else "mio throttle", until))
        elif step.interval:
            reasons.append(("math pipe throttle", math.floor(self.free.get(step.pipe, 0.0))))
        return reasons

    def _issue(self, warp: _Warp, at: int, reasons: list[tuple[str, float]]) -> None:
        step = self.loop[warp.place]
        if self.window and not self.closed:
            self._account(warp, at, reasons)
        self.clock = warp.last = at
        warp.ready, warp.open = at + step.stall, 0.0
        taken = self._taken(step, at)
        there = taken + step.latency + step.busy
        if step.far:
            pipe = max(taken, self.free.get("l2", 0.0)) + SCHEDULERS * step.bytes / self.l2_bytes
            self.free["l2"] = pipe
            there = max(there, pipe)
        self.done = max(self.done, taken + step.interval, there if step.kind != "barrier" else at + 1.0)
        for board, until, far in (
            (step.write, there, step.far), (step.read, taken + step.interval, False)
        ):  # fmt: skip
            if board is not None:
                old, was = warp.boards.get(board, (0.0, False))
                warp.boards[board] = (until, far) if until >= old else (old, was)
        match step.kind:
            case "copy":
                warp.copies = max(warp.copies, there)
            case "commit":
                warp.groups.append(max([warp.copies, *warp.groups[-1:]]))
            case "barrier":
                self._arrive(warp, at + step.latency)
        warp.place += 1
        if warp.place == len(self.loop):
            warp.place, warp.turn = 0, warp.turn + 1
            self._mark(warp.turn, at)

    def _mark(self, turn: int, at: int) -> None:
        """Begin to time when the first warp has done WARM turns, and end when one has done all."""
        if turn == WARM and self.window is None:
            self.window = at, at
        elif turn == self.turns and self.window and not self.closed:
            self.window, self.closed = (self.window[0], at), True

    def _taken(self, step: LoopStep, at: int) -> float:
        """When the pipe takes an instruction that is issued."""
        if not step.interval:
            return float(at)
        start = max(float(at), self.free.get(step.pipe, 0.0))
        self.free[step.pipe] = start + step.interval
        if step.pipe == "lsu":
            self.waiting.append((start, step.far))
            del self.waiting[: -self.queue]
        return start

    def _arrive(self, warp: _Warp, until: float) -> None:
        warp.arrived, warp.open = True, until
        mine = [w for w in self.warps if w.block == warp.block]
        if all(w.arrived for w in mine):
            latest = max(w.open for w in mine)
            for w in mine:
                w.arrived, w.open = False, latest

    def _account(self, warp: _Warp, at: int, reasons: list[tuple[str, float]]) -> None:
        """The cycles since the warp's last issue, by state: each until its end, in the order of `reasons`."""
        self.issued += 1
        now = warp.last + 1
        for name, until in reasons:
            until = min(at, math.ceil(until))
            if until > now:
                self.states[name] += until - now
                now = until
        self.states["not selected"] += at - now
        self.states["selected"] += 1
