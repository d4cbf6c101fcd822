"""Digits of numbers: how many choices of them lead where, modulo a period, and which stay in an interval.

The idea.  An element offset is a sum of digit * stride, a thread number a sum of digit * place.  How many
choices of digits give a thread number that starts a warp, and an offset congruent to q?  Each digit
contributes the polynomial  1 + z + z^2 + ... + z^(extent - 1),  z a step in the group Z_Q x Z_lanes, and the
answer is their product.  A digit's sum is built by doubling and closes up after the order of its step, so a
digit of 2^40 costs no more than one of 2^12.

A histogram is ONE integer of Python: a field of whole 64-bit words per cell, wide enough for all choices
together.  Sums of histograms are additions, and moving one along an axis is a shift or two; no count is too
large, and no library is needed.

    digits 3 (stride 1) and 4 (stride 2), modulo 4:  offsets 0 1 2 | 2 3 0 | 0 1 2 | 2 3 0     counts 4 2 4 2

>>> table = Residues(4, 1)
>>> table.column((ResidueDigit(0, 3, 1, (0, 0, 0)), ResidueDigit(0, 4, 2, (0, 0, 0))), 0)
[4, 2, 4, 2]

Intervals.  A coordinate is a sum of digits, c = sum of value * weight, and `row < 100` asks for those choices
of digits whose sum is below a bound.  Take the heaviest digit: most of its values put the whole sum inside
or outside, whatever the other digits are; at the one or two values on the edge the next digit decides.

    digits 4 (weight 8) and 8 (weight 1),  5 <= c < 20      1 with any            8..15
                                                            0 with 5..7, 2 with 0..3

>>> digits = (ResidueDigit(0, 8, 1, (0, 0, 0)), ResidueDigit(0, 4, 8, (0, 0, 0)))
>>> for family in between(digits, (1, 8), 5, 20):
...     print([(d.first, d.extent) for d in family])
[(5, 3), (0, 1)]
[(0, 8), (1, 1)]
[(0, 4), (2, 1)]
"""

from __future__ import annotations

import functools
import math
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from layoutalg.budget import spend
from layoutalg.errors import UndecidedError

WORD_BITS = 64
"""Fields are multiples of this."""


class ResidueDigit(NamedTuple):
    """A digit that takes the `extent` values from `first` on, each worth `stride` and `moves`.

    `moves` is what one step adds to (thread, register, iteration).
    """

    first: int
    extent: int
    stride: int
    moves: tuple[int, int, int]


class ResidueFamily(NamedTuple):
    """Instructions that differ in `digits` only: start + (sum of value * step), for offset and place.

    Of these, members are those whose thread number is `first` modulo the lanes of the residues.
    """

    offset: int
    place: tuple[int, int, int]
    digits: tuple[ResidueDigit, ...]
    first: int = 0


class Residues:
    """Histograms over Z_modulus x Z_lanes: offsets modulo `modulus`, thread numbers modulo `lanes`.

    Histograms of equal tails of digits are computed once.
    """

    def __init__(self, modulus: int, lanes: int) -> None:
        self.modulus, self.lanes = modulus, lanes
        self._known: dict[tuple[ResidueDigit, ...], _Histogram] = {}
        self._columns: dict[tuple[tuple[ResidueDigit, ...], int], list[int]] = {}

    def column(self, digits: tuple[ResidueDigit, ...], thread: int) -> list[int]:
        """Number of choices of `digits` with this thread number modulo lanes, by offset modulo modulus."""
        key = (digits, thread)
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._joint(digits).column(thread)
        return column

    def threads(self, digits: tuple[ResidueDigit, ...]) -> list[int]:
        """The thread numbers modulo lanes that some choice of `digits` has."""
        return self._joint(digits).threads()

    def starts(self, family: ResidueFamily) -> list[int]:
        """Number of members of a family, by offset modulo `modulus`."""
        spend(16 + self.modulus // 128)
        column = self.column(family.digits, (family.first - family.place[0]) % self.lanes)
        steps = family.offset % self.modulus
        return column[-steps:] + column[:-steps] if steps else column

    def member(self, family: ResidueFamily, residue: int) -> tuple[int, int, int]:
        """(thread, register, iteration) of one member that `starts` counts under `residue`."""
        offset = (residue - family.offset) % self.modulus
        thread = (family.first - family.place[0]) % self.lanes
        position = list(family.place)
        for i, digit in enumerate(family.digits):
            rest = family.digits[i + 1 :]
            value = digit.first
            spend(8)
            while not self.column(rest, (thread - value * digit.moves[0]) % self.lanes)[
                (offset - value * digit.stride) % self.modulus
            ]:
                value += 1
                spend()
            offset -= value * digit.stride
            thread -= value * digit.moves[0]
            position = [p + value * m for p, m in zip(position, digit.moves, strict=True)]
        return position[0], position[1], position[2]

    def _joint(self, digits: tuple[ResidueDigit, ...]) -> _Histogram:
        """Number of choices of `digits` by (offset mod modulus, thread mod lanes)."""
        histogram = self._known.get(digits)
        if histogram is None:
            if digits:
                most = math.prod([digit.extent for digit in digits])
                words = -(-most.bit_length() // WORD_BITS)
                histogram = self._spread(self._joint(digits[1:]).widened(words), digits[0])
            else:
                histogram = _Histogram(self.modulus, self.lanes, 1, 1)
            self._known[digits] = histogram
        return histogram

    def _spread(self, hist: _Histogram, digit: ResidueDigit) -> _Histogram:
        """The sum of `hist` shifted by every value of `digit`."""
        order = math.lcm(
            self.modulus // math.gcd(digit.stride, self.modulus),
            self.lanes // math.gcd(digit.moves[0], self.lanes),
        )
        cycles, rest = divmod(digit.extent, order)
        bits = order.bit_length() - 1
        shifts = bits + order.bit_count() + (rest & ((1 << bits) - 1)).bit_count()
        cells = self.modulus * self.lanes
        spend(1 + cells // 96 + shifts * (4 + cells // 300))  # what is kept, and what is moved
        counts = rest, order if cycles else 0

        def moved(value: _Histogram, steps: int) -> _Histogram:
            return value.moved(steps * digit.stride, steps * digit.moves[0])

        block, sums, done = moved(hist, digit.first), [0, 0], [0, 0]
        for bit in range(max(counts).bit_length()):
            # `block` is the sum over 2^bit values.
            for k, count in enumerate(counts):
                if count >> bit & 1:
                    sums[k] += moved(block, done[k]).cells
                    done[k] += 1 << bit
            if max(counts) >> (bit + 1):
                block = block._replace(cells=block.cells + moved(block, 1 << bit).cells)
        return hist._replace(cells=sums[0] + cycles * sums[1])


class _Histogram(NamedTuple):
    """Counts over Z_modulus x Z_lanes in fields of `words` words, threads fastest."""

    modulus: int
    lanes: int
    words: int
    cells: int

    def widened(self, words: int) -> _Histogram:
        """The same counts in wider fields."""
        if words <= self.words:
            return self
        size, gap = self.words * WORD_BITS // 8, b"\0" * ((words - self.words) * WORD_BITS // 8)
        data = self._data()
        fields = (data[at : at + size] + gap for at in range(0, len(data), size))
        return self._replace(words=words, cells=int.from_bytes(b"".join(fields), "little"))

    def moved(self, offset: int, thread: int) -> _Histogram:
        """The counts moved along both axes, round their ends."""
        cells, field = self.cells, self.words * WORD_BITS
        row = self.lanes * field
        if steps := thread % self.lanes:
            low = _low_lanes(self.modulus, self.lanes, self.words, self.lanes - steps)
            staying = cells & low
            cells = (staying << steps * field) | (cells ^ staying) >> (self.lanes - steps) * field
        if steps := offset % self.modulus:
            high = cells >> (self.modulus - steps) * row
            cells = (cells ^ (high << (self.modulus - steps) * row)) << steps * row | high
        return self._replace(cells=cells)

    def column(self, thread: int) -> list[int]:
        """The counts of one thread number, by offset."""
        data = self._data()
        if self.words == 1:
            words = array("Q", data)
            if sys.byteorder == "big":
                words.byteswap()
            return words[thread :: self.lanes].tolist()
        size = self.words * WORD_BITS // 8
        starts = range(thread * size, len(data), self.lanes * size)
        return [int.from_bytes(data[at : at + size], "little") for at in starts]

    def threads(self) -> list[int]:
        """The thread numbers with a count."""
        field = self.words * WORD_BITS
        cells, rows = self.cells, self.modulus
        while rows > 1:  # the upper half is laid onto the lower one
            rows = (rows + 1) // 2
            upper = cells >> rows * self.lanes * field
            cells = upper | (cells ^ (upper << rows * self.lanes * field))
        full = (1 << field) - 1
        return [lane for lane in range(self.lanes) if cells >> lane * field & full]

    def _data(self) -> bytes:
        return self.cells.to_bytes(self.modulus * self.lanes * self.words * WORD_BITS // 8, "little")


@functools.lru_cache(maxsize=64)
def _low_lanes(modulus: int, lanes: int, words: int, count: int) -> int:
    """The fields of the first `count` lanes of every row, all bits set."""
    size = words * WORD_BITS // 8
    row = b"\xff" * (count * size) + b"\0" * ((lanes - count) * size)
    return int.from_bytes(row * modulus, "little")


EDGES = 64
"""Values of one digit on the edge of an interval, at most."""

Digits = tuple[ResidueDigit, ...]


def between(digits: Digits, weights: Sequence[int], low: int, high: int) -> Iterator[Digits]:
    """Disjoint families that hold every choice of `digits` with low <= sum of value * weight < high.

    Weights must not be negative; digits of weight 0 are free.  Raises UndecidedError
    when digits overlap so much that an interval is more than a few families.

    >>> [[d.extent for d in f] for f in between((ResidueDigit(0, 1 << 40, 1, (0, 0, 0)),), (1,), 0, 1 << 20)]
    [[1048576]]
    """
    order = sorted((i for i, w in enumerate(weights) if w), key=lambda i: -weights[i])
    fixed = sum(digits[i].first * weights[i] for i in order)
    yield from _between(digits, weights, order, low - fixed, high - fixed)


def _between(
    digits: Digits, weights: Sequence[int], order: Sequence[int], low: int, high: int
) -> Iterator[Digits]:
    """`between` for the digits `order`, whose values count from their first."""
    spend(1 + len(order))
    reach = sum((digits[i].extent - 1) * weights[i] for i in order)
    if high <= 0 or low > reach:
        return
    if low <= 0 and reach < high:
        yield digits
        return
    top, rest = order[0], order[1:]
    extent, weight = digits[top].extent, weights[top]
    below = reach - (extent - 1) * weight
    # Values with all of their sums inside, and values with some.
    inside = range(max(0, -(-low // weight)), max(0, min(extent, (high - 1 - below) // weight + 1)))
    some = range(max(0, -(-(low - below) // weight)), max(0, min(extent, (high - 1) // weight + 1)))
    if not inside:
        inside = range(some.start, some.start)
    edges = (range(some.start, inside.start), range(inside.stop, some.stop))
    if sum(map(_count, edges)) > EDGES:
        raise UndecidedError(f"an interval cuts through more than {EDGES} values of one digit", budget=EDGES)
    for n, values in enumerate((edges[0], inside, edges[1])):
        if n == 1 and values:
            yield _narrowed(digits, top, values)
        for value in values if n != 1 else ():
            fixed = _narrowed(digits, top, range(value, value + 1))
            yield from _between(fixed, weights, rest, low - value * weight, high - value * weight)


def _narrowed(digits: Digits, which: int, values: range) -> Digits:
    digit = digits[which]
    narrow = digit._replace(first=digit.first + values.start, extent=_count(values))
    return (*digits[:which], narrow, *digits[which + 1 :])


def _count(values: range) -> int:
    """The number of values; `len` has no more than 63 bits."""
    return max(0, values.stop - values.start)
