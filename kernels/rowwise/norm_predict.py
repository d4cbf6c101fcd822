"""What the accesses of a softmax or layer norm cost before anything runs: sectors and wavefronts.

The idea.  Blocks differ in where their columns start relative to a 32-byte sector, in columns and steps that
do not exist, and in nothing else.  So blocks are sorted into classes by these, and one block of each class is
counted lane by lane on the walk that the kernel prints:

    what is held    read once; through shared memory it is written there, and read back three times
    read twice      every load or copy counts twice
    split           the first kernel reads and writes statistics, the second reads both and writes the result

Notes.  `predict` counts copies by the rule of loads, `copied_tags` those of 16 bytes as an H200 does.  Bytes
of memory and limits are in norm_traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from layoutalg.arch import Arch
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.kernels.rowwise.norm import NORMS, NormLaunches, Part
from layoutalg.kernels.rowwise.norm_plan import form_of
from layoutalg.kernels.rowwise.problems import NormProblem
from layoutalg.kernels.rowwise.schedule import NormConfig, Schedule, walk_of
from layoutalg.kernels.rowwise.unaligned import SkewedColumns
from layoutalg.kernels.rowwise.walk import Bases, Chunk, Index, Walk
from layoutalg.model import tag_sectors

SECTOR_BYTES, LINE_BYTES, WARP = 32, 128, 32

COPY_BYTES = 16
"""The width of the copies that go past the L1."""


def predict(launches: NormLaunches, arch: str | Arch = "sm_90") -> Prediction:
    """What every access costs, over all launches.

    >>> from layoutalg.kernels.rowwise.norm import plan
    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> predict(plan(norm_problem("softmax", (65536, 1024), 1, "f32")))["st.global.b128"]
    Cost(instructions=524288, total=8388608, ideal=8388608)
    """
    total = Costs(arch)
    w = walked(launches.problem, launches.config)
    for part in _parts(launches):
        for kind in block_classes(w):
            one = Costs(arch)
            _block(w, part, kind, one)
            one.times(kind.count)
            total.include(one)
    return total.prediction()


@dataclass(frozen=True)
class Walked:
    """A walk, with the configuration and the schedule of a norm."""

    problem: NormProblem
    config: NormConfig
    walk: Walk
    schedule: Schedule

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.problem.dtype.nbytes

    @property
    def skewed(self) -> SkewedColumns | None:
        """The walk if its columns are skewed."""
        return self.walk if isinstance(self.walk, SkewedColumns) else None

    @property
    def words(self) -> tuple[int, ...]:
        """Words of a thread's partials, plane by plane."""
        return tuple(self.walk.values if each else 1 for each in NORMS[self.problem.op].partials.values())

    @property
    def told(self) -> tuple[int, ...]:
        """Words of all partials of a split."""
        return tuple(self.walk.places * n for n in self.words)

    def told_at(self, plane: int, split: Any, place: Any) -> Any:
        """Where a thread's partials of a plane begin; of skewed columns the tile's."""
        n, before, rows = (
            self.words[plane],
            self.config.splits * sum(self.told[:plane]),
            self.config.rows_per_block,
        )
        at = split * self.told[plane] + before
        return at + (place // rows * (rows * n) if self.skewed and n > 1 else place * n)


def walked(p: NormProblem, c: NormConfig) -> Walked:
    """The walk of a configuration."""
    walk = walk_of(form_of(p), p.dtype, c)
    return Walked(p, c, walk, Schedule(walk, c))


# --- classes of blocks ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockClass:
    """Blocks that cost the same: how many, the first column and the split of one of them."""

    count: int
    first: int
    split: int


def block_classes(w: Walked, unit_bytes: int = SECTOR_BYTES) -> tuple[BlockClass, ...]:
    """The classes of a launch's blocks, alike in where they lie in units of memory; counts sum to all blocks.

    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> w = walked(norm_problem("softmax", (6, 1001), 1, "f32"), NormConfig(4, 1, 256, "registers"))
    >>> [c.count for c in block_classes(w)]
    [1, 1, 1, 1, 1, 1]
    """
    import numpy as np

    unit, kept = unit_bytes // w.size, w.config.rows_per_block
    column = np.arange(w.walk.tiles, dtype=np.int64)[:, None] * kept + np.arange(kept)
    exists = column < w.walk.places
    keys: list[Any] = [exists]
    source, target, at = w.walk.bases(column * exists)
    for base in (source, target):
        start = np.broadcast_to(base, column.shape)
        keys.append((start - start[:, :1] // unit * unit) * exists)
    if w.skewed:
        keys += [_edge(w, at[:, :1]), at[:, :1] % unit]
    if w.config.splits > 1:
        keys += [column[:, :1] * n % (unit_bytes // 4) for n in w.words]
    _, at, counts = np.unique(np.hstack(keys), axis=0, return_index=True, return_counts=True)
    return tuple(
        BlockClass(int(n) * times, int(i) * kept, split)
        for split, times in _split_classes(w, unit_bytes)
        for i, n in zip(at, counts, strict=True)
    )


def _edge(w: Walked, at: Any) -> Any:
    """Which of the skewed tiles that the ends of rows cut; 0: none of these."""
    inside = (at >= 2 * w.config.vec) & (at + w.config.rows_per_block * w.config.vec <= w.walk.lead.extent)
    return (at + 1) * ~inside


def _split_classes(w: Walked, unit_bytes: int) -> Iterator[tuple[int, int]]:
    """Splits that cost the same: one of them, and how many."""
    each, size = w.schedule.rounds * w.config.threads_per_row, w.size
    lone = [m for m in w.walk.form.modes if m.reduced]
    moves = [0]
    if len(lone) == 1:
        (m,) = lone
        moves = [each * (w.config.vec if w.walk.rows else m.src) * size]
        moves += [] if w.walk.rows else [each * m.dst * size]
    alike = len(lone) <= 1 and not w.walk.cut and not any(v % unit_bytes for v in moves)
    whole = w.walk.steps // each if alike and not any(n * 4 % unit_bytes for n in w.told) else 0
    if whole:
        yield 0, whole
    yield from ((s, 1) for s in range(whole, w.config.splits))


# --- one block -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lanes:
    """All vectors of a block, one row a warp instruction: their places, and which are taken, read, owned."""

    walk: Walked
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


def _lanes(w: Walked, kind: BlockClass) -> _Lanes:
    import numpy as np

    c = w.config
    side, y = np.broadcast_arrays(*w.walk.thread(np.arange(c.threads, dtype=np.int64)))
    column = kind.first + side
    exists = column < w.walk.places
    rounds = np.arange(w.schedule.rounds)[:, None]
    step = w.walk.step(y, kind.split * w.schedule.rounds + rounds)
    chunk = w.walk.chunk(w.walk.bases(column * exists), step)
    taken = np.broadcast_to(exists, step.shape)
    for p in w.walk.exists(step, chunk):
        taken = taken & p
    active = taken
    for p in w.walk.readable(chunk):
        active = active & p
    owned = active
    for p in w.walk.written(side):
        owned = owned & p
    return _Lanes(w, chunk, taken, active, owned, (rounds * c.threads + np.arange(c.threads)) * _nbytes(w))


def _block(w: Walked, part: Part, kind: BlockClass, costs: Costs) -> None:
    import numpy as np

    vectors = _lanes(w, kind)
    _reads(w, part, vectors, costs)
    if part != "statistics":
        _weights(w, vectors, costs)
        _writes(w, vectors, costs)
    side, y = np.broadcast_arrays(*w.walk.thread(np.arange(w.config.threads, dtype=np.int64)))
    column = kind.first + side
    exists = column < w.walk.places
    bases = w.walk.bases(column * exists)
    *early, last = _exchanged(w, part)
    every = np.ones(w.config.threads, dtype=bool)
    for n in early:
        _exchange(w, n, side, _places(w, bases, side, y, n), every, costs)
    readers = (y == 0) & every if part == "statistics" and not w.walk.rows else every
    _exchange(w, last, side, _places(w, bases, side, y, last), readers, costs)
    if part != "whole":
        places = _places(w, bases, side, y, w.walk.values)
        _partial(w, part, kind.split, column, y, exists, places, costs)


def _places(w: Walked, bases: Bases, side: Any, y: Any, n: int) -> list[Any]:
    """Where the n statistics of a thread's columns are in a skewed tile."""
    return [w.skewed.slot(side, w.skewed.shift(bases, y), e) for e in range(n)] if w.skewed else []


def _nbytes(w: Walked) -> int:
    return w.config.vec * w.size


def _passes(w: Walked, part: Part, v: _Lanes) -> list[Any]:
    """Which lanes read their vectors, pass by pass."""
    first = v.owned if part == "result" else v.active
    if part != "whole" or w.config.hold != "global":
        return [first]
    again = v.owned.copy()
    for s in w.schedule.segments:
        if s.hold == "registers":
            again[s.first : s.first + s.count] = False
    return [first, again]


def _staged(w: Walked, v: _Lanes) -> int:
    """Warp instructions of a pass whose vectors go through shared memory: the first ones."""
    if w.config.hold == "global" and w.schedule.staged:
        return int(v.active.size) // WARP
    return w.schedule.staged * w.config.threads // WARP


def _reads(w: Walked, part: Part, v: _Lanes, costs: Costs) -> None:
    nbytes, hold, staged = _nbytes(w), w.config.hold, _staged(w, v)
    for read in _passes(w, part, v):
        source = v.spread(v.chunk.source, read) * w.size
        active, place = read.reshape(-1, WARP), v.spread(v.place, read)
        if staged:
            costs.lanes(f"cp.async.{nbytes}:global", "global", source[:staged], active[:staged])
            costs.lanes(f"cp.async.{nbytes}", "shared", place[:staged], active[:staged])
            for _ in range(1 if hold == "global" else 3):
                costs.lanes(f"ld.shared.b{8 * nbytes}", "shared", place[:staged], active[:staged])
        if staged < len(active):
            costs.lanes(f"ld.global.b{8 * nbytes}", "global", source[staged:], active[staged:])


def copied_tags(launches: NormLaunches) -> int | None:
    """Sectors that the tags of the L1 count for the copies of 16 bytes of all launches (`tag_sectors`).

    None where there are none of that width.

    >>> from layoutalg.kernels.rowwise.norm import plan
    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> [copied_tags(plan(norm_problem("softmax", (32, n, 1024), 1, "f32"))) for n in (1024, 64)]
    [4194304, None]
    """
    w = walked(launches.problem, launches.config)
    if _nbytes(w) != COPY_BYTES or not w.schedule.staged:
        return None
    total = 0
    for kind in block_classes(w, LINE_BYTES):
        v = _lanes(w, kind)
        staged = _staged(w, v)
        place = v.place.reshape(-1, WARP)[:staged]
        for part in _parts(launches):
            for read in _passes(w, part, v):
                source = v.spread(v.chunk.source, read)[:staged] * w.size
                sectors = tag_sectors(source, place, read.reshape(-1, WARP)[:staged])
                total += kind.count * int(sectors.sum())
    return total


def _parts(launches: NormLaunches) -> tuple[Part, ...]:
    return ("whole",) if len(launches.kernels) == 1 else ("statistics", "result")


def _writes(w: Walked, v: _Lanes, costs: Costs) -> None:
    size, vec, chunk = w.size, w.config.vec, v.chunk
    whole = v.owned
    if w.walk.cut:
        whole = whole & (chunk.low <= chunk.at) & (chunk.at + vec <= chunk.high)
    target = v.spread(chunk.target)
    costs.lanes(f"st.global.b{8 * size * vec}", "global", target * size, whole.reshape(-1, WARP))
    if w.walk.cut:
        for e in range(vec):
            one = (v.owned & ~whole & chunk.has(e)).reshape(-1, WARP)
            costs.lanes(f"st.global.b{8 * size}", "global", (target + e) * size, one)


def _weights(w: Walked, v: _Lanes, costs: Costs) -> None:
    size, vec, chunk, p = w.size, w.config.vec, v.chunk, w.problem
    for offset in p.parameters.values():
        start = chunk.weight + offset
        if not w.walk.rows:
            place, active = v.spread(start, v.taken), v.taken.reshape(-1, WARP)
            costs.lanes(f"ld.global.b{8 * size}", "global", place * size, active)
        elif _vector_weights(w):
            after = v.active & (chunk.at < w.walk.lead.extent)
            place = v.spread((start + chunk.at) * after) * size
            costs.lanes(f"ld.global.b{8 * size * vec}", "global", place, after.reshape(-1, WARP))
            if w.walk.cut:
                before = v.active & (chunk.at >= vec)
                place = v.spread((start + chunk.at - vec) * before) * size
                costs.lanes(f"ld.global.b{8 * size * vec}", "global", place, before.reshape(-1, WARP))
        else:
            for e in range(vec):
                one = v.active & chunk.has(e) if w.walk.cut else v.active
                place = v.spread((start + w.walk.weight_of(chunk, e)) * one) * size
                costs.lanes(f"ld.global.b{8 * size}", "global", place, one.reshape(-1, WARP))


def _vector_weights(w: Walked) -> bool:
    places = [m.weight for m in w.walk.outer] + [*w.problem.parameters.values()]
    return w.walk.lead.weight == 1 and not any(at % w.config.vec for at in places)


def _exchanged(w: Walked, part: Part) -> tuple[int, ...]:
    """Words of each exchange between a block's threads."""
    if w.problem.op == "rms_norm":
        return (w.walk.values,)
    n, online = w.walk.values, part != "whole" or w.config.hold == "global"
    return (1, n, n) if online and w.problem.op == "layer_norm" else (n, n)


def _exchange(w: Walked, n: int, side: Any, places: list[Any], readers: Any, costs: Costs) -> None:
    import numpy as np

    kept, threads = w.config.rows_per_block, w.config.threads
    low = 1 if w.walk.rows else kept
    unit, tid = max(WARP, low), np.arange(threads)
    if low * w.config.threads_per_row <= unit:
        return
    units = threads // unit
    if w.walk.rows:
        warps = w.config.threads_per_row // WARP
        _shared(costs, "st", 1, tid // WARP, tid % WARP == 0)
        _shared(costs, "ld", 1, side * warps + tid % warps, readers)
        return
    writers = tid % WARP < (kept if kept < WARP else WARP)
    if w.skewed and w.skewed.period > 1 and n > 1:
        spread = [place % n * kept + place // n for place in places]
        for place in spread:
            _shared(costs, "st", 1, tid // unit * kept * n + place, writers)
        for u in range(units):
            for place in spread:
                _shared(costs, "ld", 1, u * kept * n + place, readers)
        return
    _shared(costs, "st", n, (tid // unit * kept + side) * n, writers)
    for u in range(units):
        _shared(costs, "ld", n, (u * kept + side) * n, readers)


def _shared(costs: Costs, kind: str, n: int, word: Any, active: Any) -> None:
    wide = min(4, n)
    for first in range(0, n, 4):
        places = ((word + first) * 4 * active).reshape(-1, WARP)
        costs.lanes(f"{kind}.shared.b{32 * wide}", "shared", places, active.reshape(-1, WARP))


def _partial(
    w: Walked, part: Part, split: int, column: Any, y: Any, exists: Any, places: list[Any], costs: Costs
) -> None:
    """The statistics of parts, written by the first kernel and read by the second."""
    splits, sharing = w.config.splits, w.config.threads_per_row
    kind = "st" if part == "statistics" else "ld"
    for turn in range(1 if part == "statistics" else -(-splits // sharing)):
        of = split if part == "statistics" else turn * sharing + y
        active = exists & (y == 0 if part == "statistics" else of < splits)
        for plane, n in enumerate(w.words):
            alone = w.skewed and n > 1
            each, at = 1 if alone else min(4, n), w.told_at(plane, of, column)
            for word in places if alone else range(0, n, 4):
                there, lanes = ((at + word) * 4 * active).reshape(-1, WARP), active.reshape(-1, WARP)
                costs.lanes(f"{kind}.global.b{32 * each}", "global", there, lanes)
