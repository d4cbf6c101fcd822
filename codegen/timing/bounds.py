"""The least time of a turn of a loop, in closed form: issue slots, pipes, and the critical path of a warp.

    issue     warps x instructions                     one instruction per cycle and scheduler
    pipe      warps x the sum of its intervals         each of them
    l2        the bytes of all warps at its rate
    path      the longest chain of one warp: stalls in order, and from an instruction that releases a
              scoreboard to one that waits for it

A chain may span turns.  From anywhere in a turn to the same place some turns later, its length over these
turns is never more than what a turn takes.  The bound is the largest over all edges, each
from its start on for as many turns as it spans.  Of several instructions that release one scoreboard the last
one before the wait counts, which is a bound too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.codegen.timing.steps import SCHEDULERS, LoopStep
from layoutalg.errors import ShapeError


@dataclass(frozen=True, slots=True)
class LoopBounds:
    """Cycles of a turn of all warps of a scheduler that each resource takes at least.

    >>> LoopBounds({"issue": 10.0, "tensor": 16.0}).limiting
    'tensor'
    """

    cycles: Mapping[str, float]

    @property
    def limiting(self) -> str:
        """The resource that takes longest."""
        return max(self.cycles, key=lambda name: self.cycles[name])

    @property
    def least(self) -> float:
        """The cycles that a turn takes at least."""
        return max(self.cycles.values())


def loop_bounds(loop: Sequence[LoopStep], warps: int, *, l2_bytes: float = math.inf) -> LoopBounds:
    """The bounds of a loop of which `warps` warps run on a scheduler.  Raises ShapeError for an empty one.

    >>> from layoutalg.codegen.timing.steps import LoopStep
    >>> load = LoopStep("LDS", "lsu", 4.0, 2, latency=23.0, write=0)
    >>> dict(loop_bounds([load, LoopStep("FFMA", "fma", 1.0, 4, waits=(0,))], 2).cycles)
    {'issue': 4.0, 'fma': 2.0, 'lsu': 8.0, 'path': 27.0}
    """
    if not loop or warps < 1:
        raise ShapeError(
            f"a loop of {len(loop)} instructions on {warps} warps: at least one of both is needed"
        )
    cycles = {"issue": float(warps * len(loop))}
    for pipe in sorted({step.pipe for step in loop if step.interval}):
        cycles[pipe] = warps * sum(step.interval for step in loop if step.pipe == pipe)
    moved = sum(step.bytes for step in loop if step.far)
    if moved and l2_bytes < math.inf:
        cycles["l2"] = SCHEDULERS * warps * moved / l2_bytes
    cycles["path"] = critical_path(loop)
    return LoopBounds(MappingProxyType(cycles))


def critical_path(loop: Sequence[LoopStep]) -> float:
    """Cycles per turn of the longest chain of one warp that comes back to its place.

    >>> from layoutalg.codegen.timing.steps import LoopStep
    >>> critical_path([LoopStep("FFMA", "fma", 1.0, 4), LoopStep("BRA", "branch", 0.0, 5)])
    9.0
    """
    n = len(loop)
    edges = _edges(loop)
    into: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for first, last, weight in edges:
        into[last % n].append((last - first, weight))
    starts = {(0, 1)} | {(first % n, -(-(last - first) // n)) for first, last, _ in edges}
    return max(_chain(loop, into, start, turns) / turns for start, turns in starts)


def _chain(loop: Sequence[LoopStep], into: list[list[tuple[int, float]]], start: int, turns: int) -> float:
    """The longest chain from a place to itself so many turns later."""
    n = len(loop)
    reach = [0.0] + [-math.inf] * (turns * n)
    for i in range(1, turns * n + 1):
        at = (start + i) % n
        before = loop[(at - 1) % n]
        longest = reach[i - 1] + _passes(before)
        for back, weight in into[at]:
            if back <= i:
                longest = max(longest, reach[i - back] + weight)
        reach[i] = longest
    return reach[-1]


def _passes(step: LoopStep) -> float:
    """Cycles until the next instruction of the warp: its stall, of a barrier at least what that takes."""
    return max(float(step.stall), step.latency if step.kind == "barrier" else 0.0)


def _edges(loop: Sequence[LoopStep]) -> list[tuple[int, int, float]]:
    """(place that releases, place that waits, cycles between), waits counted on into later turns."""
    n, edges = len(loop), []
    for last, step in enumerate(loop):
        for board in step.waits:
            for back in range(1, n + 1):
                writer = loop[(last - back) % n]
                if board in (writer.write, writer.read):
                    weight = writer.latency + writer.busy if board == writer.write else writer.interval
                    edges.append(((last - back) % n, (last - back) % n + back, weight))
                    break
        if step.kind == "groups":
            edges += _groups(loop, last, step.groups)
    return edges


def _groups(loop: Sequence[LoopStep], last: int, most: int) -> list[tuple[int, int, float]]:
    """From the copies of the group that a wait leaves no longer unfinished."""
    n, commits, back = len(loop), 0, 0
    if not any(step.kind == "commit" for step in loop):
        return []
    while commits <= most:
        back += 1
        commits += loop[(last - back) % n].kind == "commit"
    edges = []
    for more in range(back + 1, back + n):
        copy = loop[(last - more) % n]
        if copy.kind == "commit":
            break
        if copy.kind == "copy":
            edges.append(((last - more) % n, (last - more) % n + more, copy.latency + copy.busy))
    return edges
