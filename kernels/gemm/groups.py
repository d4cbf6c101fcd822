"""Grouped products: rows of A in groups, one after the other, each multiplied by a B of its own.

    D[r] = epilogue(A[r] B[g])      for the rows r of group g

The idea.  Each group is cut into tiles of rows, the last of which may be ragged; the tiles of all groups are
numbered through.  What says where groups begin are words of the launch, as alpha is: sizes are neither built
into a kernel nor in its plan, and nothing is uploaded.

    begin[g]    the first row of group g
    opens[g]    the number of its first tile

Tile t is of the last group g with opens[g] <= t, and has the rows

    begin[g] + (t - opens[g]) * high  to  min(the same + high, begin[g + 1])

3 groups of 100, 0 and 130 rows in tiles of 64:

    begin    0  100  100  230
    opens    0    2    2    5       tiles 0, 1 are of group 0, tiles 2 to 4 of group 2

Loads by TMA start at any row and may run into the next group, whose rows are multiplied and not stored.
Results go through shared memory in boxes of 64 rows; a box whose rows are all of the group leaves by TMA,
another by threads, which the end of the group bounds.  Tiles are walked in panels of columns, down all
groups, so that blocks of one time share the few columns of a B.

Notes.  Finding the group takes five instructions per group that the kernel has room for: rooms are powers of
two up to MOST_TOGETHER, and more groups are several launches.  Of a group one box in a column of boxes leaves
by threads, so that maps of boxes of fewer rows, or a map per group, would have little left to gain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from layoutalg.codegen.expr import Const, Expr, Select, Var, minus
from layoutalg.codegen.language import KernelBuilder
from layoutalg.errors import ShapeError, shown
from layoutalg.kernels.gemm.problem import BatchMode, GemmProblem
from layoutalg.kernels.gemm.rasterize import below

BOX_ROWS = 64
"""The rows of a box of results that TMA stores, and of a wgmma."""

LEAST_ROOM, MOST_TOGETHER = 4, 64
"""The most groups of a kernel: its parameters and its instructions grow with them."""


def grouped(p: GemmProblem, groups: int, step: int) -> GemmProblem:
    """The product whose m rows are those of so many groups, each with a B, `step` elements from one to the
    next.  Raises ShapeError for an invalid number of groups, a step that is less than a B, and a batch.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(grouped(gemm_problem(4096, 512, 256), 8, 512 * 256))
    4096 x 512 x 256 f16 TN in 8 groups
    """
    for name, value in (("groups", groups), ("step", step)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ShapeError(f"{name} = {shown(value)}: a positive integer is needed")
    if p.batch:
        raise ShapeError(f"{p} in groups: rows of one product are grouped, not those of a batch")
    if step < p.b_elems:
        raise ShapeError(f"step = {step}: a B has {p.b_elems} elements, and the next one begins behind it")
    return replace(p, batch=(BatchMode(groups, b=step),), grouped=True)


def room_for(groups: int) -> int:
    """Groups that the kernel for so many has room for.

    >>> room_for(1), room_for(8), room_for(9)
    (4, 8, 16)
    """
    return max(LEAST_ROOM, 1 << (groups - 1).bit_length())


def most_row_tiles(m: int, groups: int, high: int) -> int:
    """Tiles of rows that m rows in so many groups are cut into at most.

    >>> most_row_tiles(230, 3, 64)
    6
    """
    return m // high + min(groups, m)


def equal_sizes(m: int, groups: int) -> list[int]:
    """m rows in groups of one size, or of two where they do not divide: the first ones have a row more.

    >>> equal_sizes(8, 3)
    [3, 3, 2]
    """
    each, more = divmod(m, groups)
    return [each + (g < more) for g in range(groups)]


def drawn_sizes(m: int, groups: int, rng: Random) -> list[int]:
    """m rows in groups that differ by up to a factor of ten.

    >>> sum(drawn_sizes(1000, 7, Random(1)))
    1000
    """
    weights = [10 ** rng.random() for _ in range(groups)]
    sizes = [int(m * weight / sum(weights)) for weight in weights]
    sizes[-1] += m - sum(sizes)
    return sizes


def group_begins(sizes: Sequence[int]) -> dict[str, int]:
    """Return those words of a launch for groups of these sizes that do not depend on the tile.

    >>> group_begins([100, 0])["begin1"]
    100
    """
    return {name: row for name, row in group_words(sizes, 1).items() if name.startswith("begin")}


def sizes_of(words: Mapping[str, Any], groups: int) -> list[int]:
    """The sizes that words tell of.

    >>> sizes_of(group_begins([100, 0, 130]), 3)
    [100, 0, 130]
    """
    return [words[f"begin{g + 1}"] - words[f"begin{g}"] for g in range(groups)]


class Boxes(NamedTuple):
    """Boxes of results of a column of tiles: those that leave by TMA, and those that threads store."""

    whole: int
    cut: int


def group_boxes(sizes: Sequence[int]) -> Boxes:
    """The boxes of BOX_ROWS rows that have some of groups of these sizes, in one column of boxes.

    >>> group_boxes([130, 0, 64, 1])
    Boxes(whole=3, cut=2)
    """
    whole = sum(size // BOX_ROWS for size in sizes)
    return Boxes(whole, sum(-(-size // BOX_ROWS) for size in sizes) - whole)


def group_words(sizes: Sequence[int], high: int, start: int = 0) -> dict[str, int]:
    """Return the words of a launch for groups of these sizes, up to MOST_TOGETHER, in tiles of `high` rows.

    >>> words = group_words([100, 0, 130], 64)
    >>> [words[f"begin{g}"] for g in range(5)], [words[f"opens{g}"] for g in range(1, 5)]
    ([0, 100, 100, 230, 230], [2, 2, 5, 5])
    """
    whole = [*sizes, *[0] * (room_for(len(sizes)) - len(sizes))]
    begins = accumulate(whole, initial=start)
    opens = accumulate((-(-size // high) for size in whole), initial=0)
    words = {f"begin{g}": row for g, row in enumerate(begins)}
    words |= {f"opens{g}": tile for g, tile in enumerate(opens) if g}
    return words


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups in a kernel: their words, and the tiles of rows of all of them.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> k = KernelBuilder("groups", threads=32)
    >>> p = grouped(gemm_problem(4096, 512, 256), 3, 512 * 256)
    >>> some = Groups.declare(k, p, k.param("m", p.m), 128)
    >>> [str(x) for x in some.opens], some.tiles.facts.hi
    (['0', 'opens1', 'opens2', 'opens3'], 63)
    """

    begins: tuple[Expr, ...]
    opens: tuple[Expr, ...]
    tiles: Expr
    rows: Var
    high: int

    @classmethod
    def declare(cls, k: KernelBuilder, p: GemmProblem, m: Var, high: int) -> Groups:
        """Declare the words of a problem's groups, of `m` rows in tiles of `high`."""
        room = room_for(p.products)
        begins = [k.word(f"begin{g}", f"the first row of group {g}") for g in range(room + 1)]
        opens = [k.word(f"opens{g}", f"the first tile of group {g}") for g in range(1, room + 1)]
        tiles = minus(below(opens[-1], most_row_tiles(p.m, room, high)), 1) + 1  # one at least
        return cls(tuple(begins), (Const(0), *opens[:-1]), tiles, m, high)

    def find(self, k: KernelBuilder, tile: Var) -> tuple[Expr, Expr, Expr]:
        """The group of a tile of rows, its first row, and the row behind the last one of the group: rows that
        D has, for all words."""
        group: Expr = Const(0)
        begin, opens, end = self.begins[0], self.opens[0], self.begins[1]
        for g, (begins, opened) in enumerate(zip(self.begins, self.opens, strict=False)):
            if g == 0:
                continue
            here = opened <= tile
            group = k.let(f"group_{g}", Select(here, Const(g), group))
            begin = k.let(f"begin_{g}", Select(here, begins, begin))
            opens = k.let(f"opens_{g}", Select(here, opened, opens))
            end = k.let(f"end_{g}", Select(here, self.begins[g + 1], end))
        first = below(begin, self.rows.facts.hi) + minus(tile, opens) * self.high
        end = below(Select(end < self.rows, end, self.rows), self.rows.facts.hi)
        return k.let("group", group), k.let("first", first), k.let("end", end)
