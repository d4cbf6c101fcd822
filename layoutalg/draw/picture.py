"""Pictures as data: panels of labelled, coloured cells, and the pictures of layouts themselves.

The idea.  What to show is decided once, here; how it looks is decided by `draw.text` and `draw.svg`, which
render any Picture.  A cell has a text and a hue.  Hues count 0..31, one per shared-memory bank: four shades
of eight colours, so that the 16-byte chunks of a 128-byte line stand out.

    layout_picture(Layout((4, 8), (8, 1)))     rows are mode 0, columns mode 1, panels the other modes
    swizzle_picture(swizzled)                  the same grid before and after its swizzle
    linear_picture(linear)                     a linear map over F2 as the matrix of its bits
    tv_picture(tv, (16, 8))                    which thread holds which cell of the tile, in which value

Notes.  A nested mode is flattened as CuTe flattens it, leftmost digit fastest.  Offsets count elements; with
an element type given the hue is the bank of the element's first byte, without one it is the offset mod 8,
counted in the units that a swizzle keeps whole.

Comparison with CuTe.  print_layout and print_latex draw the first picture, and print_latex of a TV layout the
third; the swizzled pair and the access pictures (`draw.access`, `draw.tile`) have no counterpart.

A drawing that is more than a grid: its shapes for SVG, PNG and PDF, and a grid that says the same as text.

>>> from layoutalg.draw.scene import Scene
>>> Diagram(Scene("wires", 10, 10, ()), Picture("wires", ())).title
'wires'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Literal, TypeAlias, TypeVar

from layoutalg.analysis import swizzle_notes
from layoutalg.draw.scene import Scene, clean
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, check_type
from layoutalg.f2 import LinearLayout
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzle,
    Swizzles,
    check_integers,
    flatten_tree,
    has_bases,
    has_symbols,
    idx2crd,
    product,
    to_text,
)
from layoutalg.limits import Most
from layoutalg.notebook import Shown

R = TypeVar("R")
C = TypeVar("C")

MAX_PANELS = 16
"""Most panels that the modes of a layout past its second are drawn in."""

HUES = 32
"""Number of hues: one for each bank."""

Legend: TypeAlias = tuple[tuple[int | None, str], ...]
"""The meaning of hues, in the order in which they are shown."""

BANK_LEGEND: Legend = tuple((hue, f"banks {hue}-{hue + 3}") for hue in range(0, HUES, 4))
"""The colours of the eight runs of four banks."""

EIGHTS_LEGEND: Legend = tuple((hue, str(hue // 4)) for hue in range(0, HUES, 4))
"""The colours of numbers mod 8."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its text, its hue in 0..31 or None for no colour, and whether a frame marks it in an SVG."""

    text: str = ""
    hue: int | None = None
    marked: bool = False


EMPTY = Cell()


@dataclass(frozen=True, slots=True)
class Panel:
    """A grid: a title, a label for each row and column, and `cells[row][column]`."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


EMPTY_PANEL = Panel("", (), (), ())
"""A panel that stays empty."""


@dataclass(frozen=True, slots=True)
class Picture(Shown):
    """Panels under one title; `notes` are sentences that say how to read it.

    `across` panels stand side by side; 0 stands for as many as fit a page.  In panels that are `lined_up`
    cells are of one width, so that rows and columns continue from one to the next; one without cells keeps
    its place free.  `legend` names what some hues stand for.
    """

    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    across: int = 0
    lined_up: bool = False
    legend: Legend = ()

    def __repr__(self) -> str:
        sizes = ", ".join([f"{len(panel.rows)} x {len(panel.columns)}" for panel in self.panels])
        return f"<Picture {clean(self.title)!r}: {sizes or 'no panels'}>"


@dataclass(frozen=True, slots=True)
class View:
    """The part of a grid that is drawn, and what its cells say: their `offset`, flat `index` or `bank`.

    `rows` and `columns` are ranges of step 1, cut to the grid; None stands for all.  With either of them,
    modes past the second are columns, in place of panels.
    """

    rows: range | None = None
    columns: range | None = None
    says: Literal["offset", "index", "bank"] = "offset"


def layout_picture(layout: AnyLayout, *, element: DType | None = None, view: View | None = None) -> Picture:
    """The grid of a layout: rows are mode 0, columns mode 1, each cell holds its offset, or its coordinate
    where strides move along modes.

    Further modes are panels, up to MAX_PANELS of them; where there would be more they are columns.  Of a
    large layout a `view` draws a part, and a note says so; another note tells of offsets that several cells
    share.  Raises ResourceError past Most.CELLS, ShapeError for a view that holds none,
    UnsupportedError for extents that are symbols.

    >>> picture = layout_picture(Layout((2, 3), (3, 1)))
    >>> [[cell.text for cell in row] for row in picture.panels[0].cells]
    [['0', '1', '2'], ['3', '4', '5']]
    """
    check_type("layout_picture", layout, (Layout, ComposedLayout), "a layout")
    titles = {"offset": "offsets", "index": "indices", "bank": "banks" if element else "colours"}
    seen = view or View()
    title = "coordinates" if _has_bases(layout) else titles[seen.says]
    return _offsets(layout, [(title, layout)], element, seen)


def swizzle_picture(
    layout: AnyLayout | Swizzle | Swizzles, *, element: DType | None = None, view: View | None = None
) -> Picture:
    """A swizzled layout before and after its swizzle, side by side; a swizzle alone on the units it moves.

    `view` is as in `layout_picture`.  Raises ArgumentTypeError for a layout without a swizzle, ResourceError
    past Most.CELLS, UnsupportedError for extents that are symbols.

    >>> from layoutalg.layout import Swizzle
    >>> picture = swizzle_picture(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1))))
    >>> [[[cell.text for cell in row] for row in panel.cells] for panel in picture.panels]
    [[['0', '1'], ['2', '3']], [['0', '1'], ['3', '2']]]
    """
    if isinstance(layout, (Swizzle, Swizzles)):
        return _swizzle_alone(layout)
    if not isinstance(layout, ComposedLayout) or isinstance(layout.outer, Layout):
        raise ArgumentTypeError(
            f"{layout} has no swizzle, so there is no before and after; draw it as a layout, or give "
            f"one such as Sw<3,4,3> o 0 o (8,64):(64,1)"
        )
    return _offsets(layout, before_and_after(layout), element, view or View())


def _offsets(
    layout: AnyLayout, stages: Sequence[tuple[str, AnyLayout]], element: DType | None, view: View
) -> Picture:
    """The picture of a layout by titled stages, of which it is the last."""
    rows, columns = extents(layout.shape)
    down, across = _cut(view.rows, rows, "rows"), _cut(view.columns, columns, "columns")
    check_cells(len(down) * len(across))
    unit = unit_of(layout)

    def cell(stage: AnyLayout, row: int, column: int) -> Cell:
        index = row + rows * column
        offset = stage(index)
        if not isinstance(offset, int):
            return Cell(to_text(offset))
        hue = shade(offset // unit) if element is None else bank_of(offset, element)
        says = {"offset": offset, "index": index, "bank": hue if element is not None else hue // 4}
        return Cell(str(says[view.says]), hue)

    whole = [grid(title, down, across, partial(cell, stage)) for title, stage in stages]
    outer = layout.shape[2:] if isinstance(layout.shape, tuple) else ()
    several = 1 < product(outer) <= MAX_PANELS and view.rows is None and view.columns is None
    panels = [part for panel in whole for part in (_by_mode(panel, outer) if several else [panel])]
    reading, legend = _reading(layout, element)
    notes = (*reading, *_seen_notes(view, element, down, across, (rows, columns)))
    if view.says == "offset":
        notes += _shared_offsets(whole[-1])
    return Picture(str(layout), tuple(panels), notes, legend=legend)


def _by_mode(panel: Panel, outer: tuple[IntTuple, ...]) -> Iterator[Panel]:
    """A panel for each coordinate of the modes past the second, which are its columns."""
    step = len(panel.columns) // product(outer)
    for n in range(product(outer)):
        at = ",".join(map(to_text, idx2crd(n, outer)))
        cells = tuple(row[n * step : (n + 1) * step] for row in panel.cells)
        yield Panel(f"{panel.title} at (_,_,{at})", panel.rows, panel.columns[:step], cells)


def _reading(layout: AnyLayout, element: DType | None) -> tuple[tuple[str, ...], Legend]:
    """Notes on how to read the grid, and the meaning of its colours."""
    axes, unit = _axes(layout.shape), unit_of(layout)
    if _has_bases(layout):
        return (f"{axes}; cells are coordinates",), ()
    if any(has_symbols(part) for part in _parts(layout)):
        return (f"{axes}; cells are offsets",), ()
    if element is None:
        hue, legend = f"the colour is the offset{f' / {unit}' if unit > 1 else ''} mod 8", EIGHTS_LEGEND
    else:
        legend = BANK_LEGEND
        hue = (
            f"the colour is the bank of an {element} element, one hue per 16-byte chunk and one shade per "
            f"bank, which dots count in files"
        )
    return (f"{axes}; {hue}", *swizzle_notes(layout)), legend


def before_and_after(
    layout: AnyLayout, swizzle: Swizzle | Swizzles | Layout | None = None
) -> list[tuple[str, AnyLayout]]:
    """A layout without its swizzles and with them, under titles that name `swizzle`, by default its own."""
    name = layout.outer if swizzle is None and isinstance(layout, ComposedLayout) else swizzle
    return [(f"before {name}", unswizzled(layout)), (f"after {name}", layout)]


def unswizzled(layout: AnyLayout) -> AnyLayout:
    """The layout without its swizzles."""
    if isinstance(layout, ComposedLayout) and layout.swizzles:
        return ComposedLayout(Swizzles(), layout.offset, layout.inner)
    return layout


def tv_picture(tv: AnyLayout, tile: IntTuple, thr_layout: Layout | None = None) -> Picture:
    """Draw the thread and the value that hold each cell of a tile: `T3 V1` at the cell tv(3, 1).

    `tv` maps (thread, value) to the flat, column-major index of a tile of shape `tile` (M, N), and
    `thr_layout` a thread to the number it is shown with.  Cells held
    several times show the first holder and a `+`; cells held by none stay empty.  Raises ShapeError when
    `tv` has no two modes or reaches outside the tile, ResourceError past Most.CELLS.

    >>> picture = tv_picture(Layout((2, 2), (1, 2)), (2, 2))
    >>> [[cell.text for cell in row] for row in picture.panels[0].cells]
    [['T0V0', 'T0V1'], ['T1V0', 'T1V1']]
    """
    check_integers("a thread-value picture", tv)
    rows, columns = extents(Layout(tile).shape)
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
    title = "thread and value of each cell"
    panel = grid(title, range(rows), range(columns), lambda r, c: _holder(holders[r + rows * c]))
    notes = [f"rows and columns are those of the tile {to_text(tile)}; the colour is the thread mod {HUES}"]
    if any(len(held) > 1 for held in holders):
        notes.append("+ marks a cell that several threads or values hold; the first is shown")
    return Picture(str(tv), (panel,), tuple(notes))


def linear_picture(linear: LinearLayout) -> Picture:
    """A linear map over F2 as a matrix: a column per bit that goes in, a row per bit that comes out.

    A 1 says that this bit of the output is flipped by that bit of the input; the colour is the input's
    dimension.  Raises ResourceError past Most.CELLS.

    >>> picture = linear_picture(LinearLayout({"lane": [1, 2], "register": [3]}, {"offset": 4}))
    >>> picture.panels[0].columns, [[cell.text for cell in row] for row in picture.panels[0].cells]
    (('lane 1', 'lane 2', 'register 1'), [['1', '.', '1'], ['.', '1', '1']])
    """
    columns = [(d, f"{name} {1 << j}", basis) for d, (name, bases) in enumerate(linear.ins)
               for j, basis in enumerate(bases)]  # fmt: skip
    rows = [(k, f"{name} {1 << j}", j) for k, (name, extent) in enumerate(linear.outs)
            for j in range(extent.bit_length() - 1)]  # fmt: skip
    check_cells(len(rows) * len(columns))

    def cell(row: tuple[int, str, int], column: tuple[int, str, Sequence[int]]) -> Cell:
        (k, _, j), (d, _, basis) = row, column
        return Cell("1", shade(d)) if basis[k] >> j & 1 else Cell(".")

    panel = grid("matrix over F2", rows, columns, cell, itemgetter(1), itemgetter(1))
    ins = ", ".join([f"{name} ({1 << len(bases)})" for name, bases in linear.ins])
    outs = ", ".join([f"{name} ({extent})" for name, extent in linear.outs])
    return Picture(
        f"{ins} -> {outs}",
        (panel,),
        ("a column per input bit, a row per output bit; an output bit is the XOR of the inputs with a 1",),
        legend=tuple((shade(d), name) for d, (name, _) in enumerate(linear.ins)),
    )


def bank_of(offset: int, element: DType) -> int:
    """The bank of the first byte of the element at `offset`.

    >>> from layoutalg.dtype import dtype
    >>> bank_of(66, dtype("f16"))
    1
    """
    return offset * element.bits // 32 % HUES


def grid(
    title: str,
    rows: Iterable[R],
    columns: Sequence[C],
    cell: Callable[[R, C], Cell],
    row_name: Callable[[R], str] = str,
    column_name: Callable[[C], str] = str,
) -> Panel:
    """A panel with a cell for each of these rows and columns, and a name for each.

    >>> grid("sums", range(2), (10, 20), lambda r, c: Cell(str(r + c))).cells[1][1].text
    '21'
    """
    lines = [(row_name(row), tuple(cell(row, column) for column in columns)) for row in rows]
    names, cells = tuple(name for name, _ in lines), tuple(line for _, line in lines)
    return Panel(title, names, tuple(map(column_name, columns)), cells)


def check_cells(cells: int) -> None:
    """Refuse a picture of more cells than Most.CELLS with a ResourceError.

    >>> check_cells(1 << 20)
    Traceback (most recent call last):
    layoutalg.errors.ResourceError: cells of the picture: 1048576 asked, the limit is 20000; draw a tile of it
    """
    Most.CELLS.guard(cells, "cells of the picture")


def fold(panel: Panel, fit: int) -> list[Panel]:
    """The panel, or where it has more than `fit` columns, blocks of them of about one size.

    >>> [len(part.columns) for part in fold(layout_picture(Layout((1, 64))).panels[0], 30)]
    [24, 24, 16]
    """
    columns = len(panel.columns)
    if columns <= fit:
        return [panel]
    even = -(-columns // -(-columns // fit))
    step = min(fit, -(-even // 8) * 8)  # in multiples of 8 where possible
    parts = []
    for start in range(0, columns, step):
        chosen = slice(start, min(start + step, columns))
        title = f"{panel.title}, columns {start} to {chosen.stop - 1}"
        cells = tuple(row[chosen] for row in panel.cells)
        parts.append(Panel(title, panel.rows, panel.columns[chosen], cells))
    return parts


def _swizzle_alone(swizzle: Swizzle | Swizzles) -> Picture:
    """The offsets below its period, as rows of units that it keeps whole."""
    factors = [f for f in (swizzle if isinstance(swizzle, Swizzles) else (swizzle,)) if f.bits]
    unit = min((f.base for f in factors), default=0)
    bits = max((f.base + f.bits + abs(f.shift) for f in factors), default=0) - unit
    width = max((abs(f.shift) for f in factors), default=0)
    if bits > Most.CELLS.number.bit_length():
        check_cells(1 << bits)
    moved = Swizzles(*(Swizzle(f.bits, f.base - unit, f.shift) for f in factors))
    units = ComposedLayout(moved, 0, Layout((1 << bits - width, 1 << width), (1 << width, 1)))
    before, after = swizzle_picture(units).panels
    note = f"a cell is a unit of {_elements(1 << unit)}, its number the place in memory where it is put"
    return Picture(
        str(swizzle),
        (replace(before, title="units before"), replace(after, title="units after")),
        (
            f"{note}; the colour is that number mod 8",
            *(note for factor in factors for note in swizzle_notes(factor)),
        ),
        legend=EIGHTS_LEGEND,
    )


def _cut(wanted: range | None, extent: int, what: str) -> range:
    """The part of an extent that a view shows."""
    if wanted is None:
        return range(extent)
    if wanted.step != 1 or not 0 <= wanted.start < min(wanted.stop, extent):
        raise ShapeError(
            f"{what} {wanted.start}:{wanted.stop} of a picture: a part of the {extent} {what}, 0:{extent}, "
            f"is needed"
        )
    return range(wanted.start, min(wanted.stop, extent))


def _seen_notes(
    view: View, element: DType | None, down: range, across: range, sides: tuple[int, int]
) -> tuple[str, ...]:
    """Notes on what a view leaves out, and on what the cells say where it is not the offset."""
    notes = []
    if (len(down), len(across)) != sides:
        notes.append(
            f"drawn are rows {down.start} to {down.stop - 1} of {sides[0]} and columns {across.start} to "
            f"{across.stop - 1} of {sides[1]}"
        )
    if view.says == "index":
        notes.append("a cell says its flat index, mode 0 fastest")
    elif view.says == "bank":
        notes.append("a cell says its bank" if element is not None else "a cell says its colour's number")
    return tuple(notes)


def _shared_offsets(panel: Panel) -> tuple[str, ...]:
    """A note when several of the cells that are drawn have one offset."""
    counts = Counter(cell.text for row in panel.cells for cell in row)
    text, most = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if most < 2:
        return ()
    return (
        f"not injective: {most} cells share the offset {text}"
        + (", others too" if sum(n > 1 for n in counts.values()) > 1 else ""),
    )


def _holder(held: list[tuple[int, int]]) -> Cell:
    """The cell of a tile that these (thread, value) pairs hold, in ascending order."""
    if not held:
        return EMPTY
    thread, value = held[0]
    return Cell(f"T{thread}V{value}{'+' if len(held) > 1 else ''}", thread % HUES)


def _axes(shape: IntTuple) -> str:
    """State which modes the rows and columns are."""
    if not isinstance(shape, tuple) or len(shape) < 2:
        return "the row is the whole layout"
    panels = 1 < product(shape[2:]) <= MAX_PANELS
    rest = shape[1] if len(shape) == 2 or panels else shape[1:]
    return f"rows run through mode 0, {to_text(shape[0])}, columns through {to_text(rest)}"


def extents(shape: IntTuple) -> tuple[int, int]:
    """Rows and columns of the grid of a shape: rank 1 is one row, modes past the first are columns."""
    if any(type(extent) is not int for extent in flatten_tree(shape)):
        raise UnsupportedError(f"a picture of the shape {to_text(shape)}: extents have to be numbers")
    if not isinstance(shape, tuple) or len(shape) < 2:
        return 1, product(shape)
    return product(shape[0]), product(shape[1:])


def sides(what: str, layout: AnyLayout) -> tuple[int, int]:
    """Rows and columns of a layout of two modes; raises ShapeError for another number of modes."""
    if not isinstance(layout.shape, tuple) or len(layout.shape) != 2:
        raise ShapeError(f"{what} {layout}: rows and columns are needed, two modes")
    return extents(layout.shape)


def _parts(layout: AnyLayout) -> list[Layout]:
    """The layouts without swizzles that a layout is made of, the outermost first."""
    if isinstance(layout, Layout):
        return [layout]
    return [*([layout.outer] if isinstance(layout.outer, Layout) else []), *_parts(layout.inner)]


def _has_bases(layout: AnyLayout) -> bool:
    """Whether its cells are coordinates."""
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    return isinstance(outer, Layout) and has_bases(outer)


def unit_of(layout: AnyLayout) -> int:
    """The number of elements that a layout's swizzles keep together; 1 without swizzles."""
    swizzles = layout.swizzles if isinstance(layout, ComposedLayout) else ()
    return 1 << min((swizzle.base for swizzle in swizzles if swizzle.bits), default=0)


def _elements(count: int) -> str:
    return f"{count} element{'' if count == 1 else 's'}"


def shade(number: int) -> int:
    """The hue of a number where no bank is meant: eight colours, each in its first shade."""
    return number % 8 * 4


@dataclass(frozen=True, slots=True)
class Diagram:
    """`scene` is drawn, `picture` printed; both say the same."""

    scene: Scene
    picture: Picture

    @property
    def title(self) -> str:
        """The title of both."""
        return self.scene.title
