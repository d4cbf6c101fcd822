"""Vector clocks of a cluster: warps of all its blocks, and the engines that work beside them.

The idea.  An engine is one more column of the clocks (see hazards): the copies of a phase of an mbarrier, the
bulk groups of a warp, the products of a warpgroup.  What arrives at a barrier releases what it knows, what
waits there acquires it:

    release(warp, lanes)             Knowledge: per agent the last epoch that is over
    acquire(warp, lanes, knowledge)  what these lanes know from here on

Lanes of a warp may know more than the warp: one thread waits for the others, or arrives for them.  What one
lane knows, the warp knows from the next warp or block barrier on; what one lane releases is its own accesses,
and of the other lanes' those before the last such barrier.

Proxies.  Beside what has happened is the part that the asynchronous proxy sees: FENCED.  An epoch of
ordinary writes gets there by a fence.proxy.async that a thread executes which knows of them, and from there
on with everything that is released.  What fence.proxy.async.shared::cta adds is NEAR: it holds for what
threads of its block wrote to their own shared memory.  Writes of engines need none.

Reads of a warp have a column of their own, so that an arrival can hand back what was read and show nobody
what was written.  Two further columns: that a block has started, and that a warp's initialisations of
mbarriers are fenced. They are what a relaxed arrival carries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from layoutalg.codegen.sim.hazards import WARP_BITS, Array, Clocks

ALL_LANES = (1 << (1 << WARP_BITS)) - 1
"""A warp's lanes as a mask of bits."""


SEEN, FENCED, NEAR = range(3)
"""Rows of knowledge: what is over; what of it the asynchronous proxy sees; what it sees in the shared memory
of the block that wrote it."""


class Knowledge:
    """The work known to be over: in each row an epoch per agent, and the epochs of single threads."""

    __slots__ = ("epochs", "threads")

    def __init__(self, epochs: Array) -> None:
        self.epochs = epochs
        self.threads: tuple[dict[int, int], ...] = ({}, {}, {})

    @classmethod
    def nothing(cls, agents: int) -> Knowledge:
        """Knowledge of nothing."""
        return cls(numpy.zeros((3, agents), numpy.int64))

    def copy(self) -> Knowledge:
        """The same, to be changed."""
        other = Knowledge(self.epochs.copy())
        other.threads = tuple(map(dict, self.threads))
        return other

    def join(self, other: Knowledge) -> None:
        """Know what the other knows, too."""
        numpy.maximum(self.epochs, other.epochs, out=self.epochs)
        for mine, more in zip(self.threads, other.threads, strict=True):
            _raise(mine, more)

    def only(self, kept: Array) -> Knowledge:
        """The knowledge of some agents, by a mask."""
        other = Knowledge(self.epochs * kept)
        for its, mine in zip(other.threads, self.threads, strict=True):
            its.update(_of(mine, kept))
        return other

    def fence(self, row: int, agents: Array) -> None:
        """Make what is known of some agents, by a mask, visible to the asynchronous proxy: FENCED or NEAR."""
        numpy.maximum(self.epochs[row], self.epochs[SEEN] * agents, out=self.epochs[row])
        _raise(self.threads[row], _of(self.threads[SEEN], agents))

    def has(self, thread: int, epoch: int, row: int = SEEN) -> bool:
        """Whether what a thread did in an epoch is known."""
        known = self.epochs[row, thread >> WARP_BITS] >= epoch
        return bool(known) or self.threads[row].get(thread, 0) >= epoch


def _of(threads: dict[int, int], agents: Array) -> dict[int, int]:
    return {thread: epoch for thread, epoch in threads.items() if agents[thread >> WARP_BITS]}


def _raise(mine: dict[int, int], more: dict[int, int]) -> None:
    for thread, epoch in more.items():
        if mine.get(thread, 0) < epoch:
            mine[thread] = epoch


class AgentClocks(Clocks):
    """The clocks of `blocks` blocks of `warps` warps, and of engines, by their names in messages.

    Columns: warps, what they have read, their fenced initialisations, the lives of the blocks, the engines.

    >>> clocks = AgentClocks(2, 1, ["the copy for full[0]"])
    >>> clocks.start()
    >>> known = clocks.release(0, ALL_LANES)
    >>> clocks.acquire(1, ALL_LANES, known)
    >>> clocks.knows(32, 0, 2), clocks.knows(0, 32, 2)  # 1 was before
    (True, False)
    """

    def __init__(self, warps: int, blocks: int, engines: Sequence[str]) -> None:
        self.per_block, self.blocks, total = warps, blocks, warps * blocks
        self.first_read, self.first_init, self.first_life = total, 2 * total, 3 * total
        self.first_engine = self.first_life + blocks
        self.agents = self.first_engine + len(engines)
        self.names = tuple(engines)
        self.now: Array = numpy.ones(self.agents, dtype=numpy.int64)
        self._epochs: Array = numpy.zeros((total, 3, self.agents), dtype=numpy.int64)
        self.seen: Array = self._epochs[:, SEEN]
        self.floor = 0
        self._rows = [Knowledge(epochs) for epochs in self._epochs]
        self._lanes: list[dict[int, Knowledge]] = [{} for _ in range(total)]
        self.without_writes: Array = numpy.arange(self.agents) >= total
        agents = numpy.arange(self.agents)
        self.not_of_peers = [(agents >= total) | (agents // warps == rank) for rank in range(blocks)]

    def start(self) -> None:
        """A cluster begins: all that was before is known to all."""
        self.floor = int(self.now.max())
        self.now[:] = self.floor + 1
        self._epochs[:] = self.floor
        for warp, (row, lanes) in enumerate(zip(self._rows, self._lanes, strict=True)):
            row.threads = ({}, {}, {})
            lanes.clear()
            self.seen[warp, self.first_life + warp // self.per_block] = self.floor + 1

    # --- meeting, releasing, acquiring -----------------------------------------------------------------

    def sync_warps(self, warps: Array) -> None:
        """The lanes of each of these warps meet."""
        for w in warps:
            self._merge(int(w))
            self.seen[w, w] = self.seen[w, w + self.first_read] = self.now[w]
            self.now[w] += 1

    def sync_block(self, warps: slice | None = None) -> None:
        """All warps of a block meet."""
        chosen = range(*(warps or slice(None)).indices(len(self._rows)))
        known = Knowledge.nothing(self.agents)
        for w in chosen:
            known.join(self.release(w, ALL_LANES))
        for w in chosen:
            self._merge(w)
            self._rows[w].join(known)

    def _merge(self, warp: int) -> None:
        """Let the warp know what its lanes know."""
        for known in self._lanes[warp].values():
            self._rows[warp].join(known)
        self._lanes[warp].clear()

    def release(self, warp: int, lanes: int) -> Knowledge:
        """Return what these lanes of a warp know and have done; what they do after this is not part of it."""
        known = self._rows[warp].copy()
        for mask, more in self._lanes[warp].items():
            if mask & lanes:
                known.join(more)
        epoch = int(self.now[warp])
        if lanes == ALL_LANES:
            known.epochs[SEEN, [warp, warp + self.first_read]] = epoch
        else:
            for column in (warp, warp + self.first_read):
                known.threads[SEEN].update(dict.fromkeys(_threads(column, lanes), epoch))
        self.now[warp] += 1
        return known

    def acquire(self, warp: int, lanes: int, known: Knowledge) -> None:
        """These lanes of a warp know it from here on."""
        if lanes == ALL_LANES:
            self._rows[warp].join(known)
        elif lanes in self._lanes[warp]:
            self._lanes[warp][lanes].join(known)
        else:
            self._lanes[warp][lanes] = known.copy()

    def fence_proxy(self, warp: int, lanes: int, *, cta: bool = False) -> None:
        """fence.proxy.async by these lanes: what they know, and have written, the asynchronous proxy sees;
        with `cta`, .shared::cta, what threads of their block wrote to its own shared memory."""
        known = self.release(warp, lanes)
        if cta:
            known.fence(NEAR, self.not_of_peers[warp // self.per_block])
        else:
            known.fence(FENCED, numpy.ones(self.agents, dtype=bool))
        known.epochs[SEEN] = 0  # a fence shows its threads nothing
        known.threads[SEEN].clear()
        self.acquire(warp, lanes, known)

    def engine_done(self, engine: int) -> Knowledge:
        """The running epoch of an engine is over: the knowledge of it."""
        known = Knowledge.nothing(self.agents)
        known.epochs[[SEEN, FENCED], engine] = self.now[engine]
        self.now[engine] += 1
        return known

    # --- queries ---------------------------------------------------------------------------------------

    def knows(self, thread: int, other: int, epoch: int, row: int = SEEN) -> bool:
        """Whether a thread knows, in a row, what another one, or an engine, did in an epoch."""
        warp, bit = thread >> WARP_BITS, 1 << (thread & 31)
        return self._rows[warp].has(other, epoch, row) or any(
            mask & bit and known.has(other, epoch, row) for mask, known in self._lanes[warp].items()
        )

    def warp_knows(self, warp: int, other: int, epoch: int) -> bool:
        """Whether any lane of a warp knows what another thread did in an epoch."""
        lanes = self._lanes[warp].values()
        return any(known.has(other, epoch) for known in (self._rows[warp], *lanes))

    def visible(self, thread: int, other: int, epoch: int, rank: int | None = None) -> bool:
        """Whether an asynchronous access of a thread sees another's write, to the shared memory of the block
        of a `rank` where one is given; writes of engines need no fence."""
        if other >> WARP_BITS >= self.first_engine or epoch <= self.floor:
            return True
        if self.knows(thread, other, epoch, FENCED):
            return True
        own = rank is not None and (other >> WARP_BITS) // self.per_block == rank
        return own and self.knows(thread, other, epoch, NEAR)

    def still_unknown(self, late: Array, epochs: Array, threads: Array, others: Array) -> Array:
        """Mark what neither a warp has seen nor its thread knows."""
        where = numpy.nonzero(late)
        agents = others >> WARP_BITS if late.ndim == 2 else numpy.arange(late.shape[-1])
        parts = [numpy.broadcast_to(x, late.shape)[where] for x in (threads, others, agents, epochs)]
        rows, inverse = numpy.unique(numpy.stack(parts, axis=1), axis=0, return_inverse=True)
        known = []
        for thread, other, agent, epoch in rows.tolist():
            own = (agent << WARP_BITS) + (other & 31)
            known.append(other >= 0 and self.knows(thread, own, epoch))
        left = late.copy()
        left[where] = ~numpy.array(known)[inverse.reshape(-1)]
        return left

    # --- names -----------------------------------------------------------------------------------------

    def who(self, thread: int) -> str:
        """A thread or an engine, as a message names it."""
        agent = thread >> WARP_BITS
        if agent >= self.first_engine:
            return self.names[agent - self.first_engine]
        rank, own = divmod(thread, self.per_block << WARP_BITS)
        return f"thread {own}{self._of_block(rank)}"

    def warp_name(self, warp: int) -> str:
        """A warp, as a message names it."""
        rank, own = divmod(warp, self.per_block)
        return f"{own}{self._of_block(rank)}"

    def _of_block(self, rank: int) -> str:
        return f" of the block of rank {rank}" if self.blocks > 1 else ""

    def in_flight(self, thread: int) -> str:
        """The words of a message for bytes that have yet to arrive."""
        if thread >> WARP_BITS >= self.first_engine:
            return f"{self.who(thread)} is in flight, and nobody has waited for it"
        return super().in_flight(thread)

    def barriers(self, thread: int, other: int) -> str:
        """The barriers that could separate two accesses."""
        if other >> WARP_BITS >= self.first_engine:
            return "wait for it"
        return "warp or block barrier" if thread >> WARP_BITS == other >> WARP_BITS else "barrier"


def _threads(warp: int, lanes: int) -> list[int]:
    return [(warp << WARP_BITS) + lane for lane in range(1 << WARP_BITS) if lanes >> lane & 1]
