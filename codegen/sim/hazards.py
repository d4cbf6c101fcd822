"""Races by vector clocks: whether two accesses are ordered, not whether this run happened to order them.

The idea.  Every warp counts its epochs: a barrier ends one.  `seen[v, w]` is the last epoch of warp w that
warp v knows to be over.  Each granule of memory remembers its last write and, for each warp, its last
read, as (epoch, thread).  An access is a race when what it meets is an epoch that its warp has not seen:

    warp 0, epoch 1: writes x            x: written by thread 0 in epoch 1
    block barrier                        seen[1, 0] = 1
    warp 1: reads x                      1 <= seen[1, 0]: ordered.  Without the barrier 1 > 0: a race,
                                         whichever of the two warps the simulator ran first

Notes.  A warp does not see its own running epoch either: lanes of one warp are unordered until a warp or
block barrier.  A thread always sees itself.  Bytes an asynchronous copy has yet to write carry the epoch
PENDING, which nobody sees, not even the thread that started the copy; landing gives them the epoch in
which that thread waited.  Epochs never restart, so memory that outlives a block needs no clearing: what
earlier blocks did is seen by definition here, and left to GridShadow, which knows that blocks are never
ordered.

A granule is the greatest common divisor of all access widths to a buffer.  Coarser would report false
races, finer only costs time.

Source: Flanagan and Freund, FastTrack: efficient and precise dynamic race detection, PLDI 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy

WARP_BITS = 5
"""A warp is 2^5 threads."""

PENDING = numpy.iinfo(numpy.int64).max
"""The epoch of bytes that an asynchronous copy has yet to write."""

_SEVERAL = -1
Array: TypeAlias = "numpy.ndarray[Any, Any]"
_some = numpy.count_nonzero
"""Whether any is set, in a fifth of the time that `any` takes for the few lanes of an access."""


@dataclass(frozen=True, slots=True)
class Race:
    """Lane number `index` of those that access memory meets another access, in its granule number `granule`;
    `text` says which."""

    index: int
    text: str
    granule: int = 0


class Clocks:
    """The epoch each warp is in (`now`), and the last one it knows of every other to be over (`seen`).

    What happened in epoch `floor` or before is known to all: most accesses need no other test.  Agents that
    are not warps, and threads that know more than their warp, are in engines.Knowledge.

    >>> clocks = Clocks(2)
    >>> clocks.sync_block()
    >>> clocks.now.tolist(), clocks.seen.tolist(), clocks.floor
    ([2, 2], [[1, 1], [1, 1]], 1)
    """

    def __init__(self, warps: int) -> None:
        self.first_engine = warps
        self.now: Array = numpy.ones(warps, dtype=numpy.int64)
        self.seen: Array = numpy.zeros((warps, warps), dtype=numpy.int64)
        self.floor = self.first_read = 0

    def start(self) -> None:
        """A block begins, or a cluster of blocks: what was before is known to all."""
        self.sync_block()

    def sync_warps(self, warps: Array) -> None:
        """The lanes of each of these warps meet."""
        self.seen[warps, warps] = self.now[warps]
        self.now[warps] += 1

    def sync_block(self, warps: slice | None = None) -> None:
        """All warps meet; `warps` are those of the block, where there are several."""
        self.seen[:] = self.now
        self.floor = int(self.now.min())
        self.now += 1

    def still_unknown(self, late: Array, epochs: Array, threads: Array, others: Array) -> Array:
        """Mark, of what a warp has not seen, by a mask, what its thread does not know either."""
        return late

    def visible(self, thread: int, other: int, epoch: int, rank: int | None = None) -> bool:
        """Whether an asynchronous access of a thread sees another's write, to shared memory of a block."""
        return True

    def who(self, thread: int) -> str:
        """A thread, as a message names it."""
        return f"thread {thread}"

    def warp_name(self, warp: int) -> str:
        """A warp, as a message names it."""
        return f"warp {warp}"

    def in_flight(self, thread: int) -> str:
        """The words of a message for bytes that have yet to arrive, by who brings them."""
        return f"thread {thread} has started a copy into it and not waited for it"

    def barriers(self, thread: int, other: int) -> str:
        """The barriers that could separate two threads' accesses."""
        same = thread >> WARP_BITS == other >> WARP_BITS
        return "warp or block barrier" if same else "block barrier"


class Shadow:
    """The record that each granule of a buffer keeps of its accesses; see the module's text.

    Atomics are not ordered among themselves: they are kept as reads of a shadow of their own, `updates`, and
    everything else is ordered with them.

    It covers `size_bytes` from `first_byte` on in granules of `granule_bytes`; without `reads` it does not
    remember reads, for buffers that are written only; `rank` is that of the block whose shared memory it is.
    Accesses come as (granules, threads): k granules for each of n lanes, shape (n, k), and their threads,
    shape (n, 1).

    >>> shadow = Shadow(64, 4, Clocks(2))
    >>> lane, x = numpy.array([[0]]), numpy.array([[5]])
    >>> shadow.write(x, lane)
    >>> shadow.read(x, lane + 32).text
    'thread 0 wrote it, with no block barrier in between'
    """

    def __init__(
        self, size_bytes: int, granule_bytes: int, clocks: Clocks, *, first_byte: int = 0, reads: bool = True,
        rank: int | None = None,
    ) -> None:  # fmt: skip
        count, warps = -(-size_bytes // granule_bytes), len(clocks.now)
        self.first_byte, self.granule_bytes = first_byte, granule_bytes
        self.clocks, self.warps = clocks, warps
        self.epoch: Array = numpy.zeros(count, dtype=numpy.int64)
        self.writer: Array = numpy.zeros(count, dtype=numpy.int32)
        self.read_epoch: Array = numpy.zeros((count if reads else 0, warps), dtype=numpy.int64)
        self.reader: Array = numpy.zeros((count if reads else 0, warps), dtype=numpy.int32)
        self.reads, self.rank = reads, rank
        self.updates: Shadow | None = None
        self.did = "read"

    def granules(self, addresses: Array, width: int) -> Array:
        """The granules of accesses of `width` bytes at `addresses`: shape (n, width / granule)."""
        first = ((addresses - self.first_byte) // self.granule_bytes)[:, None]
        return first if width == self.granule_bytes else first + numpy.arange(width // self.granule_bytes)

    def read(self, granules: Array, threads: Array) -> Race | None:
        """Note a read; the race it takes part in, or None."""
        race = self._against_writes(granules, threads) or self._against_updates(granules, threads)
        if race is None and self.reads:
            self._note_read(granules, threads)
        return race

    def update(self, granules: Array, threads: Array) -> Race | None:
        """Note an atomic; its race, or None."""
        race = self._against_writes(granules, threads) or self._against_reads(granules, threads)
        if race is None and self.updates is not None:
            self.updates.did = "updated"
            self.updates._note_read(granules, threads)
        return race

    def _against_updates(self, granules: Array, threads: Array) -> Race | None:
        return None if self.updates is None else self.updates._against_reads(granules, threads)

    def write(self, granules: Array, threads: Array, *, pending: bool = False) -> Race | None:
        """Note a write, or with `pending` the start of an asynchronous one; its race, or None."""
        race = self._against_writes(granules, threads) or self._against_reads(granules, threads)
        race = race or self._against_updates(granules, threads)
        if race is not None:
            return race
        self._note_write(granules, PENDING if pending else self.clocks.now[threads >> WARP_BITS], threads)
        clash = self.writer[granules] != threads  # of lanes that write one granule the last stays
        if _some(clash):
            i, k = _first(clash)
            return Race(i, f"thread {self.writer[granules[i, k]]} writes it in the same instruction")
        return None

    def land(self, granules: Array, threads: Array) -> None:
        """An asynchronous write has arrived, and the thread that started it has waited for it."""
        self.epoch[granules] = self.clocks.now[threads >> WARP_BITS]

    # --- engines: one thread starts what an agent beside the warps performs ------------------------------

    def start(self, granules: Array, threads: Array, engine: int) -> Race | None:
        """An engine begins to write, for these threads; its race, or None.  Shapes as in `write`."""
        race = self._against_writes(granules, threads) or self._against_reads(granules, threads)
        race = race or self._against_updates(granules, threads) or self._unfenced(granules, threads)
        if race is None:
            self._note_write(granules, PENDING, engine << WARP_BITS)
        return race

    def finish(self, granules: Array, engine: int) -> None:
        """Note that what an engine has written is there, in its running epoch."""
        self.epoch[granules] = self.clocks.now[engine]

    def read_by(self, granules: Array, threads: Array, engine: int) -> Race | None:
        """An engine reads, for these threads, until its running epoch is over; its race, or None."""
        race = self._against_writes(granules, threads) or self._against_updates(granules, threads)
        race = race or self._unfenced(granules, threads)
        if race is None and self.reads:
            self.read_epoch[granules, engine] = self.clocks.now[engine]
            self.reader[granules, engine] = engine << WARP_BITS
        return race

    def write_by(self, granules: Array, threads: Array, engine: int) -> Race | None:
        """An engine writes, for these threads, until its running epoch is over; its race, or None."""
        race = self.start(granules, threads, engine)
        if race is None:
            self.epoch[granules] = self.clocks.now[engine]
        return race

    def read_for(self, granules: Array, threads: Array) -> Race | None:
        """Note a read by the asynchronous proxy, for these threads; its race, or None."""
        return self.read(granules, threads) or self._unfenced(granules, threads)

    def _unfenced(self, granules: Array, threads: Array) -> Race | None:
        """An ordinary write that the asynchronous proxy may not see."""
        epoch, writer = self.epoch[granules], self.writer[granules]
        by_threads = (epoch > self.clocks.floor) & (writer >> WARP_BITS < self.clocks.first_engine)
        if not by_threads.any():
            return None
        rows = numpy.stack(numpy.broadcast_arrays(threads, writer, epoch), axis=-1)[by_threads]
        for thread, other, when in numpy.unique(rows, axis=0).tolist():
            if not self.clocks.visible(thread, other, when, self.rank):
                i, k = _first((threads == thread) & (writer == other) & (epoch == when))
                return Race(
                    i, f"{self.clocks.who(other)} wrote it, with no fence.proxy.async behind the write: the "
                    "asynchronous proxy may not see it", k,
                )  # fmt: skip
        return None

    def forget(self) -> None:
        """No access has happened: a new block has its own shared memory."""
        self.epoch[:] = 0

    def _against_writes(self, granules: Array, threads: Array) -> Race | None:
        epoch = self.epoch[granules]
        if _most(epoch) <= self.clocks.floor:
            return None
        writer = self.writer[granules]
        late = epoch > self.clocks.seen[threads >> WARP_BITS, writer >> WARP_BITS]
        if not _some(late):
            return None
        late &= (epoch == PENDING) | (writer != threads)
        if late.any():  # unseen by the warp; a single lane may have waited for it
            late = self.clocks.still_unknown(late, epoch, threads, writer)
        if not late.any():
            return None
        i, k = _first(late)
        thread, other = int(threads[i, 0]), int(writer[i, k])
        if epoch[i, k] == PENDING:
            return Race(i, self.clocks.in_flight(other), k)
        return Race(i, f"{self.clocks.who(other)} wrote it, {self._missing(thread, other)}", k)

    def _note_write(self, granules: Array, epochs: Any, writers: Any) -> None:
        self.epoch[granules], self.writer[granules] = epochs, writers

    def _note_read(self, granules: Array, threads: Array) -> None:
        warps = threads >> WARP_BITS
        columns = warps + self.clocks.first_read
        index = granules * self.warps + columns  # flat, since it is used four times
        epochs, readers = self.read_epoch.reshape(-1), self.reader.reshape(-1)
        before, several = epochs[index], None
        if _most(before) > self.clocks.floor:
            several = (before > self.clocks.seen[warps, columns]) & (readers[index] != threads)
        epochs[index], readers[index] = self.clocks.now[warps], threads
        clash = readers[index] != threads
        several = clash if several is None else several | clash
        if _some(several):
            readers[index[several]] = _SEVERAL

    def _against_reads(self, granules: Array, threads: Array) -> Race | None:
        if not self.reads:
            return None
        epoch = self.read_epoch[granules]
        if _most(epoch) <= self.clocks.floor:
            return None
        late = epoch > self.clocks.seen[threads >> WARP_BITS]
        if not _some(late):
            return None
        reader = self.reader[granules]
        late &= reader != threads[:, :, None]
        if late.any():
            late = self.clocks.still_unknown(late, epoch, threads[:, :, None], reader)
        if not late.any():
            return None
        i, k, warp = (int(n) for n in numpy.argwhere(late)[0])
        thread, other = int(threads[i, 0]), int(reader[i, k, warp])
        if other == _SEVERAL:
            warp -= self.clocks.first_read
            other = warp << WARP_BITS
            who = f"lanes of {self.clocks.warp_name(warp)}"
        else:
            who = self.clocks.who(other)
        return Race(i, f"{who} {self.did} it, {self._missing(thread, other)}", k)

    def _missing(self, thread: int, other: int) -> str:
        return f"with no {self.clocks.barriers(thread, other)} in between"


def _most(numbers: Array) -> int:
    """The largest, without the overhead of `max`."""
    return int(numpy.maximum.reduce(numbers, axis=None))


def _first(where: Array) -> tuple[int, int]:
    i, k = numpy.argwhere(where)[0]
    return int(i), int(k)


class GridShadow(Shadow):
    """The blocks that last wrote and read each granule of a global buffer: blocks are never ordered.

    >>> shadow = GridShadow(64, 4, Clocks(1))
    >>> lane, x = numpy.array([[0]]), numpy.array([[5]])
    >>> shadow.block = 0
    >>> shadow.write(x, lane)
    >>> shadow.block = 1
    >>> shadow.write(x, lane).text
    'block 0 wrote it, and blocks are not ordered'
    """

    def __init__(self, size_bytes: int, granule_bytes: int, clocks: Clocks, *, reads: bool = True) -> None:
        super().__init__(size_bytes, granule_bytes, clocks, reads=reads)
        self.block = 0
        self.block_wrote: Array = numpy.zeros(len(self.epoch), dtype=numpy.int32)  # block + 1
        self.block_read: Array = numpy.zeros(len(self.read_epoch), dtype=numpy.int32)

    def _note_read(self, granules: Array, threads: Array) -> None:
        me, before = self.block + 1, self.block_read[granules]
        self.block_read[granules] = numpy.where((before == 0) | (before == me), me, _SEVERAL)
        super()._note_read(granules, threads)

    def _note_write(self, granules: Array, epochs: Any, writers: Any) -> None:
        self.block_wrote[granules] = self.block + 1
        super()._note_write(granules, epochs, writers)

    def _against_writes(self, granules: Array, threads: Array) -> Race | None:
        race = self._meets(self.block_wrote[granules], "wrote")
        return race or super()._against_writes(granules, threads)

    def _against_reads(self, granules: Array, threads: Array) -> Race | None:
        race = self._meets(self.block_read[granules], self.did) if self.reads else None
        return race or super()._against_reads(granules, threads)

    def _meets(self, blocks: Array, did: str) -> Race | None:
        if not _some(blocks):
            return None
        foreign = (blocks != 0) & (blocks != self.block + 1)
        if not _some(foreign):
            return None
        i, k = _first(foreign)
        who = "several blocks" if blocks[i, k] == _SEVERAL else f"block {blocks[i, k] - 1}"
        return Race(i, f"{who} {did} it, and blocks are not ordered")
