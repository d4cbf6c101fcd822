"""From a matrix over F2 back to CuTe's notation: strides, one swizzle, or a chain of swizzles.

The idea.  Strides add and columns XOR, so a matrix is a plain layout exactly when no two columns share a
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

from layoutalg.errors import DivisibilityError
from layoutalg.f2.matrix import Columns, Echelon, identity, kernel, transpose
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles, concat, merge, plain


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
