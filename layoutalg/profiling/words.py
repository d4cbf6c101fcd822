"""A profile as tables and sentences, and as the fields of a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layoutalg.profiling.counting import Pipe, pipe_counters
from layoutalg.profiling.explaining import Finding
from layoutalg.profiling.joining import file_name
from layoutalg.profiling.records import Launch, Measured

HEADER = ("line", "op", "array", "SASS", "executed", "wavefronts", "ideal", "sectors", "ideal")
"""Of `finding_rows`."""

SASS_HEADER = ("at", "instruction", "line", "executed", "lanes", "wavefronts", "ideal", "sectors", "ideal")
"""Of `sass_rows`."""

WITHOUT_LINES = "No instruction says its line: compile with -lineinfo, record with --import-source yes."


def title_of(launch: Launch) -> str:
    """A launch in one line."""
    sides = [" x ".join(map(str, side)) for side in (launch.grid, launch.block)]
    where = f" on {launch.device}" if launch.device else ""
    return f"{launch.signature}: grid {sides[0]}, block {sides[1]}{where}"


def finding_rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """The cells of the table by line, under HEADER."""
    return [
        (
            _place(each),
            each.row.op,
            ", ".join(each.joined.arrays) if each.joined else "",
            _number(len(each.row.instructions)),
            *(_number(each.row.total(name)) for name in _COUNTERS),
        )
        for each in findings
    ]


def sass_rows(launch: Launch) -> list[tuple[str, ...]]:
    """The cells of the table by instruction, under SASS_HEADER; idle ones are there with what they have."""
    return [
        (
            f"{each.at:#06x}",
            each.sass,
            "" if each.line is None else str(each.line),
            _number(each.executed),
            f"{each.threads / each.executed:.3g}" if each.executed else "",
            *(_number(getattr(each, name)) for name in _COUNTERS[1:]),
        )
        for each in launch.instructions
    ]


def finding_notes(launch: Launch, findings: Sequence[Finding]) -> list[str]:
    """What is to be said of a launch, one text per row, then of its counters as a whole."""
    lines = [f"{_place(each)}, {each.row.op}: {'; '.join(each.notes)}." for each in findings if each.notes]
    joined = [each for each in findings if each.joined is not None]
    if joined:
        compared = sum(each.compared for each in joined)
        equal = sum(each.agrees for each in joined)
        lines.append(
            f"Of {len(joined)} rows with an access of the source, {compared} are compared with what it "
            f"predicts: {equal} of {compared} numbers equal."
            if compared
            else f"Of {len(joined)} rows with an access of the source, none could be compared."
        )
    if not launch.has_lines:
        lines.append(WITHOUT_LINES)
    lines += [pipe_words(pipe) for pipe in pipe_counters(launch)]
    lines += clock_words(launch)
    if launch.missing:
        lines.append(f"Not recorded: {', '.join(launch.missing)}.")
    return lines


def pipe_words(pipe: Pipe) -> str:
    """A counter of the launch that is not the sum over instructions, in a sentence."""
    name = pipe.counter.replace("_", " of ")
    return f"{name}: {pipe.launch:,}, where instructions have {pipe.instructions:,}: {pipe.why}."


def clock_words(launch: Launch) -> list[str]:
    """How long the launch took, and the clock by its cycles; nothing where that was not recorded."""
    time, cycles = launch.sums.get("nanoseconds"), launch.sums.get("cycles")
    if not time:
        return []
    clock = f", {cycles:,} cycles at {cycles / time:.2f} GHz" if cycles else ""
    return [
        f"{time / 1000:,.1f} us{clock}: of one run under the profiler, which by default sets base clocks."
    ]


def launch_fields(launch: Launch, findings: Sequence[Finding]) -> dict[str, Any]:
    """What `--json` says of a launch."""
    return {
        "index": launch.index,
        "kernel": launch.name,
        "signature": launch.signature,
        "block": list(launch.block),
        "grid": list(launch.grid),
        "device": launch.device,
        "missing": list(launch.missing),
        "nanoseconds": launch.sums.get("nanoseconds"),
        "cycles": launch.sums.get("cycles"),
        "lines": [_finding_fields(launch, each) for each in findings],
        "instructions": [_measured_fields(each) for each in launch.instructions],
        "beyond": [
            {"counter": p.counter, "launch": p.launch, "instructions": p.instructions, "why": p.why}
            for p in pipe_counters(launch)
        ],
    }


_COUNTERS = ("executed", "wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors")


def _finding_fields(launch: Launch, each: Finding) -> dict[str, Any]:
    row, joined, fit = each.row, each.joined, each.fit
    return {
        "file": row.file,
        "line": row.line,
        "text": launch.text.get((row.file, row.line)),
        "op": row.op,
        "instructions": [found.at for found in row.instructions],
        **{name: row.total(name) for name in _COUNTERS},
        "conflicts": each.excess.conflicts if each.excess else None,
        "arrays": list(joined.arrays) if joined else [],
        "predicted": joined.predicted if joined else None,
        "predicted_ideal": joined.ideal if joined else None,
        "fixes": list(joined.fixes) if joined else [],
        "pitches": list(fit.pitches) if fit else [],
        "layout": str(fit.remedy.layout) if fit and fit.remedy else None,
        "extra_bytes": fit.extra_bytes if fit else None,
        "notes": list(each.notes),
    }


def _measured_fields(each: Measured) -> dict[str, Any]:
    fields = {"at": each.at, "sass": each.sass, "op": each.op, "file": each.file, "line": each.line}
    return fields | {"threads": each.threads, **{name: getattr(each, name) for name in _COUNTERS}}


def _place(each: Finding) -> str:
    row = each.row
    if row.line is None:
        return "?"
    return f"{file_name(row.file)}:{row.line}" if row.file else str(row.line)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
