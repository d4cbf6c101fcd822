"""Stream-K by definition: the steps of k of the tiles that are left are one line, which blocks cut.

The idea.  T tiles of S steps of k each are W = T // G whole waves and R = T % G tiles that are left, which as
a wave of their own keep R of G blocks busy.  As a line of R S steps, step x belonging to tile W G + x // S,
every block has

    share    ceil(R S / G) steps, which are at most S: block b those from b * share on

so that a block has at most two parts of tiles behind its whole ones.  9 tiles of 6 steps by 4 blocks:

    block 0    tile 0    tile 4    steps 0, 1 of tile 8
    block 1    tile 1    tile 5    steps 2, 3
    block 2    tile 2    tile 6    steps 4, 5
    block 3    tile 3    tile 7

A part's sums go to its slot of a workspace, a tile of sums.  Along the line the tile, the block or both go up
by one from part to part; so their sum numbers the parts, and those of a tile lie side by side, in order of k:

    slot     (tile of the line) + (block)

Source: Osama, Merrill, Cecka, Garland, Owens, "Stream-K", PPoPP 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import gcd


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """The work of a block at a time: `steps` steps of k of a tile, from the `first` one on.

    `slot` is where its sums go; None where they are the whole tile, which goes to D.
    """

    tile: int
    first: int
    steps: int
    slot: int | None


def work_units(tiles: int, steps: int, blocks: int) -> tuple[tuple[WorkUnit, ...], ...]:
    """Return the units of each block, in order, by "streamk": the line of steps is written out and cut.

    >>> for mine in work_units(9, 6, 4)[:2]:
    ...     print(*((x.tile, x.first, x.steps, x.slot) for x in mine))
    (0, 0, 6, None) (4, 0, 6, None) (8, 0, 2, 0)
    (1, 0, 6, None) (5, 0, 6, None) (8, 2, 2, 1)
    """
    waves = tiles // blocks
    line = [(tile, step) for tile in range(waves * blocks, tiles) for step in range(steps)]
    share = -(-len(line) // blocks)
    found = []
    for block in range(blocks):
        mine = [WorkUnit(wave * blocks + block, 0, steps, None) for wave in range(waves)]
        for tile, part in groupby(line[block * share : (block + 1) * share], lambda x: x[0]):
            some = [step for _, step in part]
            slot = None if len(some) == steps else tile - waves * blocks + block
            mine.append(WorkUnit(tile, some[0], len(some), slot))
        found.append(tuple(mine))
    return tuple(found)


def share_of(tiles: int, steps: int, blocks: int) -> int:
    """Steps of the line that a block has at most.

    >>> share_of(9, 6, 4), share_of(8, 6, 4)
    (2, 0)
    """
    return -(-(tiles % blocks * steps) // blocks)


def slot_count(blocks: int) -> int:
    """Slots of the workspace, enough for any number of tiles: fewer than blocks are left, a block cuts once.

    >>> slot_count(132)
    262
    """
    return max(1, 2 * (blocks - 1))


def part_count(tiles: int, steps: int, blocks: int) -> int:
    """Slots that are written: parts of tiles that no block has whole.

    >>> part_count(9, 6, 4), part_count(10, 6, 4), part_count(8, 6, 4)
    (3, 4, 0)
    """
    left, share = tiles % blocks, share_of(tiles, steps, blocks)
    if share in (0, steps):
        return 0
    cuts = -(-left * steps // share) - 1
    return left + cuts - cuts // (steps // gcd(share, steps))  # a cut between two tiles makes no part
