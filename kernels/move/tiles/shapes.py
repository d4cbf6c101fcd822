"""The tiles that a permute can have: runs of a number of bytes on either side, from the fastest mode on.

The idea.  Modes are taken into the tile from the fastest of a side on until its run has the target length, so
that short ones (channels, heads) fold; the mode that ends a run is cut into equal parts.  Both sides have
several target lengths, each pair of which is a tile; the cheapest is taken (`plan`).

Parts are multiples of a vector's elements, once by themselves and once together with the modes below them:

    u8, 24 elements and then 237, a target of 128 bytes      16 of 237, 384 bytes; or 6 of 237, 144 bytes
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, prod

from layoutalg.kernels.move.problem import Mode, Moves

VECTOR_BYTES = 16
"""The widest access of a lane."""

RUNS_BYTES = (32, 64, 128, 256, 384, 512, 1024, 2048)
"""The target lengths of either side."""


def tiles(x: Moves, most_bytes: int) -> tuple[tuple[int, ...], ...]:
    """Coordinates of each mode, of every tile of up to `most_bytes`; the smallest one where all have more.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> found = tiles(normalise(permute_problem((4096, 4096), (1, 0), "f32")), 32 << 10)
    >>> (64, 64) in found, (128, 64) in found, max(found)
    (True, True, (512, 16))
    """
    asked = product(RUNS_BYTES, RUNS_BYTES, (False, True))
    found = list(dict.fromkeys(_tile(x, src, dst, folded=folded) for src, dst, folded in asked))
    within = [tile for tile in found if tile_bytes(x, tile) <= most_bytes]
    return tuple(within or [min(found, key=lambda tile: tile_bytes(x, tile))])


def tile_bytes(x: Moves, tile: Sequence[int]) -> int:
    """Return the bytes of a tile's elements that the source has."""
    return x.element_bytes * prod(t for m, t in zip(x.modes, tile, strict=True) if m.src)


def by_source(modes: Sequence[Mode]) -> list[int]:
    """Modes of the source by stride."""
    return sorted((k for k, m in enumerate(modes) if m.src), key=lambda k: abs(modes[k].src))


def _tile(x: Moves, src_bytes: int, dst_bytes: int, *, folded: bool) -> tuple[int, ...]:
    """A tile with runs of about so many bytes on either side.

    A mode is cut into parts of whole vectors; `folded`: into parts that are whole vectors together with the
    modes below them, which ends the run.
    """
    tile, read, written = [1] * x.rank, x.element_bytes, x.result_bytes
    asked = (by_source(x.modes), read, src_bytes), (list(range(x.rank)), written, dst_bytes)
    for order, size, nbytes in asked:
        length, vector = 1, max(1, VECTOR_BYTES // size)
        for k in order:
            if length * size >= nbytes:
                break
            most, extent = max(tile[k], -(-nbytes // (length * size))), x.modes[k].extent
            step = vector // gcd(vector, length) if folded else vector
            step = 1 if folded and step > most else step
            tile[k] = extent if 2 * extent <= 3 * most else min(extent, even_part(extent, most, step))
            length *= tile[k]
            if folded and tile[k] < extent:
                break
    return tuple(tile)


def even_part(extent: int, most: int, step: int) -> int:
    """A tile of at most about `most`, a multiple of `step`, that cuts the extent into equal parts, of which
    none is shorter if possible.

    >>> even_part(100, 64, 4), even_part(48, 64, 4), even_part(4096, 96, 4)
    (52, 48, 64)
    """
    if extent <= most:
        return extent
    for part in range(most // step * step, 2 * most // 3 - 1, -step):
        if extent % part == 0:
            return part
    part = step * _ceil_div(_ceil_div(extent, _ceil_div(extent, most)), step)
    return min(part, max(most // step * step, step))


def _ceil_div(x: int, y: int) -> int:
    return -(-x // y)
