"""Index expressions, such as "row * 64 + (col ^ row % 8 * 8)", tabulated over the domain of a layout.

The idea.  An expression has no parameter list, which says what its variables are.  One variable is the flat
index; several are the modes, or the leaves, in the order of `names`, or of an order that everybody writes:
row in front of col, i in front of j.  Any other order has two readings, so that it is refused.

The text is read as `layoutalg analyze --index` reads it (layoutalg.reading.index_text), and is not executed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from layoutalg.errors import ArgumentTypeError, MismatchError, ParseError, ShapeError, check_type
from layoutalg.layout import IntTuple, coordinate_at, flatten_tree, product, to_text
from layoutalg.reading import parse_index

_FUNCTION = re.compile(r"[{};#]|(?<![=!<>])=(?!=)|\b(def|lambda)\b")
"""Marks of a function, a lambda or a macro, which no expression has."""

_VARIABLE = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)

ORDERS = (("row", "col"), ("i", "j", "k", "l"), ("m", "n", "k"))
"""Names of modes whose order needs no saying."""


def is_expression(text: str) -> bool:
    """Whether a text is an expression, and not a function.

    >>> is_expression("i % 4 * 8 + i / 4"), is_expression("int f(int i) { return i; }")
    (True, False)
    """
    text = text.strip()
    if _VARIABLE.fullmatch(text):  # a word alone is probably the name of a forgotten function
        return any(text in order for order in ORDERS)
    return bool(text) and _FUNCTION.search(text) is None


class IndexExpression:
    """An index expression over the domain of `shape`; `names` are its variables in the order of the modes.

    Raises ParseError for what is not an expression, ArgumentTypeError for names that are not its variables
    and where it has several whose order is not known, ShapeError where the shape has another number of modes.

    >>> index = IndexExpression("(col ^ (row % 8 * 8)) + row * 64", (8, 64))
    >>> index.names, index.table(0, 10).tolist()
    (('row', 'col'), [0, 72, 144, 216, 288, 360, 432, 504, 1, 73])
    """

    function = "the expression"

    def __init__(self, text: str, shape: IntTuple, names: Sequence[str] | None = None) -> None:
        occurring = tuple(dict.fromkeys(_VARIABLE.findall(text)))
        checked = None if names is None else _checked(names)
        self._index = parse_index(text.strip(), {name: name for name in occurring})
        self.names = _ordered(self._index.names, shape) if checked is None else checked
        if missing := [name for name in self._index.names if name not in self.names]:
            raise ArgumentTypeError(
                f"the expression uses {', '.join(missing)}, and its names are {', '.join(self.names)}"
            )
        choices: dict[int, tuple[int, ...]] = {1: (product(shape),)}
        if isinstance(shape, tuple):
            for extents in (tuple(map(product, shape)), flatten_tree(shape)):
                choices.setdefault(len(extents), extents)
        if len(self.names) not in choices:
            accepted = ", ".join(map(str, sorted(choices)))
            raise ShapeError(
                f"the expression has {len(self.names)} variables, {', '.join(self.names)}; for the shape "
                f"{to_text(shape)} it may have {accepted}"
            )
        self.extents = choices[len(self.names)]

    def table(self, first: int, count: int) -> Any:
        """The results at `count` flat indices from `first` on, as 64-bit integers.

        Raises MismatchError for an index at which C and Python do not agree on the expression, and as
        `IndexText` does for numbers that are too large.
        """
        import numpy

        flat = numpy.arange(first, first + count, dtype=numpy.int64)
        digits = [flat] if len(self.extents) == 1 else flatten_tree(coordinate_at(flat, self.extents))
        try:
            return self._index(**dict(zip(self.names, digits, strict=True))) + numpy.zeros(count, numpy.int64)
        except ParseError as error:
            raise MismatchError(error.message) from None


def _checked(names: Sequence[str]) -> tuple[str, ...]:
    """Names of variables, each once.  Raises ArgumentTypeError."""
    if isinstance(names, str):
        raise ArgumentTypeError(f"names is {names!r}: a list of names, in the order of the modes, is needed")
    for name in names:
        check_type("check_index_function", name, str, "the name of a variable")
    if len(set(names)) < len(names):
        raise ArgumentTypeError(f"names are {', '.join(names)}: each is needed once")
    return tuple(names)


def _ordered(occurring: tuple[str, ...], shape: IntTuple) -> tuple[str, ...]:
    """The variables in the order of the modes.  Raises ArgumentTypeError where nothing states it."""
    rank = len(shape) if isinstance(shape, tuple) else 1
    for order in ORDERS:
        flat = occurring == order[:1] and order[0] != "row"  # a lone i is an index, a lone row is not
        if not flat and occurring and len(order) >= rank > 1 and set(occurring) <= set(order[:rank]):
            return order[:rank]
    if len(occurring) <= 1:
        return occurring or ("i",)
    raise ArgumentTypeError(
        f"the expression uses {', '.join(occurring)}, and nothing says which of them is which mode of "
        f"{to_text(shape)}: give names, such as names={list(occurring)!r}, or a function"
    )
