"""The times of rows and columns that blocks or clusters keep on chip, and of columns that are streamed.

Columns that one block holds.  Columns of few rows are read once.  A slab is `side` vectors wide, and `share`
threads have its rows in turn; what they exchange costs as much for one row as for twenty, and a narrow slab
tears lines, so that few threads with many rows each are best, as long as there are enough of them to wait for
memory:

    softmax (174,302848) bf16      slabs of 256 bytes, 8 threads per column, 22 rows each in shared memory
    layer norm (53,31888) f32      4 threads per column, 14 rows each in registers

All that fits is ranked by its time, see `model`:

    memory     bytes read and written, of whose rate narrow slabs have a part
    issue      instructions of all warps: of vectors and their elements, and of the warp that joins
    waiting    waves of blocks x what a block takes alone

Notes.  Numbers were fitted to 1,063 times of slabs of 153 drawn tensors on one H200 (2026-11-30): first
choices have 0.958 of the fastest.

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

Rows that a cluster keeps.  Memory moves bytes as long as blocks request them; a row's blocks request, wait
for each other, write, and leave.  The more rows are resident, the less of that is seen:

    waiting     rows / resident clusters * (the exchange of its blocks, the rounds of its threads, the bytes
                of a block)

    f32, 512 rows of 262144       16 blocks of 256 threads, 48 KB each in shared memory, 16 words in registers
    bf16, 4096 rows of 32768      3 blocks of 128 threads, 22 KB each

Three numbers, and one of what two kernels take beside, are fitted to the ways of 56 problems on one H200 with
a cold L2 (tests/data/long_rows.json): first choices have 0.9735 of the fastest, 0.983 on the 28 whose lengths
were drawn.  Ten numbers, with parts of a row, of registers and of narrow elements, had 0.9718 and 0.981.

Rows that no cluster holds.  They are read twice, except for what stays on chip: blocks that are all resident
read their parts of rows, wait for each other, and write.  What a block has read last is still in its shared
memory.  For S bytes, some of which are kept, memory moves

    moved    S + (S - kept) + S        read, read again, written; 2 S where all is kept
    share    2 S / moved               of a copy, at most

    64 MB, 25 kept      0.77        178 MB    0.70        512 MB    0.68

    time     launches + turns * the barrier + moved / the memory's rate

Of several rows some are read at once, and the next in turn: then more of these is kept, and the barrier is
paid for each turn.

Fitted to the ways of ten problems on one H200 with a cold L2 (tests/gpu/whole_rows, seed 20261123,
2026-11-23), within 4 % of their times; two others on seeds that it has not seen: within 6 and 8 %.  Rows of
several modes that start anywhere, whose every vector is masked, take longer, and were left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import ceil, gcd, inf, sqrt
from types import MappingProxyType

from layoutalg.dtype import DType
from layoutalg.errors import ResourceError
from layoutalg.kernels.model import Machine, Work, time_us
from layoutalg.kernels.rowwise.forms import Stream, rows_of, with_fold
from layoutalg.kernels.rowwise.tensors import Form
from layoutalg.kernels.rowwise.walk import LINE_BYTES, VECTOR_BYTES, WARP, WORD_BYTES
from layoutalg.kernels.rowwise.ways.schedule import Hold, NormConfig, Schedule, Ways
from layoutalg.model import occupancy_of, resident_clusters

SIDE_BYTES = 64
"""The least width of a slab."""

HELD_THREADS = (64, 128, 256, 512)
"""The numbers of threads of a block that are tried."""

MOST_WORDS, LEAST_SHARED_WORDS = 64, 33
"""The most words of a thread in registers, and the least in shared memory."""

HELD_BYTES = 100 << 10
"""The most shared memory of a block: two blocks fit on a multiprocessor."""


def held_columns(rows: int, across: int, vec: int, vector_bytes: int) -> Iterator[NormConfig]:
    """The slabs that fit: of `rows`, `across` vectors side by side; of `resident` ones one warp joins the
    statistics of the others, else each thread joins those of its column, and registers hold the elements: of
    eight slabs in shared memory all were as fast otherwise, and 1.08 times in the mean.

    >>> sorted({c.threads_per_row for c in held_columns(3, 1 << 20, 4, 16)})
    [1, 2]
    """
    for threads in HELD_THREADS:
        for share in (1 << n for n in range(threads.bit_length())):
            side, rounds = threads // share, -(-rows // share)
            if share > rows or side * vector_bytes < SIDE_BYTES or side > across:
                continue
            words = rounds * max(1, vector_bytes // WORD_BYTES)
            shared = words >= LEAST_SHARED_WORDS and rounds * threads * vector_bytes <= HELD_BYTES
            holds: tuple[tuple[Hold, bool], ...] = ("registers", words <= MOST_WORDS), ("shared", shared)
            for by_one in (False, True) if side <= WARP < threads and share > 1 else (False,):
                resident = ceil(across / side) if by_one else 0
                for hold in (hold for hold, fits in holds if fits and (by_one or hold == "registers")):
                    yield NormConfig(vec, side, share, hold, resident=resident)


WIDTHS: Mapping[int, float] = MappingProxyType({64: 0.84, 128: 0.91})
"""The share of the memory's rate that slabs of so many bytes have; wider ones have WIDEST, as a copy."""

WIDEST = 0.95
"""The same of wider ones."""

TORN_LINES = 0.4
"""The part of a line that each slab's row costs beside where rows start inside of sectors."""

VECTOR, STAGED, ELEMENT, CONVERTED = 28.0, 9.0, 9.0, 12.0
"""Instructions of a thread per vector, more in shared memory, per element, more of two bytes."""

ALONE_US, ROUND_US, JOIN_US, BY_ONE_US = 0.1, 0.07, 0.025, 1.0
"""Microseconds of a block, per round of its threads, and per value that threads join; those of the warp that
joins for all, between two barriers."""

ALONE: Mapping[int, float] = MappingProxyType({1: 1.1, 2: 1.04})
"""The factor of blocks of which a multiprocessor has so many: few do not hide each other's waits."""

TOUCHED = 0.55
"""Wavefronts of a line that a load or a store touches."""


def copy_us(nbytes: float, m: Machine) -> float:
    """Microseconds of a copy of so many bytes."""
    return time_us(Work(2 * nbytes / WIDEST), m)


def held_us(x: Ways, c: NormConfig, across: int, *, apart: bool) -> float:
    """Microseconds that the model gives slabs of the form's rows, `across` vectors in all; infinite where
    none fits.

    `apart`: rows do not start at sectors.
    """
    rows, vector_bytes, vec, side = x.form.count, x.vector_bytes, c.vec, c.rows_per_block
    rounds, slabs, width = -(-rows // c.threads_per_row), ceil(across / side), side * vector_bytes
    shared, by_one = c.hold == "shared", c.resident > 0
    # parts of a block whose threads have one statistic before they exchange through shared memory
    units = c.threads // max(WARP, side)
    parts = units if units > 1 else 0
    registers = 20 + 3 * vec + 8 * by_one + (0 if shared else rounds * x.words)
    shared_bytes = rounds * c.threads * vector_bytes * shared + 2 * parts * side * vec * WORD_BYTES
    try:
        each = _neighbours(x.chip.name, c.threads, min(registers, REGISTERS // c.threads, 255), shared_bytes)
    except ResourceError:
        return inf
    torn = TORN_LINES * LINE_BYTES / width if apart and vector_bytes < VECTOR_BYTES else 0.0
    warps = -(-c.threads // WARP) * rounds * max(slabs, x.machine.sms)  # idle multiprocessors issue nothing
    nbytes = 2 * rows * across * vector_bytes / WIDTHS.get(width, WIDEST)
    element = ELEMENT + CONVERTED * (vector_bytes < WORD_BYTES * vec)
    joined = parts * vec * (side / WARP if by_one else 1)
    alone = ALONE.get(each, 1.0)
    work = Work(
        alone * nbytes * (1 + torn) / min(1.0, slabs / x.machine.sms),
        alone * warps * (VECTOR + STAGED * shared + vec * element),
        2 * warps * TOUCHED * _lines(x, side),
        slabs,
        x.machine.sms * each,
        alone * (ALONE_US + ROUND_US * rounds + JOIN_US * joined + BY_ONE_US * by_one),
        starts=slabs,
    )
    return time_us(work, x.machine)


def _lines(x: Ways, side: int) -> float:
    """Lines of a warp's load, of `side` threads side by side."""
    lead, size, together = x.form.lead, x.element.nbytes, min(WARP, side)
    wide, run, pitch = together * x.vector_bytes, size, abs(lead.src) * size
    if lead.src == 1:
        run = min(lead.extent * size, wide)
        pitch = abs(x.form.kept[1].src) * size if len(x.form.kept) > 1 else LINE_BYTES
    return (
        WARP
        / together
        * max(1, wide / LINE_BYTES, wide / run * min(max(run, LINE_BYTES), pitch) / LINE_BYTES)
    )


@lru_cache(1024)
def _neighbours(arch: str, threads: int, registers_per_thread: int, shared_bytes: int) -> int:
    return occupancy_of(
        arch, threads=threads, registers_per_thread=registers_per_thread, shared_bytes=shared_bytes
    ).blocks_per_sm


MULTIPROCESSOR_BYTES, BLOCK_BYTES, RESERVED_BYTES = 228 << 10, 227 << 10, 1 << 10
"""Shared memory of a multiprocessor that has clusters, of a block, and what the system takes per block."""

REGISTERS, LEAST_REGISTERS = 1 << 16, 64
"""Registers of a multiprocessor, which a block may have alone, and of a thread as many as are enough."""

WIDE: Mapping[int, float] = MappingProxyType({256: 0.95, 128: 0.91})
"""The share of a copy that slabs of so many bytes have, of elements of four bytes."""

NARROW: Mapping[int, float] = MappingProxyType({256: 0.78, 128: 0.88})
"""The same of elements of two bytes."""

BY_CLUSTER: Mapping[int, float] = MappingProxyType({1: 1.0, 2: 0.985, 4: 0.965, 8: 0.94, 16: 0.92})
"""The factor of that share in clusters of so many blocks."""


FULL_BYTES, BY_FILLED = 192 << 10, 0.3
"""The least bytes that a multiprocessor keeps, so that enough loads are in flight, and the power of fewer."""

APART = 0.25
"""Waves by which the clusters, or blocks, of many waves end apart."""


TOGETHER = ((3, 256, 1, 1.0), (3, 128, 0, 0.985), (2, 256, 8, 0.97), (1, 512, 8, 0.9))
"""Blocks that share a multiprocessor, threads of each, vectors of a thread that may be in registers, and what
is left of the share of a copy.  Blocks that are alone there go from slab to slab."""


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


def slabs(
    rows: int, columns: int, vec: int, vector_bytes: int, sms: int, clusters: int
) -> Iterator[tuple[float, NormConfig]]:
    """All slabs of `rows` that fit, of `columns` vectors side by side, for clusters of up to so many blocks.

    Each has the share of a copy that is expected.

    >>> _, best = max(slabs(8192, 2048, 4, 16, 132, 16), key=lambda one: one[0])
    >>> best.rows_per_block, best.cluster
    (8, 16)
    """
    by_width = WIDE if vector_bytes == WORD_BYTES * vec else NARROW
    for width, of_width in by_width.items():
        lanes = width // vector_bytes
        for cluster, of_cluster in BY_CLUSTER.items():
            for blocks, threads, held, of_blocks in TOGETHER:
                each = threads // lanes
                if cluster > clusters or lanes > WARP or cluster * each >= rows:
                    continue
                rounds = -(-rows // (cluster * each))
                room = MULTIPROCESSOR_BYTES // blocks - RESERVED_BYTES
                room -= slab_bytes(vec, vector_bytes, lanes, threads, 0, cluster)
                staged = min(rounds, room // (threads * vector_bytes))
                if staged < 1 or rounds - staged > held:
                    continue
                resident = resident_clusters(sms, cluster, blocks)
                filled = blocks * rounds * threads * vector_bytes / FULL_BYTES
                share = of_width * of_cluster * of_blocks * min(1.0, filled) ** BY_FILLED
                share *= _of_waves(ceil(columns / lanes) / resident)
                alone = blocks == 1 and cluster > 1
                parts = {"staged": staged if staged < rounds else 0, "resident": resident if alone else 0}
                yield share, NormConfig(vec, lanes, each, "shared", cluster=cluster, **parts)


def slab_us(c: NormConfig, form: Form, vector_bytes: int, nbytes: float, m: Machine) -> float:
    """Microseconds of one of them, of a norm that moves so many bytes."""
    found = slabs(form.count, ceil(form.outputs / c.vec), c.vec, vector_bytes, m.sms, c.cluster)
    share = next((share for share, known in found if known == c), WIDEST)
    return copy_us(nbytes / 2 / share, m)


def _of_waves(waves: float) -> float:
    """The share of the rate that the last wave leaves; of many waves, clusters end at different times."""
    return waves / ceil(waves) if waves < 2 else waves / (waves + APART)


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
    last = 1.0 if waves <= 1 else _of_waves(waves)
    return fill * sqrt(last) / (1 + 0.5 * (uneven - 1))


KEPT_REGISTERS: Mapping[tuple[bool, int], int] = MappingProxyType(
    {(False, 0): 40, (False, 16): 64, (False, 32): 88, (True, 0): 64, (True, 16): 80, (True, 32): 128}
)
"""Registers of a thread, by whether elements have two bytes and by the words that it holds: NVRTC takes so
many or fewer in 90 % of 1631 kernels of 128 and 256 threads, and in 82 % of 653 of 512."""


CLUSTER_US = 1.5
"""Microseconds that a launch of clusters takes beside."""

PEER_US, STEP_US, BYTE_US = 0.05, 0.05, 2.5 / (1 << 16)
"""Microseconds of a row per block that exchanges, per round of its threads, and per byte of a block."""


def turn_us(cluster: int, rounds: int, nbytes: int) -> float:
    """Microseconds of a row whose blocks have so many rounds and bytes each."""
    return PEER_US * cluster + STEP_US * rounds + BYTE_US * nbytes


def row_us(x: Ways, c: NormConfig) -> float:
    """Microseconds that the model gives rows that a block or a cluster holds, or a block reads twice; infinite
    where none is resident."""
    schedule, rows, narrow = Schedule(x.walk(c), c), x.form.outputs, x.element.nbytes < WORD_BYTES
    rounds = schedule.rounds
    staged = schedule.staged if c.hold == "shared" else 0
    held = (rounds - staged) * x.words if c.hold != "global" else c.depth * x.words
    registers = 32 + (2 if narrow else 1) * held + 3 * c.vec
    try:
        each = _neighbours(
            x.chip.name, max(WARP, c.threads), min(registers, REGISTERS // max(WARP, c.threads), 255),
            staged * c.threads * x.vector_bytes + c.threads * c.cluster,
        )  # fmt: skip
    except ResourceError:
        return inf
    clusters = resident_clusters(x.machine.sms, c.cluster, each)
    if not clusters:
        return inf
    blocks = ceil(rows / c.rows_per_block)
    turn = turn_us(c.cluster, rounds, rounds * c.threads * x.vector_bytes) + x.machine.load_us
    nbytes = (3 if c.hold == "global" else 2) * rows * x.form.count * x.element.nbytes
    warps = blocks * c.cluster * max(1, c.threads // WARP) * rounds * (x.machine.sms / min(x.machine.sms, blocks * c.cluster))
    element = ELEMENT + CONVERTED * narrow
    return time_us(
        Work(
            nbytes,
            warps * (VECTOR + STAGED * (staged > 0) + c.vec * element),
            blocks=blocks,
            at_once=clusters,
            block_us=turn,
            beside_us=CLUSTER_US * (c.cluster > 1),
            starts=blocks * c.cluster,
        ),
        x.machine,
    )


SPLIT_US = 4.7
"""Microseconds beside of two kernels, of which the second waits for the first."""


def split_us(rows: int, row_bytes: int, m: Machine) -> float:
    """Microseconds of rows of which many blocks read parts, twice, by two kernels."""
    return time_us(Work(3 * rows * row_bytes, beside_us=SPLIT_US), m)


GRID_DEPTH, GRID_STAGED = 2, 12
"""Vectors of a thread at a time, and those in shared memory: 192 KB of a multiprocessor."""

LONE_THREADS, SEVERAL_THREADS = 1024, 512
"""Threads of a block for one row, and for several, of which fewer were timed with 1024."""


def moved_bytes(nbytes: int, kept: int) -> int:
    """Bytes that memory moves of rows of so many, of which so many are kept between reading and writing.

    >>> [moved_bytes(n, 56) for n in (40, 56, 178)]
    [80, 112, 478]
    """
    return 2 * nbytes + max(0, nbytes - kept)


GRID_TURN_US = 5.0
"""Microseconds of a turn: the barrier, and until memory is busy again."""


def grid_us(rows: int, row_bytes: int, at_once: int, ring: int, m: Machine) -> float:
    """Microseconds of rows, so many at once, of which `ring` bytes stay in shared memory.

    >>> from layoutalg.kernels.model import machine_of
    >>> m = machine_of("sm_90")
    >>> grid_us(1, 178 << 20, 1, 25 << 20, m) < grid_us(1, 178 << 20, 1, 0, m)
    True
    >>> grid_us(4, 40 << 20, 1, 25 << 20, m) < grid_us(4, 40 << 20, 4, 25 << 20, m)
    True
    """
    whole, left = divmod(rows, at_once)
    turns = [at_once] * whole + [left] * (left > 0)
    moved = sum(moved_bytes(n * row_bytes, ring) for n in turns)
    return time_us(Work(moved, beside_us=m.next_launch_us + GRID_TURN_US * len(turns)), m)
