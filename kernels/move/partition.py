"""The partition of a permute's tile: which chunk or vector is number x, and where it lies on either side.

The idea.  Every number is a coordinate of the tile by a layout of the stage, and a place is the coordinate's
inner product with strides: of the source, of the destination, or of the tile in shared memory.

    block_digits      block                  -> first coordinate of each mode
    chunk_digits      chunk                  -> coordinate of its row, and elements along it
    vector_digits     vector                 -> coordinate of its run, and elements along it
    run_digits        position in a run      -> bytes of shared memory

The kernel makes tensors of them (`partition_of`): the block's origin, the layout of coordinates, the extents
that bound them; an access is `at(x)`, its predicate `inside(x)`.  What rows add that start anywhere, run
backwards or are cut is arithmetic, in `misaligned`; then `load_chunk` and `Store` say the same in numbers, of
ints, arrays and index expressions alike.  The chooser and the prediction ask them for arrays of all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.codegen.expr import Const, Expr, Operand, as_expr
from layoutalg.codegen.language import KernelBuilder, Tensor, whole
from layoutalg.codegen.program import MemRef, Shared
from layoutalg.kernels.move.misaligned import Ends, Index, bent, in_halo, in_row, to_chunk
from layoutalg.kernels.move.stage import Stage, coordinate_of, coordinates


def block_origins(stage: Stage, block: Index) -> tuple[Index, ...]:
    """First coordinate of each mode that a block owns.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> block_origins(Stage(x, PermuteConfig("staged", (32, 32), 256, 4, 4)), 1)
    (32, 0)
    """
    return coordinate_of(stage.block_digits, block, stage.moves.rank)


def _moved(origins: Sequence[Index], by: Sequence[Index]) -> list[Index]:
    """A coordinate, counted from an origin."""
    return [origin + i for origin, i in zip(origins, by, strict=True)]


def _offset(at: Sequence[Index], strides: Sequence[int]) -> Index:
    """The inner product of a coordinate with strides."""
    total: Index = 0
    for i, d in zip(at, strides, strict=True):
        total = total + i * d if d else total
    return total


def _source(stage: Stage, at: Sequence[Index]) -> Index:
    """The element of the source at a coordinate, swizzles aside."""
    total: Index = stage.moves.src_offset
    for k, m in enumerate(stage.modes):
        if m.src:
            total = total + (bent(stage, k, at[k]) if stage.is_bent(k) else at[k]) * abs(m.src)
    return total


def _in_extent(stage: Stage, k: int, at: Index) -> list[Index]:
    """The predicates that a coordinate of a mode that counts rows exists, where it may not."""
    if stage.halo and k == stage.last:
        return in_halo(stage, at)
    return [at < stage.modes[k].extent] if stage.modes[k].extent % stage.tile[k] else []


@dataclass(frozen=True, slots=True)
class Load:
    """Chunk x: element `source` of the source, byte `place` of the tile.

    It exists where all of `exists` hold; it lies inside the source buffer where `inside` holds (None:
    always).
    """

    source: Index
    place: Index
    exists: tuple[Index, ...]
    inside: Index | None


def load_chunk(stage: Stage, x: Index, origins: Sequence[Index], base: Index) -> Load:
    """Chunk x of the tile of a block, whose first element is `base` elements past a chunk's boundary.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> load_chunk(Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)), 17, (0, 0), 0).source
    68
    """
    chunk, moves = stage.config.chunk, stage.moves
    *row, along = coordinate_of(stage.chunk_digits, x, moves.rank + 1)
    at = _moved(origins, row)
    start = _source(stage, at)
    exists = [p for k in stage.src_rows for p in _in_extent(stage, k, at[k])]
    exists += in_row(stage, along, start, origins)
    start, place = to_chunk(stage, start, base * stage.size + _offset(row, stage.coefficients))
    source = moves.src_swizzle(start + along)
    inside = None if moves.src_elems % chunk == 0 else source + chunk <= moves.src_elems
    return Load(source, place + along * stage.size, tuple(exists), inside)


def direct_element(
    stage: Stage, x: Index, origins: Sequence[Index]
) -> tuple[Index, Index, tuple[Index, ...]]:
    """Element x of the tile of a block: source, destination, and when it exists.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((3, 5), (1, 0), "f32"))
    >>> direct_element(Stage(x, PermuteConfig("direct", (3, 5), 32)), 4, (0, 0))
    (6, 4, ())
    """
    moves = stage.moves
    at = _moved(origins, coordinate_of(stage.element_digits, x, moves.rank))
    source, target = _source(stage, at), moves.dst_offset + _offset(at, stage.dst_strides)
    exists = tuple(at[k] < m.extent for k, m in enumerate(stage.modes) if m.extent % stage.tile[k])
    return moves.src_swizzle(source), moves.dst_swizzle(target), exists


@dataclass(frozen=True)
class Store:
    """Vector x of a block's tile, of run `member` of its group: its elements go to `target` and on.

    Where its run exists (`row`) its `ends` say which of its elements do.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> v = Store(Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)), 17, (0, 0), 0)
    >>> v.target, [v.place(e) for e in range(4)]
    (68, [1028, 1284, 1540, 1796])
    """

    stage: Stage
    x: Index
    origins: Sequence[Index]
    base: Index
    member: int = 0

    @cached_property
    def _coordinate(self) -> list[Index]:
        """The vector's run, by modes, and its elements along it."""
        stage = self.stage
        found = [*coordinate_of(stage.vector_digits, self.x, stage.moves.rank + 1)]
        if self.member:
            found[stage.dst_rows[0]] = found[stage.dst_rows[0]] + self.member
        return found

    @cached_property
    def ends(self) -> Ends:
        """Which elements of the vector exist."""
        *row, along = self._coordinate
        at = _moved(self.origins, row)
        start = self.stage.moves.dst_offset + _offset(at, self.stage.dst_strides)
        return Ends(self.stage, along, start, self.origins)

    @property
    def row(self) -> tuple[Index, ...]:
        """The predicates that the run exists."""
        stage, found = self.stage, self._coordinate
        return tuple(
            self.origins[k] + found[k] < stage.modes[k].extent
            for k in stage.dst_rows
            if stage.modes[k].extent % stage.tile[k]
        )

    @property
    def target(self) -> Index:
        """The destination of the vector's first element."""
        return self.stage.moves.dst_swizzle(self.ends.first)

    def place(self, e: int) -> Index:
        """The byte of the tile where element e is staged.

        Elements that are whole turns of the inner modes apart differ by a constant.
        """
        stage = self.stage
        if not stage.dst_run:
            return self._row_place
        turns, e = divmod(e, stage.dst_inner)
        along = stage.run_place(self.ends.position(e))
        return self._row_place + along + turns * stage.coefficients[stage.dst_run[-1]]

    @cached_property
    def _row_place(self) -> Index:
        """The byte of the tile where the run starts."""
        stage, row = self.stage, self._coordinate
        total = self.base * stage.size
        for k in stage.dst_rows:
            total = total + row[k] * stage.coefficients[k]
        return total


# --- as tensors ----------------------------------------------------------------------------------------

ELEMENT = MappingProxyType({1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"})
"""Element types by width: elements are moved, never computed with."""


Way: TypeAlias = Literal["load", "store", "read", "write"]
"""What a partition is of: chunks of the source, vectors of the destination, single elements of either."""


def tensor_of(k: KernelBuilder, stage: Stage, name: str, strides: Sequence[int]) -> Tensor:
    """A side of the problem by its modes, and behind them a mode of stride 1: elements along a run, or all
    of an element's place where it is no inner product.
    """
    steps = (*map(abs, strides), 1)
    return k.tensor(name, ELEMENT[stage.size], (None,) * len(steps), steps, writable=name == "dst")


def flat(tensor: Tensor, place: Expr) -> MemRef:
    """The element at a number of elements from the buffer's start."""
    return tensor.moved(*(0,) * (len(tensor.origin) - 1), place).at(0)


def partition_of(stage: Stage, tensor: Tensor, origins: Sequence[Operand], way: Way) -> Tensor:
    """A block's part of a side, by the numbers of its elements, chunks or vectors.

    Where a row of the source may be cut, its tile is one mode, the last: elements from the buffer's start.
    """
    run, offset, digits = {
        "load": (stage.src_run, stage.moves.src_offset, stage.chunk_digits),
        "store": (stage.dst_run, stage.moves.dst_offset, stage.vector_digits),
        "read": ((), stage.moves.src_offset, stage.element_digits),
        "write": ((), stage.moves.dst_offset, stage.element_digits),
    }[way]
    ragged = [m.extent if m.extent % t else None for m, t in zip(stage.modes, stage.tile, strict=True)]
    at, bounds = [*map(as_expr, origins), Const(offset)], [*ragged, None]
    for k in run:
        bounds[k] = None
        if way == "load" and (end := ragged[k]) is not None:
            inner = stage.src_length // stage.tile[k]
            at[k], at[-1], bounds[-1] = Const(0), at[-1] + origins[k] * inner, offset + end * inner
    return replace(
        tensor.moved(*at),
        extents=tuple(None if n is None else Const(n) for n in bounds),
        coordinates=coordinates(tuple(d for d in digits if d[0] > 1)),
    )


def staged_chunks(stage: Stage, tile: Shared, base: Operand) -> Tensor:
    """The block's bytes in shared memory, by the numbers of chunks that start where no row is skewed."""
    steps = (*stage.coefficients, stage.size)
    layout = tuple((n, step * steps[k], 0) for n, step, k in stage.chunk_digits if n > 1)
    return replace(whole(tile).moved(base * stage.size + stage.lead_bytes), coordinates=coordinates(layout))


def run_origins(stage: Stage, origins: Sequence[Operand], member: int) -> list[Operand]:
    """A block's origins, counted from run `member` of its groups."""
    first = stage.dst_rows[0] if member else -1
    return [origin + member if k == first else origin for k, origin in enumerate(origins)]
