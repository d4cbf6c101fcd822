"""The thread-value layout of a whole tile, where the user does not state which lane touches which part.

The idea.  Cut the tile into what one lane moves at once, V contiguous elements along its stride-1 mode, and
count through the pieces in some order; thread t takes piece t.  The order is the mapping:

    tile (4,8):(8,1) f32, ld.shared.b64 (V = 2)      thread      0       1       2       3       4
    "row": along the last mode first                 elements  0,0-1   0,2-3   0,4-5   0,6-7   1,0-1
    "col": down the first mode first                           0,0-1   1,0-1   2,0-1   3,0-1   0,2-3
    "default": along the stride-1 mode first, which is "row" for this tile

ldmatrix and stmatrix take 16-byte matrix rows instead: 8 lanes address 8 rows, .x2 16 rows, .x4 16 rows
and two 16-byte columns; the other pieces of the tile are iterations.  For them the mapping says along
which mode the 16-byte rows lie.

Source: PTX ISA, ldmatrix: which eight threads supply the row addresses of which matrix.
"""

from __future__ import annotations

from typing import TypeAlias

from layoutalg.arch import Instruction
from layoutalg.compose import find_normal_form, find_rotation
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, Layout, check_integers, coalesce, leaves, modes

MAPPINGS = ("default", "row", "col")
"""The orders in which lanes may run over a tile."""

WARP = 32
"""Lanes that ldmatrix and stmatrix are executed by."""

Leaf: TypeAlias = "tuple[int, int]"
"""(extent, stride in the flat domain)."""

TileMode: TypeAlias = "list[tuple[int, int, int]]"
"""A top-level mode of a tile: (extent, stride in memory, stride in the flat domain) of its leaves."""


def tile_tv(rule: Instruction, layout: AnyLayout, element: DType, mapping: str) -> Layout:
    """The layout (thread, value[, iteration]) -> flat index that covers the whole tile in this order.

    Raises AlignmentError when vectors do not lie along a stride-1 mode, ShapeError when matrices do not
    cover the tile, UnsupportedError for strides that are not integers or hidden behind an outer layout.

    >>> from layoutalg.arch import INSTRUCTIONS
    >>> from layoutalg.dtype import dtype
    >>> print(tile_tv(INSTRUCTIONS["ld.shared.b64"], Layout((4, 8), (8, 1)), dtype("f32"), "row"))
    ((4,4),2):((8,1),4)
    """
    check_integers(f"an access by {rule.name}", layout)
    tile = _tile_modes(rule.name, layout)
    elems = vector_elems(rule, element)
    vector = _vector_place(rule, layout, tile, elems, mapping)
    if rule.matrices:
        return _matrix_tv(rule, layout, tile, elems, vector)
    return _lane_tv(tile, elems, vector, mapping)


def vector_elems(rule: Instruction, element: DType) -> int:
    """Elements of one lane of one instruction.

    Raises UnsupportedError when an element is wider than what a lane moves.

    >>> from layoutalg.arch import INSTRUCTIONS
    >>> from layoutalg.dtype import dtype
    >>> vector_elems(INSTRUCTIONS["ld.shared.b128"], dtype("f16"))
    8
    """
    count, rest = divmod(8 * rule.width_bytes, element.bits)
    if not count or rest:
        raise UnsupportedError(
            f"{rule.name} moves {rule.width_bytes} bytes per lane, {element} has {element.bits} bits: "
            f"a lane must hold a whole number of elements"
        )
    return count


def _tile_modes(op: str, layout: AnyLayout) -> list[TileMode]:
    """The modes of the layout under its swizzles, each coalesced; a rank-1 layout gives its own leaves.

    A rotation has those of the rows that it turns.
    """
    rotation = find_rotation(layout)
    if rotation is not None:
        rows, columns = rotation.rows, rotation.columns
        return [[(rows, columns, 1)], [(columns, 1, rows)]]
    form = find_normal_form(layout)
    if form is None:
        raise UnsupportedError(
            f"no default {op} access for {layout}: its strides are hidden behind an outer layout; "
            f"give a thread-value layout"
        )
    parts = modes(form.layout)
    while len(parts) == 1 and isinstance(parts[0].shape, tuple):
        parts = modes(parts[0])
    out: list[TileMode] = []
    weight = 1
    for part in parts:
        mode: TileMode = []
        for extent, stride in leaves(coalesce(part)):
            if extent > 1:
                mode.append((extent, stride, weight))
            weight *= extent
        out.append(mode)
    return out or [[]]


def _vector_place(
    rule: Instruction, layout: AnyLayout, tile: list[TileMode], elems: int, mapping: str
) -> tuple[int, int]:
    """(mode, leaf) along which vectors lie: the leaf of stride 1, or of the least stride for scalars."""
    places = [(m, n) for m, mode in enumerate(tile) for n in range(len(mode))]
    if elems == 1:
        positive = [at for at in places if tile[at[0]][at[1]][1] > 0]
        return min(positive, key=lambda at: tile[at[0]][at[1]][1], default=(0, 0))
    wanted = {"row": len(tile) - 1, "col": 0}.get(mapping) if rule.matrices else None
    contiguous = [at for at in places if tile[at[0]][at[1]][1] == 1 and wanted in (None, at[0])]
    if not contiguous:
        where = "" if wanted is None else f" in mode {wanted}"
        raise AlignmentError(
            f"{rule.name} needs {elems} contiguous elements per lane, and {layout} has no stride-1 "
            f"mode{where}",
            required_bytes=rule.width_bytes,
        )
    mode, leaf = contiguous[0]
    extent = tile[mode][leaf][0]
    if extent % elems:
        raise AlignmentError(
            f"{rule.name} needs {elems} contiguous elements per lane, and the stride-1 mode of {layout} has "
            f"{extent}, which is not a multiple",
            required_bytes=rule.width_bytes,
        )
    return mode, leaf


def _lane_tv(tile: list[TileMode], elems: int, vector: tuple[int, int], mapping: str) -> Layout:
    """Threads in the order of `mapping`, values along the vector leaf."""
    order = list(range(len(tile)))
    if mapping == "row":
        order.reverse()
    elif mapping == "default":
        order.remove(vector[0])
        order.insert(0, vector[0])
    threads: list[Leaf] = []
    step = 0
    for m in order:
        of_mode: list[Leaf] = []
        for n, (extent, _, flat) in enumerate(tile[m]):
            if (m, n) == vector:
                step = flat
                of_mode.insert(0 if mapping == "default" else n, (extent // elems, flat * elems))
            else:
                of_mode.append((extent, flat))
        threads += of_mode
    return _tv(threads, elems, step, [])


def _matrix_tv(
    rule: Instruction, layout: AnyLayout, tile: list[TileMode], elems: int, vector: tuple[int, int]
) -> Layout:
    """Lanes supply row addresses: rows fastest, then the 16-byte column; the rest of the tile iterates."""
    mode, leaf = vector
    extent, _, step = tile[mode][leaf] if tile[mode] else (1, 0, 0)
    columns: list[Leaf] = [(extent // elems, step * elems)]
    rows: list[Leaf] = []
    for m, group in enumerate(tile):
        for n, (size, _, flat) in enumerate(group):
            if (m, n) != vector:
                (columns if m == mode and len(tile) > 1 else rows).append((size, flat))
    row_count, column_count = (16 if rule.matrices > 1 else 8), (2 if rule.matrices == 4 else 1)
    split_rows, split_columns = _split(rows, row_count), _split(columns, column_count)
    if split_rows is None or split_columns is None:
        raise ShapeError(
            f"{rule.name} covers a tile in pieces of {row_count} rows by {16 * column_count} bytes; {layout} "
            f"does not split into such pieces"
        )
    idle = WARP // (row_count * column_count)
    threads = split_rows[0] + split_columns[0] + ([(idle, 0)] if idle > 1 else [])
    return _tv(threads, elems, step, split_columns[1] + split_rows[1])


def _split(parts: list[Leaf], count: int) -> tuple[list[Leaf], list[Leaf]] | None:
    """The first `count` of the coordinates that `parts` count through, and what is left; None if ragged."""
    head: list[Leaf] = []
    for i, (extent, flat) in enumerate(parts):
        if count == 1:
            return head, parts[i:]
        if extent >= count:
            if extent % count:
                return None
            return [*head, (count, flat)], [(extent // count, flat * count), *parts[i + 1 :]]
        if count % extent:
            return None
        head.append((extent, flat))
        count //= extent
    return (head, []) if count == 1 else None


def _tv(threads: list[Leaf], elems: int, step: int, iterations: list[Leaf]) -> Layout:
    """The layout (thread, value[, iteration]) of these leaves, extents 1 dropped."""

    def mode(parts: list[Leaf]) -> tuple[int | tuple[int, ...], int | tuple[int, ...]]:
        longer = [part for part in parts if part[0] > 1] or [(1, 0)]
        if len(longer) == 1:
            return longer[0]
        return tuple(extent for extent, _ in longer), tuple(flat for _, flat in longer)

    both = [mode(threads), (elems, step if elems > 1 else 0)]
    if any(extent > 1 for extent, _ in iterations):
        both.append(mode(iterations))
    return Layout(tuple(shape for shape, _ in both), tuple(stride for _, stride in both))
