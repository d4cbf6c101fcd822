"""The records of a reading: an access with its counts or why it is not read, and all of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from layoutalg.answers import Count, Positive, Share
from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.source.front import Declaration
from layoutalg.source.machine import Touch
from layoutalg.source.unread import NEVER_REACHED

Row = tuple[int, int, str, str]
"""The line, column, op and array of an access."""

REGISTERS = "registers"
"""The op of an access to an array in registers, which is not a memory access."""

CONSTANT = "constant"
"""The op of a load of constant memory, which has neither banks nor sectors."""

FETCH = "fetch"
"""The op of what goes through a texture unit, which makes the addresses: a fetch, or a store to a surface."""


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """An access of the source; counts are None where it is not read."""

    line: Positive
    column: Positive
    """In bytes."""
    op: str
    """The analysis' name, registers, constant, fetch, or what was met."""
    array: str
    instructions: Count | None
    """Warp instructions, of all loop turns."""
    total: Count | None
    """Wavefronts in shared memory, sectors in global memory."""
    ideal_total: Count | None
    """The fewest that there may be."""
    ways: Positive | None
    """The n of the worst instruction's n-way conflict, 1 without one; null in global memory."""
    efficiency: Share | None
    """Useful bytes over bytes moved; null in shared memory."""
    read: bool
    why: str | None
    """Why it is not read."""
    note: str | None = None
    """A remark on the counts."""
    file: str = ""
    """The header that the line is in, empty for the source itself."""
    sizes: tuple[str, ...] = ()
    """Numbers that are not given and that decide the counts."""
    depends: tuple[str, ...] = ()
    """Numbers among them that may change the ways, or the efficiency; others make the ways no more."""
    kernel: str = ""
    function: str = ""
    """The function that the line is in; empty for what is in registers or constant."""
    lanes: Count = 0
    """The most lanes of an atomic instruction at one address, which take turns; 0 of other accesses."""
    part: str = ""
    """The part of the array that the source names: a member, or bytes of dynamic shared memory."""
    compiled: Count | None = None
    """With --compile: the instructions of this op in the machine code of its statement."""
    bounds: tuple[Count, Count] | None = None
    """Fewest and most wavefronts, or sectors, per instruction, where loaded data decides the address."""
    elsewhere: bool = False
    """With other values of numbers that are not given it may be to another array, in another memory space."""

    @property
    def place(self) -> str:
        """The line, with its file where that is not the source itself."""
        return line_of(self.file, self.line)

    @property
    def reached(self) -> bool:
        """False where no thread comes to it, so that nothing of it is left to be read."""
        return self.why != NEVER_REACHED

    @property
    def space(self) -> str:
        """shared, global, registers, or "" where the op does not say."""
        if self.op in (REGISTERS, CONSTANT, FETCH):
            return self.op
        if "global" in self.op:
            return "global"
        shared = (
            self.op.startswith(("ldmatrix", "stmatrix", "cp.async", "red.shared")) or ".shared." in self.op
        )
        return "shared" if shared else ""


@dataclass(frozen=True, slots=True)
class TakenNumber:
    """A size or template parameter that is not given, and the value that it is counted with."""

    name: str
    value: int | str


@dataclass(frozen=True, slots=True, order=True)
class Unfollowed:
    """A part that is not followed: with one of them, the accesses may not be all."""

    line: int
    why: str
    file: str = ""
    """The header that the line is in, empty for the source itself."""

    @property
    def place(self) -> str:
        """The line, with its file where that is not the source itself."""
        return line_of(self.file, self.line)


def by_row(touches: Sequence[Touch]) -> dict[Row, list[Touch]]:
    """Touches by the place, op and array of the source."""
    rows: dict[Row, list[Touch]] = {}
    for touch in touches:
        rows.setdefault((touch.line, touch.column, touch.op, touch.array), []).append(touch)
    return rows


def line_of(file: str, line: int) -> str:
    """The words for a line, of the source itself where there is no file.

    >>> line_of("", 3), line_of("own.h", 4)
    ('line 3', 'own.h, line 4')
    """
    return f"{file}, line {line}" if file else f"line {line}"


class Question(NamedTuple):
    """The arguments of `read_kernel`, to ask it again about a changed text."""

    text: str
    block: tuple[int, ...] | int | None = None
    grid: tuple[int, ...] | int | None = None
    sets: Mapping[str, int | float | str] | None = None
    kernel: str | None = None
    arch: str | Arch = DEFAULT_ARCH
    folder: str | None = None
    include: Sequence[str] = ()
    defines: Mapping[str, str] | None = None
    changed: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class KernelReading:
    """The reading of a kernel: `accesses` in the order of the text, counted for one block, or `grid` blocks.

    `wanted` are the names whose values would let more be read, as for --set; `notes` are facts of the reading
    that are easily overlooked; `touches` are the accesses with their index sums, for further questions,
    `unread` those that are not read.  `shared` are the shared arrays, each declaration once, `together` those
    of each kernel; `seen` are the lines and columns of all that was read.  Where something is `unfollowed`,
    the accesses may be incomplete.  `taken` are sizes and template parameters without a value, with what was
    taken for it.
    `asked` is the question, `paths` are those of the headers by which lines count, behind the text's own, "".
    """

    kernels: tuple[str, ...]
    blocks: tuple[tuple[int, int, int] | None, ...]
    grid: tuple[int, int, int] | None
    arch: str
    accesses: tuple[SourceAccess, ...]
    wanted: tuple[str, ...]
    notes: tuple[str, ...]
    touches: tuple[Touch, ...]
    unread: tuple[Touch, ...]
    shared: tuple[Declaration, ...]
    together: tuple[tuple[Declaration, ...], ...]
    seen: frozenset[tuple[int, int]]
    unfollowed: tuple[Unfollowed, ...] = ()
    taken: tuple[TakenNumber, ...] = ()
    asked: Question | None = None
    paths: tuple[str, ...] = ("",)

    @property
    def block(self) -> tuple[int, int, int]:
        """The threads of a block of the first kernel that is read."""
        return next(block for block in self.blocks if block is not None)

    @property
    def memory(self) -> tuple[SourceAccess, ...]:
        """The accesses to shared and global memory: those to registers, constants and textures left out."""
        return tuple(a for a in self.accesses if a.op not in (REGISTERS, CONSTANT, FETCH))

    @property
    def share(self) -> float:
        """Accesses to memory that are read, over all of them; 1.0 where there are none."""
        memory = self.memory
        return sum(a.read for a in memory) / len(memory) if memory else 1.0

    @property
    def conflicting(self) -> tuple[str, ...]:
        """The shared arrays with an access that has bank conflicts."""
        arrays = (a.array for a in self.accesses if a.read and a.ways is not None and a.ways > 1)
        return tuple(dict.fromkeys(arrays))
