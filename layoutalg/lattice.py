"""Small integer solutions of one linear equation, whatever its numbers: a reduced basis and a short search.

The idea.  The x with x_0 d_0 + ... + x_n d_n = t are a lattice of n dimensions, moved.  Its obvious basis has
long vectors that nearly cancel; a reduced basis (Lenstra, Lenstra, Lovasz), measured in extents, has short
ones, nearly at right angles.  In it a box holds few candidates a direction: the projection of the box onto
the last basis vector bounds its coefficient, and so on down to the first, whose range follows exactly.

    6 x + 10 y + 15 z = 31, 0 <= x, y, z < 5      kernel (-5,3,0), (-5,0,2)      (16,0,-4) + ... = (1,1,1)

>>> find_point("is 31 reached?", (6, 10, 15), (4, 4, 4), 31)
[1, 1, 1]
>>> find_point("is 29 reached?", (6, 10, 15), (4, 4, 4), 29) is None
True
>>> find_kernel_point("is it injective?", (6, 10, 15), (5, 4, 2)) is None
True

Notes.  Floating point only chooses which whole multiples are subtracted, so that the basis stays one of the
same lattice; every bound is an integer computation.  None is a proof that there is no solution.

Source: A. Lenstra, H. Lenstra, L. Lovasz, Factoring polynomials with rational coefficients (1982); U. Fincke,
M. Pohst, Improved methods for calculating vectors of short length in a lattice (1985).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import mul

from layoutalg.errors import UndecidedError

Vector = list[int]

MAX_STEPS = 10_000
"""Steps of the reduction, at most; a basis that is not reduced makes the search longer, not wrong."""


NODE_BUDGET = 100_000
"""Candidates that a search looks at, at most, before it gives up with an UndecidedError."""

SETUP_NODES = 5
"""What a search costs before its first candidate, in candidates."""


def find_kernel_point(question: str, strides: Sequence[int], extents: Sequence[int]) -> Vector | None:
    """k != 0 with sum k_i d_i = 0 and |k_i| < s_i; strides are positive.

    Raises UndecidedError, which repeats the question, when the search exceeds NODE_BUDGET.

    >>> find_kernel_point("is it injective?", (3, 4), (5, 4))
    [-4, 3]
    """
    basis = _reduced(_kernel(strides)[0], extents)
    for vector in basis:
        if all(abs(k) < s for k, s in zip(vector, extents, strict=True)):
            return vector
    high = [s - 1 for s in extents]
    points = _Box(question, basis, [-k for k in high], high).points([0] * len(high), len(basis) - 1)
    return next((point for point in points if any(point)), None)


def find_point(question: str, strides: Sequence[int], high: Sequence[int], target: int) -> Vector | None:
    """x with sum x_i d_i = target and 0 <= x_i <= high_i; strides are positive.

    Raises UndecidedError, which repeats the question, when the search exceeds NODE_BUDGET.

    >>> find_point("is 34 reached?", (3, 5), (9, 9), 34)
    [8, 2]
    """
    basis, unit, divisor = _kernel(strides)
    if target % divisor:
        return None
    start = [u * (target // divisor) for u in unit]
    if not basis:
        return start if 0 <= start[0] <= high[0] else None
    box = _Box(question, _reduced(basis, [h + 1 for h in high]), [0] * len(high), list(high))
    return next(box.points(start, len(basis) - 1), None)


class Relations:
    """The k with sum k_i d_i = 0, asked for in one box after the other, all under one NODE_BUDGET.

    >>> relations = Relations("do they repeat?", (2, 3, 7), (6, 5, 4))
    >>> relations.between([-5, -4, 1], [5, 4, 1]) in ([-5, 1, 1], [-2, -1, 1], [1, -3, 1])
    True
    >>> relations.between([-1, 0, 1], [5, 4, 1]) is None
    True
    """

    def __init__(self, question: str, strides: Sequence[int], extents: Sequence[int]) -> None:
        self.question = question
        self.basis = _reduced(_kernel(strides)[0], extents)
        self.nodes = 0

    def between(self, low: Vector, high: Vector) -> Vector | None:
        """A relation in the box low <= k <= high, or None when there is none.

        Raises UndecidedError when all searches together exceed NODE_BUDGET.
        """
        self.basis = _reduced(self.basis, [b - a + 1 for a, b in zip(low, high, strict=True)])
        box = _Box(self.question, self.basis, low, high)
        box.nodes = self.nodes + SETUP_NODES
        found = next(box.points([0] * len(low), len(self.basis) - 1), None)
        self.nodes = box.nodes
        return found


def _kernel(strides: Sequence[int]) -> tuple[list[Vector], Vector, int]:
    """(basis of the k with sum k_i d_i = 0, u with sum u_i d_i = g, g) for g the gcd of the strides."""
    count = len(strides)
    basis: list[Vector] = []
    unit = [1] + [0] * (count - 1)
    divisor = strides[0]
    for i in range(1, count):
        d = strides[i]
        g = math.gcd(divisor, d)
        vector = _shortened([-u * (d // g) for u in unit], basis)
        vector[i] = divisor // g
        a = pow(divisor // g, -1, d // g)
        unit = [u * a for u in unit]
        unit[i] = (g - a * divisor) // d
        basis.append(vector)
        unit = _shortened(unit, basis)
        divisor = g
    return basis, unit, divisor


def _shortened(vector: Vector, basis: list[Vector]) -> Vector:
    """`vector` less multiples of the basis, of which vector i ends at coordinate i + 1: every coordinate past
    the first is smaller than the last one of its basis vector."""
    for i in range(len(basis) - 1, -1, -1):
        many = vector[i + 1] // basis[i][i + 1]
        if many:
            vector = [x - many * y for x, y in zip(vector, basis[i], strict=True)]
    return vector


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(map(mul, a, b))


def _reduced(basis: list[Vector], extents: Sequence[int]) -> list[Vector]:
    """The basis of the same lattice that is reduced where coordinate i is measured in extent i."""
    basis = list(basis)
    scale = [1 / s for s in extents]
    k, steps = 1, 0
    stars: list[list[float]] = []
    norms: list[float] = []
    while k < len(basis) and steps < MAX_STEPS:
        steps += 1
        while len(stars) < k:
            _orthogonalize([x * w for x, w in zip(basis[len(stars)], scale, strict=True)], stars, norms)
        for j in range(k - 1, -1, -1):
            moved = round(_dot([x * w for x, w in zip(basis[k], scale, strict=True)], stars[j]) / norms[j])
            if moved:
                basis[k] = [x - moved * y for x, y in zip(basis[k], basis[j], strict=True)]
        vector = [x * w for x, w in zip(basis[k], scale, strict=True)]
        share = _dot(vector, stars[k - 1]) / norms[k - 1]
        _orthogonalize(vector, stars, norms)
        if norms[k] >= (0.75 - share * share) * norms[k - 1]:
            k += 1
        else:
            basis[k - 1], basis[k] = basis[k], basis[k - 1]
            del stars[k - 1 :], norms[k - 1 :]
            k = max(k - 1, 1)
    return basis


def _orthogonalize(vector: list[float], stars: list[list[float]], norms: list[float]) -> None:
    """Append what is left of `vector` at right angles to those before it, and the square of its length."""
    for star, norm in zip(stars, norms, strict=True):
        share = _dot(vector, star) / norm
        vector = [x - share * y for x, y in zip(vector, star, strict=True)]
    stars.append(vector)
    norms.append(_dot(vector, vector) or 1e-300)


class _Box:
    """The points of a moved lattice between `low` and `high`: one basis vector at a time, the last first."""

    def __init__(self, question: str, basis: list[Vector], low: Vector, high: Vector) -> None:
        self.question, self.basis, self.low, self.high = question, basis, low, high
        self.nodes = 0
        self.slopes = self._slopes()

    def _slopes(self) -> list[tuple[Vector, int]]:
        """(f, n) for every basis vector b: <f, b> = n > 0, and <f, c> = 0 for the vectors c before it."""
        top = max(self.high[i] - self.low[i] for i in range(len(self.high))).bit_length()
        weights = [
            1 << top - (high - low).bit_length() for low, high in zip(self.low, self.high, strict=True)
        ]
        stars: list[Vector] = []
        out: list[tuple[Vector, int]] = []
        for vector in self.basis:
            scaled = list(map(mul, vector, weights))
            star = scaled
            for other in stars:
                norm, share = sum(map(mul, other, other)), sum(map(mul, star, other))
                star = [x * norm - y * share for x, y in zip(star, other, strict=True)]
                common = math.gcd(*star)
                star = [x // common for x in star]
            stars.append(star)
            out.append((list(map(mul, star, weights)), sum(map(mul, scaled, star))))
        return out

    def points(self, start: Vector, level: int) -> Iterator[Vector]:
        """Every start + sum of c_j b_j, j <= level, that lies in the box."""
        vector = self.basis[level]
        first, last = self._range(start, level) if level else self._exact(start)
        for c in _from_the_middle(first, last):
            self.nodes += 1
            if self.nodes > NODE_BUDGET:
                raise UndecidedError(
                    f"{self.question} {NODE_BUDGET} candidates neither found a coordinate nor excluded one",
                    budget=NODE_BUDGET,
                )
            point = [x + c * y for x, y in zip(start, vector, strict=True)]
            if level:
                yield from self.points(point, level - 1)
            else:
                yield point

    def _range(self, start: Vector, level: int) -> tuple[int, int]:
        """What the box leaves of the coefficient of basis vector `level`, whatever those before it are."""
        slope, length = self.slopes[level]
        least = most = 0
        for f, x, low, high in zip(slope, start, self.low, self.high, strict=True):
            one, other = f * (low - x), f * (high - x)
            least += min(one, other)
            most += max(one, other)
        return -(-least // length), most // length

    def _exact(self, start: Vector) -> tuple[int, int]:
        """The coefficients c of the first basis vector b for which start + c b lies in the box."""
        first, last = -(1 << 200), 1 << 200
        for b, x, low, high in zip(self.basis[0], start, self.low, self.high, strict=True):
            if b > 0:
                first, last = max(first, -((x - low) // b)), min(last, (high - x) // b)
            elif b < 0:
                first, last = max(first, -((high - x) // -b)), min(last, (x - low) // -b)
            elif not low <= x <= high:
                return 0, -1
        return first, last


def _from_the_middle(first: int, last: int) -> Iterator[int]:
    """first .. last, the middle first: where a box holds many points, its middle does."""
    if last < first:
        return
    middle = (first + last) // 2
    for distance in range(last - middle + 1):
        yield middle + distance
        if 0 < distance <= middle - first:
            yield middle - distance
