"""Loads from shared memory of a permute that have an element that is stored; a compiler may drop the others.

The idea.  Blocks differ in two ways only: which edges of the tensor cut their tile, and where their tile
starts relative to a 32-byte sector on either side.  So blocks are sorted into classes by (edges, source
phase, destination phase), the classes are counted by convolving the phases of the tiles along every mode,
and one block of each class is counted lane by lane on the plan's own addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from layoutalg.arch import Arch
from layoutalg.codegen.costs import Costs
from layoutalg.kernels.move.gather import reads
from layoutalg.kernels.move.partition import Store, block_base
from layoutalg.kernels.move.problem import Moves
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.layout import Swizzles

SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class BlockClass:
    """Blocks that cost the same: how many, and the origins of one of them."""

    count: int
    origins: tuple[int, ...]


def block_classes(stage: Stage, unit_bytes: int = SECTOR_BYTES) -> tuple[BlockClass, ...]:
    """The classes of a launch's blocks by phases modulo `unit_bytes`; their counts sum to `stage.blocks`.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((4096, 4096), (1, 0), "f32"))
    >>> block_classes(Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)))
    (BlockClass(count=4096, origins=(0, 0)),)
    """
    units = (
        period(stage.size, stage.moves.src_swizzle, unit_bytes),
        period(stage.dst_size, stage.moves.dst_swizzle),
    )
    near = () if stage.moves.src_elems % stage.config.chunk else None
    found: dict[_Key, tuple[int, tuple[int, ...]]] = {_Key((), 0, 0, 0, near): (1, ())}
    for k in range(stage.moves.rank):
        tiles = list(_tile_classes(stage, k, units))
        grown: dict[_Key, tuple[int, tuple[int, ...]]] = {}
        for key, (count, origins) in found.items():
            for t in tiles:
                both = key.with_tile(t, units, NEAR_ELEMS + units[0])
                known, first = grown.get(both, (0, (*origins, t.origin)))
                grown[both] = (known + count * t.count, first)
        found = grown
    return tuple(BlockClass(count, origins) for count, origins in found.values())


def period(element_bytes: int, swizzles: Swizzles, unit_bytes: int = SECTOR_BYTES) -> int:
    """Elements after which sectors, or other units of memory, and swizzles repeat.

    >>> from layoutalg.layout import Swizzle
    >>> period(2, Swizzles()), period(2, Swizzles(Swizzle(3, 3, 3)))
    (16, 512)
    """
    return max(unit_bytes // element_bytes, swizzles.period)


NEAR_ELEMS = 64
"""A block that ends at least as far before the end of the source never reads past it."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """`count` tiles along a mode: whether cut, their phases, their distance from the source's end."""

    cut: int
    src: int
    dst: int
    far: int
    count: int
    origin: int


@dataclass(frozen=True, slots=True)
class _Key:
    """What a block's cost depends on; `near` tells blocks apart that may meet the end of the source."""

    cuts: tuple[int, ...]
    src: int
    dst: int
    far: int
    near: tuple[int, ...] | None

    def with_tile(self, t: _Tile, units: tuple[int, int], most: int) -> _Key:
        far = min(self.far + t.far, most)
        near = None if self.near is None or far == most else (*self.near, t.origin)
        src, dst = (self.src + t.src) % units[0], (self.dst + t.dst) % units[1]
        return _Key((*self.cuts, t.cut), src, dst, far, near)


def _tile_classes(stage: Stage, k: int, units: tuple[int, int]) -> Iterator[_Tile]:
    """The tiles along a mode, those that cost the same together."""
    m, tile, tiles = stage.modes[k], stage.tile[k], stage.counts[k]
    src, dst = tile * m.src % units[0], tile * m.dst % units[1]
    repeats = max(units[0] // gcd(units[0], src), units[1] // gcd(units[1], dst))
    most = NEAR_ELEMS + units[0]
    halo = stage.halo and k == stage.dst_run[-1]
    ends = bool(m.src) and stage.moves.src_elems % stage.config.chunk != 0

    def far(n: int) -> int:
        """Elements between the tile's end in the source and that of the mode, at most `most`."""
        before = n * tile - stage.lead if m.src < 0 else m.extent - (n + 1) * tile
        return min(max(before, 0) * abs(m.src), most) if ends else 0

    first, last = int(halo), tiles - (2 if halo else int(m.extent % tile > 0))
    while m.src < 0 and first < tiles and ends and far(first) < most:
        first += 1
    while m.src > 0 and last > first and ends and far(last - 1) < most:
        last -= 1
    first = min(first, tiles)
    last = max(first, last)
    for n in (*range(first), *range(last, tiles)):
        yield _Tile(1 + n, n * src % units[0], n * dst % units[1], far(n), 1, n * tile)
    for n in range(first, min(first + repeats, last)):
        count = len(range(n, last, repeats))
        yield _Tile(0, n * src % units[0], n * dst % units[1], most if ends else 0, count, n * tile)


def needed_wavefronts(x: Moves, c: PermuteConfig, arch: str | Arch = "sm_90") -> int:
    """Wavefronts of the loads from shared memory that have an element that is stored, and of no others.

    A program loads whole vectors and stores what exists of them; a compiler may load what it stores.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((5, 60, 60, 3), (0, 3, 1, 2), "f32"))
    >>> c = PermuteConfig("staged", (64, 3, 1), 64, 4, 4)
    >>> needed_wavefronts(x, c)  # of 4560
    4520
    """
    stage, total = Stage(x, c), 0
    for kind in block_classes(stage) if c.way == "staged" else ():
        costs = Costs(arch)
        _reads(stage, *_vectors(stage, kind.origins), costs)
        total += kind.count * sum(cost.total for cost in costs.found.values())
    return total


def _vectors(stage: Stage, origins: tuple[int, ...]) -> tuple[Store, Any]:
    """The vectors of a block's runs, a row per warp instruction, and the lanes whose runs exist."""
    thread, active = np.arange(stage.config.threads), stage.config.storing or stage.config.threads
    x = thread + active * np.arange(-(-stage.stores // active))[:, None]
    below = ((thread < active) & (x < stage.stores)).reshape(-1, 32)
    vector = Store(stage, x.reshape(-1, 32), origins, block_base(stage, origins))
    return vector, _holds(below, vector.part.exists)


def _holds(active: Any, predicates: Any) -> Any:
    for p in predicates:
        active = active & p
    return active


def _reads(stage: Stage, vector: Store, row: Any, costs: Costs) -> None:
    for read in reads(stage):
        there = (np.broadcast_to(_holds(row, vector.ends.exist(e)), row.shape) for e in read.elements)
        active = np.any([*there], axis=0)
        place = stage.layout(np.broadcast_to(vector.place(read.first), active.shape) * active)
        costs.lanes(f"ld.shared.b{8 * read.nbytes}", "shared", place, active)
