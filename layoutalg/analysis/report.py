"""The answers of an analysis: SharedReport for wavefronts, GlobalReport for sectors.

The idea.  A tile's access is many warp instructions, most of them alike.  A `CostClass` is those that cost
the same and how many there are; a report is the sum over classes, however they were found. `method`
says how:

    "f2"             one kind: the whole access is linear over F2, and its count a rank
    "gcd"            every warp is an arithmetic progression
    "digit-classes"  warps sorted by where their digits carry, one of each sort counted
    "enumerated"     every instruction counted

>>> kinds = [CostClass(3, (1, 1, 1), Place(0, 0, 0)), CostClass(1, (32, 1, 32), Place(1, 0, 0))]
>>> clash = Witness(1, 0, 0, 32, 0, tuple(range(32)))
>>> report = shared_report("ld.shared.b32", kinds, "gcd", "measured", clash)
>>> report.total, report.ideal_total, report.worst, report.ways
(35, 4, 32, 32)

`print(report)` is what the command prints: a table, a sentence on the worst instruction, and the notes.

>>> print(report)
Shared memory
access         instructions  wavefronts  ideal  worst  its ideal  conflict  method
──────────────────────────────────────────────────────────────────────────────────
ld.shared.b32             4          35      4     32          1    32-way     gcd
<BLANKLINE>
ld.shared.b32: the worst of 4 instructions 32-way: 32 wavefronts against an ideal of 1 (warp 1: bank
0 has 32 words to serve for lanes 0-31).
>>> report
<SharedReport ld.shared.b32: 4 instructions, 35 wavefronts, ideal 4, 32-way>

The notes say what is true of a count and easily overlooked: assumed rules, elements under .trans, swizzles
that overlap.

Sources of the notes.  PTX ISA, ldmatrix and stmatrix (.b16); CUTLASS, include/cute/swizzle.hpp
(abs(shift) >= bits).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from layoutalg.arch import Arch, Instruction, Provenance
from layoutalg.dtype import DType
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.notebook import Shown

Method: TypeAlias = Literal["f2", "gcd", "digit-classes", "enumerated"]

METHODS: tuple[Method, ...] = ("f2", "gcd", "digit-classes", "enumerated")

Wanted: TypeAlias = Literal["auto"] | Method


class Place(NamedTuple):
    """An instruction of an access: its warp, the number of its vector of values, and its iteration."""

    warp: int
    register: int
    iteration: int


class CostClass(NamedTuple):
    """`instructions` of them cost the same; `place` is one of them.

    `cost` is (wavefronts, ideal, ways) in shared memory, (sectors, lines, useful bytes) in global memory.
    """

    instructions: int
    cost: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Witness:
    """The worst instruction, and the busiest bank of its busiest phase group.

    `value` is the index in mode 1 of the instruction's first element; `lanes` ask `bank` for `ways` words
    that it must serve one after the other.
    """

    warp: int
    value: int
    iteration: int
    ways: int
    bank: int
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharedReport(Shown):
    """Wavefronts of a whole access: all warps, registers and iterations.

    `total` wavefronts against `ideal_total`; `worst` is the most of one instruction, against its own
    `worst_ideal`; `witness` shows that instruction (None when no lane is ever active).  `provenance` tells
    how far the rules of the instruction are known: measured, documented or assumed.  `notes` are true of the
    count and easily overlooked (`access_notes`).

    >>> SharedReport("ldmatrix.x4", 512, 64, 16, 32, 4, "f2", None, "measured").excess
    448
    """

    op: str
    total: int
    ideal_total: int
    instructions: int
    worst: int
    worst_ideal: int
    method: Method
    witness: Witness | None
    provenance: Provenance
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        cost = f"{_some(self.total, 'wavefront')}, ideal {self.ideal_total:,}"
        conflict = "conflict-free" if self.conflict_free else _conflict(self)
        return f"<SharedReport {self.op}: {_some(self.instructions, 'instruction')}, {cost}, {conflict}>"

    def __str__(self) -> str:
        return report_text([(self.op, self)])

    @property
    def conflict_free(self) -> bool:
        """True when no instruction takes more than its ideal."""
        return self.total == self.ideal_total

    @property
    def excess(self) -> int:
        """Wavefronts beyond the ideal."""
        return self.total - self.ideal_total

    @property
    def mean(self) -> float:
        """Wavefronts of one instruction on average."""
        return self.total / self.instructions

    @property
    def ways(self) -> int:
        """The n of "n-way conflict": words that the witness's bank serves one after the other."""
        return self.witness.ways if self.witness else 0


@dataclass(frozen=True, slots=True)
class GlobalReport(Shown):
    """Sectors of a whole access: all warps, registers and iterations.

    `ideal` is the fewest sectors that hold each instruction's useful bytes, `lines` counts distinct lines;
    `worst_alignment` is what `sectors` becomes at the worst base address that the instruction allows;
    `notes` as in SharedReport.

    >>> GlobalReport("ld.global.b32", 32, 4, 8, 32, 1, 128, 32, "gcd", "measured").efficiency
    0.125
    """

    op: str
    sectors: int
    ideal: int
    lines: int
    worst_alignment: int
    instructions: int
    useful_bytes: int
    sector_bytes: int
    method: Method
    provenance: Provenance
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        cost = f"{_some(self.sectors, 'sector')}, ideal {self.ideal:,}, {self.efficiency:.1%} efficient"
        return f"<GlobalReport {self.op}: {_some(self.instructions, 'instruction')}, {cost}>"

    def __str__(self) -> str:
        return report_text([(self.op, self)])

    @property
    def moved_bytes(self) -> int:
        """Bytes of all sectors."""
        return self.sectors * self.sector_bytes

    @property
    def efficiency(self) -> float:
        """Distinct useful bytes over bytes moved; 1.0 when nothing moves."""
        return self.useful_bytes / self.moved_bytes if self.sectors else 1.0


@dataclass(frozen=True, slots=True)
class DramReport(Shown):
    """The traffic of memory for an access, or several together, where the L2 holds nothing of it before.

    `sectors`, `halves` and `lines` are those that differ, over all requests; of the sectors, `partial` ones
    are stored to and not filled.  `read_bytes` and `written_bytes` are what memory delivers and takes.

    >>> DramReport("ld.global.b128", 8, 64, 64, 64, 0, 2048, 4096, 0, "digit-classes", "measured").efficiency
    0.5
    """

    op: str
    instructions: int
    sectors: int
    halves: int
    lines: int
    partial: int
    useful_bytes: int
    read_bytes: int
    written_bytes: int
    method: Method
    provenance: Provenance
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        cost = f"{self.moved_bytes:,} bytes moved, {self.efficiency:.1%} efficient"
        return f"<DramReport {self.op}: {_some(self.instructions, 'instruction')}, {cost}>"

    def __str__(self) -> str:
        return report_text([(self.op, self)])

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes

    @property
    def efficiency(self) -> float:
        """Different useful bytes over bytes moved; 1.0 when nothing moves."""
        return self.useful_bytes / self.moved_bytes if self.moved_bytes else 1.0


def worst_rank(kind: CostClass) -> tuple[bool, int, int, int]:
    """The order of kinds: wavefronts each, of those past their ideal if any are; a lower ideal; more ways.

    The busiest bank decides last: 8 + 1 + 1 + 1 wavefronts are as many as 3 + 3 + 3 + 2.

    >>> kinds = [CostClass(3, (4, 4, 1), Place(0, 0, 0)), CostClass(1, (2, 1, 2), Place(1, 0, 0))]
    >>> max(kinds, key=worst_rank).cost
    (2, 1, 2)
    """
    taken, ideal, ways = kind.cost
    return taken > ideal, taken, -ideal, ways


def shared_report(
    op: str,
    kinds: Sequence[CostClass],
    method: Method,
    provenance: Provenance,
    witness: Witness | None,
    notes: tuple[str, ...] = (),
) -> SharedReport:
    """The report of kinds whose cost is (wavefronts, ideal, ways).

    >>> kinds = [CostClass(4, (2, 1, 2), Place(0, 0, 0))]
    >>> shared_report("ld.shared.b32", kinds, "f2", "measured", None).total
    8
    """
    worst = max(kinds, key=worst_rank)
    return SharedReport(
        op,
        sum(kind.instructions * kind.cost[0] for kind in kinds),
        sum(kind.instructions * kind.cost[1] for kind in kinds),
        sum(kind.instructions for kind in kinds),
        worst.cost[0],
        worst.cost[1],
        method,
        witness,
        provenance,
        notes,
    )


def global_report(
    op: str,
    kinds: Sequence[CostClass],
    method: Method,
    provenance: Provenance,
    worst_alignment: int,
    sector_bytes: int,
    notes: tuple[str, ...] = (),
) -> GlobalReport:
    """The report of kinds whose cost is (sectors, lines, useful bytes).

    >>> kinds = [CostClass(4, (5, 2, 128), Place(0, 0, 0))]
    >>> global_report("ld.global.b32", kinds, "gcd", "measured", 20, 32).efficiency
    0.8
    """
    return GlobalReport(
        op,
        sum(kind.instructions * kind.cost[0] for kind in kinds),
        sum(kind.instructions * -(-kind.cost[2] // sector_bytes) for kind in kinds),
        sum(kind.instructions * kind.cost[1] for kind in kinds),
        worst_alignment,
        sum(kind.instructions for kind in kinds),
        sum(kind.instructions * kind.cost[2] for kind in kinds),
        sector_bytes,
        method,
        provenance,
        notes,
    )


# --- in words ------------------------------------------------------------------------------------------

Report: TypeAlias = SharedReport | GlobalReport
Named: TypeAlias = Sequence[tuple[str, Report | DramReport]]
"""Reports, each with the name of its access."""

PAGE = 100
"""Columns of a page, to which sentences are wrapped."""

_SHARED = ("access", "instructions", "wavefronts", "ideal", "worst", "its ideal", "conflict", "method")
_GLOBAL = ("access", "instructions", "sectors", "ideal", "lines", "efficiency", "worst base", "method")
_DRAM = ("access", "sectors", "partial", "halves", "lines", "read", "written", "method")


class ReportTable(NamedTuple):
    """A title, the columns and the rows of a table; its first column holds names, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def report_rows(named: Named, title: str = "Shared memory") -> list[ReportTable]:
    """Return a table for shared memory, one for global memory and one for DRAM, without those that are empty.

    >>> report_rows([("x", GlobalReport("ld.global.b32", 32, 4, 8, 32, 1, 128, 32, "gcd", "measured"))])[0][2]
    [('x', '1', '32', '4', '8', '12.5%', '32', 'gcd')]
    """
    shared = [_shared_row(name, r) for name, r in named if isinstance(r, SharedReport)]
    moved = [_global_row(name, r) for name, r in named if isinstance(r, GlobalReport)]
    filled = [_dram_row(name, r) for name, r in named if isinstance(r, DramReport)]
    tables = (
        ReportTable(title, _SHARED, shared),
        ReportTable("Global memory", _GLOBAL, moved),
        ReportTable("DRAM", _DRAM, filled),
    )
    return [table for table in tables if table.rows]


def report_text(named: Named) -> str:
    """The tables of the reports, a sentence on each, and their notes, as plain text.

    >>> report = GlobalReport("ld.global.b32", 32, 4, 8, 32, 1, 128, 32, "gcd", "measured")
    >>> report_text([("mine", report)]).splitlines()[-1]
    'mine: 32 sectors carry 128 useful bytes of 1,024 moved, 12.5%.'
    """
    import textwrap

    parts = []
    for table in report_rows(named):
        widths = [max(map(len, cells)) for cells in zip(table.columns, *table.rows, strict=True)]
        head, *rows = ("  ".join(_cells(row, widths)).rstrip() for row in (table.columns, *table.rows))
        parts.append("\n".join((table.title, head, "─" * (sum(widths) + 2 * len(widths) - 2), *rows, "")))
    for text in (*(sentence(name, r) for name, r in named), *report_notes(r for _, r in named)):
        parts.append(textwrap.fill(text, PAGE, break_long_words=False, break_on_hyphens=False))
    return "\n".join(parts)


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The first cell to the left, the others to the right."""
    return [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]


def sentence(name: str, report: Report | DramReport) -> str:
    """State in one sentence what the report means.

    >>> sentence("mine", SharedReport("ld.shared.b32", 0, 0, 1, 0, 0, "gcd", None, "measured"))
    'mine: no lane is active.'
    """
    if isinstance(report, DramReport):
        moved = f"{report.read_bytes:,} bytes read and {report.written_bytes:,} written"
        return f"{name}: {moved} for {report.useful_bytes:,} useful ones, {report.efficiency:.1%}."
    if isinstance(report, GlobalReport):
        useful = f"{report.useful_bytes:,} useful bytes of {report.moved_bytes:,} moved"
        tail = (
            f"; at the worst base {report.worst_alignment:,} sectors"
            if report.worst_alignment > report.sectors
            else ""
        )
        return f"{name}: {report.sectors:,} sectors carry {useful}, {report.efficiency:.1%}{tail}."
    if report.witness is None:
        return f"{name}: no lane is active."
    if report.conflict_free:
        ideal = _some(report.worst_ideal, "wavefront")
        return f"{name}: conflict-free, {_each(report)} at the ideal of {ideal}."
    witness = report.witness
    where = f"bank {witness.bank} has {witness.ways} words to serve for lanes {_ranges(witness.lanes)}"
    if report.worst * report.instructions == report.total:
        which = _each(report)
    else:
        which = f"the worst of {_some(report.instructions, 'instruction')}"
    location = f"warp {witness.warp}" + (f", value {witness.value}" if witness.value else "")
    location += f", iteration {witness.iteration}" if witness.iteration else ""
    return (
        f"{name}: {which} {report.ways}-way: {_some(report.worst, 'wavefront')} against an ideal of "
        f"{report.worst_ideal} ({location}: {where})."
    )


def report_notes(reports: Iterable[Report | DramReport]) -> list[str]:
    """The notes of all reports, each once.

    >>> report_notes([])
    []
    """
    return list(dict.fromkeys(note for report in reports for note in report.notes))


def _shared_row(name: str, r: SharedReport) -> tuple[str, ...]:
    numbers = (r.instructions, r.total, r.ideal_total, r.worst, r.worst_ideal)
    return (name, *(f"{n:,}" for n in numbers), _conflict(r), r.method)


def _global_row(name: str, r: GlobalReport) -> tuple[str, ...]:
    numbers = (r.instructions, r.sectors, r.ideal, r.lines)
    return (name, *(f"{n:,}" for n in numbers), f"{r.efficiency:.1%}", f"{r.worst_alignment:,}", r.method)


def _dram_row(name: str, r: DramReport) -> tuple[str, ...]:
    numbers = (r.sectors, r.partial, r.halves, r.lines, r.read_bytes, r.written_bytes)
    return (name, *(f"{n:,}" for n in numbers), r.method)


def _conflict(report: SharedReport) -> str:
    return "none" if report.conflict_free else f"{report.ways}-way"


def _each(report: SharedReport) -> str:
    if report.instructions == 1:
        return "1 instruction,"
    return f"{report.instructions:,} instructions, each"


def _some(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _ranges(lanes: Sequence[int]) -> str:
    """0-3, 8, 10-11."""
    runs: list[list[int]] = []
    for lane in sorted(set(lanes)):
        if runs and runs[-1][1] == lane - 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# --- notes ---------------------------------------------------------------------------------------------


UNIT_BITS = 16
"""The bits that ldmatrix and stmatrix with .trans move as a unit."""


def access_notes(
    rule: Instruction, machine: Arch, element: DType | None = None, layout: AnyLayout | None = None
) -> tuple[str, ...]:
    """The notes on one access; without an element or a layout, nothing is said of them.

    >>> from layoutalg.arch import find_arch
    >>> access_notes(find_arch("sm_90").instructions["ld.shared.b32"], find_arch("sm_90"))
    ()
    """
    notes = [] if layout is None or isinstance(layout, Layout) else [*swizzle_notes(layout)]
    if element is not None and rule.name.endswith(".trans") and element.bits != UNIT_BITS:
        notes.insert(0, _transposed(rule.name, element))
    if rule.provenance == "assumed":
        source = rule.source or "no source is given"
        notes.insert(0, f"The rule of {rule.name} on {machine.name} is assumed: {source}.")
    return tuple(notes)


def _transposed(op: str, element: DType) -> str:
    subject = f"{op} transposes units of {UNIT_BITS} bits"
    if element.bits < UNIT_BITS:
        return f"{subject}: the {UNIT_BITS // element.bits} {element} elements of a unit stay together."
    verb = "is split over" if op.startswith("ld") else "is put together from"
    return f"{subject}: each {element} element {verb} {element.bits // UNIT_BITS} lanes."


def swizzle_notes(layout: AnyLayout | Swizzle) -> Iterator[str]:
    """A sentence for each swizzle that is not its own inverse.

    >>> print(*swizzle_notes(Swizzle(3, 3, 2)))
    Sw<3,3,2> is not an involution (|S| < B: its fields overlap), and CuTe refuses it; it is a bijection.
    """
    part: object = layout
    seen: set[Swizzle] = set()
    while isinstance(part, ComposedLayout):
        seen.update(part.swizzles)
        part = part.inner
    if isinstance(part, Swizzle):
        seen.add(part)
    for swizzle in sorted(seen, key=str):
        if not swizzle.is_involution:
            yield (
                f"{swizzle} is not an involution (|S| < B: its fields overlap), and CuTe refuses it; "
                f"it is a bijection."
            )
