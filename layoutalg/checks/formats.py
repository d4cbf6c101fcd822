"""Outcomes for programs: JSON, JUnit XML, SARIF 2.1.0, and GitHub's annotations.

    json      the fields of the command's JSON object
    junit     a test suite per file, a test case per check, a failure where it has failed, an error where it
              is undecided or not answered
    sarif     a rule per kind of check, a result per broken limit, at the line that states it
    github    ::error file=...,line=...::... for each broken limit, as a workflow prints it

Sources.  SARIF 2.1.0 (OASIS), sections 3.13, 3.14, 3.18, 3.19, 3.20, 3.27, 3.29 and 3.49; the JUnit schema
junit-10.xsd of Jenkins' xUnit plugin; GitHub Docs, "Workflow commands for GitHub Actions", whose values
escape %, CR and LF, and in properties : and , as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from layoutalg import __version__
from layoutalg.answers import Amount, Answer, Count, Positive, taken
from layoutalg.checks.fields import Evidence
from layoutalg.checks.file import KINDS
from layoutalg.checks.limits import Number, number_text
from layoutalg.checks.runner import Failure, Outcome

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
"""The schema that a SARIF log names."""


class Results(NamedTuple):
    """The outcomes of a file; `path` is how reports name it, with slashes, from where they are read.

    >>> Results("layoutalg.toml", ()).passed
    0
    """

    path: str
    outcomes: Sequence[Outcome]

    @property
    def passed(self) -> int:
        """Checks that pass."""
        return sum(outcome.status == "passed" for outcome in self.outcomes)

    def counted(self, status: str) -> int:
        """Checks of a status."""
        return sum(outcome.status == status for outcome in self.outcomes)


def failure_text(outcome: Outcome, failure: Failure) -> str:
    """A broken limit in a sentence.

    >>> from layoutalg.checks.file import read_checks
    >>> from layoutalg.checks.runner import run_checks
    >>> (outcome,) = run_checks(read_checks('[[layout]]\\ntile = "4:0"\\nlimits = ["injective"]'))
    >>> failure_text(outcome, outcome.failures[0])
    '4:0: coordinates 0 and 1 share the offset 0.'
    """
    lead = "not answered: " if outcome.status == "unanswered" else ""
    return f"{outcome.check.name}: {lead}{failure.why.rstrip('.')}."


def _failures(results: Results) -> Iterator[tuple[Outcome, Failure]]:
    return ((outcome, failure) for outcome in results.outcomes for failure in outcome.failures)


# --- JSON --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExaminedAnswer:
    """The verdict on a limit, and how much of its scope was examined."""

    limit: str
    verdict: Literal["passed", "failed", "undecided"]
    what: str
    seen: Count
    missed: Count


@dataclass(frozen=True)
class OutcomeAnswer:
    """The outcome of one check."""

    name: str
    kind: str
    """The name of its table in the file."""
    line: Positive
    status: Literal["passed", "failed", "undecided", "unanswered"]
    limits: tuple[str, ...]
    numbers: Mapping[str, float]
    """Every quantity of the check that has a value, by the name that limits use; for kernels, of what is
    read."""
    examined: tuple[ExaminedAnswer, ...]
    """A verdict for each limit; empty where the check is not answered."""
    failures: tuple[Failure, ...]
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...]
    seconds: Amount


@dataclass(frozen=True)
class CheckAnswer(Answer, command="ci"):
    """The outcomes of a file of checks; exit code 1 where one does not pass."""

    file: str
    passed: Count
    failed: Count
    undecided: Count
    """Checks that break no limit, and of which not all was looked at; they do not pass."""
    unanswered: Count
    """Checks that could not be answered; they do not pass."""
    checks: tuple[OutcomeAnswer, ...]


def check_answer(results: Results) -> CheckAnswer:
    """The record of the outcomes, which the command `ci` prints as JSON.

    >>> check_answer(Results("layoutalg.toml", ()))
    CheckAnswer(file='layoutalg.toml', passed=0, failed=0, undecided=0, unanswered=0, checks=())
    """
    passed, failed, *others = map(results.counted, ("passed", "failed", "undecided", "unanswered"))
    outcomes = tuple(map(_outcome_answer, results.outcomes))
    return CheckAnswer(results.path, passed, failed, others[0], others[1], outcomes)


def _outcome_answer(outcome: Outcome) -> OutcomeAnswer:
    check = outcome.check
    return taken(
        OutcomeAnswer, outcome, name=check.name, kind=check.kind.name, line=check.line,
        limits=tuple(limit.text for limit in check.limits), seconds=round(outcome.seconds, 6),
        numbers={name: _json_number(number) for name, number in outcome.numbers.items()},
        examined=tuple(
            taken(ExaminedAnswer, one.scope, limit=one.limit, verdict=one.verdict) for one in outcome.examined
        ),
    )  # fmt: skip


def _json_number(number: Number) -> int | float:
    return int(number) if number == int(number) else float(number)


# --- JUnit -------------------------------------------------------------------------------------------------


def as_junit(results: Results) -> str:
    """The outcomes as JUnit XML.

    >>> print(as_junit(Results("layoutalg.toml", ())), end="")
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="layoutalg" tests="0" failures="0" errors="0" time="0.000">
    <testsuite name="layoutalg.toml" tests="0" failures="0" errors="0" skipped="0" time="0.000">
    </testsuite>
    </testsuites>
    """
    counts: dict[str, object] = {
        "tests": len(results.outcomes),
        "failures": results.counted("failed"),
        "errors": results.counted("undecided") + results.counted("unanswered"),
    }
    time = {"time": f"{sum(outcome.seconds for outcome in results.outcomes):.3f}"}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(_tag("testsuites", {"name": "layoutalg"} | counts | time))
    lines.append(_tag("testsuite", {"name": results.path} | counts | {"skipped": 0} | time))
    for outcome in results.outcomes:
        case = {
            "classname": f"layoutalg.{outcome.check.kind.name}",
            "name": outcome.check.name,
            "time": f"{outcome.seconds:.3f}",
        }
        lines.append(_tag("testcase", case))
        element = "failure" if outcome.status == "failed" else "error"
        for failure in outcome.failures:
            attributes = {"type": failure.limit or outcome.check.kind.name, "message": failure.why}
            where = f"{results.path}, line {failure.line}: {failure_text(outcome, failure)}"
            lines.append(f"{_tag(element, attributes)}{escape(where)}</{element}>")
        if outcome.numbers:
            shown = {part.quantity for part in outcome.examined}
            others = (f"{n} {number_text(x)}" for n, x in outcome.numbers.items() if n not in shown)
            said_numbers = ", ".join([*outcome.measured, *others])
            lines.append(f"<system-out>{escape(said_numbers)}</system-out>")
        lines.append("</testcase>")
    lines += ["</testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


def _tag(name: str, attributes: Mapping[str, object]) -> str:
    """An opening tag."""
    return f"<{name}{''.join(f' {key}={quoteattr(str(value))}' for key, value in attributes.items())}>"


# --- SARIF -------------------------------------------------------------------------------------------------


def as_sarif(results: Results) -> str:
    """The outcomes as a SARIF 2.1.0 log: one run, a result for each broken limit.

    >>> log = json.loads(as_sarif(Results("layoutalg.toml", ())))
    >>> log["version"], log["runs"][0]["results"]
    ('2.1.0', [])
    """
    rules = list(KINDS)
    driver = {
        "name": "layoutalg",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [
            {
                "id": f"layoutalg/{kind.name}",
                "name": kind.name.capitalize(),
                "shortDescription": {"text": f"A check of {kind.what}."},
                "defaultConfiguration": {"level": "error"},
            }
            for kind in KINDS.values()
        ],
    }
    entries = [
        {
            "ruleId": f"layoutalg/{outcome.check.kind.name}",
            "ruleIndex": rules.index(outcome.check.kind.name),
            "kind": "fail",
            "level": "error",
            "message": {"text": failure_text(outcome, failure)},
            "locations": [_location(results.path, failure.line)],
            "partialFingerprints": {"layoutalgCheck/v1": _fingerprint(outcome, failure)},
        }
        | _related(outcome)
        for outcome, failure in _failures(results)
    ]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "results": entries,
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _location(path: str, line: int | None) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    if line is not None:
        location["region"] = {"startLine": line}
    return {"physicalLocation": location}


def _related(outcome: Outcome) -> dict[str, Any]:
    """The source that a check is about."""
    source = outcome.check.source
    lines = [
        _location(source, evidence.line) | {"message": {"text": evidence.what}}
        for evidence in outcome.evidence
    ]
    return {"relatedLocations": lines or [_location(source, None)]} if source else {}


def _fingerprint(outcome: Outcome, failure: Failure) -> str:
    """The same for one limit of one check in every run, wherever its lines move."""
    return hashlib.sha256(f"{outcome.check.name}\n{failure.limit}".encode()).hexdigest()


# --- GitHub ------------------------------------------------------------------------------------------------


def as_github(results: Results) -> str:
    """The broken limits as annotations, and the sum in a line of text.

    >>> print(as_github(Results("layoutalg.toml", ())), end="")
    layoutalg.toml: 0 checks, 0 passed
    """

    def annotation(level: str, outcome: Outcome, path: str, line: int, text: str) -> str:
        title = _property(f"layoutalg {outcome.check.kind.name}")
        return f"::{level} file={_property(path)},line={line},title={title}::{_data(text)}"

    lines = [
        annotation("error", outcome, results.path, failure.line, failure_text(outcome, failure))
        for outcome, failure in _failures(results)
    ]
    lines += [
        annotation("warning", outcome, outcome.check.source, evidence.line, evidence.what)
        for outcome in results.outcomes
        for evidence in outcome.evidence
    ]
    total = len(results.outcomes)
    return "\n".join([*lines, f"{results.path}: {total} checks, {results.passed} passed"]) + "\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: Mapping[str, Callable[[Results], str]] = {"junit": as_junit, "sarif": as_sarif, "github": as_github}
"""Outcomes as text, by the name of the form; JSON is the command's."""


def failure_lines(results: Results) -> list[str]:
    """A sentence for each broken limit, with its line, and for each line of a source that is evidence of it.

    >>> list(failure_lines(Results("layoutalg.toml", ())))
    []
    """
    lines = []
    for outcome in results.outcomes:
        lines += [f"Line {failure.line}: {failure_text(outcome, failure)}" for failure in outcome.failures]
        lines += [f"{outcome.check.source}, line {part.line}: {part.what}." for part in outcome.evidence]
    return lines
