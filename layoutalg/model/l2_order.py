"""Locality of a block order: which panels of A and B the blocks in flight share through the L2 cache.

The idea.  A grid of Tm x Tn output tiles is walked in some order, W blocks at a time.  The blocks of a wave
advance along k together: block (i, j) needs row panel i of A and column panel j of B, and a panel that
several of them need comes from DRAM once and from the L2 otherwise.  So a wave should be as square as it
can be:

    in flight: 16 of a 32 x 32 grid    along a row      1 + 16 = 17 panels for 32 loads
                                       in bands of 4    4 +  4 =  8

A band of height h walks h rows of tiles together, down their columns.  Height 1 is row-major order, height
Tm is column-major:

    h = 2    0 2 4 6          block b of a whole band: row b % h, column b // h
             1 3 5 7

>>> for band in (1, 4, 32):
...     found = l2_locality((32, 32), in_flight=16, order=band)
...     print(band, found.panels, found.reuse)
1 1088 1.8823529411764706
4 512 4.0
32 1088 1.8823529411764706

Notes.  The model is of waves: all blocks of one wave run in step, and nothing of it is left for the next.
It is exact for the order as such; a real cache keeps some panels longer, and blocks drift apart.

Comparison with CuTe.  Any order can be given as a Layout from block number to the flat index of the grid,
rows fastest: bands of 2 in a 4 x 8 grid are (2,8,2):(1,4,2), and Z-order is (2,2,2,2,2):(1,4,2,8,16).
CUTLASS calls bands threadblock swizzles, Triton grouped ordering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.errors import NotInjectiveError, ShapeError, UnknownNameError, UnsupportedError, check_choice
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, normalize, size, to_text

BlockOrder: TypeAlias = "int | Literal['row', 'col'] | AnyLayout"
"""A band height, "row" (height 1), "col" (as high as the grid), or block number -> flat grid index."""


@dataclass(frozen=True, slots=True)
class L2Locality:
    """Panels that come from DRAM when a grid is walked in waves.

    `a_panels` and `b_panels` count distinct panels, wave by wave; each of `blocks` blocks loads one of
    either.  `reuse` and `hit_rate` weigh panels by their bytes, which `tile` gives.  `method` is "bands" or
    "enumerated".
    """

    blocks: int
    waves: int
    a_panels: int
    b_panels: int
    tile: tuple[int, int]
    method: str

    @property
    def panels(self) -> int:
        """Panels that come from DRAM."""
        return self.a_panels + self.b_panels

    @property
    def reuse(self) -> float:
        """Bytes that blocks load over bytes that come from DRAM: the gain in DRAM intensity."""
        m, n = self.tile
        return self.blocks * (m + n) / (self.a_panels * m + self.b_panels * n)

    @property
    def hit_rate(self) -> float:
        """The share of loaded bytes that the L2 has already."""
        return 1 - 1 / self.reuse


def block_place(grid: tuple[int, int], band: int, block: int) -> tuple[int, int]:
    """The definition of bands: the (row, column) of block number `block`; the last band may be lower.

    Raises ShapeError for a block outside the grid or a band that is not between 1 and the grid's rows.

    >>> [block_place((3, 2), 2, block) for block in range(6)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    rows, columns = _grid(grid)
    band = _band(band, rows)
    if not 0 <= block < rows * columns:
        raise ShapeError(f"block {block} is outside the {rows * columns} blocks of grid {to_text(grid)}")
    first, inside = block // (band * columns) * band, block % (band * columns)
    height = min(band, rows - first)
    return first + inside % height, inside // height


def l2_locality(
    grid: tuple[int, int],
    *,
    in_flight: int,
    order: BlockOrder = "row",
    tile: tuple[int, int] = (1, 1),
    method: Literal["auto", "bands", "enumerated"] = "auto",
) -> L2Locality:
    """Distinct panels of all waves of `in_flight` blocks over a grid of (rows, columns) tiles.

    `tile` is (M, N) of one output tile; it weighs the panels.  Bands are counted without looking at blocks,
    a Layout is enumerated.  Raises ShapeError for sizes that do not fit, NotInjectiveError for an order
    that visits a tile twice.

    >>> found = l2_locality((32, 64), in_flight=40, order="col", tile=(256, 128))
    >>> found.waves, round(found.reuse, 2), round(found.hit_rate, 2)
    (52, 1.82, 0.45)
    """
    rows, columns = _grid(grid)
    check_choice("method", method, ("auto", "bands", "enumerated"))
    flight = _positive("in_flight", in_flight)
    m, n = _grid(tile)
    if isinstance(order, (Layout, ComposedLayout)):
        if method == "bands":
            raise UnsupportedError(f"the order {order} is a Layout; only band heights are counted as bands")
        places = _layout_places(order, rows, columns)
        counts = _enumerate(places, flight)
        used = "enumerated"
    else:
        heights = {"row": 1, "col": rows}
        if isinstance(order, str) and order not in heights:
            raise UnknownNameError("block order", order, heights)
        band = _band(heights[order] if isinstance(order, str) else order, rows)
        used = "enumerated" if method == "enumerated" else "bands"
        if used == "bands":
            starts = range(0, rows * columns, flight)
            waves = [_wave(rows, columns, band, s, min(s + flight, rows * columns)) for s in starts]
            counts = (sum(a for a, _ in waves), sum(b for _, b in waves))
        else:
            counts = _enumerate([block_place(grid, band, b) for b in range(rows * columns)], flight)
    return L2Locality(rows * columns, -(-rows * columns // flight), *counts, (m, n), used)


def best_band(grid: tuple[int, int], *, in_flight: int, tile: tuple[int, int] = (1, 1)) -> int:
    """The height of band with the most reuse; the lowest among equals.

    A wave of W blocks is squarest, in bytes, at a height near sqrt(W * N / M).

    >>> best_band((64, 64), in_flight=132), best_band((32, 64), in_flight=40, tile=(256, 128))
    (11, 5)
    """
    heights = range(1, _grid(grid)[0] + 1)
    return max(heights, key=lambda h: l2_locality(grid, in_flight=in_flight, order=h, tile=tile).reuse)


def _wave(rows: int, columns: int, band: int, start: int, stop: int) -> tuple[int, int]:
    """Distinct rows and columns of blocks start .. stop-1: bands share no rows, but they share columns."""
    per_band = band * columns
    a_panels = 0
    spans: list[tuple[int, int]] = []
    for first in range(start // per_band * per_band, stop, per_band):
        height = min(band, rows - first // columns)
        lo, hi = max(start - first, 0), min(stop - first, height * columns)
        a_panels += min(height, hi - lo)
        spans.append((lo // height, (hi - 1) // height + 1))
    # The first band is left at its end, the last entered at its start, and those between are whole.
    if len(spans) == 1:
        b_panels = spans[0][1] - spans[0][0]
    elif len(spans) == 2:
        b_panels = min(columns, columns - spans[0][0] + spans[1][1])
    else:
        b_panels = columns
    return a_panels, b_panels


def _layout_places(order: AnyLayout, rows: int, columns: int) -> list[tuple[int, int]]:
    """The tile of every block of an order given as a layout, which must visit each tile once."""
    count = size(order)
    places = [order(block) for block in range(count)] if count == rows * columns else []
    if not places or not all(0 <= tile < count for tile in places):
        raise ShapeError(
            f"the order {order} does not map its blocks onto the {rows * columns} tiles of grid "
            f"{to_text((rows, columns))}"
        )
    first: dict[int, int] = {}
    for block, tile in enumerate(places):
        earlier = first.setdefault(tile, block)
        if earlier != block:
            raise NotInjectiveError(
                f"the order {order} visits tile {tile} twice, as block {earlier} and as block {block}",
                layout=order,
                a=earlier,
                b=block,
            )
    return [(tile % rows, tile // rows) for tile in places]


def _enumerate(places: list[tuple[int, int]], flight: int) -> tuple[int, int]:
    """The definition: the distinct rows and columns of each wave, counted as sets."""
    a_panels = b_panels = 0
    for start in range(0, len(places), flight):
        wave = places[start : start + flight]
        a_panels += len({i for i, _ in wave})
        b_panels += len({j for _, j in wave})
    return a_panels, b_panels


def _positive(name: str, n: int) -> int:
    value = normalize(n, name)
    if isinstance(value, tuple) or value < 1:
        raise ShapeError(f"{name} is {n!r}; a positive integer is needed")
    return value


def _grid(sides: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(sides, tuple) or len(sides) != 2:
        raise ShapeError(f"{sides!r} is not a pair of sides (rows, columns)")
    return _positive("rows", sides[0]), _positive("columns", sides[1])


def _band(height: int, rows: int) -> int:
    height = _positive("band", height)
    if height > rows:
        raise ShapeError(f"a band of {height} rows is higher than the grid's {rows}")
    return height
