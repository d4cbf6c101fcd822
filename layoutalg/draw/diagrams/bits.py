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
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.draw.diagrams.diagram import Diagram
from layoutalg.draw.palette import LINE_COLORS, PALETTE, hex_color
from layoutalg.draw.picture import Cell, Panel, Picture, check_cells
from layoutalg.draw.scene import Box, Dot, Line, Scene, Shape, Words, text_width
from layoutalg.draw.svg import GRAY, MARGIN, note_lines
from layoutalg.dtype import DType, dtype
from layoutalg.errors import NotLinearError, UnsupportedError, check_type
from layoutalg.f2 import to_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzles, product

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
    plain = columns
    if isinstance(layout, ComposedLayout) and layout.swizzles:
        plain = to_f2(ComposedLayout(Swizzles(), layout.offset, layout.inner))
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
