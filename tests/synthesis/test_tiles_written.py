"""Tiles as they are written: what is read of them, and where their elements are put."""

from __future__ import annotations

import itertools
import random

import pytest

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access
from layoutalg.decide import is_injective
from layoutalg.dtype import dtype
from layoutalg.errors import ShapeError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles, size
from layoutalg.synthesis.tiles import Stage, WrittenTile, read_tile
from tests.sweeps import each


@each(
    ("layout", "shape", "pitch", "stages"),
    [
        (Layout((128, 64, 3), (64, 1, 8192)), (128, 64), 64, (Stage(2, 3, 8192),)),
        (Layout((3, 128, 64), (8192, 64, 1)), (128, 64), 64, (Stage(0, 3, 8192),)),
        (Layout((64, 72), (128, 1)), (64, 72), 128, ()),
        (Layout((72, 64), (1, 128)), (72, 64), 128, ()),
        (
            Layout((64, 2, 72, 3), (128, 30000, 1, 8192)),
            (64, 72),
            128,
            (Stage(3, 3, 8192), Stage(1, 2, 30000)),
        ),
        (Layout(((8, 8), 64), ((64, 512), 1)), (64, 64), 64, ()),
        (Layout((64, 1, 64), (64, 0, 1)), (64, 64), 64, ()),
    ],
)
def test_what_is_read(layout: Layout, shape: tuple[int, int], pitch: int, stages: tuple[Stage, ...]) -> None:
    tile = read_tile(layout)
    assert (tile.shape, tile.pitch, tile.stages) == (shape, pitch, stages)
    stored = Layout(tuple(stage.extent for stage in stages) or 1)
    assert size(tile.tile) == size(layout) // size(stored)


@each(
    ("layout", "part"),
    [
        (Layout((8, 8), (16, 2)), "no contiguous mode"),
        (Layout(64), "fewer than two modes"),
        (Layout((8, 8), (1, 4)), "has stride 4, and what is inside of it spans 8"),
        (Layout((8, 8, 2), (8, 1, 32)), "has stride 32, and what is inside of it spans 64"),
        (Layout((8, (4, 2)), (8, (1, 64))), "mode 1 of (8,(4,2)):(8,(1,64)) has 2 strides"),
        (Layout((8, 8), (-8, 1)), "no contiguous mode"),
    ],
)
def test_what_is_not_read(layout: Layout, part: str) -> None:
    with pytest.raises(ShapeError, match=part.replace("(", r"\(").replace(")", r"\)")):
        read_tile(layout)


def buffers(tile: WrittenTile, rng: random.Random) -> AnyLayout:
    """A layout of the buffer: storage order or permuted rows, under one or two swizzles or none."""
    first, second = tile.buffer(tile.pitch)
    inner: Layout = storage_layout((first, second), tile.order)
    if rng.random() < 0.3 and tile.order == "row" and second % 2 == 0:
        inner = Layout((first, (second // 2, 2)), (second // 2, (1, first * second // 2)))
    bits = (first * second).bit_length() - 1
    swizzles = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        base, shift = rng.randint(0, 3), rng.randint(1, 3)
        count = min(rng.randint(1, 3), max(1, bits - base - shift))
        swizzles.append(Swizzle(count, base, shift))
    if not swizzles:
        return inner
    return ComposedLayout(swizzles[0] if len(swizzles) == 1 else Swizzles(*swizzles), 0, inner)


@pytest.mark.deep
def test_every_element_is_where_the_buffer_has_it_and_its_stage() -> None:
    """Enumerated: layout(coordinate, stages) = buffer(row, column) + sum of stage times stride."""
    rng = random.Random(5)
    kept = changed = outside = 0
    for _ in range(150):
        rows, run = rng.choice((4, 6, 8, 16)), rng.choice((6, 8, 12, 16))
        pitch = run + rng.choice((0, 0, 2, 4, 16))
        stages = [rng.choice((2, 3)) for _ in range(rng.randint(0, 2))]
        room, modes = rows * pitch, [(rows, pitch), (run, 1)]
        if rng.random() < 0.4:
            modes.reverse()
        for extent in stages:
            stride = room + rng.choice((0, 0, 8, 24, 32))
            modes.insert(rng.randint(0, len(modes)), (extent, stride))
            room = stride * extent
        given = Layout(tuple(m[0] for m in modes), tuple(m[1] for m in modes))
        tile = read_tile(given)
        outer = [mode for mode in modes if mode not in ((rows, pitch), (run, 1))]
        assert tile.pitch == pitch
        assert tile.span == rows * pitch + sum((extent - 1) * stride for extent, stride in outer)
        buffer = buffers(tile, rng)
        reach = max(buffer(i) for i in range(size(buffer))) + 1
        grown = rng.choice((0, 0, 16))  # as a layout with longer rows takes more than the buffer
        placed = tile.place(buffer, pitch, max(0, reach - rows * pitch) + grown)
        assert size(placed.layout) == size(given) and is_injective(placed.layout)
        for coordinate in itertools.product(*(range(extent) for extent, _ in modes)):
            row, column = coordinate[tile.row_mode], coordinate[tile.run_mode]
            place = buffer(row, column) if tile.order == "row" else buffer(column, row)
            for stage, stride in zip(tile.stages, placed.strides, strict=True):
                place += coordinate[stage.mode] * stride
            assert placed.layout(*coordinate) == place, (given, buffer)
        assert max(placed.layout(i) for i in range(size(given))) < placed.span
        for stage, stride in zip(tile.stages, placed.strides, strict=True):
            kept += stride == stage.stride
            changed += stride != stage.stride
        outside += not placed.inside
    assert kept > 50 and outside > 10 and changed > 10


def test_each_stage_is_the_tile_at_its_place() -> None:
    for modes in itertools.permutations([(4, 8), (6, 1), (3, 64), (2, 256)]):
        given = Layout(tuple(m[0] for m in modes), tuple(m[1] for m in modes))
        tile = read_tile(given)
        stages = list(tile.each_stage(given))
        assert sorted(stage(0) for stage in stages) == [64 * a + 256 * b for b in range(2) for a in range(3)]
        for stage in stages:
            assert [stage(i) - stage(0) for i in range(24)] == [tile.tile(i) for i in range(24)]


def test_accesses_of_a_tile_become_those_of_its_buffer() -> None:
    for given in (Layout((4, 6), (10, 1)), Layout((6, 4), (1, 10))):
        tile = read_tile(given)
        tv = Layout((tile.shape[0], 1, tile.shape[1]), (1, 0, tile.shape[0]))
        access = Access("ld.shared.b32", tv, dtype("f32"))
        moved = tile.moved(access, 10)
        buffer = storage_layout(tile.buffer(10), tile.order)
        for i in range(24):
            assert buffer(moved.tv(i)) == given(access.tv(i))
