"""The tile of a permute: how much of every mode one block moves.

The idea.  Modes are taken into the tile from the fastest on, on either side, until a block reads and writes
runs of `run_bytes`; short ones (channels, heads) fold.  Then the tile is brought to a size that is worth a
block, that fits an SM several times, and that leaves every SM several blocks:

    (2,3,5,110718,2,11) f32, axes (2,4,5,0,3,1)      3 : 22 of the fastest on either side, 40 of the next
    grown, since runs start between vectors          (3, 168, 1, 22, 1): runs of 504 elements, rows of 3696

>>> from layoutalg.kernels.move.problem import normalise, permute_problem
>>> choose_tile(normalise(permute_problem((2, 3, 5, 110718, 2, 11), (2, 4, 5, 0, 3, 1), "f32")), 256, 132)
(3, 168, 1, 22, 1)
"""

from __future__ import annotations

from math import prod

from layoutalg.kernels.move.problem import Mode, Moves
from layoutalg.kernels.move.stage import ENOUGH_BYTES, PermuteConfig, Stage

VECTOR_BYTES = 16
"""The widest access of a lane."""

SECTOR_BYTES = 32
"""What memory is read and written by: longer runs are whole ones, so that blocks share none."""

RUN_BYTES = 256
"""How long a block's runs should be on either side: two lines."""

TILE_BYTES = (8 << 10, 52 << 10)
"""The least and the most shared memory of a tile: latency is hidden, four blocks fit an SM."""

ODD_RUN_ELEMS = 512
"""Elements of a destination's run that starts anywhere, where longer runs lengthen the source's too."""


def choose_tile(x: Moves, run_bytes: int, sms: int) -> tuple[int, ...]:
    """Coordinates of each mode: runs of `run_bytes` on both sides, fewer where `sms` SMs would not be full.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> choose_tile(normalise(permute_problem((4096, 4096), (1, 0), "f32")), 256, 132)
    (64, 64)
    """
    size, rank = x.element_bytes, x.rank
    step = max(1, VECTOR_BYTES // size)
    by_source = sorted((k for k in range(rank) if x.modes[k].src), key=lambda k: abs(x.modes[k].src))
    tile = [1] * rank
    for order in (by_source, range(rank)):
        length = 1
        for k in order:
            if length * size >= ENOUGH_BYTES:
                break
            need = -(-run_bytes // (length * size))
            extent = x.modes[k].extent
            if tile[k] < extent:
                most = max(tile[k], need)
                lead = step - 1 if k == 0 and extent % step else 0
                tile[k] = extent if extent <= 2 * most else even_part(extent, most, step, lead)
            length *= tile[k]
    _grow(x.modes, tile, size, by_source, sms)
    _shrink(x.modes, tile, size, step, sms)
    return _lengthened(x, tuple(min(t, m.extent) for t, m in zip(tile, x.modes, strict=True)), sms)


def _lengthened(x: Moves, tile: tuple[int, ...], sms: int) -> tuple[int, ...]:
    """Longer runs where a tile can afford them: of a destination that starts anywhere, along a mode that
    lengthens the source's rows too; of the source, along the mode that follows short whole rows.

    Timed on an H200, shares of the copy: f32 (2,3,5,110718,2,11) 0.87 with runs of 240 and 0.88 with 480
    elements, 0.84 with 120, f16 0.86 with runs of 480 and 0.78 with 504, which are no whole sectors;
    (96,96,96,96) reversed with rows of 384 bytes 0.87 instead of 0.84 in f16, 0.87 instead of 0.80 in u8.
    """
    size, longer = x.element_bytes, [*tile]
    stage = Stage(x, PermuteConfig("staged", tile, 32, vec=max(1, VECTOR_BYTES // size)))
    if stage.dst_run and stage.lead and stage.last in stage.src_run:
        k, most, step = stage.last, _ceil_div(ODD_RUN_ELEMS, stage.dst_inner), max(1, SECTOR_BYTES // size)
    else:
        row_bytes, after = stage.src_length * size, len(stage.src_run)
        if not (ENOUGH_BYTES <= row_bytes < RUN_BYTES) or after == len(stage.by_source):
            return tile
        k, most, step = stage.by_source[after], _ceil_div(RUN_BYTES, row_bytes), 1
        if x.modes[k].src != stage.src_length:
            return tile
    longer[k] = max(tile[k], min(x.modes[k].extent, even_part(x.modes[k].extent, most, step)))
    fits = _bytes(x.modes, longer, size) <= TILE_BYTES[1] * 7 // 8 and _blocks(x.modes, longer) >= 4 * sms
    return tuple(longer) if fits else tile


def _bytes(modes: tuple[Mode, ...], tile: list[int], size: int) -> int:
    return size * prod(t for m, t in zip(modes, tile, strict=True) if m.src)


def _blocks(modes: tuple[Mode, ...], tile: list[int]) -> int:
    return prod(-(-m.extent // t) for m, t in zip(modes, tile, strict=True))


def _grow(modes: tuple[Mode, ...], tile: list[int], size: int, by_source: list[int], sms: int) -> None:
    """Double modes in turn until the tile is worth a block, while all SMs still get several.

    A mode is taken whole where less than half a tile would be left of it.
    """
    candidates = [*by_source, *range(len(modes))]
    while _bytes(modes, tile, size) < TILE_BYTES[0]:
        k = next((k for k in candidates if tile[k] < modes[k].extent), None)
        if k is None:
            return
        before = tile[k]
        tile[k] = modes[k].extent if modes[k].extent <= 3 * before else 2 * before
        if _blocks(modes, tile) < 4 * sms or prod(tile) > 1 << 16:
            tile[k] = before
            return


def _shrink(modes: tuple[Mode, ...], tile: list[int], size: int, step: int, sms: int) -> None:
    """Halve modes, cut ones before whole ones, while the tile is too large or blocks are too few."""
    while True:
        total = _bytes(modes, tile, size)
        too_large = total > TILE_BYTES[1] * 7 // 8 or prod(tile) > 1 << 17
        too_few = _blocks(modes, tile) < sms and total > 4096
        k = max(range(len(tile)), key=lambda k: (1 < tile[k] < modes[k].extent, tile[k]))
        if not (too_large or too_few) or tile[k] <= 1:
            return
        half = -(-tile[k] // 2)
        tile[k] = -(-half // step) * step if half > step else half


def even_part(extent: int, most: int, step: int, lead: int = 0) -> int:
    """A tile of at most about `most`, a multiple of `step`, that cuts the extent into equal parts; larger
    where a lead in front of the first would take one part more.

    >>> even_part(100, 64, 4), even_part(48, 64, 4), even_part(191, 64, 4, lead=3)
    (52, 48, 68)
    """
    if extent <= most:
        return extent
    part = step * _ceil_div(_ceil_div(extent, _ceil_div(extent, most)), step)
    part = min(part, max(most // step * step, step))
    parts = _ceil_div(extent, part)
    return (
        part
        if _ceil_div(extent + lead, part) == parts
        else step * _ceil_div(_ceil_div(extent + lead, parts), step)
    )


def _ceil_div(x: int, y: int) -> int:
    return -(-x // y)
