"""The cost of an access to a layout with symbols: pieces, each with the values that have it.

>>> piece = Piece(32, "ld mod 32 = 0", (("ld", 32),))
>>> print(piece.at)
ld = 32
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Piece(NamedTuple):
    """Wavefronts or sectors in all, None where addresses are misaligned; for which values, and the least."""

    total: int | None
    condition: str
    example: tuple[tuple[str, int], ...]

    @property
    def at(self) -> str:
        """The least values that have it, in words."""
        return ", ".join(f"{name} = {value}" for name, value in self.example)


@dataclass(frozen=True, slots=True)
class OpenReport:
    """The cost of all instructions of an access, as a function of symbols.

    `pieces` ascend by their totals, and one of misaligned addresses is the last; `where` states the values
    that were asked for, of which each belongs to one piece.
    """

    op: str
    layout: str
    where: str
    space: Literal["shared", "global"]
    pieces: tuple[Piece, ...]

    @property
    def unit(self) -> str:
        """The unit of the totals: wavefronts of shared memory, sectors of global memory."""
        return "wavefronts" if self.space == "shared" else "sectors"

    @property
    def best(self) -> Piece | None:
        """The piece of least cost; None where addresses are misaligned for all values."""
        return next((piece for piece in self.pieces if piece.total is not None), None)

    @property
    def worst(self) -> Piece | None:
        """The piece of greatest cost; None where addresses are misaligned for all values."""
        return next((piece for piece in reversed(self.pieces) if piece.total is not None), None)

    def __str__(self) -> str:
        width = max(len(self.unit), *(len(_total(piece)) for piece in self.pieces))
        lines = [f"{self.op} on {self.layout}, {self.where}", f"{self.unit:>{width}}  for"]
        lines += [f"{_total(piece):>{width}}  {piece.condition}" for piece in self.pieces]
        if self.best is None or self.worst is None:
            return "\n".join([*lines, "Addresses are misaligned for all values."])
        ends = f"Best {self.best.total:,} at {self.best.at}, worst {self.worst.total:,} at {self.worst.at}."
        return "\n".join([*lines, ends])


def _total(piece: Piece) -> str:
    return "misaligned" if piece.total is None else f"{piece.total:,}"
