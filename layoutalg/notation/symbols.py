"""Extents and strides in symbols: polynomials as text, and leaves that are known at run time alone.

    2*ld+8, n**2*m      a polynomial: sums and products of integers, names and powers of names
    ?, ?{div=64}        of the CuTe DSL, `int` of a C++ type: a symbol of its own, named d0, d1, ... in the
                        order of the text, an extent a positive integer, a stride an integer; they are
                        written back in the same order

>>> dynamic = Dynamic()
>>> dynamic.extent(), dynamic.extent(64), dynamic.stride()
(d0, 64*d1, d2)

Notes.  A polynomial is evaluated as it is read, and no code is: brackets are a stack, so that no nesting can
exhaust Python's.  Length, nesting and the integers themselves are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from layoutalg.errors import ParseError, UnsupportedError, check_type
from layoutalg.layout import is_symbolic
from layoutalg.limits import Most

MAX_DIGITS = 100
"""The most decimal digits of an integer where integers have no size."""

MAX_POWER = 1000
"""The highest power of a name."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9][\w.]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?:\s*\*\*\s*(?P<power>0*(?:1000|[0-9]{1,3}))(?![\w.]))?"
    r"|(?P<mark>\*\*|[-+*()])|(?P<other>.|\Z))"
)


@dataclass(slots=True)
class _Sum:
    """A sum as it is read: its total so far, the next product, the signs of it and of its next factor."""

    total: Any = None
    product: Any = None
    minus: bool = False
    negative: bool = False

    def times(self, factor: Any) -> None:
        """Multiply the product by a factor, whose sign is the last that was read."""
        factor = -factor if self.negative else factor
        self.product = factor if self.product is None else self.product * factor
        self.negative = False

    def value(self) -> Any:
        """The sum with the product that is next."""
        if self.total is None:
            return self.product
        return self.total - self.product if self.minus else self.total + self.product


def parse_polynomial(text: str, symbols: Mapping[str, Any]) -> Any:
    """The value of a polynomial in `symbols`: sums and products of integers, names and powers of names.

    Raises ParseError with the position and what was expected there, and for powers of anything but a name;
    ResourceError for a text past Most.LINE or Most.NESTING.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True)
    >>> parse_polynomial("4*n**2-n+3", {"n": n})
    4*n**2 - n + 3
    """
    check_type("polynomial", text, str, "a text")
    Most.LINE.guard(len(text), "length of the polynomial in characters")
    sums, read = [_Sum()], False  # `read`: a factor was, and an operator follows
    for token in _TOKEN.finditer(text):
        found = token["number"] or token["name"] or token["mark"] or token["other"]
        match read, found:
            case False, "(":
                sums.append(_Sum())
                Most.NESTING.guard(len(sums) - 1, "nesting of the polynomial")
            case False, "+" | "-":
                sums[-1].negative ^= found == "-"
            case False, _ if found in symbols:
                sums[-1].times(symbols[found] ** int(token["power"]) if token["power"] else symbols[found])
                read = True
            case False, _ if found.isdecimal() and len(found) <= MAX_DIGITS:
                sums[-1].times(int(found))
                read = True
            case True, "+" | "-":
                sums[-1], read = _Sum(sums[-1].value(), minus=found == "-"), False
            case True, "*":
                read = False
            case True, ")" if len(sums) > 1:
                factor = sums.pop().value()
                sums[-1].times(factor)
            case True, "" if len(sums) == 1:
                break
            case _:
                at = token.end() - len(token[0].lstrip())
                shown = repr(found if len(found) < 16 else f"{found[:12]}...") if found else "the end"
                why = f"{shown} at character {at} of {text!r} {_wanted(token, symbols, read)}"
                raise ParseError(why, text=text, position=at)
    return sums[-1].value()


def _wanted(token: re.Match[str], symbols: Mapping[str, Any], read: bool) -> str:
    """The end of a sentence that begins with a token: why it is not read there."""
    known = ", ".join(symbols) or "none"
    if token["mark"] == "**":
        return f"is read as a power of a name, up to {MAX_POWER}, as in n**2"
    if not read and token["number"]:
        return f"is not an integer that is read; accepted are decimal ones of at most {MAX_DIGITS} digits"
    if not read and token["name"]:
        return f"is an unknown variable; accepted are {known}"
    wanted = "an operator (* + - **) or ')'" if read else f"a number, '(' or a variable ({known})"
    return f"stands where {wanted} is expected"


class Dynamic:
    """The dynamic leaves of one text, counted."""

    def __init__(self) -> None:
        self.handed: list[Any] = []

    def extent(self, multiple: int = 1) -> Any:
        """A fresh positive multiple of `multiple`."""
        return multiple * self._symbol(positive=True)

    def stride(self, multiple: int = 1) -> Any:
        """A fresh multiple of `multiple`, of any sign."""
        return multiple * self._symbol()

    def of_any_sign(self, strides: Any) -> Any:
        """Strides in which the extents that were handed out stand, as integers of any sign."""
        if isinstance(strides, tuple):
            return tuple([self.of_any_sign(part) for part in strides])
        if not is_symbolic(strides):
            return strides
        import sympy

        return strides.xreplace({own: sympy.Symbol(own.name, integer=True) for own in self.handed})

    def _symbol(self, **known: bool) -> Any:
        import sympy

        self.handed.append(sympy.Symbol(f"d{len(self.handed)}", integer=True, **known))
        return self.handed[-1]


def leaf_parts(leaf: Any, what: str) -> tuple[int, str] | None:
    """(multiple, name) of a symbolic leaf that is a multiple of one symbol; None for an integer.

    Raises UnsupportedError for other expressions, by `what` the form is called.

    >>> leaf_parts(64 * Dynamic().extent(), "CuTe DSL"), leaf_parts(8, "CuTe DSL")
    ((64, 'd0'), None)
    """
    if not is_symbolic(leaf):
        return None
    multiple, rest = leaf.as_coeff_Mul()
    if not rest.is_Symbol or not multiple.is_Integer or multiple < 1:
        raise UnsupportedError(
            f"{what} has no text for the expression {leaf}: a multiple of one name is needed"
        )
    return int(multiple), str(rest)
