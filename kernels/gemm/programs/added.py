"""The matrix that an epilogue adds, in the boxes that results leave from.

TMA brings C into the very places of shared memory from which it then stores D: boxes of both have one layout.
A consumer's first thread asks for the boxes of its tile under the tile's first wgmma, once the stores of the
tile before have been read; for a box whose place another one of the tile has before it, once that was stored.
All threads wait for a box at its mbarrier, a phase of which is a box in that place:

    thread 0    the last tile's stores are read: expect, load C of boxes 0 and 1    -> added[0], added[1]
    all         wait added[0]; sums += beta C; D over C       thread 0    store D; load C of box 2 there

Where beta is 0 nothing is brought and nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from layoutalg.codegen.expr import Expr
from layoutalg.codegen.language import KernelBuilder, Tensor, local_tile, whole
from layoutalg.codegen.program import BarrierRef, Mbarrier
from layoutalg.kernels.gemm.epilogue import AddMatrix, Output, nonzero
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.tiles import Sm90Config


class Box(NamedTuple):
    """A box of a consumer's part of a tile: where it begins there, its columns, the number of its place among
    those of its width; how many boxes of the tile had this place before it, and have it in all; and how many
    were stored since the last of them."""

    row: int
    column: int
    columns: int
    place: int
    before: int
    uses: int
    since: int


def boxes_of(rows: int, widths: Sequence[int], places: Mapping[int, int]) -> list[Box]:
    """The boxes of so many rows of a tile in the order in which they leave; `places` of each width are taken
    in turn.

    >>> [box[3:] for box in boxes_of(64, (64, 64, 64, 32), {64: 2, 32: 1})]
    [(0, 0, 2, 0), (1, 0, 1, 0), (0, 1, 2, 1), (0, 0, 1, 0)]
    """
    found = [(row, sum(widths[:q]), x) for row in range(0, rows, 64) for q, x in enumerate(widths)]
    numbers = [sum(x == columns for *_, x in found[:i]) for i, (*_, columns) in enumerate(found)]
    used = [(columns, n % places[columns]) for (*_, columns), n in zip(found, numbers, strict=True)]
    boxes = []
    for i, (at, place) in enumerate(zip(found, used, strict=True)):
        since = used[:i][::-1].index(place) if place in used[:i] else 0
        boxes.append(Box(*at, place[1], used[:i].count(place), used.count(place), since))
    return boxes


class Added:
    """The added matrix in a kernel that is being written: its maps and mbarriers, one per place of a box.

    `order` are the boxes of a consumer's part of a tile and `ring` gives the place of one in shared memory;
    by their columns `shapes` are their extents in D, and `places` the numbers of places of a consumer; `in_d`
    makes a place in D of one in the tiles.
    """

    def __init__(
        self, k: KernelBuilder, p: GemmProblem, c: Sm90Config, output: Output, extents: tuple[Expr, ...],
        order: Sequence[Box], shapes: Mapping[int, tuple[int, ...]], places: Mapping[int, int],
        ring: Callable[[Box], Tensor], in_d: Callable[[Expr, Expr], tuple[Expr, Expr]],
    ) -> None:  # fmt: skip
        (step,) = (step for step in p.epilogue.steps if isinstance(step, AddMatrix))
        self.k, self.order, self.shapes, self.places, self.ring = k, order, shapes, places, ring
        self.in_d = in_d
        self.wanted = nonzero(output.scalars[step.factor], output.number)
        self.source, self.size = whole(output.buffers[step.name], p.result, extents), p.result.nbytes
        self.maps, self.came = {}, dict[int, Mbarrier]()
        for columns, box in shapes.items():
            own, swizzle = "" if columns == max(shapes) else str(columns), f"{box[-1] * self.size}B"
            self.maps[columns] = k.tensor_map(f"add{own}", self.source, box, mode=swizzle)
            self.came[columns] = k.mbarrier(f"added{own}", 1, c.consumers * places[columns])

    def early(self, corner: tuple[Expr, Expr], lead: tuple[Expr, ...]) -> None:
        """Ask for the boxes that find their places free, once the tile before has left shared memory."""
        with self.k.If((self.k.thread % 128).eq(0)):
            self.k.bulk_wait(0, read=True)
            for box in self.order:
                if not box.before:
                    self.bring(box, corner, lead)

    def bring(self, box: Box, corner: tuple[Expr, Expr], lead: tuple[Expr, ...]) -> None:
        """Start the copy of a box of the tile at `corner` of the product at `lead`; one thread does."""
        k, shape = self.k, self.shapes[box.columns]
        here = local_tile(self.source, shape, (0,) * len(shape))
        with k.If(self.wanted):
            k.expect(self._came(box), shape[-2] * shape[-1] * self.size)
            here = here.moved(*lead, *self.in_d(corner[0] + box.row, corner[1] + box.column))
            k.tma_load(self.maps[box.columns], here, self.ring(box), self._came(box))

    def wait(self, box: Box, nth: Expr) -> None:
        """Wait for a box of the consumer's tile number `nth`."""
        with self.k.If(self.wanted):
            self.k.wait(self._came(box), (nth * box.uses + box.before) % 2)

    def _came(self, box: Box) -> BarrierRef:
        return self.came[box.columns][self.k.thread // 128 * self.places[box.columns] + box.place]
