"""The partition of a permute's tile: which chunk or vector is number x, and where it lies on either side.

The idea.  Every number is a coordinate of the tile by a layout of the stage, and a place is the coordinate's
inner product with strides: of the source, of the destination, or of the tile in shared memory.

    block_digits      block                  -> first coordinate of each mode
    chunk_digits      chunk                  -> coordinate of its row, and elements along it
    vector_digits     vector                 -> coordinate of its run, and elements along it
    run_layout        position in a run      -> bytes of shared memory

A `Part` is number x of such a layout, with the block's origin, the strides, and what bounds its coordinate.
Asked with arrays of all numbers it answers the chooser and the certificate; with an index expression it is
the element of a tensor, whose coordinate is proved when the kernel is built.

What rows add that start anywhere, run backwards or are cut is arithmetic that no layout does:

    a row's chunk        f(c) // chunk * chunk: where a row lies inside of a chunk depends on the row
    a run's vector       the same on the way out; a block owns the vectors that START in its tile, and stages
                         `lead` more coordinates in front, which its neighbour owns
    a backward mode      extent - 1 - c, where all numbers are >= 0 and c may pass the extent
    the ends of a run    which elements of a vector exist, where the tile or the tensor cuts it

Whatever is aligned, forward and uncut adds nothing: `simplify` proves it of expressions, and predicates that
always hold are not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from layoutalg.codegen.expr import Const, Expr, Select, as_expr, minus
from layoutalg.codegen.language import KernelBuilder, Tensor
from layoutalg.codegen.program import MemRef
from layoutalg.kernels.move.stage import Stage, coordinate_of, coordinates
from layoutalg.layout import Layout

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""


# --- rows that start anywhere: loading -----------------------------------------------------------------


def block_base(stage: Stage, origins: Sequence[Index]) -> Index:
    """Elements between a chunk's boundary and the first element of a block's tile, lead included.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((97, 99), (1, 0), "f32", src_offset=2))
    >>> block_base(Stage(x, PermuteConfig("staged", (97, 64), 256, 4, 1)), (0, 64))
    2
    """
    chunk = stage.config.chunk
    total: Index = stage.moves.src_offset
    for k, m in enumerate(stage.modes):
        if m.src < 0:
            total = total + (m.extent - 1) * -m.src % chunk
        if k == stage.last:
            total = total + -stage.lead * m.src % chunk
        total = total + origins[k] * (m.src % chunk)
    return total % chunk


def bent(stage: Stage, at: Sequence[Index]) -> list[Index]:
    """The coordinate of the source: along a mode that has a halo, or runs backwards, another one."""
    found = list(at)
    if stage.halo and not stage.row_lead:
        found[stage.last] = minus(at[stage.last], stage.lead)
    for k, m in enumerate(stage.modes):
        if m.src < 0:
            found[k] = minus(m.extent - 1, found[k])
    return found


def in_halo(stage: Stage, at: Sequence[Index]) -> list[Index]:
    """The predicates that a coordinate along the mode with a halo exists."""
    if not stage.halo or stage.row_lead or stage.held[stage.last] == 1:
        return []
    return [at[stage.last] >= stage.lead, at[stage.last] < stage.modes[stage.last].extent + stage.lead]


def in_row(stage: Stage, along: Index, start: Index, origins: Sequence[Index]) -> list[Index]:
    """The predicates that a chunk `along` a row that starts at `start` has elements of the row."""
    if not stage.src_run:
        return []
    last, chunk, exists = stage.src_run[-1], stage.config.chunk, list[Index]()
    m, inner = stage.modes[last], stage.src_length // stage.held[last]
    if not stage.src_aligned:
        exists.append(along < start % chunk + stage.src_length)
    if m.extent % stage.tile[last] or stage.row_lead:
        end = m.extent * inner + stage.row_lead
        exists.append(origins[last] * inner + along < start % chunk + end)
    return exists


def to_chunk(start: Index, chunk: int) -> Index:
    """The boundary in front of a row's start."""
    return start // chunk * chunk


# --- runs that start anywhere: storing -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ends:
    """The existing elements of a vector, `along` a run of the destination that starts at element `start`."""

    stage: Stage
    along: Index
    start: Index
    origins: Sequence[Index]

    @property
    def first(self) -> Index:
        """The vector's first element in the destination, swizzles aside."""
        unit = self.stage.unit
        return self.start // unit * unit + self.along

    @property
    def _lead(self) -> int:
        """Elements of the lead."""
        return self.stage.lead * self.stage.dst_inner

    def position(self, e: Index) -> Index:
        """Element e's position in the run, counted from the lead's first: never negative."""
        unit, position = self.stage.unit, self.along + e
        if self.stage.lead:  # e - start % unit + lead
            position = position + ((self.start % unit) ^ (unit - 1)) + (self._lead - (unit - 1))
        return position

    def after(self, e: int) -> tuple[Index, ...]:
        """The predicates that element e is not in front of what the block owns."""
        position = self.position(e)
        if self.stage.halo:
            return (position + self.origins[self.stage.last] * self.stage.dst_inner >= self._lead,)
        return (position >= self._lead,) if self.stage.lead else ()

    def before(self, e: int) -> tuple[Index, ...]:
        """The predicates that element e is not past what the block owns, nor past the tensor."""
        stage = self.stage
        if not stage.dst_run:
            return ()
        last, inner = stage.dst_run[-1], stage.dst_inner
        position, found = self.position(e), []
        if not stage.halo and stage.vectors * stage.config.vec != stage.dst_length:
            found.append(position < self._lead + stage.dst_length)
        if stage.halo or stage.modes[last].extent % stage.tile[last]:
            end = self._lead + stage.modes[last].extent * inner
            found.append(position + self.origins[last] * inner < end)
        return tuple(found)

    def exist(self, first: int, count: int = 1) -> tuple[Index, ...]:
        """The predicates that `count` elements from number `first` on exist, if the vector's run does."""
        return self.after(first) + self.before(first + count - 1)


def parts(stage: Stage) -> list[tuple[int, int]]:
    """(first element, elements) of what a vector is stored in where it is not whole: words, or elements.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((63, 65), (1, 0), "f16"))
    >>> parts(Stage(x, PermuteConfig("staged", (63, 64), 256, 8, 8)))
    [(0, 2), (2, 2), (4, 2), (6, 2)]
    """
    vec, word = stage.config.vec, max(1, 4 // stage.dst_size)
    count = word if vec > word else 1
    return [(first, count) for first in range(0, vec, count)]


MOVED = MappingProxyType({1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"})
"""Element types by width: elements are moved, never computed with."""

Way: TypeAlias = Literal["load", "store", "read", "write"]
"""The unit of a side: chunks of the source, vectors of the destination, single elements of either."""


@dataclass(frozen=True)
class Part:
    """Number `x`: its coordinate is origins + coordinates(x), it lies at the inner product with `strides`,
    and exists where that is below `bounds` (None: everywhere).

    >>> part = Part(5, (32, 0), coordinates(((4, 4, 1), (8, 1, 0))), (1, 64), (None, None))
    >>> part.coordinate, part.place
    ((33, 4), 289)
    """

    x: Index
    origins: tuple[Index, ...]
    coordinates: Layout
    strides: tuple[int, ...]
    bounds: tuple[int | None, ...]

    @cached_property
    def steps(self) -> tuple[Index, ...]:
        """The coordinate, counted from the origins."""
        return coordinate_of(self.coordinates, self.x, len(self.origins))

    @cached_property
    def coordinate(self) -> tuple[Index, ...]:
        """The coordinate in the tensor."""
        return tuple(origin + step for origin, step in zip(self.origins, self.steps, strict=True))

    @property
    def place(self) -> Index:
        """The place of the part, at the inner product of coordinate and strides."""
        return inner(self.coordinate, self.strides)

    @property
    def exists(self) -> tuple[Index, ...]:
        """The predicates that it exists."""
        at = zip(self.coordinate, self.bounds, strict=True)
        return tuple(c < bound for c, bound in at if bound is not None)

    def of(self, tensor: Tensor) -> MemRef:
        """The element of a tensor with these strides; x is an expression."""
        view = replace(
            tensor.moved(*self.origins),
            extents=tuple(None if bound is None else Const(bound) for bound in self.bounds),
            coordinates=self.coordinates,
        )
        return view.at(self.x)


def inner(at: Sequence[Index], strides: Sequence[int]) -> Index:
    """The inner product of a coordinate with strides."""
    total: Index = 0
    for i, d in zip(at, strides, strict=True):
        total = total + i * d if d else total
    return total


def block_origins(stage: Stage, block: Index) -> tuple[Index, ...]:
    """First coordinate of each mode that a block owns.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> block_origins(Stage(x, PermuteConfig("staged", (32, 32), 256, 4, 4)), 1)
    (32, 0)
    """
    return coordinate_of(coordinates(stage.block_digits), block, stage.moves.rank)


def run_origins(stage: Stage, origins: Sequence[Index], member: int) -> tuple[Index, ...]:
    """A block's origins, counted from run `member` of its groups."""
    first = stage.dst_rows[0] if member else -1
    return tuple(origin + member if k == first else origin for k, origin in enumerate(origins))


def part_of(stage: Stage, x: Index, origins: Sequence[Index], way: Way) -> Part:
    """Number x of a block's part of a side.

    Behind the modes is one of stride 1: elements along a row or run, from the buffer's start on.  Where a row
    of a straight source may be cut, its mode counts there too.
    """
    moves, source = stage.moves, way in ("load", "read")
    run, digits = {
        "load": (stage.src_run, stage.chunk_digits),
        "store": (stage.dst_run, stage.vector_digits),
        "read": ((), stage.element_digits),
        "write": ((), stage.element_digits),
    }[way]
    offset = moves.src_offset if source else moves.dst_offset
    ragged = [m.extent if m.extent % t else None for m, t in zip(stage.modes, stage.tile, strict=True)]
    at, bounds = [*origins, offset], [*ragged, None]
    for k in (*run, stage.last) if way == "load" and stage.halo else run:
        bounds[k] = None
        if way == "load" and stage.is_straight and (end := ragged[k]) is not None:
            step = stage.modes[k].src
            at[k], at[-1], bounds[-1] = 0, at[-1] + origins[k] * step, offset + end * step
    strides = stage.src_strides if source else stage.dst_strides
    return Part(x, tuple(at), coordinates(digits), (*strides, 1), tuple(bounds))


# --- chunks, elements, vectors --------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """Chunk x of a block's tile, whose first element is `base` elements past a chunk's boundary.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> chunk = Load(Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)), 17, (0, 0), 0)
    >>> chunk.source, chunk.place, chunk.exists, chunk.inside
    (68, 272, (), None)
    """

    stage: Stage
    x: Index
    origins: Sequence[Index]
    base: Index

    @cached_property
    def part(self) -> Part:
        """The chunk's part of the source, its row straight."""
        return part_of(self.stage, self.x, self.origins, "load")

    @cached_property
    def tile(self) -> Part:
        """The chunk's part of shared memory, in bytes, its row straight; rows count from their leads."""
        stage = self.stage
        steps = (*stage.coefficients, stage.size)
        layout = coordinates(tuple((n, step * steps[k], 0) for n, step, k in stage.chunk_digits))
        return Part(self.x, (self.base * stage.size + stage.lead_bytes,), layout, (1,), (None,))

    @cached_property
    def _start(self) -> Index:
        """The start of its row in the source, plus `_ahead` elements."""
        at = bent(self.stage, self.part.coordinate[:-1])
        more = self._ahead - self.stage.row_lead
        return self.stage.moves.src_offset + more + inner(at, self.stage.src_strides)

    @property
    def _ahead(self) -> int:
        """The halo in front of a row, in whole chunks, so that no start is negative."""
        chunk = self.stage.config.chunk
        return -(-self.stage.row_lead // chunk) * chunk

    @property
    def _first(self) -> Index:
        """Its first element in the source, `_ahead` further."""
        return to_chunk(self._start, self.stage.config.chunk) + self.part.steps[-1]

    @cached_property
    def source(self) -> Index:
        """Its first element in the source."""
        if self.stage.is_straight:
            return self.part.place
        first = minus(self._first, self._ahead) if self._ahead else self._first
        return self.stage.moves.src_swizzle(first)

    @property
    def place(self) -> Index:
        """Its first byte of the tile: a row starts as far behind a chunk's boundary as in memory."""
        stage = self.stage
        if stage.src_aligned:
            return self.tile.place
        *row, along = self.part.steps
        start = inner(row, stage.coefficients) + self.tile.origins[0]
        return to_chunk(start, stage.chunk_bytes) + along * stage.size

    @property
    def exists(self) -> tuple[Index, ...]:
        """The predicates that it exists."""
        if self.stage.is_straight:
            return self.part.exists
        (*at, _), along = self.part.coordinate, self.part.steps[-1]
        rows = (*in_halo(self.stage, at), *self.part.exists)
        if self._ahead:
            rows = (*rows, self._first >= self._ahead)
        return (*rows, *in_row(self.stage, along, self._start, self.origins))

    @property
    def inside(self) -> Index | None:
        """The predicate that all of it lies inside of the source's buffer; None where it always does."""
        end, chunk = self.stage.moves.src_elems, self.stage.config.chunk
        return None if end % chunk == 0 else self.source + chunk <= end


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
    moves, there = stage.moves, part_of(stage, x, origins, "write")
    source = moves.src_offset + inner(bent(stage, there.coordinate[:-1]), stage.src_strides)
    return moves.src_swizzle(source), moves.dst_swizzle(there.place), there.exists


@dataclass(frozen=True)
class Store:
    """Vector x of a block's tile: its elements go to `target` and on.

    Where its run exists (`part.exists`) its `ends` say which of its elements do.  Of a group of runs it is
    the one that the origins are counted from (`run_origins`).

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

    @cached_property
    def part(self) -> Part:
        """The vector's part of the destination, its run straight."""
        return part_of(self.stage, self.x, self.origins, "store")

    @cached_property
    def ends(self) -> Ends:
        """The existing elements of the vector."""
        *at, _ = self.part.coordinate
        start = self.stage.moves.dst_offset + inner(at, self.stage.dst_strides)
        return Ends(self.stage, self.part.steps[-1], start, self.origins)

    @property
    def target(self) -> Index:
        """The destination of the vector's first element."""
        return self.stage.moves.dst_swizzle(self.ends.first)

    def place(self, e: Index) -> Index:
        """The byte of the tile where element e is staged, in the first run of a group.

        Elements that are whole turns of the inner modes apart differ by a constant.
        """
        stage = self.stage
        if not stage.dst_run:
            return self._row_place
        turns, e = divmod(e, stage.dst_inner)
        along = stage.run_layout(self.ends.position(e))
        return self._row_place + along + turns * stage.coefficients[stage.dst_run[-1]]

    @cached_property
    def carries(self) -> Carries | None:
        """The carries by which elements' places follow from the first one's; None where they are constant."""
        run, first = self.stage.dst_run, self.ends.position(0)
        if len(run) < 2 or not isinstance(first, Expr) or self.stage.tile[run[0]] == 1:
            return None
        tile, steps = self.stage.tile, self.stage.coefficients
        rows = Layout(tuple(tile[k] for k in run[1:]), tuple(steps[k] for k in run[1:]))
        extent, last = tile[run[0]], self.stage.config.vec - 1
        row = first // extent
        return Carries(
            as_expr(first % extent),
            tuple(as_expr(self._row_place + rows(row + n)) for n in range((last + extent - 1) // extent + 1)),
            extent,
            steps[run[0]],
        )

    @cached_property
    def _row_place(self) -> Index:
        """The byte of the tile where the run starts."""
        return self.base * self.stage.size + inner(self.part.steps[:-1], self.stage.coefficients)


@dataclass(frozen=True)
class Carries:
    """A vector along a run of several modes: `digit` is its first element's coordinate along the first mode,
    of `extent` coordinates `step` bytes apart; `rows` is where the run's rows start that it touches.

    An element is in the row that its number says or, where the digit is carried, in the next one.  So rows
    are computed once for all elements.
    """

    digit: Expr
    rows: tuple[Expr, ...]
    extent: int
    step: int

    def place(self, e: int) -> Expr:
        """The byte of the tile where element e is staged."""
        row, along = divmod(e, self.extent)
        at = self.digit + along
        here = self.rows[row] + at * self.step
        if not along:
            return here
        there = self.rows[row + 1] + minus(at, self.extent) * self.step
        return Select(at < self.extent, here, there)


# --- as tensors ----------------------------------------------------------------------------------------


def tensor_of(k: KernelBuilder, stage: Stage, name: Literal["src", "dst"]) -> Tensor:
    """A side of the problem by its modes, and behind them a mode of stride 1: elements along a run, or all
    of an element's place where it is no inner product.
    """
    strides, size = {"src": (stage.src_strides, stage.size), "dst": (stage.dst_strides, stage.dst_size)}[name]
    steps = (*strides, 1)
    return k.tensor(name, MOVED[size], (None,) * len(steps), steps, writable=name == "dst")


def flat(tensor: Tensor, place: Expr) -> MemRef:
    """The element at a number of elements from the buffer's start."""
    return tensor.moved(*(0,) * (len(tensor.origin) - 1), place).at(0)
