"""A remedy of an array's bank conflicts, and the fix that it is for a text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from layoutalg.algebra import storage_layout
from layoutalg.layout import AnyLayout, ComposedLayout, Swizzle
from layoutalg.source.costs import Cost
from layoutalg.source.fixes.arrays import SharedArray
from layoutalg.source.fixes.edits import Edit
from layoutalg.source.terms import Sum, add, bits, constant, floor_div, scale


@dataclass(frozen=True, slots=True)
class Tile:
    """A shared array as rows of `pitch` elements."""

    array: SharedArray
    rows: int
    pitch: int

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.array.element.bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.pitch * self.element_bytes


class Remedy(NamedTuple):
    """A pad, or a swizzle, of the rows of a tile: elements of all, and the cost of each access."""

    tile: Tile
    by: int | Swizzle
    elements: int
    costs: tuple[Cost, ...]

    @property
    def kind(self) -> Literal["padding", "swizzle"]:
        """The kind of it."""
        return "swizzle" if isinstance(self.by, Swizzle) else "padding"

    @property
    def layout(self) -> AnyLayout:
        """The layout that it gives to elements (row, column)."""
        shape = self.tile.rows, self.tile.pitch
        if isinstance(self.by, Swizzle):
            return ComposedLayout(self.by, 0, storage_layout(shape, "row"))
        return storage_layout(shape, "row", self.by)

    @property
    def excess(self) -> int:
        """The wavefronts past the ideal that it leaves."""
        return sum(cost.total - cost.ideal for cost in self.costs)

    @property
    def extra(self) -> int:
        """Bytes that it takes."""
        return (self.elements - self.tile.array.size) * self.tile.element_bytes


def moved(at: Sum, by: int | Swizzle, tile: Tile) -> Sum:
    """The place of a byte under a pad of `by` elements per row, or under Sw<B,M,S> with S above zero."""
    if not isinstance(by, Swizzle):
        return add(at, scale(floor_div(at, tile.row_bytes), by * tile.element_bytes))
    mask = ((1 << by.bits) - 1 << by.base + by.shift) * tile.element_bytes
    taken = floor_div(bits("and", at, constant(mask)), 1 << by.shift)
    return bits("xor", at, taken)


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy for one array: `kind` is padding or swizzle, `layout` where element (row, column) goes.

    `line` is that of the array's declaration, in a header `file` or "", and `start` and `end` are the bytes
    of the array that it is for, one `part` of several or all of it.  `before` and `after` are wavefronts of
    all accesses to them, `ideal` the fewest, and `left` names the accesses that keep conflicts; `extra_bytes`
    is the memory that it costs.  With `edits` that change of the text is all, and `code` are the lines that
    it makes; without any, the accesses must be written as `rewrite` says, with the function that `code` is.
    `launch_bytes` is the dynamic shared memory that the launch then gives, of what was read, with all
    paddings so far; None of a static array.  `hinder` are the uses that an edit of the declaration alone does
    not reach.
    """

    array: str
    file: str
    line: int
    kind: str
    layout: AnyLayout
    extra_bytes: int
    before: int
    after: int
    ideal: int
    code: str
    edits: tuple[Edit, ...]
    rewrite: tuple[str, ...]
    launch_bytes: int | None
    start: int
    end: int
    part: bool
    left: tuple[str, ...]
    remedy: Remedy = field(repr=False)
    hinder: tuple[str, ...] = field(repr=False)
