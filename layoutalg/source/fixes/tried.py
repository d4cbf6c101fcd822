"""The list of fixes that were tried for an array, in words, from which an array without one is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from layoutalg.layout import Swizzle


@dataclass(slots=True)
class Tried:
    """`pads` are the bytes per row that were tried, by the elements of a row; `refused` are other reasons."""

    pads: dict[int, list[int]] = field(default_factory=dict)
    swizzles: dict[Swizzle, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)

    def padded(self, pitch: int, pad: int) -> None:
        """Note a pad per row of `pitch` elements."""
        self.pads.setdefault(pitch, []).append(pad)

    def words(self) -> str:
        """State which fixes left conflicts, and which were not tried.

        >>> tried = Tried({32: [4, 8, 12]}, {Swizzle(1, 0, 5): None, Swizzle(2, 1, 5): None})
        >>> print(tried.words().replace(" and by ", "\\n"))
        conflicts are left by pads of 4, 8, 12 bytes per row of 32 elements
        Sw<1,0,5>, Sw<2,1,5>; others were not tried
        >>> Tried().words()
        'no padding and no swizzle was tried'
        """
        left = []
        for pads in dict.fromkeys(map(tuple, self.pads.values())):
            rows = [str(pitch) for pitch, own in self.pads.items() if tuple(own) == pads]
            left.append(f"pads of {_numbers(list(pads))} bytes per row of {' or '.join(rows)} elements")
        if self.swizzles:
            left.append(_swizzles(list(self.swizzles)))
        words = f"conflicts are left by {' and by '.join(left)}; others were not tried" if left else (
            "no padding and no swizzle was tried"
        )  # fmt: skip
        return "; ".join([words, *self.refused])


def _numbers(numbers: list[int]) -> str:
    """4, 8, 12 as they are; a long row of equal steps by its first two and its last."""
    steps = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 4 and len(steps) == 1:
        return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _swizzles(swizzles: list[Swizzle]) -> str:
    """The swizzles, or how many and their ranges."""
    if len(swizzles) <= 3:
        return ", ".join(map(str, swizzles))
    ranges = (
        f"{name} of {min(numbers)} to {max(numbers)}"
        for name, numbers in (
            ("B", [s.bits for s in swizzles]),
            ("M", [s.base for s in swizzles]),
            ("S", [s.shift for s in swizzles]),
        )
    )
    return f"{len(swizzles):,} swizzles Sw<B,M,S>, with {', '.join(ranges)}"
