"""Random kernels with accesses that can be read and others that cannot, and limits on them, from a seed.

A kernel is drawn as a list of pieces.  Each says by itself, without the reader of sources, which memory
spaces it touches and what it costs there, counted by hand: a stride of S floats takes gcd(S, 32) wavefronts
per warp, and one of E floats 4 E sectors.  A piece that no reader can count, because a number or a body is
missing, costs None.  From these a limit is true, false, or open, and no gate may be green where it is false
or open.

    python -m tests.checks.random_gates 300 SEED
"""

from __future__ import annotations

import math
import random
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from layoutalg.checks import Outcome, read_checks, run_checks

SHARED, GLOBAL = "shared", "global"


@dataclass(frozen=True)
class Cost:
    """Wavefronts or sectors of all warps that are counted, their ideal, and the worst ratio."""

    total: int
    ideal: int
    ways: int


@dataclass(frozen=True)
class Piece:
    """Statements of a kernel, with what they cost in the spaces that they touch; `plain` ones must be read.

    In its text {n} is a number of its own, and {S} a stride.  With `index` there is one more
    load, of 4 bytes per thread, from global memory.  Of a `sized` one the accesses are known, and with them
    their number; what they cost is not, by a number that is missing.
    """

    name: str
    body: str
    top: str = ""
    spaces: tuple[str, ...] = (SHARED,)
    plain: bool = False
    counts: bool = False
    turns: int = 1
    index: bool = False
    block_one: bool = False
    sized: bool = False


def _pieces(group: str) -> tuple[Piece, ...]:
    """The pieces of a group in gates.cu."""
    found = []
    text = Path(__file__).with_name("gates.cu").read_text(encoding="utf-8")
    for part in re.split(r"^// --- ", text, flags=re.M)[1:]:
        head, _, code = part.partition("\n")
        name, _, words = head.partition(": ")
        kind, *more = words.split(", ")
        if kind == group:
            top, _, body = ("\n" + code).rpartition("\n==\n")
            said = {word.split(" ")[0]: word.partition(" ")[2] for word in more}
            spaces = tuple(said.get("in", SHARED).split(" and "))
            found.append(
                Piece(name, body.strip(), top.strip(), spaces, kind == "plain", kind != "opaque",
                      int(said.get("turns", 1)), "index" in said, "block" in said, "sized" in said)
            )  # fmt: skip
    return tuple(found)


PLAIN = _pieces("plain")
"""Pieces that the reader of sources is known to read."""

COUNTABLE = _pieces("countable")
"""Pieces that a reader may count, or may leave unread; it may not leave them out, nor count anything else."""

OPAQUE = _pieces("opaque")
"""Pieces that cannot be counted without what the source does not say."""

LIMITS = (
    "wavefronts", "ideal", "ways", "free", "sectors", "efficiency", "unread", "accesses", "baseline",
)  # fmt: skip

HEAD = "#include <cooperative_groups.h>\n#include <cub/cub.cuh>\n"


@dataclass(frozen=True)
class Drawn:
    """A piece with its number and stride."""

    piece: Piece
    number: int
    stride: int

    def filled(self, text: str) -> str:
        """A text of the piece with its number and stride."""
        return text.replace("{n}", str(self.number)).replace("{S}", str(self.stride))

    def cost(self, space: str, warps: int, blocks: int) -> Cost | None:
        """What it costs in a space; None where that is not to be known, no warps where it is not executed."""
        if space not in self.piece.spaces:
            loads = 4 * warps * blocks if self.piece.index and space == GLOBAL else 0
            return Cost(loads, loads, 1)
        if not self.piece.counts:
            return None
        times = self.piece.turns * warps * (blocks if not self.piece.block_one else 1)
        if space == SHARED:
            ways = math.gcd(self.stride, 32) if self.stride else 1
            return Cost(times * ways, times, ways)
        return Cost(times * 4 * max(1, self.stride), times * 4, self.stride)


@dataclass(frozen=True)
class Gate:
    """A source, its check and its baseline, and what is true of them."""

    seed: int
    source: str
    config: str
    baseline: dict[str, dict[str, Any]]
    pieces: tuple[Drawn, ...]
    warps: int
    grid: int | None
    other_unread: bool
    limits: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether all that is in it must be read."""
        return not self.other_unread and all(d.piece.plain for d in self.pieces)

    def truth(self, limit: str, *, pieces: Sequence[Drawn] | None = None) -> bool | None:
        """Whether a limit holds of some pieces, by default all of them; None where nobody can tell."""
        mine = self.pieces if pieces is None else pieces
        closed = pieces is not None or not self.other_unread
        if limit.startswith("no worse"):  # the baseline is worse than anything that is drawn
            return True if closed and all(self._known(mine, x) for x in (SHARED, GLOBAL)) else None
        if limit == "conflict-free":
            limit = "ways <= 1"
        name, relation, bound = limit.split()
        if name == "unread":
            return True if closed and all(d.piece.plain for d in mine) else None
        if name == "accesses":  # of the other kernel too, whatever its parameter is
            return True if all(d.piece.counts or d.piece.sized for d in mine) else None
        space = SHARED if name in ("wavefronts", "ways") else GLOBAL
        if not closed or not self._known(mine, space):
            return None
        every = [d.cost(space, self.warps, self.grid or 1) for d in mine]
        costs = [c for c in every if c is not None and c.total]
        if not costs:
            return None
        value: Fraction | int
        if name in ("wavefronts", "sectors"):
            value = sum(c.total for c in costs)
        elif name == "ways":
            value = max(c.ways for c in costs)
        else:
            value = min(Fraction(c.ideal, c.total) for c in costs)
        ideal = sum(c.ideal for c in costs)
        right = ideal if bound == "ideal" else Fraction(bound.rstrip("%")) / (100 if "%" in bound else 1)
        return {"<=": value <= right, ">=": value >= right, "<": value < right}[relation]

    def _known(self, pieces: Sequence[Drawn], space: str) -> bool:
        """Whether each of the pieces can be counted in a space, by the blocks that are."""
        if self.grid is None and any(d.piece.block_one and space in d.piece.spaces for d in pieces):
            return False
        return all(d.cost(space, 1, 1) is not None for d in pieces)


def draw(seed: int) -> Gate:
    """The gate of a seed."""
    rng = random.Random(f"gates {seed}")
    kinds = rng.choice(((PLAIN,), (PLAIN, COUNTABLE), (PLAIN, OPAQUE), (PLAIN, COUNTABLE, OPAQUE), (OPAQUE,)))
    pieces = []
    for number in range(rng.randint(1, 5)):
        piece = rng.choice(rng.choice(kinds))
        strides = (0, 1, 2, 3, 5, 8, 32, 33) if piece.spaces == (SHARED,) else (1, 2, 4, 8)
        pieces.append(Drawn(piece, number, rng.choice(strides)))
    warps, grid = rng.choice((1, 2)), rng.choice((None, 2, 3))
    other, named = rng.choice((False, False, False, True)), rng.choice((False, True))
    source = _source(pieces, other)
    gate = Gate(seed, source, "", {}, tuple(pieces), warps, grid, other and not named, ())
    limits = tuple(_limits(rng, gate))
    lines = ["[[kernel]]", "name = 'c'", "file = 'k.cu'", f"block = {32 * warps}"]
    lines += [f"grid = {grid}"] if grid else []
    lines += ["kernel = 'k'"] if named else []
    lines.append(f"limits = [{', '.join(repr(limit) for limit in limits)}]")
    bad = {"unread": 99, "wavefronts": 10**9, "ways": 32, "sectors": 10**9, "efficiency": 0}
    before = {"c": bad} if any(limit.startswith("no worse") for limit in limits) else {}
    return Gate(
        seed, source, "\n".join(lines), before, tuple(pieces), warps, grid, other and not named, limits
    )


def _source(pieces: Sequence[Drawn], other: bool) -> str:
    """A kernel of the pieces; with `other` a template beside it of which no instance is known."""
    tops = [d.filled(d.piece.top) for d in pieces if d.piece.top]
    bodies = [f"  {d.filled(d.piece.body)}" for d in pieces]
    head = "__global__ void k(float* o, const float* __restrict__ g, const int* idx, int n) {"
    start = "  __shared__ float s[2048]; float v = 1.f; auto tb = cooperative_groups::this_thread_block();"
    hidden = "template <int T> __global__ void hidden(float* p) { __shared__ float q[T]; q[0] = p[0]; }"
    return HEAD + "\n".join([*tops, *([hidden] if other else []), head, start, *bodies, "}"]) + "\n"


def _limits(rng: random.Random, gate: Gate) -> list[str]:
    """One to four limits of all kinds; bounds are close to what the pieces cost where that is known."""
    found = []
    for name in rng.sample(LIMITS, rng.randint(1, 4)):
        relation = rng.choice(("<=", "<=", ">="))
        space = GLOBAL if name == "sectors" else SHARED
        costs = [d.cost(space, gate.warps, gate.grid or 1) for d in gate.pieces]
        total = sum(c.total for c in costs if c is not None)
        found.append(
            {
                "wavefronts": f"wavefronts {relation} {max(0, total + rng.choice((-1, 0, 4)))}",
                "ideal": "wavefronts <= ideal",
                "ways": f"ways <= {rng.choice((1, 1, 2, 32))}",
                "free": "conflict-free",
                "sectors": f"sectors <= {max(0, total + rng.choice((-1, 0, 8)))}",
                "efficiency": f"efficiency >= {rng.choice((12, 50, 100))}%",
                "unread": f"unread <= {rng.choice((0, 0, 0, 2, 9))}",
                "accesses": f"accesses >= {rng.choice((0, 1))}",
                "baseline": "no worse than the baseline",
            }[name]
        )
    return found


def run(gate: Gate) -> Outcome:
    """The outcome of a gate."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cu").write_text(gate.source)
        file = read_checks(gate.config, folder=Path(folder))
        (outcome,) = run_checks(file, baseline=gate.baseline or None)
    return outcome


def faults(gate: Gate, outcome: Outcome) -> list[str]:
    """What is wrong with the outcome: green that was not earned, and what is refused although it is read."""
    allowed = any(limit.startswith("unread <= ") and limit != "unread <= 0" for limit in gate.limits)
    plain = [d for d in gate.pieces if d.piece.plain]
    wrong = []
    for one in outcome.examined:
        true, grows = gate.truth(one.limit), one.limit.startswith(("wavefronts >=", "unread", "accesses"))
        if one.verdict == "passed" and not allowed and true is not True and not (
            one.limit == "unread <= 0" and all(d.piece.counts or d.piece.sized for d in gate.pieces)
        ):  # fmt: skip
            wrong.append(f"{one.limit} passed, and is {'open' if true is None else 'false'}")
        if one.verdict == "passed" and allowed and not grows and gate.truth(one.limit, pieces=plain) is False:
            wrong.append(f"{one.limit} passed, and what must be read breaks it")
        if one.verdict == "failed" and true is True:
            wrong.append(f"{one.limit} failed, and is true")
        if one.verdict != "passed" and true is True and gate.plain:
            wrong.append(f"{one.limit} is {one.verdict}, and everything is read")
    green = outcome.status == "passed"
    if green and not (outcome.examined and all(one.verdict == "passed" for one in outcome.examined)):
        wrong.append("it is green, and not all of its limits passed")
    hidden = [d.piece for d in gate.pieces if d.piece in OPAQUE]
    if green and not allowed and hidden:
        scope = {space for piece in hidden for space in piece.spaces}
        spoken = {_space(limit) for limit in gate.limits}
        if (None in spoken and not all(piece.sized for piece in hidden)) or spoken & scope:
            wrong.append("it is green, with accesses in its scope that nobody can read")
    return wrong


def _space(limit: str) -> str | None:
    """The memory space that a limit speaks of, None for all of them."""
    name = limit.split()[0]
    if name in ("wavefronts", "ways", "conflict-free"):
        return SHARED
    return GLOBAL if name in ("sectors", "efficiency") else None


def sweep(count: int, seed: int, said: Callable[[str], object] = lambda text: None) -> dict[str, int]:
    """How many gates of the seeds from `seed` on are of each status, and how many have faults, each said."""
    totals = {"passed": 0, "failed": 0, "undecided": 0, "unanswered": 0, "faults": 0}
    for number in range(seed, seed + count):
        gate = draw(number)
        outcome = run(gate)
        totals[outcome.status] += 1
        wrong = faults(gate, outcome)
        totals["faults"] += bool(wrong)
        if wrong:
            said(f"seed {number}: {'; '.join(wrong)}\n{gate.config}\n{gate.source}")
    return totals


if __name__ == "__main__":
    print(sweep(int(sys.argv[1]), int(sys.argv[2]), print))
