"""The choice of a permute's tile: the tiles that exist, the units that their runs touch, and their cost.

Shapes.  A tile has runs of a number of bytes on either side, from the fastest mode on.  Modes are taken into
the tile from the fastest of a side on until its run has the target length, so that short ones (channels,
heads) fold; the mode that ends a run is cut into equal parts.  Both sides have several target lengths, each
pair of which is a tile; the cheapest is taken (`plan`).

Parts are multiples of a vector's elements, once by themselves and once together with the modes below them:

    u8, 24 elements and then 237, a target of 128 bytes      16 of 237, 384 bytes; or 6 of 237, 144 bytes

Units.  Memory moves whole units: requests to the L2 are sectors of 32 bytes, memory fills half lines of
64, a store travels by lines of 128.  A run of n bytes from byte s on touches the units s // u to
(s + n - 1) // u.  Runs that start at all multiples of g alike touch, on average,

    (n + u - g) / u       where g divides u and n is a multiple of g

so a run that starts at units (g = u) touches n / u, one that starts at any element almost one unit more:

    runs of 31 f32, at any element        (124 + 32 - 4) / 32 = 4.75 sectors, 1.23 of what they fill
    runs of 62 f32                        (248 + 32 - 4) / 32 = 8.63 sectors, 1.11

What makes runs longer, or lets them start at units, saves what the first and the last unit share with other
runs.  The law does not cover other accesses to a unit, or whether it is still in the L2 then.

Cost.  A permute moves the bytes of a copy, and also what its runs share with others: sectors that two
rows request from the L2, half lines that memory fills twice since the second row comes too late to
find them in the L2, sectors and lines of the destination that two runs or two warps write parts of.  Too few
bytes in flight leave the memory idle.  They are stated as Work, whose parts add up here:

    memory        COPIED of a copy's bytes, and of each byte that is touched beyond those
                      0.52 in sectors and 0.08 in half lines that rows request, 0.04 in lines
                      0.62 that memory fills once more: lines where copies ask for whole ones, else half lines
                      2.34 in sectors that runs of the destination touch; 1.2 in those of warps, 0.12 in lines
                  and what idle threads, large tiles and the last tiles leave of the memory's rate
    waiting       moved / bytes in flight * a share of the wait for a load
    beside        cycles of a block
    instructions  a share of them, and of wavefronts: memory hides the others

Fitted, but for half lines and lines of rows, to 848 configurations of 125 random tensors that an H200 timed
(tests/gpu/tune_permute.py, seeds 2027 and 2028): 14 % root mean square.  Sectors that warps write parts of,
wavefronts and a vector's instructions were weighed once more on 1,099 configurations of seeds 2027 and 2029,
for the choice: of those of each tensor it has 0.978 of the fastest in the geometric mean, 0.974 before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, prod

from layoutalg.arch import find_arch
from layoutalg.kernels.model import Machine, Work
from layoutalg.kernels.move.problem import Mode, Moves
from layoutalg.kernels.move.stage import LINE_BYTES, Stage

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


SECTOR_BYTES, HALF_LINE_BYTES = 32, 64
"""The units of requests to the L2, and of fills from memory; stores travel by lines."""

NEAR_BYTES = 8 << 20
"""The most bytes moved between two tiles that share units for the second to find them in the L2."""


def loaded_units(stage: Stage, unit_bytes: int) -> float:
    """Units of the source that the rows of all tiles touch; one that two rows touch counts twice.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((997, 999), (1, 0), "f32"))
    >>> stage = Stage(x, PermuteConfig("staged", (128, 128), 256, 4, 4))
    >>> round(loaded_units(stage, 32) * 32 / 997 / 999 / 4, 2)
    1.08
    """
    modes, size, run = stage.modes, stage.size, stage.src_run
    halo = [stage.lead * n if stage.halo and k == stage.last else 0 for k, n in enumerate(stage.counts)]
    held = [(m.extent + more, m.src) for m, more in zip(modes, halo, strict=True)]
    rows = prod(stage.counts[k] if k in run else extent for k, (extent, step) in enumerate(held) if step)
    starts = size * gcd(stage.src_starts, stage.row_lead)
    return touched_units(prod(n for n, step in held if step) * size, rows, starts, unit_bytes)


def stored_units(stage: Stage, unit_bytes: int) -> float:
    """Units of the destination that the runs of all tiles touch; one that two runs touch counts twice.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((997, 999), (1, 0), "f32"))
    >>> config = PermuteConfig("staged", (128, 128), 256, 4, 4, align=8)
    >>> round(stored_units(Stage(x, config), 32) * 32 / 997 / 999 / 4, 2)
    1.01
    """
    modes, run = stage.modes, stage.dst_run
    runs = prod(stage.counts[k] if k in run else m.extent for k, m in enumerate(modes))
    size, starts = stage.dst_size, stage.dst_size * stage.dst_starts
    moved = prod(m.extent for m in modes) * size
    if not stage.halo:
        return touched_units(moved, runs, starts, unit_bytes)
    whole = prod(1 if k in run else m.extent for k, m in enumerate(modes))  # a unit cuts the others
    owned = max(gcd(starts, unit_bytes), gcd(stage.unit * size, unit_bytes))
    inside = touched_units(moved, runs - whole, owned, unit_bytes)
    return inside + touched_units(0, whole, starts, unit_bytes)


def filled_units(stage: Stage, unit_bytes: int) -> float:
    """Units that memory fills: what neighbouring tiles touch that follow each other is filled once.

    A row goes on where the tile ends that holds it, in the next tile along that mode; where the mode ends, in
    the first tile again.  Where that one comes soon, or came, within `NEAR_BYTES`, both are one run for the
    memory.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((500, 600, 700), (2, 1, 0), "f32"))
    >>> for walk in ("target", "tile"):
    ...     stage = Stage(x, PermuteConfig("staged", (64, 1, 16), 256, 4, 4, walk=walk))
    ...     print(walk, round(filled_units(stage, 64) * 64 / (500 * 600 * 700 * 4), 2))
    target 1.75
    tile 1.0
    """
    modes, size, length, whole = stage.modes, stage.size, 1, list[int]()
    tile, back = prod(stage.tile) * size, 0  # from the last tile along the modes before to the first one
    for k in stage.by_source:
        if modes[k].src != length:
            break
        apart = prod(stage.counts[j] for j in stage.walk[: stage.walk.index(k)]) * tile
        step = apart if stage.tile[k] < modes[k].extent else 0
        if abs(step - back) > NEAR_BYTES:
            break
        whole.append(k)
        length *= modes[k].extent
        back += (stage.counts[k] - 1) * apart
    cut = [k for k in stage.src_run if k not in whole][:1]
    held = [k for k, m in enumerate(modes) if m.src]
    runs = prod(stage.counts[k] if k in cut else modes[k].extent for k in held if k not in whole)
    steps = (modes[k].src * (stage.tile[k] if k in cut else 1) for k in held if k not in whole)
    starts = gcd(stage.moves.src_offset, *steps)
    return touched_units(prod(modes[k].extent for k in held) * size, runs, starts * size, unit_bytes)


def touched_units(nbytes: int, runs: int, start_bytes: int, unit_bytes: int) -> float:
    """Units that so many runs touch, `nbytes` long together, the mean over starts at all multiples of
    `start_bytes`.

    >>> touched_units(124, 1, 4, 32), touched_units(256, 1, 32, 32), touched_units(256, 1, 0, 128)
    (4.75, 8.0, 2.0)
    """
    return (nbytes + runs * (unit_bytes - gcd(start_bytes, unit_bytes))) / unit_bytes


COPIED, IDLE_THREADS, LARGE, LAST = 0.825, 0.13, 2e-6, 2.8
"""Bytes of memory per byte of a copy: those of the copy itself, more where no thread of a multiprocessor is
resident, and per byte of shared memory past LARGE_BYTES; the tiles that each multiprocessor waits for at the
end."""

AGAIN, AGAIN_HALF, AGAIN_LINE, REFILLED, TORN, TORN_WARP, TORN_LINE = 0.52, 0.08, 0.04, 0.62, 2.34, 1.2, 0.12
"""Bytes of memory that each byte takes which is touched beyond a copy's: by rows in sectors, half lines and
lines; filled again; by runs of the destination in sectors, by its warps in sectors and in lines."""

BLOCK_CYCLES, WAITED, SEEN = 28.5, 0.415, 0.235
"""Cycles of a multiprocessor that a block takes; the shares of the wait for a load, and of the time of
instructions and wavefronts, that memory does not hide."""

LARGE_BYTES = 48 << 10
"""Tiles with more shared memory leave fewer blocks to overlap."""

SUM = 1.0
"""The power of the sum of what happens at the same time.

By 3, as elsewhere, with all numbers fitted to 959 times of 86 permutes (2026-11-30), first choices have 0.967
to 0.975 of the fastest on halves that were not fitted to, and 0.982 by the sum, while 81 to 86 % of what is
near the fastest would be expected within 10 %: so the sum ranks, and a time grows with it."""

FIRST_US, GROWN, GROWTH = 0.2, 0.8, 1.05
"""Microseconds beside of a launch, and the factor and the power by which a time grows with the sum: those of
the 959 times of which most are expected within 10 %, 81 % of what is near the fastest instead of 74."""


def tile_work(stage: Stage, m: Machine, instructions: float = 0.0, wavefronts: float = 0.0) -> Work:
    """The work of a configuration whose blocks take so many instructions and wavefronts each.

    >>> from layoutalg.kernels.model import machine_of, time_us
    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x, m = normalise(permute_problem((9997, 9999), (1, 0), "f32")), machine_of("sm_90")
    >>> def time(align):
    ...     stage = Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4, align=align))
    ...     return round(time_us(tile_work(stage, m), m, SUM))
    >>> time(0), time(8)
    (200, 183)
    """
    chip = find_arch(m.arch)
    elements, moved = prod(m.extent for m in stage.modes), moved_bytes(stage)
    read, written, threads = elements * stage.size, elements * stage.dst_size, stage.config.threads
    filled = LINE_BYTES if stage.config.lines else HALF_LINE_BYTES
    most = chip.max_warps_per_sm * chip.lanes
    shared = stage.tile_bytes + chip.reserved_shared_bytes_per_block
    resident = min(most // threads, chip.shared_bytes_per_sm // shared)
    flight = min(max(1, resident), stage.blocks / m.sms) * prod(stage.held) * stage.size
    copied = COPIED + IDLE_THREADS * max(0, 1 - threads * resident / most)
    copied += LARGE * max(0, stage.tile_bytes - LARGE_BYTES)
    nbytes = (
        2 * moved * copied
        + AGAIN * (loaded_units(stage, SECTOR_BYTES) * SECTOR_BYTES - read)
        + AGAIN_HALF * (loaded_units(stage, HALF_LINE_BYTES) * HALF_LINE_BYTES - read)
        + AGAIN_LINE * (loaded_units(stage, LINE_BYTES) * LINE_BYTES - read)
        + REFILLED * (filled_units(stage, filled) * filled - read)
        + TORN * (stored_units(stage, SECTOR_BYTES) * SECTOR_BYTES - written)
        + TORN_WARP * _warps(stage, SECTOR_BYTES)
        + TORN_LINE * _warps(stage, LINE_BYTES)
        + LAST * m.sms * moved / stage.blocks
    )
    return Work(
        nbytes,
        SEEN * instructions * stage.blocks,
        SEEN * wavefronts * stage.blocks,
        block_us=moved / (m.sms * flight) * WAITED * m.load_us,
        beside_us=moved / (prod(stage.tile) * stage.size) / m.sms * BLOCK_CYCLES / m.cycles_per_us,
    )


def grown_us(us: float, m: Machine) -> float:
    """Microseconds of a launch, from the sum of what happens in it.

    >>> from layoutalg.kernels.model import machine_of
    >>> [round(grown_us(us, machine_of("sm_90")), 1) for us in (0.0, 10.0, 100.0)]
    [3.5, 12.5, 104.2]
    """
    return float(m.launch_us + FIRST_US + GROWN * us**GROWTH)


def moved_bytes(stage: Stage) -> float:
    """Bytes that are stored; where elements are converted, the mean of either side."""
    return prod(m.extent for m in stage.modes) * (stage.size + stage.dst_size) / 2


def _warps(stage: Stage, unit_bytes: int) -> float:
    """Bytes of units that warps write beyond those that they fill."""
    vec, size = stage.config.vec, stage.dst_size
    lanes = min(stage.lanes, 32)
    run_bytes, piece_bytes = stage.dst_length * size, lanes * vec * size
    modes = enumerate(zip(stage.modes, stage.counts, strict=True))
    runs = prod(count if k in stage.dst_run else m.extent for k, (m, count) in modes)
    pieces = runs * -(-run_bytes // piece_bytes)
    start = stage.unit * size if stage.lead else gcd(unit_bytes, stage.dst_starts * size)
    start = gcd(start, piece_bytes) if run_bytes > piece_bytes else start
    return pieces * (unit_bytes - gcd(start, unit_bytes))
