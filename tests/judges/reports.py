"""The numbers of a report, which every method must give alike."""

from __future__ import annotations

from typing import Any

from layoutalg.analysis import GlobalReport, SharedReport


def numbers(report: SharedReport | GlobalReport) -> tuple[Any, ...]:
    if isinstance(report, SharedReport):
        worst = (report.worst, report.worst_ideal, report.witness and report.witness.ways)
        return report.total, report.ideal_total, report.instructions, *worst
    counts = (report.sectors, report.ideal, report.lines, report.worst_alignment)
    return *counts, report.instructions, report.useful_bytes
