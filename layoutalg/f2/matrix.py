"""Linear algebra over F2, the field of two elements: a matrix is a tuple of integer columns.

The idea.  XOR adds, AND multiplies.  A map that sends 0 to 0 and a ^ b to f(a) ^ f(b) is known from its
values at 1, 2, 4, ...: those values are the columns, bit i of a column is row i, and applying the matrix
XORs the columns that the bits of the argument select.

    columns (1, 2, 7)        f(0b110) = 2 ^ 7 = 5

Every question about such maps is one elimination, which Echelon holds.  What has to be known besides rides
along in the low bits of its rows: there, column j has bit j, so that what is left of a vector says which
columns it is the sum of.

>>> apply((1, 2, 7), 0b110)
5
>>> rank((1, 2, 3)), kernel((1, 2, 3))
(2, (7,))

Notes.  A vector space is given by any spanning tuple of vectors.

Source: for the intersection of two spaces, the method of H. Zassenhaus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from layoutalg.budget import spend
from layoutalg.errors import ShapeError

Columns: TypeAlias = "tuple[int, ...]"


class Echelon:
    """Vectors over F2 in echelon form: no two rows have one highest bit.

    The lowest `carried` bits of every vector take part in the sums, but are not part of the vector: `basis`,
    `rank`, `contains` and `solve` are about the bits above them, `kernel` about what they are where those
    above are 0.

    >>> echelon = Echelon((3, 6))
    >>> echelon.insert(5), echelon.contains(5), echelon.insert(1), echelon.rank
    (0, True, 1, 3)
    >>> tracked = Echelon.of_columns((1, 2, 3))
    >>> tracked.solve(3), tracked.kernel()
    (3, (7,))
    """

    __slots__ = ("carried", "rows")

    def __init__(self, vectors: Iterable[int] = (), carried: int = 0) -> None:
        self.rows: dict[int, int] = {}  # by bit length
        self.carried = carried
        _insert(self.rows, vectors)

    @classmethod
    def of_columns(cls, columns: Sequence[int]) -> Echelon:
        """The columns of a matrix, with bit j carried along by column j."""
        count = len(columns)
        return cls([column << count | 1 << j for j, column in enumerate(columns)], count)

    def insert(self, vector: int) -> int:
        """Add a vector (its carried bits included); what the rows before it left of it, 0 if they span it."""
        return self.extend((vector,))

    def extend(self, vectors: Iterable[int]) -> int:
        """Add one vector after the other; what was left of the last one."""
        return _insert(self.rows, vectors)

    def reduce(self, vector: int) -> int:
        """The remainder of a vector (its carried bits included) when no row has its highest bit any more."""
        rows = self.rows
        while (row := rows.get(vector.bit_length())) is not None:
            vector ^= row
        return vector

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return sum(length > self.carried for length in self.rows) if self.carried else len(self.rows)

    def contains(self, vector: int) -> bool:
        """True when the vector (without carried bits) lies in the span."""
        return not self.reduce(vector << self.carried) >> self.carried

    def solve(self, vector: int) -> int | None:
        """The bits carried by a sum of rows that is `vector`, or None when it is not in the span."""
        rest = self.reduce(vector << self.carried)
        return None if rest >> self.carried else rest

    def basis(self) -> Columns:
        """The reduced echelon basis of the span, ascending: equal spans give equal results."""
        carried = self.carried
        return _reduced(sorted([row >> carried for row in self.rows.values() if row >> carried]))

    def kernel(self) -> Columns:
        """The reduced echelon basis of what is carried by sums of vectors that are 0, ascending."""
        carried = self.carried
        return _reduced(sorted([row for length, row in self.rows.items() if length <= carried]))


def _insert(rows: dict[int, int], vectors: Iterable[int]) -> int:
    """Add vectors to echelon rows by bit length; what was left of the last one."""
    vector, count = 0, len(rows)
    for vector in vectors:
        if count > 7:
            spend(count >> 3)
        while (row := rows.get(length := vector.bit_length())) is not None:
            vector ^= row
        if vector:
            rows[length] = vector
            count += 1
    return vector


def _reduced(rows: list[int]) -> Columns:
    """Ascending echelon rows, with the highest bit of each cleared in those after it."""
    out: list[int] = []
    for row in rows:
        for lower in out:
            if row >> (lower.bit_length() - 1) & 1:
                row ^= lower
        out.append(row)
    return tuple(out)


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


def basis(vectors: Iterable[int]) -> Columns:
    """The reduced echelon basis of the span, ascending: equal spans give equal results.

    >>> basis((6, 3, 5)), basis((1, 2)) == basis((3, 2))
    ((3, 5), True)
    """
    rows: dict[int, int] = {}
    _insert(rows, vectors)
    return _reduced(sorted(rows.values()))


def rank(columns: Iterable[int]) -> int:
    """Dimension of the span of the columns.

    >>> rank((1, 2, 3))
    2
    """
    rows: dict[int, int] = {}
    _insert(rows, columns)
    return len(rows)


def kernel(columns: Sequence[int]) -> Columns:
    """A basis of the vectors that the matrix sends to 0, in echelon form.

    >>> kernel((5, 5, 1))
    (3,)
    """
    return Echelon.of_columns(columns).kernel()


def solve(columns: Sequence[int], y: int) -> int | None:
    """Some x with columns * x = y, or None when there is none.

    >>> solve((1, 2, 7), 5), solve((1, 2), 4)
    (6, None)
    """
    return Echelon.of_columns(columns).solve(y)


def contains(space: Iterable[int], vector: int) -> bool:
    """True when `vector` lies in the span.

    >>> contains((3, 5), 6), contains((3, 5), 1)
    (True, False)
    """
    return Echelon(space).contains(vector)


def intersection(a: Iterable[int], b: Iterable[int]) -> Columns:
    """A basis of span(a) & span(b), in echelon form.

    >>> intersection((1, 2), (3, 4))
    (3,)
    """
    left, right = tuple(a), tuple(b)
    bits = max((*left, *right), default=0).bit_length()
    # Vectors of `a` carry themselves: a sum that is 0 carries what its part in `a` and its part in `b` are.
    return Echelon([*(x << bits | x for x in left), *(y << bits for y in right)], bits).kernel()


def complement(space: Iterable[int], whole: Sequence[int] | int) -> Columns:
    """Vectors of `whole` (a spanning tuple, or n for all of F2^n) that complete `space` to it.

    The result is independent of `space`, and together they span at least `whole`; unit vectors are
    taken in the order given.

    >>> complement((3,), 2), complement((1, 2), (3, 4))
    ((1,), (4,))
    """
    echelon = Echelon(space)
    return tuple([v for v in (identity(whole) if isinstance(whole, int) else whole) if echelon.insert(v)])
