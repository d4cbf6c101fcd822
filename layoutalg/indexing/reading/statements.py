"""Statements of an index function, run once over terms: assignments, branches, loops of known length.

The idea.  A reader, of C or of Python, makes these records of a function's body; an expression is a function
from the values of the names so far to a term.  Running them gives the one term that the function returns:
both sides of a branch are run and chosen from, loops and calls are written out.

>>> from layoutalg.indexing.reading.terms import number, variable
>>> body = (Set("n", lambda env: number(4)), Return(lambda env: env["n"]))
>>> run(body, {}, "f").value
4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from layoutalg.errors import ParseError
from layoutalg.indexing.reading.terms import CType, Term, apply, converted
from layoutalg.limits import Most

Environment: TypeAlias = "dict[str, Term]"
Expression: TypeAlias = Callable[[Environment], Term]


@dataclass(frozen=True, slots=True)
class Set:
    """A name gets a value, in the type it is declared with."""

    name: str
    value: Expression
    ctype: CType | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """The value of the function."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Branch:
    """if (condition) taken else other"""

    condition: Expression
    taken: tuple[Statement, ...]
    other: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """while (condition) body; its condition must be known before the function runs."""

    condition: Expression
    body: tuple[Statement, ...]
    place: str


Statement: TypeAlias = "Set | Return | Branch | Loop"


class Steps:
    """A count of the statements that are run, over all calls."""

    def __init__(self) -> None:
        self.count = 0

    def spend(self, what: str) -> None:
        """Count one."""
        self.count += 1
        Most.STATEMENTS.guard(self.count, f"statements that {what} runs")


def run(
    body: Iterable[Statement],
    env: Mapping[str, Term],
    what: str,
    steps: Steps | None = None,
    result: CType | None = None,
) -> Term:
    """The term that `body` returns, in the type `result`; raises ParseError where it ends without a return.

    `what` names the function in errors.  Raises ResourceError past Most.STATEMENTS.
    """
    counted = steps or Steps()
    term = _run([*body], dict(env), what, counted, result)
    if term is None:
        raise ParseError(f"{what} can end without returning a value")
    return term


def _run(
    body: list[Statement], env: Environment, what: str, steps: Steps, result: CType | None
) -> Term | None:
    """Runs statements, last first out of `waiting`; changes `env`."""
    waiting = body[::-1]
    while waiting:
        steps.spend(what)
        s = waiting.pop()
        match s:
            case Set(name, value, ctype):
                env[name] = converted(value(env), ctype)
            case Return(value):
                return converted(value(env), result)
            case Branch(condition, taken, other):
                chosen = condition(env)
                if chosen.op == "const":
                    waiting += reversed(taken if chosen.value else other)
                elif _returns(taken) or _returns(other):
                    rest = waiting[::-1]
                    yes = _run([*taken, *rest], dict(env), what, steps, result)
                    no = _run([*other, *rest], dict(env), what, steps, result)
                    return None if yes is None or no is None else apply("?", (chosen, yes, no))
                else:
                    _merge(chosen, taken, other, env, what, steps)
            case Loop(condition, inner, position):
                again = condition(env)
                if again.op != "const":
                    raise ParseError(f"{position}: this loop's length is not known before {what} runs")
                if again.value:
                    waiting.append(s)
                    waiting += reversed(inner)
    return None


def _returns(body: Iterable[Statement]) -> bool:
    for s in body:
        if isinstance(s, Return):
            return True
        if isinstance(s, Branch) and (_returns(s.taken) or _returns(s.other)):
            return True
        if isinstance(s, Loop) and _returns(s.body):
            return True
    return False


def _merge(
    chosen: Term,
    taken: tuple[Statement, ...],
    other: tuple[Statement, ...],
    env: Environment,
    what: str,
    steps: Steps,
) -> None:
    """Run both sides of a branch that goes on after them; names have the one value or the other."""
    sides = dict(env), dict(env)
    for side, part in zip(sides, (taken, other), strict=True):
        _run([*part], side, what, steps, None)
    for name in {*sides[0], *sides[1]}:
        a, b = sides[0].get(name), sides[1].get(name)
        if a is None or b is None:
            env.pop(name, None)  # it has a value on one side alone, and may not be read after
        elif a is not b:
            env[name] = apply("?", (chosen, a, b))
        else:
            env[name] = a
