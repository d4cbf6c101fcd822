"""The plan of a softmax or layer norm: the threads of a row, the place of its elements, splits of a tensor.

The idea.  A row, or a slab of columns a few sectors wide, is best read once and held until its statistics are
known.  All of these that fit are ranked by their time, see `norm_model`:

    registers    up to `FEW_WORDS` words per thread: many blocks on a multiprocessor hide each other's waits
    shared       up to `SHARED_BYTES` per block, in clusters of blocks from Hopper on; the rest in registers
    global       read twice, by slabs two lines wide; columns as a stream of whole rows of memory
    runs         of rows that are short, or start anywhere: copied as they lie, then held; see `packed`
    split        where there are too few rows or columns for the multiprocessors: parts of each are given to
                 blocks of their own, and a second kernel joins them
    resident     rows that no cluster holds: one launch of as many blocks as the multiprocessors keep at a
                 time, which wait for each other; the elements read last stay in shared memory

    softmax (65536,1024) f32 over 1       two warps hold a row in 16 registers per lane
    softmax (32,1024,1024) f32 over 1     2 blocks keep 256 bytes of 1024 rows
    softmax (8192,8192) f32 over 0        16 blocks keep 128 bytes of 8192 rows
    softmax (65536,1024) f32 over 0       a stream too: 512 threads read 2 KB of rows, twice, in 198 parts
    softmax (1,89090306) bf16 over 1      132 blocks keep 26 of 178 MB, and read the rest twice
    softmax (65536,1000) f32 over 0       a stream: blocks read 1 KB of rows in turn, twice

Columns are in `norm_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil, inf, prod
from types import MappingProxyType

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.dtype import DType
from layoutalg.errors import LayoutAlgError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.model import Machine, machine_of
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.packed import LONG_ROW_BYTES, NORM, RUN_BYTES, Ranked, ranked
from layoutalg.kernels.rowwise.tensors import Form, normalise
from layoutalg.kernels.rowwise.walk import (
    LINE_BYTES,
    MOST_THREADS,
    SECTOR_BYTES,
    VECTOR_BYTES,
    WORD_BYTES,
    can_vector,
    row_ends,
)
from layoutalg.kernels.rowwise.ways.norm_columns import SPLIT_BYTES, STREAM_BYTES, ColumnWays, columns
from layoutalg.kernels.rowwise.ways.norm_model import (
    BLOCK_BYTES,
    CLUSTERS,
    GRID_DEPTH,
    GRID_STAGED,
    HELD_THREADS,
    LONE_THREADS,
    MOST_WORDS,
    SEVERAL_THREADS,
    norm_us,
    slab_bytes,
    streamed,
)
from layoutalg.kernels.rowwise.ways.schedule import (
    RESIDENT_THREADS,
    Hold,
    NormConfig,
    Schedule,
    Ways,
)

FEW_WORDS, HELD_WORDS = 16, 32
"""The preferred and the largest number of registers of a thread that hold elements."""

SHARED_BYTES, EXCHANGE_BYTES = 200 << 10, 16 << 10
"""The most shared memory of a block for elements, and an upper bound of what it needs beside."""

LEAST_PART_BYTES = 4 << 10
"""The least bytes of a row that a block of a cluster keeps."""

LONG_THREADS = (128, 256, 512, 1024)
"""The numbers of threads of a block of those clusters that are tried."""

LEAST_SIDE = 8
"""The least number of several rows of a block that is tried."""

STREAM_WAYS, CUT_LINES = 3, 2
"""The number of ways by streams that are configurations; the lines of a long piece of a row where pieces
start within vectors, which are masked at 0.43 of a copy."""

STREAM_DEPTH, NARROW_DEPTH = 4, MappingProxyType({"softmax": 2, "layer_norm": 8})
"""The vectors of a stream that a thread loads at a time, and those of elements narrower than a word: softmax
holds 8 of their exponentials per vector, a layer norm is bound by the merges after each group of vectors."""

PACKED_WAYS = 3
"""The number of ways to copy runs that are configurations."""


# --- candidates ---------------------------------------------------------------------------------------


def form_of(p: NormProblem) -> Form:
    """The normal form of a norm; rows shorter than a sector come after the mode that follows them.

    Raises ShapeError for a problem without elements: there is nothing to do.
    """
    if not prod(p.axes.shape):
        raise ShapeError(f"{p} has no elements: there is nothing to compute")
    form = normalise(p.axes, weighted=p.weight or p.bias)
    if _short_rows(form, p.dtype):
        low, next_to_it, *others = form.modes
        return replace(form, modes=(next_to_it, low, *others))
    return form


def _short_rows(form: Form, element: DType) -> bool:
    """True for rows of a few bytes, many to a statistic, beside rows of others: those are columns."""
    if len(form.modes) < 3 or not form.modes[0].reduced or form.modes[1].reduced:
        return False
    low, next_to_it, *others = form.modes
    pitch = low.extent * low.src
    return (
        next_to_it.src == pitch and pitch * element.nbytes < SECTOR_BYTES and any(m.reduced for m in others)
    )


def norm_configs(p: NormProblem, arch: str | Arch = DEFAULT_ARCH) -> tuple[NormConfig, ...]:
    """The configurations that fit a problem, best first."""
    return tuple(dict.fromkeys(c for c, refused in norm_candidates(p, arch) if refused is None))


def cannot_hold(p: NormProblem, c: NormConfig) -> LayoutAlgError | None:
    """The reason why a configuration has no place where a residual is added, or none for results of another
    type, or None."""
    if p.norm.adds and (c.hold == "global" or c.turns):
        way = "copied by runs" if c.turns else "read twice"
        return UnsupportedError(f"{p} {way}: a residual is added where registers or shared memory hold a row")
    if p.result != p.dtype and c.turns:
        return UnsupportedError(f"{p} copied by runs: results take the places of the elements of a run")
    return None


def norm_candidates(
    p: NormProblem, arch: str | Arch = DEFAULT_ARCH
) -> Iterator[tuple[NormConfig, LayoutAlgError | None]]:
    """Yield the configurations that are tried, best first, each with its refusal, None where it fits.

    >>> from layoutalg.kernels.rowwise.norms import norm_problem
    >>> tried = norm_candidates(norm_problem("softmax", (64, 8), 1, "f32"))
    >>> next(str(why) for c, why in tried if c.hold == "shared")
    'rows by 128 threads in shared: a row has 2 vectors; registers hold them'
    """
    chip, form = find_arch(arch), form_of(p)
    m = machine_of(chip)
    most = min(SHARED_BYTES, chip.max_shared_bytes_per_block - EXCHANGE_BYTES)
    room = min(RUN_BYTES, most) if chip.compute_capability >= (8, 0) else 0
    vec, lead = _vector(form, p), form.lead
    copies = chip.compute_capability >= (8, 0) and vec * p.dtype.nbytes >= WORD_BYTES
    x = (Ways if lead.reduced else ColumnWays)(p, form, vec, m, chip, most if copies else 0)
    ways = [*(columns(x) if isinstance(x, ColumnWays) else _rows(x))]
    tried = [(c, _refusal(x, c) or cannot_hold(p, c)) for c in ways]
    tried += [(c, cannot_hold(p, c)) for c in _streams(p, form, m)]
    tried += [(_by_runs(one), None) for one in _packed(p, form, m, room)[:PACKED_WAYS]]
    fit = sorted((norm_us(x, c), n) for n, (c, why) in enumerate(tried) if why is None)
    yield from (tried[n] for us, n in fit if us < inf)
    yield from (one for one in tried if one[1] is not None)


def _streams(p: NormProblem, form: Form, m: Machine) -> list[NormConfig]:
    """Streams, the cheapest first, where kernels are long enough for three, and pieces of rows are short."""
    cut = any(v * p.dtype.nbytes % VECTOR_BYTES for v in row_ends(form))
    piece = form.lead.extent * p.dtype.nbytes if form.lead.reduced else 0
    long = piece >= (CUT_LINES if cut else 1) * LINE_BYTES
    if long or prod(p.axes.shape) * p.dtype.nbytes < STREAM_BYTES:
        return []
    narrow = p.dtype.nbytes < WORD_BYTES
    depth = NARROW_DEPTH.get(p.formula, STREAM_DEPTH) if narrow else STREAM_DEPTH
    return streamed(form, p.dtype, p.formula, m, depth)[:STREAM_WAYS]


def _packed(p: NormProblem, form: Form, m: Machine, room: int) -> list[Ranked]:
    """The ways to copy whole runs, the fastest first; in place no two blocks share a unit."""
    long = form.lead.reduced and form.lead.extent * p.dtype.nbytes > LONG_ROW_BYTES
    backwards = any(min(m.dst, m.weight) < 0 for m in form.modes)
    if long or backwards or not room or p.norm.adds or p.result != p.dtype:
        return []
    found = ranked(form, p.dtype, NORM, m, p.moved_bytes, room)
    return [one for one in found if one.walk.starts_at_units or not p.in_place]


def _by_runs(one: Ranked) -> NormConfig:
    """The configuration of a way to copy whole runs."""
    hold: Hold = "registers" if one.held else "shared"
    t = one.walk.tiling
    return NormConfig(t.vec, t.rows_per_block, t.lanes, hold, turns=t.rows_per_thread)


def _vector(form: Form, p: NormProblem) -> int:
    """Elements of the widest vector that fits."""
    vec = VECTOR_BYTES // p.dtype.nbytes
    while not can_vector(form, vec, in_place=p.rows_apart):
        vec //= 2
    return vec


def _refusal(x: Ways, c: NormConfig) -> LayoutAlgError | None:
    """The reason why a configuration has no room for its data, or no work for most threads, or None."""
    walk, said = x.walk(c), f"rows by {c.threads_per_row} threads in {c.hold}"
    schedule = Schedule(walk, c)
    rounds, staged = schedule.rounds, schedule.staged
    if c.hold != "registers" and walk.steps <= c.threads_per_row * c.cluster:
        return UnsupportedError(f"{said}: a row has {walk.steps} vectors; registers hold them")
    if c.threads > MOST_THREADS:
        return ResourceError(f"threads per block, {said}", c.threads, MOST_THREADS)
    if staged > rounds:
        return UnsupportedError(f"{said}: {staged} vectors of a thread are staged, and it has {rounds}")
    if c.cluster > 1 and not walk.rows:
        asked = slab_bytes(c.vec, x.vector_bytes, c.rows_per_block, c.threads, staged, c.cluster)
        if asked > BLOCK_BYTES:
            return ResourceError(f"bytes of shared memory, {said}", asked, BLOCK_BYTES)
    elif (asked := staged * c.threads * x.vector_bytes) > x.room:
        return ResourceError(f"bytes of shared memory, {said}", asked, x.room)
    held = (rounds - staged) * x.words
    most = HELD_WORDS if walk.rows else MOST_WORDS
    if c.hold != "global" and held > most:
        return ResourceError(f"words that a thread holds, {said}", held, most)
    return None


def _rows(x: Ways) -> Iterator[NormConfig]:
    """Configurations of rows."""
    rows, steps = x.form.outputs, x.walk(NormConfig(x.vec, 1, 32, "global")).steps
    yield from _held(x, steps)
    yield from _kept(x)
    yield from _resident(x, steps)
    splits = min(ceil(2 * x.machine.sms / rows), x.form.count * x.element.nbytes // SPLIT_BYTES)
    twice = NormConfig(x.vec, 1, 512, "global", 8)
    if rows < x.machine.sms // 2 and splits > 1:
        if x.room and steps >= 8 * twice.threads_per_row * splits:
            yield replace(twice, splits=splits, depth=4, staged=8)
        yield replace(twice, splits=splits)
    yield twice


def _held(x: Ways, steps: int) -> Iterator[NormConfig]:
    """Rows that threads hold in registers."""
    share = 1
    while share <= MOST_THREADS and share < 2 * steps:
        if share == MOST_THREADS or -(-steps // share) * x.words <= HELD_WORDS:
            for threads in HELD_THREADS if share <= max(HELD_THREADS) else (share,):
                side = threads // share
                several = side < 2 * x.form.outputs or threads == HELD_THREADS[0]
                if side == 1 or (several and side >= LEAST_SIDE):
                    yield NormConfig(x.vec, side, share, "registers")
        share *= 2


def _kept(x: Ways) -> Iterator[NormConfig]:
    """Rows that a block or a cluster keeps in shared memory, some in registers."""
    clusters = CLUSTERS if x.chip.compute_capability >= (9, 0) else (1,)
    row_bytes = x.form.count * x.element.nbytes
    for cluster, threads in product(clusters, LONG_THREADS):
        c = NormConfig(x.vec, 1, threads, "shared", cluster=cluster)
        rounds = Schedule(x.walk(c), c).rounds
        if cluster > 1 and row_bytes < cluster * LEAST_PART_BYTES:
            continue
        for words in (0, FEW_WORDS, HELD_WORDS):
            staged = rounds - words // x.words
            if staged >= 1:
                yield replace(c, staged=staged if words else 0)


def _resident(x: Ways, steps: int) -> Iterator[NormConfig]:
    """Long rows of which resident blocks read parts, and keep what they read last."""
    rows = x.form.outputs
    if not x.room or not x.chip.board or x.chip.compute_capability < (9, 0):
        return
    threads = LONE_THREADS if rows == 1 else SEVERAL_THREADS
    for at_once in sorted({min(n, rows) for n in (1, 2, 4, 8, rows)}):
        splits = x.machine.sms * (RESIDENT_THREADS // threads) // at_once
        rounds = ceil(steps / (threads * max(1, splits)))
        if splits < 2 or rounds < 2:
            continue
        parts = {"splits": splits, "staged": GRID_STAGED, "resident": splits * at_once}
        yield NormConfig(x.vec, 1, threads, "global", GRID_DEPTH, **parts)
