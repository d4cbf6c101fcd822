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
from heapq import heapify, heappop, heappush
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
    grown_us,
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

BEST_TILES = 3
"""The number of tiles whose swizzles are tried."""

FURTHER_TILES, FURTHER, THREADS_AT = 32, 32, 4
"""Tiles that a search of measured times may look at, the configurations of those behind the best tiles, and
the place among them at which the first choice with more and fewer threads comes: the model of a time says
little of threads."""

ROW_BYTES = 64
"""The least length of rows that are moved directly."""

SWIZZLES = tuple(Swizzle(3, 4, shift) for shift in range(3, 8))
"""The swizzles that XOR the 16-byte pieces of a line with other bits of the offset."""

ARRANGED = ({"pad_bytes": 0}, {"pad_bytes": 16}, {"pad_bytes": 32}, {"lanes": 8})
"""Bytes by which rows are further apart, and lanes of a run, that are tried.

Of 601 drawn permutes 5 would have 4 lanes, 2 both, and 5 a swizzle by bits that are further apart."""

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


@lru_cache(maxsize=128)
def first(x: Moves, arch: str | Arch = DEFAULT_ARCH) -> PermuteConfig:
    """The first of `configs`, without making the others.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> first(x) == configs(x)[0]
    True
    """
    return next(_candidates(x, arch))


def _candidates(x: Moves, arch: str | Arch) -> Iterator[PermuteConfig]:
    sms = machine_of(arch).sms
    if _rows_stay_whole(x):
        yield _direct(x, sms)
    yield from _by_time(_widened(_ranked(x, arch)[:BEST_TILES], find_arch(arch)), arch)
    yield _direct(x, sms)


def further(x: Moves, arch: str | Arch = DEFAULT_ARCH) -> Iterator[PermuteConfig]:
    """Configurations of the tiles ranked behind those of `configs`, best first, and all of them with more and
    fewer threads: those that a search of measured times tries behind `configs`.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((64, 64, 3), (2, 0, 1), "f32"))
    >>> len(set(further(x)) | set(configs(x))) >= 16
    True
    """
    others = _widened(_ranked(x, arch)[BEST_TILES:FURTHER_TILES], find_arch(arch))[:FURTHER]
    found = list(_by_time(others, arch))
    own = [c for c in configs(x, arch) if c.way == "staged"]
    found[THREADS_AT:THREADS_AT] = [other for c in own[:1] for other in _other_threads(Stage(x, c))]
    yield from dict.fromkeys(found)
    for c in (*own[1:], *found):
        yield from _other_threads(Stage(x, c))


def _widened(found: Sequence[Stage], machine: Arch) -> list[Stage]:
    """Tiles with vectors of several widths, and their threads."""
    return [_threaded(stage, _threads(stage, machine)) for tile in found for stage in _widths(tile)]


def _by_time(found: Sequence[Stage], arch: str | Arch) -> Iterator[PermuteConfig]:
    """Yield tiles with their swizzles, best first, what comes first among equals; a swizzle is sought where
    even the least that its tile can take is the least that is left."""
    queue = [(_least_us(stage, arch), -1, n, stage.config) for n, stage in enumerate(found)]
    heapify(queue)
    while queue:
        _, left, n, c = heappop(queue)
        if left:
            time, c = _stored(found[n], arch)
            heappush(queue, (time, 0, n, c))
        else:
            yield c


def _other_threads(stage: Stage) -> list[PermuteConfig]:
    """A staged configuration with twice and with half as many threads, as far as blocks of a plan go."""
    counts = 2 * stage.config.threads, stage.config.threads // 2
    return [_threaded(stage, n).config for n in counts if LEAST_THREADS <= n <= MOST_THREADS]


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


def _ranked(x: Moves, arch: str | Arch) -> list[Stage]:
    """A stage of every tile and unit, of the widest vectors and without a swizzle, best first."""
    machine, m, found = find_arch(arch), machine_of(arch), list[tuple[float, Stage]]()
    for stage, why in _sized(x, machine):
        if why is None:
            stage = _threaded(stage, _threads(stage, machine))
            digits = _digits(stage) * stage.stores / 32
            found.append((time_us(tile_work(stage, m, digits), m, SUM), stage))
    return [stage for _, stage in sorted(found, key=lambda option: option[0])]


def _sized(x: Moves, machine: Arch) -> Iterator[tuple[Stage, ResourceError | None]]:
    """The widest vectors of every tile and unit, threads and swizzle aside, and what refuses it."""
    most, align = min(TILE_BYTES, machine.max_shared_bytes_per_block), SECTOR_BYTES // x.result_bytes
    for tile in tiles(x, most):
        found = [_wide(x, tile, 0, machine)]
        if align > found[0].config.vec:
            by_sectors = _wide(x, tile, align, machine)
            found += [by_sectors] if by_sectors.lead or by_sectors.dst_run != found[0].dst_run else []
        for stage in found:
            refused = None
            if stage.tile_bytes > most:
                asked = f"shared memory bytes of a tile {tile} of {x}, stored in units of {stage.unit}"
                refused = ResourceError(asked, stage.tile_bytes, most)
            yield stage, refused


def refusals(x: Moves, arch: str | Arch = DEFAULT_ARCH) -> dict[PermuteConfig, ResourceError]:
    """Staged configurations that a problem cannot have, each with the reason.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> list(refusals(normalise(permute_problem((64, 64), (1, 0), "f32"))))
    []
    """
    return {stage.config: why for stage, why in _sized(x, find_arch(arch)) if why is not None}


def _wide(x: Moves, tile: tuple[int, ...], align: int, machine: Arch) -> Stage:
    """The widest chunks and vectors of a tile."""
    size, plain = x.element_bytes, PermuteConfig("staged", tile, 32)
    stage = Stage(x, plain)
    chunk = _widest(stage.src_length if stage.src_run else 0, size, whole_elems(x.src_swizzle))
    vec = _widest(stage.dst_length if stage.dst_run else 0, x.result_bytes, whole_elems(x.dst_swizzle))
    vec = min(vec, MOST_GATHERED_BYTES // size)
    asynchronous = machine.compute_capability >= (8, 0) and chunk * size >= 4
    via: Literal["cp.async", "registers"] = "cp.async" if asynchronous else "registers"
    stage = Stage(x, replace(plain, chunk=chunk, vec=vec, via=via, walk="tile", align=align))
    soon = stage.arranged(walk="rows")
    if soon.walk != stage.walk:
        here, there = (filled_units(one, HALF_LINE_BYTES) for one in (stage, soon))
        stage = soon if there * ROWS_WORTH < here else stage
    dense = 2 * prod(m.extent for m in x.modes if m.src) > x.src_elems - x.src_offset  # most bytes of lines
    lines = asynchronous and dense
    if lines:
        halves, whole = (filled_units(stage, nbytes) * nbytes for nbytes in (HALF_LINE_BYTES, LINE_BYTES))
        lines = whole <= LINES_WORTH * halves
    return stage.arranged(lines=lines, turned=stage.can_turn)


def _widths(stage: Stage) -> Iterator[Stage]:
    """A tile with narrower vectors too, where it does not turn words; in units of sectors and, where words
    can be turned so, of vectors."""
    yield stage
    x, c = stage.moves, stage.config
    if not c.turned:
        for vec in (n for n in (4 * FEW_ELEMS, 2 * FEW_ELEMS, FEW_ELEMS) if n <= c.vec):
            narrow = Stage(x, replace(c, vec=vec)) if vec < c.vec else stage
            narrow = narrow.arranged(turned=narrow.can_turn)
            if vec < c.vec:
                yield narrow
            alone = Stage(x, replace(narrow.config, align=0))
            if c.align and not narrow.config.turned and alone.can_turn:
                yield alone.arranged(turned=True)


def _threaded(stage: Stage, threads: int) -> Stage:
    """The tile with so many threads, of which as many load as have rounds with one place in their row."""
    loading = _whole_periods(stage.chunks, stage.loads, threads)
    return stage.arranged(threads=threads, loading=loading, storing=_storing(stage, threads))


def _widest(length: int, size: int, most: int) -> int:
    """Elements of the widest access, of 16, 8 or 4 bytes, that a run is worth; a run of 0 is none."""
    limit = min(max(4, length * size // 2), size * most) if length else 0
    return next((n // size for n in (16, 8, 4) if size < n <= limit), 1)


def _stored(tile: Stage, arch: str | Arch) -> tuple[float, PermuteConfig]:
    """The microseconds that a tile takes with its swizzle, and its configuration."""
    (wavefronts, stage), m = _swizzled(tile, arch), machine_of(arch)
    return time_us(tile_work(stage, m, _instructions(stage), wavefronts), m, SUM), stage.config


def _least_us(tile: Stage, arch: str | Arch) -> float:
    """No more than the microseconds that a tile takes with any lanes, padding and swizzle.

    Padding moves rows apart at least as far as it moves the last element's place, so that no tile gets
    smaller.  A swizzle joins no loads, and loads and chunks take a wavefront each.
    """
    m, found = machine_of(arch), [*_arranged(tile)]
    loads = min(len(reads(stage)) for stage in found)
    wavefronts = (tile.loads + tile.stores * loads) / 32
    return min(time_us(tile_work(x, m, _work(x, loads, 0), wavefronts), m, SUM) for x in found)


def _arranged(tile: Stage) -> Iterator[Stage]:
    """Yield a tile with the lanes and padding that it may have."""
    most = max(TILE_BYTES, tile.tile_bytes)
    found = (tile.arranged(**fields) for fields in ARRANGED)
    yield from (stage for stage in found if stage.tile_bytes <= most and _is_whole(stage))


def clock_of(x: Moves, c: PermuteConfig, arch: str | Arch) -> Clock:
    """The time of a staged configuration: it grows with what ranks them.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((4096, 4096), (1, 0), "f32"))
    >>> 28 < clock_of(x, configs(x)[0], "sm_90")(machine_of("sm_90")).us < 38
    True
    """
    stage = Stage(x, c)
    costs, _ = _wavefronts(_accesses(stage), arch, (c.swizzle,))
    instructions = _instructions(stage)
    return lambda m: Expected(
        grown_us(time_us(tile_work(stage, m, instructions, costs[0] / 32), m, SUM) - m.launch_us, m)
    )


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
    return _work(stage, len(found) * each, moved)


def _work(stage: Stage, loads: float, moved: float) -> float:
    """Instructions of a block whose vectors take so many for their loads and their byte permutes."""
    cut, torn = _ends(stage)
    ends = cut * INSTRUCTIONS["cut"] * sum(1 + n * (n > 1) for _, n in parts(stage))
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


def _swizzled(tile: Stage, arch: str | Arch) -> tuple[float, Stage]:
    """The wavefronts of a block with the lanes, padding and swizzle that cost the least time, what comes
    first among equals; and the tile with them.

    Lanes of several runs conflict less, and write parts of more lines.
    """
    best, m = (inf, 0.0, tile), machine_of(arch)
    for stage in _arranged(tile):
        lanes = stage.config.lanes
        loads = stage.stores * len(reads(stage))
        memory = time_us(tile_work(stage, m), m, SUM)
        each = SEEN * stage.blocks / (m.sms * m.cycles_per_us)
        if lanes and memory + each * (stage.loads + loads) / 32 >= best[0]:
            continue  # even with one wavefront per access
        accesses = tuple(_accesses(stage))
        costs, ideal = _wavefronts(accesses, arch, (PLAIN,))
        if costs[0] == ideal and not lanes:
            return costs[0] / 32, stage
        arithmetic = SWIZZLE_COST if stage.src_aligned and not stage.lead else UNALIGNED_SWIZZLE_COST
        if memory + each * (ideal + arithmetic * loads) / 32 < min(best[0], memory + each * costs[0] / 32):
            swizzled, _ = _wavefronts(accesses, arch, SWIZZLES)
            costs += [cost + arithmetic * loads for cost in swizzled]
        for swizzle, cost in zip((PLAIN, *SWIZZLES), costs, strict=False):
            time = memory + each * cost / 32
            if time < best[0]:
                best = time, cost / 32, stage.arranged(swizzle=swizzle)
    return best[1:]


def _is_whole(stage: Stage) -> bool:
    """True when lanes can be arranged so, and write whole sectors next to each other."""
    lanes = stage.config.lanes
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
