"""The check of an access: its wavefronts in shared memory, or its sectors in global memory.

[[access]]
tile = "a"
access = ["ldmatrix.x4", "st.shared.b128"]
limits = ["wavefronts <= ideal"]
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from layoutalg.analysis import Access, Report, analyze_access
from layoutalg.arch import find_instruction
from layoutalg.checks.fields import ARCH, DTYPE, TILE, Field, Kind, Reading, Values, a_text, a_whole_number
from layoutalg.checks.limits import Property, Quantities, Quantity
from layoutalg.layout import AnyLayout
from layoutalg.testing import Scope

SHARED = {
    quantity.name: quantity
    for quantity in (
        Quantity("wavefronts", "wavefronts of all instructions", "less", lambda r: r.total),
        Quantity(
            "ideal", "the fewest wavefronts that the instructions can take", None, lambda r: r.ideal_total
        ),
        Quantity("excess", "wavefronts beyond the ideal", "less", lambda r: r.excess),
        Quantity("ways", "the n of the worst n-way conflict, 1 without one", "less", lambda r: r.ways),
        Quantity("worst", "wavefronts of the costliest instruction", "less", lambda r: r.worst),
        Quantity("instructions", "instructions of all warps", None, lambda r: r.instructions),
    )
}
"""The quantities of accesses to shared memory."""

GLOBAL = {
    quantity.name: quantity
    for quantity in (
        Quantity("sectors", "sectors of all instructions", "less", lambda r: r.sectors),
        Quantity("ideal", "the fewest sectors that hold their bytes", None, lambda r: r.ideal),
        Quantity("lines", "cache lines of all instructions", "less", lambda r: r.lines),
        Quantity("efficiency", "useful bytes over bytes moved", "more", lambda r: _efficiency(r)),
        Quantity("worst_base", "sectors at the worst base address", "less", lambda r: r.worst_alignment),
        Quantity("instructions", "instructions of all warps", None, lambda r: r.instructions),
    )
}
"""The quantities of accesses to global memory."""


def _efficiency(report: Any) -> Fraction:
    return Fraction(report.useful_bytes, report.moved_bytes) if report.moved_bytes else Fraction(1)


def _an_access(value: Any, reading: Reading) -> str:
    text = a_text(value, reading)
    find_instruction(text.partition("@")[0].strip())
    return text


def _quantities(values: Values) -> Quantities:
    op = values["access"].partition("@")[0].strip()
    return GLOBAL if find_instruction(op, values["arch"]).space == "global" else SHARED


def _report(values: Values) -> Report:
    layout: AnyLayout = values["tile"]
    access = Access.of(values["access"], layout, values["dtype"], values["arch"])
    return analyze_access(layout, replace(access, base_bytes=values["base"]), values["arch"])


def _conflict(report: Any, _: object) -> str:
    if report.total == report.ideal_total:
        return ""
    return f"{report.ways}-way conflicts: {report.total} wavefronts, and {report.ideal_total} without any"


CONFLICT_FREE = Property(
    "conflict-free", "no instruction takes more wavefronts than its ideal", _conflict, shows="ways"
)

ACCESS = Kind(
    "access",
    "what an access to a tile costs",
    (
        TILE,
        Field(
            "access",
            "OP, OP@row, OP@col or OP@TV layout, or a list of them",
            _an_access,
            required=True,
            each=True,
        ),
        DTYPE,
        ARCH,
        Field("base", "bytes added to every address", a_whole_number(0), default=0),
    ),
    _report,
    lambda table: f"{table['tile']}, {table['access']}",
    _quantities,
    lambda values: {"conflict-free": CONFLICT_FREE} if _quantities(values) is SHARED else {},
    scope=lambda values, report, part, allowed: Scope("instructions", report.instructions),
)
