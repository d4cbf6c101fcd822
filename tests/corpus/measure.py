"""An access of a CUDA source as a function of the thread, and what it costs by the definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from layoutalg.analysis import ideal_wavefronts, traffic, wavefronts

FOLDER = Path(__file__).parents[1] / "data" / "sources"
"""The sources and expected.json."""

WARP = 32
SECTOR = 32


@dataclass(frozen=True)
class Access:
    """One access: `text` is a piece of its line, found once in the file.

    `offset` gives the bytes of the linear thread index and a value per element of `loops`, None where the
    lane is inactive.  `why`: what the source alone does not say; there is no `offset` then.
    """

    text: str
    op: str
    array: str
    offset: Callable[..., int | None] | None = None
    loops: tuple[Iterable[int], ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Source:
    """A file, its kernel, the launch and the named values that the counts hold for."""

    file: str
    kernel: str
    block: tuple[int, ...]
    values: Mapping[str, int]
    accesses: Sequence[Access]
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", (FOLDER / self.file).read_text(encoding="utf-8"))

    def line(self, piece: str) -> int:
        """The line, from 1, of the end of a piece of text that is in the file once."""
        if self.text.count(piece) != 1:
            raise ValueError(
                f"{self.file}: {piece!r} is there {self.text.count(piece)} times, once is wanted"
            )
        return self.text[: self.text.index(piece) + len(piece)].count("\n") + 1


class Cost(NamedTuple):
    """Of one instruction: what it takes and the least it could."""

    total: int
    ideal: int


@cache
def cost(op: str, lanes: tuple[int | None, ...]) -> Cost:
    """Wavefronts of a shared access, sectors of a global one.

    >>> cost("ld.shared.b32", tuple(128 * lane for lane in range(32)))
    Cost(total=32, ideal=1)
    """
    if "global" in op:
        found = traffic(op, lanes)
        return Cost(found.sectors, -(-found.useful_bytes // SECTOR))
    return Cost(wavefronts(op, lanes), ideal_wavefronts(op, lanes))


def counted(access: Access, threads: int) -> dict[str, Any]:
    """The sums over all instructions of a block, and the worst instruction's ratio."""
    if access.offset is None:
        return {"read": False, "why": access.why}
    costs = []
    for turn in itertools.product(*access.loops):
        for first in range(0, threads, WARP):
            lanes = [access.offset(t, *turn) if t < threads else None for t in range(first, first + WARP)]
            if any(offset is not None for offset in lanes):
                costs.append(cost(access.op, tuple(lanes)))
    found: dict[str, Any] = {
        "instructions": len(costs),
        "total": sum(each.total for each in costs),
        "ideal_total": sum(each.ideal for each in costs),
    }
    shared = "global" not in access.op
    found["ways"] = max((-(-each.total // each.ideal) for each in costs), default=1) if shared else None
    found["worst"] = max((each.total for each in costs), default=0)
    return {**found, "read": True, "why": None}


def expected(source: Source) -> dict[str, Any]:
    """What a reader of the file should find, as JSON."""
    accesses = [
        {"line": source.line(a.text), "op": a.op, "array": a.array, **counted(a, prod(source.block))}
        for a in source.accesses
    ]
    return {
        "kernel": source.kernel,
        "block": list(source.block),
        "set": dict(source.values),
        "accesses": sorted(accesses, key=lambda entry: entry["line"]),
    }


def table(sources: Sequence[Source]) -> dict[str, Any]:
    """By file, all of them."""
    return {source.file: expected(source) for source in sources}
