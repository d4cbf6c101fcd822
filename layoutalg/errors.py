"""Every exception the library raises.

One root, `LayoutAlgError`, and one leaf per kind of refusal.  Each leaf also inherits the builtin a
caller would have caught anyway, and carries as attributes what a program needs to react: the position
in a text, the coordinate that shows why a composition fails, the limit a request ran into.

>>> try:
...     raise AlignmentError("offset 136 is not a multiple of 16 bytes", offset=136, required_bytes=16)
... except ValueError as error:
...     print(error.offset % error.required_bytes)
8
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from reprlib import Repr
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Name = TypeVar("_Name", bound=str)

LISTED, NEAREST_NAMES = 120, 8
"""Characters of names that a refusal lists in full: a line; how many names it lists of a longer table."""

MOST_COMPARED = 100
"""Characters of an unknown name that are compared with the names of a table."""


SHOWN_LEVELS = 8
"""Levels of nested operands that a message shows."""


class _Shown(Repr):
    """Short texts of values for messages; Python refuses to write an int of more than 4300 digits at all."""

    def repr_int(self, x: int, level: int) -> str:
        digits = x.bit_length() * 3 // 10
        return super().repr_int(x, level) if digits < 4000 else f"an int of about {digits} digits"


shown = _Shown().repr
"""`repr`, shortened, of any value that was given and is refused."""


def printable(text: str) -> str:
    """Text of a user's as a terminal may be shown it: what controls it or hides is written as an escape.

    Line breaks stay.

    >>> printable("a\\x1b[31mb"), printable("größer 行")
    ('a\\\\x1b[31mb', 'größer 行')
    """
    if text.isprintable():
        return text
    seen = (c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    return "".join(seen)


class LayoutAlgError(Exception):
    """Root of every error raised on purpose; `str(error)` is one sentence meant for a person."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts of the error: leaves take other arguments than their message."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[LayoutAlgError], args: tuple[object, ...], state: dict[str, object]
) -> LayoutAlgError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def named(operation: str, error: LayoutAlgError, *operands: object) -> NoReturn:
    """Raise `error` as one of the public operation that was called: operation(operands): why.

    The new error has the class and the attributes of the old one, which is its `__cause__`.  An error that
    begins with the operation's name already is raised as it is; one that another operation has named is
    named anew, so that the text holds the call and the first reason.

    >>> try:
    ...     named("logical_divide", DivisibilityError("complement of 3:2: no", witness=6), 24, (3, 8))
    ... except DivisibilityError as error:
    ...     print(error, error.witness, error.__cause__)
    logical_divide(24, (3,8)): complement of 3:2: no 6 complement of 3:2: no
    """
    if error.message.startswith(operation) and not error.message[len(operation) :][:1].isidentifier():
        raise error
    reason = error
    while isinstance(cause := reason.__cause__, LayoutAlgError) and reason.message.endswith(cause.message):
        reason = cause
    message = f"{operation}({', '.join(map(operand_text, operands))}): {reason.message}"
    new = _restored(type(error), (message,), error.__dict__ | {"message": message})
    raise new from error


def names_refusals(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, whose errors are `named` by the call.

    >>> @names_refusals
    ... def halved(n):
    ...     raise DivisibilityError("2 does not divide it")
    >>> halved(3)
    Traceback (most recent call last):
    ...
    layoutalg.errors.DivisibilityError: halved(3): 2 does not divide it
    """

    @functools.wraps(function)
    def run(*operands: _P.args, **options: _P.kwargs) -> _R:
        try:
            return function(*operands, **options)
        except LayoutAlgError as error:
            named(function.__name__, error, *operands, *options.values())

    return run


def operand_text(operand: object, _level: int = 0) -> str:
    """An operand as a message shows it: in CuTe notation where it has one, else shortened.

    >>> operand_text((4, [None, 2.0], "x"))
    "(4,(_,2.0),'x')"
    """
    if isinstance(operand, (tuple, list)) and _level < SHOWN_LEVELS:
        return f"({','.join([operand_text(part, _level + 1) for part in operand])})"
    if operand is None:
        return "_"
    ours = type(operand).__module__.startswith("layoutalg.layout.")
    return str(operand) if ours else shown(operand)


def check_type(operation: str, value: object, kinds: type | tuple[type, ...], needed: str) -> None:
    """Refuse an operand of another type than `kinds` by an ArgumentTypeError, by the operation's name.

    >>> check_type("parse", 4, str, "a text")
    Traceback (most recent call last):
    ...
    layoutalg.errors.ArgumentTypeError: parse of 4: its type is int; a text is needed
    """
    if not isinstance(value, kinds):
        raise ArgumentTypeError(
            f"{operation} of {shown(value)}: its type is {type(value).__name__}; {needed} is needed"
        )


def listed(operation: str, value: object, needed: str) -> list[Any]:
    """The elements of what can be gone through; `check_type`'s refusal of anything else.

    >>> listed("reuse_of", range(2), "a list of accesses")
    [0, 1]
    """
    try:
        elements = iter(value)  # type: ignore[call-overload]
    except TypeError:  # an array of no dimensions too, which has an __iter__
        check_type(operation, value, (), needed)
    return list(elements)


class ShapeError(LayoutAlgError, ValueError):
    """A shape, stride or coordinate is malformed, or two of them do not fit; `witness` is a coordinate."""

    def __init__(self, message: str, *, witness: int | None = None) -> None:
        super().__init__(message)
        self.witness = witness


class DivisibilityError(LayoutAlgError, ValueError):
    """The result exists as a function but not as a layout; `witness` is a coordinate that shows it."""

    def __init__(
        self,
        message: str,
        *,
        lhs: object = None,
        rhs: object = None,
        mode: int | None = None,
        witness: int | None = None,
    ) -> None:
        super().__init__(message)
        self.lhs, self.rhs, self.mode, self.witness = lhs, rhs, mode, witness


class NotInjectiveError(LayoutAlgError, ValueError):
    """Two coordinates `a != b` of `layout` share one offset."""

    def __init__(
        self, message: str, *, layout: object = None, a: int | None = None, b: int | None = None
    ) -> None:
        super().__init__(message)
        self.layout, self.a, self.b = layout, a, b


class NotLinearError(LayoutAlgError, ValueError):
    """A layout is not linear over F2 (its bits carry, or an extent is not a power of two)."""


class AlignmentError(LayoutAlgError, ValueError):
    """A vector access does not start at a multiple of its width, or its bytes are not contiguous."""

    def __init__(self, message: str, *, offset: int | None = None, required_bytes: int | None = None) -> None:
        super().__init__(message)
        self.offset, self.required_bytes = offset, required_bytes


class ResourceError(LayoutAlgError, ValueError):
    """More of a resource was requested than the architecture has."""

    def __init__(self, resource: str, asked: int, limit: int, *, hint: str = "") -> None:
        tail = f"; {hint}" if hint else ""
        super().__init__(f"{resource}: {asked} asked, the limit is {limit}{tail}")
        self.resource, self.asked, self.limit = resource, asked, limit


def nearest(name: str, choices: Iterable[str], count: int) -> list[str]:
    """The choices that are most like a name, best first: difflib.get_close_matches with a cutoff of 0.

    Nothing is compared letter by letter whose bound is below what has been found.

    >>> nearest("ldmatrix.x3", ["cp.async.4", "ldmatrix.x4", "stmatrix.x1"], 2)
    ['ldmatrix.x4', 'stmatrix.x1']
    """
    import difflib
    import heapq

    best: list[tuple[float, str]] = []
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(name)
    for choice in choices:
        matcher.set_seq1(choice)
        if len(best) < count:
            heapq.heappush(best, (matcher.ratio(), choice))
        elif (matcher.real_quick_ratio(), choice) > best[0] and (matcher.quick_ratio(), choice) > best[0]:
            heapq.heappushpop(best, (matcher.ratio(), choice))
    return [choice for _, choice in sorted(best, reverse=True)]


class UnknownNameError(LayoutAlgError, ValueError):
    """A name is not in the table of its kind; the message lists what is, of a long table the nearest.

    `also` are other spellings, which are suggested but not listed; `hint` takes the suggestion's place.
    A value that is not a text is shown shortened.
    """

    def __init__(
        self, kind: str, name: object, choices: Iterable[str], *, also: Iterable[str] = (), hint: str = ""
    ) -> None:
        text = name if isinstance(name, str) else shown(name)
        self.kind, self.name, self.choices = kind, text, tuple(choices)
        import difflib

        offered: Iterable[str] = self.choices
        if sum(len(choice) + 2 for choice in self.choices) > LISTED + 2:
            compared = text[:MOST_COMPARED]
            offered = nearest(compared, self.choices, NEAREST_NAMES)
        if not hint and len(text) <= MOST_COMPARED:
            by_lower = {choice.lower(): choice for choice in (*also, *offered)}
            begun = [key for key in by_lower if len(text) > 2 and key.startswith(text.lower())]
            near = begun or difflib.get_close_matches(text.lower(), by_lower, n=1)
            hint = f"did you mean {by_lower[near[0]]!r}? " if near else ""
        names = list(offered)
        while offered is not self.choices and len(names) > 1 and len(", ".join(names)) > LISTED:
            names.pop()  # the farthest
        left = len(self.choices) - len(names)
        listed = ", ".join(names) + (f" and {left} more" if left else "")
        super().__init__(f"unknown {kind} {text!r}: {hint}accepted are {listed}")


def check_choice(kind: str, name: object, choices: Collection[_Name]) -> _Name:
    """The name, where it is one of a table; else, whatever its type, UnknownNameError.

    >>> check_choice("level", ["L2"], ("L1", "L2"))
    Traceback (most recent call last):
    ...
    layoutalg.errors.UnknownNameError: unknown level "['L2']": accepted are L1, L2
    """
    if not isinstance(name, str) or name not in choices:
        raise UnknownNameError(kind, name, choices)
    return cast("_Name", name)


class UndecidedError(LayoutAlgError, ValueError):
    """An exact search ran out of its stated `budget`, or a `condition` on symbols is not decided."""

    def __init__(self, message: str, *, budget: int | None = None, condition: object = None) -> None:
        super().__init__(message)
        self.budget, self.condition = budget, condition


class ParseError(LayoutAlgError, ValueError):
    """Text does not follow the grammar; `position` counts characters from 0."""

    def __init__(self, message: str, *, text: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.text, self.position = text, position


class ArgumentTypeError(LayoutAlgError, TypeError):
    """An argument has a type the operation does not take."""


class UnsupportedError(LayoutAlgError, NotImplementedError):
    """The request is meaningful, but not something this operation or architecture does."""


class ProfilerError(LayoutAlgError, RuntimeError):
    """Counters of the hardware cannot be read: no profiler, no permission, a launch that it cannot count."""


class IRError(LayoutAlgError, ValueError):
    """A tile program breaks a rule of its grammar; `rule` names it, `node` is the offender."""

    def __init__(self, rule: str, node: object, message: str) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule, self.node = rule, node


class SimulationError(LayoutAlgError, RuntimeError):
    """The simulated kernel did something a GPU may punish: a race, a wild address, a deadlock."""

    def __init__(
        self,
        message: str,
        *,
        lane: int | None = None,
        address: int | None = None,
        statement: str | None = None,
    ) -> None:
        super().__init__(message)
        self.lane, self.address, self.statement = lane, address, statement


class CompileError(LayoutAlgError, RuntimeError):
    """A compiler refused generated source; `log` is its output, `source` the file that was kept."""

    def __init__(self, message: str, *, log: str = "", source: str = "") -> None:
        super().__init__(message)
        self.log, self.source = log, source


class MismatchError(LayoutAlgError, AssertionError):
    """A checked property fails; `index` is the first place where it does."""

    def __init__(self, message: str, *, index: object = None) -> None:
        super().__init__(message)
        self.index = index
