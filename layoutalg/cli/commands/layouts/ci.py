"""`layoutalg ci`: a file of checks, run in one process, with the outcomes in the form that a CI reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from layoutalg.cli.files import read_source, write_whole
from layoutalg.cli.options import argument, one_of, option
from layoutalg.cli.output import Table, json_text, progress, say, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.errors import ArgumentTypeError, UnknownNameError, check_choice

if TYPE_CHECKING:
    from layoutalg.checks import Outcome, Results

FORMS = ("table", "json", "junit", "sarif", "github")
BY_SUFFIX = {".json": "json", ".xml": "junit", ".sarif": "sarif"}

OutputsOption: TypeAlias = Annotated[
    list[Path] | None,
    option(
        "Also write a report to this file: .xml (JUnit), .sarif or .json. May be repeated.", "--output", "-o"
    ),
]


def ci_command(
    file: Annotated[
        str | None,
        argument(
            "A file of checks; - reads standard input. Default: layoutalg.toml, or pyproject.toml with "
            "a table [tool.layoutalg]."
        ),
    ] = None,
    form: Annotated[
        str,
        option(
            "table, json, junit, sarif or github (annotations).",
            "--format",
            complete=one_of("table", "json", "junit", "sarif", "github"),
        ),
    ] = "table",
    output: OutputsOption = None,
    baseline: Annotated[Path | None, "Fail if a number is worse than in this file."] = None,
    write_baseline: Annotated[Path | None, "Write the numbers of all checks to this file."] = None,
) -> int:
    """Run a file of checks: limits on layouts, accesses, index functions and kernels.

    layoutalg ci --format github --output checks.xml --baseline layouts.json

    Index functions that it names are executed, in a separate process with limits. Exits 1 if a check does not
    pass: a limit is broken, or it is undecided because an access that it speaks of is not read; 2 if the file
    is not understood.
    """
    from layoutalg.checks import (
        Results,
        baseline_text,
        failure_lines,
        find_check_file,
        load_baseline,
        load_checks,
        named_baseline,
        read_checks,
        run_checks,
    )

    check_choice("format", form, FORMS)
    if wants_json() and form not in ("table", "json"):
        raise ArgumentTypeError(f"--json is --format json; leave one of --json and --format {form} out")
    forms = {path: _form_of(path) for path in output or ()}
    if file == "-":
        path, checks = Path("stdin"), read_checks(read_source("-"), "standard input")
    else:
        path = find_check_file(Path()) if file is None else Path(file)
        checks = load_checks(path)
    if write_baseline is not None:
        if baseline is not None:
            raise ArgumentTypeError("--baseline and --write-baseline: compare or write, not both")
        before = None
    else:
        before = named_baseline(checks) if baseline is None else load_baseline(baseline)
    with progress("running checks", len(checks.checks), quiet=form != "table") as step:
        outcomes = run_checks(
            checks, baseline=before, compare_all=baseline is not None, writes=write_baseline is not None,
            after_each=step,
        )  # fmt: skip
    results = Results(path.as_posix(), outcomes)
    for target, kind in forms.items():
        write_whole(target, _text(kind, results).encode())
    if write_baseline is not None:
        write_whole(write_baseline, baseline_text(outcomes).encode(), private=True)
    if wants_json() or form != "table":
        sys.stdout.write(_text("json" if wants_json() else form, results))
    else:
        say(*_tables(results), *failure_lines(results), *_notes(outcomes), *_said(forms, write_baseline))
    return 0 if results.passed == len(outcomes) else FAILED


def _form_of(path: Path) -> str:
    form = BY_SUFFIX.get(path.suffix)
    if form is None:
        raise UnknownNameError("ending of --output", path.suffix or path.name, BY_SUFFIX)
    return form


def _text(form: str, results: Results) -> str:
    from layoutalg.checks import FORMATS, check_answer

    if form == "json":
        return json_text(check_answer(results))
    return FORMATS[form](results)


def _tables(results: Results) -> list[Table]:
    rows = [
        (outcome.check.name, outcome.check.kind.name, ", ".join(outcome.measured), outcome.status)
        for outcome in results.outcomes
    ]
    title = f"{results.path}: {results.passed} of {len(rows)} checks pass"
    return [Table(title, ("check", "kind", "measured", "result"), rows, left=3)]


def _notes(outcomes: tuple[Outcome, ...]) -> list[str]:
    checks = {note: outcome.check.name for outcome in reversed(outcomes) for note in outcome.notes}
    return [f"{name}: {note}" for note, name in reversed(checks.items())]


def _said(forms: dict[Path, str], write_baseline: Path | None) -> list[str]:
    written = [str(path) for path in (*forms, write_baseline) if path is not None]
    return [f"Wrote {', '.join(written)}."] if written else []
