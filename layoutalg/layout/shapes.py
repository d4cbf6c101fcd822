"""Shapes and coordinates: ceil_div, shape_div, congruent, compatible, crd2idx, idx2crd, crd2crd.

The idea.  Dividing a shape by a number takes the number out of the leftmost modes first, as a flat index
fills them: what a mode cannot take is left for the next one.

    shape_div((2, (2, 3)), 4) = (1, (1, 3))      4 takes the 2, then the other 2
    shape_div((6, 4), 12)     = (1, 2)           12 takes the 6 and leaves a 2

`ceil_div` does the same and rounds up where `shape_div` refuses.  `crd2crd` renames a coordinate of one
shape as the coordinate of another that has the same flat index.

Notes.  Extents and divisors are positive; others raise ShapeError.  They may be sympy expressions, see
symbols; a number that is taken out of several modes must then be split by the caller.

Source: CUTLASS, include/cute/int_tuple.hpp and include/cute/stride.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutalg.errors import DivisibilityError, ShapeError, UnsupportedError, names_refusals, shown
from layoutalg.layout import int_tuple
from layoutalg.layout.int_tuple import MAX_DEPTH, IntTuple, flatten_tree, normalize, product, to_text, tupled
from layoutalg.layout.layout import Layout, leaf_of_shape, leaf_of_stride, require_positive
from layoutalg.layout.symbols import canonical, divides, is_symbolic, quotient, require


def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """The number of tiles of `b` that cover `a`, each quotient rounded up.

    Two tuples divide mode by mode, `b` filled up with 1 on the right; a number takes whole modes of a
    tuple from the left, and a part of the next.  Raises ShapeError when `b` has more modes or something is
    not positive, DivisibilityError when a number takes more than a mode but no multiple of it (CuTe rounds
    there: 3 out of (2,2) leaves it one tile, which does not cover).

    >>> ceil_div(10, 4), ceil_div((10, 9), (4, 2)), ceil_div((6, 4), 12)
    (3, (3, 5), (1, 2))
    """

    def leaf(x: Any, y: Any) -> Any:
        if is_symbolic(x) or is_symbolic(y):
            exact = quotient(x, y)
            return canonical(-(-x // y)) if exact is None else exact
        return -(-x // y)

    return _divide("ceil_div", a, b, leaf)


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """The shape that is left of `a` when `b` of its elements are taken out, leftmost first.

    Two tuples divide mode by mode, `b` filled up with 1 on the right.  Raises DivisibilityError where
    neither of two numbers divides the other; a symbolic extent must be divided by its part of `b`.

    >>> shape_div(12, 4), shape_div((2, (2, 3)), 4), shape_div((8, 6), (2, 3))
    (3, (1, (1, 3)), (4, 2))
    """

    def leaf(x: Any, y: Any) -> Any:
        if is_symbolic(x) or is_symbolic(y):
            exact = quotient(x, y)
            if exact is None and not require(f"shape_div({to_text(a)}, {to_text(b)})", divides(y, x)):
                raise _indivisible("shape_div", a, b, x, y)
            return canonical(x // y) if exact is None else exact
        if x % y and y % x:
            raise _indivisible("shape_div", a, b, x, y)
        return -(-x // y)

    return _divide("shape_div", a, b, leaf)


def _indivisible(name: str, a: IntTuple, b: IntTuple, x: int, y: int) -> DivisibilityError:
    return DivisibilityError(
        f"{name}({to_text(a)}, {to_text(b)}): neither of {x} and {y} divides the other", lhs=a, rhs=b
    )


def _divide(name: str, a: IntTuple, b: IntTuple, leaf: Callable[[Any, Any], Any]) -> IntTuple:
    a = normalize(a, f"{name}: the dividend", leaf_of_shape)
    b = normalize(b, f"{name}: the divisor", leaf_of_shape)
    numbers = [x for x in (*flatten_tree(a), *flatten_tree(b)) if type(x) is int]
    if min(numbers, default=1) < 1:
        raise ShapeError(f"{name}({to_text(a)}, {to_text(b)}): extents must be positive")
    if len(numbers) < len(flatten_tree(a)) + len(flatten_tree(b)):
        require_positive(a)
        require_positive(b)

    def run(x: IntTuple, y: IntTuple) -> IntTuple:
        if not isinstance(x, tuple):
            out: IntTuple = leaf(x, product(y))
            return out
        if isinstance(y, tuple):
            if len(y) > len(x):
                raise ShapeError(f"{name}({to_text(a)}, {to_text(b)}): the divisor has more modes")
            return tuple(map(run, x, (*y, *(1,) * (len(x) - len(y)))))
        parts: list[IntTuple] = []
        for part in x:
            taken = product(part)
            parts.append(run(part, y))
            if y != 1 and (is_symbolic(y) or is_symbolic(taken)):
                raise UnsupportedError(
                    f"{name}({to_text(a)}, {to_text(b)}): which modes {y} takes depends on the symbols; "
                    f"divide mode by mode, by a tuple"
                )
            if y > taken and y % taken:
                raise _indivisible(name, a, b, taken, y)
            y = -(-y // taken)
        return tuple(parts)

    return run(a, b)


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """True when both trees have the same form (leaves may differ).

    Raises ArgumentTypeError for leaves that no extent or stride can be, ShapeError past MAX_DEPTH levels.

    >>> congruent((1, (2, 3)), (9, (9, 9))), congruent((1, 2), 3)
    (True, False)
    """
    first = normalize(a, "congruent: a tree", leaf_of_stride)
    second = normalize(b, "congruent: a tree", leaf_of_stride)
    return int_tuple.congruent_trees(first, second)


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """True when `b` refines the tree of `a`: every leaf of `a` meets any subtree of `b`.

    Raises as `congruent` does.

    >>> weakly_congruent(3, (1, 2)), weakly_congruent((1, 2), 3)
    (True, False)
    """
    first = normalize(a, "weakly_congruent: a tree", leaf_of_stride)
    second = normalize(b, "weakly_congruent: a tree", leaf_of_stride)
    return int_tuple.weakly_congruent_trees(first, second)


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """True when every coordinate of shape `a` is one of shape `b`: sizes agree along the tree of `a`.

    Raises UndecidedError where sizes agree for some values of symbols alone, and as `congruent` does.

    >>> compatible(24, (4, 6)), compatible((4, 6), ((2, 2), 6)), compatible((4, 6), 24)
    (True, True, False)
    """
    first = normalize(a, "compatible: a shape", leaf_of_shape)
    second = normalize(b, "compatible: a shape", leaf_of_shape)
    return int_tuple.compatible_trees(first, second)


def check_nesting(value: object, what: str) -> None:
    """Refuse tuples and lists nested deeper than MAX_DEPTH levels, which recursion could not follow.

    >>> check_nesting((1, (None, 2)), "tiler")
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [v for part in level if isinstance(part, (tuple, list)) for v in part]
        if not level:
            return
    raise ShapeError(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it first")


@names_refusals
def crd2idx(crd: Any, shape: IntTuple, stride: Any = None) -> Any:
    """Inner product of a coordinate with `stride` (compact column-major when omitted).

    `crd` may stop at any depth of `shape`; its leaves may be ints, NumPy arrays, sympy symbols or index
    expressions.  Raises ShapeError for a coordinate that is negative or does not fit, and what `Layout`
    raises.

    >>> crd2idx((7, 5), ((2, 4), 8)), crd2idx(9, (4, 8), (8, 1))
    (47, 10)
    """
    check_nesting(crd, "coordinate")
    return Layout(shape, stride)(crd)


@names_refusals
def idx2crd(index: Any, shape: IntTuple) -> Any:
    """The coordinate of `shape`'s own tree that flat `index` names; the last mode is not reduced.

    Raises ShapeError for a negative index, and what `Layout` raises.

    >>> idx2crd(47, ((2, 4), 8)), idx2crd(70, (8, 8))
    (((1, 3), 5), (6, 8))
    """
    return int_tuple.coordinate_at(index, Layout(shape).shape)


@names_refusals
def crd2crd(crd: Any, source: IntTuple, target: IntTuple) -> Any:
    """The coordinate of `target` that has the flat index which `crd` has in `source`.

    Where all three are tuples, each mode is renamed for itself, as in CuTe.  Raises ShapeError for a
    coordinate or shapes that do not fit.

    >>> crd2crd((1, 2), (4, 8), 32), crd2crd(9, (4, 8), (2, 16)), crd2crd((5, 1), (8, 2), ((2, 4), 2))
    (9, (1, 4), ((1, 2), 1))
    """
    source, target = Layout(source).shape, Layout(target).shape
    crd = tupled(crd, "coordinate")
    if isinstance(crd, tuple) and isinstance(source, tuple) and isinstance(target, tuple):
        if not len(crd) == len(source) == len(target):
            raise ShapeError(
                f"coordinate {shown(crd)}, shape {to_text(source)} and shape {to_text(target)} differ in rank"
            )
        return tuple(map(crd2crd, crd, source, target))
    return idx2crd(crd2idx(crd, source), target)
