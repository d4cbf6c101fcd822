"""Linear algebra over F2, the field of two elements: a matrix is a tuple of integer columns.

The idea.  XOR adds, AND multiplies.  A map that sends 0 to 0 and a ^ b to f(a) ^ f(b) is known from its
values at 1, 2, 4, ...: those values are the columns, bit i of a column is row i, and applying the matrix
XORs the columns that the bits of the argument select.

    columns (1, 2, 7)        f(0b110) = 2 ^ 7 = 5

Swizzles are such maps for every argument.  A Layout is one exactly when its weights (stride * 2^j for
every bit j of every coordinate) have pairwise disjoint binary supports, because a + b = a ^ b if and only
if a & b = 0; `to_f2` tests that, and never by sampling.

>>> to_f2(Layout((4, 8), (8, 1)))
(8, 16, 1, 2, 4)
>>> rank((1, 2, 3)), kernel((1, 2, 3))
(2, (7,))

Notes.  Strides need not be powers of two: 8:9 has the weights 9, 18, 36, which are disjoint.  8:3 has 3
and 6, which are not: 3 + 6 = 9 and 3 ^ 6 = 5.  A vector space is given by any spanning tuple of vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from layoutalg.budget import spend
from layoutalg.errors import NotLinearError, ShapeError
from layoutalg.layout import Layout, integer_leaves
from layoutalg.swizzle import AnyLayout, Swizzle, Swizzles, check_layouts

Columns: TypeAlias = "tuple[int, ...]"


def identity(n: int) -> Columns:
    """The n x n identity.

    >>> identity(3)
    (1, 2, 4)
    """
    return tuple(1 << i for i in range(n))


def apply(columns: Sequence[int], x: int) -> int:
    """Matrix times vector: the XOR of the columns that the bits of `x` select.

    Raises ShapeError when `x` has more bits than there are columns.

    >>> apply((1, 2, 7), 0b110)
    5
    """
    if x < 0 or x >> len(columns):
        raise ShapeError(f"vector {x} has more bits than the {len(columns)} columns of the matrix")
    out = 0
    while x:
        low = x & -x
        out ^= columns[low.bit_length() - 1]
        x ^= low
    return out


def multiply(a: Sequence[int], b: Sequence[int]) -> Columns:
    """The product a b: first `b`, then `a`.

    >>> multiply((1, 3), (2, 1))
    (3, 1)
    """
    return tuple(apply(a, column) for column in b)


def transpose(columns: Sequence[int], rows: int | None = None) -> Columns:
    """The transposed matrix; `rows` is the row count of `columns` (default: up to the highest bit set).

    >>> transpose((1, 3, 2))
    (3, 6)
    """
    if rows is None:
        rows = max(columns, default=0).bit_length()
    return tuple(sum((c >> i & 1) << j for j, c in enumerate(columns)) for i in range(rows))


def _reduce(vector: int, pivots: dict[int, int]) -> int:
    """What is left of `vector` after clearing every pivot bit (pivot = highest bit of its row)."""
    rest, out = vector, 0
    while rest:
        top = rest.bit_length() - 1
        row = pivots.get(top)
        if row is None:
            out |= 1 << top
            rest ^= 1 << top
        else:
            rest ^= row
    return out


def basis(vectors: Iterable[int]) -> Columns:
    """The reduced echelon basis of the span, ascending: equal spans give equal results.

    >>> basis((6, 3, 5)), basis((1, 2)) == basis((3, 2))
    ((3, 5), True)
    """
    pivots: dict[int, int] = {}
    for vector in vectors:
        spend(len(pivots) >> 3)
        rest = vector
        while rest:
            row = pivots.get(rest.bit_length())
            if row is None:
                pivots[rest.bit_length()] = rest
                break
            rest ^= row
    out: list[int] = []
    for key in sorted(pivots):
        row = pivots[key]
        for lower in out:
            if row >> (lower.bit_length() - 1) & 1:
                row ^= lower
        out.append(row)
    return tuple(out)


image = basis


def rank(columns: Iterable[int]) -> int:
    """Dimension of the span of the columns.

    >>> rank((1, 2, 3))
    2
    """
    pivots: dict[int, int] = {}
    for vector in columns:
        spend(len(pivots) >> 3)
        while vector:
            top = vector.bit_length()
            row = pivots.get(top)
            if row is None:
                pivots[top] = vector
                break
            vector ^= row
    return len(pivots)


def _tracked(columns: Sequence[int]) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Echelon rows keyed by bit length, each with the combination of columns it is; and the kernel."""
    rows: dict[int, tuple[int, int]] = {}
    null: list[int] = []
    for j, vector in enumerate(columns):
        spend(len(rows) >> 3)
        combination = 1 << j
        while vector:
            row = rows.get(vector.bit_length())
            if row is None:
                rows[vector.bit_length()] = (vector, combination)
                break
            vector ^= row[0]
            combination ^= row[1]
        else:
            null.append(combination)
    return rows, null


def kernel(columns: Sequence[int]) -> Columns:
    """A basis of the vectors that the matrix sends to 0, in echelon form.

    >>> kernel((5, 5, 1))
    (3,)
    """
    return basis(_tracked(columns)[1])


def solve(columns: Sequence[int], y: int) -> int | None:
    """Some x with columns * x = y, or None when there is none.

    >>> solve((1, 2, 7), 5), solve((1, 2), 4)
    (6, None)
    """
    rows, _ = _tracked(columns)
    x = 0
    while y:
        row = rows.get(y.bit_length())
        if row is None:
            return None
        y ^= row[0]
        x ^= row[1]
    return x


def invert(columns: Sequence[int]) -> Columns:
    """The inverse of a square matrix: n columns of at most n bits.

    Raises ShapeError when it is not square or not invertible.

    >>> invert((1, 3))
    (1, 3)
    """
    n = len(columns)
    out = [None if c >> n else solve(columns, 1 << i) for i, c in enumerate(columns)]
    solved = tuple(x for x in out if x is not None)
    if len(solved) != n:
        raise ShapeError(f"matrix with columns {tuple(columns)} is not an invertible {n} x {n} matrix")
    return solved


def contains(space: Iterable[int], vector: int) -> bool:
    """True when `vector` lies in the span.

    >>> contains((3, 5), 6), contains((3, 5), 1)
    (True, False)
    """
    return solve(tuple(space), vector) is not None


def intersection(a: Iterable[int], b: Iterable[int]) -> Columns:
    """A basis of span(a) & span(b), in echelon form.

    >>> intersection((1, 2), (3, 4))
    (3,)
    """
    left = basis(a)
    low = (1 << len(left)) - 1
    return basis(apply(left, combination & low) for combination in kernel(left + basis(b)))


def complement(space: Iterable[int], whole: Sequence[int] | int) -> Columns:
    """Vectors of `whole` (a spanning tuple, or n for all of F2^n) that complete `space` to it.

    The result is independent of `space`, and together they span at least `whole`; unit vectors are
    taken in the order given.

    >>> complement((3,), 2), complement((1, 2), (3, 4))
    ((1,), (4,))
    """
    pivots: dict[int, int] = {v.bit_length(): v for v in basis(space)}
    out: list[int] = []
    for vector in identity(whole) if isinstance(whole, int) else whole:
        rest = vector
        while rest:
            row = pivots.get(rest.bit_length())
            if row is None:
                pivots[rest.bit_length()] = rest
                out.append(vector)
                break
            rest ^= row
    return tuple(out)


def swizzle_columns(swizzle: Swizzle | Swizzles, n: int) -> Columns:
    """The first `n` columns of a swizzle, or of a chain of swizzles.

    >>> swizzle_columns(Swizzle(2, 0, 2), 4)
    (1, 2, 5, 10)
    """
    return tuple(map(swizzle, identity(n)))


def weights(layout: Layout) -> Columns:
    """stride * 2^j for every coordinate bit j, leftmost mode first: the columns, if the layout is linear.

    Raises NotLinearError when an extent is no power of two or a stride is negative.

    >>> weights(Layout((4, 2), (1, 6)))
    (1, 2, 6)
    """
    out: list[int] = []
    for extent, stride in zip(*integer_leaves("to_f2", layout), strict=True):
        if extent & (extent - 1):
            raise NotLinearError(f"{layout} is not linear over F2: extent {extent} is no power of two")
        if stride < 0 and extent > 1:
            raise NotLinearError(f"{layout} is not linear over F2: stride {stride} is negative")
        out.extend(stride << j for j in range(extent.bit_length() - 1))
    return tuple(out)


def affine_f2(layout: AnyLayout) -> tuple[int, Columns]:
    """(constant, columns) with layout(c) = constant ^ columns * c for every flat index c.

    Raises NotLinearError, naming what carries, when there is no such pair or when it cannot be seen stage
    by stage: each offset and each layout that is applied must be free of carries by itself.

    >>> from layoutalg.swizzle import ComposedLayout
    >>> affine_f2(ComposedLayout(Swizzle(1, 0, 1), 4, Layout((2, 2))))
    (4, (1, 3))
    >>> affine_f2(ComposedLayout(Layout((2, 2), (4, 1)), 2, Layout(2)))
    (1, (4,))
    """
    if isinstance(layout, Layout):
        columns = weights(layout)
        _disjoint(layout, 0, columns)
        return 0, columns
    if isinstance(layout.inner, Layout):
        constant, columns = 0, weights(layout.inner)
        _disjoint(layout, layout.offset, columns)
    else:
        constant, columns = affine_f2(layout.inner)
        _disjoint(layout, layout.offset, (_union(constant, columns),))
    constant += layout.offset
    if isinstance(layout.outer, Layout):
        matrix = _open_weights(layout, layout.outer, _union(constant, columns))
        return apply(matrix, constant), tuple([apply(matrix, c) for c in columns])
    return layout.outer(constant), tuple(map(layout.outer, columns))


def _union(constant: int, columns: Columns) -> int:
    for column in columns:
        constant |= column
    return constant


def _disjoint(layout: AnyLayout, constant: int, columns: Columns) -> None:
    """Refuse numbers that share a bit, so that their sum carries."""
    seen = constant
    for weight in columns:
        if seen & weight:
            other = next((w for w in (constant, *columns) if w is not weight and w & weight), constant)
            raise NotLinearError(
                f"{layout} is not linear over F2: {other} + {weight} = {other + weight} carries, "
                f"the XOR is {other ^ weight}"
            )
        seen |= weight


def _open_weights(whole: AnyLayout, outer: Layout, live: int) -> Columns:
    """The columns of `outer` for indices whose bits are in `live`; its last mode has no end."""
    bits = live.bit_length()
    out: list[int] = []
    modes = list(zip(*integer_leaves("to_f2", outer), strict=True))
    for i, (extent, stride) in enumerate(modes):
        count = bits - len(out) if i == len(modes) - 1 else min(extent.bit_length() - 1, bits - len(out))
        if stride < 0 or (extent & (extent - 1) and i < len(modes) - 1 and count < bits - len(out)):
            raise NotLinearError(f"{whole} is not linear over F2: neither is its outer layout {outer}")
        out.extend(stride << j for j in range(count))
    out.extend([0] * (bits - len(out)))
    _disjoint(whole, 0, tuple(w for j, w in enumerate(out) if live >> j & 1))
    return tuple(out)


def to_f2(layout: AnyLayout) -> Columns:
    """The columns of a layout that is linear over F2: one a coordinate bit, leftmost mode first.

    Raises NotLinearError when it is not linear, an offset other than 0 included.

    >>> from layoutalg.swizzle import ComposedLayout
    >>> to_f2(ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1))))
    (5, 10, 1, 2)
    """
    check_layouts("to_f2", layout)
    constant, columns = affine_f2(layout)
    if constant:
        raise NotLinearError(f"{layout} is affine over F2, not linear: coordinate 0 has offset {constant}")
    return columns


def is_linear(layout: AnyLayout) -> bool:
    """True when `to_f2` has an answer.

    >>> is_linear(Layout(8, 9)), is_linear(Layout(8, 3))
    (True, False)
    """
    try:
        to_f2(layout)
    except NotLinearError:
        return False
    return True
