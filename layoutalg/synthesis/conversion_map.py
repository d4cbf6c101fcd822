"""Where every value of one register layout lies in another: the map that a conversion has to carry out.

The idea.  A register layout says which element of a tensor each (register, lane, warp) holds.  To turn
`src` into `dst`, each place of `dst` asks: where in `src` is my element?

    C = src^-1 o dst        (register', lane', warp') -> (register, lane, warp)

C is a matrix over F2, and its blocks say what the conversion needs:

    C keeps lane and warp        names of registers change, nothing moves
    C keeps the warp             values move between lanes: shuffles
    otherwise                    values move between warps: through shared memory

>>> from layoutalg.linear import LinearLayout
>>> rows = LinearLayout({"register": [1], "lane": [2, 4]}, {"n": 8})
>>> columns = LinearLayout({"register": [4], "lane": [1, 2]}, {"n": 8})
>>> place_map(rows, columns)(register=1, lane=0, warp=0)
(0, 2, 0)

Notes.  Where `src` holds an element several times, the place nearest to the one that asks is taken: its own
warp, if it can be, and its own lane.  The inverse of C, dst^-1 o src, says where values go; but `dst` may
want one value in several places, so asking is the direction that always works.

Source: Linear Layouts, arXiv 2505.23819, section on layout conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutalg.errors import DivisibilityError, ShapeError, UnsupportedError
from layoutalg.f2 import Columns, apply, kernel, solve
from layoutalg.linear import LinearLayout, unpack

PLACE = ("register", "lane", "warp")
"""The in dimensions of a register layout; one that is left out has size 1."""


@dataclass(frozen=True, slots=True)
class PlaceMap:
    """C as columns: bits of the destination's place, register first, to packed places of the source.

    `registers` and `from_registers` are numbers of register bits of destination and source; `lanes` and
    `warps` are numbers of bits, the same on both sides.  A packed place has its register lowest.
    """

    registers: int
    from_registers: int
    lanes: int
    warps: int
    columns: Columns

    def __call__(self, register: int, lane: int, warp: int) -> tuple[int, int, int]:
        """The (register, lane, warp) of the source that holds what this place of the destination wants."""
        packed = register | lane << self.registers | warp << (self.registers + self.lanes)
        return self.split(apply(self.columns, packed))

    def split(self, place: int) -> tuple[int, int, int]:
        """A packed place of the source as (register, lane, warp)."""
        rest, register = place >> self.from_registers, place & ((1 << self.from_registers) - 1)
        return register, rest & ((1 << self.lanes) - 1), rest >> self.lanes

    @property
    def parts(self) -> tuple[list[int], list[int], list[int]]:
        """The columns of the destination's register, lane and warp bits."""
        first, last = self.registers, self.registers + self.lanes
        return list(self.columns[:first]), list(self.columns[first:last]), list(self.columns[last:])

    @property
    def crosses_warps(self) -> bool:
        """True when some value has to move to another warp."""
        registers, lanes, warps = self.parts
        own = [1 << i for i in range(self.warps)]
        return [self.split(c)[2] for c in registers + lanes + warps] != [0] * len(registers + lanes) + own

    @property
    def crosses_lanes(self) -> bool:
        """True when some value has to move to another lane."""
        registers, lanes, warps = self.parts
        own = [1 << i for i in range(self.lanes)]
        found = [self.split(c)[1] for c in registers + lanes + warps]
        return found != [0] * self.registers + own + [0] * self.warps

    def packed(self, bits: int) -> PlaceMap:
        """The map of units of 2^bits neighbouring registers, for `bits` up to `packable`."""
        rest = tuple(column >> bits for column in self.columns[bits:])
        return PlaceMap(self.registers - bits, self.from_registers - bits, self.lanes, self.warps, rest)

    @property
    def packable(self) -> int:
        """The most bits b such that 2^b neighbouring registers always stay together and in order."""
        for bits in range(min(self.registers, self.from_registers), 0, -1):
            low = (1 << bits) - 1
            stay = self.columns[:bits] == tuple(1 << j for j in range(bits))
            if stay and not any(column & low for column in self.columns[bits:]):
                return bits
        return 0


def place_map(src: LinearLayout, dst: LinearLayout) -> PlaceMap:
    """C with src(C(place)) = dst(place) for every place of `dst`.

    Both layouts map (register, lane, warp) to the same tensor.  Raises ShapeError when the tensors or the
    numbers of lanes or warps differ, UnsupportedError for other dimensions (values of another block),
    DivisibilityError, naming it, when `dst` wants an element that `src` does not hold.

    >>> one = LinearLayout({"register": [1, 2]}, {"n": 4})
    >>> two = LinearLayout({"register": [2, 1]}, {"n": 4})
    >>> place_map(one, two).columns
    (2, 1)
    """
    wanted, held = register_columns(dst), register_columns(src)
    if src.outs != dst.outs:
        raise ShapeError(f"the layouts hold different tensors: {dict(src.outs)} and {dict(dst.outs)}")
    for name, mine, theirs in zip(PLACE[1:], held[1:], wanted[1:], strict=True):
        if len(mine) != len(theirs):
            raise ShapeError(
                f"the source has {1 << len(mine)} {name}s, the destination {1 << len(theirs)}; a conversion "
                f"keeps them"
            )
    counts = [len(part) for part in held]
    matrix = [column for part in held for column in part]
    shifts = (0, counts[0], counts[0] + counts[1])
    same = kernel(matrix)
    columns: list[int] = []
    for n, part in enumerate(wanted):
        for j, element in enumerate(part):
            place = solve(matrix, element)
            if place is None:
                raise DivisibilityError(
                    f"the destination holds element {unpack(element, dst.outs)}, which no place of the "
                    f"source does",
                    lhs=src,
                    rhs=dst,
                    witness=1 << len(columns),
                )
            own = 1 << (shifts[n] + j) if j < counts[n] else 0
            columns.append(_nearest(place, own, same, shifts))
    return PlaceMap(len(wanted[0]), counts[0], counts[1], counts[2], tuple(columns))


def register_columns(layout: LinearLayout) -> tuple[list[int], list[int], list[int]]:
    """The packed tensor index that each register, lane and warp bit moves by.

    Raises UnsupportedError for an in dimension that is none of these.

    >>> register_columns(LinearLayout({"lane": [(1, 0), (0, 1)]}, {"m": 2, "n": 4}))
    ([], [1, 2], [])
    """
    parts: dict[str, list[int]] = {name: [] for name in PLACE}
    columns = list(layout.columns)
    for name, bits in layout.in_bits.items():
        mine, columns = columns[:bits], columns[bits:]
        if name in parts:
            parts[name] = mine
        elif bits:
            raise UnsupportedError(
                f"the in dimension {name!r} of size {1 << bits}: conversions move values between registers, "
                f"lanes and warps of one block"
            )
    return parts["register"], parts["lane"], parts["warp"]


def _nearest(place: int, own: int, same: Columns, shifts: Sequence[int]) -> int:
    """The place, among those that hold the same element, whose warp, lane and register are `own`'s."""
    for shift in reversed(shifts):
        parts = [vector >> shift for vector in same]
        found = solve(parts, (place ^ own) >> shift)
        if found is None:
            return place
        place ^= apply(same, found)
        same = tuple(apply(same, combination) for combination in kernel(parts))
    return place
