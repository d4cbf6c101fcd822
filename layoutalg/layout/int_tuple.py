"""IntTuple: an integer, or a tuple of IntTuples.  Shapes, strides and coordinates are IntTuples.

The idea.  A shape such as `((2, 4), 8)` is a tree whose leaves are extents.  A coordinate may be given
at any depth of that tree: `((1, 3), 5)`, `(7, 5)` and `47` all name the same element, because a single
integer runs through its subtree *colexicographically*, leftmost leaf fastest:

    shape ((2, 4), 8)     47  ->  47 % 8 = 7, 47 // 8 = 5   ->  (7, 5)
                           7  ->   7 % 2 = 1,  7 // 2 = 3   ->  ((1, 3), 5)

Digits of the LAST leaf are not reduced: an index at or past the size extends the last mode, as in CuTe.

Everything here uses only `+ * // %`, so the same function runs on ints, NumPy arrays, sympy symbols and
the code generator's index expressions.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, shown
from layoutalg.layout.symbols import canonical, is_symbolic, require
from layoutalg.limits import Most

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"

MAX_DEPTH, MAX_INT_BITS = Most.DEPTH.number, Most.INT_BITS.number
"""The limits, looked up once: every layout that is made needs them."""


def _checked_bits(value: int, what: str) -> int:
    Most.INT_BITS.guard(value.bit_length(), f"bits of an integer of {what}")
    return value


def normalize(
    value: object, what: str = "shape", other: Callable[[Any, str], Any] | None = None, _level: int = 0
) -> IntTuple:
    """Return `value` with every leaf a plain int and lists as tuples; NumPy integers are accepted, bool and
    float are not.

    `other(leaf, what)` may replace a leaf that is not an integer; None is a refusal.  Raises
    ArgumentTypeError for any other leaf, ShapeError past MAX_DEPTH levels and ResourceError past
    MAX_INT_BITS bits.

    >>> normalize((2, [4, 8]))
    (2, (4, 8))
    """
    if type(value) is int:
        return value if value.bit_length() <= MAX_INT_BITS else _checked_bits(value, what)
    if isinstance(value, tuple):
        if _level >= MAX_DEPTH:
            raise ShapeError(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it first")
        return tuple([normalize(v, what, other, _level + 1) for v in value])
    if isinstance(value, list):
        return normalize(tuple(value), what, other, _level)
    if isinstance(value, bool) or type(value).__name__ == "bool":
        raise ArgumentTypeError(f"{what} has the bool {value!r}; integers and tuples of them are accepted")
    try:
        return _checked_bits(operator.index(value), what)  # type: ignore[arg-type]
    except TypeError:
        leaf = other(value, what) if other else None
    if leaf is None:
        kind = type(value).__name__
        raise ArgumentTypeError(
            f"{what} has {shown(value)} of type {kind}; integers and tuples of them are accepted"
        )
    return leaf  # type: ignore[no-any-return]


def tupled(value: Any, what: str, _level: int = 0) -> Any:
    """`value` with the lists in it as tuples, whatever its leaves are; itself where it has none.

    Raises ShapeError past MAX_DEPTH levels.

    >>> tupled([1, (None, [2, 3])], "coordinate")
    (1, (None, (2, 3)))
    """
    if not isinstance(value, (tuple, list)):
        return value
    if _level > MAX_DEPTH:
        raise ShapeError(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it first")
    parts = [tupled(v, what, _level + 1) for v in value]
    same = isinstance(value, tuple) and all(map(operator.is_, parts, value))
    return value if same else tuple(parts)


def whole_number(value: object, what: str) -> int:
    """`value` as a plain int; ArgumentTypeError for anything else, a tuple too.

    >>> whole_number(7, "bit")
    7
    """
    number = normalize(value, what)
    if isinstance(number, tuple):
        raise ArgumentTypeError(f"{what} is the tuple {to_text(number)}; an integer is needed")
    return number


def flatten_tree(value: IntTuple) -> tuple[int, ...]:
    """The leaves, left to right, as one flat tuple.

    >>> flatten_tree(((2, 4), 8))
    (2, 4, 8)
    """
    if not isinstance(value, tuple):
        return (value,)
    while True:
        for v in value:
            if isinstance(v, tuple):
                break
        else:
            return value  # type: ignore[return-value]
        level: list[IntTuple] = []
        for v in value:
            if isinstance(v, tuple):
                level += v
            else:
                level.append(v)
        value = tuple(level)


def unflatten_tree(leaves: tuple[int, ...], profile: IntTuple) -> IntTuple:
    """Inverse of `flatten_tree`: arrange `leaves` in the tree of `profile`.

    Raises ShapeError when the number of leaves differs.

    >>> unflatten_tree((1, 2, 3), ((0, 0), 0))
    ((1, 2), 3)
    """
    source = iter(leaves)

    def build(node: IntTuple) -> IntTuple:
        return tuple(build(v) for v in node) if isinstance(node, tuple) else next(source)

    if len(flatten_tree(profile)) != len(leaves):
        raise ShapeError(f"{len(leaves)} leaves do not fit the profile {to_text(profile)}")
    try:
        return build(profile)
    except RecursionError:
        raise _too_deep("the profile") from None


def product(value: IntTuple) -> int:
    """Product of all leaves; 1 for the empty tuple.  Raises ArgumentTypeError for what is not an integer.

    >>> product(((2, 4), 8)), product(())
    (64, 1)
    """
    try:
        total = math.prod(flatten_tree(value)) if isinstance(value, tuple) else value
    except TypeError:
        total = None
    if type(total) is int:
        return total
    return canonical(total) if is_symbolic(total) else product(normalize(value, "product: a tree"))


def prefix_product(shape: IntTuple) -> IntTuple:
    """Compact column-major strides of `shape`, 0 for modes of extent 1.

    >>> prefix_product(((2, 4), 8)), prefix_product((1, 4))
    (((1, 2), 8), (0, 1))
    """
    current, strides = 1, []
    for s in flatten_tree(shape):
        strides.append(0 if s == 1 else current)
        current *= s
        if type(current) is not int:
            current = canonical(current)
    return unflatten_tree(tuple(strides), shape)


def congruent_trees(a: IntTuple, b: IntTuple) -> bool:
    """True when both trees have the same form (leaves may differ).

    >>> congruent_trees((1, (2, 3)), (9, (9, 9))), congruent_trees((1, 2), 3)
    (True, False)
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and _pairwise(congruent_trees, a, b)
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def _pairwise(question: Callable[[IntTuple, IntTuple], bool], a: IntTuple, b: IntTuple) -> bool:
    """True when the question is, for every pair of elements; ShapeError for trees beyond the stack."""
    try:
        return all(map(question, a, b))  # type: ignore[arg-type]
    except RecursionError:
        raise _too_deep("a tree") from None


def _too_deep(what: str) -> ShapeError:
    return ShapeError(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it first")


def weakly_congruent_trees(a: IntTuple, b: IntTuple) -> bool:
    """True when `b` refines the tree of `a`: every leaf of `a` meets any subtree of `b`.

    >>> weakly_congruent_trees(3, (1, 2)), weakly_congruent_trees((1, 2), 3)
    (True, False)
    """
    if not isinstance(a, tuple):
        return True
    return isinstance(b, tuple) and len(a) == len(b) and _pairwise(weakly_congruent_trees, a, b)


def compatible_trees(a: IntTuple, b: IntTuple) -> bool:
    """True when every coordinate of shape `a` is one of shape `b`: sizes agree along the tree of `a`.

    Raises UndecidedError where sizes agree for some values of symbols alone.

    >>> compatible_trees(24, (4, 6)), compatible_trees((4, 6), ((2, 2), 6)), compatible_trees((4, 6), 24)
    (True, True, False)
    """
    if not isinstance(a, tuple):
        return _equal(a, product(b))
    return isinstance(b, tuple) and len(a) == len(b) and _pairwise(compatible_trees, a, b)


def _equal(a: Any, b: Any) -> bool:
    if is_symbolic(a) or is_symbolic(b):
        import sympy

        return require(f"compatible({a}, {b})", sympy.Eq(a, b))
    return bool(a == b)


def tree_depth(value: IntTuple) -> int:
    """0 for a leaf, 1 + the deepest element for a tuple.

    >>> tree_depth(4), tree_depth((4, (2, 2)))
    (0, 2)
    """
    if not isinstance(value, tuple):
        return 0
    return 1 + max(map(tree_depth, value), default=0)


def check_index(index: Any) -> None:
    """Refuse what is not a non-negative index: float, bool, a negative int, array element or symbol.

    Raises ShapeError for a negative one, ArgumentTypeError for another type.

    >>> check_index(7)
    """
    if type(index) is int:
        _checked_bits(index, "a coordinate")
        if index < 0:
            raise ShapeError(f"coordinate {index} is negative; coordinates count from 0")
        return
    if isinstance(index, (bool, float, str)) or index is None:
        raise ArgumentTypeError(f"coordinate {index!r} is a {type(index).__name__}; an integer is needed")
    dtype = getattr(index, "dtype", None)
    if dtype is not None:
        if dtype.kind != "O" or not all(type(x) is int for x in index.flat):
            check_integers_of(index)
        if dtype.kind != "u" and bool((index < 0).any() if index.ndim else index < 0):
            raise ShapeError(f"coordinate {int(index.min())} is negative; coordinates count from 0")
    elif getattr(index, "is_negative", None) is True:
        raise ShapeError(f"coordinate {index} is negative; coordinates count from 0")
    elif not hasattr(type(index), "__floordiv__"):
        raise ArgumentTypeError(f"coordinate {shown(index)} is a {type(index).__name__}, no integer")


def check_integers_of(array: Any) -> None:
    """Refuse an array, or a NumPy number, of anything but integers with an ArgumentTypeError.

    >>> import numpy
    >>> check_integers_of(numpy.arange(4))
    """
    if array.dtype.kind not in "iu":
        raise ArgumentTypeError(f"coordinates have dtype {array.dtype}; an integer dtype is needed")


def has_arrays(crd: Any) -> bool:
    """True when a NumPy array or number is among the leaves of a coordinate.

    >>> import numpy
    >>> has_arrays((1, (2, 3))), has_arrays((1, (2, numpy.arange(3))))
    (False, True)
    """
    if not isinstance(crd, tuple):
        return type(crd).__module__ == "numpy"
    try:
        for part in crd:
            if type(part) is not int and has_arrays(part):
                return True
    except RecursionError:
        pass  # no shape is as deep: it is refused where it meets one
    return False


INT64 = 1 << 63
"""The bound below which an int64 stays."""


def on_arrays(function: Callable[[Any, Any], Any], crd: Any, bound: Callable[[int], int]) -> Any:
    """function(crd, most) for NumPy arrays in `crd`, exact: in int64 where that holds all numbers on the way.

    `most` is the tree of the largest integers of its leaves; no number on the way is larger than bound(the
    largest of all), or below its negative.  Where int64 may not hold them they are Python's integers.
    Raises ResourceError when int64 does not hold a result.  Where an array of Python's integers is among
    them, the result is one, of any size.

    >>> import numpy
    >>> on_arrays(lambda x, most: x * 200 // 100, numpy.arange(3, dtype="i1"), lambda most: most * 200)
    array([0, 2, 4])
    """
    try:
        narrow, most = _in_int64(crd)
    except RecursionError:
        raise _too_deep("the coordinate") from None
    largest = max(flatten_tree(most)) if isinstance(most, tuple) else most
    if type(narrow) is int or (largest < INT64 and bound(largest) < INT64):
        result = function(narrow, most)
        if type(result) is not int and hasattr(result, "dtype"):
            return result
    else:
        result = function(_as_objects(crd), most)
        leaves: tuple[Any, ...] = flatten_tree(crd)
        if any(type(c).__module__ == "numpy" and c.dtype.kind == "O" for c in leaves):
            return result
    return as_int64(result.coordinate() if hasattr(result, "coordinate") else result)


@functools.cache
def _numpy_parts() -> tuple[Any, Any, Any]:
    """int64, uint64 and the largest number of an array, looked up once."""
    import numpy as np

    return np.dtype("int64"), np.dtype("uint64"), np.maximum.reduce


def _in_int64(crd: Any) -> Any:
    """A coordinate with its arrays in int64 and NumPy's numbers as ints; the tree of the largest integers.

    These are INT64 or more for an array with a negative number, infinity for one that is not of integers.
    """
    if isinstance(crd, tuple):
        parts = [(c, c) if type(c) is int else _in_int64(c) for c in crd]
        return tuple(zip(*parts, strict=True)) or (crd, crd)
    if type(crd).__module__ != "numpy":
        return crd, crd if type(crd) is int else 0
    if crd.dtype.kind not in "iu":
        return crd, math.inf
    if crd.ndim == 0:
        return int(crd), int(crd)
    signed, unsigned, largest = _numpy_parts()
    array = crd if crd.dtype is signed else crd.astype(signed)
    if not array.size:
        return array, 0
    return array, int(largest(array.view(unsigned), axis=None))  # a negative number is past INT64 here


def _as_objects(crd: Any) -> Any:
    """A coordinate with its arrays as arrays of Python's integers; refused where they are not indices."""
    if isinstance(crd, tuple):
        return tuple(map(_as_objects, crd))
    if type(crd).__module__ != "numpy":
        return crd
    check_index(crd)
    return crd.astype("object", copy=False)


def as_int64(value: Any) -> Any:
    """Python's integers as NumPy's: an int, those of an array and of the leaves of a coordinate.

    Raises ResourceError for one that int64 does not hold; what is not of integers stays as it is.

    >>> as_int64(3).dtype.name
    'int64'
    """
    if type(value) is int:
        if not -INT64 <= value < INT64:
            raise ResourceError("bits of an offset in an int64 array", value.bit_length(), 63)
        return _numpy_parts()[0].type(value)
    if isinstance(value, tuple):
        return type(value)(map(as_int64, value))
    if getattr(value, "dtype", None) is None or value.dtype.kind != "O":
        return value
    numbers = value.ravel().tolist()
    if any(type(x) is not int for x in numbers):
        return value
    for x in numbers:
        as_int64(x)
    return value.astype("int64")


def index_at(crd: Any, shape: IntTuple, stride: IntTuple | None = None) -> Any:
    """Inner product of a coordinate with `stride` (compact column-major when omitted).

    `crd` may stop at any depth of `shape`; its leaves may be ints, NumPy arrays, sympy symbols or index
    expressions.  Raises ShapeError for a coordinate that is negative or does not fit.

    >>> index_at((7, 5), ((2, 4), 8)), index_at(9, (4, 8), (8, 1))
    (47, 10)
    """
    if stride is None:
        stride = prefix_product(shape)
    if type(crd) is not int and has_arrays(crd):
        return on_arrays(
            lambda c, most: array_product(c, shape, stride, most),
            crd,
            lambda most: (most + 1) * weight(shape, stride),
        )
    return inner_product(crd, shape, stride)


def weight(shape: IntTuple, stride: IntTuple) -> int:
    """W such that no number on the way to an offset is above W (n + 1), for coordinates of integers up to n.

    >>> weight((4, 8), (8, -1))
    21
    """
    numbers = (*flatten_tree(shape), *flatten_tree(stride))
    try:
        total = sum(map(abs, numbers))
    except TypeError:  # scaled bases
        total = None
    if type(total) is int:
        return total
    return sum(abs(n) if type(n) is int else _scale(n) for n in numbers)


def _scale(stride: Any) -> int:
    """The steps of a stride along a mode; 0 of a symbol, which no int64 array holds."""
    value = getattr(stride, "value", 0)
    return abs(value) if type(value) is int else 0


def inner_product(crd: Any, shape: IntTuple, stride: IntTuple) -> Any:
    """`index_at` in the arithmetic of the leaves as they are, where arrays of few bits may wrap.

    >>> inner_product((7, 5), ((2, 4), 8), ((1, 2), 8))
    47
    """
    if isinstance(crd, tuple):
        if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(crd) != len(shape):
            raise _misfit(crd, shape)
        total: Any = 0
        for c, s, d in zip(crd, shape, stride, strict=True):
            total = total + inner_product(c, s, d)
        return total
    if type(crd) is not int or crd < 0:
        check_index(crd)
    if not isinstance(shape, tuple):
        return crd * stride
    extents, strides = flatten_tree(shape), flatten_tree(stride)
    if not extents:
        return crd * 0 if hasattr(crd, "dtype") else 0
    total = 0
    for i in range(len(extents) - 1):
        s = extents[i]
        if s != 1 or type(strides[i]) is not int:
            total = total + crd % s * strides[i]
            crd = crd // s
    return total + crd * strides[-1]


def array_product(crd: Any, shape: IntTuple, stride: IntTuple, most: Any) -> Any:
    """`inner_product` of arrays whose largest indices are `most` and in which no index is negative.

    The same in fewer passes: ints are added to ints, and digits that no index reaches are not computed.

    >>> import numpy
    >>> array_product((numpy.arange(3), 5), ((2, 4), 8), ((1, 2), 8), (2, 5))
    array([40, 41, 42])
    """
    total: Any = None
    if isinstance(crd, tuple):
        if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(crd) != len(shape):
            raise _misfit(crd, shape)
        constant = 0
        for c, s, d, m in zip(crd, shape, stride, most, strict=True):
            simple = type(c) is int and type(d) is int and c >= 0
            part = c * d if simple else array_product(c, s, d, m)
            if type(part) is int:
                constant += part
            else:
                total = part if total is None else total + part
        return constant if total is None else total + constant if constant else total
    if type(crd).__module__ != "numpy":
        return inner_product(crd, shape, stride)
    if type(stride) is int:
        return crd * stride
    extents, strides = flatten_tree(shape), flatten_tree(stride)
    if not strides:
        return crd * 0
    left = crd
    for s, d in zip(extents[:-1], strides, strict=False):
        if type(s) is not int or type(d) is not int:
            return inner_product(crd, shape, stride)
        if most < s:
            return left * d if total is None else total + left * d
        if s != 1:
            total = left % s * d if total is None else total + left % s * d
            left, most = left // s, most // s
    if type(strides[-1]) is not int:
        return inner_product(crd, shape, stride)
    return left * strides[-1] if total is None else total + left * strides[-1]


def _misfit(crd: Any, shape: IntTuple) -> ShapeError:
    try:
        return ShapeError(f"coordinate {crd!r} does not fit shape {to_text(shape)}")
    except RecursionError:
        return _too_deep("the coordinate")


def coordinate_at(index: Any, shape: IntTuple) -> Any:
    """The coordinate of `shape`'s own tree that flat `index` names; the last mode is not reduced.

    Raises ShapeError for a negative index.

    >>> coordinate_at(47, ((2, 4), 8)), coordinate_at(70, (8, 8))
    (((1, 3), 5), (6, 8))
    """
    check_index(index)
    leaves = flatten_tree(shape)
    if has_arrays(index) and index.dtype.kind in "iu":
        most = max((int(index.max()) if index.size else 0, *(s for s in leaves if type(s) is int)))
        index = index.astype("int64" if most < INT64 else "object", copy=False)
    digits: list[Any] = []
    for s in leaves[:-1]:
        digits.append(index % s)
        index = index // s
    if leaves:
        digits.append(index)
    return unflatten_tree(tuple(digits), shape)


def to_text(value: IntTuple) -> str:
    """CuTe notation: no spaces, `(4)` for a one-element tuple.

    >>> to_text(((2, 4), 8)), to_text((4,)), to_text(())
    ('((2,4),8)', '(4)', '()')
    """
    if isinstance(value, tuple):
        return f"({','.join(map(to_text, value))})"
    return str(value).replace(" ", "") if is_symbolic(value) else str(value)
