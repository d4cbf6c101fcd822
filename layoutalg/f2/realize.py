"""Layouts as matrices over F2, the field of two elements, and matrices as layouts under swizzles.

The idea.  A matrix is a tuple of integer columns (layoutalg.f2.matrix): what the map is at 1, 2, 4, ...

Swizzles are such maps for every argument.  A Layout is one exactly when its weights (stride * 2^j for
every bit j of every coordinate) have pairwise disjoint binary supports, because a + b = a ^ b if and only
if a & b = 0; `to_f2` tests that, and never by sampling.

>>> to_f2(Layout((4, 8), (8, 1)))
(8, 16, 1, 2, 4)

Strides need not be powers of two: 8:9 has the weights 9, 18, 36, which are disjoint.  8:3 has 3 and 6, which
are not: 3 + 6 = 9 and 3 ^ 6 = 5.

The way back.  Strides add and columns XOR, so a matrix is a plain layout exactly when no two columns share a
bit.  Otherwise look for a bijection S with S^-1 M free of shared bits; M is then S o layout.

One swizzle Sw<B,M,S> changes the rows (offset bits) M .. M+B-1, each by the row S above it.  The rows that
two columns share are exactly those it must repair, so B and M are known at once, and S is tried from the
smallest.  Where no single swizzle will do, Gaussian elimination writes S as single XORs of one row into
another, and those that step together are joined into swizzles.

>>> separate((5, 10, 1, 2))
(Swizzles(Swizzle(2, 0, 2)), (4, 8, 1, 2))
>>> separate((9, 6, 1, 2))
(Swizzles(Swizzle(1, 0, 3), Swizzle(1, 1, 1)), (8, 4, 1, 2))

Notes.  Columns that depend on each other without being 0 have no such form: a layout repeats an offset
only where a stride is 0.  `separate` refuses them, with an index that shows it.  One more chain of swizzles,
on the index this time, XORs each dependent bit into those it depends on, after which its column is 0
(`fold`): so every matrix is swizzles o layout o swizzles.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.errors import DivisibilityError, NotLinearError, named
from layoutalg.f2.matrix import Columns, Echelon, apply, identity, kernel, transpose
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    check_layouts,
    concat,
    integer_leaves,
    merge,
    plain,
)


def weights(layout: Layout) -> Columns:
    """stride * 2^j for every coordinate bit j, leftmost mode first: the columns, if the layout is linear.

    Raises NotLinearError when an extent is not a power of two or a stride is negative.

    >>> weights(Layout((4, 2), (1, 6)))
    (1, 2, 6)
    """
    out: list[int] = []
    for extent, stride in zip(*integer_leaves("to_f2", layout), strict=True):
        if extent & (extent - 1):
            raise NotLinearError(f"{layout} is not linear over F2: extent {extent} is not a power of two")
        if stride < 0 and extent > 1:
            raise NotLinearError(f"{layout} is not linear over F2: stride {stride} is negative")
        out.extend(stride << j for j in range(extent.bit_length() - 1))
    return tuple(out)


def affine_f2(layout: AnyLayout) -> tuple[int, Columns]:
    """(constant, columns) with layout(c) = constant ^ columns * c for every flat index c.

    Raises NotLinearError, naming what carries, when there is no such pair or when it cannot be seen stage
    by stage: each offset and each layout that is applied must be free of carries by itself.

    >>> from layoutalg.layout import ComposedLayout, Swizzle
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


def _open_weights(original: AnyLayout, outer: Layout, live: int) -> Columns:
    """The columns of `outer` for indices whose bits are in `live`; its last mode has no end."""
    bits = live.bit_length()
    out: list[int] = []
    modes = list(zip(*integer_leaves("to_f2", outer), strict=True))
    for i, (extent, stride) in enumerate(modes):
        count = bits - len(out) if i == len(modes) - 1 else min(extent.bit_length() - 1, bits - len(out))
        if stride < 0 or (extent & (extent - 1) and i < len(modes) - 1 and count < bits - len(out)):
            raise NotLinearError(f"{original} is not linear over F2: neither is its outer layout {outer}")
        out.extend(stride << j for j in range(count))
    out.extend([0] * (bits - len(out)))
    _disjoint(original, 0, tuple(w for j, w in enumerate(out) if live >> j & 1))
    return tuple(out)


def to_f2(layout: AnyLayout) -> Columns:
    """The columns of a layout that is linear over F2: one per coordinate bit, leftmost mode first.

    Raises NotLinearError when it is not linear, an offset other than 0 included.

    >>> from layoutalg.layout import ComposedLayout, Swizzle
    >>> to_f2(ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1))))
    (5, 10, 1, 2)
    """
    check_layouts("to_f2", layout)
    try:
        constant, columns = affine_f2(layout)
    except NotLinearError as error:
        named("to_f2", error, layout)
    if constant:
        raise NotLinearError(f"to_f2 of {layout}: affine over F2, not linear: coordinate 0 has {constant}")
    return columns


def realize(columns: Columns, bits: Sequence[int]) -> AnyLayout:
    """A layout that is this matrix, with a mode for each number of index bits: there always is one.

    >>> print(realize((5, 10, 1, 2), (2, 2)))
    Sw<2,0,2> o 0 o (4,4):(4,1)
    """
    before, folded = fold(columns)
    swizzles, strides = separate(folded)
    if not before:
        layout = _by_modes(strides, bits)
        return ComposedLayout(swizzles, 0, layout) if swizzles else layout
    index = ComposedLayout(before, 0, _by_modes(identity(len(columns)), bits))
    composed = ComposedLayout(_by_modes(strides, [len(columns)]), 0, index)
    return ComposedLayout(swizzles, 0, composed) if swizzles else composed


def _by_modes(strides: Columns, bits: Sequence[int]) -> Layout:
    parts: list[Layout] = []
    for count in bits:
        mine, strides = strides[:count], strides[count:]
        parts.append(plain(*merge([2] * count, mine)))
    return parts[0] if len(parts) == 1 else concat(*parts)


def separate(columns: Columns) -> tuple[Swizzles, Columns]:
    """(swizzles, strides) with columns = swizzles o strides, no two strides sharing a bit.

    The chain is empty when the columns share none.  Raises DivisibilityError when there is no such pair;
    `witness` is an index with the offset 0 whose bits do not all have the offset 0.

    >>> separate((1, 2, 4))
    (Swizzles(), (1, 2, 4))
    """
    rows = list(transpose(columns))
    shared = [z for z, row in enumerate(rows) if row & (row - 1)]
    if not shared:
        return Swizzles(), columns
    single = _one_swizzle(rows, shared)
    if single is not None:
        return Swizzles(single), tuple(map(single, columns))
    moving = [j for j, c in enumerate(columns) if c]
    null = kernel([columns[j] for j in moving])
    if null:
        index = sum(1 << j for k, j in enumerate(moving) if null[0] >> k & 1)
        raise DivisibilityError(
            f"columns {columns} are not a layout under swizzles: index {index} has the offset 0, and its "
            f"bits have not",
            witness=index,
        )
    pairs = _eliminate(rows)
    return Swizzles.from_bit_pairs(reversed(pairs)), transpose(rows, len(columns))


def fold(columns: Columns) -> tuple[Swizzles, Columns]:
    """(swizzles, folded) with columns = folded o swizzles, where the columns of `folded` that are not 0 are
    independent.

    >>> fold((1, 2, 3))
    (Swizzles(Swizzle(1, 0, 2), Swizzle(1, 1, 1)), (1, 2, 0))
    """
    count = len(columns)
    echelon = Echelon(carried=count)
    folded = list(columns)
    pairs: list[tuple[int, int]] = []
    for j, column in enumerate(columns):
        combination = echelon.insert(column << count | 1 << j)
        if not combination >> count:
            folded[j] = 0
            pairs += [(j, i) for i in range(j) if combination >> i & 1]
    pairs.sort(key=lambda pair: (pair[0] - pair[1], pair))
    return Swizzles.from_bit_pairs(pairs), tuple(folded)


def _one_swizzle(rows: list[int], shared: list[int]) -> Swizzle | None:
    """Sw<B,M,S> that changes just the rows from the first shared one to the last, and leaves none shared."""
    low, bits = shared[0], shared[-1] - shared[0] + 1
    count = len(rows)
    for distance in range(bits, count):
        for shift in (distance, -distance):
            source = [z + shift for z in range(low, low + bits)]
            if source[0] < 0 or source[-1] >= count:
                continue
            repaired = [rows[z] ^ rows[y] for z, y in zip(range(low, low + bits), source, strict=True)]
            if all(row & (row - 1) == 0 for row in repaired):
                return Swizzle(bits, min(low, source[0]), shift)
    return None


def _eliminate(rows: list[int]) -> list[tuple[int, int]]:
    """XOR rows into each other, in place, until each has at most one column; the (from, into) pairs."""
    pairs: list[tuple[int, int]] = []

    def add(y: int, z: int) -> None:
        rows[z] ^= rows[y]
        pairs.append((y, z))

    isolated: set[int] = set()
    while True:
        pivots = {row: z for z, row in reversed(list(enumerate(rows))) if row and row & (row - 1) == 0}
        changed = False
        for z, row in enumerate(rows):
            for column in _bits(row):
                y = pivots.get(column, z)
                if y != z and rows[z] & (rows[z] - 1):
                    add(y, z)
                    changed = True
        if changed:
            continue
        shared = [z for z, row in enumerate(rows) if row & (row - 1)]
        if not shared:
            return pairs
        pivot = next(z for z in shared if z not in isolated)
        isolated.add(pivot)
        column = rows[pivot] & -rows[pivot]
        for z, row in enumerate(rows):
            if z != pivot and row & column:
                add(pivot, z)


def _bits(row: int) -> list[int]:
    return [1 << j for j in range(row.bit_length()) if row >> j & 1]
