"""`layoutalg profile`: a report of Nsight Compute, explained line by line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from layoutalg.answers import Answer
from layoutalg.cli.files import read_source
from layoutalg.cli.inputs import read_sets
from layoutalg.cli.options import argument, option
from layoutalg.cli.output import Table, progress, say, say_answer, wants_json
from layoutalg.profiling import ProfiledLaunch

if TYPE_CHECKING:
    from layoutalg.profiling import Launch

_FIELDS = "line", "op", "array", "instructions", "total", "ideal_total", "why"
"""The fields of an access of the source that are joined to the measured instructions."""


@dataclass(frozen=True)
class ProfileAnswer(Answer, command="profile"):
    """A report of Nsight Compute."""

    report: str
    kernels: tuple[str, ...]
    """The kernels of all launches, in order."""
    launches: tuple[ProfiledLaunch, ...]


def profile_command(
    report: Annotated[Path, argument("The report that ncu -o writes.")],
    kernel: Annotated[str | None, "Only kernels whose names match this regular expression."] = None,
    source: Annotated[
        Path | None,
        "The CUDA source: analysed as by layoutalg kernel, and matched with the counters by line.",
    ] = None,
    sets: Annotated[
        list[str] | None, option("NAME=VALUE for --source, as of layoutalg kernel.", "--set")
    ] = None,
    sass: Annotated[bool, "Also show a table by SASS instruction."] = False,
) -> None:
    """Explain the memory counters of an Nsight Compute report: bank conflicts, sectors, and the fix.

    layoutalg profile report.ncu-rep --kernel transpose --source transpose.cu
    """
    from layoutalg import profiling

    text = None if source is None else read_source(str(source))
    values = read_sets(sets or [])
    explained = []
    with progress("reading"):
        read = profiling.read_report(report, kernel)
        for launch in read.launches:
            accesses = [] if source is None or text is None else _accesses(launch, source, text, values)
            name = source.name if source else None
            explained.append((launch, profiling.explain_launch(launch, name, accesses, whole=True)))
    if wants_json():
        launches = tuple(profiling.launch_answer(launch, findings) for launch, findings in explained)
        say_answer(ProfileAnswer(read.file, tuple(read.names), launches))
        return
    for launch, findings in explained:
        say(Table(profiling.title_of(launch), profiling.HEADER, profiling.finding_rows(findings)))
        if sass:
            say(Table("By instruction", profiling.SASS_HEADER, profiling.sass_rows(launch)))
        for line in profiling.finding_notes(launch, findings):
            say(line)


def _accesses(launch: Launch, source: Path, text: str, values: dict[str, str]) -> list[dict[str, Any]]:
    """The accesses of the source in a launch: of its kernel, its block and all of its grid."""
    from layoutalg.profiling import with_ends
    from layoutalg.source import fixes_of, read_kernel

    folder = str(source.resolve().parent)
    kernel = launch.name.partition("<")[0]
    reading = read_kernel(text, launch.block, grid=launch.grid, sets=values, kernel=kernel, folder=folder)
    pitches = {declared.name: _row_bytes(declared.type) for declared in reading.shared}
    fixes: dict[str, list[str]] = {}
    for fix in fixes_of(reading)[0]:
        cost = f", {fix.extra_bytes} bytes more" if fix.extra_bytes else ""
        fixes.setdefault(fix.array, []).append(f"{fix.array} as {fix.layout} ({fix.kind}{cost})")
    accesses = (
        {name: getattr(each, name) for name in _FIELDS}
        | {"pitch": pitches.get(each.array), "fixes": fixes.get(each.array, [])}
        for each in reading.memory
        if not each.file
    )
    return with_ends(list(accesses), text)


def _row_bytes(kind: Any) -> int | None:
    """Bytes from row to row of an array of arrays, None of a plain one."""
    rows = None
    while kind.kind == "array":
        kind = kind.to
        rows = kind.bytes if kind.kind == "array" else rows
    return rows
