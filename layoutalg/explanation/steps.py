"""Derivation: the steps from a call to its result, as laws and statements that can be checked.

A step is a law and statements: equations that hold for the operands at hand, written so that a program can
check them, such as `A(B(5)) = A(7) = 8` or `A(B(c)) = R(c) for every c < 12`.  A name is introduced by the
equation that defines it, `A = (6,4):(4,1)`.  Lines have at most PAGE columns; longer statements go on in the
next line, further to the right.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from layoutalg.errors import LayoutAlgError
from layoutalg.notebook import Shown

PAGE = 100
"""Columns of a line."""


@dataclass(frozen=True, slots=True)
class Step:
    """A law, and what it says about the operands at hand."""

    law: str
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Derivation(Shown):
    """The steps from a call to its result, or to the error that refuses it.

    >>> print(Derivation("size((4,8):(1,4))", (Step("extents multiply", ("4 * 8 = 32",)),), 32))
    size((4,8):(1,4))
      1. extents multiply
           4 * 8 = 32
      = 32
    """

    call: str
    steps: tuple[Step, ...]
    result: object
    refusal: LayoutAlgError | None = None

    @property
    def answer(self) -> str:
        """The result in CuTe notation, or the refusal with the coordinates that it names."""
        if self.refusal is None:
            return f"= {notation(self.result)}"
        coordinates = [getattr(self.refusal, name, None) for name in ("witness", "a", "b")]
        witnesses = " and ".join(str(x) for x in coordinates if x is not None)
        shown = f" (witness {witnesses})" if witnesses else ""
        return f"refused, {type(self.refusal).__name__}{shown}: {self.refusal}"

    def lines(self) -> Iterator[str]:
        """The text, line by line."""
        yield from _wrapped(self.call, 0)
        for number, step in enumerate(self.steps, 1):
            yield from textwrap.wrap(
                step.law, PAGE, initial_indent=f"{number:3}. ", subsequent_indent=" " * 5
            )
            for statement in step.statements:
                yield from _wrapped(statement, 7)
        yield from _wrapped(self.answer, 2)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _wrapped(text: str, indent: int) -> Iterator[str]:
    """`text` broken before relations, else behind blanks or commas, else anywhere."""
    room = PAGE - indent - 4
    pieces = re.split(r"(?<= )(?=(?:=|!=|<=?|>=?) )|(?<=,)|(?<= )", text)
    line = ""
    lead = " " * indent
    for piece in pieces:
        while len(line) + len(piece.rstrip()) > room + (4 if lead == " " * indent else 0):
            if not line:
                line, piece = piece[:room], piece[room:]
            yield (lead + line).rstrip()
            line, lead = "", " " * (indent + 4)
        line += piece
    if line:
        yield (lead + line).rstrip()


def notation(value: Any) -> str:
    """Any operand or result in CuTe notation; `o` joins a chain of swizzles, a report says its count.

    >>> notation(((4, 8), None, 3))
    '((4,8),_,3)'
    """
    if isinstance(value, (tuple, list)):
        if value and all(hasattr(v, "bit_pairs") for v in value):
            return " o ".join(map(str, value))
        return f"({','.join('_' if v is None else notation(v) for v in value)})"
    if hasattr(value, "ideal_total"):
        return f"{value.total} wavefronts, and {value.ideal_total} without conflicts"
    if hasattr(value, "sectors"):
        return f"{value.sectors} sectors, of which {value.ideal} are needed"
    if hasattr(value, "certificate"):
        return "none found" if value.layout is None else str(value.layout)
    return str(value)


class Page:
    """The page of a derivation: the steps so far, and the names that are taken.

    >>> page = Page()
    >>> page.step(f"{page.name((4, 8), 'A')} is named where it is first used", "4 * 8 = 32")
    >>> page.steps[0].statements
    ('A = (4,8)', '4 * 8 = 32')
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._names: dict[object, str] = {}
        self._new: list[str] = []

    def step(self, law: str, *statements: str) -> None:
        """Begin a step; names introduced since the last one are defined first."""
        self.steps.append(Step(law, (*self._new, *statements)))
        self._new.clear()

    def name(self, value: object, wish: str) -> str:
        """The name of a function; `wish`, or the next free letter, when it has none yet."""
        known = self._names.get(value)
        if known is not None:
            return known
        taken = set(self._names.values())
        letters = [wish, *"ABCDEFGHKLMNPQRSTUVWXYZ", *(f"{wish}{i}" for i in range(len(taken)))]
        free: str = next(letter for letter in letters if letter not in taken)
        self._names[value] = free
        self._new.append(f"{free} = {notation(value)}")
        return free

    def names(self, **values: object) -> list[str]:
        """The names of several functions by the letters that are wished for."""
        return [self.name(value, wish) for wish, value in values.items()]
