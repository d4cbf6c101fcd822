"""Where chunk x and vector x of a permute's tile lie: arithmetic for ints, arrays and expressions alike.

The idea.  The kernel calls these functions on its thread's index, the prediction on arrays of all of them:
what is predicted is what is printed.

    origins       first coordinate of each mode that a block owns
    base          elements between a chunk's boundary and the tile's first element
    load, store   the chunk or vector number x: where in global, where in shared memory, when it exists

Notes.  Index values are >= 0: `minus` stops at 0, where the chunk or the element does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from layoutalg.codegen.expr import minus
from layoutalg.kernels.move.stage import Stage

Index: TypeAlias = Any
"""An int, an integer array or an index expression."""


def digits(x: Index, extents: Sequence[int]) -> list[Index]:
    """The digits of x in a mixed radix, lowest first.

    >>> digits(23, (2, 3, 5))
    [1, 2, 3]
    """
    found = []
    for n in extents[:-1]:
        found.append(x % n)
        x = x // n
    return [*found, x] if extents else []


def block_origins(stage: Stage, block: Index) -> list[Index]:
    """First coordinate of each mode that a block owns.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> block_origins(Stage(x, PermuteConfig("staged", (32, 32), 256, 4, 4)), 1)
    [32, 0]
    """
    tiles = dict(zip(stage.walk, digits(block, [stage.counts[k] for k in stage.walk]), strict=True))
    return [tiles[k] * t for k, t in enumerate(stage.tile)]


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
    """Chunk x of the tile of a block.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> load_chunk(Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)), 17, (0, 0), 0).source
    68
    """
    chunk, moves = stage.config.chunk, stage.moves
    piece, *rows = digits(x, (stage.chunks, *(stage.held[k] for k in stage.src_rows)))
    row = dict(zip(stage.src_rows, rows, strict=True))
    start: Index = moves.src_offset
    place: Index = base * stage.size
    exists: list[Index] = []
    for k, m in enumerate(stage.modes):
        if not m.src:
            continue
        i = row.get(k, 0)
        at = origins[k] + i
        ahead = k == stage.last
        if ahead and stage.halo:
            exists += [at >= stage.lead, at < m.extent + stage.lead]
            at = minus(at, stage.lead)
        elif k in row and m.extent % stage.tile[k]:
            exists.append(at < m.extent)
        place = place + (i + stage.lead if ahead and not stage.halo else i) * stage.coefficients[k]
        start = start + (minus(m.extent - 1, at) if m.src < 0 else at) * abs(m.src)
    if stage.src_run:
        last = stage.src_run[-1]
        inner = stage.src_length // stage.tile[last]
        m = stage.modes[last]
        if not stage.src_aligned:
            exists.append(piece * chunk < start % chunk + stage.src_length)
        if m.extent % stage.tile[last]:
            exists.append(origins[last] * inner + piece * chunk < start % chunk + m.extent * inner)
    source = moves.src_swizzle(start // chunk * chunk + piece * chunk)
    inside = None if moves.src_elems % chunk == 0 else source + chunk <= moves.src_elems
    aligned = place // stage.chunk_bytes * stage.chunk_bytes
    return Load(source, aligned + piece * stage.chunk_bytes, tuple(exists), inside)


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
    source: Index = stage.moves.src_offset
    target: Index = stage.moves.dst_offset
    exists: list[Index] = []
    for m, t, o, i in zip(stage.modes, stage.tile, origins, digits(x, stage.tile), strict=True):
        at = o + i
        if m.extent % t:
            exists.append(at < m.extent)
        target = target + at * m.dst
        source = source + (minus(m.extent - 1, at) if m.src < 0 else at) * abs(m.src)
    return (
        stage.moves.src_swizzle(source),
        stage.moves.dst_swizzle(target),
        tuple(exists),
    )


@dataclass(frozen=True)
class Store:
    """Vector x of a block's tile, of run `member` of its group: its elements go to `target` and on.

    Where its run exists (`row`) and it is not `whole`, the pieces of it that exist are stored.

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
    def _coordinates(self) -> tuple[Index, dict[int, Index]]:
        """The vector of its run, and the coordinate in the tile of each mode that counts the runs."""
        stage = self.stage
        extents = [stage.tile[k] for k in stage.dst_rows]
        if stage.lanes == stage.vectors:
            if extents:
                extents[0] //= stage.group
            order: tuple[int, ...] = (stage.vectors, *extents)
            found = digits(self.x, order)
            w, *rows = found if order[-1] > 1 else [*found[:-1], 0]  # whatever threads without a vector have
        else:
            apart, first = stage.word_rows, extents[0] // stage.group
            order = (stage.lanes, first // apart, apart, stage.vectors // stage.lanes, *extents[1:])
            low, up, word, high, *others = digits(self.x, order)
            w, rows = low + high * stage.lanes, [up * apart + word, *others]
        if stage.group > 1:
            rows[0] = rows[0] * stage.group + self.member
        return w, dict(zip(stage.dst_rows, rows, strict=True))

    @cached_property
    def _start(self) -> Index:
        """Where the run starts in the destination, swizzles aside."""
        _, row = self._coordinates
        start: Index = self.stage.moves.dst_offset
        for k, m in enumerate(self.stage.modes):
            start = start + (self.origins[k] + row.get(k, 0)) * m.dst
        return start

    @property
    def row(self) -> tuple[Index, ...]:
        """The predicates that the run exists."""
        stage, (_, row) = self.stage, self._coordinates
        return tuple(
            self.origins[k] + i < stage.modes[k].extent
            for k, i in row.items()
            if stage.modes[k].extent % stage.tile[k]
        )

    @property
    def target(self) -> Index:
        """The destination of the vector's first element."""
        vec = self.stage.config.vec
        aligned = self._start // vec * vec + self._coordinates[0] * vec
        return self.stage.moves.dst_swizzle(aligned)

    @property
    def _ahead(self) -> int:
        """Elements of the lead."""
        return self.stage.lead * self.stage.dst_inner

    def _position(self, e: int) -> Index:
        """Element e's position in the run, counted from the lead's first: never negative."""
        stage, vec = self.stage, self.stage.config.vec
        position = self._coordinates[0] * vec + e
        if stage.lead:  # e - start % vec + ahead
            position = position + ((self._start % vec) ^ (vec - 1)) + (self._ahead - (vec - 1))
        return position

    def place(self, e: int) -> Index:
        """The byte of the tile where element e is staged.

        Elements that are whole turns of the inner modes apart differ by a constant.
        """
        stage, (_, row) = self.stage, self._coordinates
        total: Index = self.base * stage.size
        for k, i in row.items():
            total = total + i * stage.coefficients[k]
        if not stage.dst_run:
            return total
        turns, e = divmod(e, stage.dst_inner)
        parts = digits(self._position(e), [stage.tile[k] for k in stage.dst_run])
        for k, i in zip(stage.dst_run, parts, strict=True):
            total = total + i * stage.coefficients[k]
        return total + turns * stage.coefficients[stage.dst_run[-1]]

    def after(self, e: int) -> tuple[Index, ...]:
        """What says that element e is not in front of what the block owns."""
        position = self._position(e)
        if self.stage.halo:
            return (position + self.origins[self.stage.last] * self.stage.dst_inner >= self._ahead,)
        return (position >= self._ahead,) if self.stage.lead else ()

    def before(self, e: int) -> tuple[Index, ...]:
        """What says that element e is not past what the block owns, nor past the tensor."""
        stage = self.stage
        if not stage.dst_run:
            return ()
        last, inner = stage.dst_run[-1], stage.dst_inner
        position, found = self._position(e), []
        if not stage.halo and stage.vectors * stage.config.vec != stage.dst_length:
            found.append(position < self._ahead + stage.dst_length)
        if stage.halo or stage.modes[last].extent % stage.tile[last]:
            end = self._ahead + stage.modes[last].extent * inner
            found.append(position + self.origins[last] * inner < end)
        return tuple(found)

    @property
    def whole(self) -> tuple[Index, ...]:
        """The predicates that all elements of the vector exist, if its run does."""
        return self.all_of(0, self.stage.config.vec)

    def all_of(self, first: int, count: int) -> tuple[Index, ...]:
        """The predicates that `count` elements from `first` on exist, if the vector's run does."""
        return self.after(first) + self.before(first + count - 1)

    def exists(self, e: int) -> tuple[Index, ...]:
        """The predicates that element e exists, if its run does."""
        return self.after(e) + self.before(e)


def pieces(stage: Stage) -> list[tuple[int, int]]:
    """(first element, elements) of what a vector is stored in where it is not whole: words, or elements.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((63, 65), (1, 0), "f16"))
    >>> pieces(Stage(x, PermuteConfig("staged", (63, 64), 256, 8, 8)))
    [(0, 2), (2, 2), (4, 2), (6, 2)]
    """
    vec, word = stage.config.vec, max(1, 4 // stage.size)
    count = word if vec > word else 1
    return [(first, count) for first in range(0, vec, count)]
