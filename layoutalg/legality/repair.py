"""nearest_legal: a request, changed as its broken rules say until none is broken, and checked again.

The idea.  Each violation names the nearest change as arguments of the same question.  One change may bring
another rule up, so the rules are checked again after each round; what turns out not to be needed is taken
back, and the last answer is the proof.

    TMA (64,100) f16, box (64,100), mode 128B     tma.stride      tensor (64,100):(104,1)
                                                  tma.box_inner   box (64,64)

>>> from layoutalg.layout import Layout
>>> from layoutalg.legality.tma import check_tma
>>> asked = {"tensor": Layout((64, 100), (100, 1)), "box": (64, 100), "element": "f16", "mode": "128B"}
>>> found = nearest_legal(check_tma, asked)
>>> found.changes, found.report.legal
({'tensor': Layout((64, 100), (104, 1)), 'box': (64, 64)}, True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from layoutalg.errors import ArgumentTypeError, LayoutAlgError, check_type, shown
from layoutalg.legality.rules import Legality

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
