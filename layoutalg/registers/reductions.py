"""Reductions over a fragment: what the maximum of every row, or of every column, costs.

The idea.  A row of an accumulator is spread: some of it lies in registers of one lane, some in other lanes,
some in other warps.  Each part has its own way to be combined:

    registers   one operation for each value but the first
    lanes       butterfly: value = op(value, the same of lane ^ distance), one shuffle for each halving
    warps       each warp writes its part to shared memory, and reads the others' behind a barrier

Which lanes and warps share a row is the kernel of the map to row numbers, so the distances are a basis.

>>> from layoutalg.registers import fragment
>>> from layoutalg.layout import Layout
>>> accumulator = fragment(Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), (16, 8))
>>> print(reduction_of(accumulator, along="n"))
along n, 2 results per lane: 2 operations on own registers, 4 shuffles (lanes ^1 ^2), no shared memory
>>> print(reduction_of(accumulator, along="m"))
along m, 2 results per lane: 2 operations on own registers, 6 shuffles (lanes ^4 ^8 ^16), no shared memory

Notes.  A place that repeats an element of another place is left out where it can be, so the counts hold for
sums as well.  Every lane ends with the result of each of its rows.

Source: CUDA C++ Programming Guide, "Warp Shuffle Functions", reduction across a warp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.analysis import wavefronts
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.errors import ShapeError
from layoutalg.f2 import Columns, Echelon, apply, complement, kernel, solve
from layoutalg.layout import product
from layoutalg.registers.fragments import PLACE, Fragment

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD_BYTES = 4
"""Partial results are exchanged as 32-bit words."""


class Exchange(NamedTuple):
    """A halving: row group g takes what lane ^ `distance` has in group `partner[g]`."""

    distance: int
    partner: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The steps of a reduction along one dimension, and their counts for one warp.

    `groups` are the registers of a lane that belong to one row, one tuple a row; `exchanges` run between
    lanes.  `warps_together` warps share a row; a warp's slot among them is the XOR of the `warp_slots` that
    its bits select.  `wavefronts` are those of the stores and loads of partial results, `shared_bytes` the
    memory they need.  `thread_slots` is the same of all threads that share a row, with their number.
    """

    tile: Fragment
    along: str
    groups: tuple[tuple[int, ...], ...]
    exchanges: tuple[Exchange, ...]
    warp_slots: Columns
    warps_together: int
    wavefronts: int
    shared_bytes: int
    thread_slots: tuple[Columns, int] = ((), 1)

    @property
    def lane_operations(self) -> int:
        """Operations on registers of one lane, before anything is exchanged."""
        return sum(len(group) - 1 for group in self.groups)

    @property
    def shuffles(self) -> int:
        """Shuffles, each followed by one operation."""
        return len(self.groups) * len(self.exchanges)

    @property
    def shared_operations(self) -> int:
        """Operations on what other warps have written."""
        return len(self.groups) * (self.warps_together - 1)

    @property
    def operations(self) -> int:
        """All operations of a lane."""
        return self.lane_operations + self.shuffles + self.shared_operations

    @property
    def barriers(self) -> int:
        """Barriers of the block: one where rows lie in several warps."""
        return 1 if self.warps_together > 1 else 0

    def __str__(self) -> str:
        lanes = "".join(f" ^{exchange.distance}" for exchange in self.exchanges)
        parts = [f"{self.lane_operations} operations on own registers"]
        parts.append(f"{self.shuffles} shuffles (lanes{lanes})" if lanes else "no shuffles")
        parts.append(f"{self.wavefronts} wavefronts and a barrier" if self.barriers else "no shared memory")
        return f"along {self.along}, {len(self.groups)} results per lane: {', '.join(parts)}"

    def run(self, values: NDArray[Any], operation: Callable[[Any, Any], Any] | None = None) -> NDArray[Any]:
        """Execute on an array (warp, lane, register): the result of every row group, (warp, lane, group).

        `operation` is a NumPy function of two arrays, the maximum by default.
        """
        import numpy as np

        op = np.maximum if operation is None else operation
        parts: list[Any] = []
        for group in self.groups:
            part = values[:, :, group[0]]
            for register in group[1:]:
                part = op(part, values[:, :, register])
            parts.append(part)
        lanes = np.arange(values.shape[1])
        for exchange in self.exchanges:
            taken = [parts[g][:, lanes ^ exchange.distance] for g in exchange.partner]
            parts = [op(part, other) for part, other in zip(parts, taken, strict=True)]
        if not self.barriers:
            return np.stack(parts, axis=2)
        written: dict[tuple[int, int], Any] = {}
        rows = _Rows(self.tile, self.along)
        places = list(np.ndindex(*values.shape[:2], len(self.groups)))
        for warp, lane, g in places:
            row = rows.row(self.groups[g][0], lane, warp)
            written[apply(self.warp_slots, warp), row] = parts[g][warp, lane]
        out = np.stack(parts, axis=2)
        for warp, lane, g in places:
            row, mine = rows.row(self.groups[g][0], lane, warp), apply(self.warp_slots, warp)
            for slot in range(self.warps_together):
                if slot != mine:
                    out[warp, lane, g] = op(out[warp, lane, g], written[slot, row])
        return out


class _Rows:
    """The linear maps of a fragment to the number of a row and to the position in it."""

    def __init__(self, tile: Fragment, along: str) -> None:
        bits = tile.layout.out_bits
        if along not in bits:
            raise ShapeError(f"there is no dimension {along!r}; there are {', '.join(bits)}")
        self.number = tile.layout.sublayout(PLACE, [name for name in bits if name != along]).columns
        self.position = tile.layout.sublayout(PLACE, [along]).columns
        self.registers, self.lanes = tile.layout.in_bits["register"], tile.layout.in_bits["lane"]

    def row(self, register: int, lane: int, warp: int) -> int:
        return apply(self.number, register | (lane | warp << self.lanes) << self.registers)


def reduction_of(tile: Fragment, *, along: str, arch: str | Arch = DEFAULT_ARCH) -> Reduction:
    """The reduction of a fragment along a dimension: `along="n"` is the maximum, or sum, of every row m.

    Raises ShapeError for a dimension that the fragment does not have.

    >>> from layoutalg.registers import fragment
    >>> from layoutalg.layout import Layout
    >>> wgmma = fragment(Layout(((4, 8, 4), (2, 2, 32)), ((128, 1, 16), (64, 8, 512))), (64, 256))
    >>> report = reduction_of(wgmma, along="n")
    >>> report.lane_operations, report.shuffles, report.barriers
    (126, 4, 0)
    >>> print(reduction_of(wgmma, along="m"))
    along m, 64 results per lane: 64 operations on own registers, 192 shuffles (lanes ^4 ^8 ^16),
    256 wavefronts and a barrier
    """
    machine, rows = find_arch(arch), _Rows(tile, along)
    by_row: dict[int, dict[int, int]] = {}
    for register in range(tile.registers):
        held = by_row.setdefault(apply(rows.number[: rows.registers], register), {})
        held.setdefault(apply(rows.position[: rows.registers], register), register)
    groups = tuple(tuple(held.values()) for held in by_row.values())
    of_row = {row: g for g, row in enumerate(by_row)}
    # Places that share the row of place 0, those of nearer kinds first; `reach` is the positions they add.
    thread = rows.registers + rows.lanes
    exchanges: list[Exchange] = []
    masks: list[int] = []
    alike: list[int] = []
    reach: list[int] = []
    for kind, stop in (("register", rows.registers), ("lane", thread), ("warp", len(rows.number))):
        for vector in kernel(rows.number[:stop]):
            position = apply(rows.position[:stop], vector)
            known = solve(reach, position)
            if known is None:
                reach.append(position)
                if kind == "lane":
                    shift = apply(rows.number[: rows.registers], vector & ((1 << rows.registers) - 1))
                    partner = tuple(of_row[row ^ shift] for row in by_row)
                    exchanges.append(Exchange(vector >> rows.registers, partner))
                elif kind == "warp":
                    masks.append(vector >> thread)
            elif kind == "warp":
                alike.append(vector >> thread ^ apply(masks, known >> (len(reach) - len(masks))))
    served = size = 0
    if masks:
        count = product(tile.shape) // tile.shape[list(tile.layout.out_bits).index(along)]
        size = WORD_BYTES * count << len(masks)
        served = sum(_wavefronts(tile, rows, group[0], len(masks), machine) for group in groups)
    slots = _slots(masks, alike, tile.layout.in_bits["warp"])
    threads = [exchange.distance for exchange in exchanges] + [mask << rows.lanes for mask in masks]
    thread_bits = rows.lanes + tile.layout.in_bits["warp"]
    every = _slots(threads, _repeated(rows), thread_bits), 1 << len(threads)
    return Reduction(tile, along, groups, tuple(exchanges), slots, 1 << len(masks), served, size, every)


def _repeated(rows: _Rows) -> list[int]:
    """Differences of threads that hold the same elements in some of their registers."""
    both = [n << max(rows.position).bit_length() | p for n, p in zip(rows.number, rows.position, strict=True)]
    return [vector >> rows.registers for vector in kernel(both) if vector >> rows.registers]


def numbers_of(tile: Fragment, along: str) -> Columns:
    """The number of the row of a place, as columns of the bits of register, lane and warp.

    >>> from layoutalg.registers import fragment
    >>> from layoutalg.layout import Layout
    >>> numbers_of(fragment(Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), (16, 8)), "n")
    (0, 8, 0, 0, 1, 2, 4)
    """
    return _Rows(tile, along).number


def row_numbers(found: Reduction) -> int:
    """Rows of a fragment: how many results there are in all.

    >>> from layoutalg.registers import fragment
    >>> from layoutalg.layout import Layout
    >>> row_numbers(reduction_of(fragment(Layout(((4, 8), 2), ((16, 1), 8)), (8, 8)), along="n"))
    8
    """
    sizes = found.tile.layout.out_bits
    return 1 << sum(bits for name, bits in sizes.items() if name != found.along)


def _slots(masks: list[int], alike: list[int], warp_bits: int) -> Columns:
    """A linear number of every warp: `masks` are the distances that change it, `alike` some that do not."""
    columns = (*masks, *complement(masks, alike))
    columns += complement(columns, warp_bits)
    echelon = Echelon.of_columns(columns)
    numbers = [echelon.solve(1 << j) or 0 for j in range(warp_bits)]
    return tuple(number & ((1 << len(masks)) - 1) for number in numbers)


def _wavefronts(tile: Fragment, rows: _Rows, register: int, doublings: int, machine: Arch) -> int:
    """The wavefronts of a store of partial results, a word per row, and a load per other warp of the row."""
    offsets: list[int | None] = [WORD_BYTES * rows.row(register, lane, 0) for lane in range(tile.lanes)]
    offsets += [None] * (machine.lanes - tile.lanes)
    loads = ((1 << doublings) - 1) * wavefronts("ld.shared.b32", offsets, machine)
    return wavefronts("st.shared.b32", offsets, machine) + loads
