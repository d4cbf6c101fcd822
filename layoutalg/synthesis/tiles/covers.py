"""The accesses that tile a tile: as asked where that tiles, else the mixtures of narrower ones that do.

The idea.  ldmatrix.x4 takes pieces of 16 rows by 32 bytes; a head dim of 72 f16 has 9 chunks of 16 bytes, so
that one column of chunks is left.  The tile is cut into a grid of pieces, each of the widest form that fits:

    (64,72) f16     x4   16 pieces of 16 x 16 in columns 0 to 63
                    x2    4 pieces of 16 x 8 in columns 64 to 71        20 instructions, 72 matrices

or one narrower form takes all of it (x2: 36, x1: 72 instructions).  Vectors that do not divide a row are made
narrower.  A piece is an access of a part of the tile; synthesis, whose accesses start at the origin, is asked
for the access that moves such pieces from there on.  That is the same question: a phase of any form is eight
rows, from a multiple of eight on, at one chunk, and the pieces together have all of those.

>>> tile = Layout((64, 72), (72, 1))
>>> for cover in covers_of("ldmatrix.x4", tile, "f16"):
...     print(cover)
ldmatrix.x4 on (64,64) at (0,0), ldmatrix.x2 on (64,8) at (0,64)
ldmatrix.x2 on (64,72) at (0,0)
ldmatrix.x1 on (64,72) at (0,0)

Source: PTX ISA, ldmatrix and stmatrix: .x1, .x2 and .x4 take 8, 16 and 32 row addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from layoutalg.analysis import Access, SharedReport, analyze_access
from layoutalg.arch import Arch, Instruction, find_instruction
from layoutalg.compose import compose_layouts
from layoutalg.dtype import DType, dtype
from layoutalg.errors import AlignmentError, ShapeError, UnknownNameError
from layoutalg.layout import AnyLayout, Layout, to_text
from layoutalg.synthesis.tiles.written import part_of

MATRIX_ROWS = 8


class Piece(NamedTuple):
    """An access of a part of a tile: `extent` elements per mode from the coordinate `start` on."""

    op: str
    start: tuple[int, int]
    extent: tuple[int, int]
    access: Access

    def __str__(self) -> str:
        return f"{self.op} on {to_text(self.extent)} at {to_text(self.start)}"

    def on(self, layout: AnyLayout, shape: tuple[int, int]) -> AnyLayout:
        """The part of a layout of a tile of `shape` that the piece touches."""
        if self.extent == shape:
            return layout
        start = self.start[0] + self.start[1] * shape[0]
        return part_of(layout, start, Layout(self.extent, (1, shape[0])))


@dataclass(frozen=True, slots=True)
class Cover:
    """Pieces that move every element of a tile once; free of conflicts where the accesses `wanted` are.

    `asked` is whether it is the requested access itself.
    """

    pieces: tuple[Piece, ...]
    wanted: tuple[Access, ...]
    asked: bool = False

    def __str__(self) -> str:
        return ", ".join(map(str, self.pieces))


class Cost(NamedTuple):
    """Instructions, wavefronts and their ideal of all pieces of a cover on a layout of its tile."""

    instructions: int
    total: int
    ideal_total: int


def cost_of(cover: Cover, layout: AnyLayout, shape: tuple[int, int], machine: Arch) -> Cost:
    """The cost of a cover of a tile of `shape` on a layout of it.

    >>> from layoutalg.arch import ARCHS
    >>> (cover, *_) = covers_of("ldmatrix.x4", Layout((64, 72), (72, 1)), "f16")
    >>> cost_of(cover, Layout((64, 72), (72, 1)), (64, 72), ARCHS["sm_90"])
    Cost(instructions=20, total=72, ideal_total=72)
    """
    reports = [analyze_access(piece.on(layout, shape), piece.access, machine) for piece in cover.pieces]
    shared = [report for report in reports if isinstance(report, SharedReport)]
    return Cost(
        sum(report.instructions for report in shared),
        sum(report.total for report in shared),
        sum(report.ideal_total for report in shared),
    )


def covers_of(spec: str | Access, tile: Layout, element: str | DType) -> list[Cover]:
    """The ways in which an access tiles a tile of two modes, fewest instructions first; one where it does.

    `spec` is an access as of `Access.of`.  Raises what that raises where nothing narrower tiles the tile.

    >>> print(*covers_of("ld.shared.b128", Layout((32, 36), (36, 1)), "f16"), sep="; ")
    ld.shared.b64 on (32,36) at (0,0); ld.shared.b32 on (32,36) at (0,0); ld.shared.b16 on (32,36) at (0,0)
    """
    element = dtype(element)
    try:
        access = Access.of(spec, tile, element)
    except (ShapeError, AlignmentError):
        if not isinstance(spec, str):
            raise
        op, _, mapping = (part.strip() for part in spec.partition("@"))
        rule = find_instruction(op)
        narrower = _matrices if rule.matrices else _vectors
        pieces = list(narrower(rule, tile, element, mapping or "default"))
        if not pieces:
            raise
        return pieces
    return [replace(_whole(access, tile), asked=True)]


def _vectors(rule: Instruction, tile: Layout, element: DType, mapping: str) -> Iterator[Cover]:
    """The same instruction with narrower vectors, widest first."""
    width = rule.width_bytes // 2
    while 8 * width >= element.bits:
        name = rule.name.replace(f"b{8 * rule.width_bytes}", f"b{8 * width}")
        if rule.name.startswith("cp.async"):
            name = f"cp.async.{width}"
        try:
            access = Access.along(name, tile, element, mapping)
        except (ShapeError, AlignmentError, UnknownNameError):
            pass
        else:
            yield _whole(access, tile)
        width //= 2


def _whole(access: Access, tile: Layout) -> Cover:
    return Cover((Piece(access.op, (0, 0), _sides(tile), access),), (access,))


def _sides(tile: Layout) -> tuple[int, int]:
    first, second = tile.shape if isinstance(tile.shape, tuple) else (tile.shape, 1)
    if not isinstance(first, int) or not isinstance(second, int):
        raise ShapeError(f"{tile} is not a tile of two modes")
    return first, second


def _matrices(rule: Instruction, tile: Layout, element: DType, mapping: str) -> Iterator[Cover]:
    """A mixture of .x4, .x2 and .x1, then each of the narrower forms alone."""
    shape = _sides(tile)
    # Matrix rows lie along the contiguous mode, which the mapping may only confirm.
    along = next((mode for mode in (1, 0) if _strides(tile)[mode] == 1), None)
    if along is None or mapping == ("col" if along == 1 else "row"):
        return
    chunk = 128 // element.bits
    rows, run = shape[1 - along], shape[along]
    if rows % MATRIX_ROWS or run % chunk:
        return
    forms = [form for form in (4, 2, 1) if form <= rule.matrices]
    names = {form: rule.name.replace(f".x{rule.matrices}", f".x{form}") for form in forms}
    mixture = _grid(rows, run // chunk, forms)
    pieces = [
        _piece(names[form], along, (row, column * chunk), (height, width * chunk), element)
        for form, row, column, height, width in mixture
    ]
    mixed = Cover(tuple(pieces), tuple(_everywhere(piece, along, rows, run, element) for piece in pieces))
    if len(pieces) > 1:
        yield mixed
    for form in forms[1:]:
        try:
            yield _whole(Access.along(names[form], tile, element, mapping), tile)
        except ShapeError:
            continue


def _grid(rows: int, chunks: int, forms: Sequence[int]) -> list[tuple[int, int, int, int, int]]:
    """(form, first row, first chunk, rows, chunks) of the parts: the widest form, then what it leaves."""
    widest = max(forms)
    tall, wide = (16, 2) if widest == 4 else (16, 1) if widest == 2 else (8, 1)
    full_rows, full_chunks = rows - rows % tall, chunks - chunks % wide
    parts = [(widest, 0, 0, full_rows, full_chunks)]
    if full_chunks < chunks:  # a column of chunks beside: 16 rows of it at once
        parts.append((min(2, widest), 0, full_chunks, full_rows, chunks - full_chunks))
    if full_rows < rows:  # eight rows below
        parts.append((1, full_rows, 0, rows - full_rows, chunks))
    return [part for part in parts if part[3] and part[4]]


def _piece(op: str, along: int, start: tuple[int, int], extent: tuple[int, int], element: DType) -> Piece:
    """A piece from its first row and column and its rows and columns; `along` is the mode of columns."""
    if along == 0:
        start, extent = (start[1], start[0]), (extent[1], extent[0])
    own = Layout(extent, (extent[1], 1) if along == 1 else (1, extent[0]))
    return Piece(op, start, extent, Access.along(op, own, element))


def _everywhere(piece: Piece, along: int, rows: int, run: int, element: DType) -> Access:
    """The access that moves such pieces at every place of the tile's grid, in flat indices of the tile."""
    height, width = piece.extent[1 - along], piece.extent[along]
    start_row, start_column = piece.start[1 - along], piece.start[along]
    chunk = 128 // element.bits
    rule = find_instruction(piece.op)
    tall = 16 if rule.matrices > 1 else 8
    wide = chunk * (2 if rule.matrices == 4 else 1)
    # From the origin to the end of the piece: the grid begins there, so it has to start on it.
    reach_rows, reach_columns = start_row + height, start_column + width
    if start_row % tall or start_column % wide or reach_rows % tall or reach_columns % wide:
        raise ShapeError(f"{piece} does not lie on the grid of {tall} rows by {wide} columns")
    extent = (reach_rows, reach_columns) if along == 1 else (reach_columns, reach_rows)
    tile = (rows, run) if along == 1 else (run, rows)
    own = Layout(extent, (extent[1], 1) if along == 1 else (1, extent[0]))
    access = Access.along(piece.op, own, element)
    return Access(access.op, compose_layouts(Layout(extent, (1, tile[0])), access.tv), element)


def _strides(tile: Layout) -> tuple[int, int]:
    stride = tile.stride if isinstance(tile.stride, tuple) else (tile.stride, 0)
    return stride[0], stride[1]  # type: ignore[return-value]
