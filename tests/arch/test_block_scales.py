"""Places of block scales, by the formulas of cuBLAS, CUTLASS and PTX, coordinate by coordinate."""

from __future__ import annotations

import random

import pytest

import layoutalg as la
from layoutalg.arch import BLOCK_FORMATS, find_block_format, scale_factor_layout, scale_layout
from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.layout import Layout
from tests.sweeps import each

DRAWN = 67


def in_tile(row: int, j: int) -> int:
    """The byte of scale j of a row in a tile of 128 x 4: cuBLAS, "1D Block Scaling Factors Layout"."""
    return row % 32 * 16 + row // 32 * 4 + j


def in_global(row: int, j: int, scales: int) -> int:
    """Tiles along K first: cuBLAS, and tile_atom_to_shape_SFA of CUTLASS by Step<2, 1>."""
    tiles = -(-scales // 4)
    return (row // 128 * tiles + j // 4) * 512 + in_tile(row % 128, j % 4)


def in_shared(row: int, j: int, rows: int) -> int:
    """Strides of CUTLASS, deduce_smem_layoutSFA: Blk_Elems along M, MMA_M / Blk_MN * Blk_Elems along K."""
    return row // 128 * 512 + j // 4 * (-(-rows // 128) * 512) + in_tile(row % 128, j % 4)


def check_drawn(count: int, space: str) -> None:
    rng = random.Random(f"scales {space}")
    for _ in range(count):
        name = rng.choice([*BLOCK_FORMATS])
        block = BLOCK_FORMATS[name].block
        m, k = rng.randint(1, 700), rng.randint(1, 3000)
        row, element = rng.randrange(m), rng.randrange(k)
        j, found = element // block, scale_layout(name, m, k, space)
        if space == "global":
            wanted = in_global(row, j, -(-k // block))
        else:
            wanted = in_shared(row, j, m)
        if space == "tensor":  # tcgen05.cp.32x128b.warpx4: a lane is 16 bytes, for each warp's 32 lanes
            copy = rng.randrange(4)
            byte = wanted
            assert found(row, element, copy) == byte // 16 % 32 + 32 * copy + 128 * (
                byte % 16 + byte // 512 * 16
            )
            continue
        assert found(row, element) == wanted
        at = la.right_inverse(found)(wanted)
        assert found(at) == wanted and la.idx2crd(at, (la.size(found[0]), la.size(found[1]))) == (
            row,
            j * block,
        )


@each("space", ["global", "shared", "tensor"])
def test_scales_lie_where_the_formulas_say(space: str) -> None:
    check_drawn(DRAWN, space)


@pytest.mark.deep
@each("space", ["global", "shared", "tensor"])
def test_ten_thousand_scales_lie_where_the_formulas_say(space: str) -> None:
    check_drawn(10_000, space)


def test_padding_is_whole_tiles_and_no_byte_is_left_out() -> None:
    for name, known in BLOCK_FORMATS.items():
        for m, k in ((1, 1), (31, 5 * known.block), (128, 4 * known.block), (300, 4096)):
            found = scale_layout(name, m, k)
            tiles = -(-m // 128) * -(-k // (4 * known.block))
            assert la.cosize(found) == la.image_size(found) == 512 * tiles
            assert la.cosize(scale_layout(name, m, k, "tensor")) == 128 * 16 * tiles


def test_a_scale_is_in_the_lanes_of_each_warp() -> None:
    found = scale_layout("mxfp8", 128, 128, "tensor")
    assert [found(33, 0, copy) % 128 for copy in range(4)] == [1, 33, 65, 97]
    assert la.cosize(found) == la.image_size(found) == 128 * 16


def test_scales_are_named_and_printed_as_code() -> None:
    found = la.parse("nvfp4-scales", shape=(300, 4096))
    assert found == scale_layout("nvfp4", 300, 4096)
    assert la.parse("mxfp8-scales-shared", shape=(256, 256)) == scale_layout("mxfp8", 256, 256, "shared")
    for to in ("cuda", "python"):
        assert "512" in la.code(scale_layout("nvfp4", 300, 4096), to)


@each(
    ("error", "part", "name", "shape"),
    [
        (UnsupportedError, "e4m3 has no scales of its own: mxfp8 is needed", "e4m3-scales", (8, 8)),
        (UnsupportedError, "f16 has no scales of its own: nvfp4 or", "f16-scales", (8, 8)),
        (UnknownNameError, "did you mean 'nvfp4'", "fp4-scales", (8, 8)),
        (UnknownNameError, "accepted are global, shared, tensor", "mxfp8-scales-l2", (8, 8)),
        (ShapeError, "(rows, elements along K)", "mxfp8-scales", (8, 8, 8)),
        (ArgumentTypeError, "needs the tensor's shape", "mxfp8-scales", None),
        (ParseError, "known and not read", "tensor<4xf32>", None),
    ],
)
def test_other_scales_are_refused_by_name(
    error: type[Exception], part: str, name: str, shape: tuple[int, ...] | None
) -> None:
    with pytest.raises(error) as caught:
        la.parse(name, shape=shape)
    assert part in str(caught.value)


def test_other_blocks_and_extents_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="16 or 32 share"):
        scale_factor_layout(64)
    with pytest.raises(ShapeError, match="m = 0"):
        scale_layout("mxfp8", 0, 8)
    with pytest.raises(UnsupportedError, match="no scales of its own"):
        find_block_format("bf16")
    assert isinstance(scale_layout("mxfp6", 1, 1), Layout)
