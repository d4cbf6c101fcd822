"""An access of a CUDA source as a function of the thread, and what it costs by the definitions.

The accesses stand in accesses.txt, an access per line, below the line of their source:

    @ reduction_3 256 n=1024                               kernel and file, block, values that counts hold for
    let at(i) = 4 * (i + i // 32)                          a word for the lines below it
    in ld.global.b32 | at(t) | | ? in[i]                   array, op | bytes | loops | a piece of its line
    sdata ld.shared.b32 | 4 * t if t < s | s=128..1 | ...  where the condition fails, the lane is inactive
    [p=x,y i=0,1] v.$p ld.global.b32 | 8 * t + i | | ...   an access for each of the values
    hist red.shared.u32 | ? the index is data | | ...      what the source does not say, in place of bytes

Words before the first source, or behind the heading of a part, are those of all sources that follow.  `t` is
the linear thread index, `x` and `y` are those of the block.  A loop is a count, START:STOP:STEP, or
FIRST..LAST, each twice or half the one before.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from string import Template
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
    loops: tuple[Sequence[int], ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Source:
    """A file, its kernel, the launch and the named values that the counts hold for."""

    kernel: str
    block: tuple[int, ...]
    values: Mapping[str, int]
    accesses: Sequence[Access]
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", (FOLDER / self.file).read_text(encoding="utf-8"))

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.kernel}.cu"

    def line(self, piece: str) -> int:
        """The line, from 1, of the end of a piece of text that is in the file once."""
        if self.text.count(piece) != 1:
            raise ValueError(
                f"{self.file}: {piece!r} is there {self.text.count(piece)} times, once is wanted"
            )
        return self.text[: self.text.index(piece) + len(piece)].count("\n") + 1


# --- accesses.txt ----------------------------------------------------------------------------------------


def read(text: str) -> Iterator[Source]:
    """The sources of a table of accesses."""
    common, *parts = re.split(r"^@ ", text, flags=re.M)
    words = re.findall(r"^let .*$", common, re.M)
    for part in parts:
        own, _, later = part.partition("\n# ")
        head, *lines = own.splitlines()
        kernel, block, *values = head.split()
        extents = tuple(map(int, block.split("x")))
        place = f"let x = t % {extents[0]}", f"let y = t // {extents[0]}"
        known = [*place, *words, *(line for line in lines if line.startswith("let "))]
        accesses = [made for line in lines if " | " in line for made in _accesses(line, known)]
        yield Source(kernel, extents, {k: int(v) for k, v in (x.split("=") for x in values)}, accesses)
        words += re.findall(r"^let .*$", later, re.M)


def _accesses(line: str, words: Sequence[str]) -> Iterator[Access]:
    """The accesses of a line: one, or one for each of the values in brackets."""
    named, line = re.findall(r"^(?:\[(.*?)\] )?(.*)", line)[0]
    columns = [[(name, value) for value in values.split(",")]
               for name, values in (each.split("=") for each in named.split())]  # fmt: skip
    for bound in map(dict, zip(*columns, strict=True)) if columns else [dict[str, str]()]:
        head, address, loops, text = Template(line).safe_substitute(bound).split("|", 3)
        (array, op), address = head.split(), address.strip()
        text = text.removeprefix(" ").replace("\\n", "\n")
        if address.startswith("? "):
            yield Access(text, op, array, why=address[2:])
            continue
        turns = dict(each.split("=") for each in loops.split())
        numbers = [f"let {name} = {value}" for name, value in bound.items() if value.isdigit()]
        at, scope = _function(address, (*turns,), [*words, *numbers])
        yield Access(text, op, array, at, tuple(_turns(each, scope) for each in turns.values()))


def _function(address: str, turns: tuple[str, ...], words: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Bytes as a function of the thread and the turns; of the words those that it needs are made in it."""
    body: list[str] = []
    scope: dict[str, Any] = {}
    needed = address
    for word in reversed(words):
        name, parameters, value = re.findall(r"let (\w+)(?:\((.*?)\))? = (.*)", word)[0]
        if name.isupper():
            scope[name] = eval(value)  # noqa: S307
        elif re.search(rf"\b{name}\b", needed) and name not in turns:
            body.insert(
                0, f"{name} = lambda {parameters}: {_else(value)}" if parameters else f"{name} = {value}"
            )
            needed += f" {value}"
    lines = [f"def at({', '.join(('t', *turns))}):", *body, f"return {_else(address)}"]
    exec("\n    ".join(lines), scope)
    return scope["at"], scope


def _else(value: str) -> str:
    return f"{value} else None" if " if " in value else value


def _turns(loop: str, scope: Mapping[str, Any]) -> Sequence[int]:
    if loop.isdigit():
        return range(int(loop))
    if ".." in loop:
        first, last = map(int, loop.split(".."))
        powers = [1 << e for e in range(max(first, last).bit_length()) if 1 << e >= min(first, last)]
        return powers if first < last else powers[::-1]
    return range(*map(int, loop.split(":"))) if ":" in loop else list(scope[loop])


# --- costs -----------------------------------------------------------------------------------------------


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
