"""Pictures as data: panels of labelled, coloured cells, and the pictures of layouts themselves.

The idea.  What to show is decided once, here; how it looks is decided by `draw.text` and `draw.svg`, which
render any Picture.  A cell has a text and a hue.  Hues count 0..31, one a shared-memory bank: four shades
of eight colours, so that the 16-byte chunks of a 128-byte line stand out.

    layout_picture(Layout((4, 8), (8, 1)))     rows are mode 0, columns the other modes, cells the offsets
    swizzle_picture(swizzled)                  the same grid before and after its swizzle
    tv_picture(tv, (16, 8))                    which thread holds which cell of the tile, in which value

Notes.  A nested mode is flattened as CuTe flattens it, leftmost digit fastest.  Offsets count elements; with
an element type given the hue is the bank of the element's first byte, without one it is the offset mod 8.

Comparison with CuTe.  print_layout and print_latex draw the first picture, and print_latex of a TV layout the
third; the swizzled pair and the access pictures (`draw.access`) have no counterpart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from layoutalg.analysis import swizzle_notes
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    check_integers,
    has_bases,
    product,
    to_text,
)

MAX_CELLS = 128 * 128
"""Most cells a picture may have; larger ones are refused by name."""

HUES = 32
"""Number of hues: one for each bank."""


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, and its hue in 0..31 or None for no colour."""

    text: str = ""
    hue: int | None = None


EMPTY = Cell()


@dataclass(frozen=True, slots=True)
class Panel:
    """One grid: a title, a label for each row and column, and `cells[row][column]`."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels under one title; `notes` are sentences that say how to read it."""

    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()


def layout_picture(layout: AnyLayout, *, element: DType | None = None) -> Picture:
    """The grid of a layout: rows are mode 0, columns the remaining modes, each cell holds its offset, or its
    coordinate where strides move along modes.

    Raises ResourceError past MAX_CELLS cells.

    >>> picture = layout_picture(Layout((2, 3), (3, 1)))
    >>> [[cell.text for cell in row] for row in picture.panels[0].cells]
    [['0', '1', '2'], ['3', '4', '5']]
    """
    return Picture(str(layout), (_grid(layout, "offsets", element),), _reading(layout, element))


def swizzle_picture(layout: AnyLayout, *, element: DType | None = None) -> Picture:
    """A swizzled layout before and after its swizzle, side by side.

    Raises ArgumentTypeError for a layout without a swizzle, ResourceError past MAX_CELLS cells.

    >>> from layoutalg.layout import Swizzle
    >>> picture = swizzle_picture(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1))))
    >>> [[[cell.text for cell in row] for row in panel.cells] for panel in picture.panels]
    [[['0', '1'], ['2', '3']], [['0', '1'], ['3', '2']]]
    """
    if not isinstance(layout, ComposedLayout) or isinstance(layout.outer, Layout):
        raise ArgumentTypeError(
            f"{layout} has no swizzle, so there is no before and after; draw it as a layout, or give "
            f"one such as Sw<3,4,3> o 0 o (8,64):(64,1)"
        )
    before = ComposedLayout(Layout(1, 1), layout.offset, layout.inner)
    return Picture(
        str(layout),
        (_grid(before, f"before {layout.outer}", element), _grid(layout, f"after {layout.outer}", element)),
        _reading(layout, element),
    )


def tv_picture(tv: AnyLayout, tile: IntTuple, thr_layout: Layout | None = None) -> Picture:
    """Which thread and value hold each cell of a tile: `T3 V1` at the cell tv(3, 1).

    `tv` maps (thread, value) to the flat, column-major index of a tile of shape `tile` (M, N), and
    `thr_layout` a thread to the number it is shown with.  Cells held
    several times show the first holder and a `+`; cells held by none stay empty.  Raises ShapeError when
    `tv` has no two modes or reaches outside the tile, ResourceError past MAX_CELLS cells.

    >>> picture = tv_picture(Layout((2, 2), (1, 2)), (2, 2))
    >>> [[cell.text for cell in row] for row in picture.panels[0].cells]
    [['T0V0', 'T0V1'], ['T1V0', 'T1V1']]
    """
    check_integers("a thread-value picture", tv)
    rows, columns = _extents(Layout(tile).shape)
    if not isinstance(tv.shape, tuple) or len(tv.shape) != 2:
        raise ShapeError(f"{tv} does not have two modes; a TV layout has (thread, value), as in (32,2):(2,1)")
    threads, values = product(tv.shape[0]), product(tv.shape[1])
    check_cells(rows * columns)
    check_cells(threads * values)
    holders: list[list[tuple[int, int]]] = [[] for _ in range(rows * columns)]
    for thread in range(threads):
        for value in range(values):
            index = tv(thread, value)
            if not 0 <= index < rows * columns:
                raise ShapeError(
                    f"{tv} sends thread {thread}, value {value} to {index}, outside the "
                    f"{rows * columns} cells of the tile {to_text(tile)}"
                )
            holders[index].append((thread if thr_layout is None else thr_layout(thread), value))
    cells = tuple(
        tuple(_holder(holders[row + rows * column]) for column in range(columns)) for row in range(rows)
    )
    panel = Panel("thread and value of each cell", _numbers(rows), _numbers(columns), cells)
    notes = [f"rows and columns are those of the tile {to_text(tile)}; the colour is the thread mod {HUES}"]
    if any(len(held) > 1 for held in holders):
        notes.append("+ marks a cell that several threads or values hold; the first is shown")
    return Picture(str(tv), (panel,), tuple(notes))


def clean(text: str) -> str:
    r"""`text` with U+FFFD for each control character: XML forbids them, terminals obey them.

    >>> ascii(clean("a\x1b[2Jb"))
    "'a\\ufffd[2Jb'"
    """
    return _CONTROL.sub("\ufffd", text)


def bank_of(offset: int, element: DType) -> int:
    """The bank of the first byte of the element at `offset`.

    >>> from layoutalg.dtype import dtype
    >>> bank_of(66, dtype("f16"))
    1
    """
    return offset * element.bits // 32 % HUES


def check_cells(cells: int) -> None:
    """Refuse a picture of more than MAX_CELLS cells with a ResourceError.

    >>> check_cells(1 << 20)
    Traceback (most recent call last):
    layoutalg.errors.ResourceError: cells of the picture: 1048576 asked, the limit is 16384; draw a tile of it
    """
    if cells > MAX_CELLS:
        raise ResourceError("cells of the picture", cells, MAX_CELLS, hint="draw a tile of it")


def _grid(layout: AnyLayout, title: str, element: DType | None) -> Panel:
    """The offsets of a layout, rows by mode 0."""
    rows, columns = _extents(layout.shape)
    check_cells(rows * columns)

    def cell(index: int) -> Cell:
        offset = layout(index)
        if not isinstance(offset, int):
            return Cell(to_text(offset))
        return Cell(str(offset), _shade(offset) if element is None else bank_of(offset, element))

    cells = tuple(tuple(cell(row + rows * column) for column in range(columns)) for row in range(rows))
    return Panel(title, _numbers(rows), _numbers(columns), cells)


def _holder(held: list[tuple[int, int]]) -> Cell:
    """The cell of a tile that these (thread, value) pairs hold, in ascending order."""
    if not held:
        return EMPTY
    thread, value = held[0]
    return Cell(f"T{thread}V{value}{'+' if len(held) > 1 else ''}", thread % HUES)


def _reading(layout: AnyLayout, element: DType | None) -> tuple[str, ...]:
    """How the grid is to be read."""
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    if isinstance(outer, Layout) and has_bases(outer):
        return (f"{_axes(layout.shape)}; cells are coordinates",)
    hue = (
        "the colour is the offset mod 8"
        if element is None
        else (f"the colour is the bank of an {element} element, one shade a bank, one hue a 16-byte chunk")
    )
    return (f"{_axes(layout.shape)}; {hue}", *swizzle_notes(layout))


def _axes(shape: IntTuple) -> str:
    """Which modes rows and columns are."""
    if not isinstance(shape, tuple) or len(shape) < 2:
        return "the row is the whole layout"
    rest = shape[1] if len(shape) == 2 else shape[1:]
    return f"rows run through mode 0, {to_text(shape[0])}, columns through {to_text(rest)}"


def _extents(shape: IntTuple) -> tuple[int, int]:
    """Rows and columns of the grid of a shape: rank 1 is one row, modes past the first are columns."""
    if not isinstance(shape, tuple) or len(shape) < 2:
        return 1, product(shape)
    return product(shape[0]), product(shape[1:])


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _shade(number: int) -> int:
    """The hue of a number where no bank is meant: eight colours, each in its first shade."""
    return number % 8 * 4
