"""The plan of a permute: which modes make the tile, how wide both sides move, how the tile is swizzled.

The idea.  What matters are the two fastest modes:

    the same on both sides          rows stay whole: elements go from memory to memory ("direct")
    different, or rows too short    a tile over the modes that are fastest on either side goes through
                                    shared memory

Widths follow from alignment: 16 bytes in wherever rows are contiguous, whatever their length (rows are staged
as they lie in memory), 16 bytes out.  Where runs of the destination start between sectors a block owns whole
sectors, so that no other block writes a part of one: such parts cost the L2 several whole ones.

Every tile (`tiles`) with either unit is ranked by the time that memory takes for it; of the best ones, with
vectors of several widths, the one is taken whose instructions and wavefronts add least to that.  The swizzle
of a tile is the cheapest of a few, counted on the plan's own addresses.

    (2,3,5,110718,2,11) f32, axes (2,4,5,0,3,1)      3 : 22 of the fastest on either side, and of the next
    runs start between sectors                       as many as make runs long on both sides
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import inf, lcm, prod
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from layoutalg.analysis import batch_lanes, swizzled_batch, warp_rule
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.errors import ResourceError
from layoutalg.kernels.model import Clock, Expected, machine_of, time_us
from layoutalg.kernels.move.gather import begin_bytes, permutes, reads, tile_accesses, words_of
from layoutalg.kernels.move.partition import Load, Store, block_base, parts
from layoutalg.kernels.move.problem import Moves
from layoutalg.kernels.move.stage import LINE_BYTES, PLAIN, PermuteConfig, Stage
from layoutalg.kernels.move.tiles import (
    HALF_LINE_BYTES,
    SECTOR_BYTES,
    SEEN,
    SUM,
    even_part,
    filled_units,
    tile_work,
    tiles,
)
from layoutalg.layout import Swizzle, Swizzles

TILE_BYTES = 72 << 10
"""The most shared memory of a tile: three blocks fit an SM."""

LINES_WORTH = 1.02
"""The factor over the bytes of half lines up to which copies ask the memory for whole lines."""

ROWS_WORTH = 1.01
"""Half lines that blocks along the rows of the source have to save: they write the pieces of a run of the
destination far apart in time, and lines in part.

Of 960 drawn tensors 31 save some.  On an H200 blocks along the tile are 1.13 times as fast for the 20 that
save up to 0.6 % (f16 (375,1590,345) -> (2,1,0) has 0.73 of a copy and had 0.45), and 0.95 times for the 11
that save 2 % and more."""

BEST_TILES = 5
"""The number of tiles whose swizzles are tried."""

FURTHER_TILES, FURTHER, THREADS_AT = 32, 32, 4
"""Tiles that a search of measured times may look at, the configurations of those behind the best tiles, and
the place among them at which the first choice with more and fewer threads comes: the model of a time says
little of threads."""

ROW_BYTES = 64
"""The least length of rows that are moved directly."""

SWIZZLES = tuple(Swizzle(3, 4, shift) for shift in range(3, 12))
"""The swizzles that XOR the 16-byte pieces of a line with other bits of the offset."""

SWIZZLE_COST, UNALIGNED_SWIZZLE_COST = 0.5, 1.5
"""The wavefronts that the arithmetic of a swizzled read is worth: one XOR of a value known per thread, or a
new computation of the address where rows start anywhere."""

MOST_GATHERED_BYTES = 64
"""The most bytes of a vector's elements before they are converted to narrower ones."""

FEW_ELEMS = 4
"""The elements of a vector where a vector of 16 bytes costs more: fewer conflicts of reads, cheaper ends."""

ENOUGH_ROUNDS = 3.75
"""The chunks or vectors per thread, nearly four, from which twice as many threads are better.

Timed on an H200: eleven tiles of 960 to 1023 of them gain 0.7 to 9 % by 512 threads instead of 256."""

LEAST_THREADS, MOST_THREADS = 64, 512
"""The bounds on the threads of a block whose tile goes through shared memory."""

IN_FLIGHT_BYTES = 40 << 10
"""The bytes that the tiles of an SM's blocks have to hold together, for memory to be busy."""

INSTRUCTIONS = MappingProxyType(
    {
        "vector": 30, "cut": 4, "load": 12, "digit": 0.8, "row": 2, "swizzle": 0.4, "swizzle anywhere": 2.4,
        "torn sector": 9.0, "converted": 2.0,
    }
)  # fmt: skip
"""The instructions to store a vector beyond its loads and byte permutes: to address it, to store a piece of
a cut one, to carry digits for each element, to swizzle for each load; and the instructions that a wavefront
is worth, which single bytes feel more, and a sector that a warp writes in part.

Fitted to 41 tiles timed on an H200, with two or three widths each: the choice of a width that follows loses
3 % on average of what the best one reaches.  Torn sectors were weighed on 23 other tensors, whose rows are
multiples of 4 elements and not of 8: (64,516,1004) -> (0,2,1), f16, has 0.85 of a copy instead of 0.53."""

DIRECT_THREADS, DIRECT_PASSES = 256, 4
"""A block of a direct move, and the elements each of its threads has in flight."""


@lru_cache(maxsize=128)
def configs(x: Moves, arch: str | Arch = DEFAULT_ARCH) -> tuple[PermuteConfig, ...]:
    """The configurations that fit a problem, best first.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> c = configs(normalise(permute_problem((4096, 4096), (1, 0), "f32")))[0]
    >>> c.way, c.chunk, c.vec
    ('staged', 4, 4)
    """
    return tuple(dict.fromkeys(_candidates(x, arch)))


def _candidates(x: Moves, arch: str | Arch) -> Iterator[PermuteConfig]:
    sms = machine_of(arch).sms
    if _rows_stay_whole(x):
        yield _direct(x, sms)
    tried = [_stored(x, c, arch) for c in _widened(x, _ranked(x, arch)[:BEST_TILES], find_arch(arch))]
    yield from (c for _, c in sorted(tried, key=lambda option: option[0]))
    yield _direct(x, sms)


def further(x: Moves, arch: str | Arch = DEFAULT_ARCH) -> Iterator[PermuteConfig]:
    """Configurations of the tiles ranked behind those of `configs`, best first, and all of them with more and
    fewer threads: those that a search of measured times tries behind `configs`.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((64, 64, 3), (2, 0, 1), "f32"))
    >>> len(set(further(x)) | set(configs(x))) >= 16
    True
    """
    others = _widened(x, _ranked(x, arch)[BEST_TILES:FURTHER_TILES], find_arch(arch))[:FURTHER]
    found = [c for _, c in sorted((_stored(x, c, arch) for c in others), key=lambda option: option[0])]
    own = [c for c in configs(x, arch) if c.way == "staged"]
    found[THREADS_AT:THREADS_AT] = [other for c in own[:1] for other in _other_threads(x, c)]
    yield from dict.fromkeys(found)
    for c in (*own[1:], *found):
        yield from _other_threads(x, c)


def _widened(x: Moves, found: Sequence[PermuteConfig], machine: Arch) -> list[PermuteConfig]:
    """Tiles with vectors of several widths, and their threads."""
    return [_threaded(Stage(x, c), machine) for tile in found for c in _widths(x, tile)]


def _other_threads(x: Moves, c: PermuteConfig) -> list[PermuteConfig]:
    """A staged configuration with twice and with half as many threads, as far as blocks of a plan go."""
    return [
        replace(c, threads=n, loading=_loading(stage, n), storing=_storing(stage, n))
        for n, stage in ((n, Stage(x, replace(c, threads=n))) for n in (2 * c.threads, c.threads // 2))
        if LEAST_THREADS <= n <= MOST_THREADS
    ]


def _rows_stay_whole(x: Moves) -> bool:
    """True when the fastest mode is the same on both sides and its rows are long, or elements wide."""
    first = x.modes[0]
    if first.src == 0 or abs(first.src) != min(abs(m.src) for m in x.modes if m.src):
        return False
    if x.element_bytes < 8:
        return False
    together = first.extent if first.src == first.dst == 1 else 1
    alone = len(x.modes) == 1
    return alone or together * x.element_bytes >= ROW_BYTES


def _direct(x: Moves, sms: int) -> PermuteConfig:
    """Tiles of consecutive elements of the destination."""
    tile = [1] * x.rank
    left = DIRECT_THREADS * DIRECT_PASSES
    while left > 32 * DIRECT_PASSES and prod(m.extent for m in x.modes) // left < 2 * sms:
        left //= 2
    threads = max(32, left // DIRECT_PASSES)
    for k, m in enumerate(x.modes):
        tile[k] = even_part(m.extent, left, 1)
        left //= tile[k]
        if tile[k] < m.extent or left < 2:
            break
    return PermuteConfig("direct", tuple(tile), threads, via="registers")


def _ranked(x: Moves, arch: str | Arch) -> list[PermuteConfig]:
    """A configuration of every tile and unit, of the widest vectors and without a swizzle, best first."""
    machine, m, found = find_arch(arch), machine_of(arch), list[tuple[float, PermuteConfig]]()
    for c, why in _sized(x, machine):
        if why is None:
            c = _threaded(Stage(x, c), machine)
            stage = Stage(x, c)
            digits = _digits(stage) * stage.stores / 32
            found.append((time_us(tile_work(stage, m, digits), m, SUM), c))
    return [c for _, c in sorted(found, key=lambda option: option[0])]


def _sized(x: Moves, machine: Arch) -> Iterator[tuple[PermuteConfig, ResourceError | None]]:
    """The widest vectors of every tile and unit, threads and swizzle aside, and what refuses it."""
    most = min(TILE_BYTES, machine.max_shared_bytes_per_block)
    for tile in tiles(x, most):
        by_vectors, by_sectors = (
            Stage(x, _wide(x, tile, align, machine)) for align in (0, SECTOR_BYTES // x.result_bytes)
        )
        c = by_sectors.config
        other = c.align > c.vec and (by_sectors.lead or by_sectors.dst_run != by_vectors.dst_run)
        for stage in (by_vectors, by_sectors) if other else (by_vectors,):
            refused = None
            if stage.tile_bytes > most:
                asked = f"shared memory bytes of a tile {tile} of {x}, stored in units of {stage.unit}"
                refused = ResourceError(asked, stage.tile_bytes, most)
            yield stage.config, refused


def refusals(x: Moves, arch: str | Arch = DEFAULT_ARCH) -> dict[PermuteConfig, ResourceError]:
    """Staged configurations that a problem cannot have, each with the reason.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> list(refusals(normalise(permute_problem((64, 64), (1, 0), "f32"))))
    []
    """
    return {c: why for c, why in _sized(x, find_arch(arch)) if why is not None}


def _wide(x: Moves, tile: tuple[int, ...], align: int, machine: Arch) -> PermuteConfig:
    """The widest chunks and vectors of a tile."""
    size, plain = x.element_bytes, PermuteConfig("staged", tile, 32)
    stage = Stage(x, plain)
    chunk = _widest(stage.src_length if stage.src_run else 0, size, whole_elems(x.src_swizzle))
    vec = _widest(stage.dst_length if stage.dst_run else 0, x.result_bytes, whole_elems(x.dst_swizzle))
    vec = min(vec, MOST_GATHERED_BYTES // size)
    asynchronous = machine.compute_capability >= (8, 0) and chunk * size >= 4
    via: Literal["cp.async", "registers"] = "cp.async" if asynchronous else "registers"
    c = replace(plain, chunk=chunk, vec=vec, via=via, walk="tile", align=align)
    stage, soon = Stage(x, c), Stage(x, replace(c, walk="rows"))
    here, there = (filled_units(one, HALF_LINE_BYTES) for one in (stage, soon))
    if soon.walk != stage.walk and there * ROWS_WORTH < here:
        c, stage = soon.config, soon
    filled = [filled_units(stage, nbytes) * nbytes for nbytes in (HALF_LINE_BYTES, LINE_BYTES)]
    dense = 2 * prod(m.extent for m in x.modes if m.src) > x.src_elems - x.src_offset  # most bytes of lines
    lines = asynchronous and dense and filled[1] <= LINES_WORTH * filled[0]
    return replace(c, lines=lines, turned=stage.can_turn)


def _widths(x: Moves, c: PermuteConfig) -> Iterator[PermuteConfig]:
    """A configuration with narrower vectors too, where it does not turn words; in units of sectors and, where
    words can be turned so, of vectors."""
    yield c
    if not c.turned:
        for vec in (n for n in (4 * FEW_ELEMS, 2 * FEW_ELEMS, FEW_ELEMS) if n <= c.vec):
            narrow = replace(c, vec=vec, turned=Stage(x, replace(c, vec=vec)).can_turn)
            if vec < c.vec:
                yield narrow
            alone = replace(narrow, align=0)
            if c.align and not narrow.turned and Stage(x, alone).can_turn:
                yield replace(alone, turned=True)


def _threaded(stage: Stage, chip: Arch) -> PermuteConfig:
    """The configuration with its threads."""
    threads = _threads(stage, chip)
    loading, storing = _loading(stage, threads), _storing(stage, threads)
    return replace(stage.config, threads=threads, loading=loading, storing=storing)


def _widest(length: int, size: int, most: int) -> int:
    """Elements of the widest access, of 16, 8 or 4 bytes, that a run is worth; a run of 0 is none."""
    limit = min(max(4, length * size // 2), size * most) if length else 0
    return next((n // size for n in (16, 8, 4) if size < n <= limit), 1)


def _stored(x: Moves, c: PermuteConfig, arch: str | Arch) -> tuple[float, PermuteConfig]:
    """The configuration with a swizzle, and the microseconds it takes."""
    wavefronts, c = _swizzled(x, c, arch)
    stage, m = Stage(x, c), machine_of(arch)
    return time_us(tile_work(stage, m, _instructions(stage), wavefronts), m, SUM), c


def clock_of(x: Moves, c: PermuteConfig, arch: str | Arch) -> Clock:
    """The time of a staged configuration, by the law that ranks them.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((4096, 4096), (1, 0), "f32"))
    >>> 28 < clock_of(x, configs(x)[0], "sm_90")(machine_of("sm_90")).us < 38
    True
    """
    stage = Stage(x, c)
    costs, _ = _wavefronts(_accesses(stage), arch, (c.swizzle,))
    instructions = _instructions(stage)
    return lambda m: Expected(time_us(tile_work(stage, m, instructions, costs[0] / 32), m, SUM))


def _threads(stage: Stage, chip: Arch) -> int:
    """Threads of a block: each has several chunks and vectors, and enough blocks fit an SM."""
    work = max(stage.stores, stage.loads)
    threads = LEAST_THREADS
    while threads < MOST_THREADS and work >= ENOUGH_ROUNDS * threads:
        threads *= 2
    while (
        threads > LEAST_THREADS
        and stage.tile_bytes * chip.max_warps_per_sm * chip.lanes < IN_FLIGHT_BYTES * threads
    ):
        threads //= 2
    if stage.dst_run and stage.dst_inner & (stage.dst_inner - 1):
        options = (min(threads, 256), MOST_THREADS)  # more rounds for what is computed once
        return next((n for n in options if _storing(stage, n)), options[0])
    return threads


def _digits(stage: Stage) -> float:
    """Instructions of a vector that its elements' coordinates take where a run folds several modes."""
    if stage.dst_inner == 1:
        return 0.0
    vec, extent = stage.config.vec, stage.tile[stage.dst_run[0]]
    rows = (vec + extent - 2) // extent + 1
    each = INSTRUCTIONS["digit"] * vec + INSTRUCTIONS["row"] * rows * (len(stage.dst_run) - 1)
    repeats = stage.config.storing and not (stage.lead and stage.dst_rows)
    return each / (-(-stage.stores // stage.config.storing) if repeats else 1)


def _instructions(stage: Stage) -> float:
    """Instructions of a block, of all its warps."""
    vec, size, swizzled = stage.config.vec, stage.size, stage.config.swizzle.bits > 0
    found = reads(stage)
    words = () if stage.config.turned else words_of(begin_bytes(found), size)
    moved = 2 * vec if stage.config.turned else sum(len(permutes(word)) for word in words)
    kind = "swizzle" if stage.src_aligned and not stage.lead else "swizzle anywhere"
    each = 1 + (INSTRUCTIONS[kind] if swizzled else 0)
    cut, torn = _ends(stage)
    ends = cut * INSTRUCTIONS["cut"] * sum(1 + n * (n > 1) for _, n in parts(stage))
    return _work(stage, ends, len(found) * each, moved, torn)


def _work(stage: Stage, ends: float, loads: float, moved: float, torn: float) -> float:
    """Instructions of a block whose vectors take so many for their ends, their loads and their byte permutes,
    and write so many sectors beyond those that they fill."""
    cast = INSTRUCTIONS["converted"] * stage.config.vec if stage.moves.cast else 0
    vector = (INSTRUCTIONS["vector"] + ends + cast) * stage.group + loads + moved + _digits(stage)
    stores = stage.stores * (vector + INSTRUCTIONS["torn sector"] * torn * stage.group)
    return (stores + stage.loads * INSTRUCTIONS["load"]) / 32


def _ends(stage: Stage) -> tuple[float, float]:
    """The share of warps with a cut vector, and the sectors that a warp writes beyond those that its vectors
    fill, from some warps of a block in the middle."""
    origins = tuple(n // 2 * t for n, t in zip(stage.counts, stage.tile, strict=True))
    x = _some_warps(stage.stores)
    vector = Store(stage, x, origins, block_base(stage, origins))
    row, whole = (
        np.all([np.broadcast_to(p, x.shape) for p in (True, *predicates)], axis=0)
        for predicates in (vector.part.exists, vector.ends.exist(0, stage.config.vec))
    )
    sector = np.where(row, vector.target * stage.dst_size // SECTOR_BYTES, -1)
    sector.sort(axis=1)
    written = (np.diff(sector, axis=1, prepend=-1) > 0).sum(axis=1)
    filled = row.sum(axis=1) * stage.config.vec * stage.dst_size / SECTOR_BYTES
    return float((row & ~whole).any(axis=1).mean()), float((written - filled).mean())


def _storing(stage: Stage, threads: int) -> int:
    """The most threads whose rounds repeat a vector's place in its run, or its inner digits; 0 for all.

    What a round shares with the one before is computed once.
    """
    inner, vec, vectors = stage.dst_inner if stage.dst_run else 1, stage.config.vec, stage.vectors
    period = vectors if 2 * vectors <= threads else lcm(inner, vec) // vec
    return _whole_periods(period, stage.stores, threads)


def _loading(stage: Stage, threads: int) -> int:
    """The most threads whose rounds repeat a chunk's place in its row; 0 for all."""
    return _whole_periods(stage.chunks, stage.loads, threads)


def _whole_periods(period: int, work: int, threads: int) -> int:
    """The most of `threads` that are a multiple of a period; 0 where all are, or too few would be left."""
    most = threads // period * period
    return most if period > 1 and most < threads and most * 4 >= threads * 3 and work > most else 0


def whole_elems(swizzles: Swizzles) -> int:
    """Elements that swizzles keep together.

    >>> whole_elems(Swizzles(Swizzle(3, 4, 3)))
    16
    """
    return 1 << min((s.base for s in swizzles if s.bits), default=4)


def _swizzled(x: Moves, c: PermuteConfig, arch: str | Arch) -> tuple[float, PermuteConfig]:
    """The lanes, padding and swizzle that cost the least time, what comes first among equals; and the
    wavefronts of a block.

    Lanes of several runs conflict less, and write parts of more lines.
    """
    given, m = Stage(x, c), machine_of(arch)
    best, least = (inf, 0.0, c, PLAIN), given.tile_bytes
    padded = [given.arranged(pad_bytes=pad) for pad in (0, 16, 32)]
    for lanes, tile in product((0, 8, 4), padded):
        stage = tile.arranged(lanes=lanes)
        option = stage.config
        if stage.tile_bytes > max(TILE_BYTES, least) or not _is_whole(stage, lanes):
            continue
        loads = stage.stores * len(reads(stage))
        memory = time_us(tile_work(stage, m), m, SUM)
        each = SEEN * stage.blocks / (m.sms * m.cycles_per_us)
        if lanes and memory + each * (stage.loads + loads) / 32 >= best[0]:
            continue  # even with one wavefront per access
        accesses = tuple(_accesses(stage))
        costs, ideal = _wavefronts(accesses, arch, (PLAIN,))
        if costs[0] == ideal and not lanes:
            return costs[0] / 32, option
        arithmetic = SWIZZLE_COST if stage.src_aligned and not stage.lead else UNALIGNED_SWIZZLE_COST
        if memory + each * (ideal + arithmetic * loads) / 32 < min(best[0], memory + each * costs[0] / 32):
            swizzled, _ = _wavefronts(accesses, arch, SWIZZLES)
            costs += [cost + arithmetic * loads for cost in swizzled]
        for swizzle, cost in zip((PLAIN, *SWIZZLES), costs, strict=False):
            time = memory + each * cost / 32
            if time < best[0]:
                best = time, cost / 32, option, swizzle
    return best[1], replace(best[2], swizzle=best[3])


def _is_whole(stage: Stage, lanes: int) -> bool:
    """True when lanes can be arranged so, and write whole sectors next to each other."""
    return not lanes or (stage.lanes == lanes and lanes * stage.config.vec * stage.dst_size >= SECTOR_BYTES)


def _accesses(stage: Stage) -> Iterator[tuple[str, int, Any]]:
    """Reads and writes of the first block's tile: the op, how often, and bytes of some of its warps."""
    for op, places, one in tile_accesses(stage, _some_warps(stage.loads), _some_warps(stage.stores)):
        times = len(places) * (stage.loads if isinstance(one, Load) else stage.stores)
        yield op, times, places.reshape(-1, places.shape[-1])


def _some_warps(work: int) -> Any:
    """The numbers that the lanes of up to eight warps work on, evenly spread."""
    warps = max(1, min(8, work // 32))
    return (np.arange(warps)[:, None] * (work // 32 // warps * 32) + np.arange(32)) % work


def _wavefronts(
    accesses: Iterable[tuple[str, int, Any]],
    arch: str | Arch,
    swizzles: Sequence[Swizzle],
) -> tuple[list[float], float]:
    """Wavefronts of all accesses under each swizzle, and the ideal."""
    totals, ideal = np.zeros(len(swizzles)), 0.0
    for op, times, places in accesses:
        served, floor = _served(op, arch, places.tobytes(), places.dtype, tuple(swizzles))
        totals += times * served
        ideal += times * floor
    return totals.tolist(), ideal


@lru_cache(maxsize=128)
def _served(
    op: str, arch: str | Arch, places: bytes, kind: Any, swizzles: tuple[Swizzle, ...]
) -> tuple[Any, float]:
    """The mean wavefronts of warps that access these places, under each swizzle, and the ideal ones: tiles
    with other lanes and vectors share them."""
    rule, machine = warp_rule(op, "shared", arch)
    checked = batch_lanes(rule, machine, np.frombuffer(places, kind).reshape(-1, machine.lanes))
    served, floor, _ = swizzled_batch(rule, machine, *checked, swizzles)
    return served.mean(axis=1), float(floor.mean())
