"""The layouts that a tensor-map copy (TMA) can write: four swizzle modes over boxes of a tile.

The idea.  TMA stores a box row by row and XORs bits 4..6 of the byte address with bits 7..9 (128-byte mode;
one bit less for 64, two for 32).  The inner side of a box must not exceed the mode's span, so a tile with
longer rows is a sequence of boxes, one column block after the other:

    f16 (64,64), 128 bytes a row    Sw<3,3,3> o 0 o (64,64):(64,1)
    f16 (64,128), 256 bytes a row   Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))

The XOR acts on absolute addresses: the tile must start at a multiple of 8 spans.

Source: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA, tensor swizzling modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layoutalg.analysis.access import TmaAccess
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ShapeError
from layoutalg.int_tuple import IntTuple, product, to_text
from layoutalg.layout import Layout, leaves, make_layout, modes
from layoutalg.measure import coalesce
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle
from layoutalg.synthesis.result import Order, storage_layout

SPANS_BYTES = (0, 32, 64, 128)
"""The swizzle modes; 0 is none."""


def tma_layouts(
    shape: IntTuple, element: DType, order: Order, copies: Sequence[TmaAccess]
) -> Iterator[AnyLayout]:
    """The layouts of a tile that every one of `copies` can write: fewest boxes first, then least swizzled.

    Raises AlignmentError for rows that are no multiple of 16 bytes, ShapeError for a box that does not fit
    the tile or its mode.

    >>> from layoutalg.dtype import dtype
    >>> [str(layout) for layout in tma_layouts((64, 128), dtype("f16"), "row", [TmaAccess((64, 64), 128)])]
    ['Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))']
    """
    base = storage_layout(shape, order)
    along = len(modes(base)) - 1 if order == "row" else 0
    run = product(modes(base)[along].shape)
    if element.bits * run % 128:
        raise AlignmentError(
            f"TMA of {to_text(shape)} {element}: rows of {element.bits * run / 8:g} bytes are no multiple of "
            f"16 bytes",
            required_bytes=16,
        )
    for copy in copies:
        _check_box(copy, base, element, along)
    spans = [span for span in SPANS_BYTES if all(copy.swizzle_bytes == span for copy in copies)]
    inner = {span: min(run, 8 * span // element.bits or run) for span in spans}
    for span in sorted(spans, key=lambda span: (run // inner[span], span)):
        layout = _blocked(base, along, inner[span]) if inner[span] < run else base
        bits = (span // 16).bit_length() - 1 if span else 0
        low = 7 - (element.bits.bit_length() - 1)
        yield ComposedLayout(Swizzle(bits, low, 3), 0, layout) if bits else layout


def _check_box(copy: TmaAccess, base: Layout, element: DType, along: int) -> None:
    sides = [product(mode.shape) for mode in modes(base)]
    if len(copy.box) != len(sides) or any(side % b for side, b in zip(sides, copy.box, strict=True)):
        raise ShapeError(f"TMA box {copy.box} does not divide the tile {to_text(base.shape)}")
    inner_bits = element.bits * copy.box[along]
    if inner_bits % 128:
        raise ShapeError(f"TMA box {copy.box} of {element}: its inner side is no multiple of 16 bytes")
    span_bits = 8 * copy.swizzle_bytes or element.bits * sides[along]
    wanted = min(span_bits // element.bits, sides[along])
    if copy.box[along] != wanted:
        raise ShapeError(
            f"TMA box {copy.box} of {element} with the {copy.swizzle_bytes}-byte mode: its inner side must "
            f"be {wanted} elements"
        )


def _blocked(base: Layout, along: int, inner: int) -> Layout:
    """The tile as column blocks of `inner` elements, each stored compactly, one after the other."""
    parts = list(modes(base))
    total = product(base.shape)
    run = product(parts[along].shape)
    out: list[Layout] = []
    for i, mode in enumerate(parts):
        if i == along:
            block = total // run * inner
            out.append(make_layout((inner, run // inner), (1, block)))
        else:
            scaled = [(extent, stride // run * inner) for extent, stride in leaves(coalesce(mode))]
            shape, stride = tuple(e for e, _ in scaled), tuple(d for _, d in scaled)
            out.append(make_layout(shape, stride) if len(shape) > 1 else make_layout(shape[0], stride[0]))
    if not isinstance(base.shape, tuple):
        return out[0]
    return make_layout(tuple(part.shape for part in out), tuple(part.stride for part in out))
