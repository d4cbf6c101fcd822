"""What an analysis answers: SharedReport for wavefronts, GlobalReport for sectors.

The idea.  A tile's access is many warp instructions, most of them alike.  `Kind` is one sort of instruction
with what it costs and how many there are; a report is the sum over kinds, however they were found. `method`
says how:

    "f2"             one kind: the whole access is linear over F2, and its count a rank
    "gcd"            every warp is an arithmetic progression
    "digit-classes"  warps sorted by where their digits carry, one of each sort counted
    "enumerated"     every instruction counted

>>> kinds = [Kind(3, (1, 1), Place(0, 0, 0)), Kind(1, (32, 1), Place(1, 0, 0))]
>>> report = shared_report("ld.shared.b32", kinds, "gcd", "measured", Witness(1, 0, 0, 32, 0, ()))
>>> report.total, report.ideal_total, report.worst, report.ways
(35, 4, 32, 32)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from layoutalg.arch import Provenance

Method: TypeAlias = Literal["f2", "gcd", "digit-classes", "enumerated"]


class Place(NamedTuple):
    """One instruction of an access: its warp, which vector of the values it is, and its iteration."""

    warp: int
    register: int
    iteration: int


class Kind(NamedTuple):
    """`instructions` of them cost the same; `place` is one of them.

    `cost` is (wavefronts, ideal) in shared memory, (sectors, lines, useful bytes) in global memory.
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
class SharedReport:
    """Wavefronts of a whole access: all warps, registers and iterations.

    `total` wavefronts against `ideal_total`; `worst` is the most of one instruction, against its own
    `worst_ideal`; `witness` shows that instruction (None when no lane is ever active).  `provenance` tells
    how far the rules of the instruction are known: measured, documented or assumed.  `notes` are true of the
    count and easily overlooked (layoutalg.analysis.notes).

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
class GlobalReport:
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

    @property
    def moved_bytes(self) -> int:
        """Bytes of all sectors."""
        return self.sectors * self.sector_bytes

    @property
    def efficiency(self) -> float:
        """Distinct useful bytes over bytes moved; 1.0 when nothing moves."""
        return self.useful_bytes / self.moved_bytes if self.sectors else 1.0


def worst_kind(kinds: Sequence[Kind]) -> Kind:
    """The kind with the most wavefronts or sectors each; among equals, the one with the lower ideal.

    >>> worst_kind([Kind(3, (1, 1), Place(0, 0, 0)), Kind(1, (2, 1), Place(1, 0, 0))]).cost
    (2, 1)
    """
    return max(kinds, key=lambda kind: (kind.cost[0], -kind.cost[1]))


def shared_report(
    op: str,
    kinds: Sequence[Kind],
    method: Method,
    provenance: Provenance,
    witness: Witness | None,
    notes: tuple[str, ...] = (),
) -> SharedReport:
    """The report of kinds whose cost is (wavefronts, ideal).

    >>> shared_report("ld.shared.b32", [Kind(4, (2, 1), Place(0, 0, 0))], "f2", "measured", None).total
    8
    """
    worst = worst_kind(kinds)
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
    kinds: Sequence[Kind],
    method: Method,
    provenance: Provenance,
    worst_alignment: int,
    sector_bytes: int,
    notes: tuple[str, ...] = (),
) -> GlobalReport:
    """The report of kinds whose cost is (sectors, lines, useful bytes).

    >>> kinds = [Kind(4, (5, 2, 128), Place(0, 0, 0))]
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
