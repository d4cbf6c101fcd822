"""ScaledBasis: a stride that moves along one mode of a coordinate, and ArithTuple, the sum of such strides.

The idea.  A layout is the inner product of a coordinate with its strides, and a stride may be anything that
can be added and multiplied by integers.  A basis element moves along one axis of a coordinate space, so
that a layout with basis strides maps coordinates to coordinates:

    ScaledBasis(1, 0)        1@0        (1,0,...)
    ScaledBasis(3, 1)        3@1        (0,3,0,...)
    ScaledBasis(5, 0, 1)     5@1@0      ((0,5,...),0,...)      mode 1 of mode 0: CuTe prints the path reversed

    (4,8):(1@1,1@0)          (i, j) -> (j, i)

That is what a TMA instruction takes: it is given the coordinates of a box, not an address.  Cutting such a
layout into tiles gives the coordinates of every box.

>>> 2 * ScaledBasis(2, 0, 1) + ScaledBasis(3, 1) + ScaledBasis(7, 0, 0)
ArithTuple(((7, 4), 3))

Notes.  Values that do not add are refused: an integer that is not 0 and a basis, or 1@0 and 1@1@0, where
mode 0 would be both a number and a tuple.  Zero is one element: 0@0 == 0@1 == 0.  In a product the other
factor may be an int, a NumPy array or a sympy symbol; the coordinate then has such leaves.

Comparison with CuTe.  CuTe's ScaledBasis and ArithmeticTuple; here two multiples of one basis add up to a
multiple of it (1@0 + 2@0 is 3@0, CuTe's is the tuple (3)).

Source: CUTLASS, include/cute/numeric/arithmetic_tuple.hpp; media/docs/cpp/cute/0z_tma_tensors.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, TypeAlias

from layoutalg.errors import ShapeError, listed, shown
from layoutalg.layout.int_tuple import MAX_DEPTH, IntTuple, to_text, whole_number
from layoutalg.layout.symbols import is_symbolic
from layoutalg.layout.value import Value

StrideTuple: TypeAlias = "int | ScaledBasis | tuple[StrideTuple, ...]"
"""The strides of a Layout: an IntTuple whose leaves may also be scaled bases (or sympy expressions)."""


class ArithTuple(tuple[Any, ...]):
    """A coordinate that adds leaf by leaf; everywhere else it is the tuple it is made of.

    The shorter of two coordinates is filled up with zeros.  Raises ShapeError where a number meets a tuple.

    >>> ArithTuple((1, (2, 3))) + (4, (5,), 6), 3 * ArithTuple((1, 2))
    (ArithTuple((5, (7, 3), 6)), ArithTuple((3, 6)))
    """

    __slots__ = ()

    def __new__(cls, parts: Iterable[Any] = ()) -> ArithTuple:
        items = listed("ArithTuple", parts, "a tuple")
        try:
            return super().__new__(cls, [ArithTuple(p) if type(p) is tuple else p for p in items])
        except RecursionError:
            raise ShapeError(f"ArithTuple of {shown(parts)}: it is nested too deep") from None

    def __add__(self, other: Any) -> ArithTuple:
        other = _coordinate(other)
        return ArithTuple(_add(self, other)) if _is_factor(other, tuple) else NotImplemented

    __radd__ = __add__

    def __mul__(self, factor: Any) -> ArithTuple:
        return ArithTuple([v * factor for v in self]) if _is_factor(factor) else NotImplemented

    def __rmul__(self, factor: Any) -> ArithTuple:
        return ArithTuple([factor * v for v in self]) if _is_factor(factor) else NotImplemented

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"ArithTuple({_plain(self)!r})"


class ScaledBasis(Value):
    """`value` steps along mode `modes[-1]` of ... of mode `modes[0]` of a coordinate; printed reversed.

    Immutable and hashable.  Raises ShapeError for a path that is empty, negative or past MAX_DEPTH, and
    ArgumentTypeError for parts that are not integers (a value may be a sympy expression).

    >>> basis = ScaledBasis(2, 0, 1)
    >>> print(basis, 4 * basis, basis.coordinate())
    2@1@0 8@1@0 ((0,2))
    """

    __slots__ = ("modes", "value")
    __match_args__ = ("value", "modes")
    __array_ufunc__ = None  # NumPy arrays leave the product to __rmul__

    value: Any
    modes: tuple[int, ...]

    def __init__(self, value: Any, *modes: int) -> None:
        path = tuple([whole_number(mode, "ScaledBasis") for mode in modes])
        if not path or len(path) > MAX_DEPTH or not all(0 <= mode < MAX_DEPTH for mode in path):
            raise ShapeError(
                f"ScaledBasis along modes {path}: 1 to {MAX_DEPTH} modes are needed, "
                f"each from 0 to {MAX_DEPTH - 1}"
            )
        object.__setattr__(self, "value", value if is_symbolic(value) else whole_number(value, "ScaledBasis"))
        object.__setattr__(self, "modes", path)

    def _arguments(self) -> tuple[Any, ...]:
        return (self.value, *self.modes)

    def scaled(self, value: Any) -> ScaledBasis:
        """`value` steps along the same mode.

        >>> print(ScaledBasis(2, 1).scaled(7))
        7@1
        """
        out = object.__new__(ScaledBasis)
        object.__setattr__(out, "value", value)
        object.__setattr__(out, "modes", self.modes)
        return out

    def coordinate(self) -> ArithTuple:
        """The coordinate this is, with zeros before each mode of the path.

        >>> ScaledBasis(5, 1, 2).coordinate()
        ArithTuple((0, (0, 0, 5)))
        """
        value = self.value
        for mode in reversed(self.modes):
            value = ArithTuple((*(0,) * mode, value))
        return value  # type: ignore[no-any-return]

    def __add__(self, other: Any) -> Any:
        if isinstance(other, ScaledBasis):
            if other.modes == self.modes:
                return self.scaled(self.value + other.value)
            return self.coordinate() + other.coordinate()
        if type(other) is int and other == 0:
            return self
        return self.coordinate() + other if _is_factor(other, tuple) else NotImplemented

    __radd__ = __add__

    def __mul__(self, factor: Any) -> ScaledBasis:
        return self.scaled(self.value * factor) if _is_factor(factor) else NotImplemented

    def __rmul__(self, factor: Any) -> ScaledBasis:
        return self.scaled(factor * self.value) if _is_factor(factor) else NotImplemented

    def __bool__(self) -> bool:
        return bool(self.value != 0)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScaledBasis):
            return bool(self.value == other.value) and (self.modes == other.modes or not self)
        return not self and other == 0

    def __hash__(self) -> int:
        return hash((self.value, self.modes)) if self else hash(0)

    def __str__(self) -> str:
        return to_text(self.value) + "".join(f"@{mode}" for mode in reversed(self.modes))


def make_basis_like(shape: IntTuple) -> StrideTuple:
    """A stride for `shape` that sends every coordinate to itself: 1 along each leaf's own path.

    An integer shape has the stride 1, as in CuTe.

    >>> from layoutalg.layout import to_text
    >>> print(to_text(make_basis_like((4, (2, 8)))))
    (1@0,(1@0@1,1@1@1))
    """

    def build(part: IntTuple, path: tuple[int, ...]) -> StrideTuple:
        if not isinstance(part, (tuple, list)):
            return ScaledBasis(1, *path) if path else 1
        if len(path) == MAX_DEPTH:
            raise ShapeError(f"make_basis_like of a shape of more than {MAX_DEPTH} levels; flatten it first")
        return tuple(build(p, (*path, i)) for i, p in enumerate(part))

    return build(shape, ())


def _is_factor(value: object, allowed: type = int) -> bool:
    """False for what no stride is multiplied by (floats, truth values, text, coordinates, other bases), but
    for the type that is `allowed`."""
    if isinstance(value, (bool, float, complex, str, list)) or value is None:
        return False
    return isinstance(value, allowed) or not isinstance(value, (tuple, ScaledBasis))


def _coordinate(value: Any) -> Any:
    return value.coordinate() if isinstance(value, ScaledBasis) else value


def _add(a: Any, b: Any) -> Any:
    """Leaf by leaf, the shorter tuple filled up with zeros; 0 adds to a tuple, other numbers do not."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return ArithTuple([_add(x, y) for x, y in itertools.zip_longest(a, b, fillvalue=0)])
    if isinstance(a, tuple) or isinstance(b, tuple):
        number, coordinate = (b, a) if isinstance(a, tuple) else (a, b)
        if type(number) is int and number == 0:
            return ArithTuple(coordinate)
        raise ShapeError(
            f"the coordinates {to_text(a)} and {to_text(b)} do not add: where one has a number, "
            f"the other has a tuple"
        )
    return a + b


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
