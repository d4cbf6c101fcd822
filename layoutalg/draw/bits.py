r"""The bits of a coordinate that make each bit of an offset: fields of an index, and wires of a swizzle.

The idea.  A layout of power-of-two extents and strides moves bits: each bit of the offset is one bit of the
coordinate.  A swizzle adds wires: a bit of the offset is then the XOR of two or more.  Bits that come by
their place are drawn as solid wires, bits that the swizzle adds as dashed ones that end in an XOR:

    row r2 r1 r0   column c5 c4 c3 c2 c1 c0
     |  |  |  \  .  .  .  |  |  |
    o8 o7 o6 o5 ... o0          o5 = c5 ^ r2, o4 = c4 ^ r1, o3 = c3 ^ r0 under Sw<3,3,3>

With an element type the bits are those of the byte address, and their fields are the hardware's: the byte in
a word, the bank in a chunk of 16 bytes, the chunk in a line of all banks, the line.

>>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
>>> drawn = bits_diagram(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1))))
>>> [[cell.text for cell in row] for row in drawn.picture.panels[0].cells]
[['offset', 'offset'], ['r0', 'c0'], ['', 'r0']]

All indices of a tile: in two dimensions, linear, binary, and bit by bit in the colours of their fields.

The idea.  A swizzle acts on the bits of a linear index.  To see what it does, one reads the same tile three
times, as row and column, as a number and as bits, before the swizzle and after it; a table with a row per
index then has a column per bit, in the colour of its field: of the column, the row, or what the swizzle has
changed.  A cell is a vector that the swizzle keeps whole.

>>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
>>> tile = ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1)))
>>> [[[c.text for c in row] for row in p.cells] for p in index_picture(tile).panels[:3]]
[[['0,0', '0,1'], ['1,0', '1,1']], [['0', '1'], ['3', '2']], [['00', '01'], ['11', '10']]]

A pointer that walks through a swizzled tile: S(a + b) = S(a) ^ S(b), step by step.

The idea.  A swizzle S is linear over F2: S(a ^ b) = S(a) ^ S(b).  Where a and b have no bit in common, a + b
is a ^ b; so a thread computes S(a) once, and a step by b costs one XOR with S(b), which is a constant.  The
walk shows where that holds, and where a carry breaks it.

>>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
>>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
>>> walk = pointer_walk(tile, (3, 0), (0, 16), 4)
>>> [(step.offset, step.by_xor, step.carries) for step in walk]
[(216, 216, False), (200, 200, False), (248, 248, False), (232, 232, False)]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from layoutalg.algebra import upcast
from layoutalg.draw.picture import (
    EIGHTS_LEGEND,
    Cell,
    Diagram,
    Panel,
    Picture,
    check_cells,
    extents,
    grid,
    shade,
    sides,
    unit_of,
    unswizzled,
)
from layoutalg.draw.scene import (
    LINE_COLORS,
    PALETTE,
    Box,
    Dot,
    Line,
    Scene,
    Shape,
    Words,
    hex_color,
    text_width,
)
from layoutalg.draw.svg import GRAY, MARGIN, note_lines
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, NotLinearError, ShapeError, UnsupportedError, check_type
from layoutalg.f2 import to_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, product
from layoutalg.limits import Most

_WIDTH, _HEIGHT, _GAP, _DROP = 38, 26, 22, 150
_LETTERS = "rcdefgh"
_OFFSET_HUE, _MODE_HUES = 16, (0, 8, 12, 20, 24, 28, 4)


@dataclass(frozen=True, slots=True)
class OutputBit:
    """A bit of the offset: its `field`, the coordinate bits that come by their `place`, and those that a
    swizzle `adds`."""

    field: str
    place: tuple[str, ...]
    adds: tuple[str, ...]
    hue: int | None

    @property
    def formula(self) -> str:
        """The bit as an XOR of coordinate bits.

        >>> OutputBit("offset", ("c3",), ("r0",), 0).formula
        'c3 ^ r0'
        """
        return " ^ ".join((*self.place, *self.adds)) or "0"


def bits_diagram(layout: AnyLayout, element: str | DType | None = None) -> Diagram:
    """The bits of a layout that is linear over F2, by field, with the wires of its swizzles.

    Raises NotLinearError for a layout that is not linear, ResourceError past Most.CELLS,
    UnsupportedError for an element of no whole power-of-two number of bytes.

    >>> drawn = bits_diagram(Layout((8, 8), (8, 1)), "f16")
    >>> [cell.text for cell in drawn.picture.panels[0].cells[1]]
    ['r2', 'r1', 'r0', 'c2', 'c1', 'c0', '0']
    """
    check_type("bits_diagram", layout, (Layout, ComposedLayout), "a layout")
    names, outputs = _read(layout, None if element is None else dtype(element))
    unit = "byte address" if element is not None else "offset"
    added = sum(len(bit.adds) for bit in outputs)
    notes = (
        f"each bit of the {unit} is the XOR of the coordinate bits above it, r of mode 0, c of mode 1"
        if any(len(name) and name[0] == "c" for name in names)
        else f"each bit of the {unit} is the XOR of the coordinate bits above it",
        f"{added} wires of {layout.outer} are dashed and end in an XOR"
        if isinstance(layout, ComposedLayout) and added
        else "no bit is an XOR of several",
    )
    title = f"bits of {layout}" + ("" if element is None else f", {element}")
    heads = tuple(str(n) for n in reversed(range(len(outputs))))
    high_first = outputs[::-1]
    cells = (
        tuple(Cell(bit.field, bit.hue) for bit in high_first),
        tuple(Cell(" ^ ".join(bit.place) or "0", bit.hue) for bit in high_first),
        tuple(Cell(" ^ ".join(bit.adds), bit.hue if bit.adds else None) for bit in high_first),
    )
    panel = Panel(f"bits of the {unit}, high to low", ("field", "bit", "XOR"), heads, cells)
    picture = Picture(title, (panel,), notes)
    return Diagram(_scene(title, names, outputs, unit, notes), picture)


def _read(layout: AnyLayout, element: DType | None) -> tuple[tuple[str, ...], tuple[OutputBit, ...]]:
    """The names of the coordinate's bits, low to high by mode, and the bits of the offset, low to high."""
    shift = 0
    if element is not None:
        shift = (element.bits // 8).bit_length() - 1
        if element.bits < 8 or 8 << shift != element.bits:
            raise UnsupportedError(
                f"bits of a byte address of {element}: elements of 1, 2, 4, 8 or 16 bytes are needed"
            )
    try:
        columns = to_f2(layout)
    except NotLinearError as error:
        raise NotLinearError(f"bits_diagram of {layout}: {error}") from error
    plain = to_f2(unswizzled(layout))
    extents = list(map(product, layout.shape)) if isinstance(layout.shape, tuple) else [layout.shape]
    names = tuple(
        f"{_LETTERS[min(mode, len(_LETTERS) - 1)]}{bit}"
        for mode, extent in enumerate(extents)
        for bit in range(extent.bit_length() - 1)
    )
    count = max((column.bit_length() for column in (*columns, *plain)), default=0) + shift
    check_cells(count * len(names))
    outputs = []
    for bit in range(count):
        at = bit - shift
        by_place = tuple(n for n, c in zip(names, plain, strict=True) if at >= 0 and c >> at & 1)
        both = tuple(n for n, c in zip(names, columns, strict=True) if at >= 0 and c >> at & 1)
        adds = tuple(name for name in both if name not in by_place)
        solid = tuple(name for name in by_place if name in both)
        field, hue = ("offset", _OFFSET_HUE) if element is None else _field(bit)
        outputs.append(OutputBit(field, solid, adds, hue))
    return names, tuple(outputs)


def _field(bit: int) -> tuple[str, int | None]:
    """The field of a bit of a byte address, and its colour."""
    if bit < 2:
        return "byte", None
    if bit < 4:
        return "bank", 4
    return ("chunk", 8) if bit < 7 else ("line", 24)


def _scene(
    title: str, names: tuple[str, ...], outputs: tuple[OutputBit, ...], unit: str, notes: tuple[str, ...]
) -> Scene:
    """Coordinate bits above, bits of the offset below, wires between."""
    top, below = MARGIN + 52, MARGIN + 52 + _HEIGHT + _DROP
    places: dict[str, float] = {}
    shapes: list[Shape] = [Words(MARGIN, MARGIN + 10, title, bold=True, size=14)]
    x = MARGIN
    modes_of = sorted({name[0] for name in names}, key=_LETTERS.index)
    for mode in modes_of:
        mine = [name for name in names if name[0] == mode][::-1]
        head = f"mode {_LETTERS.index(mode)}"
        shapes.append(Words(x, top - 8, head, color=GRAY))
        hue = _MODE_HUES[_LETTERS.index(mode)]
        for name in mine:
            shapes += _bit(x, top, name, hue)
            places[name] = x + _WIDTH / 2
            x += _WIDTH
        x += max(_GAP, text_width(head) - _WIDTH * len(mine) + 8)
    width = max(x - _GAP, MARGIN + _WIDTH * len(outputs))
    left = MARGIN + (width - MARGIN - _WIDTH * len(outputs)) // 2
    color = {mode: hex_color(LINE_COLORS[n % len(LINE_COLORS)]) for n, mode in enumerate(modes_of)}
    wires: list[Shape] = []
    for n, bit in enumerate(reversed(outputs)):
        middle = left + n * _WIDTH + _WIDTH / 2
        end = below - (22 if bit.adds else 0)
        for name in bit.place:
            wires.append(Line(((places[name], top + _HEIGHT), (middle, end)), color[name[0]], 1.6))
        for name in bit.adds:
            aim = (middle + (5 if places[name] > middle else -5), below - 15)
            wires.append(Line(((places[name], top + _HEIGHT), aim), color[name[0]], 1.6, (5, 3)))
        if bit.adds:
            wires += _xor(middle, below - 13)
        shapes += _bit(left + n * _WIDTH, below, bit.formula if bit.formula == "0" else "", bit.hue)
        shapes.append(Words(middle, below + 17, str(len(outputs) - 1 - n), "middle"))
    y = below + _HEIGHT
    shapes += _braces(outputs, left, y)
    shapes.append(Words(left + _WIDTH * len(outputs) + 8, below + 17, unit, color=GRAY))
    right = max(width, left + _WIDTH * len(outputs) + 8 + text_width(unit), MARGIN + text_width(title, 8.6))
    formulas = [f"bit {n} = {bit.formula}" for n, bit in reversed(list(enumerate(outputs))) if bit.adds]
    lines, y, right = note_lines((*notes, *((", ".join(formulas),) if formulas else ())), y + 46, int(right))
    return Scene(title, int(right) + MARGIN, y, (*shapes, *wires, *lines))


def _bit(x: float, y: float, text: str, hue: int | None) -> list[Shape]:
    fill = "#eee" if hue is None else hex_color(PALETTE[hue])
    return [
        Box(x, y, _WIDTH, _HEIGHT, fill, "#fff", 2),
        *([Words(x + _WIDTH / 2, y + 17, text, "middle")] if text and text != "0" else []),
    ]


def _xor(x: float, y: float) -> list[Shape]:
    """A plus in a ring, and the wire from it down to its bit."""
    return [
        Dot(x, y, 8, "#fff", "#111"),
        Line(((x - 8, y), (x + 8, y))),
        Line(((x, y - 8), (x, y + 13))),
    ]


def _braces(outputs: tuple[OutputBit, ...], left: float, y: float) -> list[Shape]:
    """The names of the fields, each under a line as long as the field."""
    shapes: list[Shape] = []
    fields = [bit.field for bit in reversed(outputs)]
    start = 0
    for n in range(1, len(fields) + 1):
        if n == len(fields) or fields[n] != fields[start]:
            a, b = left + start * _WIDTH + 3, left + n * _WIDTH - 3
            shapes += [
                Line(((a, y + 4), (a, y + 9), (b, y + 9), (b, y + 4)), GRAY),
                Words((a + b) / 2, y + 23, fields[start], "middle", GRAY),
            ]
            start = n
    return shapes


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
    sides("tables of the indices of", layout)
    swizzled, unit = unswizzled(layout) is not layout, unit_of(layout)
    units = upcast(layout, unit) if unit > 1 else layout
    rows, columns = extents(units.shape)
    check_cells(rows * columns)
    plain = unswizzled(units)
    offsets = [[units(r, c) for c in range(columns)] for r in range(rows)]
    before = [[plain(r, c) for c in range(columns)] for r in range(rows)]
    bits = max(1, max(max(map(max, offsets)), max(map(max, before))).bit_length())

    def table(title: str, text: Callable[[int, int, int], str]) -> Panel:
        def cell(r: int, c: int) -> Cell:
            return Cell(text(r, c, offsets[r][c]), shade(offsets[r][c]))

        return grid(title, range(rows), range(columns), cell)

    panels = [
        table("row,column", lambda r, c, n: f"{r},{c}"),
        table("linear", lambda r, c, n: str(n)),
        table("binary", lambda r, c, n: f"{n:0{bits}b}"),
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


MAX_TILE = 4096
"""Most vectors of the tile beside it."""


@dataclass(frozen=True, slots=True)
class WalkStep:
    """A step of a walk: its coordinate, `a` and `b` with their sum before the swizzle, and the `offset`
    after it; `by_xor` is S(a) ^ S(b), and `carries` is whether a and b share a bit."""

    coordinate: tuple[int, int]
    a: int
    b: int
    offset: int
    by_xor: int

    @property
    def carries(self) -> bool:
        """Whether a + b is another number than a ^ b."""
        return self.a & self.b != 0


def pointer_walk(
    layout: AnyLayout, start: tuple[int, int], step: tuple[int, int], count: int
) -> tuple[WalkStep, ...]:
    """`count` steps from a coordinate of a swizzled layout of two modes.

    Raises ArgumentTypeError for a layout without a swizzle, ShapeError for another number of modes or a walk
    that leaves the tile, ResourceError for steps past Most.PARTS.

    >>> tile = ComposedLayout(Layout(8), 0, Layout(8))
    >>> pointer_walk(tile, (0, 0), (0, 1), 2)
    Traceback (most recent call last):
    layoutalg.errors.ArgumentTypeError: 8:1 o 0 o 8:1 has no swizzle to walk through
    """
    if not isinstance(layout, ComposedLayout) or isinstance(layout.outer, Layout) or not layout.swizzles:
        raise ArgumentTypeError(f"{layout} has no swizzle to walk through")
    Most.PARTS.integer(count, "steps of a walk")
    rows, columns = sides("a walk through", layout)
    plain = unswizzled(layout)
    swizzle = layout.outer
    steps = []
    for n in range(count):
        at = (start[0] + n * step[0], start[1] + n * step[1])
        if not (0 <= at[0] < rows and 0 <= at[1] < columns):
            raise ShapeError(
                f"step {n} of the walk is at {at[0]},{at[1]}, outside of the {rows} x {columns} tile {layout}"
            )
        a = plain(*start)
        b = plain(*at) - a
        steps.append(WalkStep(at, a, b, layout(*at), swizzle(a) ^ swizzle(b) if b >= 0 else -1))
    return tuple(steps)


def walk_picture(layout: AnyLayout, start: tuple[int, int], step: tuple[int, int], count: int) -> Picture:
    """The steps of a walk as a table, in decimal and binary, and the tile with the steps in it.

    Raises as `pointer_walk` does.

    >>> from layoutalg.layout import Swizzle
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> [cell.text for cell in walk_picture(tile, (3, 0), (0, 16), 4).panels[0].cells[1]]
    ['3,16', '16', '208', '200', '200', '11010000', '11001000']
    """
    steps = pointer_walk(layout, start, step, count)
    bits = max(max(s.a + s.b, s.offset).bit_length() for s in steps)
    rows = tuple(
        (
            Cell(f"{s.coordinate[0]},{s.coordinate[1]}"),
            Cell(str(s.b)),
            Cell(str(s.a + s.b)),
            Cell(str(s.offset), shade(s.offset // unit_of(layout))),
            Cell(_by_xor(s), marked=s.by_xor != s.offset),
            Cell(f"{s.a + s.b:0{bits}b}"),
            Cell(f"{s.offset:0{bits}b}"),
        )
        for s in steps
    )
    heads = ("at", "b", "a + b", "S(a + b)", "S(a) ^ S(b)", "a + b, bits", "S, bits")
    table = Panel(f"steps from a = {steps[0].a}", tuple(str(n) for n in range(count)), heads, rows)
    carried = sum(s.carries or s.b < 0 for s in steps)
    wrong = sum(s.by_xor != s.offset for s in steps)
    notes = [
        f"S is {layout.outer if isinstance(layout, ComposedLayout) else ''}, linear over F2; where a and b "
        f"share no bit, S(a + b) = S(a) ^ S(b): a step is one XOR"
    ]
    if carried:
        notes.append(
            f"{carried} of {count} steps share a bit with a, so that a + b carries: {wrong} "
            f"of them differ (!)"
        )
    else:
        notes.append(f"no step shares a bit with a: S(a) is computed once, and {count} constants do the rest")
    return Picture(
        f"walk through {layout}", (table, *_tile(layout, steps)), tuple(notes), legend=EIGHTS_LEGEND
    )


def _by_xor(step: WalkStep) -> str:
    """S(a) ^ S(b), with a mark where it is another offset; nothing where b is negative."""
    if step.b < 0:
        return "!"
    return str(step.by_xor) + (" !" if step.by_xor != step.offset else "")


def _tile(layout: AnyLayout, steps: tuple[WalkStep, ...]) -> tuple[Panel, ...]:
    """The tile in the vectors that the swizzle keeps whole, with the number of each step."""
    unit = unit_of(layout)
    rows, columns = extents(layout.shape)
    if columns % unit or rows * columns // unit > MAX_TILE:
        return ()
    at = {(s.coordinate[0], s.coordinate[1] // unit): n for n, s in enumerate(steps)}
    low, high = min(r for r, _ in at) // 8 * 8, (max(r for r, _ in at) // 8 + 1) * 8

    def cell(r: int, c: int) -> Cell:
        text = str(at.get((r, c), ""))
        return Cell(text, shade(layout(r, c * unit) // unit), marked=(r, c) in at)

    title = "the tile, a cell per vector that stays whole"
    vectors = range(columns // unit)
    return (grid(title, range(low, min(high, rows)), vectors, cell, str, lambda c: str(c * unit)),)
