"""Fragments: which lanes, registers and warps hold a row or a column of a tile in registers.

The idea.  A tensor-core instruction spreads its operands over the registers of a warp or of four.  CuTe
writes this as a thread-value layout onto the tile, columns first; split into bits it is a table:

    m16n8 accumulator, ((4,8),(2,2)):((32,1),(16,8))

    register=1 -> n 1      lane=1 -> n 2      lane=4  -> m 1
    register=2 -> m 8      lane=2 -> n 4      lane=8  -> m 2
                                              lane=16 -> m 4

so that row 3 is in registers 0 and 1 of the lanes 12 to 15, and a lane holds two rows.

>>> accumulator = fragment(Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), (16, 8))
>>> holders(accumulator, m=3).places
((0, 12, (0, 1)), (0, 13, (0, 1)), (0, 14, (0, 1)), (0, 15, (0, 1)))
>>> [lane for _, lane, _ in holders(accumulator, n=3).places]
[1, 5, 9, 13, 17, 21, 25, 29]

Notes.  Extents are powers of two, with one exception that wgmma needs: the last value mode may have any
extent (N = 96 columns are 12 groups of 8).  The layout is then that of the next power of two, of which
only the first `registers` registers exist.

Source: PTX ISA, "Matrix fragments" of mma and wgmma; CuTe, MMA_Traits (CLayout).
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.errors import (
    ArgumentTypeError,
    NotLinearError,
    ShapeError,
    UnsupportedError,
    check_type,
    shown,
)
from layoutalg.f2 import LinearLayout, apply, kernel, rank, solve, to_f2
from layoutalg.layout import (
    Layout,
    integer_leaves,
    leaves,
    modes,
    normalize,
    product,
    whole_number,
)

PLACE = ("register", "lane", "warp")
"""The in dimensions of a register layout; one that is left out has size 1."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A tile in registers: `layout` from (register, lane, warp) to the tile's dimensions, of extents `shape`.

    Only registers below `registers` exist; where that is not all of them, those left out lie outside
    `shape`.
    """

    layout: LinearLayout
    registers: int
    shape: tuple[int, ...]

    def element(self, register: int, lane: int, warp: int) -> tuple[int, ...]:
        """The coordinates of what a place holds.

        Raises ShapeError for a place that does not exist.
        """
        if not 0 <= register < self.registers:
            raise ShapeError(f"register {register} is outside the {self.registers} of the fragment")
        return tuple(self.layout(register=register, lane=lane, warp=warp).values())

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return 1 << self.layout.in_bits["lane"]

    @property
    def warps(self) -> int:
        """Number of warps."""
        return 1 << self.layout.in_bits["warp"]


@dataclass(frozen=True, slots=True)
class Holders:
    """The places that hold some coordinate: each (warp, lane) with its registers."""

    places: tuple[tuple[int, int, tuple[int, ...]], ...]


def fragment(
    tv: Layout, shape: tuple[int, ...], dims: tuple[str, ...] = ("m", "n"), lanes: int = 32
) -> Fragment:
    """The fragment of a thread-value layout onto the flat index of `shape`, first dimension fastest.

    `tv` has the modes (thread, value); threads past `lanes` are further warps, and fewer threads are fewer
    lanes.  `dims` names the dimensions of `shape`.  Raises NotLinearError for extents that are not powers of
    two (see the module's notes) or strides that carry, ShapeError for parts that do not fit.

    >>> wgmma = fragment(Layout(((4, 8, 4), (2, 2, 12)), ((128, 1, 16), (64, 8, 512))), (64, 96))
    >>> wgmma.registers, wgmma.warps, wgmma.element(47, 31, 3)
    (48, 4, (63, 95))
    """
    check_type("fragment", tv, Layout, "a layout of (thread, value)")
    integer_leaves("fragment", tv)
    if not isinstance(dims, (tuple, list)) or not all(isinstance(name, str) for name in dims):
        raise ArgumentTypeError(f"fragment with the dimensions {shown(dims)}: a tuple of names is needed")
    if whole_number(lanes, "fragment: lanes") < 1:
        raise ShapeError(f"fragment of {lanes} lanes: one or more are needed")
    extents = normalize(shape, "shape")
    if not isinstance(extents, tuple) or len(extents) != len(dims):
        raise ShapeError(f"shape {shape!r} has not one extent for each of the dimensions {', '.join(dims)}")
    sizes = tuple(product(extent) for extent in extents)
    parts = modes(tv)
    if len(parts) != 2:
        raise ShapeError(f"{tv} has {len(parts)} modes; a fragment needs two, (thread, value)")
    threads, values = ([leaf for leaf in leaves(part) if leaf[0] > 1] for part in parts)
    if any(s < 1 or d < 0 for s, d in threads + values):
        raise ShapeError(f"{tv} has a negative stride; a fragment needs places inside {shape}")
    if sum((s - 1) * d for s, d in threads + values) >= product(sizes):
        raise ShapeError(f"{tv} reaches past the {product(sizes)} elements of {shape}")
    registers = product(tuple(s for s, _ in values))
    padded = values[-1] if values and values[-1][0] & (values[-1][0] - 1) else None
    if padded is not None:
        values[-1] = (1 << padded[0].bit_length(), padded[1])
    pairs = threads + values
    columns = to_f2(Layout(tuple(s for s, _ in pairs), tuple(d for _, d in pairs)))
    outs = [*zip(dims, (*sizes[:-1], 1 << (sizes[-1] - 1).bit_length()), strict=True)]
    if any(n & (n - 1) for n in sizes[:-1]):
        raise NotLinearError(
            f"shape {shape} is not linear over F2: only its last extent may be no power of two"
        )
    if padded is not None and (padded[0] * padded[1] < product(sizes) or rank(columns) < len(columns)):
        raise NotLinearError(
            f"{tv} onto {shape} is not linear over F2: the extent {padded[0]} is not a power of two, and its "
            f"mode does not run to the end of the tile"
        )
    count = product(tuple(s for s, _ in threads)).bit_length() - 1
    lane_bits = min(count, lanes.bit_length() - 1)
    ins = {"lane": lane_bits, "warp": count - lane_bits, "register": len(columns) - count}
    layout = LinearLayout.from_columns(columns, ins, outs).transpose_ins(PLACE)
    return Fragment(layout, registers, sizes)


def linear_fragment(layout: LinearLayout) -> Fragment:
    """The fragment of a LinearLayout from register, lane and warp, any of which it may lack.

    Raises ShapeError for other in dimensions.

    >>> linear_fragment(LinearLayout({"lane": [1, 2]}, {"n": 4})).element(0, 3, 0)
    (3,)
    """
    check_type("linear_fragment", layout, LinearLayout, "a LinearLayout")
    others = sorted(set(layout.in_bits) - set(PLACE))
    if others:
        raise ShapeError(f"the in dimensions {', '.join(others)}: a fragment has {', '.join(PLACE)}")
    placed = over_places(layout)
    return Fragment(placed, 1 << placed.in_bits["register"], tuple(n for _, n in layout.outs))


def over_places(layout: LinearLayout) -> LinearLayout:
    """The layout with the in dimensions register, lane and warp, in this order; those it lacks get size 1.

    Raises UnsupportedError for an in dimension that is none of these, unless its size is 1.

    >>> over_places(LinearLayout({"lane": [(1, 0), (0, 1)]}, {"m": 2, "n": 4})).in_bits
    {'register': 0, 'lane': 2, 'warp': 0}
    """
    ins = dict(layout.ins)
    if tuple(ins) == PLACE:
        return layout
    for name, bases in layout.ins:
        if name not in PLACE and bases:
            raise UnsupportedError(
                f"the in dimension {name!r} of size {1 << len(bases)}: conversions move values between "
                f"registers, lanes and warps of one block"
            )
    return LinearLayout([(name, ins.get(name, ())) for name in PLACE], layout.outs)


def register_layout(
    tv: Layout, shape: tuple[int, ...], dims: tuple[str, ...] = ("m", "n"), lanes: int = 32
) -> LinearLayout:
    """A thread-value layout as a LinearLayout from register, lane and warp, as conversions take it.

    Raises NotLinearError where an extent is not a power of two, and as `fragment` does.

    >>> print(register_layout(Layout(((4, 8), 2), ((16, 1), 8)), (8, 8)))
    register=1 -> (0, 1)
    lane=1     -> (0, 2)
    lane=2     -> (0, 4)
    lane=4     -> (1, 0)
    lane=8     -> (2, 0)
    lane=16    -> (4, 0)
    warp: size 1
    outs: m (size 8), n (size 8)
    """
    tile = fragment(tv, shape, dims, lanes)
    if tile.registers != 1 << tile.layout.in_bits["register"]:
        raise NotLinearError(f"{tv} has {tile.registers} registers per lane, which is not a power of two")
    return tile.layout


def holders(tile: Fragment, **coordinates: int) -> Holders:
    """The places that hold the elements with the given coordinates: `m=3` is row 3, `m=3, n=0` one element.

    Raises ShapeError for a dimension that does not exist or a coordinate outside it.

    >>> tile = fragment(Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), (16, 8))
    >>> holders(tile, m=9, n=2).places
    ((0, 5, (2,)),)
    """
    check_type("holders", tile, Fragment, "a fragment")
    known = dict(zip(tile.layout.out_bits, tile.shape, strict=True))
    for name, x in coordinates.items():
        if name not in known:
            raise ShapeError(f"there is no dimension {name!r}; there are {', '.join(known)}")
        if type(x) is not int or not 0 <= x < known[name]:
            raise ShapeError(f"{name}={x!r} is outside [0, {known[name]})")
    chosen = tile.layout.sublayout(PLACE, list(coordinates))
    columns, wanted, start = chosen.columns, 0, 0
    for name, bits in chosen.out_bits.items():
        wanted |= coordinates[name] << start
        start += bits
    first = solve(columns, wanted)
    by_thread: dict[tuple[int, int], list[int]] = {}
    if first is not None:
        free = kernel(columns)
        registers = tile.layout.in_bits["register"]
        for combination in range(1 << len(free)):
            index = first ^ apply(free, combination)
            register, thread = index & ((1 << registers) - 1), index >> registers
            if register < tile.registers:
                warp, lane = divmod(thread, tile.lanes)
                by_thread.setdefault((warp, lane), []).append(register)
    return Holders(tuple((w, n, tuple(sorted(by_thread[w, n]))) for w, n in sorted(by_thread)))
