"""An access on a tile: where one of its instructions reaches into the tile, and how it is served.

The idea.  Where vectors that lanes take together have one colour, they wait for one bank.  A swizzle
permutes the colours within each row of the tile; a swizzled layout is drawn before and after it.

>>> from layoutalg.layout import Layout
>>> tile = Layout((32, 32), (32, 1))
>>> picture = layout_access_picture(tile, Access.of("ld.shared.b32@col", tile, "f32"))
>>> [(len(panel.rows), len(panel.columns)) for panel in picture.panels]
[(32, 32), (32, 32)]

A tile by 16 bytes: which chunk of a line each lies in, and which thread copies it, in which instruction.

The idea.  What shared memory moves at best is 16 bytes, four banks of thirty-two; a line of all banks is
eight such chunks.  A tile then is a grid of digits, 0 to 7, and a column of equal digits is a conflict:

    Layout((8, 64), (64, 1)) of f16        Sw<3,3,3> on it
    0 1 2 3 4 5 6 7                        0 1 2 3 4 5 6 7
    0 1 2 3 4 5 6 7                        1 0 3 2 5 4 7 6
    ...                                    ...

A copy plan is the same grid with threads in it: T35.1 is thread 35 in its second instruction.

>>> from layoutalg.layout import Layout, Swizzle
>>> [[c.text for c in row] for row in chunk_picture(Layout((2, 32), (32, 1)), "f16").panels[0].cells]
[['0', '1', '2', '3'], ['4', '5', '6', '7']]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product as combinations
from typing import Literal, TypeAlias

from layoutalg.algebra import upcast
from layoutalg.analysis import Access, Place, SharedReport, analyze_access, instruction_offsets, vector_elems
from layoutalg.arch import CHUNK_BYTES, DEFAULT_ARCH, Arch, find_arch, find_instruction
from layoutalg.draw.access import access_picture, conflict_note, counted
from layoutalg.draw.picture import (
    BANK_LEGEND,
    EMPTY,
    HUES,
    Cell,
    Panel,
    Picture,
    View,
    before_and_after,
    check_cells,
    grid,
    layout_picture,
    sides,
    unswizzled,
)
from layoutalg.dtype import DType, dtype
from layoutalg.errors import LayoutAlgError, ShapeError, check_type
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, modes, product
from layoutalg.limits import Most

MAX_TILE_CELLS = 64 * 64
"""Beside an access, the part of the tile it touches is drawn up to this many cells."""

CHUNKS = 8
"""Runs of 16 bytes in a line of all banks."""

MAX_WHOLE = 32
"""The most vectors of a side of a tile that are all drawn."""

Crd: TypeAlias = tuple[int, int]
"""Row and column of an element of a tile."""


def layout_access_picture(
    layout: AnyLayout,
    access: Access,
    arch: str | Arch = DEFAULT_ARCH,
    *,
    place: Place | None = None,
    says: Literal["lane", "offset"] = "lane",
) -> Picture:
    """The worst instruction of an access on a layout: where it reaches into the tile, and how it is served.

    On a swizzled layout it is shown without the swizzle and with it, and is the worst one without it.  For
    global memory the first instruction is drawn; `place` draws another one.  Cells of the tile say the lane
    that takes them, or their offset in elements.  Of a tile that is large the part that is touched is drawn,
    up to MAX_TILE_CELLS cells.  Raises as `layoutalg.analysis.analyze` does, and ShapeError for a place that
    the access does not have.

    >>> from layoutalg.layout import Layout, Swizzle
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> picture = layout_access_picture(tile, Access.of("ldmatrix.x1", tile, "f16"))
    >>> [(panel.title, len(panel.rows)) for panel in picture.panels[2:]]
    [('before Sw<3,3,3>: 8 wavefronts by bank', 8), ('after Sw<3,3,3>: 1 wavefront by bank', 1)]
    """
    machine = find_arch(arch)
    report = worst = analyze_access(layout, access, machine)
    stages: list[tuple[str, AnyLayout]] = [("", layout)]
    if (plain := unswizzled(layout)) is not layout and isinstance(report, SharedReport):
        with suppress(LayoutAlgError):  # without the swizzle it may not be an access at all
            worst = analyze_access(plain, access, machine)
            stages = before_and_after(layout)
    elems = vector_elems(find_instruction(access.op, machine), access.element)
    chosen, place = place, Place(0, 0, 0)
    if chosen is not None:
        place = _checked(chosen, access, elems, machine)
    elif isinstance(worst, SharedReport) and worst.witness is not None:
        place = Place(worst.witness.warp, worst.witness.value // elems, worst.witness.iteration)
    tiles: list[Panel] = []
    served: list[Picture] = []
    costs: list[str] = []
    for name, stage in stages:
        offsets = instruction_offsets(stage, access, place, machine)
        served.append(access_picture(access.op, offsets, machine))
        if name and isinstance(report, SharedReport):
            costs.append(f"{name}: {conflict_note(access.op, offsets, machine)}")
        lanes = _touched(stage, access, place, elems, offsets)
        if not isinstance(report, SharedReport):
            tiles += _sectors(stage, access, lanes)
        else:
            tiles += _banks(
                f"{name and name + ': '}the tile by bank", stage, access, machine, elems, lanes, says
            )
    notes = [note for note in served[-1].notes if not costs or note not in costs[-1]]
    panels = [panel for picture in served for panel in picture.panels]
    if len(stages) > 1:
        rows = [counted(len(panel.rows), "wavefront") for panel in panels]
        panels = [
            replace(panel, title=f"{name}: {count} by bank")
            for panel, (name, _), count in zip(panels, stages, rows, strict=True)
        ]
        notes[0] = f"{rows[0]}, {rows[1]} after the swizzle: a row each, a cell is the lane its bank serves"
        notes[1:1] = costs
    if tiles and isinstance(report, SharedReport):
        notes.append(
            "in the tile the colour is the bank of a cell's first byte, the number "
            + ("the lane that takes it" if says == "lane" else "its offset where a lane takes it")
        )
    where = ", ".join([f"{name} {n}" for name, n in zip(place._fields, place, strict=True)])
    return Picture(
        f"{access.op} on {layout}, {access.element}, {machine.name}{': ' + where if any(place) else ''}",
        (*tiles, *panels),
        tuple(dict.fromkeys([*notes, *report.notes])),
        across=2 if len(stages) > 1 else 0,
        legend=served[-1].legend,
    )


def tile_panel(title: str, touched: Mapping[tuple[int, int], tuple[int, int]]) -> Panel:
    """The part of a tile that an access touches: (lane, bank) by (row, column).

    Rows and columns run from the first to the last that is touched.  Raises ResourceError past Most.CELLS.

    >>> panel = tile_panel("tile", {(1, 2): (0, 0), (2, 2): (1, 8)})
    >>> panel.rows, panel.columns, panel.cells[1][0].text
    (('1', '2'), ('2',), '1')
    """
    rows = range(min(r for r, _ in touched), max(r for r, _ in touched) + 1)
    columns = range(min(c for _, c in touched), max(c for _, c in touched) + 1)
    check_cells(len(rows) * len(columns))

    def cell(row: int, column: int) -> Cell:
        crd = row, column
        return Cell(str(touched[crd][0]), touched[crd][1] % HUES) if crd in touched else EMPTY

    return grid(title, rows, columns, cell)


def _checked(place: Place, access: Access, elems: int, machine: Arch) -> Place:
    """A place that the access has."""
    threads, values, *iterations = (product(mode.shape) for mode in modes(access.tv))
    most = Place(-(-threads // machine.lanes), values // elems, iterations[0] if iterations else 1)
    for name, number, count in zip(Place._fields, place, most, strict=True):
        if not 0 <= number < count:
            raise ShapeError(f"{name} {number} of {access.op}: there are {count}, counted from 0")
    return place


def _touched(
    layout: AnyLayout, access: Access, place: Place, elems: int, offsets: Sequence[int | None]
) -> dict[Crd, int]:
    """The first lane that takes each element of the tile, by (row, column)."""
    rows = _rows(layout)
    lanes: dict[Crd, int] = {}
    for lane, address in enumerate(offsets):
        for n in range(elems if address is not None else 0):
            crd = (place.warp * len(offsets) + lane, place.register * elems + n, place.iteration)
            index = access.tv(*crd[: len(modes(access.tv))])
            lanes.setdefault((index % rows, index // rows), lane)
    return lanes


def _sectors(layout: AnyLayout, access: Access, lanes: dict[Crd, int]) -> list[Panel]:
    """The part of a tile of global memory that is touched."""
    if not _fits(lanes):
        return []
    rows, bits = _rows(layout), access.element.bits
    words = {(r, c): (access.base_bytes + layout(r + rows * c) * bits // 8) // 4 for r, c in lanes}
    return [tile_panel("the lane of each element it touches", {at: (lanes[at], words[at]) for at in lanes})]


def _banks(
    title: str, layout: AnyLayout, access: Access, machine: Arch, elems: int, lanes: dict[Crd, int], says: str
) -> list[Panel]:
    """A tile of shared memory in vectors, each in the colour of its bank, with the lanes that take some."""
    rows = _rows(layout)
    columns = product(layout.shape) // rows
    down, across = _direction(lanes, elems, rows, columns)
    heights = _window(range(0, rows, down), {r for r, _ in lanes})
    widths = _window(range(0, columns, across), {c for _, c in lanes})
    if len(heights) * len(widths) > MAX_TILE_CELLS:
        return []

    def cell(row: int, column: int) -> Cell:
        byte = access.base_bytes + layout(row + rows * column) * access.element.bits // 8
        bank = byte // machine.bank_bytes % machine.banks
        lane = lanes.get((row, column))
        text = "" if lane is None else str(lane if says == "lane" else layout(row + rows * column))
        return Cell(text, bank * HUES // machine.banks, marked=lane is not None)

    return [grid(title, heights, widths, cell, _namer(heights), _namer(widths))]


def memory_picture(layout: AnyLayout, element: str | DType) -> Picture:
    """A tile in the order of memory: a line of all banks per row, by the first element of each 16 bytes.

    The colour is the core matrix, 8 rows by 16 bytes of the tile, so that a line of one colour conflicts
    where a core matrix is read, and one of eight colours does not.  `.` marks 16 bytes that hold nothing.
    Raises ShapeError for a layout that has not two modes, ResourceError for more cells than a picture has.

    >>> from layoutalg.layout import Layout, Swizzle
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> [cell.text for cell in memory_picture(tile, "f16").panels[0].cells[1]]
    ['1,8', '1,0', '1,24', '1,16', '1,40', '1,32', '1,56', '1,48']
    """
    what = dtype(element)
    rows, columns = sides("memory_picture of", layout)
    check_cells(rows * columns)
    first: dict[int, tuple[int, Crd]] = {}
    for row, column in combinations(range(rows), range(columns)):
        offset = layout(row, column)
        at = offset * what.bits // (8 * CHUNK_BYTES)
        first[at] = min(first.get(at, (offset, (row, column))), (offset, (row, column)))
    wide = max(1, 8 * CHUNK_BYTES // what.bits)
    matrices = -(-columns // wide)

    def cell(line: int, chunk: int) -> Cell:
        at = line * CHUNKS + chunk
        if at not in first:
            return Cell(".")
        row, column = first[at][1]
        matrix = row // 8 * matrices + column // wide
        return Cell(f"{row},{column}", matrix % 8 * 4 + matrix // 8 % 4)  # neighbours differ in colour

    lines, chunks = range(max(first) // CHUNKS + 1), range(CHUNKS)
    line_bytes = CHUNKS * CHUNK_BYTES
    panel = grid(
        "memory, columns are banks", lines, chunks, cell,
        lambda line: str(line_bytes * line), lambda chunk: f"{4 * chunk}-{4 * chunk + 3}",
    )  # fmt: skip
    note = "rows are lines of 128 bytes, by their address; a cell is the row,column of its first element"
    return Picture(str(layout), (panel,), (note, f"the colour is the core matrix mod {HUES}"))


def _window(starts: range, touched: set[int]) -> range:
    """The vectors of a side that are drawn: all, or of many those between touched ones, in eights."""
    if len(starts) <= MAX_WHOLE:
        return starts
    step = 8 * starts.step
    first, last = (n // step * 8 for n in (min(touched, default=0), max(touched, default=0)))
    return starts[first : last + 8]


def _namer(starts: range) -> Callable[[int], str]:
    """The rows or columns of the vector that starts at one of them."""
    return str if starts.step == 1 else lambda n: f"{n}-{n + starts.step - 1}"


def _rows(layout: AnyLayout) -> int:
    return product(layout.shape[0]) if isinstance(layout.shape, tuple) and len(layout.shape) > 1 else 1


def _fits(lanes: dict[Crd, int]) -> bool:
    """Whether the part of the tile that is touched is there, and small enough to be read."""
    rows, columns = {r for r, _ in lanes}, {c for _, c in lanes}
    return bool(lanes) and (max(rows) - min(rows) + 1) * (max(columns) - min(columns) + 1) <= MAX_TILE_CELLS


def chunk_picture(layout: AnyLayout, element: str | DType, *, view: View | None = None) -> Picture:
    """A tile with a digit per 16 bytes: which of the eight chunks of a line it lies in.

    A swizzled tile is drawn before and after its swizzle.  `view` counts rows and columns of chunks.  Raises
    ShapeError where 16 bytes are not in one piece of the tile, or begin inside of a chunk, and as
    `layout_picture` does.

    >>> [panel.title for panel in chunk_picture(Layout((64, 6), (6, 1)), "f64").panels]
    ['chunks']
    """
    check_type("chunk_picture", layout, (Layout, ComposedLayout), "a layout")
    what = dtype(element)
    length = max(1, 8 * CHUNK_BYTES // what.bits)
    try:
        wide = upcast(layout, length)
    except LayoutAlgError as error:
        raise ShapeError(
            f"{layout} by 16 bytes: runs of {length} {what} are not in one piece: {error}"
        ) from error
    seen = view or View()
    stages: list[tuple[str, AnyLayout]] = [("chunks", wide)]
    if unswizzled(wide) is not wide:
        stages = before_and_after(wide, layout.outer if isinstance(layout, ComposedLayout) else None)
    panels = []
    notes: tuple[str, ...] = ()
    for name, stage in stages:
        drawn = layout_picture(stage, view=View(seen.rows, seen.columns, "bank"))
        panels += [Panel(name, p.rows, p.columns, p.cells) for p in drawn.panels]
        notes = tuple(note for note in drawn.notes if note.startswith("drawn are"))
    how = f"a cell is 16 bytes, {length} {what}; its digit says which of the eight chunks of a 128-byte line"
    return Picture(f"{layout}, {what} by 16 bytes", tuple(panels), (how, *notes), legend=BANK_LEGEND)


def plan_picture(layout: AnyLayout, access: Access, arch: str | Arch = DEFAULT_ARCH) -> Picture:
    """Draw which thread takes which vector of a tile, and in which of its instructions: T35.1 in its second.

    Vectors lie along a row or a column, whichever way a thread takes them; elements that no thread takes stay
    empty, and a + marks those that several take.  Raises ResourceError past Most.MOVES or Most.CELLS
    cells, ShapeError for an access that leaves the tile.

    >>> tile = Layout((4, 64), (64, 1))
    >>> picture = plan_picture(tile, Access.of("cp.async.16", tile, "f16"))
    >>> [cell.text for cell in picture.panels[0].cells[1]][:3]
    ['T8', 'T9', 'T10']
    """
    check_type("plan_picture", layout, (Layout, ComposedLayout), "a layout")
    check_type("plan_picture", access, Access, "an access")
    machine = find_arch(arch)
    elems = vector_elems(find_instruction(access.op, machine), access.element)
    shape = layout.shape if isinstance(layout.shape, tuple) else (1, layout.shape)
    rows, columns = product(shape[0]), product(shape[1:])
    threads, values, *iterations = (product(mode.shape) for mode in modes(access.tv))
    turns = iterations[0] if iterations else 1
    Most.MOVES.guard(threads * values * turns, "elements of a copy plan")
    check_cells(rows * columns // elems)
    taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for turn in range(turns):
        for value in range(values):
            for thread in range(threads):
                index = access.tv(*((thread, value, turn) if iterations else (thread, value)))
                if not 0 <= index < rows * columns:
                    raise ShapeError(f"{access.op} takes index {index}, outside of the tile {layout}")
                number = turn * (values // elems) + value // elems
                taken.setdefault((index % rows, index // rows), []).append((thread, number))
    down, across = _direction(taken, elems, rows, columns)
    if down * across < elems:
        check_cells(rows * columns)
    several = turns * values > elems

    def cell(row: int, column: int) -> Cell:
        held = taken.get((row, column), [])
        if not held:
            return Cell()
        thread, number = held[0]
        text = f"T{thread}{f'.{number}' if several else ''}{'+' if len(set(held)) > 1 else ''}"
        return Cell(text, thread % HUES)

    heights, widths = range(0, rows, down), range(0, columns, across)
    title = f"who takes which {down} x {across} elements"
    panel = grid(title, heights, widths, cell, _namer(heights), _namer(widths))
    notes = [f"T is the thread, the colour is the lane mod {HUES}"]
    if several:
        notes.append(
            f"the number after the point counts the {turns * values // elems} instructions of a thread"
        )
    missing = sum(not c.text for row in panel.cells for c in row)
    if missing:
        notes.append(f"{missing} of {len(heights) * len(widths)} vectors are not taken")
    return Picture(f"{access.op} on {layout}, {access.element}", (panel,), tuple(notes))


def _direction(taken: Mapping[Crd, object], elems: int, rows: int, columns: int) -> Crd:
    """Rows and columns of a vector: along a row or a column where each is taken whole, else an element."""
    if columns % elems == 0 and all(held == taken.get((r, c - c % elems)) for (r, c), held in taken.items()):
        return 1, elems
    if rows % elems == 0 and all(held == taken.get((r - r % elems, c)) for (r, c), held in taken.items()):
        return elems, 1
    return 1, 1
