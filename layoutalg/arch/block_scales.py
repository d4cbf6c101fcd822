"""Formats whose blocks of 16 or 32 elements along K share a scale of 8 bits, and where the scales lie.

The idea.  Four scales of each of 128 rows are a tile of 512 bytes.  A tile has 32 pieces of 16 bytes; piece p
has the scales of rows p, p + 32, p + 64 and p + 96, four bytes each.

    global    tiles along K first, then along M; rows and scales are padded to whole tiles
    shared    tiles of a block's operand along M first, then along K
    tensor    piece p in 16 columns of 8 bits of lane p, tiles side by side; tcgen05.cp repeats the 32 lanes
              for the four warps of a warpgroup, which is the mode (4):(32) behind rows and elements

Tensor memory is written lane + 128 column, as for accumulators, here in columns of 8 bits, four to one of 32.

>>> print(scale_layout("nvfp4", 300, 4096))
(((32,4),3),((16,4),64)):(((16,4),32768),((0,1),512))

Notes.  Documented, none of it measured on a GPU that multiplies by the scales.  That padding holds zeros is
an assumption, which what is generated here keeps.

Source: OCP Microscaling Formats (MX) Specification 1.0, table 1; cuBLAS 13.0, "1D Block Scaling Factors
Layout"; CUTLASS, include/cutlass/detail/sm100_blockscaled_layout.hpp (SfAtom, tile_atom_to_shape_SFA,
deduce_smem_layoutSFA); PTX ISA 9.0, 9.7.16.9.2 (tcgen05.cp, .32x128b.warpx4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.algebra import tile_to_shape
from layoutalg.compose import composition
from layoutalg.dtype import DTYPES
from layoutalg.errors import ShapeError, UnsupportedError, check_choice
from layoutalg.layout import Layout, concat, whole_number

SCALE_TILE = 128, 4
"""Rows, and scales of each, of a tile."""

SCALE_SPACES = ("global", "shared", "tensor")


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """A block-scaled format: `block` consecutive elements along K, of one of `elements`, share a `scale`."""

    name: str
    elements: tuple[str, ...]
    block: int
    scale: str


_TABLE = (
    BlockFormat("nvfp4", ("e2m1",), 16, "ue4m3"),
    BlockFormat("mxfp8", ("e4m3", "e5m2"), 32, "ue8m0"),
    BlockFormat("mxfp6", ("e2m3", "e3m2"), 32, "ue8m0"),
    BlockFormat("mxfp4", ("e2m1",), 32, "ue8m0"),
)

BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType({f.name: f for f in _TABLE})
"""Every format by name, read only."""


def find_block_format(name: str) -> BlockFormat:
    """The format of a name.  Raises UnsupportedError for an element type, which has no scales of its own,
    UnknownNameError for other names.

    >>> find_block_format("mxfp8").scale
    'ue8m0'
    >>> find_block_format("e2m1")
    Traceback (most recent call last):
    layoutalg.errors.UnsupportedError: e2m1 has no scales of its own: nvfp4 or mxfp4 is needed
    """
    elements = {element for known in _TABLE for element in known.elements}
    if isinstance(name, str) and (name in elements or name in DTYPES):
        having = [f.name for f in _TABLE if name in f.elements or name not in elements]
        raise UnsupportedError(f"{name} has no scales of its own: {' or '.join(having)} is needed")
    check_choice("block-scaled format", name, BLOCK_FORMATS)
    return BLOCK_FORMATS[name]


def scale_factor_layout(block: int) -> Layout:
    """(row, element along K) of a tile of scales -> byte of its 512; the elements of a block have stride 0.

    Raises UnsupportedError for another block than 16 and 32.

    >>> print(scale_factor_layout(32))
    ((32,4),(32,4)):((16,4),(0,1))
    """
    if block not in (16, 32):
        raise UnsupportedError(f"blocks of {block} elements: 16 or 32 share a scale factor")
    return Layout(((32, 4), (block, 4)), ((16, 4), (0, 1)))


def scale_layout(name: str, m: int, k: int, space: str = "global") -> Layout:
    """(row, element along K) of an M x K operand of a format -> byte of its scale, padded to whole tiles.

    In tensor memory a third mode has the four copies, and the result is lane + 128 column of 8 bits.
    Raises as `find_block_format` does, ShapeError for extents below 1.

    >>> print(scale_layout("mxfp8", 256, 256, "shared"))
    (((32,4),2),((32,4),2)):(((16,4),512),((0,1),1024))
    >>> print(scale_layout("mxfp8", 256, 256, "tensor"))
    (((32,4),2),((32,4),2),4):(((1,512),2048),((0,128),4096),32)
    """
    check_choice("space of scales", space, SCALE_SPACES)
    block = find_block_format(name).block
    extents = []
    for what, extent, tile in (("m", m, SCALE_TILE[0]), ("k", k, SCALE_TILE[1] * block)):
        if whole_number(extent, what) < 1:
            raise ShapeError(f"scales of {what} = {extent}: at least 1 is needed, in tiles of {tile}")
        extents.append(-(-extent // tile) * tile)
    inner = (1, 0) if space == "global" else (0, 1)
    tiles = tile_to_shape(scale_factor_layout(block), tuple(extents), inner)
    if space != "tensor":
        return tiles
    pieces = Layout((16, 32, extents[0] * extents[1] // (512 * block)), (128, 1, 16 * 128))
    return concat(*(composition(pieces, mode) for mode in (tiles[0], tiles[1])), Layout(4, 32))
