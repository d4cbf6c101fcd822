"""Reports of accesses: as fields of a JSON object, as a table, and as a sentence about the worst."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from layoutalg.analysis.report import GlobalReport, SharedReport, Witness
from layoutalg.cli.output import count, table

Report = SharedReport | GlobalReport

_SHARED = ("access", "instructions", "wavefronts", "ideal", "worst", "its ideal", "conflict", "method")
_GLOBAL = ("access", "instructions", "sectors", "ideal", "lines", "efficiency", "worst base", "method")


def report_fields(report: Report) -> dict[str, Any]:
    """What `--json` says of one access."""
    fields: dict[str, Any] = {"op": report.op, "instructions": report.instructions}
    if isinstance(report, SharedReport):
        fields |= {
            "space": "shared",
            "total": report.total,
            "ideal_total": report.ideal_total,
            "worst": report.worst,
            "worst_ideal": report.worst_ideal,
            "ways": report.ways,
            "conflict_free": report.conflict_free,
            "witness": _witness_fields(report.witness),
        }
    else:
        fields |= {
            "space": "global",
            "sectors": report.sectors,
            "ideal": report.ideal,
            "lines": report.lines,
            "efficiency": report.efficiency,
            "worst_alignment": report.worst_alignment,
        }
    return fields | {"method": report.method, "provenance": report.provenance, "notes": list(report.notes)}


def report_tables(named: Sequence[tuple[str, Report]], title: str = "Shared memory") -> list[Table]:
    """One table for shared memory, one for global memory, each only when it has rows."""
    shared = [(name, r) for name, r in named if isinstance(r, SharedReport)]
    moved = [(name, r) for name, r in named if isinstance(r, GlobalReport)]
    tables = []
    if shared:
        tables.append(table(title, _SHARED, (_shared_row(n, r) for n, r in shared)))
    if moved:
        tables.append(table("Global memory", _GLOBAL, (_global_row(n, r) for n, r in moved)))
    return tables


def sentence(name: str, report: Report) -> str:
    """What the report means, in one sentence."""
    if isinstance(report, GlobalReport):
        useful = f"{count(report.useful_bytes)} useful bytes of {count(report.moved_bytes)} moved"
        tail = (
            f"; at the worst base {count(report.worst_alignment)} sectors"
            if report.worst_alignment > report.sectors
            else ""
        )
        return f"{name}: {count(report.sectors)} sectors carry {useful}, {report.efficiency:.1%}{tail}."
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
    place = f"warp {witness.warp}" + (f", value {witness.value}" if witness.value else "")
    place += f", iteration {witness.iteration}" if witness.iteration else ""
    return (
        f"{name}: {which} {report.ways}-way: {_some(report.worst, 'wavefront')} against an ideal of "
        f"{report.worst_ideal} ({place}: {where})."
    )


def report_notes(reports: Iterable[Report]) -> list[str]:
    """The notes of all reports, each once."""
    return list(dict.fromkeys(note for report in reports for note in report.notes))


def _shared_row(name: str, r: SharedReport) -> tuple[str, ...]:
    conflict = "none" if r.conflict_free else f"{r.ways}-way"
    numbers = (r.instructions, r.total, r.ideal_total, r.worst, r.worst_ideal)
    return (name, *map(count, numbers), conflict, r.method)


def _global_row(name: str, r: GlobalReport) -> tuple[str, ...]:
    numbers = (r.instructions, r.sectors, r.ideal, r.lines)
    return (name, *map(count, numbers), f"{r.efficiency:.1%}", count(r.worst_alignment), r.method)


def _witness_fields(witness: Witness | None) -> dict[str, Any] | None:
    if witness is None:
        return None
    return {
        "warp": witness.warp,
        "value": witness.value,
        "iteration": witness.iteration,
        "ways": witness.ways,
        "bank": witness.bank,
        "lanes": list(witness.lanes),
    }


def _each(report: SharedReport) -> str:
    if report.instructions == 1:
        return "1 instruction,"
    return f"{count(report.instructions)} instructions, each"


def _some(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def _ranges(lanes: Sequence[int]) -> str:
    """0-3, 8, 10-11."""
    runs: list[list[int]] = []
    for lane in sorted(set(lanes)):
        if runs and runs[-1][1] == lane - 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
