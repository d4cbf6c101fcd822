"""All indices of a tile: in two dimensions, linear, binary, and bit by bit in the colours of their fields.

The idea.  A swizzle acts on the bits of a linear index.  To see what it does, one reads the same tile three
times, as row and column, as a number and as bits, before the swizzle and after it; a table with a row per
index then has a column per bit, in the colour of its field: of the column, the row, or what the swizzle has
changed.  A cell is a vector that the swizzle keeps whole.

>>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
>>> tile = ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1)))
>>> [[[c.text for c in row] for row in p.cells] for p in index_picture(tile).panels[:3]]
[[['0,0', '0,1'], ['1,0', '1,1']], [['0', '1'], ['3', '2']], [['00', '01'], ['11', '10']]]
"""

from __future__ import annotations

from layoutalg.algebra import upcast
from layoutalg.draw.picture import EIGHTS_LEGEND, Cell, Panel, Picture, check_cells, extents
from layoutalg.errors import ShapeError, check_type
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzles

MAX_ROWS = 64
"""Rows of the table bit by bit; of more indices the first are shown."""

_COLUMN_HUE, _ROW_HUE, _CHANGED_HUE = 8, 0, 20


def index_picture(layout: AnyLayout) -> Picture:
    """The tables of all indices of a tile of two modes; see the module's text.

    Raises ShapeError for another number of modes, ResourceError for more cells than a picture has.

    >>> [panel.title for panel in index_picture(Layout((4, 8), (8, 1))).panels]
    ['row,column', 'linear', 'binary', 'bit by bit']
    """
    check_type("index_picture", layout, (Layout, ComposedLayout), "a layout")
    if not isinstance(layout.shape, tuple) or len(layout.shape) != 2:
        raise ShapeError(f"tables of the indices of {layout}: rows and columns are needed, two modes")
    swizzled = isinstance(layout, ComposedLayout) and bool(layout.swizzles)
    unit = 1
    if isinstance(layout, ComposedLayout) and swizzled:
        unit = 1 << min(swizzle.base for swizzle in layout.swizzles if swizzle.bits)
    units = upcast(layout, unit) if unit > 1 else layout
    rows, columns = extents(units.shape)
    check_cells(rows * columns)
    plain: AnyLayout = units
    if isinstance(units, ComposedLayout) and swizzled:
        plain = ComposedLayout(Swizzles(), units.offset, units.inner)
    offsets = [[units(r, c) for c in range(columns)] for r in range(rows)]
    before = [[plain(r, c) for c in range(columns)] for r in range(rows)]
    bits = max(1, max(max(map(max, offsets)), max(map(max, before))).bit_length())

    def grid(title: str, text: list[list[str]]) -> Panel:
        cells = tuple(
            tuple(Cell(text[r][c], offsets[r][c] % 8 * 4) for c in range(columns)) for r in range(rows)
        )
        return Panel(title, tuple(map(str, range(rows))), tuple(map(str, range(columns))), cells)

    panels = [
        grid("row,column", [[f"{r},{c}" for c in range(columns)] for r in range(rows)]),
        grid("linear", [[str(n) for n in row] for row in offsets]),
        grid("binary", [[f"{n:0{bits}b}" for n in row] for row in offsets]),
        _bit_by_bit(before, offsets, bits, columns, swizzled),
    ]
    notes = [f"a cell is {unit} element{'s' * (unit > 1)}; the colour of the grids is the index mod 8"]
    if swizzled:
        notes.append(
            "bit by bit: each index before the swizzle and after it; framed bits are those it has changed"
        )
    if rows * columns > MAX_ROWS:
        notes.append(f"bit by bit: the first {MAX_ROWS} of {rows * columns} indices, along the rows")
    return Picture(f"indices of {layout}", tuple(panels), tuple(notes), legend=EIGHTS_LEGEND)


def _bit_by_bit(
    before: list[list[int]], after: list[list[int]], bits: int, columns: int, swizzled: bool
) -> Panel:
    """A row per index and a column per bit: the bits that count columns, and those above."""
    low = (columns - 1).bit_length()
    places = [(r, c) for r in range(len(before)) for c in range(columns)][:MAX_ROWS]
    order = range(bits - 1, -1, -1)

    def cell(n: int, bit: int, other: int) -> Cell:
        changed = (n ^ other) >> bit & 1
        hue = _CHANGED_HUE if changed else _COLUMN_HUE if bit < low else _ROW_HUE
        return Cell(str(n >> bit & 1), hue, marked=bool(changed))

    rows = []
    for r, c in places:
        x, y = before[r][c], after[r][c]
        row = [Cell(str(x)), *(cell(x, bit, x) for bit in order)]
        rows.append((*row, Cell(str(y)), *(cell(y, bit, x) for bit in order)) if swizzled else tuple(row))
    heads = ["index", *map(str, order)]
    heads += ["after", *map(str, order)] if swizzled else []
    return Panel("bit by bit", tuple(f"{r},{c}" for r, c in places), tuple(heads), tuple(rows))
