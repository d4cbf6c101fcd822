"""The times of rows and columns that blocks or clusters keep on chip, and of columns that are streamed.

Columns that one block holds.  Columns of few rows are read once.  A slab is `side` vectors wide, and `share`
threads have its rows in turn; what they exchange costs as much for one row as for twenty, and a narrow slab
tears lines, so that few threads with many rows each are best, as long as there are enough of them to wait for
memory:

    softmax (174,302848) bf16      slabs of 256 bytes, 16 threads per column, 11 rows each in shared memory
    layer norm (53,31888) f32      4 threads per column, 14 rows each in registers

All that fits is ranked by its time, see `model`:

    memory     bytes read and written, of whose rate narrow slabs have a part
    issue      instructions of all warps: of vectors and their elements, and of the warp that joins
    waiting    waves of blocks x what a block takes alone

Slabs of columns that a cluster keeps.  A norm over columns is bound by memory, and memory by how much of a
row is touched at once: a copy through slabs of 64 bytes has 0.64 to 0.73 of the rate of a plain one, through
slabs of 128 bytes 0.79 to 0.85, of 256 bytes 0.87 to 0.95.  Wide slabs need large clusters, which leave
multiprocessors of a GPC idle, and blocks that fill a multiprocessor alone, which wait for memory and compute
in turn.  So everything that fits is ranked by the share of a copy that is expected of it:

    share = by width * by cluster * by blocks of a multiprocessor * by bytes on it * of the last wave

    f32, 4096 rows       256 bytes, 8 blocks, two on a multiprocessor
    f32, 14336 rows      128 bytes, 16 blocks, two on a multiprocessor
    bf16, 27648 rows     128 bytes, 16 blocks, alone on theirs: 7 clusters go from slab to slab

Notes.  The factors are fitted to 250 softmaxes of 256 MB, 1024 to 49152 rows, on one H200 with a cold L2
(tests/gpu/column_ways, 2026-11-23).  Slabs of 64 bytes are not offered: at 49152 rows they have 0.60 of a
copy, and reading twice has 0.61.

Rows, and what is read twice.  Blocks ask for a row, join its statistics and write, so that all of them have
the same terms, wherever elements stay:

    memory     the bytes that are read, those that are read again, and those that are written; sectors that
               rows share, and multiprocessors without a block, lengthen it
    issue      instructions of vectors and elements, by formula; more where several modes are taken apart
    waiting    waves of blocks, or of clusters, x what a block takes alone
    beside     barriers of all blocks, and a second kernel

Notes.  Numbers are fitted to 2,181 times of long rows (tests/data/long_rows.json), to 55 norms of which up to
20 ways were timed with nothing beside (2026-12-01) and, from 12 microseconds on, to 64 timed before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import ceil, gcd, inf, log2, sqrt
from types import MappingProxyType

from layoutalg.dtype import DType
from layoutalg.errors import ResourceError
from layoutalg.kernels.model import Machine, Work, moved_bytes, time_us
from layoutalg.kernels.rowwise.forms import Stream, rows_of, with_fold
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.packed import NORM, PackedWalk, along, packed_us
from layoutalg.kernels.rowwise.tensors import Form
from layoutalg.kernels.rowwise.unaligned import MaskedRows
from layoutalg.kernels.rowwise.walk import (
    LINE_BYTES,
    SECTOR_BYTES,
    VECTOR_BYTES,
    WARP,
    WORD_BYTES,
    Walk,
    row_ends,
)
from layoutalg.kernels.rowwise.ways.schedule import (
    RESIDENT_THREADS,
    NormConfig,
    Schedule,
    Ways,
    stream_with,
)
from layoutalg.model import occupancy_of, resident_clusters

SIDE_BYTES = 64
"""The least width of a slab."""

HELD_THREADS = (64, 128, 256, 512)
"""The numbers of threads of a block that are tried."""

MOST_WORDS = 64
"""The most words of a thread in registers."""


def held_columns(rows: int, across: int, vec: int, vector_bytes: int) -> Iterator[NormConfig]:
    """The slabs that registers hold: of `rows`, `across` vectors side by side.

    Of 27 drawn problems three were 1.4 % faster, at most, where one warp joins the statistics of the others,
    and none in shared memory.

    >>> sorted({c.threads_per_row for c in held_columns(3, 1 << 20, 4, 16)})
    [1, 2]
    """
    for threads in HELD_THREADS:
        for share in (1 << n for n in range(threads.bit_length())):
            side, words = threads // share, -(-rows // share) * max(1, vector_bytes // WORD_BYTES)
            if share <= rows and side * vector_bytes >= SIDE_BYTES and side <= across and words <= MOST_WORDS:
                yield NormConfig(vec, side, share, "registers")


WIDTHS: Mapping[int, float] = MappingProxyType({64: 0.84, 128: 0.91})
"""The share of the memory's rate that slabs of so many bytes have; wider ones have WIDEST, as a copy."""

WIDEST = 0.95
"""The same of wider ones."""

TORN_LINES = 0.053
"""The part of a line that each slab's row costs beside where rows start inside of sectors."""

VECTOR, STAGED, ELEMENT = 43.7, 11.6, 4.25
"""Instructions of a thread per vector, more in shared memory, per element, twice as many of two bytes."""

ALONE_US, ROUND_US, JOIN_US, BY_ONE_US = 0.73, 0.0124, 0.0388, 1.1
"""Microseconds of a block, per round of its threads, and per value that threads join; those of the warp that
joins for all, between two barriers."""

ALONE: Mapping[int, float] = MappingProxyType({1: 1.21, 2: 1.09})
"""The factor of blocks of which a multiprocessor has so many: few do not hide each other's waits."""

TOUCHED, TOUCHED_SECTOR, MOST_TOUCHED = 2.44, 0.27, 3.0
"""Wavefronts of a line that a load or a store touches; bytes that each byte counts for of the sectors that a
warp's load touches beside its own, and the most of these per byte."""

FEW_SLABS = 0.59
"""The power of the share of multiprocessors that are busy."""


def held_us(x: Ways, c: NormConfig) -> float:
    """Microseconds that the model gives slabs of columns that a block holds; infinite where none fits."""
    rows, vector_bytes, vec, side = x.form.count, x.vector_bytes, c.vec, c.rows_per_block
    across = x.form.outputs // vec
    rounds, slabs, width = -(-rows // c.threads_per_row), ceil(across / side), side * vector_bytes
    shared, by_one = c.hold == "shared", c.resident > 0
    # parts of a block whose threads have one statistic before they exchange through shared memory
    units = c.threads // max(WARP, side)
    parts = units if units > 1 else 0
    registers = 20 + 3 * vec + 8 * by_one + (0 if shared else rounds * x.words)
    shared_bytes = rounds * c.threads * vector_bytes * shared + 2 * parts * side * vec * WORD_BYTES
    if not (each := _neighbours(x.chip.name, c.threads, registers, shared_bytes)):
        return inf
    torn = TORN_LINES * LINE_BYTES / width if x.apart and vector_bytes < VECTOR_BYTES else 0.0
    beside = _touched(x, c, SECTOR_BYTES) * SECTOR_BYTES / (WARP * vector_bytes) - 1
    torn += TOUCHED_SECTOR * min(MOST_TOUCHED, max(0.0, beside))
    warps = -(-c.threads // WARP) * rounds * max(slabs, x.machine.sms)  # idle multiprocessors issue nothing
    narrow = min(1.0, max(SECTOR_BYTES, width) / SIDE_BYTES)
    nbytes = x.problem.moved_bytes / (WIDTHS.get(width, WIDEST) * narrow)
    element = ELEMENT * (1 + (vector_bytes < WORD_BYTES * vec))
    inputs = len(x.problem.read)
    joined = parts * vec * (side / WARP if by_one else 1)
    added_us = x.machine.load_us * ceil(rounds / c.depth) * x.problem.norm.adds  # sums wait for their loads
    alone = ALONE.get(each, 1.0)
    work = Work(
        alone * nbytes * (1 + torn) / min(1.0, slabs / x.machine.sms) ** FEW_SLABS,
        alone * warps * (VECTOR * inputs + STAGED * shared + vec * element),
        2 * warps * TOUCHED * inputs * _touched(x, c, LINE_BYTES),
        slabs,
        x.machine.sms * each,
        alone * (ALONE_US + ROUND_US * rounds + JOIN_US * joined + BY_ONE_US * by_one + added_us),
        starts=slabs,
    )
    return time_us(work, x.machine)


def _touched(x: Ways, c: NormConfig, unit_bytes: int) -> float:
    """Units of memory that the first load of a warp touches, of `rows_per_block` threads side by side."""
    size, lanes, found = x.element.nbytes, min(WARP, c.threads), set[int]()
    for lane in range(lanes):
        row, across = divmod(lane, c.rows_per_block)
        start = (along(x.form.kept, across * c.vec) + along(x.form.reduced, row)) * size
        found.update(range(start // unit_bytes, (start + c.vec * size - 1) // unit_bytes + 1))
    return len(found) * WARP / lanes


@lru_cache(1024)
def _neighbours(arch: str, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks of a multiprocessor whose threads want so many registers; 0 where none fits."""
    held = min(registers, REGISTERS // threads, MOST_REGISTERS)
    with contextlib.suppress(ResourceError):
        block = occupancy_of(arch, threads=threads, registers_per_thread=held, shared_bytes=shared_bytes)
        return block.blocks_per_sm
    return 0


MULTIPROCESSOR_BYTES, BLOCK_BYTES, RESERVED_BYTES = 228 << 10, 227 << 10, 1 << 10
"""Shared memory of a multiprocessor that has clusters, of a block, and what the system takes per block."""

REGISTERS, LEAST_REGISTERS, MOST_REGISTERS = 1 << 16, 64, 255
"""Registers of a multiprocessor, which a block may have alone, of a thread as many as are enough, and the
most of one."""

NARROW: Mapping[int, float] = MappingProxyType({256: 0.78, 128: 0.88})
"""The same of elements of two bytes, in the widths of slabs that clusters keep."""

CLUSTERS, PER_HALVING = (1, 2, 4, 8, 16), 0.02
"""Blocks of a cluster, and what each doubling of them takes from that share."""

FULL_BYTES, BY_FILLED = 192 << 10, 0.3
"""The least bytes that a multiprocessor keeps, so that enough loads are in flight, and the power of fewer."""

TOGETHER = ((3, 256, 1), (2, 256, 8), (1, 512, 8))
"""Blocks that share a multiprocessor, threads of each, and vectors of a thread that may be in registers.
Blocks that are alone there go from slab to slab."""

BY_BLOCKS = MappingProxyType({3: 1.0, 2: 0.97, 1: 0.9})
"""The factor of the share of a copy where so many blocks share a multiprocessor."""


def slab_bytes(vec: int, vector_bytes: int, lanes: int, threads: int, staged: int, cluster: int) -> int:
    """Shared memory of a block at most: vectors, words of warps, factors, room of the exchange, mbarrier.

    >>> slab_bytes(4, 16, 8, 256, 26, 8)
    113040
    """
    words = 2 * vec + 4
    beside = WORD_BYTES * lanes * words * (threads // WARP + cluster + 1) + 16
    return staged * threads * vector_bytes + beside


def neighbours(nbytes: int, threads: int) -> int:
    """Blocks of a multiprocessor that shared memory has room for, with enough registers.

    >>> neighbours(100 << 10, 256), neighbours(200 << 10, 256)
    (2, 1)
    """
    by_registers = REGISTERS // (LEAST_REGISTERS * threads)
    return max(1, min(MULTIPROCESSOR_BYTES // (nbytes + RESERVED_BYTES), by_registers))


def slabs(rows: int, vec: int, vector_bytes: int, sms: int, clusters: int) -> Iterator[NormConfig]:
    """All slabs of `rows` that fit, of vectors of so many bytes, for clusters of up to so many blocks.

    >>> sorted({c.cluster for c in slabs(8192, 4, 16, 132, 16)})
    [4, 8, 16]
    """
    for width, cluster in product(NARROW, CLUSTERS):
        lanes = width // vector_bytes
        for blocks, threads, held in TOGETHER:
            each = threads // lanes
            if cluster > clusters or lanes > WARP or cluster * each >= rows:
                continue
            rounds = -(-rows // (cluster * each))
            room = MULTIPROCESSOR_BYTES // blocks - RESERVED_BYTES
            room -= slab_bytes(vec, vector_bytes, lanes, threads, 0, cluster)
            staged = min(rounds, room // (threads * vector_bytes))
            if staged >= 1 and rounds - staged <= held:
                resident = resident_clusters(sms, cluster, blocks) if blocks == 1 < cluster else 0
                parts = {"staged": staged if staged < rounds else 0, "resident": resident}
                yield NormConfig(vec, lanes, each, "shared", cluster=cluster, **parts)


def slab_us(x: Ways, c: NormConfig) -> float:
    """Microseconds that the model gives slabs that clusters keep."""
    m, lanes, rounds = x.machine, c.rows_per_block, Schedule(x.walk(c), c).rounds
    nbytes = slab_bytes(c.vec, x.vector_bytes, lanes, c.threads, c.staged or rounds, c.cluster)
    most = max(blocks for blocks, threads, _ in TOGETHER if blocks == 1 or threads >= c.threads)
    blocks, count = min(most, neighbours(nbytes, c.threads)), ceil(x.form.outputs / c.vec / lanes)
    places = max(1, resident_clusters(m.sms, c.cluster, blocks))
    by_width = WIDTHS if x.vector_bytes == WORD_BYTES * c.vec else NARROW
    share = by_width.get(lanes * x.vector_bytes, WIDEST) * BY_BLOCKS[blocks]
    share *= 1 - PER_HALVING * log2(c.cluster)
    share *= min(1.0, blocks * rounds * c.threads * x.vector_bytes / FULL_BYTES) ** BY_FILLED
    share *= WIDEST / _last_wave(count / places)
    alone = _alone_us(x, c, rounds)  # of the first wave: the share has what the others wait
    started = min(count, c.resident or count) * c.cluster
    moved = x.problem.moved_bytes / share
    return time_us(Work(moved, block_us=alone, beside_us=CLUSTER_US, starts=started), m)


def _alone_us(x: Ways, c: NormConfig, rounds: int) -> float:
    """Microseconds of a block that has a multiprocessor alone."""
    nbytes = rounds * c.threads * x.vector_bytes * len(x.problem.read)
    peers = PEER_US * c.cluster * (c.cluster > 1)
    return ROW_US + STEP_US * rounds + ROW_BYTE_US * nbytes + WARP_US * c.threads / WARP + peers


MOST_FOLD = 256
"""The most rows of memory that form a row of the stream."""

SIDES, STREAM_THREADS = (16, 32, 64, 128), (128, 256, 512)
"""The numbers of threads side by side, and of threads of a block, that are tried."""

WAVES = (1, 2, 3, 4, 5, 6, 8, 10, 12)
"""The numbers of blocks of a multiprocessor that are tried."""

TORN, NARROW_RUN, SINGLE = 1.04, 8.0, 8.0
"""The factor for rows of the stream that are not whole lines; the bytes that each run of a tile costs; bytes
per byte of the remaining rows, which are taken element by element."""

MOST_JOINING, JOINED_BYTES = 256, 420e3
"""The most threads that join a group's partials; the bytes that memory moves while each adds a partial."""

PARTIALS = MappingProxyType({"softmax": 2, "layer_norm": 2, "rms_norm": 1})
"""The approximate number of partial statistics of a column, by the formula of a norm."""

MOST_COST = 4.5
"""The most bytes of memory per byte of the tensor: streams of few rows have many partials."""

ENOUGH, RESIDENT, BY_ENOUGH = 1280, 1536, 0.6
"""The approximate numbers of threads of a multiprocessor: those that suffice, and those that it holds; the
power of fewer than suffice."""


def folds(form: Form, vec: int, element: DType) -> Iterator[Stream]:
    """The streams of a form with vectors of so many elements: the least fold, and those of whole lines."""
    line = LINE_BYTES // element.nbytes
    for inside, row in rows_of(form):
        least, whole = vec // gcd(row, vec), line // gcd(row, line)
        tried = {fold << n for fold in (least, whole) for n in range(MOST_FOLD.bit_length())}
        for fold in sorted(fold for fold in tried if fold <= MOST_FOLD):
            found = with_fold(form, inside, fold)
            if found is not None and found.has_vectors(vec):
                yield found


def streamed(form: Form, element: DType, formula: str, m: Machine, depth: int) -> list[NormConfig]:
    """All ways to read a form as a stream by the widest vectors that have any, the cheapest first; a thread
    loads `depth` vectors at a time.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.model import machine_of
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> form = normalise(axes_problem((557855, 117), 0, "f16", keeps=True))
    >>> streamed(form, dtype("f16"), "softmax", machine_of("sm_90"), 4)[0].width % (8 * 117)
    0
    """
    vec, most = VECTOR_BYTES // element.nbytes, MOST_COST * form.count * form.outputs * element.nbytes
    while vec * element.nbytes >= 4:
        ways = ((s, c) for s in folds(form, vec, element) for c in _divided(s, vec, element, m.sms))
        timed = [(stream_work(s, c, element, formula, m).nbytes, replace(c, depth=depth)) for s, c in ways]
        if found := [way for way in timed if way[0] <= most]:
            return [c for _, c in sorted(found, key=lambda way: way[0])]
        vec //= 2
    return []


def _divided(s: Stream, vec: int, element: DType, sms: int) -> Iterator[NormConfig]:
    """The divisions of a stream among blocks."""
    for side, threads in product(SIDES, STREAM_THREADS):
        share, tiles = threads // side, ceil(s.places / vec / side)
        if not share or min(s.width, side * vec) * element.nbytes < LINE_BYTES:
            continue
        for splits in dict.fromkeys(max(1, each * sms // tiles) for each in WAVES):
            if s.columns.count >= splits * share:
                yield NormConfig(vec, side, share, "global", splits=splits, width=s.width)


def stream_work(s: Stream, c: NormConfig, element: DType, formula: str, m: Machine) -> Work:
    """The work of a stream: its elements three times, longer where blocks are few, uneven or start inside of
    lines, and the partials of columns; two kernels follow the first."""
    steps, size, planes, side = s.columns.count, element.nbytes, PARTIALS[formula], c.rows_per_block * c.vec
    total, tiles = s.form.count * s.form.outputs * size, ceil(s.places / side)
    rounds = ceil(steps / (c.threads_per_row * c.splits))
    idle = tiles * side / s.places * (rounds * c.threads_per_row * c.splits / steps)
    partials = 2 * WORD_BYTES * planes * (c.splits + 1) * s.places
    joined = planes * (s.places * c.splits / s.form.outputs / MOST_JOINING) * JOINED_BYTES
    apart = (TORN if s.width * size % LINE_BYTES else 1.0) * (1 + NARROW_RUN / (min(s.width, side) * size))
    read = 3 * idle * apart / _filled(tiles * c.splits, c.threads, m.sms)
    single = SINGLE * (s.rows.extent % s.fold) / s.rows.extent
    return Work((read + single) * total + partials + joined, beside_us=2 * m.next_launch_us)


def _filled(blocks: int, threads: int, sms: int) -> float:
    """The share of the memory's rate: blocks may be few, and unevenly spread over the multiprocessors."""
    fill: float = min(1.0, blocks * threads / (sms * ENOUGH)) ** BY_ENOUGH
    uneven, waves = ceil(blocks / sms) * sms / blocks, blocks * threads / (sms * RESIDENT)
    return fill / sqrt(_last_wave(waves)) / (1 + 0.5 * (uneven - 1))


REGISTERS_SHARED, REGISTERS_HELD = ((40, 1.5), (64, 2.0)), ((28, 1.25), (32, 2.0))
"""Registers of a thread beside the words that it holds, and for each of these, of elements of four bytes and
of two: where some are in shared memory, and where none is."""

ROW_VECTOR, APART_MODE, STAGED_VECTOR, TWICE = 7.6, 80.0, 40.0, 2.26
"""Instructions of a thread per vector, more for each mode of a row beyond one, and in shared memory; the
factor more of what is read twice."""

EXPONENTIAL, PARAMETER, CUT_ELEMENT, CUT_PIECE, KEPT_MODE = 1.9, 11.5, 14.5, 53.0, 30.0
"""Instructions of a thread per element of a softmax, for each parameter, of vectors that rows cut, and that
pieces of rows cut; of a warp for each kept mode beyond one."""

ROW_LINE, CUT_LINE = 0.226, 1.62
"""Wavefronts of a line that a load or a store touches, and one of single elements."""

ROW_US, STEP_US, WARP_US, PEER_US, ROW_BYTE_US, CLUSTER_US = 0.817, 0.0418, 0.00244, 0.0633, 3.09e-5, 0.554
"""Microseconds of a block: alone, per round of its threads, per warp, per block of its cluster, and per byte
that it holds; of a launch of clusters."""

SHARED_SECTOR, MOST_SHARED, FEW_BLOCKS, LAST_BLOCKS = 1.05, 1.57, 0.233, 0.446
"""Bytes that each byte counts for which is read beside a piece, in sectors that pieces share, and the most
of these per byte; the power of the share of multiprocessors that are busy, and that of the last wave."""

LONE: Mapping[int, float] = MappingProxyType({1: 1.07, 2: 1.07, 3: 1.03, 4: 1.03})
"""The factor of the bytes of rows, of whose blocks a multiprocessor has so many."""

SPLIT_US, GRID_TURN_US = 3.4, 6.1
"""Microseconds beside of two kernels, of which the second waits for the first, and of each turn of resident
blocks."""

KEPT_SHARE, FOUND_SHARE = 0.4, 16 / 60
"""The most bytes that are found in L2 again, as a share of it, and the share of L2 whose bytes of the first
launch a second one, which goes backwards, finds: 8 to 22 of 60 MB were counted on an H200 for long rows."""


def read_again(p: NormProblem, walk: Walk, c: NormConfig, m: Machine) -> float:
    """Bytes that memory reads a second time: what lies between two readings is more than the L2 keeps."""
    elements, size = p.axes.read_elems * p.dtype.nbytes * len(p.read), p.dtype.nbytes
    kept = KEPT_SHARE * m.l2_bytes
    if c.together:  # in every turn all but what the rings of all blocks hold, where the L2 does not
        ring = c.resident * c.staged * c.threads * c.vec * size
        left = elements * walk.tiles_at_once // walk.places - ring
        return -(-walk.places // walk.tiles_at_once) * left if left > kept else 0
    if c.splits > 1 or c.width:
        return elements - int(FOUND_SHARE * m.l2_bytes) if elements > kept else 0
    resident = min(walk.blocks, m.sms * max(1, RESIDENT_THREADS // c.threads))
    return elements if c.hold == "global" and resident * (elements // walk.blocks) > kept else 0


def row_us(x: Ways, c: NormConfig) -> float:
    """Microseconds that the model gives rows; infinite where no block fits."""
    p, m, walk, size = x.problem, x.machine, x.walk(c), x.element.nbytes
    schedule, twice, words = Schedule(walk, c), c.hold == "global", max(1, c.vec * size // WORD_BYTES)
    rounds, staged = schedule.rounds, schedule.staged
    base, each_word = (REGISTERS_HELD if c.hold == "registers" else REGISTERS_SHARED)[size < WORD_BYTES]
    registers = int(base + each_word * (c.depth if twice else rounds - staged) * words)
    shared = staged * c.threads * c.vec * size + c.threads * c.cluster // 4
    each = _neighbours(x.chip.name, c.threads, registers, shared)
    if not (clusters := resident_clusters(m.sms, c.cluster, each)):
        return inf
    beside, lines = _pieces(x, c)
    # short pieces of a row are cut in all rounds, a row in the first and the last
    cut = (rounds if walk.outer else min(2, rounds)) * c.vec * isinstance(walk, MaskedRows)
    further = [max(0, sum(d.extent > 1 for d in modes) - 1) for modes in (x.form.reduced, x.form.kept)]
    vector = (ROW_VECTOR + APART_MODE * further[0]) * (inputs := len(p.read))
    vector += STAGED_VECTOR * staged / rounds * (c.hold == "shared")
    vector += c.vec * (PARAMETER * len(p.parameters) + EXPONENTIAL * (p.formula == "softmax"))
    warp = KEPT_MODE * further[1] + rounds * vector * (1 + TWICE * twice)
    warp += (CUT_PIECE if walk.outer else CUT_ELEMENT) * cut * inputs
    warps = ceil(c.threads / WARP) * ceil(walk.blocks / m.sms) * m.sms  # idle multiprocessors issue nothing
    rate = min(1.0, walk.blocks / m.sms) ** FEW_BLOCKS
    if not c.together:
        lone = LONE.get(each, 1.0) if walk.blocks > m.sms else 1.0
        rate /= lone * _last_wave(walk.blocks / c.cluster / clusters)
    read = p.moved_bytes - p.written_bytes + read_again(p, walk, c, m)
    if c.splits > 1 and not c.together and read > p.moved_bytes - p.written_bytes:
        read += FOUND_SHARE * m.l2_bytes  # what a second kernel finds in the L2 saves no time
    read *= 1 + SHARED_SECTOR * min(MOST_SHARED, beside)
    turns = ceil(walk.places * c.splits / c.resident) if c.together else 0
    return time_us(
        Work(
            moved_bytes(read, p.written_bytes) / rate,
            warps * warp,
            warps * lines * inputs * (2 * rounds * ROW_LINE + CUT_LINE * cut),
            blocks=walk.blocks / c.cluster,
            at_once=clusters,
            block_us=0.0 if c.together else _alone_us(x, c, rounds),
            beside_us=GRID_TURN_US * turns
            if turns
            else SPLIT_US * (c.splits > 1) + CLUSTER_US * (c.cluster > 1),
            starts=walk.blocks,
        ),
        m,
    )


def _last_wave(waves: float) -> float:
    """The factor of the time that memory takes: the last wave leaves multiprocessors idle."""
    whole = int(waves)
    return (whole + (waves - whole) ** (1 - LAST_BLOCKS)) / waves if waves > 1 else 1.0


def _pieces(x: Ways, c: NormConfig) -> tuple[float, float]:
    """Bytes of sectors beside each byte of the pieces that warps load, and lines of a warp's load."""
    lead, size, lanes = x.form.lead, x.element.nbytes, min(WARP, c.threads_per_row)
    if lead.src != 1:
        return (SECTOR_BYTES - size) / size, WARP
    run, wide = lead.extent * size, lanes * c.vec * size
    behind = next((d for d in x.form.modes if d is not lead and d.src == lead.extent), None)
    piece, pitch = min(wide, run), LINE_BYTES if behind is None else run
    lines = WARP / lanes * max(piece, min(max(piece, LINE_BYTES), pitch)) / LINE_BYTES
    if wide >= run and behind is not None and not behind.reduced:
        piece *= WARP // lanes
    align = gcd(SECTOR_BYTES, piece, *(v * size for v in row_ends(x.form)))
    return (SECTOR_BYTES - align) / piece, max(lines, WARP * c.vec * size / LINE_BYTES)


TWICE_SHARE, NARROW_TWICE_SHARE = 0.66, 0.58
"""The share of a copy's rate for columns that are read twice, and that for softmax and layer norm of two-byte
elements.

On an H200, the streams of tests.gpu.ragged_rows, seeds 20261131 to 20261133: 14 of softmax and layer norm of
two-byte elements have 0.52 to 0.61, one of them 0.42; six others 0.62 to 0.67, one of them 0.48."""


def twice_us(x: Ways, c: NormConfig, walk: Walk) -> float:
    """Microseconds that the model gives columns that are read twice."""
    narrow = x.element.nbytes < WORD_BYTES and x.problem.formula != "rms_norm"
    share = WIDEST * (NARROW_TWICE_SHARE if narrow else TWICE_SHARE)
    beside, lead = SPLIT_US * (c.splits > 1), x.form.lead
    run = min(lead.extent, c.rows_per_block * c.vec) * x.element.nbytes if lead.src == 1 else x.element.nbytes
    share *= min(1.0, run / SECTOR_BYTES)
    rounds = ceil(Schedule(walk, c).rounds / c.depth)
    places = x.machine.sms * max(1, RESIDENT_THREADS // c.threads)
    waits = walk.blocks, places, ROW_US + 2 * x.machine.load_us * rounds
    return time_us(
        Work(x.problem.moved_bytes / share, 0.0, 0.0, *waits, beside, starts=walk.blocks), x.machine
    )


GRID_DEPTH, GRID_STAGED = 2, 12
"""Vectors of a thread at a time, and those in shared memory: 192 KB of a multiprocessor."""

LONE_THREADS, SEVERAL_THREADS = 1024, 512
"""Threads of a block for one row, and for several, of which fewer were timed with 1024."""


def norm_us(x: Ways, c: NormConfig) -> float:
    """Microseconds that the model gives a configuration; infinite where no block of it fits."""
    p, walk = x.problem, x.walk(c)
    if isinstance(walk, PackedWalk):
        return packed_us(walk, NORM, x.machine, p.moved_bytes, held=c.hold == "registers")
    if c.width:
        return time_us(stream_work(stream_with(x.form, c), c, p.dtype, p.formula, x.machine), x.machine)
    if walk.rows:
        return row_us(x, c)
    if c.hold == "global":
        return twice_us(x, c, walk)
    return slab_us(x, c) if c.cluster > 1 else held_us(x, c)
