"""Vectors of integers as one integer: what is right of integers is right of strides along several modes.

The idea.  Give every component a field of `bits` bits, wide enough for all that it adds up to, so that none
carries into the next.  Then a vector is an integer, sums and multiples of vectors are those of integers, and
procedures that know integer strides alone (composition, classes of warps) carry several numbers at once:
the coordinates along the modes of a space, an offset and the coordinates it belongs to, the parts of
constant + slope * symbol.

    (3, -2) in fields of 8 bits     3 - 2 * 256 = -509      2 * -509 = -1018 = (6, -4)

>>> fields = Fields(8)
>>> fields.pack((3, -2)), fields.unpack(-1018, 2)
(-509, (6, -4))

Notes.  Fields are signed.  `unpack` leaves the last one without an end; `of` looks at one by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Fields(NamedTuple):
    """Signed numbers of `bits` bits each in one integer; sums of codes are codes of sums.

    >>> Fields(4).of(Fields(4).code(-3, 2) + 5, 0), Fields(4).of(Fields(4).code(-3, 2) + 5, 2)
    (5, -3)
    """

    bits: int

    def code(self, value: Any, which: int) -> Any:
        """The integer that has a value in one field; in field 0 the value itself, whatever it is."""
        return value << self.bits * which if which else value

    def pack(self, values: Iterable[int]) -> int:
        """The integer that has these values in its fields, from field 0 on."""
        return sum(self.code(value, which) for which, value in enumerate(values))

    def of(self, code: int, which: int) -> int:
        """The value of one field."""
        half = 1 << (self.bits - 1)
        for _ in range(which):
            code = (code + half) >> self.bits
        return (code + half & 2 * half - 1) - half

    def unpack(self, code: Any, count: int) -> tuple[Any, ...]:
        """The values of the first `count` fields, the last of them as long as it is."""
        half = 1 << (self.bits - 1)
        out: list[Any] = []
        for _ in range(count - 1):
            out.append((code + half & 2 * half - 1) - half)
            code = (code + half) >> self.bits
        return (*out, code)
