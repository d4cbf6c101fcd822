"""`layoutalg profile`: a report of Nsight Compute, explained line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from layoutalg.cli.inputs import read_source
from layoutalg.cli.options import JsonOption
from layoutalg.cli.output import say, say_json, table
from layoutalg.cli.refusals import header
from layoutalg.errors import ParseError


def profile_command(
    report: Annotated[Path, typer.Argument(help="A report: what ncu -o writes.", show_default=False)],
    kernel: Annotated[
        str | None,
        typer.Option(
            help="Only kernels in whose names this regular expression is found.", show_default=False
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="What `layoutalg kernel FILE --json` printed: join its accesses by line.", show_default=False
        ),
    ] = None,
    sass: Annotated[bool, typer.Option("--sass", help="A table by instruction too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Explain the counters of a profiled kernel: bank conflicts, sectors, what is neither, and the fix.

    layoutalg profile report.ncu-rep --kernel transpose
    """
    from layoutalg.profiling import (
        HEADER,
        SASS_HEADER,
        explain_launch,
        finding_notes,
        finding_rows,
        launch_fields,
        read_report,
        sass_rows,
        title_of,
    )

    name, accesses = (None, ()) if source is None else _accesses(source)
    read = read_report(report, kernel)
    found = [(launch, explain_launch(launch, name, accesses)) for launch in read.launches]
    if as_json:
        say_json(
            header("profile")
            | {"report": read.file, "kernels": list(read.names)}
            | {"launches": [launch_fields(launch, findings) for launch, findings in found]}
        )
        return
    for launch, findings in found:
        say(table(title_of(launch), HEADER, finding_rows(findings)))
        if sass:
            say(table("By instruction", SASS_HEADER, sass_rows(launch)))
        for line in finding_notes(launch, findings):
            say(line)


def _accesses(path: Path) -> tuple[str, Any]:
    """The file that was read and its accesses, from what `layoutalg kernel --json` printed."""
    try:
        read = json.loads(read_source(str(path)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ParseError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(read, dict) or "accesses" not in read:
        raise ParseError(f"{path.name} has no accesses: it is not what layoutalg kernel FILE --json prints")
    return str(read.get("file") or path.with_suffix(".cu").name), read["accesses"]
