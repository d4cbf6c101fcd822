"""What a softmax or layer norm costs before anything runs: sectors, wavefronts, bytes of memory, the limit.

The idea.  Blocks differ in where their columns start relative to a 32-byte sector, in columns and steps that
do not exist, and in nothing else.  So blocks are sorted into classes by these, and one block of each class is
counted lane by lane on the walk that the kernel prints:

    what is held    read once; through shared memory it is written there, and read back three times
    read twice      every load or copy counts twice; memory is asked once if all resident slabs fit L2
    split           the first kernel reads and writes statistics, the second reads both and writes the result

Notes.  Bytes of memory are a model, stated to be compared with `dram__bytes_read.sum` and `..._write.sum`:
each element once, or twice where what lies between two readings of it is more than `KEPT_BYTES` of L2.  What
a second reading, which goes backwards, finds there of its first part is not taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.norm_family import NormLaunches, Part
from layoutalg.kernels.norm_modes import shortest
from layoutalg.kernels.norm_walk import Bases, Chunk, Index, Walk
from layoutalg.kernels.predict import Costs, Prediction

SECTOR_BYTES, WARP = 32, 32

KEPT_BYTES = 24 << 20
"""What is found in L2 again."""

RESIDENT_THREADS = 1024
"""Threads of a multiprocessor, with 64 registers each."""

FLOPS_PER_CYCLE = 256
"""Of an SM with 128 FMA lanes, as boards' rates count them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What one unit is asked for, and the least time it needs, in microseconds."""

    unit: str
    asked: int
    least_us: float

    def __str__(self) -> str:
        return f"{self.unit}: {self.asked}, {self.least_us:.1f} us"


def predict(launches: NormLaunches, arch: str | Arch = "sm_90") -> Prediction:
    """What every access costs, over all launches.

    >>> from layoutalg.kernels.norm_family import plan
    >>> from layoutalg.kernels.norm_modes import norm_problem
    >>> predict(plan(norm_problem("softmax", (65536, 1024), 1, "f32")))["st.global.b128"]
    Cost(instructions=524288, total=8388608, ideal=8388608)
    """
    total = Costs(arch)
    w = Walk(shortest(launches.problem), launches.config)
    parts: tuple[Part, ...] = ("whole",) if len(launches.kernels) == 1 else ("statistics", "result")
    for part in parts:
        for kind in block_classes(w):
            one = Costs(arch)
            _block(w, part, kind, one)
            one.times(kind.count)
            total.include(one)
    return total.prediction()


# --- classes of blocks ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockClass:
    """Blocks that cost the same: how many, the first column and the split of one of them."""

    count: int
    first: int
    split: int


def block_classes(w: Walk) -> tuple[BlockClass, ...]:
    """The classes of a launch's blocks; their counts sum to `w.blocks`.

    >>> from layoutalg.kernels.norm_modes import norm_problem
    >>> from layoutalg.kernels.norm_walk import NormConfig
    >>> w = Walk(shortest(norm_problem("softmax", (6, 1001), 1, "f32")), NormConfig(4, 1, 256, "registers"))
    >>> [c.count for c in block_classes(w)]
    [1, 1, 1, 1, 1, 1]
    """
    import numpy as np

    unit, kept = SECTOR_BYTES // w.modes.element_bytes, w.config.kept
    column = np.arange(w.tiles, dtype=np.int64)[:, None] * kept + np.arange(kept)
    exists = column < prod(w.columns)
    keys: list[Any] = [exists]
    source, target, at = w.bases(column * exists)
    for base in (source, target):
        start = np.broadcast_to(base, column.shape)
        keys.append((start - start[:, :1] // unit * unit) * exists)
    if w.skewed:
        keys += [_edge(w, at[:, :1]), at[:, :1] % unit]
    if w.config.splits > 1:
        keys.append(column[:, :1] * w.statistics % (SECTOR_BYTES // 4))
    _, at, counts = np.unique(np.hstack(keys), axis=0, return_index=True, return_counts=True)
    return tuple(
        BlockClass(int(n) * times, int(i) * kept, split)
        for split, times in _split_classes(w)
        for i, n in zip(at, counts, strict=True)
    )


def _edge(w: Walk, at: Any) -> Any:
    """Which of the skewed tiles that the ends of rows cut; 0: none of these."""
    inside = (at >= 2 * w.config.vec) & (at + w.config.kept * w.config.vec <= w.lead.extent)
    return (at + 1) * ~inside


def _split_classes(w: Walk) -> Iterator[tuple[int, int]]:
    """Splits that cost the same: one of them, and how many."""
    each, size = w.rounds * w.config.sharing, w.modes.element_bytes
    lone = [m for m in w.modes.modes if m.reduced]
    moves = [0]
    if len(lone) == 1:
        (m,) = lone
        moves = [each * (w.config.vec if w.rows else m.src) * size]
        moves += [] if w.rows else [each * m.dst * size]
    alike = len(lone) <= 1 and not w.ragged and not w.skewed and not any(v % SECTOR_BYTES for v in moves)
    whole = w.steps // each if alike and w.places * 4 % SECTOR_BYTES == 0 else 0
    if whole:
        yield 0, whole
    yield from ((s, 1) for s in range(whole, w.config.splits))


# --- one block -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lanes:
    """All vectors of a block, one row a warp instruction: their places, and which are taken, read, owned."""

    walk: Walk
    chunk: Chunk
    taken: Any
    active: Any
    owned: Any
    place: Any

    def spread(self, index: Index, active: Any = None) -> Any:
        """An index for every lane, where it is active: where it reads, unless told otherwise."""
        import numpy as np

        active = self.active if active is None else active
        return (np.broadcast_to(index, active.shape) * active).reshape(-1, WARP)


def _block(w: Walk, part: Part, kind: BlockClass, costs: Costs) -> None:
    import numpy as np

    c = w.config
    side, y = w.thread(np.arange(c.threads, dtype=np.int64))
    column = kind.first + side
    exists = column < prod(w.columns)
    rounds = np.arange(w.rounds)[:, None]
    step = w.step(kind.split, rounds, y)
    bases = w.bases(column * exists)
    chunk = w.chunk(bases, step)
    taken = np.broadcast_to(exists, step.shape)
    for p in w.exists(step, chunk):
        taken = taken & p
    active = taken
    for p in w.readable(chunk):
        active = active & p
    owned = active
    for p in w.owned(side):
        owned = owned & p
    vectors = _Lanes(w, chunk, taken, active, owned, (rounds * c.threads + np.arange(c.threads)) * _nbytes(w))
    _reads(w, part, vectors, costs)
    if part != "statistics":
        _weights(w, vectors, costs)
        _writes(w, vectors, costs)
    for n in _exchanged(w, part):
        _exchange(w, n, side, _places(w, bases, side, y, n), costs)
    if part != "whole":
        places = _places(w, bases, side, y, w.statistics)
        _partial(w, part, kind.split, column, y, exists, places, costs)


def _places(w: Walk, bases: Bases, side: Any, y: Any, n: int) -> list[Any]:
    """Where the n statistics of a thread's columns are in a skewed tile."""
    return [w.place(side, w.shift(bases, y), e) for e in range(n)] if w.skewed else []


def _nbytes(w: Walk) -> int:
    return w.config.vec * w.modes.element_bytes


def _reads(w: Walk, part: Part, v: _Lanes, costs: Costs) -> None:
    nbytes, hold = _nbytes(w), w.config.hold
    passes = [v.owned if part == "result" else v.active]
    if part == "whole" and hold == "global":
        passes.append(v.owned)
    rows = v.active.size // WARP
    staged = rows if hold == "global" and w.staged else w.staged * w.config.threads // WARP
    for read in passes:
        source = v.spread(v.chunk.source, read) * w.modes.element_bytes
        active, place = read.reshape(-1, WARP), v.spread(v.place, read)
        if staged:
            costs.lanes(f"cp.async.{nbytes}:global", "global", source[:staged], active[:staged])
            costs.lanes(f"cp.async.{nbytes}", "shared", place[:staged], active[:staged])
            for _ in range(1 if hold == "global" else 3):
                costs.lanes(f"ld.shared.b{8 * nbytes}", "shared", place[:staged], active[:staged])
        if staged < rows:
            costs.lanes(f"ld.global.b{8 * nbytes}", "global", source[staged:], active[staged:])


def _writes(w: Walk, v: _Lanes, costs: Costs) -> None:
    size, vec, chunk = w.modes.element_bytes, w.config.vec, v.chunk
    whole = v.owned
    if w.ragged or w.skewed:
        whole = whole & (chunk.low <= chunk.at) & (chunk.at + vec <= chunk.high)
    target = v.spread(chunk.target)
    costs.lanes(f"st.global.b{8 * size * vec}", "global", target * size, whole.reshape(-1, WARP))
    if w.ragged or w.skewed:
        for e in range(vec):
            one = (v.owned & ~whole & chunk.has(e)).reshape(-1, WARP)
            costs.lanes(f"st.global.b{8 * size}", "global", (target + e) * size, one)


def _weights(w: Walk, v: _Lanes, costs: Costs) -> None:
    size, vec, chunk, p = w.modes.element_bytes, w.config.vec, v.chunk, w.modes.problem
    for _ in range(p.weight + p.bias):
        if not w.rows:
            place, active = v.spread(chunk.weight, v.taken), v.taken.reshape(-1, WARP)
            costs.lanes(f"ld.global.b{8 * size}", "global", place * size, active)
        elif w.vector_weights:
            after = v.active & (chunk.at < w.lead.extent)
            place = v.spread((chunk.weight + chunk.at) * after) * size
            costs.lanes(f"ld.global.b{8 * size * vec}", "global", place, after.reshape(-1, WARP))
            if w.ragged:
                before = v.active & (chunk.at >= vec)
                place = v.spread((chunk.weight + chunk.at - vec) * before) * size
                costs.lanes(f"ld.global.b{8 * size * vec}", "global", place, before.reshape(-1, WARP))
        else:
            for e in range(vec):
                one = v.active & chunk.has(e) if w.ragged else v.active
                place = v.spread((chunk.weight + w.weight_of(chunk, e)) * one) * size
                costs.lanes(f"ld.global.b{8 * size}", "global", place, one.reshape(-1, WARP))


def _exchanged(w: Walk, part: Part) -> tuple[int, ...]:
    """Words of each exchange between a block's threads."""
    n, online = w.statistics, part != "whole" or w.config.hold == "global"
    return (1, n, n) if online and w.modes.problem.op == "layer_norm" else (n, n)


def _exchange(w: Walk, n: int, side: Any, places: list[Any], costs: Costs) -> None:
    import numpy as np

    kept, threads = w.config.kept, w.config.threads
    if w.exchange_unit is None:
        return
    unit, tid = w.exchange_unit, np.arange(threads)
    every, units = np.ones(threads, dtype=bool), threads // unit
    if w.rows:
        warps = w.config.sharing // WARP
        _shared(costs, "st", 1, tid // WARP, tid % WARP == 0)
        _shared(costs, "ld", 1, side * warps + tid % warps, every)
        return
    writers = tid % WARP < kept if kept < WARP else every
    if w.period > 1 and n > 1:
        spread = [place % n * kept + place // n for place in places]
        for place in spread:
            _shared(costs, "st", 1, tid // unit * kept * n + place, writers)
        for u in range(units):
            for place in spread:
                _shared(costs, "ld", 1, u * kept * n + place, every)
        return
    _shared(costs, "st", n, (tid // unit * kept + side) * n, writers)
    for u in range(units):
        _shared(costs, "ld", n, (u * kept + side) * n, every)


def _shared(costs: Costs, kind: str, n: int, word: Any, active: Any) -> None:
    wide = min(4, n)
    for first in range(0, n, 4):
        places = ((word + first) * 4 * active).reshape(-1, WARP)
        costs.lanes(f"{kind}.shared.b{32 * wide}", "shared", places, active.reshape(-1, WARP))


def _partial(
    w: Walk, part: Part, split: int, column: Any, y: Any, exists: Any, places: list[Any], costs: Costs
) -> None:
    """The statistics of parts, written by the first kernel and read by the second."""
    n, splits, sharing = w.statistics, w.config.splits, w.config.sharing
    planes = 2 if w.modes.problem.op == "softmax" else 3
    kind = "st" if part == "statistics" else "ld"
    for turn in range(1 if part == "statistics" else -(-splits // sharing)):
        of = split if part == "statistics" else turn * sharing + y
        active = exists & (y == 0 if part == "statistics" else of < splits)
        for plane in range(planes):
            start, each = (of + plane * splits) * w.places, min(4, n)
            words = [start + column * n + first for first in range(0, n, 4)]
            if w.skewed:
                tile, each = column // w.config.kept * (w.config.kept * n), 1
                words = [start + tile + place for place in places]
            for word in words:
                there, lanes = (word * 4 * active).reshape(-1, WARP), active.reshape(-1, WARP)
                costs.lanes(f"{kind}.global.b{32 * each}", "global", there, lanes)


# --- bytes and limits ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that memory is asked to read and to write."""

    read: int
    written: int


def traffic(launches: NormLaunches, arch: str | Arch = "sm_90") -> Traffic:
    """Bytes of memory read and written by all launches; see the module's notes.

    Raises UnsupportedError for an architecture without a board.

    >>> from layoutalg.kernels.norm_family import plan
    >>> from layoutalg.kernels.norm_modes import norm_problem
    >>> traffic(plan(norm_problem("softmax", (65536, 1024), 1, "bf16")))
    Traffic(read=134217728, written=134217728)
    """
    p, c = launches.problem, launches.config
    w, size = Walk(shortest(p), c), p.dtype.nbytes
    elements = p.axes.read_elems * size
    between = 0
    if c.splits > 1:
        between = elements
    elif c.hold == "global":
        resident = min(w.blocks, _board(arch).sms * max(1, RESIDENT_THREADS // c.threads))
        between = resident * (elements // w.blocks)
    read = elements * (2 if between > KEPT_BYTES else 1)
    read += (p.weight + p.bias) * w.modes.count * size
    scratch = launches.workspace_elems * 4
    return Traffic(read + (scratch if scratch > KEPT_BYTES else 0), prod(p.axes.shape) * size + scratch)


def bounds(launches: NormLaunches, arch: str | Arch = "sm_90") -> tuple[Bound, ...]:
    """What limits the launches, the tightest first: bytes of memory, or cycles of all load-store units.

    The load-store unit takes one wavefront of shared memory a cycle, or one request to global memory; cycles
    are those of the peak clock.  Raises UnsupportedError for an architecture without a board.

    >>> from layoutalg.kernels.norm_family import plan
    >>> from layoutalg.kernels.norm_modes import norm_problem
    >>> print(bounds(plan(norm_problem("softmax", (65536, 1024), 1, "f32")))[0])
    bytes of memory: 536870912, 111.8 us
    """
    board, moved = _board(arch), traffic(launches, arch)
    clock = board.f32_flops_per_s / (board.sms * FLOPS_PER_CYCLE)
    prediction = predict(launches, arch)
    cycles = sum(c.instructions if "global" in op else c.total for op, c in prediction.items())
    asked = moved.read + moved.written
    found = (
        Bound("bytes of memory", asked, asked / board.dram_bytes_per_s * 1e6),
        Bound("load-store cycles", cycles, cycles / (board.sms * clock) * 1e6),
    )
    return tuple(sorted(found, key=lambda b: -b.least_us))


def _board(arch: str | Arch) -> Any:
    board = find_arch(arch).board
    if board is None:
        raise UnsupportedError(f"{find_arch(arch).name} has no board whose rates could bound a launch")
    return board
