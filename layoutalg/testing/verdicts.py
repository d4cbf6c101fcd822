"""Verdicts of gates: what turns counts into "passed", and why a gate that looked at nothing does not pass.

The idea.  A limit speaks of something: accesses to shared memory, checks of a kernel, cases of a law.  It
passes only where all of that was looked at and none of it breaks the limit.  Three answers are possible:

    failed       something that was looked at breaks the limit, whatever else there is
    undecided    nothing that was looked at does, and not all was looked at, or there was nothing to look at
    passed       all was looked at, and there was something

Every gate calls `verdict`: the checks of `layoutalg ci` and of its plugin for pytest, `layoutalg verify`, and
sweeps of random cases.  An empty list, of which `all` is true, is undecided.

>>> seen = Scope("accesses to shared memory", 3)
>>> verdict(seen, broken=False)
'passed'
>>> part = Scope("accesses to shared memory", 3, ("1 access is not read: line 7, ld.shared.b32 s",))
>>> verdict(part, broken=False), verdict(part, broken=True)
('undecided', 'failed')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["passed", "failed", "undecided"]
"""An answer of a gate."""

MOST_LISTED = 5
"""Things that a sentence lists before it counts the others."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The things that a limit speaks of: their name, how many were looked at, and clauses of what was not.

    `missed` counts what was not looked at; what a limit allows is counted, and has no clause in `gaps`.

    >>> Scope("coordinates", 4096).gap
    ''
    """

    what: str
    seen: int
    gaps: tuple[str, ...] = ()
    missed: int = 0

    @property
    def gap(self) -> str:
        """Why no limit passes here, in clauses without a full stop; "" where one may.

        >>> Scope("accesses to shared memory", 0).gap
        'there are no accesses to shared memory'
        """
        if self.gaps:
            return "; ".join(self.gaps)
        return "" if self.seen > 0 else f"there are no {self.what}"


def verdict(scope: Scope, *, broken: bool) -> Verdict:
    """The verdict of a limit on a scope; `broken` says that something that was looked at breaks it.

    >>> verdict(Scope("checks", 0), broken=False)
    'undecided'
    """
    if broken:
        return "failed"
    return "undecided" if scope.gap else "passed"


def all_pass(what: str, results: Iterable[bool]) -> bool:
    """True where there are results and all of them are true: `all` for gates; `what` names them.

    >>> all_pass("checks", [True, True]), all_pass("checks", [True, False]), all_pass("checks", [])
    (True, False, False)
    """
    every = list(results)
    return verdict(Scope(what, len(every)), broken=not all(every)) == "passed"


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of several limits together: the worst of them; without any, undecided.

    >>> worst_of(["passed", "undecided"]), worst_of(["undecided", "failed"]), worst_of([])
    ('undecided', 'failed', 'undecided')
    """
    failed = "failed" in verdicts
    gaps = ("a limit is undecided",) if "undecided" in verdicts else ()
    return verdict(Scope("limits", len(verdicts), gaps), broken=failed)


def listed(things: Sequence[str]) -> str:
    """Things in a clause, the first MOST_LISTED of them by name.

    >>> listed(["line 3", "line 8"]), listed([f"line {n}" for n in range(1, 8)])
    ('line 3; line 8', 'line 1; line 2; line 3; line 4; line 5; and 2 more')
    """
    names = list(things[:MOST_LISTED])
    if len(things) > MOST_LISTED:
        names.append(f"and {len(things) - MOST_LISTED} more")
    return "; ".join(names)
