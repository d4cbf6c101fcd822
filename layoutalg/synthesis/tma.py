"""The layouts that tensor-map copies (TMA) can write: four swizzle modes over boxes of a tile.

The idea.  TMA stores a box row by row and XORs bits 4..6 of the byte address with bits 7..9 (128-byte mode;
one bit less for 64, two for 32).  The inner side of a box must not exceed the mode's span, so a tile with
longer rows is a sequence of boxes, one column block after the other; shorter rows take a span each, which
leaves gaps:

    f16 (64,64), 128 bytes per row    Sw<3,3,3> o 0 o (64,64):(64,1)
    f16 (64,128), 256 bytes per row   Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))
    f16 (64,32), 64 bytes per row     Sw<3,3,3> o 0 o (64,32):(64,1)             4096 bytes more than the tile

Notes.  The XOR acts on absolute addresses: the tile must start at a multiple of 8 spans, a box at one of
128 bytes.  The layout of a box comes from layoutalg.legality.tma, which is compared with what an
H200 wrote.

Source: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA, tensor swizzling modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from layoutalg.algebra import Order
from layoutalg.analysis import TmaAccess
from layoutalg.arch import HOPPER_MODES, Arch, SwizzleMode, find_swizzle_mode
from layoutalg.compose import compose_layouts
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ResourceError, ShapeError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    concat,
    merge,
    plain,
    product,
    to_text,
)
from layoutalg.legality import MAX_BOX_ELEMS, check_tma

_BOX_START_BYTES = 128


class TmaTile(NamedTuple):
    """A layout of a whole tile, and the bytes of its gaps."""

    layout: AnyLayout
    extra_bytes: int


def tma_layouts(
    shape: IntTuple,
    element: DType,
    order: Order,
    copies: Sequence[TmaAccess],
    machine: Arch,
    max_extra_bytes: int = 0,
) -> Iterator[TmaTile]:
    """The layouts of a tile that every one of `copies` can write: fewest boxes first, then least swizzled.

    With no copies, those of every mode that has boxes for them, as wide as it has them.  `max_extra_bytes` is
    what gaps may take.  Raises AlignmentError for rows that are not a multiple of 16 bytes and for what
    else no tensor map does, ShapeError for boxes that do not fit the tile or each other's places,
    ResourceError for gaps that take more than allowed, UnsupportedError for an architecture without TMA.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> boxes = [TmaAccess((64, 64), 128)]
    >>> [str(t.layout) for t in tma_layouts((64, 128), dtype("f16"), "row", boxes, ARCHS["sm_90"])]
    ['Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))']
    """
    if machine.compute_capability < (9, 0):
        raise UnsupportedError(f"{machine.name} has no TMA; sm_90 and later have")
    sides = [product(mode) for mode in (shape if isinstance(shape, tuple) else (shape,))]
    if not sides:
        raise UnsupportedError(f"TMA of {to_text(shape)}: a tile without modes has no rows")
    along = len(sides) - 1 if order == "row" else 0
    run = sides[along]
    if element.bits * run % 128:
        raise AlignmentError(
            f"TMA of {to_text(shape)} {element}: rows of {element.bits * run / 8:g} bytes are not a multiple "
            f"of 16 bytes",
            required_bytes=16,
        )
    tile = _Tile(shape, tuple(sides), along, element)
    if copies:
        yield from _of_copies(tile, copies, machine, max_extra_bytes)
        return
    candidates = []
    for mode in HOPPER_MODES:
        if not mode.swizzle.bits and not _has_dense_boxes(element.bits * run // 128, prod(sides) // run):
            continue
        inner = min(run, 8 * mode.row_bytes // element.bits) if mode.swizzle.bits else run
        box = (*sides[:along], inner, *sides[along + 1 :])
        if run % inner == 0 and not tile.box_bytes(mode, box) % (_BOX_START_BYTES if inner < run else 1):
            written = _written(tile, mode, box)
            if written.extra_bytes <= max_extra_bytes:
                candidates.append((run // inner, mode.swizzle.bits, written))
    yield from (written for _, _, written in sorted(candidates, key=lambda triple: triple[:2]))


def _has_dense_boxes(chunks: int, rows: int) -> bool:
    """Whether boxes without gaps make up rows of `chunks` 16-byte chunks, one row right after the other.

    A row within a box is one or two of its sides of at most 256 chunks; otherwise it takes several boxes, of
    which the first starts at a multiple of 128 bytes.
    """
    divides = any(chunks % n == 0 and chunks // n <= MAX_BOX_ELEMS for n in range(1, MAX_BOX_ELEMS + 1))
    return divides or rows == 1 or 16 * chunks % _BOX_START_BYTES == 0


class _Tile(NamedTuple):
    """A tile by the sizes of its modes; mode `along` is contiguous in global memory."""

    shape: IntTuple
    sides: tuple[int, ...]
    along: int
    element: DType

    @property
    def order(self) -> list[int]:
        """The modes, innermost first."""
        rest = range(len(self.sides))
        return [self.along, *(i for i in (rest if self.along == 0 else reversed(rest)) if i != self.along)]

    def tensor(self) -> Layout:
        """The tile as it lies in global memory, one leaf per mode."""
        strides, step = [0] * len(self.sides), 1
        for i in self.order:
            strides[i], step = step, step * self.sides[i]
        return Layout(self.sides, tuple(strides))

    def pitch(self, mode: SwizzleMode, box: tuple[int, ...]) -> int:
        """Elements from one row of a box to the next."""
        return 8 * mode.row_bytes // self.element.bits if mode.swizzle.bits else box[self.along]

    def box_bytes(self, mode: SwizzleMode, box: tuple[int, ...]) -> int:
        """The bytes that a box takes, gaps included."""
        return self.pitch(mode, box) * prod(box) // box[self.along] * self.element.bits // 8


def _of_copies(
    tile: _Tile, copies: Sequence[TmaAccess], machine: Arch, max_extra_bytes: int
) -> Iterator[TmaTile]:
    """The one layout that all copies write, or none when they differ."""
    tiles: list[TmaTile] = []
    for copy in copies:
        box = tuple(product(side) for side in copy.box)
        if len(box) != len(tile.sides) or any(side % b for side, b in zip(tile.sides, box, strict=True)):
            raise ShapeError(f"TMA box {copy.box} does not divide the tile {to_text(tile.shape)}")
        check_tma(tile.tensor(), box, tile.element, mode=copy.swizzle_bytes, arch=machine).require()
        mode = find_swizzle_mode(copy.swizzle_bytes)
        if box != tile.sides and tile.box_bytes(mode, box) % _BOX_START_BYTES:
            raise ShapeError(
                f"TMA boxes {copy.box} of {tile.element} take {tile.box_bytes(mode, box)} bytes each; boxes "
                f"that start at multiples of {_BOX_START_BYTES} bytes are needed"
            )
        written = _written(tile, mode, box)
        if written.extra_bytes > max_extra_bytes:
            raise ResourceError(
                f"gaps of TMA boxes {copy.box} of {tile.element}, whose rows take {copy.swizzle_bytes} bytes "
                f"each, in max_extra_bytes",
                written.extra_bytes,
                max_extra_bytes,
            )
        tiles.append(written)
    if all(written == tiles[0] for written in tiles):
        yield tiles[0]


def _written(tile: _Tile, mode: SwizzleMode, box: tuple[int, ...]) -> TmaTile:
    """The tile as boxes one after the other, each with its rows a span apart, column blocks outermost."""
    bits = tile.element.bits
    counts = [side // b for side, b in zip(tile.sides, box, strict=True)]
    inside, between = [0] * len(box), [0] * len(box)
    inside[tile.along], step = 1, tile.pitch(mode, box)
    for i in tile.order[1:]:
        inside[i], step = step, step * box[i]
    for i in (*tile.order[1:], tile.along):
        between[i], step = step, step * counts[i]
    parts = [plain(*merge((box[i], counts[i]), (inside[i], between[i]))) for i in range(len(box))]
    inner = compose_layouts(concat(*parts), Layout(tile.shape))
    swizzle = mode.in_elements(bits)
    extra_bytes = (step - prod(tile.sides)) * bits // 8
    return TmaTile(ComposedLayout(swizzle, 0, inner) if swizzle.bits else inner, extra_bytes)
