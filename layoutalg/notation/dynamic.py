"""Extents and strides that are known at run time alone: `?` of the CuTe DSL, `int` of a C++ type.

The idea.  Each is a symbol of its own, named d0, d1, ... in the order of the text: an extent a positive
integer, a stride an integer; `?{div=192}` is 192 times one.  They are written back in the same order.

>>> dynamic = Dynamic()
>>> dynamic.extent(), dynamic.extent(64), dynamic.stride()
(d0, 64*d1, d2)
"""

from __future__ import annotations

from typing import Any

from layoutalg.errors import UnsupportedError
from layoutalg.layout import is_symbolic


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
