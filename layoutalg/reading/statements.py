"""Statements of an index function, run once over terms: assignments, branches, loops of known length.

The idea.  A reader, of C or of Python, makes these records of a function's body; an expression is a function
from the values of the names so far to a term.  Running them gives the one term that the function returns:
both sides of a branch are run and chosen from, loops and calls are written out.

>>> from layoutalg.reading.terms import number, variable
>>> body = (Set("n", lambda env: number(4)), Return(lambda env: env["n"]))
>>> run(body, {}, "f").value
4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from layoutalg.errors import ParseError
from layoutalg.limits import Most
from layoutalg.reading.terms import CType, Term, apply, converted

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


def chain(first: Expression, rest: Sequence[tuple[str, Expression, str]]) -> Expression:
    """first op x op y ..., from the left; each of `rest` is an operator, an operand and where it is."""

    def value(env: Environment) -> Term:
        made = first(env)
        for op, operand, place in rest:  # a loop: a sum may be longer than the stack is deep
            made = apply(op, (made, operand(env)), place)
        return made

    return value if rest else first


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
    returned: list[tuple[Term, Term | None]] = []  # when the function is left before, and with what
    while waiting:
        steps.spend(what)
        s = waiting.pop()
        match s:
            case Set(name, value, ctype):
                env[name] = converted(value(env), ctype)
            case Return(value):
                return _chosen(returned, converted(value(env), result))
            case Branch(condition, taken, other):
                chosen = condition(env)
                if chosen.op == "const":
                    waiting += reversed(taken if chosen.value else other)
                elif _returns(taken) or _returns(other):
                    yes = _run([*taken, *waiting[::-1]], dict(env), what, steps, result)
                    returned.append((chosen, yes))
                    waiting += reversed(other)
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


def _chosen(returned: list[tuple[Term, Term | None]], last: Term) -> Term | None:
    """The value of a function that is left under conditions, the first one first; None where one has none."""
    for condition, value in reversed(returned):
        if value is None:
            return None
        last = apply("?", (condition, value, last))
    return last


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
