"""Checks run one after the other, and their numbers against those of a baseline.

A check passes, fails, or is not answered: an access that does not fit its tile, a search that ran out of its
budget.  What is not answered does not pass.

A baseline is a JSON object, by the names of the checks:

    {"schema": "layoutalg/baseline/1", "checks": {"loads of A": {"wavefronts": 64, "efficiency": "9/10"}}}

>>> from layoutalg.checks.file import read_checks
>>> text = '[[access]]\\ntile = "(64,64):(64,2)"\\naccess = "ld.shared.b32"\\nlimits = ["ways <= 1"]'
>>> (outcome,) = run_checks(read_checks(text))
>>> outcome.status, outcome.failures[0].why
('failed', 'ways is 2, and the limit is ways <= 1')
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from layoutalg.checks.fields import Evidence
from layoutalg.checks.file import Check, CheckFile
from layoutalg.checks.limits import BASELINE, Number, broken_limit, worse_than
from layoutalg.errors import LayoutAlgError, ParseError, ResourceError, printable

Status: TypeAlias = Literal["passed", "failed", "unanswered"]
Baseline: TypeAlias = "Mapping[str, Mapping[str, Number]]"

BASELINE_SCHEMA = "layoutalg/baseline/1"
"""Value of the field `schema` of a baseline file."""

MAX_BASELINE_BYTES = 16 << 20
"""Largest baseline file."""

MAX_EVIDENCE = 100
"""Most lines of a source that are told of one check."""

_FRACTION = re.compile(r"[0-9]{1,20}/[1-9][0-9]{0,19}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A limit that is broken, the line that states it, and why.

    >>> Failure("ways <= 1", 7, "ways is 8, and the limit is ways <= 1").line
    7
    """

    limit: str
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check has come to: its numbers, what failed, what is worth knowing, its seconds.

    `evidence` are lines of the source that a check is about which has failed, at most MAX_EVIDENCE.

    >>> from layoutalg.checks.file import read_checks
    >>> text = '[[layout]]\\ntile = "(8,8):(9,1)"\\nlimits = ["injective", "extra_bytes <= 64"]'
    >>> (outcome,) = run_checks(read_checks(text))
    >>> outcome.status, outcome.numbers["extra_bytes"]
    ('passed', 28)
    """

    check: Check
    status: Status
    numbers: Mapping[str, Number]
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    evidence: tuple[Evidence, ...] = ()


def run_checks(
    file: CheckFile,
    *,
    baseline: Baseline | None = None,
    compare_all: bool = False,
    after_each: Callable[[], object] = lambda: None,
) -> tuple[Outcome, ...]:
    """Every check of a file, in its order; `after_each` is called as each one ends.

    Checks with the limit "no worse than the baseline" are compared with `baseline`, and with `compare_all`
    every check whose name it has.  Raises ParseError, before anything runs, where such a limit stands
    without a baseline.

    >>> from layoutalg.checks.file import read_checks
    >>> text = '[[layout]]\\ntile = "(8,8):(9,1)"\\nlimits = ["no worse than the baseline"]'
    >>> (outcome,) = run_checks(read_checks(text), baseline={"(8,8):(9,1)": {"cosize": 64}})
    >>> outcome.failures[0].why
    'cosize is 71, and was 64 in the baseline'
    """
    if baseline is None:
        for check in file.checks:
            for limit in check.limits:
                if limit.name == BASELINE:
                    raise ParseError(
                        f"{file.label}, line {limit.line}, limits: {BASELINE!r} needs a baseline: write one "
                        f"first, and name it under [defaults] or with --baseline"
                    )
    found = []
    for check in file.checks:
        started = time.perf_counter()
        outcome = _answered(check, baseline, compare_all)
        found.append(replace(outcome, seconds=time.perf_counter() - started))
        after_each()
    return tuple(found)


def _answered(check: Check, baseline: Baseline | None, compare_all: bool) -> Outcome:
    """The outcome of a check, its time not yet told."""
    values = check.values
    quantities, properties = check.kind.quantities(values), check.kind.properties(values)
    limit_text, line = "", check.line
    try:
        subject = check.kind.measured(values)
        numbers = {name: quantity.of(subject) for name, quantity in quantities.items()}
        failures = []
        for limit in check.limits:
            limit_text, line = limit.text, limit.line
            if limit.name != BASELINE:
                why = broken_limit(limit, quantities, properties, subject)
                failures += [Failure(limit.text, limit.line, printable(why))] if why else []
    except LayoutAlgError as error:
        return Outcome(check, "unanswered", {}, (Failure(limit_text, line, printable(error.message)),))
    notes = tuple(getattr(subject, "notes", ()))
    asked = next((limit.line for limit in check.limits if limit.name == BASELINE), None)
    if baseline is not None and quantities and (asked is not None or compare_all):
        before = baseline.get(check.name)
        if before is not None:
            worse = worse_than(quantities, numbers, before)
            judged = [name for name, quantity in quantities.items() if quantity.better is not None]
            lacking = [name for name in judged if name not in before]
            if judged and lacking == judged:
                worse = [f"the baseline has no number of the check {check.name!r}"]
            elif lacking:
                notes = (*notes, f"The baseline of this check does not have: {', '.join(lacking)}.")
            failures += [Failure(BASELINE, check.line if asked is None else asked, why) for why in worse]
        elif asked is not None:
            failures.append(Failure(BASELINE, asked, f"the baseline has no check {check.name!r}"))
        else:
            notes = (*notes, "The baseline does not have this check.")
    if not failures:
        return Outcome(check, "passed", numbers, (), notes)
    evidence = islice(check.kind.evidence(subject), MAX_EVIDENCE)
    told = tuple(Evidence(one.line, printable(one.what)) for one in evidence)
    return Outcome(check, "failed", numbers, tuple(failures), notes, evidence=told)


# --- baselines ---------------------------------------------------------------------------------------------


def baseline_text(outcomes: Iterable[Outcome]) -> str:
    """The text of a baseline file: the numbers of every check that has some.

    >>> from layoutalg.checks.file import read_checks
    >>> text = '[[layout]]\\ntile = "4:2"\\nlimits = ["injective"]'
    >>> read_baseline(baseline_text(run_checks(read_checks(text))))["4:2"]["cosize"]
    7
    """
    checks = {
        outcome.check.name: {name: exact_json(number) for name, number in outcome.numbers.items()}
        for outcome in outcomes
        if outcome.numbers
    }
    return json.dumps({"schema": BASELINE_SCHEMA, "checks": checks}, indent=2, sort_keys=True) + "\n"


def exact_json(number: Number) -> int | str:
    """A number as JSON keeps it exactly: an integer, or a text "9/10"."""
    if isinstance(number, Fraction) and number.denominator != 1:
        return f"{number.numerator}/{number.denominator}"
    return int(number)


def read_baseline(text: str, label: str = "the baseline") -> dict[str, dict[str, Number]]:
    """The numbers of a baseline's text; raises ParseError for anything else.

    >>> read_baseline("[]")
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: the baseline is no baseline: "schema" is not "layoutalg/baseline/1"; write
    one with --write-baseline
    """
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{label} is not JSON: {printable(str(error))}") from None
    if not isinstance(read, dict) or read.get("schema") != BASELINE_SCHEMA:
        raise ParseError(
            f'{label} is no baseline: "schema" is not "{BASELINE_SCHEMA}"; write one with --write-baseline'
        )
    checks = read.get("checks")
    if not isinstance(checks, dict) or not all(isinstance(numbers, dict) for numbers in checks.values()):
        raise ParseError(f'{label} is no baseline: "checks" is not an object of objects')
    return {
        name: {key: _number(label, name, key, value) for key, value in numbers.items()}
        for name, numbers in checks.items()
    }


def load_baseline(path: Path) -> dict[str, dict[str, Number]]:
    """The numbers of a baseline file; raises ParseError, ResourceError past MAX_BASELINE_BYTES, OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "base.json"
    ...     _ = path.write_text('{"schema": "layoutalg/baseline/1", "checks": {"a": {"ways": 1}}}')
    ...     load_baseline(path)
    {'a': {'ways': 1}}
    """
    with path.open("rb") as file:
        raw = file.read(MAX_BASELINE_BYTES + 1)
    if len(raw) > MAX_BASELINE_BYTES:
        size = max(len(raw), path.stat().st_size)
        raise ResourceError(f"size of {path.name} in bytes", size, MAX_BASELINE_BYTES)
    return read_baseline(raw.decode("utf-8", errors="replace"), path.name)


def named_baseline(file: CheckFile) -> dict[str, dict[str, Number]] | None:
    """The baseline that a file of checks names, or None where it names none.

    Raises as `load_baseline`; ParseError where the file that it names is not there.

    >>> from layoutalg.checks.file import read_checks
    >>> named_baseline(read_checks('[[layout]]\\ntile = "4:1"\\nlimits = ["injective"]')) is None
    True
    """
    if file.baseline is None:
        return None
    try:
        return load_baseline(file.baseline)
    except FileNotFoundError:
        raise ParseError(
            f"{file.label}: the baseline {file.baseline} is not there; write it with --write-baseline"
        ) from None


def _number(label: str, name: str, key: str, value: Any) -> Number:
    if type(value) is int:
        return value
    if isinstance(value, str) and _FRACTION.fullmatch(value):
        return Fraction(value)
    raise ParseError(
        f"{label}, {printable(name[:80])!r}, {printable(key[:80])}: {printable(repr(value)[:60])} is not a "
        f'whole number, nor a fraction such as "9/10"'
    )
