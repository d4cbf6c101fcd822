"""Predictions: what every access of a launch costs, before anything runs.

Full tiles are counted in closed form on their layouts (`analyze`) and multiplied by their number.  Tiles
that stick out of the matrix are few; they are counted by the enumerated definition, address by address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from layoutalg.analysis import (
    Access,
    SharedReport,
    analyze,
    batch_lanes,
    served_batch,
    traffic_batch,
    warp_rule,
)
from layoutalg.arch import Arch, Space, find_arch, find_instruction
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.layout import AnyLayout, Layout, product


@dataclass(frozen=True, slots=True)
class Cost:
    """What one kind of access costs in a launch: wavefronts for shared memory, sectors for global.

    `ideal` is the least that any layout could cost.  Costs add up field by field.

    >>> Cost(2, 8, 8) + Cost(1, 5, 4)
    Cost(instructions=3, total=13, ideal=12)
    """

    instructions: int
    total: int
    ideal: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.instructions + other.instructions, self.total + other.total, self.ideal + other.ideal
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(self.instructions * times, self.total * times, self.ideal * times)


Prediction: TypeAlias = Mapping[str, Cost]
"""Cost by the instruction's analysis name, such as "st.shared.b32"; only what is executed is listed."""


@dataclass(slots=True)
class Costs:
    """Adds up the costs of a launch by instruction."""

    arch: str | Arch = "sm_90"
    found: dict[str, Cost] = field(default_factory=dict)

    def add(self, op: str, cost: Cost) -> None:
        """Add a cost to an instruction's sum."""
        self.found[op] = self.found.get(op, Cost(0, 0, 0)) + cost

    def tile(self, layout: AnyLayout, access: Access) -> None:
        """Add an access of one full tile, in closed form."""
        report = analyze(layout, access, arch=self.arch)
        if isinstance(report, SharedReport):
            cost = Cost(report.instructions, report.total, report.ideal_total)
        else:
            cost = Cost(report.instructions, report.sectors, report.ideal)
        self.add(access.op, cost)

    def times(self, n: int) -> None:
        """Multiply everything so far by a number of tiles."""
        self.found = {op: cost * n for op, cost in self.found.items()} if n else {}

    def lanes(self, op: str, space: Space, addresses: Any, active: Any) -> None:
        """Add instructions given by their byte addresses and active lanes, both (count, lanes)."""
        ran = active.any(axis=1)
        if not ran.any():
            return
        rule, machine = warp_rule(op, space, self.arch)
        checked = batch_lanes(rule, machine, addresses[ran] * active[ran], active[ran])
        if space == "shared":
            cost, ideal = served_batch(rule, machine, *checked)
        else:
            cost, _, useful = traffic_batch(rule, machine, *checked).T
            ideal = -(-useful // machine.sector_bytes)
        self.add(op, Cost(int(ran.sum()), int(cost.sum()), int(ideal.sum())))

    def include(self, other: Costs) -> None:
        """Add everything another sum has found."""
        for op, cost in other.found.items():
            self.add(op, cost)

    def prediction(self) -> Prediction:
        """The sums, by instruction."""
        return MappingProxyType(dict(sorted(self.found.items())))


def describe(prediction: Prediction) -> list[str]:
    """The prediction as lines of text for a header comment.

    >>> describe({"st.shared.b32": Cost(128, 128, 128)})
    ['  st.shared.b32     128 instructions    128 wavefronts (ideal 128)']
    """
    return [
        f"  {op:15}{cost.instructions:6} instructions {cost.total:6} "
        f"{'wavefronts' if _is_shared(op) else 'sectors'} (ideal {cost.ideal})"
        for op, cost in prediction.items()
    ]


def _is_shared(op: str) -> bool:
    return find_instruction(op, find_arch("sm_90")).space == "shared"


@dataclass(frozen=True, slots=True)
class EdgeWalk:
    """Where the lanes of edge tiles are: all arrays are (instructions, 32).

    `row`, `column` are the place in the tile, `m`, `n` in the matrix; `active` is m, n inside.
    """

    row: Any
    column: Any
    m: Any
    n: Any
    active: Any


def edge_tiles(p: MatrixProblem, tile_m: int, tile_n: int) -> list[tuple[int, int]]:
    """The tiles, by row and column of tiles, that stick out of the matrix.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> edge_tiles(matrix_problem(130, 64, "f32", turned=True), 64, 64)
    [(2, 0)]
    """
    full_m, full_n = p.m // tile_m, p.n // tile_n
    below = [(i, j) for i in range(full_m, -(-p.m // tile_m)) for j in range(-(-p.n // tile_n))]
    return below + [(i, j) for i in range(full_m) for j in range(full_n, -(-p.n // tile_n))]


def edge_walks(p: MatrixProblem, tile_m: int, tile_n: int, row: Any, column: Any) -> Iterator[EdgeWalk]:
    """Each edge tile in turn, its threads at `row`, `column` of the tile: arrays (steps, threads).

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> p = matrix_problem(9, 8, "f32", turned=True)
    >>> [int(e.active.sum()) for e in edge_walks(p, 8, 8, *element_steps(8, 8, 32, along_n=True))]
    [8]
    """
    row, column = row.reshape(-1, 32), column.reshape(-1, 32)
    for i, j in edge_tiles(p, tile_m, tile_n):
        m, n = row + i * tile_m, column + j * tile_n
        yield EdgeWalk(row, column, m, n, (m < p.m) & (n < p.n))


def element_steps(tile_m: int, tile_n: int, threads: int, *, along_n: bool) -> tuple[Any, Any]:
    """(row, column) of threads that visit the elements t, t + threads, ... of a tile, along n or along m.

    >>> [a.tolist() for a in element_steps(2, 2, 2, along_n=True)]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    import numpy as np

    x = np.arange(tile_m * tile_n // threads)[:, None] * threads + np.arange(threads)
    return (x // tile_n, x % tile_n) if along_n else (x % tile_m, x // tile_m)


def vector_steps(tv: Layout, tile_n: int) -> tuple[Any, Any]:
    """(row, column) of the first elements that threads visit: `tv` is (thread, step) -> n + tile_n * m.

    >>> [a.tolist() for a in vector_steps(Layout((2, 2), (1, 2)), 2)]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    import numpy as np

    step, thread = np.indices((product(tv[1].shape), product(tv[0].shape)))
    x = tv(thread, step)
    return x // tile_n, x % tile_n
