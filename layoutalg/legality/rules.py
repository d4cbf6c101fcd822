"""Legality: which hardware rules a request breaks, and the nearest request that keeps them.

The idea.  A copy or an instruction that the hardware refuses (or, worse, carries out differently) breaks a
rule that is written down somewhere.  A report lists the broken rules, each with what was asked, what would be
accepted and the nearest change; without broken rules it holds the request, ready to use.

>>> from layoutalg.legality import check_tma
>>> from layoutalg.layout import Layout
>>> report = check_tma(Layout((4096, 1024), (1024, 1)), (64, 128), "f16", mode="128B")
>>> print(report)
TMA of f16 (4096,1024):(1024,1) in boxes (64,128), mode 128B: illegal
  tma.box_inner: the innermost box side is 128 elements = 256 bytes; accepted are multiples of 16 bytes, \
at most 128 in mode 128B; nearest: 2 boxes of 64, or mode none
>>> dict(report.violations[0].fix)
{'box': (64, 64)}

`fix` holds the nearest change as arguments of the same question.  One change may bring another rule up, so
`nearest_legal` checks again after each round of changes; what turns out not to be needed is taken back, and
the last answer is the proof.

    TMA (64,100) f16, box (64,100), mode 128B     tma.stride      tensor (64,100):(104,1)
                                                  tma.box_inner   box (64,64)

>>> asked = {"tensor": Layout((64, 100), (100, 1)), "box": (64, 100), "element": "f16", "mode": "128B"}
>>> found = nearest_legal(check_tma, asked)
>>> found.changes, found.report.legal
({'tensor': Layout((64, 100), (104, 1)), 'box': (64, 64)}, True)

Notes.  Questions return a report; `Legality.require` raises instead.

Comparison with CUTLASS.  There illegal layouts fail a static_assert in a header, illegal tensor maps an error
code of the driver without a reason, and misaligned swizzles nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from layoutalg.arch import Provenance, sizes_text
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    LayoutAlgError,
    ShapeError,
    UnsupportedError,
    check_type,
    shown,
)
from layoutalg.notebook import Shown

T = TypeVar("T")

Refusal: TypeAlias = "type[ShapeError] | type[AlignmentError] | type[UnsupportedError]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, what it says, where that is written, and the error that `require` raises.

    `provenance` is "documented" for what a manual states, "measured" for what hardware showed, "assumed" for
    conclusions that neither states.

    >>> Rule("toy.size", "at most 4", "a toy's manual").provenance
    'documented'
    """

    name: str
    text: str
    source: str
    error: Refusal = ShapeError
    provenance: Provenance = "documented"

    def broken(
        self, asked: str, accepted: str, change: str, witness: object = None, **fix: object
    ) -> Violation:
        """A violation of this rule; `fix` is the nearest change as arguments of the question."""
        return Violation(self, asked, accepted, change, tuple(fix.items()), witness)

    def mended(self, asked: str, accepted: Sequence[object], **fix: object) -> Violation:
        """A violation of this rule that the values of `fix` mend, the first of which says it in words."""
        return self.broken(asked, sizes_text(accepted), str(next(iter(fix.values()))), **fix)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: `asked` and `accepted` say how, `change` is the nearest legal request in words.

    `fix` is that change as (argument, value) pairs of the question that was asked; empty where no change
    of arguments helps.  `witness` is a coordinate at which the rule fails, where it fails at one.

    >>> rule = Rule("toy.size", "at most 4", "a toy's manual")
    >>> print(Violation(rule, "the size is 5", "1 to 4", "4", (("size", 4),)))
    toy.size: the size is 5; accepted are 1 to 4; nearest: 4
    """

    rule: Rule
    asked: str
    accepted: str
    change: str
    fix: tuple[tuple[str, object], ...] = ()
    witness: object = None

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.asked}; accepted are {self.accepted}; nearest: {self.change}"


@dataclass(frozen=True, slots=True)
class Legality(Shown, Generic[T]):
    """The answer to a question of legality: no violations and a `result`, or violations and None.

    `notes` are facts that are legal but easily overlooked; `rules` are those that the request was held
    against, and all but the `broken` ones hold.

    >>> Legality("a toy", result=4).require()
    4
    """

    subject: str
    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()
    result: T | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def legal(self) -> bool:
        """True when no rule is broken."""
        return not self.violations

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the broken rules, in the order in which they were found, each once."""
        return tuple(dict.fromkeys(violation.rule.name for violation in self.violations))

    @property
    def holding(self) -> tuple[str, ...]:
        """The names of the rules that the request was held against and keeps."""
        return tuple(rule.name for rule in self.rules if rule.name not in self.broken)

    def require(self) -> T:
        """The result; raises the error of the first broken rule, whose message lists all of them."""
        if self.result is None or self.violations:
            first = self.violations[0].rule.error if self.violations else UnsupportedError
            listed = "; ".join(map(str, self.violations)) or "there is no result"
            raise first(f"{self.subject}: {listed}")
        return self.result

    def __str__(self) -> str:
        head = f"{self.subject}: {'legal' if self.legal else 'illegal'}"
        return "\n  ".join([head, *map(str, self.violations), *(f"note: {note}" for note in self.notes)])


ROUNDS = 16
"""The most times that a request is changed and checked again."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A legal request: `changes` are the arguments that differ from the request, `report` its verdict."""

    changes: dict[str, object]
    report: Legality[Any]


def nearest_legal(check: Callable[..., Legality[Any]], asked: Mapping[str, object]) -> Repair | None:
    """The arguments `asked` of `check`, with the fixes of its violations applied; None if these fail.

    `asked` are all arguments by name.  A request that is legal comes back without changes.  None where a
    broken rule has no fix, and where a legal request is not reached within ROUNDS.  Defaults that have to
    change are among the changes.  Raises ArgumentTypeError for `asked` that is not a mapping.

    >>> from layoutalg.legality.memory import check_memory
    >>> from layoutalg.layout import Layout
    >>> request = {"op": "cp.async.cg.12", "layout": Layout((8, 12), (12, 1)), "element": "f16"}
    >>> nearest_legal(check_memory, request).changes
    {'op': 'cp.async.ca.8'}
    """
    if not callable(check):
        raise ArgumentTypeError(f"nearest_legal of {shown(check)}: a check of legality is needed")
    check_type("nearest_legal", asked, Mapping, "a mapping of arguments by name")
    arguments = dict(asked)
    for _ in range(ROUNDS):
        report = check(**arguments)
        check_type("nearest_legal", report, Legality, "a check that returns a report of legality")
        if report.legal:
            return _least(check, asked, arguments)
        changed = dict(pair for violation in reversed(report.violations) for pair in violation.fix)
        if not changed:
            return None
        try:
            check(**{**arguments, **changed})
        except LayoutAlgError:  # changes of several rules that do not fit together: the first alone
            changed = dict(next(violation.fix for violation in report.violations if violation.fix))
        arguments |= changed
    return None


def _least(
    check: Callable[..., Legality[Any]], request: Mapping[str, object], arguments: dict[str, object]
) -> Repair:
    """A legal request without the changes that it does not need."""
    for name in [name for name, value in arguments.items() if request.get(name) != value]:
        fewer = {other: value for other, value in arguments.items() if other != name}
        fewer |= {name: request[name]} if name in request else {}
        try:
            legal = check(**fewer).legal
        except LayoutAlgError:
            legal = False
        arguments = fewer if legal else arguments
    changes = {name: value for name, value in arguments.items() if request.get(name) != value}
    return Repair(changes, check(**arguments))
