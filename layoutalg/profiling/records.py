"""A report as values: launches of kernels, and the counters of their instructions.

The idea.  Nsight Compute counts each SASS instruction apart: how often warps executed it, and for shared
memory its wavefronts, for global memory its sectors, each beside the fewest that its active lanes would need
(`ideal`, which knows the addresses: of a load that merges lanes it is lower).  Instructions carry the file
and line that `-lineinfo` gave them; `by_line` puts together what one line became.

SASS instructions by the names that the analysis has for them.

>>> texts = "LDS.128 R8", "@!P0 STG.E.64 [R2], R4", "LDSM.16.MT88.2 R4, [R1]", "LDG.E.ENL2.256 R8, R4, [R2]"
>>> [instruction_op(text) for text in texts]
['ld.shared.b128', 'st.global.b64', 'ldmatrix.x2.trans', 'ld.global.b256']

Notes.  Modifiers of caching, ordering and sign do not change which addresses are asked for.  Atomics of
shared memory are `red.shared.u32`, whatever they compute; local memory, atomics of global memory and loads
of other kinds have no name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from layoutalg.answers import Count, Positive

_PLAIN = {"LDS": "ld.shared", "STS": "st.shared", "LDG": "ld.global", "STG": "st.global"}
_MATRIX = {"LDSM": "ldmatrix", "STSM": "stmatrix"}
_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_NEVER = "@!PT"


def opcode(sass: str) -> str:
    """The instruction without its predicate and operands.

    >>> opcode("@!P2  LDGSTS.E [R15], desc[UR6][R4.64]")
    'LDGSTS.E'
    """
    words = re.sub(r"^@\S+\s+", "", sass.strip()).split(None, 1)
    return words[0].rstrip(";") if words else ""


def never_executed(sass: str) -> bool:
    """Whether the predicate is the constant that is false: the instruction only takes its place.

    >>> never_executed("@!PT  LDS RZ, [RZ]"), never_executed("LDS R0, [R1]")
    (True, False)
    """
    return sass.lstrip().startswith(_NEVER)


def instruction_op(sass: str) -> str | None:
    """The analysis's name of an instruction, None where it has none.

    >>> instruction_op("LDGSTS.E.BYPASS.LTC128B.128 [R9], desc[UR6][R6.64]"), instruction_op("LDL R0, [R1]")
    ('cp.async.16', None)
    """
    base, *parts = opcode(sass).split(".")
    bits = next((_BITS[part] for part in parts if part in _BITS), 32)
    if base in _PLAIN:
        return f"{_PLAIN[base]}.b{bits}"
    if base in _MATRIX:
        count = next((int(part) for part in parts if part in ("2", "4")), 1)
        trans = ".trans" if any(part.startswith("MT") for part in parts) else ""
        return f"{_MATRIX[base]}.x{count}{trans}"
    if base == "LDGSTS":
        return f"cp.async.{bits // 8}"
    return "red.shared.u32" if base in ("ATOMS", "REDS") else None


Place = tuple[str | None, int | None]
"""File and line, None where the program was compiled without them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A SASS instruction of a launch; counters that do not apply to it are null.

    `executed` counts warps, `threads` active lanes; `wavefronts` and `sectors` are sums over all of them,
    beside the fewest possible.
    """

    at: Count
    """Bytes from the kernel's beginning."""
    sass: str
    op: str | None = field(init=False)
    """The analysis's name of it."""
    file: str | None
    line: Positive | None
    threads: Count = 0
    executed: Count = 0
    wavefronts: Count | None = None
    ideal_wavefronts: Count | None = None
    sectors: Count | None = None
    ideal_sectors: Count | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", instruction_op(self.sass))

    @property
    def idle(self) -> bool:
        """Whether nothing was counted: never executed, or by warps without an active lane."""
        return never_executed(self.sass) or not (self.wavefronts or self.sectors or self.threads)


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel; `sums` are counters of the hardware, None where they were not recorded.

    `missing` names the counters of instructions that the report lacks; `text` has the source's lines by place
    where the report was recorded with them.
    """

    index: int
    name: str
    signature: str
    block: tuple[int, ...]
    grid: tuple[int, ...]
    device: str
    capability: tuple[int, ...]
    missing: tuple[str, ...]
    sums: Mapping[str, int | None]
    instructions: tuple[Measured, ...]
    text: Mapping[Place, str]

    @property
    def has_lines(self) -> bool:
        """Whether instructions say which line they come from."""
        return any(each.line is not None for each in self.instructions)


@dataclass(frozen=True, slots=True)
class Row:
    """The instructions of one op that a line became, and their sums; where it has no name, its opcode."""

    file: str | None
    line: int | None
    op: str
    instructions: tuple[Measured, ...]

    def total(self, counter: str) -> int | None:
        """The sum of one of Measured's counters; None where no instruction has it.

        `executed` and `threads` always have one.
        """
        counts = [n for each in self.instructions if (n := getattr(each, counter)) is not None]
        return sum(counts) if counts else None

    def share(self, counter: str) -> Fraction | None:
        """A counter over its ideal: 32 for a 32-way conflict; None where it does not apply or is 0."""
        measured, ideal = self.total(counter), self.total(f"ideal_{counter}")
        return Fraction(measured, ideal) if measured is not None and ideal else None


def by_line(launch: Launch) -> tuple[Row, ...]:
    """The instructions of each line of a kernel, in the order of files and lines, without the idle ones."""
    groups: dict[tuple[str, int, str], list[Measured]] = {}
    for each in launch.instructions:
        if not each.idle:
            groups.setdefault((each.file or "", each.line or 0, each.op or opcode(each.sass)), []).append(
                each
            )
    return tuple(
        Row(file or None, line or None, op, tuple(members))
        for (file, line, op), members in sorted(groups.items())
    )


def launch_of(read: Mapping[str, Any]) -> Launch:
    """A launch as the importer printed it."""
    lists = {name: tuple(read[name]) for name in ("block", "grid", "capability", "missing")}
    instructions = tuple(Measured(**each) for each in read["instructions"])
    text = {(file, int(line)): text for file, lines in read["text"].items() for line, text in lines.items()}
    return Launch(**{**read, **lists, "instructions": instructions, "text": text})
