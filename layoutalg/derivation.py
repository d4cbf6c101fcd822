"""Derivations: how a result came about, step by step, in CuTe notation.

The idea.  A step names the law that it uses and then makes statements: equations that hold for the operands
at hand.  A statement is written so that a program can check it,

    A(B(5)) = A(7) = 8                          application, and arithmetic as in Python
    A o 12:2 = (3,4):(8,1)                      composition
    complement(4:1, 24) = 6:4                   any operation of the algebra
    A(B(c)) = R(c) for every c < 12             what holds for all coordinates

and a name is introduced by the equation that defines it, `A = (6,4):(4,1)`.

>>> paper = Paper()
>>> a = paper.name(Layout((6, 4), (4, 1)), "A")
>>> paper.step("one stride a mode, so offsets add up", f"{a}(2,3) = 2 * 4 + 3 * 1 = 11")
>>> print(Derivation("A(2,3)", tuple(paper.steps), 11))
A(2,3)
  1. one stride a mode, so offsets add up
       A = (6,4):(4,1)
       A(2,3) = 2 * 4 + 3 * 1 = 11
  = 11

Notes.  Lines have at most PAGE columns; longer statements go on in the next line, further to the right.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout
from layoutalg.swizzle import AnyLayout, Swizzle, Swizzles

PAGE = 100
"""Columns of a line."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A law, and what it says about the operands at hand."""

    law: str
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Derivation:
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
        found = [getattr(self.refusal, name, None) for name in ("witness", "a", "b")]
        witnesses = " and ".join(str(x) for x in found if x is not None)
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


def notation(value: object) -> str:
    """Any operand or result in CuTe notation; `o` joins a chain of swizzles, records name their fields.

    >>> notation((Layout(4), None, 3)), notation((Swizzle(1, 0, 1), Swizzle(1, 4, 2)))
    ('(4:1,_,3)', 'Sw<1,0,1> o Sw<1,4,2>')
    """
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        if value and all(isinstance(v, Swizzle) for v in value):
            return " o ".join(map(str, value))
        return f"({','.join('_' if v is None else notation(v) for v in value)})"
    return str(value)


class Paper:
    """Where a derivation is written: the steps so far, and the names that are taken.

    >>> paper = Paper()
    >>> paper.step("nothing is said yet")
    >>> paper.write("2 * 3 = 6")
    >>> paper.steps
    [Step(law='nothing is said yet', statements=('2 * 3 = 6',))]
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._names: dict[object, str] = {}
        self._new: list[str] = []

    def step(self, law: str, *statements: str) -> None:
        """Begin a step; names introduced since the last one are defined first."""
        self.steps.append(Step(law, (*self._new, *statements)))
        self._new.clear()

    def write(self, *statements: str) -> None:
        """Add statements to the last step."""
        last = self.steps.pop()
        self.step(last.law, *last.statements, *statements)

    def mode(self, layout: Layout, i: int, part: Layout) -> None:
        """Begin what is said about mode number `i` of a layout that has a name."""
        whole = self.name(layout, "A")
        part_name = self.name(part, f"{whole}{i}")
        self.step(f"mode {i}", f"{whole}[{i}] = {part_name}")

    def name(self, value: AnyLayout | Swizzle | Swizzles | tuple[Swizzle, ...], wish: str) -> str:
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


def attempt(
    operation: Callable[..., T], *operands: Any, **params: Any
) -> tuple[T | None, LayoutAlgError | None]:
    """(result, None), or (None, the error that refuses).

    >>> from layoutalg.digits import compose_layouts
    >>> attempt(compose_layouts, Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))[1].witness
    5
    """
    try:
        return operation(*operands, **params), None
    except LayoutAlgError as error:
        return None, error
