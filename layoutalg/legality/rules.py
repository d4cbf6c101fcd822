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

Notes.  Questions return a report; `Legality.require` raises instead.  `fix` holds the nearest change as
arguments of the same question, so a program can apply it; several broken rules may need several rounds.

Comparison with CUTLASS.  There illegal layouts fail a static_assert in a header, illegal tensor maps an error
code of the driver without a reason, and misaligned swizzles nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from layoutalg.arch import Provenance
from layoutalg.errors import AlignmentError, ShapeError, UnsupportedError
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
