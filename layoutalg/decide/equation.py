"""A linear equation with digits in a box: a solution, or the proof that there is none.

The idea.  Whether a layout reaches an offset, whether two layouts meet and whether two coordinates of one
share an offset are one question: has x_0 d_0 + ... + x_n d_n = t a solution with 0 <= x_i < n_i, or, of
differences of coordinates, one that is not 0 with |x_i| < n_i and t = 0.

    from the largest stride down    what the strides below can reach bounds x_i on both sides, their gcd fixes
                                    its residue; where the strides chain (each divides the next) taking as
                                    many of the largest as fit is right, as with coins
    strides above all below         a stride larger than all that those below it reach has the difference 0:
                                    that settles every layout made of tiles, padded or not
    a reduced lattice               where QUICK_NODES candidates do not settle it

The solutions are a lattice of n dimensions, moved.  Its obvious basis has long vectors that nearly cancel; a
reduced basis (Lenstra, Lenstra, Lovasz), measured in extents, has short ones, nearly at right angles.  In it
a box holds few candidates per direction: the projection of the box onto the last basis vector bounds its
coefficient, and so on down to the first, whose range follows exactly.

    6 x + 10 y + 15 z = 31, 0 <= x, y, z < 5      kernel (-5,3,0), (-5,0,2)      (16,0,-4) + ... = (1,1,1)

>>> find_digits("is 31 reached?", (6, 10, 15), (5, 5, 5), 31)
[1, 1, 1]
>>> find_digits("is 29 reached?", (6, 10, 15), (5, 5, 5), 29) is None
True
>>> find_relation("is it injective?", (6, 10, 15), (5, 4, 2)) is None
True

Notes.  All arithmetic is that of integers, however large.  None is a proof that there is no solution; a
search that its budget ends raises UndecidedError, which repeats the question.

Source: A. Lenstra, H. Lenstra, L. Lovasz, Factoring polynomials with rational coefficients (1982); H. Cohen,
A Course in Computational Algebraic Number Theory (1993), algorithm 2.6.7, in integers; U. Fincke, M. Pohst,
Improved methods for calculating vectors of short length in a lattice (1985).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import mul

from layoutalg.budget import Budget, Question

Vector = list[int]

QUICK_NODES = 24
"""Candidate digits that are looked at before a lattice is reduced."""

REACHED = "a search in a reduced lattice neither found a coordinate nor excluded one when"
"""The work that was done, as an UndecidedError states it."""


def find_digits(
    question: Question, strides: Sequence[int], extents: Sequence[int], target: int
) -> Vector | None:
    """x with sum x_i d_i = target and 0 <= x_i < n_i; strides of any sign, 0 included.

    Raises UndecidedError, which repeats the question, when the budget is spent.

    >>> find_digits("is 34 reached?", (3, 5, 0), (10, 6, 3), 34)
    [3, 5, 0]
    """
    modes: list[tuple[int, int, int, bool]] = []
    for i, (d, s) in enumerate(zip(strides, extents, strict=True)):
        if s > 1 and d:
            modes.append((abs(d), s, i, d < 0))
            if d < 0:
                target -= (s - 1) * d
    modes.sort()
    descent = _Descent([(d, s) for d, s, _, _ in modes])
    digits = descent.solve(target, len(modes))
    if digits is None and descent.exhausted:
        sizes = [s for _, s, _, _ in modes]
        lattice = Lattice(Budget(question, reached=REACHED), [d for d, *_ in modes], sizes)
        digits = lattice.between([0] * len(sizes), [s - 1 for s in sizes], target)
    if digits is None:
        return None
    out = [0] * len(strides)
    for x, (_, s, i, falls) in zip(digits, modes, strict=True):
        out[i] = s - 1 - x if falls else x
    return out


def is_spread(strides: Iterable[int], extents: Iterable[int]) -> bool:
    """True when every stride is beyond what all smaller ones reach together: then there is no relation.

    >>> is_spread((8, -1), (4, 8)), is_spread((7, -1), (4, 8))
    (True, False)
    """
    reach = 0
    for d, s in sorted(zip(map(abs, strides), extents, strict=True)):
        if s > 1:
            if d <= reach:
                return False
            reach += d * (s - 1)
    return True


def find_relation(question: Question, strides: Sequence[int], extents: Sequence[int]) -> Vector | None:
    """k != 0 with sum k_i d_i = 0 and |k_i| < n_i; strides of any sign, 0 included.

    Raises UndecidedError, which repeats the question, when the budget is spent.

    >>> find_relation("is it injective?", (3, -4), (5, 4))
    [-4, -3]
    """
    modes: list[tuple[int, int, int]] = []
    for i, (d, s) in enumerate(zip(strides, extents, strict=True)):
        if s > 1:
            if not d:
                return [int(j == i) for j in range(len(strides))]
            modes.append((abs(d), s, i))
    modes.sort()
    descent = _Descent([(d, 2 * s - 1) for d, s, _ in modes])
    relation = descent.relation()
    if relation is None and descent.exhausted:
        sizes = [s for _, s, _ in modes]
        lattice = Lattice(Budget(question, reached=REACHED), [d for d, _, _ in modes], sizes)
        relation = lattice.relation(sizes)
    if relation is None:
        return None
    out = [0] * len(strides)
    for k, (_, _, i) in zip(relation, modes, strict=True):
        out[i] = k if strides[i] > 0 else -k
    return out


class _Descent:
    """Depth-first search for sum x_i d_i = t, 0 <= x_i < s_i, modes ascending by stride d_i > 0."""

    def __init__(self, modes: list[tuple[int, int]]) -> None:
        self.modes, self.nodes = modes, 0
        self.reach, self.gcd, self.chained = [0], [0], [True]
        reach, divisor, chained, last = 0, 0, True, 1
        for d, s in modes:
            reach += d * (s - 1)
            divisor = math.gcd(divisor, d)
            chained = chained and d % last == 0
            last = d
            self.reach.append(reach)
            self.gcd.append(divisor)
            self.chained.append(chained)

    @property
    def exhausted(self) -> bool:
        """True when the search gave up, so that None is not an answer."""
        return self.nodes > QUICK_NODES

    def solve(self, target: int, count: int) -> Vector | None:
        """Digits of the lowest `count` modes that sum to `target`; None where there are none, or where
        `exhausted` is set.  Every call counts, answered at once or not."""
        self.nodes += 1
        if self.nodes > QUICK_NODES:
            return None
        if target < 0 or target > self.reach[count]:
            return None
        if count == 0:
            return []
        if target % self.gcd[count]:
            return None
        if self.chained[count]:
            return self._greedy(target, count)
        d, s = self.modes[count - 1]
        below = self.gcd[count - 1]
        low = max(0, -((self.reach[count - 1] - target) // d))
        high = min(s - 1, target // d)
        share = math.gcd(d, below)
        step = below // share
        first = target // share * pow(d // share, -1, step) % step if step > 1 else 0
        for k in range(high - (high - first) % step, low - 1, -step):
            digits = self.solve(target - k * d, count - 1)
            if digits is not None:
                return [*digits, k]
            if self.nodes > QUICK_NODES:
                return None
        return None

    def _greedy(self, target: int, count: int) -> Vector | None:
        out = [0] * count
        for i in range(count - 1, -1, -1):
            d, s = self.modes[i]
            out[i] = min(s - 1, target // d)
            target -= out[i] * d
        return None if target else out

    def relation(self) -> Vector | None:
        """k != 0 with sum k_i d_i = 0, |k_i| < n_i, for modes of 2 n_i - 1 digits x_i = k_i + n_i - 1; None
        where there is none, or where `exhausted` is set.

        The last k_i that is not 0 is positive; the modes below it sum to its opposite.
        """
        for top in range(1, len(self.modes)):
            d, s = self.modes[top]
            step, half = self.gcd[top] // math.gcd(d, self.gcd[top]), self.reach[top] // 2
            for k in range(step, min(s // 2, half // d) + 1, step):
                digits = self.solve(half + k * d, top)
                if digits is not None:
                    below = [n // 2 - x for x, (_, n) in zip(digits, self.modes, strict=False)]
                    return [*below, k] + [0] * (len(self.modes) - top - 1)
                if self.exhausted:
                    return None
        return None


class Lattice:
    """The x with sum x_i d_i = t, asked for in one box after the other, all under one budget; strides are
    positive, and `extents` say what the first box is like.

    >>> lattice = Lattice(Budget("do they repeat?"), (2, 3, 7), (6, 5, 4))
    >>> lattice.between([-5, -4, 1], [5, 4, 1]) in ([-5, 1, 1], [-2, -1, 1], [1, -3, 1])
    True
    >>> lattice.between([-1, 0, 1], [5, 4, 1]) is None
    True
    """

    def __init__(self, budget: Budget, strides: Sequence[int], extents: Sequence[int]) -> None:
        self.budget, self.weights = budget, _weights(extents)
        basis, self.unit, self.divisor = _kernel(strides, budget)
        self.basis = _reduced(basis, self.weights, budget)

    def between(self, low: Vector, high: Vector, target: int = 0) -> Vector | None:
        """A solution in the box low <= x <= high, or None when there is none.

        Raises UndecidedError when the budget is spent.
        """
        sides = [b - a + 1 for a, b in zip(low, high, strict=True)]
        if min(sides) < 1 or target % self.divisor:
            return None
        start = [u * (target // self.divisor) for u in self.unit]
        if not self.basis:
            return start if low[0] <= start[0] <= high[0] else None
        weights = _weights(sides)
        if weights != self.weights:
            self.basis, self.weights = _reduced(self.basis, weights, self.budget), weights
        box = _Box(self.budget, self.basis, low, high, weights)
        return next(box.points(start, len(self.basis) - 1), None)

    def relation(self, extents: Sequence[int]) -> Vector | None:
        """k != 0 with sum k_i d_i = 0 and |k_i| < n_i, or None when there is none.

        Raises UndecidedError when the budget is spent.

        >>> Lattice(Budget("is it injective?"), (3, 4), (5, 4)).relation((5, 4))
        [-4, 3]
        """
        for vector in self.basis:
            if all(abs(k) < s for k, s in zip(vector, extents, strict=True)):
                return vector
        high = [s - 1 for s in extents]
        box = _Box(self.budget, self.basis, [-k for k in high], high, _weights([2 * k + 1 for k in high]))
        return next((point for point in box.points([0] * len(high), len(self.basis) - 1) if any(point)), None)


def _kernel(strides: Sequence[int], budget: Budget) -> tuple[list[Vector], Vector, int]:
    """(basis of the k with sum k_i d_i = 0, u with sum u_i d_i = g, g) for g the gcd of the strides."""
    count = len(strides)
    basis: list[Vector] = []
    unit = [1] + [0] * (count - 1)
    divisor = strides[0]
    for i in range(1, count):
        budget.spend(count * (i + 1))
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


def _dot(a: Vector, b: Vector) -> int:
    return sum(map(mul, a, b))


def _weights(extents: Sequence[int]) -> list[int]:
    """Whole numbers near 1 / extent, up to one common factor: coordinates are measured in extents."""
    top = max(extents).bit_length()
    return [1 << top - s.bit_length() for s in extents]


def _weight(vectors: Sequence[Vector]) -> int:
    """The work of products of these vectors, as a multiple of that of short numbers."""
    if not vectors:
        return 1
    return 1 + len(vectors) * max(max(map(max, vectors)), -min(map(min, vectors))).bit_length() // 1024


def _reduced(basis: list[Vector], weights: Vector, budget: Budget) -> list[Vector]:
    """The basis of the same lattice that is reduced where coordinate i counts weights[i] times.

    `gram[i]` is the determinant of the products of the first i vectors, `shares[i][j]` the coefficient of
    what is new in vector j in vector i, times gram[j + 1]: all of them integers.  When half of the budget is
    spent the basis stays as it is: one that is not reduced makes the search longer, not wrong.
    """
    vectors = [list(map(mul, vector, weights)) for vector in basis]
    basis = list(basis)
    count, width = len(basis), len(weights)
    patience, weight = budget.left // 2, _weight(vectors)
    gram, shares = [1], [[0] * count for _ in range(count)]
    k = known = 0
    while k < count:
        if known <= k:
            budget.spend((2 * width + k * k) * weight)
            _orthogonalize(vectors, gram, shares, k)
            known = k + 1
        if budget.left < patience:
            break
        for j in range(k - 1, -1, -1):
            many = (2 * shares[k][j] + gram[j + 1]) // (2 * gram[j + 1])
            if many:
                budget.spend(2 * width * weight)
                basis[k] = [x - many * y for x, y in zip(basis[k], basis[j], strict=True)]
                vectors[k] = [x - many * y for x, y in zip(vectors[k], vectors[j], strict=True)]
                for i in range(j):
                    shares[k][i] -= many * shares[j][i]
                shares[k][j] -= many * gram[j + 1]
        if k and 4 * (gram[k + 1] * gram[k - 1] + shares[k][k - 1] ** 2) < 3 * gram[k] ** 2:
            budget.spend(2 * count * weight)
            basis[k - 1], basis[k] = basis[k], basis[k - 1]
            vectors[k - 1], vectors[k] = vectors[k], vectors[k - 1]
            _exchange(gram, shares, k, known)
            k -= 1
        else:
            k += 1
    return basis


def _orthogonalize(vectors: list[Vector], gram: list[int], shares: list[Vector], k: int) -> None:
    """Add the entries of vector k to `gram` and `shares`."""
    for j in range(k + 1):
        share = _dot(vectors[k], vectors[j])
        for i in range(j):
            share = (gram[i + 1] * share - shares[k][i] * shares[j][i]) // gram[i]
        shares[k][j] = share
    gram.append(shares[k][k])


def _exchange(gram: list[int], shares: list[Vector], k: int, known: int) -> None:
    """`gram` and `shares` of the first `known` vectors after vectors k - 1 and k have traded places."""
    share = shares[k][k - 1]
    for j in range(k - 1):
        shares[k][j], shares[k - 1][j] = shares[k - 1][j], shares[k][j]
    between = (gram[k - 1] * gram[k + 1] + share * share) // gram[k]
    for i in range(k + 1, known):
        old = shares[i][k]
        shares[i][k] = (gram[k + 1] * shares[i][k - 1] - share * old) // gram[k]
        shares[i][k - 1] = (between * old + share * shares[i][k]) // gram[k + 1]
    gram[k] = between
    shares[k][k] = gram[k + 1]
    shares[k - 1][k - 1] = between


class _Box:
    """The points of a moved lattice between `low` and `high`: one basis vector at a time, the last first."""

    def __init__(
        self, budget: Budget, basis: list[Vector], low: Vector, high: Vector, weights: Vector
    ) -> None:
        self.budget, self.basis, self.low, self.high = budget, basis, low, high
        self.weight = _weight([*basis, low, high])
        self.slopes = self._slopes(weights)

    def _slopes(self, weights: Vector) -> list[tuple[Vector, int]]:
        """(f, n) for every basis vector b: <f, b> = n > 0, and <f, c> = 0 for the vectors c before it."""
        stars: list[Vector] = []
        out: list[tuple[Vector, int]] = []
        count = len(self.basis)
        self.budget.spend(len(weights) * count * (count + 1) // 2 * self.weight)
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
            self.budget.spend((3 + len(vector) // 2) * self.weight)
            point = [x + c * y for x, y in zip(start, vector, strict=True)]
            if level:
                yield from self.points(point, level - 1)
            else:
                yield point

    def _range(self, start: Vector, level: int) -> tuple[int, int]:
        """The range left to the coefficient of basis vector `level`, whatever those before it are."""
        slope, length = self.slopes[level]
        least = most = 0
        for f, x, low, high in zip(slope, start, self.low, self.high, strict=True):
            at_low, at_high = f * (low - x), f * (high - x)
            least += min(at_low, at_high)
            most += max(at_low, at_high)
        return -(-least // length), most // length

    def _exact(self, start: Vector) -> tuple[int, int]:
        """The coefficients c of the first basis vector b for which start + c b lies in the box."""
        first: int | None = None
        last: int | None = None
        for b, x, low, high in zip(self.basis[0], start, self.low, self.high, strict=True):
            if not b:
                if not low <= x <= high:
                    return 0, -1
                continue
            if b > 0:
                least, most = -((x - low) // b), (high - x) // b
            else:
                least, most = -((high - x) // -b), (x - low) // -b
            first = least if first is None else max(first, least)
            last = most if last is None else min(last, most)
        return (0, -1) if first is None or last is None else (first, last)


def _from_the_middle(first: int, last: int) -> Iterator[int]:
    """first .. last, the middle first: where a box holds many points, its middle does."""
    if last < first:
        return
    middle = (first + last) // 2
    for distance in range(last - middle + 1):
        yield middle + distance
        if 0 < distance <= middle - first:
            yield middle - distance
