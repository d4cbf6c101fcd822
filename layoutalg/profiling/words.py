"""A profile as tables and sentences, and as the fields of a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutalg.answers import Count, Positive, taken
from layoutalg.profiling.counting import Pipe, pipe_counters
from layoutalg.profiling.explaining import Finding
from layoutalg.profiling.joining import Joined, file_name
from layoutalg.profiling.records import Launch, Measured

HEADER = ("line", "op", "array", "SASS", "executed", "wavefronts", "ideal", "sectors", "ideal")
"""The header of `finding_rows`."""

SASS_HEADER = ("at", "instruction", "line", "executed", "lanes", "wavefronts", "ideal", "sectors", "ideal")
"""The header of `sass_rows`."""

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
    """Notes on a launch: a text per row that needs one, then those on its counters as a whole."""
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
    """State how long the launch took, and the clock by its cycles; nothing where that was not recorded."""
    time, cycles = launch.sums.get("nanoseconds"), launch.sums.get("cycles")
    if not time:
        return []
    clock = f", {cycles:,} cycles at {cycles / time:.2f} GHz" if cycles else ""
    return [
        f"{time / 1000:,.1f} us{clock}: of one run under the profiler, which by default sets base clocks."
    ]


_COUNTERS = ("executed", "wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors")


@dataclass(frozen=True)
class LineAnswer:
    """The instructions of one op that a source line became, with their sums."""

    file: str | None
    line: Positive | None
    text: str | None
    """The line, where the report has the source."""
    op: str
    instructions: tuple[int, ...]
    """The `at` of each."""
    executed: Count | None
    wavefronts: Count | None
    ideal_wavefronts: Count | None
    sectors: Count | None
    ideal_sectors: Count | None
    conflicts: Count | None
    """Wavefronts that are bank conflicts; null where the counter does not tell."""
    arrays: tuple[str, ...]
    predicted: Count | None
    """Wavefronts or sectors of the whole launch, from the source."""
    predicted_ideal: Count | None
    fixes: tuple[str, ...]
    """Layouts of the source's array without conflicts."""
    pitches: tuple[int, ...]
    """Bytes between rows that give the measured number."""
    layout: str | None
    """The layout of rows of the first pitch, without conflicts."""
    extra_bytes: Positive | None
    """Bytes of padding per row that remove the conflict."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ProfiledLaunch:
    """A profiled launch of a kernel."""

    index: Count
    kernel: str
    signature: str
    block: tuple[int, ...]
    grid: tuple[int, ...]
    device: str
    missing: tuple[str, ...]
    nanoseconds: Count | None
    """The time of one run under the profiler."""
    cycles: Count | None
    lines: tuple[LineAnswer, ...]
    instructions: tuple[Measured, ...]
    beyond: tuple[Pipe, ...]


def launch_answer(launch: Launch, findings: Sequence[Finding]) -> ProfiledLaunch:
    """The record of a launch and of what was found of its lines."""
    return taken(
        ProfiledLaunch, launch, kernel=launch.name, nanoseconds=launch.sums.get("nanoseconds"),
        cycles=launch.sums.get("cycles"), lines=tuple(_line_answer(launch, each) for each in findings),
        beyond=pipe_counters(launch),
    )  # fmt: skip


def _line_answer(launch: Launch, each: Finding) -> LineAnswer:
    row, joined, fit = each.row, each.joined or Joined(), each.fit
    return taken(
        LineAnswer, row, text=launch.text.get((row.file, row.line)), notes=each.notes,
        instructions=tuple(measured.at for measured in row.instructions),
        **{name: row.total(name) for name in _COUNTERS},
        conflicts=each.excess.conflicts if each.excess else None,
        arrays=joined.arrays, fixes=joined.fixes, predicted=joined.predicted, predicted_ideal=joined.ideal,
        pitches=fit.pitches if fit else (), extra_bytes=fit.extra_bytes if fit else None,
        layout=str(fit.remedy.layout) if fit and fit.remedy else None,
    )  # fmt: skip


def _place(each: Finding) -> str:
    row = each.row
    if row.line is None:
        return "?"
    return f"{file_name(row.file)}:{row.line}" if row.file else str(row.line)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
