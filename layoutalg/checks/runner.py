"""Checks run one after the other, and their numbers against those of a baseline.

A check passes or fails, is undecided where not all that its limits speak of was looked at, or is not
answered: an access that does not fit its tile, a search that ran out of its budget.  Only what passes is
green.

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

from layoutalg.answers import Positive
from layoutalg.checks.fields import Evidence
from layoutalg.checks.file import Check, CheckFile
from layoutalg.checks.limits import (
    BASELINE,
    RELATIONS,
    Limit,
    Number,
    Properties,
    Quantities,
    broken_limit,
    judged,
    number_text,
    scope_names,
    shown_quantity,
    worse_than,
)
from layoutalg.errors import LayoutAlgError, ParseError, printable
from layoutalg.limits import Most
from layoutalg.testing import Scope, Verdict, verdict, worst_of

Status: TypeAlias = Verdict | Literal["unanswered"]
Baseline: TypeAlias = "Mapping[str, Mapping[str, Number]]"

BASELINE_SCHEMA = "layoutalg/baseline/1"
"""Value of the field `schema` of a baseline file."""

MAX_EVIDENCE = 100
"""The most lines of a source that are reported for one check."""

_FRACTION = re.compile(r"[0-9]{1,20}/[1-9][0-9]{0,19}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A limit that does not hold.

    >>> Failure("ways <= 1", 7, "ways is 8, and the limit is ways <= 1").line
    7
    """

    limit: str
    line: Positive
    why: str


@dataclass(frozen=True, slots=True)
class Examined:
    """A limit with its verdict, the quantity that is shown for it, and the examined part of its scope.

    >>> Examined("conflict-free", "passed", "ways", Scope("accesses", 3, missed=1)).shown(1)
    'ways 1 in 3 of 4 read'
    """

    limit: str
    verdict: Verdict
    quantity: str
    scope: Scope

    def shown(self, number: Number | None) -> str:
        """The quantity with its number, None where it has none, and with how much was read if not all."""
        seen, missed = self.scope.seen, self.scope.missed
        text = f"{self.quantity} {'unknown' if number is None or not seen else number_text(number)}"
        return f"{text} in {seen} of {seen + missed} read" if missed else text


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a check: its numbers, what failed, what is worth knowing, its seconds.

    `evidence` are lines of the source of a check that does not pass, at most MAX_EVIDENCE;
    `examined` has an entry for each limit, none where the check is not answered.

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
    examined: tuple[Examined, ...] = ()

    @property
    def measured(self) -> tuple[str, ...]:
        """The quantities of the limits, each with its number and with how much of its accesses was read."""
        shown = (part.shown(self.numbers.get(part.quantity)) for part in self.examined if part.quantity)
        return tuple(dict.fromkeys(shown))


def run_checks(
    file: CheckFile,
    *,
    baseline: Baseline | None = None,
    compare_all: bool = False,
    writes: bool = False,
    after_each: Callable[[], object] = lambda: None,
) -> tuple[Outcome, ...]:
    """Every check of a file, in its order; `after_each` is called as each one ends.

    Checks with the limit "no worse than the baseline" are compared with `baseline`, and with `compare_all`
    every check whose name it has.  With `writes`, a baseline is about to be written: the limit says only
    whether there are numbers, of all that the check speaks of.  Raises ParseError, before anything runs,
    where such a limit is without a baseline, and where there is nothing to compare with `compare_all`.

    >>> from layoutalg.checks.file import read_checks
    >>> text = '[[layout]]\\ntile = "(8,8):(9,1)"\\nlimits = ["no worse than the baseline"]'
    >>> before = {"(8,8):(9,1)": {"cosize": 64, "bytes": 284, "extra_bytes": 28}}
    >>> (outcome,) = run_checks(read_checks(text), baseline=before)
    >>> outcome.failures[0].why
    'cosize is 71, and was 64 in the baseline'
    """
    if baseline is None and not writes:
        for check in file.checks:
            for limit in check.limits:
                if limit.name == BASELINE:
                    raise ParseError(
                        f"{file.label}, line {limit.line}, limits: {BASELINE!r} needs a baseline: write one "
                        f"first, and name it under [defaults] or with --baseline"
                    )
    if baseline is not None and compare_all:
        names = [check.name for check in file.checks if check.kind.quantities(check.values)]
        if not any(name in baseline for name in names):
            raise ParseError(
                f"{file.label}: the baseline has none of the checks of this file that have numbers, so that "
                f"nothing would be compared; write one with --write-baseline"
            )
    outcomes = []
    for check in file.checks:
        started = time.perf_counter()
        outcome = _Run(check, baseline, compare_all, writes).outcome()
        outcomes.append(replace(outcome, seconds=time.perf_counter() - started))
        after_each()
    return tuple(outcomes)


class _Run:
    """A check, its subject and what is known of it."""

    def __init__(self, check: Check, baseline: Baseline | None, compare_all: bool, writes: bool) -> None:
        self.check, self.baseline, self.compare_all, self.writes = check, baseline, compare_all, writes
        self.quantities: Quantities = check.kind.quantities(check.values)
        self.properties: Properties = check.kind.properties(check.values)
        self.subject: Any = None
        self.numbers: dict[str, Number] = {}
        self.allowed = False
        self.failures: list[Failure] = []
        self.examined: list[Examined] = []

    def outcome(self) -> Outcome:
        """The outcome of the check, its time not yet recorded."""
        check = self.check
        limit_text, line = "", check.line
        try:
            self.subject = check.kind.measured(check.values)
            measured = {name: quantity.of(self.subject) for name, quantity in self.quantities.items()}
            self.numbers = {name: number for name, number in measured.items() if number is not None}
            self.allowed = any(self._allows(limit) for limit in check.limits)
            for limit in check.limits:
                limit_text, line = limit.text, limit.line
                if limit.name != BASELINE:
                    self._limit(limit)
        except LayoutAlgError as error:
            return Outcome(check, "unanswered", {}, (Failure(limit_text, line, printable(error.message)),))
        notes = (*getattr(self.subject, "notes", ()), *self._compared())
        answer = worst_of([item.verdict for item in self.examined])
        evidence: tuple[Evidence, ...] = ()
        if answer != "passed":
            lines = islice(check.kind.evidence(self.subject), MAX_EVIDENCE)
            evidence = tuple(Evidence(item.line, printable(item.what)) for item in lines)
        return Outcome(
            check, answer, self.numbers, tuple(self.failures), notes, evidence=evidence,
            examined=tuple(self.examined),
        )  # fmt: skip

    def _allows(self, limit: Limit) -> bool:
        """Whether a limit allows what was not looked at: it bounds its number from above, and holds."""
        upper = limit.relation in RELATIONS and ">" not in limit.relation
        if not upper or limit.name != self.check.kind.allows:
            return False
        return not broken_limit(limit, self.quantities, self.properties, self.subject)

    def _scope(self, parts: Iterable[str]) -> Scope:
        """Parts of the subject as one scope, in which there is something only where it is in each of them."""
        every = [self.check.kind.scope(self.check.values, self.subject, part, self.allowed) for part in parts]
        first, *others = sorted(every, key=lambda scope: scope.seen)
        gaps = dict.fromkeys(gap for scope in every for gap in scope.gaps)
        return replace(first, gaps=tuple(gaps), missed=max(scope.missed for scope in (first, *others)))

    def _limit(self, limit: Limit) -> None:
        scope = self._scope(scope_names(limit, self.quantities, self.properties))
        answer, why = judged(limit, self.quantities, self.properties, self.subject, scope)
        shown = shown_quantity(limit, self.properties)
        self._keep(Examined(limit.text, answer, shown, scope), limit.line, [why] if why else [])

    def _keep(self, examined: Examined, line: int, why: Iterable[str]) -> None:
        self.examined.append(examined)
        self.failures += [Failure(examined.limit, line, printable(text)) for text in why]

    def _compared(self) -> Iterable[str]:
        """The limit that compares with a baseline; notes on it."""
        line = next((limit.line for limit in self.check.limits if limit.name == BASELINE), None)
        compares = self.baseline is not None and (line is not None or self.compare_all)
        if not self.quantities or not (compares or (self.writes and line is not None)):
            return ()
        before = self.numbers if self.writes else (self.baseline or {}).get(self.check.name)
        better = [n for n, quantity in self.quantities.items() if quantity.better and n in self.numbers]
        scope = self._scope(dict.fromkeys(("", *(self.quantities[n].scope for n in better))))
        if before is None:
            if line is None:
                return ("The baseline does not have this check.",)
            gap = f"the baseline has no check {self.check.name!r}"
            scope = replace(scope, gaps=(*scope.gaps, gap))
            self._keep(Examined(BASELINE, verdict(scope, broken=True), "", scope), line, [gap])
            return ()
        missing = [name for name in better if name not in before]
        gaps = (*scope.gaps, *([f"the baseline has no {', '.join(missing)} of it"] if missing else ()))
        scope = replace(scope, what="numbers to compare", seen=len(better) - len(missing), gaps=gaps)
        why = worse_than(self.quantities, self.numbers, before)
        answer = verdict(scope, broken=bool(why))
        if answer == "undecided":
            why = [f"undecided: {scope.gap}"]
        self._keep(Examined(BASELINE, answer, "", scope), self.check.line if line is None else line, why)
        return ()


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
        read = json.loads(text, object_pairs_hook=_once)
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are there once; raises ValueError for a name that is there twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n]))
        raise ValueError(f"the key {twice[:80]!r} is there twice")
    return members


def load_baseline(path: Path) -> dict[str, dict[str, Number]]:
    """The numbers of a baseline file; raises ParseError, ResourceError past Most.FILE, OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "base.json"
    ...     _ = path.write_text('{"schema": "layoutalg/baseline/1", "checks": {"a": {"ways": 1}}}')
    ...     load_baseline(path)
    {'a': {'ways': 1}}
    """
    return read_baseline(Most.FILE.read(path).decode("utf-8", errors="replace"), path.name)


def named_baseline(file: CheckFile) -> dict[str, dict[str, Number]] | None:
    """The baseline that a file of checks names, or None where it names none.

    Raises as `load_baseline`; ParseError where the file that it names is not there, or no check asks for it.

    >>> from layoutalg.checks.file import read_checks
    >>> named_baseline(read_checks('[[layout]]\\ntile = "4:1"\\nlimits = ["injective"]')) is None
    True
    """
    if file.baseline is None:
        return None
    if not any(limit.name == BASELINE for check in file.checks for limit in check.limits):
        raise ParseError(
            f"{file.label} names the baseline {file.baseline}, and no check has the limit {BASELINE!r}, so "
            f"that nothing would be compared with it"
        )
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
