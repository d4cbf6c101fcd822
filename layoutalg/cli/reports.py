"""Reports of accesses: as fields of a JSON object, as tables, and judged by conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from layoutalg.analysis import DramReport, Named, Report, SharedReport, Witness, report_rows
from layoutalg.cli.inputs import FailOn
from layoutalg.cli.output import table
from layoutalg.errors import ShapeError


def report_fields(report: Report | DramReport) -> dict[str, Any]:
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
    elif isinstance(report, DramReport):
        fields |= {
            "space": "dram",
            "sectors": report.sectors,
            "partial": report.partial,
            "halves": report.halves,
            "lines": report.lines,
            "useful_bytes": report.useful_bytes,
            "read_bytes": report.read_bytes,
            "written_bytes": report.written_bytes,
            "efficiency": report.efficiency,
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


def report_tables(named: Named, title: str = "Shared memory") -> list[Table]:
    """The tables of the reports, as a terminal shows them."""
    return [table(*rows) for rows in report_rows(named, title)]


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


def failures(conditions: Sequence[FailOn], reports: Sequence[Report | DramReport]) -> list[str]:
    """The conditions of --fail-on that hold for one of the reports; ShapeError for one that judges none."""
    return [condition.text for condition in conditions if _fails(condition, reports)]


def _fails(condition: FailOn, reports: Sequence[Report | DramReport]) -> bool:
    """Whether the condition holds for one of the reports it judges; raises when it judges none."""
    judged = [r for r in reports if isinstance(r, SharedReport) == (condition.space == "shared")]
    if not judged:
        raise ShapeError(
            f"--fail-on {condition.text!r} judges {condition.space} memory, which none of the accesses uses"
        )
    for report in judged:
        if isinstance(report, SharedReport):
            failed = not report.conflict_free
        else:
            failed = report.useful_bytes < (condition.threshold or 0) * report.moved_bytes
        if failed:
            return True
    return False
