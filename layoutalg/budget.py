"""Budgets: work that is counted, so that the same question ends in the same way on every machine.

The idea.  Some questions have no closed form, and a search may take for ever.  Every procedure that searches
counts what it does in UNITS of work, about a microsecond of one core each, and stops with an UndecidedError
that says what was reached; no clock is read.  One that asks another draws from its own budget as well:

    analyze ....................................... 2,000,000
      digit classes ................. 2,000,000     spent by both
      addresses one by one .......... 2,000,000     spent by both

Whoever can wait multiplies all budgets:

>>> from layoutalg.decide import image_size
>>> from layoutalg.layout import Layout
>>> with_budget(10, image_size, Layout((6, 5), (2, 3)))
21

Notes.  A budget does not promise a time: what a unit costs depends on the machine.  `metered` says how much
work was counted, which is what tests of growth compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from layoutalg.errors import ArgumentTypeError, ShapeError, UndecidedError
from layoutalg.limits import Most

Result = TypeVar("Result")

Question: TypeAlias = "str | Callable[[], str]"
"""The question in words; a function of no arguments makes them where they are needed."""

UNITS = Most.WORK.number
"""Units of work of a question: about two seconds of one core."""

MOST_TIMES = 1_000_000
"""The largest factor by which budgets are multiplied."""


class Budget:
    """Units of work that a question may take: `spend` counts them, here and in the budget it is part of.

    >>> budget = Budget("is it so?", 3)
    >>> budget.spend(2)
    >>> budget.left
    1
    >>> budget.spend(2)
    Traceback (most recent call last):
    ...
    layoutalg.errors.UndecidedError: is it so? the budget of 3 units of work is spent
    """

    __slots__ = ("limit", "outer", "question", "reached", "spent")

    def __init__(self, question: Question, units: int | None = None, *, reached: str = "") -> None:
        self.question, self.reached = question, reached
        self.limit = (UNITS if units is None else units) * _times.get()
        self.outer = _current.get()
        self.spent = 0
        meter = _meter.get() if self.outer is None else None
        if meter is not None:
            meter.budgets.append(self)

    @property
    def left(self) -> int:
        """Units that are not spent."""
        return max(0, self.limit - self.spent)

    def spend(self, units: int = 1) -> None:
        """Count work; raises UndecidedError when that is more than there is."""
        budget: Budget | None = self
        over: Budget | None = None
        while budget is not None:
            budget.spent += units
            if budget.spent > budget.limit:
                over = budget
            budget = budget.outer
        if over is not None:
            raise over._exceeded()

    def _exceeded(self) -> UndecidedError:
        question = self.question if isinstance(self.question, str) else self.question()
        return UndecidedError(
            f"{question} {self.reached}{' ' if self.reached else ''}the budget of {self.limit} "
            f"units of work is spent",
            budget=self.limit,
        )


_times: ContextVar[int] = ContextVar("times", default=1)
_current: ContextVar[Budget | None] = ContextVar("current", default=None)
_meter: ContextVar[Meter | None] = ContextVar("meter", default=None)


def spend(units: int = 1) -> None:
    """Count work in the budget of the current question; do nothing where there is none.

    >>> with budget_of("all of it", 10):
    ...     spend(11)
    Traceback (most recent call last):
    ...
    layoutalg.errors.UndecidedError: all of it the budget of 10 units of work is spent
    """
    budget = _current.get()
    if budget is not None:
        budget.spend(units)


class budget_of:
    """A budget that every question inside draws from as well.

    A class, since closed forms open one: `contextlib.contextmanager` takes three times as long.

    >>> with budget_of("all of it", 10):
    ...     Budget("a part of it", 20).spend(11)
    Traceback (most recent call last):
    ...
    layoutalg.errors.UndecidedError: all of it the budget of 10 units of work is spent
    """

    __slots__ = ("_budget", "_token")

    def __init__(self, question: Question, units: int | None = None) -> None:
        self._budget = Budget(question, units)

    def __enter__(self) -> Budget:
        self._token = _current.set(self._budget)
        return self._budget

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)


def with_budget(times: int, operation: Callable[..., Result], *operands: Any, **options: Any) -> Result:
    """operation(*operands), where every budget is `times` as large.

    Raises what the operation raises, ArgumentTypeError and ShapeError for a number of times that is no
    integer from 1 to MOST_TIMES.

    >>> with_budget(4, max, 1, 2)
    2
    """
    if not callable(operation):
        raise ArgumentTypeError(
            f"with_budget of a {type(operation).__name__}: an operation is needed after the number of times"
        )
    token = _times.set(_times.get() * check_times(times))
    try:
        return operation(*operands, **options)
    finally:
        _times.reset(token)


def check_times(times: object) -> int:
    """`times` itself; raises as `with_budget`.

    >>> check_times(3)
    3
    """
    if type(times) is not int:
        raise ArgumentTypeError(f"budgets are multiplied by an integer; {times!r} was given")
    if not 1 <= times <= MOST_TIMES:
        number = times if abs(times) <= MOST_TIMES else "a larger number"
        raise ShapeError(f"budgets are multiplied by 1 to {MOST_TIMES}; {number} is none of these")
    return times


class Meter:
    """The record that `metered` fills: the budgets of the questions that were asked."""

    def __init__(self) -> None:
        self.budgets: list[Budget] = []

    @property
    def units(self) -> int:
        """Units of work so far."""
        return sum(budget.spent for budget in self.budgets)


@contextmanager
def metered() -> Iterator[Meter]:
    """Counts the work of the questions inside, whether they are answered or not.

    >>> from layoutalg.layout import Layout
    >>> from layoutalg.decide import find_coordinate
    >>> with metered() as meter:
    ...     find_coordinate(Layout((1 << 38, 748063000, 79), (3072, 655360, 3)), 608619029553582)
    >>> meter.units > 0
    True
    """
    meter = Meter()
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)
