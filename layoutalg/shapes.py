"""Arithmetic of shapes and coordinates: ceil_div, shape_div, crd2crd.

The idea.  Dividing a shape by a number takes the number out of the leftmost modes first, as a flat index
fills them: what a mode cannot take is left for the next one.

    shape_div((2, (2, 3)), 4) = (1, (1, 3))      4 takes the 2, then the other 2
    shape_div((6, 4), 12)     = (1, 2)           12 takes the 6 and leaves a 2

`ceil_div` does the same and rounds up where `shape_div` refuses.  `crd2crd` renames a coordinate of one
shape as the coordinate of another that has the same flat index.

Notes.  Extents and divisors are positive; others raise ShapeError.

Source: CUTLASS, include/cute/int_tuple.hpp and include/cute/stride.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.int_tuple import MAX_DEPTH, IntTuple, crd2idx, flatten, idx2crd, normalize, product, to_text


def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """How many tiles of `b` cover `a`, each quotient rounded up.

    Two tuples divide mode by mode, `b` filled up with 1 on the right; a number takes whole modes of a
    tuple from the left, and a part of the next.  Raises ShapeError when `b` has more modes or something is
    not positive, DivisibilityError when a number takes more than a mode but no multiple of it (CuTe rounds
    there: 3 out of (2,2) leaves it one tile, which does not cover).

    >>> ceil_div(10, 4), ceil_div((10, 9), (4, 2)), ceil_div((6, 4), 12)
    (3, (3, 5), (1, 2))
    """
    return _divide("ceil_div", a, b, lambda x, y: -(-x // y))


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """The shape that is left of `a` when `b` of its elements are taken out, leftmost first.

    Two tuples divide mode by mode, `b` filled up with 1 on the right.  Raises DivisibilityError where
    neither of two numbers divides the other.

    >>> shape_div(12, 4), shape_div((2, (2, 3)), 4), shape_div((8, 6), (2, 3))
    (3, (1, (1, 3)), (4, 2))
    """

    def leaf(x: int, y: int) -> int:
        if x % y and y % x:
            raise _indivisible("shape_div", a, b, x, y)
        return -(-x // y)

    return _divide("shape_div", a, b, leaf)


def _indivisible(name: str, a: IntTuple, b: IntTuple, x: int, y: int) -> DivisibilityError:
    return DivisibilityError(
        f"{name}({to_text(a)}, {to_text(b)}): neither of {x} and {y} divides the other", lhs=a, rhs=b
    )


def _divide(name: str, a: IntTuple, b: IntTuple, leaf: Callable[[int, int], int]) -> IntTuple:
    a, b = normalize(a, "dividend"), normalize(b, "divisor")
    if min((*flatten(a), *flatten(b)), default=1) < 1:
        raise ShapeError(f"{name}({to_text(a)}, {to_text(b)}): extents must be positive")

    def run(x: IntTuple, y: IntTuple) -> IntTuple:
        if not isinstance(x, tuple):
            return leaf(x, product(y))
        if isinstance(y, tuple):
            if len(y) > len(x):
                raise ShapeError(f"{name}({to_text(a)}, {to_text(b)}): the divisor has more modes")
            return tuple(map(run, x, (*y, *(1,) * (len(x) - len(y)))))
        out: list[IntTuple] = []
        for part in x:
            taken = product(part)
            out.append(run(part, y))
            if y > taken and y % taken:
                raise _indivisible(name, a, b, taken, y)
            y = -(-y // taken)
        return tuple(out)

    return run(a, b)


def check_nesting(value: object, what: str) -> None:
    """Refuse tuples nested deeper than MAX_DEPTH levels, which recursion could not follow.

    >>> check_nesting((1, (None, 2)), "tiler")
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [v for part in level if isinstance(part, tuple) for v in part]
        if not level:
            return
    raise ShapeError(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it first")


def crd2crd(crd: Any, source: IntTuple, target: IntTuple) -> Any:
    """The coordinate of `target` that has the flat index which `crd` has in `source`.

    Where all three are tuples, each mode is renamed for itself, as in CuTe.  Raises ShapeError for a
    coordinate or shapes that do not fit.

    >>> crd2crd((1, 2), (4, 8), 32), crd2crd(9, (4, 8), (2, 16)), crd2crd((5, 1), (8, 2), ((2, 4), 2))
    (9, (1, 4), ((1, 2), 1))
    """
    source, target = normalize(source), normalize(target)
    check_nesting(crd, "coordinate")
    if isinstance(crd, tuple) and isinstance(source, tuple) and isinstance(target, tuple):
        if not len(crd) == len(source) == len(target):
            raise ShapeError(
                f"coordinate {crd!r}, shape {to_text(source)} and shape {to_text(target)} differ in rank"
            )
        return tuple(map(crd2crd, crd, source, target))
    return idx2crd(crd2idx(crd, source), target)
