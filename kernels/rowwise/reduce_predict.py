"""What a reduction costs before anything runs: sectors, wavefronts, bytes of memory, and what limits it.

The idea.  Every block of one group of outputs does what any other does, but for where its outputs start
relative to a 32-byte sector and for the end of the tensor; and so do the steps of a thread.  So groups and
rows of steps are sorted into classes, and one of each class is counted lane by lane on the walk's own
addresses:

    loads      classes of groups x classes of rows of steps, each counted once
    stores     classes of groups x phases of the workspace's parts
    shared     one block, times all blocks

The time this takes depends on the number of classes, not on the size of the tensor.

Notes.  Memory moves what the tensors hold: every element once, and the workspace twice.  The times of
`limits` are those of a data sheet's rates; the model in reduce_plan knows launches and latencies too.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from layoutalg.arch import Arch
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.kernels.limits import Bound, limits
from layoutalg.kernels.rowwise.reduce_plan import Pass, ReducePlan
from layoutalg.kernels.rowwise.unaligned import HeadTail
from layoutalg.kernels.rowwise.walk import Bases

SECTOR_BYTES = 32


_CHUNK = 1 << 20
"""Numbers sorted into classes at a time."""


def predict(plan: ReducePlan, arch: str | Arch = "sm_90") -> tuple[Prediction, ...]:
    """What every access of each pass costs.

    >>> from layoutalg.kernels.rowwise import plans, reduce_problem
    >>> plan = plans(reduce_problem((8192, 8192), 1, "sum", "f32"))[0]
    >>> predict(plan)[0]["ld.global.b128"]
    Cost(instructions=524288, total=8388608, ideal=8388608)
    """
    return tuple(predict_pass(p, arch) for p in plan.passes)


def predict_pass(p: Pass, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs.

    >>> from layoutalg.kernels.rowwise import plans, reduce_problem
    >>> plan = plans(reduce_problem((64, 64), 0, "max", "f16"))[0]
    >>> sorted(predict_pass(plan.passes[0]))[:2]
    ['ld.global.b128', 'ld.shared.b128']
    """
    import numpy as np

    walk, total = p.walk, Costs(arch)
    threads = _Threads(p)
    rows = _row_classes(walk)
    phases = [s * p.form.outputs * p.result.nbytes % SECTOR_BYTES for s in range(p.config.splits)]
    splits = list(zip(*np.unique(phases, return_index=True, return_counts=True)[1:], strict=True))
    for group, count in _group_classes(p):
        one = Costs(arch)
        for row, times in rows:
            threads.load(one, group, row, times)
        for e in range(p.edge_rounds):
            threads.edge(one, group, e)
        for split, times in splits:
            threads.store(one, group, int(split), int(times))
        one.times(count)
        total.include(one)
    block = Costs(arch)
    threads.exchange(block)
    block.times(walk.blocks)
    total.include(block)
    return total.prediction()


class _Threads:
    """The threads of a block, as arrays, and what they ask of memory."""

    def __init__(self, p: Pass) -> None:
        import numpy as np

        c = p.config
        self.p, self.walk = p, p.walk
        self.column, self.sharer = np.broadcast_arrays(*p.walk.thread(np.arange(c.threads)))
        self.lane, self.slow = self.sharer % c.lanes_per_row, self.sharer // c.lanes_per_row

    def load(self, costs: Costs, group: int, row: int, times: int) -> None:
        """Row `row` of the steps of a group's threads, `times` times."""
        walk, c = self.walk, self.p.config
        number = self.sharer + row * c.threads_per_row
        for n in range(c.rows_per_thread):
            place = walk.place(group, self.column, n)
            chunk = walk.chunk(walk.bases(place), number)
            active = _all(place < walk.places, walk.exists(number, chunk))
            self._global(costs, "ld", chunk.source, c.vec * self.p.element.nbytes, active, times, c.vec)

    def edge(self, costs: Costs, group: int, turn: int) -> None:
        """Single elements of a group's threads."""
        walk, c = self.walk, self.p.config
        number = self.sharer + turn * c.threads_per_row
        for n in range(c.rows_per_thread):
            place = walk.place(group, self.column, n)
            at, exists = walk.edge(walk.bases(place), number)
            active = _all(place < walk.places, exists)
            self._global(costs, "ld", at, self.p.element.nbytes, active, 1, 1)

    def store(self, costs: Costs, group: int, split: int, times: int) -> None:
        """The outputs of a block."""
        walk, p = self.walk, self.p
        first = (self.lane == 0) & (self.slow == 0)
        for n in range(p.config.rows_per_thread):
            place = walk.place(group, self.column, n)
            active = first & (place < walk.places)
            for e in (0,) if walk.rows else range(0, p.config.vec, p.store_vec):
                at = p.target(place, e, split)
                self._global(costs, "st", at, p.store_vec * p.result.nbytes, active, times, p.store_vec)

    def _global(
        self, costs: Costs, way: str, at: Any, nbytes: int, active: Any, times: int, elems: int
    ) -> None:
        import numpy as np

        one = Costs(costs.arch)
        addresses = np.broadcast_to(at, active.shape) * (nbytes // elems)
        one.lanes(f"{way}.global.b{8 * nbytes}", "global", addresses.reshape(-1, 32), active.reshape(-1, 32))
        one.times(times)
        costs.include(one)

    def exchange(self, costs: Costs) -> None:
        """The joining of groups of threads through shared memory."""
        values, c = self.p.values, self.p.config
        width = next(w for w in (4, 2, 1) if values % w == 0)
        half = c.groups_per_row // 2
        while half:
            for way, active, slow in (
                ("st", (self.slow >= half) & (self.slow < 2 * half), self.slow),
                ("ld", self.slow < half, self.slow + half),
            ):
                active = active & (self.lane == 0)
                for n in range(0, values, width):
                    at = ((slow * c.rows_per_block + self.column) * values + n) * 4 * active
                    op = f"{way}.shared.b{32 * width}"
                    costs.lanes(op, "shared", at.reshape(-1, 32), active.reshape(-1, 32))
            half //= 2


def _all(active: Any, predicates: Any) -> Any:
    for p in predicates:
        active = active & p
    return active


# --- classes -------------------------------------------------------------------------------------------


def _group_classes(p: Pass) -> list[tuple[int, int]]:
    """Groups of outputs that cost the same: one of each class, and how many there are.

    Outputs of a group lie relative to its first as those of the group that starts at the same place of all
    kept modes but the last.
    """
    import numpy as np

    walk = p.walk
    own = p.config.rows_per_block * p.config.rows_per_thread
    below = prod(walk.row_extents[:-1])
    period = min(walk.tiles, below // gcd(below, own))

    def ends(group: Any, columns: Any) -> list[Any]:
        place = group[:, None] * own + columns
        return [
            np.broadcast_to(where, place.shape) * size
            for where, size in (
                (walk.bases(place).source, p.element.nbytes), (p.target(place, 0, 0), p.result.nbytes)
            )
        ]  # fmt: skip

    kinds, step = np.zeros(period, np.int64), max(1, _CHUNK // own)
    known: dict[bytes, int] = {}
    for first in range(0, period, step):
        group = np.arange(first, min(period, first + step))
        shape = np.hstack([where - where[:, :1] for where in ends(group, np.arange(own))])
        kinds[group] = [known.setdefault(row.tobytes(), len(known)) for row in shape]
    found = _Found()
    for first in range(0, walk.tiles, _CHUNK):
        group = np.arange(first, min(walk.tiles, first + _CHUNK))
        cut = np.minimum(walk.places - group * own, own)
        phases = [where[:, 0] % SECTOR_BYTES for where in ends(group, np.arange(1))]
        found.add(first, np.stack([cut, kinds[group % period], *phases], axis=1))
    return found.classes()


def _row_classes(walk: HeadTail) -> list[tuple[int, int]]:
    """Rows of steps, one step a thread that shares an output, likewise."""
    import numpy as np

    t, size = walk.tiling, walk.tiling.element.nbytes
    outer = walk.outer if walk.rows else walk.outer[1:]
    sharers = np.arange(t.threads_per_row if outer else 1)
    rows = -(-walk.steps // t.threads_per_row)
    step = max(1, _CHUNK // len(sharers))
    found = _Found()
    for first in range(0, rows, step):
        row = np.arange(first, min(rows, first + step))[:, None]
        number = row * t.threads_per_row + sharers
        last = (row == rows - 1).astype(np.int64)
        along, (start, *_), _ = walk.begin(Bases(0, 0), number)
        begin = start + along * walk.lead.src if walk.aligned and walk.rows else start
        begin = np.broadcast_to(begin, number.shape) * size
        keys = [last, begin[:, :1] % SECTOR_BYTES, begin - begin[:, :1]]
        if not walk.aligned:
            at = np.broadcast_to(along, number.shape) * size
            end = (at == (walk.vectors - 1) * t.nbytes).astype(np.int64)
            keys += [at[:, :1] % SECTOR_BYTES, at - at[:, :1], end]
        found.add(first, np.hstack(keys))
    return found.classes()


class _Found:
    """Classes of rows of numbers, gathered chunk by chunk."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[int]] = {}

    def add(self, first: int, keys: Any) -> None:
        """Rows number `first` and on, by what tells them apart."""
        import numpy as np

        unique, index, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
        for key, i, n in zip(unique, index, counts, strict=True):
            self._known.setdefault(key.tobytes(), [first + int(i), 0])[1] += int(n)

    def classes(self) -> list[tuple[int, int]]:
        """One of each class, and how many there are."""
        return [(i, n) for i, n in self._known.values()]


# --- limits --------------------------------------------------------------------------------------------


def memory_bytes(plan: ReducePlan) -> int:
    """Bytes that memory moves: every element that exists and every output once, the workspace twice.

    >>> from layoutalg.kernels.rowwise import plans, reduce_problem
    >>> memory_bytes(plans(reduce_problem((8192, 8192), 1, "sum", "f32"))[0]) == 8192 * 8193 * 4
    True
    """
    p = plan.problem
    return p.read_bytes + p.written_bytes + 2 * 4 * plan.workspace_elems


def bounds(plan: ReducePlan, arch: str | Arch = "sm_90") -> tuple[Bound, ...]:
    """What limits all passes of a plan, the tightest first: see `limits`.

    Raises UnsupportedError for an architecture without a board.

    >>> from layoutalg.kernels.rowwise import plans, reduce_problem
    >>> [str(x) for x in bounds(plans(reduce_problem((8192, 8192), 1, "sum", "f32"))[0])]
    ['bytes of memory: 268468224, 55.9 us', 'load-store cycles: 647168, 2.5 us']
    """
    return limits(memory_bytes(plan), predict(plan, arch), arch)
