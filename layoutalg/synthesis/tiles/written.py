"""A tile as it is written: a run of contiguous elements, rows a pitch apart, stages outside of both.

The idea.  The layouts of tiles in kernels are rows of a buffer, possibly several times:

    (128,64,3):(64,1,8192)     3 stages of 128 rows of 64, a stage every 8192 elements
    (64,72):(128,1)            64 rows of 72 in a buffer whose rows have 128
    (72,64):(1,128)            the same by columns

One stage is laid out anew.  Its tile is a part of a buffer (rows, pitch), so accesses of the tile are
accesses of the buffer, and the buffer is a tile in plain storage order, for which synthesis has all answers.
The stages stay outside of a swizzle S of that buffer: S(x + k d) = S(x) + k d where the stride d is whole
periods of S, and otherwise k d is added after S.

>>> tile = read_tile(Layout((128, 64, 3), (64, 1, 8192)))
>>> tile.shape, tile.pitch, tile.stages
((128, 64), 64, (Stage(mode=2, extent=3, stride=8192),))
>>> from layoutalg.layout import Swizzle
>>> print(tile.place(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((128, 64), (64, 1))), 64).layout)
Sw<3,3,3> o 0 o (128,64,3):(64,1,8192)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, product
from operator import mul
from typing import NamedTuple

from layoutalg.algebra import Order
from layoutalg.analysis import Access
from layoutalg.compose import compose_layouts, find_rotation
from layoutalg.errors import DivisibilityError, ShapeError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzles,
    check_integers,
    coalesce,
    concat,
    leaves,
    modes,
    size,
)


class Stage(NamedTuple):
    """A mode outside of the tile: `extent` copies of it, `stride` elements apart."""

    mode: int
    extent: int
    stride: int


class Placed(NamedTuple):
    """A layout of all stages: the elements it spans, the strides of stages, the period of its swizzle.

    `inside` tells that the stages are whole periods apart, so that a swizzle of addresses does the same.
    """

    layout: AnyLayout
    span: int
    strides: tuple[int, ...]
    period: int
    inside: bool


@dataclass(frozen=True, slots=True)
class WrittenTile:
    """A stage of a layout, `rows` runs of `run` elements `pitch` apart, and the stages of the layout.

    `row_mode` and `run_mode` are modes of `given`; `shape` is that of one stage, in the order of its modes.
    """

    given: Layout
    order: Order
    row_mode: int
    run_mode: int
    rows: int
    run: int
    pitch: int
    stages: tuple[Stage, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The two modes of the tile."""
        return (self.rows, self.run) if self.order == "row" else (self.run, self.rows)

    @property
    def tile(self) -> Layout:
        """A stage as it is given."""
        return Layout(self.shape, (self.pitch, 1) if self.order == "row" else (1, self.pitch))

    @property
    def span(self) -> int:
        """The elements that all stages span, in full rows of the buffer."""
        return self.rows * self.pitch + sum((s.extent - 1) * s.stride for s in self.stages)

    def buffer(self, pitch: int) -> tuple[int, int]:
        """The shape of the buffer whose rows have `pitch` elements."""
        return (self.rows, pitch) if self.order == "row" else (pitch, self.rows)

    def moved(self, access: Access, pitch: int) -> Access:
        """An access of the tile as one of the buffer; raises DivisibilityError where it does not split so.

        >>> tile = read_tile(Layout((72, 64), (1, 128)))
        >>> column = Access("ld.shared.b32", Layout((32, 1), (72, 0)), "f32")
        >>> print(tile.moved(column, 128).tv)
        (32,1):(128,0)
        """
        if self.order == "row" or pitch == self.run:
            return access  # rows are the first mode: longer runs do not change a flat index
        return replace(access, tv=compose_layouts(Layout((self.run, self.rows), (1, pitch)), access.tv))

    def each_stage(self, layout: AnyLayout) -> Iterator[AnyLayout]:
        """A layout of the given shape on each stage in turn, as layouts of the tile.

        >>> tile = read_tile(Layout((2, 4, 3), (4, 1, 8)))
        >>> [one(1, 0) for one in tile.each_stage(tile.given)]
        [4, 12, 20]
        """
        places = _places(self.given)
        inside = Layout(self.shape, tuple(places[mode] for mode in self._tile_modes))
        for steps in product(*(range(stage.extent) for stage in self.stages)):
            start = sum(places[stage.mode] * n for stage, n in zip(self.stages, steps, strict=True))
            yield part_of(layout, start, inside)

    @property
    def _tile_modes(self) -> tuple[int, int]:
        return (self.row_mode, self.run_mode) if self.order == "row" else (self.run_mode, self.row_mode)

    def place(self, buffer: AnyLayout, pitch: int, extra_elems: int = 0) -> Placed:
        """The layout of all stages whose stage is the tile's part of a layout of the buffer.

        `extra_elems` is what that layout takes beyond the buffer's own rows.  The strides of the stages are
        kept where a stage fits; otherwise they grow to whole periods.
        """
        if find_rotation(buffer) is not None:
            return self._turned(buffer, pitch)
        swizzles = buffer.swizzles if isinstance(buffer, ComposedLayout) else Swizzles()
        inner = buffer.inner if isinstance(buffer, ComposedLayout) else buffer
        if not isinstance(inner, Layout):
            raise ShapeError(f"{buffer} is not swizzles of a plain layout")
        reach = self.rows * pitch + extra_elems
        period = max([1, *(swizzle.period for swizzle in swizzles)])
        strides, room, inside = [], reach, True
        for stage in self.stages:
            stride = stage.stride if stage.stride >= room else -(-room // period) * period
            strides.append(stride)
            inside &= stride % period == 0
            room += (stage.extent - 1) * stride
        # Inside of the swizzle stages are whole periods apart; other strides are put in their place after it.
        steps = strides if inside else self._nested(-(-reach // period) * period)
        index = Layout(self.shape, (1, self.buffer(pitch)[0]))  # of the tile in the buffer
        try:
            layout: AnyLayout = self._with_stages(compose_layouts(inner, index), steps)
        except DivisibilityError:  # a run that does not split as the buffer's rows do
            every = [*modes(inner), *(Layout(s.extent, n) for s, n in zip(self.stages, steps, strict=True))]
            layout = ComposedLayout(concat(*every), 0, self._with_stages(index, self._nested(size(inner))))
        if swizzles:
            layout = ComposedLayout(swizzles[0] if len(swizzles) == 1 else swizzles, 0, layout)
        if not inside:
            blocks = (steps[0], *(stage.extent for stage in self.stages))
            layout = ComposedLayout(Layout(blocks, (1, *strides)), 0, layout)
        return Placed(layout, room, tuple(strides), period, inside)

    def _turned(self, buffer: AnyLayout, pitch: int) -> Placed:
        """A rotation of the buffer, which is the tile: one stage with rows as long as they are given."""
        if self.stages or (self.shape[0] * self.shape[1]) != size(buffer):
            raise UnsupportedError(
                f"a rotation of {self.given}: it turns all rows of one stage; give one stage, as (M,N)"
            )
        return Placed(buffer, self.rows * pitch, (), 1, True)

    def _nested(self, step: int) -> list[int]:
        """Strides of stages that follow each other every `step`."""
        return list(accumulate((stage.extent for stage in self.stages), mul, initial=step))[:-1]

    def _with_stages(self, stage_layout: Layout, strides: list[int]) -> Layout:
        """A layout of the given shape from one of a stage."""
        parts = dict(enumerate(modes(self.given)))
        parts |= dict(zip(self._tile_modes, modes(stage_layout), strict=True))
        for stage, stride in zip(self.stages, strides, strict=True):
            parts[stage.mode] = Layout(stage.extent, stride)
        return concat(*parts.values())


def part_of(layout: AnyLayout, start: int, index: Layout) -> AnyLayout:
    """A layout after start + index: the part of it that `index` names from a flat index on.

    >>> print(part_of(Layout((4, 8), (8, 1)), 4, Layout((4, 2), (1, 4))))
    (4,8):(8,1) o 4 o (4,2):(1,4)
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, part_of(layout.inner, start, index))
    return ComposedLayout(layout, start, index)


def _places(layout: Layout) -> list[int]:
    """The flat index of coordinate 1 of each mode."""
    return list(accumulate(map(size, modes(layout)), mul, initial=1))


def read_tile(layout: Layout) -> WrittenTile:
    """A layout read as rows of a buffer with stages outside.

    Raises ShapeError, saying why, for a layout that is not written so: a mode of several strides, no
    contiguous mode, rows or stages that overlap; UnsupportedError for strides that are not integers.

    >>> read_tile(Layout((64, 72), (128, 1))).buffer(128)
    (64, 128)
    >>> read_tile(Layout((8, 8), (8, 2)))
    Traceback (most recent call last):
    ...
    layoutalg.errors.ShapeError: (8,8):(8,2) has no contiguous mode; a tile is rows of contiguous elements
    """
    check_integers("a tile in shared memory", layout)
    ordered: list[tuple[int, int, int]] = []  # stride, extent, mode
    for index, mode in enumerate(modes(layout)):
        merged = [(extent, stride) for extent, stride in leaves(coalesce(mode)) if extent > 1]
        if len(merged) > 1:
            raise ShapeError(
                f"mode {index} of {layout} has {len(merged)} strides; rows and stages are each a mode"
            )
        ordered += [(stride, extent, index) for extent, stride in merged]
    ordered.sort()
    if len(ordered) < 2 or ordered[0][0] != 1:
        what = "fewer than two modes" if len(ordered) < 2 else "no contiguous mode"
        raise ShapeError(f"{layout} has {what}; a tile is rows of contiguous elements")
    (_, run, run_mode), (pitch, rows, row_mode), *outside = ordered
    end = run
    for stride, extent, index in ordered[1:]:
        if stride < end:
            raise ShapeError(
                f"mode {index} of {layout} has stride {stride}, and what is inside of it spans {end} elements"
            )
        end = stride * extent if index == row_mode else (extent - 1) * stride + end
    stages = tuple(Stage(index, extent, stride) for stride, extent, index in outside)
    order: Order = "row" if row_mode < run_mode else "col"
    return WrittenTile(layout, order, row_mode, run_mode, rows, run, pitch, stages)
