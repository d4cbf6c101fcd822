"""Limits: what a check requires of the numbers and properties of its subject.

    ways <= 1                        a quantity, a relation, a number or another quantity
    wavefronts <= ideal
    efficiency >= 90%
    injective                        a property
    equals (64,64):(64,1)            a property of another layout
    no worse than the baseline       every quantity of the check against the one that was written down

Numbers are compared as fractions, so that 0.9 is nine tenths.

>>> ways = Quantity("ways", "the n of n-way conflict", "less", lambda report: report)
>>> limit = read_limit("ways <= 1", {"ways": ways}, {}, line=7)
>>> broken_limit(limit, {"ways": ways}, {}, 1), broken_limit(limit, {"ways": ways}, {}, 8)
('', 'ways is 8, and the limit is ways <= 1')
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from layoutalg.errors import ParseError, UnknownNameError, check_choice
from layoutalg.testing import Scope, Verdict, verdict

Number: TypeAlias = int | Fraction
Better: TypeAlias = Literal["less", "more"]

BASELINE = "no worse than the baseline"
"""The limit that compares with a baseline file."""

RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}

_NUMBER = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,12})?|\.[0-9]{1,12})\s*(%?)")
_COMPARISON = re.compile(r"(.*?)\s*(<=|>=|==|<|>|=)\s*(.*)", re.S)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a subject: its name in limits, what it counts, which way is better (None: neither).

    `of` is None where the subject has nothing to take it from, as the worst of no accesses.  `scope` names
    the part of the subject that the number is of, for the kind's `scope`; "" is all of it.

    >>> Quantity("half", "half of the subject", None, lambda subject: subject // 2).of(8)
    4
    """

    name: str
    what: str
    better: Better | None
    of: Callable[[Any], Number | None]
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Property:
    """A statement that is true of a subject or not: `broken` says why not, and is "" where it is true.

    A property whose name ends with a blank takes the text behind it, read by `argument`, as keys are.
    `scope` is that of a quantity; `shows` names the quantity that is shown beside the property.

    >>> even = Property("even", "a multiple of two", lambda subject, _: "" if subject % 2 == 0 else "odd")
    >>> even.broken(3, None)
    'odd'
    """

    name: str
    what: str
    broken: Callable[[Any, Any], str]
    argument: Callable[[str, Any], Any] | None = None
    scope: str = ""
    shows: str = ""


Quantities: TypeAlias = Mapping[str, Quantity]
Properties: TypeAlias = Mapping[str, Property]
Named = TypeVar("Named", Quantity, Property)


def by_name(*things: Named) -> Mapping[str, Named]:
    """Quantities or properties by the names that limits use."""
    return {thing.name: thing for thing in things}


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit as it was read: a comparison, a property with its argument, or BASELINE.

    >>> Limit("ways <= 1", 7, "ways", "<=", Fraction(1)).relation
    '<='
    """

    text: str
    line: int
    name: str
    relation: str = ""
    bound: object = None


def read_limit(
    text: str, quantities: Quantities, properties: Properties, reading: Any = None, *, line: int = 0
) -> Limit:
    """The limit of a text, for a subject with these quantities and properties; `reading` is for arguments.

    Raises ParseError and UnknownNameError, and what a property's argument raises.

    >>> read_limit("efficiency >= 90%", {"efficiency": None}, {}).bound
    Fraction(9, 10)
    """
    phrase = " ".join(text.split())
    if phrase == BASELINE or phrase in properties:
        return Limit(phrase, line, phrase)
    for name, known in properties.items():
        if known.argument is not None and phrase.startswith(name):
            return Limit(phrase, line, name, bound=known.argument(phrase.removeprefix(name), reading))
    match = _COMPARISON.fullmatch(phrase)
    if match is None:
        _unknown(phrase, quantities, properties)
    left, relation, right = match.groups()
    check_choice("quantity of a limit", left, quantities)
    if right == left:
        raise ParseError(f"{phrase!r} compares {left} with itself, and says nothing of it", text=text)
    if right in quantities:
        return Limit(phrase, line, left, relation, right)
    number = _NUMBER.fullmatch(right)
    if number is None:
        raise ParseError(
            f"{right!r} is not a number, nor a quantity of this check: accepted are numbers such as 64, 0.9 "
            f"and 90%, and {', '.join(quantities)}",
            text=text,
        )
    return Limit(phrase, line, left, relation, Fraction(number[1]) / (100 if number[2] else 1))


def _unknown(phrase: str, quantities: Quantities, properties: Properties) -> NoReturn:
    words = (*properties, *quantities, BASELINE)
    if phrase in quantities:
        raise ParseError(f"{phrase!r} has no relation: write {phrase} <= NUMBER", text=phrase)
    raise UnknownNameError("limit", phrase, [word + "LAYOUT" * word.endswith(" ") for word in words])


def broken_limit(limit: Limit, quantities: Quantities, properties: Properties, subject: Any) -> str:
    """Why the subject is beyond a limit other than BASELINE, in a sentence without its full stop; or "".

    A limit on a quantity that the subject has nothing to take from is not broken.
    """
    if not limit.relation:
        return properties[limit.name].broken(subject, limit.bound)
    value, other = quantities[limit.name].of(subject), limit.bound
    bound = quantities[other].of(subject) if isinstance(other, str) else other
    if value is None or bound is None or RELATIONS[limit.relation](value, bound):
        return ""
    beside = f" ({other} is {number_text(bound)})" if isinstance(other, str) else ""  # type: ignore[arg-type]
    return f"{limit.name} is {number_text(value)}, and the limit is {limit.text}{beside}"


def judged(
    limit: Limit, quantities: Quantities, properties: Properties, subject: Any, scope: Scope
) -> tuple[Verdict, str]:
    """The verdict of a limit other than BASELINE where `scope` was looked at, and why it does not pass.

    Where not all was examined, a limit that is broken has failed if more can only break it further.
    """
    why = broken_limit(limit, quantities, properties, subject)
    if why and scope.missed and not scope.gap and not _stays_broken(limit, quantities):
        # What is allowed to be missed may be what the limit wants.
        scope = replace(scope, gaps=(f"{scope.missed} of the {scope.what} are not read: {why}",))
    answer = verdict(scope, broken=bool(why) and (not scope.gap or _stays_broken(limit, quantities)))
    return answer, f"undecided: {scope.gap}" if answer == "undecided" else why


def _stays_broken(limit: Limit, quantities: Quantities) -> bool:
    """Whether a broken limit is broken by whatever else would be looked at.

    Counts of what is better small only grow, the worst share only falls, and no access takes fewer wavefronts
    than its ideal.
    """
    if not limit.relation:
        return True
    if isinstance(limit.bound, str) and (limit.name, limit.bound) != ("wavefronts", "ideal"):
        return False
    return limit.relation[0] == {"less": "<", "more": ">"}.get(quantities[limit.name].better or "")


def scope_names(limit: Limit, quantities: Quantities, properties: Properties) -> tuple[str, ...]:
    """The parts of a subject that a limit other than BASELINE speaks of, each once."""
    if not limit.relation:
        return (properties[limit.name].scope,)
    names = (limit.name, limit.bound) if isinstance(limit.bound, str) else (limit.name,)
    return tuple(dict.fromkeys(quantities[name].scope for name in names))


def shown_quantity(limit: Limit, properties: Properties) -> str:
    """The quantity that is shown for a limit; "" where there is none."""
    return limit.name if limit.relation else properties[limit.name].shows if limit.name in properties else ""


def worse_than(quantities: Quantities, now: Mapping[str, Number], before: Mapping[str, Number]) -> list[str]:
    """List what got worse: a sentence for each quantity that has a better direction and went the other way.

    >>> less = Quantity("ways", "the n of n-way conflict", "less", lambda report: report)
    >>> worse_than({"ways": less}, {"ways": 2}, {"ways": 1})
    ['ways is 2, and was 1 in the baseline']
    """
    return [
        f"{name} is {number_text(now[name])}, and was {number_text(before[name])} in the baseline"
        for name, quantity in quantities.items()
        if quantity.better is not None
        and name in now
        and name in before
        and (now[name] > before[name] if quantity.better == "less" else now[name] < before[name])
    ]


def number_text(number: Number) -> str:
    """A number for people: whole as it is, a fraction with four digits behind the point.

    >>> number_text(64), number_text(Fraction(2, 3))
    ('64', '0.6667')
    """
    if isinstance(number, Fraction) and number.denominator != 1:
        return f"{float(number):.4g}"
    return str(int(number))
