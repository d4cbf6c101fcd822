"""The tiles that tensor-map copies (TMA) write, element by element, from the facts of the hardware.

The idea.  A tile is moved box by box.  For each box `check_tma` states whether the driver takes it, where
the box has its elements before the XOR, and how many bytes it spans.  Boxes lie one after another, column
blocks outermost, each at a multiple of 128 bytes, and the XOR of the mode acts on the address:

    place of an element = S(start of its box + place within the box)

Every element is placed by that sentence, one by one.  Nothing is composed, and no list of layouts is kept: a
layout is one that copies write if it puts every element where they do.

Without copies in the question every mode is tried with boxes as wide as it has them: a row whole, or in
pieces of a span.  Rows are taken up to 256 at a time, which is the longest side of a box.  Such a tile is
asked about in 8-byte elements, whatever its own are, since copies move bytes; dense rows (mode none) are
asked about as 16-byte chunks, which may make several dimensions.

Source: CUDA Driver API, cuTensorMapEncodeTiled; see layoutalg.legality.tma.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.algebra import storage_layout
from layoutalg.analysis import TmaAccess
from layoutalg.arch import CHUNK_BYTES, HOPPER_MODES, Arch, SwizzleMode, find_swizzle_mode
from layoutalg.errors import AlignmentError, MismatchError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, product, to_text
from layoutalg.legality import TmaCopy, check_tma
from layoutalg.synthesis.proof.forms import tile_bytes
from layoutalg.synthesis.result import Synthesis

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOX_START_BYTES = 128
"""A box starts at a multiple of this (CUDA C++ Programming Guide, Tensor Memory Accelerator)."""

LONGEST_SIDE = 256
"""Elements of a side of a box, at most."""

_CARRIER = "f64"
_CARRIER_BYTES = 8


class Written(NamedTuple):
    """A tile as copies write it: `places[x]` is the offset in elements of element x of the storage order."""

    mode: SwizzleMode
    places: NDArray[Any]
    extra_bytes: int

    def at(self, offsets: NDArray[Any]) -> NDArray[Any]:
        """The places of elements of the storage order; -1 past the tile, where nothing is."""
        import numpy as np

        last = len(self.places) - 1
        return np.where(offsets <= last, self.places[np.minimum(offsets, last)], -1)

    def is_layout(self, synthesis: Synthesis, layout: AnyLayout) -> bool:
        """Whether the layout puts every element of the tile where it is written."""
        return bool((places_of(synthesis, layout) == self.places).all())


def places_of(synthesis: Synthesis, layout: AnyLayout) -> NDArray[Any]:
    """The offset at which a layout of the tile puts each element of the storage order.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((8, 64), ["ldmatrix.x1"], element="f16")
    >>> places_of(found, found.layout)[64:68].tolist()
    [72, 73, 74, 75]
    """
    import numpy as np

    index = np.arange(product(synthesis.shape))
    out = np.empty_like(index)
    out[storage_layout(synthesis.shape, synthesis.order)(index)] = layout(index)
    return out


def tiles_of_question(synthesis: Synthesis) -> list[Written]:
    """The tiles that the tensor-map copies of the question write, or those of any mode, within its memory.

    Raises as `check_tma` does for copies that no tensor map makes.

    >>> from layoutalg.analysis import TmaAccess
    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((64, 64), ["ldmatrix.x4", TmaAccess((64, 64), 128)], element="f16")
    >>> [tile.is_layout(found, found.layout) for tile in tiles_of_question(found)]
    [True]
    """
    copies = [access for access in synthesis.accesses if isinstance(access, TmaAccess)]
    tiles = _of_copies(synthesis, copies) if copies else _of_modes(synthesis)
    return [tile for tile in tiles if tile.extra_bytes <= synthesis.max_extra_bytes]


def is_written(synthesis: Synthesis, layout: AnyLayout, extra_bytes: int) -> bool:
    """Whether copies of the question, or of any mode, write this layout with these gaps; False without TMA.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
    >>> is_written(found, found.layout, 0), is_written(found, found.layout, 128)
    (True, False)
    """
    copies = [access for access in synthesis.accesses if isinstance(access, TmaAccess)]

    def tiles() -> Iterator[Written]:
        yield from _of_copies(synthesis, copies) if copies else ()
        yield from _of_modes(synthesis)

    if tile_bytes(synthesis) + extra_bytes > synthesis.arch.max_shared_bytes_per_block:
        return False
    try:
        return any(t.extra_bytes == extra_bytes and t.is_layout(synthesis, layout) for t in tiles())
    except (AlignmentError, UnsupportedError):
        return False


def _sides(synthesis: Synthesis) -> list[int]:
    """The sizes of the modes; refuses what no tensor map has."""
    shape, machine = synthesis.shape, synthesis.arch
    if machine.compute_capability < (9, 0):
        raise UnsupportedError(f"{machine.name} has no TMA; sm_90 and later have")
    sides = [product(mode) for mode in (shape if isinstance(shape, tuple) else (shape,))]
    if not sides:
        raise UnsupportedError(f"TMA of {to_text(shape)}: a tile without modes has no rows")
    run_bits = sides[_along(synthesis, sides)] * synthesis.element.bits
    if run_bits % (8 * CHUNK_BYTES):
        raise AlignmentError(
            f"TMA of {to_text(shape)} {synthesis.element}: rows of {run_bits / 8:g} bytes are not a multiple "
            f"of {CHUNK_BYTES} bytes",
            required_bytes=CHUNK_BYTES,
        )
    return sides


def _along(synthesis: Synthesis, sides: Sequence[int]) -> int:
    """The mode that is contiguous."""
    return len(sides) - 1 if synthesis.order == "row" else 0


# --- every mode, in boxes as wide as it has them -------------------------------------------------------


def _of_modes(synthesis: Synthesis) -> Iterator[Written]:
    """The tile in every mode of sm_90 that has boxes for it."""
    sides = _sides(synthesis)
    bits = synthesis.element.bits
    run_bytes = sides[_along(synthesis, sides)] * bits // 8
    for mode in HOPPER_MODES:
        written = _in_mode(mode, run_bytes, prod(sides) * bits // 8 // run_bytes, synthesis.arch)
        if written is not None:
            chunks, total_bytes = written
            yield Written(mode, _by_element(chunks, bits), total_bytes - tile_bytes(synthesis))


def _by_element(chunks: NDArray[Any], bits: int) -> NDArray[Any]:
    """Offsets in elements from the byte addresses of chunks, which copies never take apart."""
    import numpy as np

    each = 8 * CHUNK_BYTES // bits
    out: NDArray[Any] = (chunks.reshape(-1, 1) * 8 // bits + np.arange(each)).reshape(-1)
    return out


def _in_mode(mode: SwizzleMode, run_bytes: int, rows: int, machine: Arch) -> tuple[NDArray[Any], int] | None:
    """(address of every chunk of the tile, bytes in all) in one mode, or None where it has no such boxes."""
    import numpy as np

    width = min(run_bytes, mode.row_bytes) if mode.swizzle.bits else run_bytes
    if run_bytes % width:
        return None
    places = np.zeros((rows, run_bytes // CHUNK_BYTES), dtype=np.int64)
    address = 0
    judged: dict[tuple[int, int], TmaCopy | None] = {}
    for row, byte, height, wide in _boxes(run_bytes, width, rows):
        if (height, wide) not in judged:
            judged[height, wide] = _judged(mode, height, wide, machine)
        copy = judged[height, wide]
        if copy is None or address % BOX_START_BYTES:
            return None
        inside = _before_xor(copy, CHUNK_BYTES // _CARRIER_BYTES)
        first = byte // CHUNK_BYTES
        places[row : row + height, first : first + wide // CHUNK_BYTES] = (
            address + inside.reshape(height, -1) * _CARRIER_BYTES
        )
        address += copy.shared_bytes
    return mode.swizzle(places), address


def _boxes(run_bytes: int, width: int, rows: int) -> Iterator[tuple[int, int, int, int]]:
    """(first row, first byte of the row, rows, bytes of a row) of the boxes, in the order of addresses."""
    if _chunk_sides(width // CHUNK_BYTES) is not None:
        for byte in range(0, run_bytes, width):
            for row in range(0, rows, LONGEST_SIDE):
                yield row, byte, min(LONGEST_SIDE, rows - row), width
        return
    most = LONGEST_SIDE * CHUNK_BYTES  # rows that no box has: one at a time, in pieces
    for row in range(rows):
        for byte in range(0, run_bytes, most):
            yield row, byte, 1, min(most, run_bytes - byte)


def _chunk_sides(chunks: int) -> tuple[int, ...] | None:
    """A number of chunks as one or two sides of a box, or None where it takes more."""
    if chunks <= LONGEST_SIDE:
        return (chunks,)
    fits = (n for n in range(2, LONGEST_SIDE + 1) if chunks % n == 0 and chunks // n <= LONGEST_SIDE)
    n = next(fits, None)
    return None if n is None else (n, chunks // n)


def _judged(mode: SwizzleMode, height: int, width: int, machine: Arch) -> TmaCopy | None:
    """The copy of a box of `height` rows of `width` bytes, if the driver takes it."""
    row: tuple[int, ...] = (width // _CARRIER_BYTES,)
    if not mode.swizzle.bits:
        # Without a span rows are dense, so a row may be any tree of chunks.
        row = (CHUNK_BYTES // _CARRIER_BYTES, *(_chunk_sides(width // CHUNK_BYTES) or ()))
    box = (*row, height)
    strides, step = [], 1
    for side in box:
        strides.append(step)
        step *= side
    return check_tma(Layout(box, tuple(strides)), box, _CARRIER, mode=mode, arch=machine).result


def _before_xor(copy: TmaCopy, every: int) -> NDArray[Any]:
    """The offset in a box of each `every`-th of its elements, in order, before the XOR of addresses."""
    import numpy as np

    layout = copy.layout
    if layout is None:
        raise MismatchError("the order of an interleaved box is not modelled")
    plain = layout.inner if isinstance(layout, ComposedLayout) else layout
    out: NDArray[Any] = plain(np.arange(0, prod(copy.tensor_map.box), every))
    return out


# --- the copies of a question --------------------------------------------------------------------------


def _of_copies(synthesis: Synthesis, copies: Sequence[TmaAccess]) -> Iterator[Written]:
    """The one tile that all copies write, or nothing when they differ."""
    written = [_of_copy(synthesis, copy) for copy in copies]
    first = written[0]
    if all(each.extra_bytes == first.extra_bytes and (each.places == first.places).all() for each in written):
        yield first


def _of_copy(synthesis: Synthesis, copy: TmaAccess) -> Written:
    """The tile as boxes of one copy, one after another."""
    import numpy as np

    sides, element = _sides(synthesis), synthesis.element
    box = tuple(product(side) for side in copy.box)
    if len(box) != len(sides) or any(side % b for side, b in zip(sides, box, strict=True)):
        raise MismatchError(f"the TMA box {copy.box} does not divide the tile {to_text(synthesis.shape)}")
    mode = find_swizzle_mode(copy.swizzle_bytes)
    tensor = storage_layout(tuple(sides), synthesis.order)
    made = check_tma(tensor, box, element, mode=mode, arch=synthesis.arch).require()
    boxes = prod(sides) // prod(box)
    if boxes > 1 and made.shared_bytes % BOX_START_BYTES:
        raise MismatchError(f"TMA boxes {copy.box} of {made.shared_bytes} bytes start between chunks of 128")
    along = _along(synthesis, sides)
    # Innermost first, as the storage order runs, and as boxes lie but for the contiguous mode, which is last.
    order = [
        along,
        *(i for i in (range(len(sides)) if along == 0 else range(len(sides))[::-1]) if i != along),
    ]
    left = np.arange(prod(sides))
    coordinate: dict[int, NDArray[Any]] = {}
    for i in order:
        coordinate[i], left = left % sides[i], left // sides[i]
    number, weight = np.zeros_like(left), 1
    for i in (*order[1:], along):
        number, weight = number + weight * (coordinate[i] // box[i]), weight * (sides[i] // box[i])
    inside, weight = np.zeros_like(left), 1
    for i, side in enumerate(box):
        inside, weight = inside + weight * (coordinate[i] % side), weight * side
    span = 8 * made.shared_bytes // element.bits
    plain = number * span + _before_xor(made, 1)[inside]
    places = mode.in_elements(element.bits)(plain)
    return Written(mode, places, boxes * made.shared_bytes - tile_bytes(synthesis))
