"""The events in the counters that are not bank conflicts, and the part of an excess that is.

The idea.  The counter of an instruction (`memory_l1_wavefronts_shared`) is exact for loads, stores, ldmatrix
and stmatrix: what it has beyond the ideal are bank conflicts.  It is not for these:

    cp.async of 16 bytes     past the L1: it counts pieces as they come, 4 to 32 for 512 bytes in a row;
                             for a copy that no lane makes up to 32, of what its registers hold
    cp.async of 4, 8 bytes   read from banks of an L1 line, written to banks: max(A, B) to A + B - 1
                             wavefronts where A lanes read one bank and B write one (layoutalg.model)
    atomics                  lanes on one word take turns: no other layout spreads them

The counters of the pipe (`l1tex__data_pipe_lsu_wavefronts*`) are of launches, and include more: wavefronts
that lost arbitration against global loads and stores and went again, which `l1tex__data_bank_conflicts*`
counts as conflicts too, and the write-back of what global loads brought.  None of it depends on a layout.

Notes.  Counted on an H200: tests/data/h200_wavefronts.jsonl, h200_copies.jsonl, h200_word_copies.jsonl;
`python -m tests.gpu.idle_copies`; arbitration in DESIGN.md, analysis and model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from layoutalg.arch import INSTRUCTIONS
from layoutalg.profiling.records import Launch, Measured, Row

_WORDS = (
    "cp.async of 4 and 8 bytes reads banks of an L1 line and writes banks of shared memory, and counts both: "
    "its excess is that of the worse side at least, of both together at most"
)
_MIXED = {
    "cp.async.4": _WORDS,
    "cp.async.8": _WORDS,
    "cp.async.16": "cp.async of 16 bytes is counted by pieces as they come (4 to 32 where 512 bytes are "
    "written in a row), and up to 32 for a copy that no lane makes: its excess does not show bank conflicts",
    "red.shared.u32": "lanes that add to one word take turns, whatever the layout",
}
"""Instructions whose excess is not of banks alone, and what it is of."""


class Excess(NamedTuple):
    """Wavefronts of a row beyond its ideal, or sectors: how many, and how many of them are bank conflicts.

    `conflicts` is None where the counter does not tell; `why` says what else it includes.
    """

    measured: int
    ideal: int
    conflicts: int | None
    why: tuple[str, ...]


def excess(row: Row) -> Excess | None:
    """The excess of a row's shared wavefronts; None where it has none."""
    measured, ideal = row.total("wavefronts"), row.total("ideal_wavefronts")
    if measured is None or ideal is None:
        return None
    over = measured - ideal
    why = _reason(row.op) if over else None
    return Excess(measured, ideal, None if why else over, (why,) if why else ())


def _reason(op: str) -> str | None:
    """The reason for the excess of an instruction, where it is not bank conflicts alone."""
    return _MIXED.get(op) or (None if op in INSTRUCTIONS else f"no rule says what {op} does to banks")


@dataclass(frozen=True, slots=True)
class Pipe:
    """A counter of the launch that is not the sum over instructions, and what the rest is."""

    counter: str
    launch: int
    instructions: int
    why: str


_LOST = (
    "the others lost arbitration against other traffic of the pipe and went again; no conflict of any "
    "layout, and gone with one block per multiprocessor"
)
_REST = (
    "the others belong to no instruction's access, such as what lost arbitration and placeholders of "
    "copies; no conflict of any layout"
)
_FEWER = (
    "the counter of instructions has more for copies than the pipe took: their excess is not all conflicts"
)
_GLOBAL = "the others are of global memory, write-back of what its loads brought among them"


def pipe_counters(launch: Launch) -> tuple[Pipe, ...]:
    """The launch's counters of shared memory that differ from the sum over instructions; () where all agree.

    Counters that were not recorded are passed over; copies have none of their own.
    """
    loads, stores = (
        [x for x in launch.instructions if (x.op or "").startswith(kinds)]
        for kinds in (("ld.shared", "ldmatrix"), ("st.shared", "stmatrix"))
    )
    sums = {
        "pipe_loads": _sum(loads),
        "pipe_stores": _sum(stores),
        "conflicts_loads": _sum(loads) - sum(x.ideal_wavefronts or 0 for x in loads),
        "conflicts_stores": _sum(stores) - sum(x.ideal_wavefronts or 0 for x in stores),
        "pipe_shared": _sum(launch.instructions),
    }
    if (shared := launch.sums.get("pipe_shared")) is not None:
        sums["pipe"] = shared
    reasons = {"pipe_shared": _REST, "pipe": _GLOBAL}
    return tuple(
        Pipe(name, measured, counted, reasons.get(name, _LOST) if measured > counted else _FEWER)
        for name, counted in sums.items()
        if (measured := launch.sums.get(name)) is not None and measured != counted
    )


def _sum(instructions: Iterable[Measured]) -> int:
    return sum(each.wavefronts or 0 for each in instructions)


def notes_of(row: Row) -> list[str]:
    """Notes for a reader of the numbers of a row: merged, partial and idle instructions."""
    notes = list(over.why) if (over := excess(row)) else []
    executed, threads = row.total("executed") or 0, row.total("threads") or 0
    if executed and threads < 32 * executed:
        notes.append(f"{threads / executed:.3g} of 32 lanes are active on average")
    if any("POPC" in each.sass for each in row.instructions):
        notes.append("the compiler adds up lanes of one word before: ATOMS.POPC.INC")
    return notes
