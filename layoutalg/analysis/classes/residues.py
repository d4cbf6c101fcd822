"""Counting the choices of digits by where they lead, modulo a period: convolution, not enumeration.

The idea.  An element offset is a sum of digit * stride, a thread number a sum of digit * place.  How many
choices of digits give a thread number that starts a warp, and an offset congruent to q?  Each digit
contributes the polynomial  1 + z + z^2 + ... + z^(extent - 1),  z a step in the group Z_Q x Z_lanes, and the
answer is their product.  A digit's sum is built by doubling and closes up after the order of its step, so a
digit of 2^40 costs no more than one of 2^12.

    digits 3 (stride 1) and 4 (stride 2), modulo 4:  offsets 0 1 2 | 2 3 0 | 0 1 2 | 2 3 0     counts 4 2 4 2

>>> table = Residues(4, 1)
>>> table.joint((ResidueDigit(0, 3, 1, (0, 0, 0)), ResidueDigit(0, 4, 2, (0, 0, 0))))[:, 0].tolist()
[4, 2, 4, 2]
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.budget import spend

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ResidueDigit(NamedTuple):
    """A digit that takes the `extent` values from `first` on, each worth `stride` and `moves`.

    `moves` is what one step adds to (thread, register, iteration).
    """

    first: int
    extent: int
    stride: int
    moves: tuple[int, int, int]


class ResidueFamily(NamedTuple):
    """Instructions that differ in `digits` only: start + (sum of value * step), for offset and place."""

    offset: int
    place: tuple[int, int, int]
    digits: tuple[ResidueDigit, ...]


class Residues:
    """Histograms over Z_modulus x Z_lanes: offsets modulo `modulus`, thread numbers modulo `lanes`.

    Histograms of equal tails of digits are computed once.
    """

    def __init__(self, modulus: int, lanes: int) -> None:
        self.modulus, self.lanes = modulus, lanes
        self._known: dict[tuple[ResidueDigit, ...], NDArray[Any]] = {}

    def joint(self, digits: tuple[ResidueDigit, ...]) -> NDArray[Any]:
        """Number of choices of `digits` by (offset mod modulus, thread mod lanes).

        As int64, or as Python's integers where there are 2^63 choices or more.
        """
        import numpy as np

        found = self._known.get(digits)
        if found is None:
            if digits:
                rest = self.joint(digits[1:])
                if math.prod([digit.extent for digit in digits]) >> 63:
                    rest = rest.astype(object)  # Python's integers
                found = self._spread(rest, digits[0])
            else:
                found = np.zeros((self.modulus, self.lanes), dtype=np.int64)
                found[0, 0] = 1
            self._known[digits] = found
        return found

    def starts(self, family: ResidueFamily) -> NDArray[Any]:
        """Number of members at a multiple of `lanes` threads, by offset modulo `modulus`."""
        spend(16 + self.modulus // 128)
        column: NDArray[Any] = self.joint(family.digits)[:, -family.place[0] % self.lanes]
        return _rolled(column, family.offset % self.modulus)

    def member(self, family: ResidueFamily, residue: int) -> tuple[int, int, int]:
        """(thread, register, iteration) of one member that `starts` counts under `residue`."""
        offset, thread = (residue - family.offset) % self.modulus, -family.place[0] % self.lanes
        place = list(family.place)
        for i, digit in enumerate(family.digits):
            rest = self.joint(family.digits[i + 1 :])
            value = digit.first
            spend(8)
            while not rest[
                (offset - value * digit.stride) % self.modulus, (thread - value * digit.moves[0]) % self.lanes
            ]:
                value += 1
                spend()
            offset -= value * digit.stride
            thread -= value * digit.moves[0]
            place = [p + value * m for p, m in zip(place, digit.moves, strict=True)]
        return place[0], place[1], place[2]

    def _shift(self, hist: NDArray[Any], digit: ResidueDigit, steps: int) -> NDArray[Any]:
        """The histogram moved by `steps` steps of the digit."""
        hist = _rolled(hist, steps * digit.stride % self.modulus)
        return _rolled(hist.T, steps * digit.moves[0] % self.lanes).T

    def _spread(self, hist: NDArray[Any], digit: ResidueDigit) -> NDArray[Any]:
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
        block, sums, done = self._shift(hist, digit, digit.first), [0 * hist, 0 * hist], [0, 0]
        for bit in range(max(counts).bit_length()):
            # `block` is the sum over 2^bit values.
            for k, count in enumerate(counts):
                if count >> bit & 1:
                    sums[k] = sums[k] + self._shift(block, digit, done[k])
                    done[k] += 1 << bit
            if max(counts) >> (bit + 1):
                block = block + self._shift(block, digit, 1 << bit)
        out: NDArray[Any] = sums[0] + cycles * sums[1]
        return out


def _rolled(hist: NDArray[Any], steps: int) -> NDArray[Any]:
    """`hist` moved along its first axis, round the end."""
    import numpy as np

    return np.concatenate((hist[-steps:], hist[:-steps])) if steps else hist
