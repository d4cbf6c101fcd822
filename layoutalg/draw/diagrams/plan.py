"""A tile by 16 bytes: which chunk of a line each lies in, and which thread copies it, in which instruction.

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

from layoutalg.algebra import upcast
from layoutalg.analysis import Access, vector_elems
from layoutalg.arch import CHUNK_BYTES, Arch, find_arch, find_instruction
from layoutalg.draw.picture import BANK_LEGEND, HUES, Cell, Panel, Picture, View, check_cells, layout_picture
from layoutalg.dtype import DType, dtype
from layoutalg.errors import LayoutAlgError, ShapeError, check_type
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzles, modes, product
from layoutalg.limits import Most

_CHUNKS = 8


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
    if isinstance(wide, ComposedLayout) and wide.swizzles and not isinstance(wide.outer, Layout):
        plain = ComposedLayout(Swizzles(), wide.offset, wide.inner)
        swizzle = layout.outer if isinstance(layout, ComposedLayout) else wide.outer
        stages = [(f"before {swizzle}", plain), (f"after {swizzle}", wide)]
    panels = []
    notes: tuple[str, ...] = ()
    for name, stage in stages:
        drawn = layout_picture(stage, view=View(seen.rows, seen.columns, "bank"))
        panels += [Panel(name, p.rows, p.columns, p.cells) for p in drawn.panels]
        notes = tuple(note for note in drawn.notes if note.startswith("drawn are"))
    how = f"a cell is 16 bytes, {length} {what}; its digit says which of the eight chunks of a 128-byte line"
    return Picture(f"{layout}, {what} by 16 bytes", tuple(panels), (how, *notes), legend=BANK_LEGEND)


def plan_picture(layout: AnyLayout, access: Access, arch: str | Arch = "sm_90") -> Picture:
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
    several = turns * values > elems

    def cell(row: int, column: int) -> Cell:
        held = taken.get((row, column), [])
        if not held:
            return Cell()
        thread, number = held[0]
        text = f"T{thread}{f'.{number}' if several else ''}{'+' if len(set(held)) > 1 else ''}"
        return Cell(text, thread % HUES)

    heights, widths = range(0, rows, down), range(0, columns, across)
    cells = tuple(tuple(cell(row, column) for column in widths) for row in heights)
    panel = Panel(f"who takes which {down} x {across} elements", _names(heights), _names(widths), cells)
    notes = [f"T is the thread, the colour is the lane mod {HUES}"]
    if several:
        notes.append(
            f"the number after the point counts the {turns * values // elems} instructions of a thread"
        )
    missing = sum(not c.text for row in cells for c in row)
    if missing:
        notes.append(f"{missing} of {len(heights) * len(widths)} vectors are not taken")
    return Picture(f"{access.op} on {layout}, {access.element}", (panel,), tuple(notes))


def _direction(
    taken: dict[tuple[int, int], list[tuple[int, int]]], elems: int, rows: int, columns: int
) -> tuple[int, int]:
    """Rows and columns of a vector: along a row or a column where each is taken whole, else an element."""
    if columns % elems == 0 and all(held == taken.get((r, c - c % elems)) for (r, c), held in taken.items()):
        return 1, elems
    if rows % elems == 0 and all(held == taken.get((r - r % elems, c)) for (r, c), held in taken.items()):
        return elems, 1
    check_cells(rows * columns)
    return 1, 1


def _names(starts: range) -> tuple[str, ...]:
    return tuple(str(n) if starts.step == 1 else f"{n}-{n + starts.step - 1}" for n in starts)
