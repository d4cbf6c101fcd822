"""Tensor: a view of a buffer in global or shared memory, by coordinates.

The idea.  Tiles, partitions and slices are made by the layout algebra, on coordinates and with integers
alone; what is known only when the kernel runs, a block's place or a leading dimension, is an expression that
is added, multiplied and compared:

    buffer          where the elements lie: a pointer with strides, or shared memory with its integer layout
    extents         of the buffer's modes: integers, parameters, None for those not stated
    origin          a coordinate of the buffer: expressions
    coordinates     a layout of static shape: place in the view -> coordinate of the buffer, from the origin

An element lies at buffer(origin + coordinates(c)), and exists where that coordinate is below the extents and
no difference that it was made of is below 0, where `minus` makes it the coordinate of another element.
The whole buffer is the identity layout; a tile is a smaller one with its origin moved; a transposed view has
its modes the other way round; a partition is `tidfrg` of the coordinates, with the thread's part in the
origin:

    g = k.tensor("g", "f32", (m, n), (ld, 1))             (m,n):(1@0,1@1)
    t = local_tile(g, (64, 32), (x, y))                   (64,32):(1@0,1@1)    from (x * 64, y * 32)
    p = k.get_slice(copy).partition_S(t)                  ((4,1),2,1):((1@1,0),32@0,0)
    k.do(LDG[16], v, p.at((0, 0), 1, 0))

A layout never holds an expression, and no division, composition or coalescing sees one.

Notes.  For a mode whose extent is a parameter, the shape of the whole tensor has the most that it can be.

Comparison with CuTe.  CuTe's tensors of coordinates (make_identity_tensor), with the pointer and the strides
beside them: what CuTe writes twice, for data and for predicates, is one partition here.

Source: CUTLASS, include/cute/tensor_impl.hpp; media/docs/cpp/cute/0y_predication.md, 0z_tma_tensors.md.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from layoutalg.algebra import logical_divide
from layoutalg.atoms import TiledCopy, TiledMMA
from layoutalg.codegen.expr import Const, Expr, Operand, as_expr, existing, simplify
from layoutalg.codegen.program import Global, MemRef, Shared
from layoutalg.codegen.terms import Arithmetic
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, IRError, ShapeError
from layoutalg.layout import (
    Layout,
    concat,
    flatten_tree,
    has_bases,
    layout_of,
    layout_size,
    make_identity_layout,
    modes,
    slice_and_offset,
)

Side: TypeAlias = Literal["src", "dst", "A", "B", "C"]
"""The side of a tiled copy, or the operand of a tiled MMA, that a tensor is partitioned as."""

Extent: TypeAlias = "Expr | None"
"""The extent of a mode of a buffer; None where it is not stated."""

_NOTHING, _ALL = Const(0), Const(1)


@dataclass(frozen=True, slots=True)
class Part:
    """The sharing of a tensor: `layout` is (thread, (value, (rest, ...))) -> coordinate from the origin
    of what was partitioned."""

    tiled: TiledCopy | TiledMMA
    side: Side
    layout: Layout


@dataclass(frozen=True, slots=True)
class Tensor:
    """The elements buffer(origin + coordinates(c)) of a buffer; immutable.

    `element` is their type, None where only its bytes are known.  `part` says of a partition whose it is.
    `exists` holds where no difference in the origin is below 0.  `KernelBuilder.tensor` and `shared` make the
    first, of whole buffers.

    >>> t = whole(Shared("t", 4, Layout((8, 4), (4, 1)), 128, 16, 0))
    >>> print(t.transposed.at(3, 5), t[None, 2].at(5), t.inside(7, 3))
    t[92] t[88] 1
    """

    buffer: Global | Shared
    element: DType | None
    extents: tuple[Extent, ...]
    origin: tuple[Expr, ...]
    coordinates: Layout
    part: Part | None = None
    exists: Expr = _ALL

    @property
    def shape(self) -> Any:
        """The shape of the view."""
        return self.coordinates.shape

    @property
    def size(self) -> int:
        """Number of elements of the view."""
        return layout_size(self.coordinates)

    def coordinate(self, *crd: Any) -> tuple[Expr, ...]:
        """The buffer's coordinate of a place in the view: one flat index, or one per mode, at any depth."""
        if any(isinstance(c, Arithmetic) for c in flatten_tree(crd)):
            raise ArgumentTypeError(
                f"{self.buffer.name} at {', '.join(map(str, crd))}: registers do not address memory; blocks, "
                "threads, loops and parameters do"
            )
        steps = coordinate_of(self.coordinates, crd, len(self.origin))
        return tuple(map(_plus, self.origin, steps))

    def at(self, *crd: Any) -> MemRef:
        """The element at a place in the view."""
        where = self.coordinate(*crd)
        return MemRef(self.buffer, simplify(self.buffer.index(where)), self, where)

    def inside(self, *crd: Any) -> Expr:
        """The predicate that the element at a place in the view exists; modes without an extent have all.

        It is false where a difference in the place, or in the origin, is below 0: at `minus(i, 1)` for i = 0.
        """
        holds = self.exists & _existing(crd)
        for c, extent in zip(self.coordinate(*crd), self.extents, strict=True):
            if extent is not None:
                holds = holds & (c < extent)
        return simplify(holds)

    def moved(self, *by: Operand) -> Tensor:
        """The view with its origin moved `by` along the modes of the buffer."""
        steps = zip(self.origin, by, strict=True)
        origin = tuple([_plus(o, as_expr(d)) for o, d in steps])
        return replace(self, origin=origin, exists=simplify(self.exists & _existing(by)))

    def __getitem__(self, crd: Any) -> Tensor:
        """The modes that None keeps, at a place in the others: `ring[None, None, stage]` is one stage.

        Raises ShapeError for a coordinate that does not fit.
        """
        crd = crd if isinstance(crd, tuple) else (crd,)
        if len(crd) != len(modes(self.coordinates)):
            raise ShapeError(f"{self}[{crd}]: the tensor has {len(modes(self.coordinates))} modes")
        rest, _ = slice_and_offset(_map(crd, lambda c: None if c is None else 0), self.coordinates)
        fixed = _map(crd, lambda c: 0 if c is None else c)
        moved = coordinate_of(self.coordinates, fixed, len(self.origin))
        return self._with(rest, moved, self.part, _existing(fixed))

    def select(self, *which: int) -> Tensor:
        """The view with its modes in another order; all of them are needed.

        Raises ShapeError where one is missing.
        """
        parts = modes(self.coordinates)
        if sorted(which) != list(range(len(parts))):
            raise ShapeError(f"{self} in the order {which}: each of its {len(parts)} modes once is needed")
        return replace(self, coordinates=concat(*(parts[i] for i in which)))

    @property
    def transposed(self) -> Tensor:
        """The view with its modes the other way round."""
        return self.select(*reversed(range(len(modes(self.coordinates)))))

    def _with(
        self, coordinates: Any, moved: tuple[Expr, ...], part: Part | None = None, exists: Expr = _ALL
    ) -> Tensor:
        there = self.moved(*moved)
        exists = simplify(there.exists & exists)
        return replace(there, coordinates=coordinates, part=part, exists=exists)

    def __str__(self) -> str:
        start = ",".join(map(str, self.origin))
        return f"{self.buffer.name} from ({start}) o {self.coordinates}"


def whole(buffer: Global | Shared, element: DType | None = None, extents: tuple[Extent, ...] = ()) -> Tensor:
    """All of a buffer; `extents` of a pointer's modes are those that bound its coordinates.

    >>> from layoutalg.layout import Layout
    >>> print(whole(Shared("t", 4, Layout((8, 4)), 128, 16, 0)))
    t from (0,0) o (8,4):(1@0,1@1)
    """
    if isinstance(buffer, Shared):
        shape = buffer.shape
        extents = tuple(map(Const, shape))
    else:
        extents = extents or (None,) * len(buffer.strides)
        shape = tuple(1 if e is None else e.facts.hi for e in extents)
    origin = (Const(0),) * len(shape)
    return Tensor(buffer, element, extents, origin, make_identity_layout(shape))


def local_tile(tensor: Tensor, tile: tuple[int, ...], block: tuple[Operand | None, ...]) -> Tensor:
    """The tile at `block` in the grid of tiles; None keeps that mode of the grid, after the tile's.

    Tiles may exceed the tensor: `inside` is the predicate of elements that exist.  Modes past those of `tile`
    stay as they are.  Raises ShapeError for tiles that do not fit the modes.

    Source: CUTLASS, include/cute/tensor_impl.hpp, local_tile.

    >>> from layoutalg.codegen.expr import Var
    >>> g = Global("g", 4, (Const(1024), Const(1)), False)
    >>> whole_g = whole(g, extents=(Const(512), Const(1024)))
    >>> print(local_tile(whole_g, (64, 32), (Var("x", 8), None)))
    g from (x * 64,0) o (64,32,32):(1@0,1@1,32@1)
    """
    parts = modes(tensor.coordinates)
    if len(tile) != len(block) or len(tile) > len(parts):
        raise ShapeError(f"local_tile of {tensor} by {tile} at {block}: it has {len(parts)} modes")
    inner, rests = [], []
    moved: tuple[Expr, ...] = (Const(0),) * len(tensor.origin)
    for mode, extent, position in zip(parts, tile, block, strict=False):
        inside, grid = _cut(mode, extent)
        inner.append(inside)
        if position is None:
            rests.append(grid)
        elif position != 0:
            steps = coordinate_of(grid, (position,), len(moved))
            moved = tuple(map(_plus, moved, steps))
    there = _existing(tuple(position for position in block if position is not None))
    return tensor._with(concat(*inner, *parts[len(tile) :], *rests), moved, exists=there)


def partition(tensor: Tensor, tiled: TiledCopy | TiledMMA, side: Side, thread: Operand) -> Tensor:
    """The part of a tensor that a thread has, as (value, rest, ...): CuTe's partition_S, _D, _A, _B and _C.

    Raises ShapeError where the tile does not divide a mode of the tensor, IRError for more threads than take
    part.

    >>> from layoutalg.atoms import make_tiled_copy
    >>> from layoutalg.codegen.expr import Var
    >>> tile = whole(Shared("t", 4, Layout((8, 32)), 1024, 16, 0))
    >>> copy = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((4, 8), (8, 1)), Layout((1, 4)))
    >>> print(partition(tile, copy, "src", Var("tid", 32)))
    t from (tid // 8,tid % 8 * 4) o ((4,1),2,1):((1@1,0),4@0,0)
    """
    thread = as_expr(thread)
    if thread.facts.hi >= tiled.threads:
        raise IRError(
            "partition", thread,
            f"{tiled} has {tiled.threads} threads, and {thread} counts up to {thread.facts.hi}",
        )  # fmt: skip
    layout, mine = _parted(tiled, side, tensor.coordinates)
    return tensor._with(
        mine, coordinate_of(layout, (thread, 0), len(tensor.origin)), Part(tiled, side, layout)
    )


@functools.lru_cache(maxsize=512)
def _parted(tiled: TiledCopy | TiledMMA, side: Side, coordinates: Layout) -> tuple[Layout, Any]:
    """(thread, (value, (rest, ...))) of a tile's coordinates, and the first thread's (value, rest, ...)."""
    layout: Layout = tiled.tidfrg(side, coordinates)  # type: ignore[arg-type]
    rests = modes(modes(modes(layout)[1])[1])
    return layout, slice_and_offset((0, (None, (None,) * len(rests))), layout)[0]


def _cut(mode: Layout, extent: int) -> tuple[Layout, Layout]:
    """A mode as (inside a tile, from tile to tile); in a plain mode the last tile may stick out."""
    if isinstance(mode.shape, int):
        step: Any = mode.stride
        return layout_of(extent, step), layout_of(-(-mode.shape // extent), step * extent)
    inside, grid = modes(logical_divide(mode, extent))
    return inside, grid


def _existing(crd: Any) -> Expr:
    """The predicate that no difference in a coordinate is below 0, before anything is simplified."""
    return functools.reduce(operator.and_, (existing(as_expr(c)) for c in flatten_tree(crd)), _ALL)


def _plus(a: Expr, b: Expr) -> Expr:
    """The sum of a part of an origin and what is added, mostly nothing to nothing."""
    return simplify(b if a == _NOTHING else a if b == _NOTHING else a + b)


@functools.lru_cache(maxsize=1 << 12)
def coordinate_of(layout: Layout, crd: tuple[Any, ...], rank: int) -> tuple[Expr, ...]:
    """The coordinate that a layout gives, filled up to `rank` modes."""
    steps = layout(*crd) if has_bases(layout) else ()
    parts = [simplify(as_expr(c)) for c in steps]
    return (*parts, *(_NOTHING,) * (rank - len(parts)))


def _map(crd: Any, change: Any) -> Any:
    return tuple([_map(c, change) for c in crd]) if isinstance(crd, tuple) else change(crd)
