"""The cost of an access as pieces over the values of its symbols: `analyze` of a layout with symbols.

The idea.  In one symbol the cost is periodic but for single values (layoutalg.symbolic.generic_values), so
that the values of its range fall into residue classes.  With several symbols, or one that is not linear,
every combination of values is counted, up to a limit.

>>> print(open_report("(32,32):(ld,1)", "ld.shared.b32@col", "f32", where="ld in 32..4096"))
ld.shared.b32 on (32,32):(ld,1), ld in [32,4096]
wavefronts  for
        32  ld odd
        64  ld mod 4 = 2
       128  ld mod 8 = 4
       256  ld mod 16 = 8
       512  ld mod 32 = 16
     1,024  ld mod 32 = 0
Best 32 at ld = 33, worst 1,024 at ld = 32.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from itertools import product as tuples
from typing import Any

from layoutalg.analysis import Access, OpenReport, Piece
from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, ParseError, UndecidedError
from layoutalg.layout import Layout, free_symbols
from layoutalg.limits import Most
from layoutalg.notation import parse, parse_open
from layoutalg.symbolic.question import (
    OpenQuestion,
    Symbolic,
    SymbolicLayout,
    as_symbolic,
    count,
    make_question,
)
from layoutalg.symbolic.solutions import Periodic
from layoutalg.symbolic.solve import symbolic_access, tabulated_cost
from layoutalg.symbolic.where import Values, values_of

_NAME = re.compile(r"\b(?!Sw<|o\b|smem_ptr|unset)[A-Za-z]\w*", re.ASCII)

FEW = 16
"""Values of a symbol that are listed; of more, their residues are."""


def open_layout(text: str) -> Layout | SymbolicLayout:
    """The layout of a text that holds names: symbols of integers from 0 on, or from 1 on where extents do.

    Raises ParseError, and UnsupportedError for a layout under an outer layout.

    >>> print(open_layout("Sw<3,3,3> o 8*n o (8,64):(ld,1)"), open_layout("(n,8):(1,n)"))
    Sw<3,3,3> o 8*n o (8,64):(ld,1) (n,8):(1,n)
    """
    import sympy

    names = _NAME.findall(text)
    try:
        symbols = {name: sympy.Symbol(name, integer=True, nonnegative=True) for name in names}
        swizzles, offset, inner = parse_open(text, symbols)
    except ParseError as error:
        positive = {name: sympy.Symbol(name, integer=True, positive=True) for name in names}
        with contextlib.suppress(ParseError):
            layout = parse(text, symbols=positive)
            if isinstance(layout, Layout):
                return layout
        raise error from None
    return SymbolicLayout(inner.shape, inner.stride, swizzles.reduced(), offset)


def has_names(text: str) -> bool:
    """Whether a text of a layout holds names that could be symbols.

    >>> has_names("(8,8):(ld,1)"), has_names("Sw<3,3,3> o 0 o (8,64):(64,1)")
    (True, False)
    """
    return bool(_NAME.findall(text))


def open_report(
    layout: Symbolic | str,
    access: str | Access,
    element: str | DType | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    *,
    where: str | Mapping[str, Values | tuple[int, int]] | None = None,
    base: Any = 0,
) -> OpenReport:
    """The cost of `access` for all values that `where` states, from 1 on for a symbol in a stride.

    Raises UndecidedError where more combinations of values than Most.COUNTED are to be counted one by one,
    and as `symbolic_cost` does.
    """
    symbolic = as_symbolic(open_layout(layout) if isinstance(layout, str) else layout)
    if isinstance(access, str):
        if element is None:
            raise ArgumentTypeError(f"analyze of {access!r} needs the type of an element, such as 'f16'")
        access = symbolic_access(access, symbolic, element)
    question = make_question(symbolic, access, base, arch, None)
    symbols = sorted(free_symbols(symbolic.stride, symbolic.offset, base), key=str)
    if not symbols:
        raise ArgumentTypeError(f"{symbolic} has no symbol; analyze counts it at once")
    positive = dict.fromkeys((s.name for s in free_symbols(symbolic.stride)), 1)
    values = values_of(where, [s.name for s in symbols], positive)
    pieces = None
    if len(symbols) == 1:
        (given,) = values.values()
        try:
            cost = tabulated_cost(question, symbols[0], given.least)
            pieces = _of_residues(cost, given)
        except UndecidedError:
            if len(given) > Most.COUNTED.number:
                raise
    said = "; ".join(map(str, values.values()))
    shown = pieces if pieces is not None else _one_by_one(question, symbols, values)
    return OpenReport(access.op, str(symbolic), said, question.rule.space, tuple(shown))


def _of_residues(cost: Periodic[int | None], values: Values) -> list[Piece]:
    """The pieces of a periodic cost; every class that meets the range is met by the values looked at."""
    period, single = math.lcm(len(cost.values), values.modulus), {n for n, _ in cost.exceptions}
    looked = {n for n in single if n in values}
    for first in islice(values.range(), period // values.modulus):
        looked.add(next((n for n in range(first, values.most + 1, period) if n not in single), first))
    least: dict[int | None, int] = {}
    for n in sorted(looked):
        least.setdefault(cost.at(n), n)
    if len(values) <= FEW:
        return [
            Piece(
                total, _few(values, [n for n in values.range() if cost.at(n) == total]), ((values.name, n),)
            )
            for total, n in sorted(least.items(), key=_ascending)
        ]
    return [
        Piece(total, str(cost.where(lambda v, total=total: v == total)), ((values.name, n),))  # type: ignore[misc]
        for total, n in sorted(least.items(), key=_ascending)
    ]


def _few(values: Values, places: list[int]) -> str:
    if len(places) == len(values):
        return f"every {values.name}"
    listed = ", ".join(map(str, places))
    return f"{values.name} = {listed}" if len(places) == 1 else f"{values.name} in {{{listed}}}"


def _ascending(item: tuple[int | None, Any]) -> tuple[bool, int]:
    return item[0] is None, item[0] or 0


def _one_by_one(question: OpenQuestion, symbols: list[Any], values: Mapping[str, Values]) -> list[Piece]:
    """The pieces of a cost that is counted at every combination of values."""
    number = math.prod(map(len, values.values()))
    many = " and ".join(f"{len(v):,} of {v.name}" for v in values.values())
    Most.COUNTED.decide(number, f"combinations of {many}, with narrower ranges fewer,")
    found: dict[int | None, list[tuple[int, ...]]] = {}
    for at in tuples(*(v.range() for v in values.values())):
        cost = count(question, dict(zip(symbols, at, strict=True)))
        found.setdefault(None if cost is None else cost.total, []).append(at)
    return [
        Piece(total, " or ".join(_told(values, places, number)), tuple(zip(values, places[0], strict=True)))
        for total, places in sorted(found.items(), key=_ascending)
    ]


def _told(values: Mapping[str, Values], places: list[tuple[int, ...]], number: int) -> Iterator[str]:
    """The places in words: each of few, else how many."""
    if len(places) == number:
        yield "all values"
    elif len(places) > 4:
        yield f"{len(places):,} of {number:,} combinations"
    else:
        for at in places:
            yield ", ".join(f"{name} = {n}" for name, n in zip(values, at, strict=True))
