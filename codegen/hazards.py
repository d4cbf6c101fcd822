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
from typing import Any, Literal, TypeAlias

import numpy

WARP = 32
PENDING = numpy.iinfo(numpy.int64).max
"""The epoch of bytes that an asynchronous copy has yet to write."""

_SEVERAL = -1
Array: TypeAlias = "numpy.ndarray[Any, Any]"
Access: TypeAlias = Literal["reads", "writes"]


@dataclass(frozen=True, slots=True)
class Race:
    """Access number `index` of an instruction meets `text`, done by thread `other` (None: many)."""

    index: int
    text: str
    other: int | None = None


class Clocks:
    """The epoch each warp is in (`now`), and the last one it knows of every other to be over (`seen`).

    >>> clocks = Clocks(2)
    >>> clocks.sync_block()
    >>> clocks.now.tolist(), clocks.seen.tolist()
    ([2, 2], [[1, 1], [1, 1]])
    """

    def __init__(self, warps: int) -> None:
        self.now: Array = numpy.ones(warps, dtype=numpy.int64)
        self.seen: Array = numpy.zeros((warps, warps), dtype=numpy.int64)

    def sync_warps(self, warps: Array) -> None:
        """The lanes of each of these warps meet."""
        self.seen[warps, warps] = self.now[warps]
        self.now[warps] += 1

    def sync_block(self) -> None:
        """All warps meet."""
        self.seen[:] = self.now
        self.now += 1


class Shadow:
    """What each granule of a buffer remembers of its accesses; see the module's text.

    `size_bytes` in granules of `granule_bytes`; reads are remembered where `reads` says that the buffer is
    also written.  Accesses come as (granules, threads): `granules` has shape (n, k), k granules for each of
    n lanes, `threads` has shape (n, 1).

    >>> shadow = Shadow(64, 4, Clocks(2))
    >>> lane, x = numpy.array([[0]]), numpy.array([[5]])
    >>> shadow.write(x, lane)
    >>> shadow.read(x, lane + 32).text
    'what thread 0 wrote, with no block barrier in between'
    """

    def __init__(self, size_bytes: int, granule_bytes: int, clocks: Clocks, *, reads: bool = True) -> None:
        count, warps = -(-size_bytes // granule_bytes), len(clocks.now)
        self.granule_bytes, self.clocks, self.warps = granule_bytes, clocks, warps
        self.epoch: Array = numpy.zeros(count, dtype=numpy.int64)
        self.writer: Array = numpy.zeros(count, dtype=numpy.int32)
        self.read_epoch: Array = numpy.zeros((count if reads else 0, warps), dtype=numpy.int64)
        self.reader: Array = numpy.zeros((count if reads else 0, warps), dtype=numpy.int32)
        self.reads = reads

    def granules(self, offsets: Array, width: int) -> Array:
        """The granules of accesses of `width` bytes at `offsets`: shape (n, width / granule)."""
        first = (offsets // self.granule_bytes)[:, None]
        return first if width == self.granule_bytes else first + numpy.arange(width // self.granule_bytes)

    def read(self, granules: Array, threads: Array) -> Race | None:
        """Note a read; the race it takes part in, or None."""
        race = self._against_writes(granules, threads, own=True)
        if race is None and self.reads:
            self._note_read(granules, threads)
        return race

    def write(self, granules: Array, threads: Array, *, pending: bool = False) -> Race | None:
        """Note a write, or with `pending` the start of an asynchronous one; its race, or None."""
        race = self._against_writes(granules, threads, own=not pending)
        race = race or (self._against_reads(granules, threads) if self.reads else None)
        if race is not None:
            return race
        self.epoch[granules] = PENDING if pending else self.clocks.now[threads // WARP]
        self.writer[granules] = threads
        clash = self.writer[granules] != threads
        if clash.any():
            i = int(clash.any(axis=1).argmax())
            other = int(self.writer[granules[i]][clash[i]][0])
            return Race(i, f"what thread {other} writes in the same instruction", other)
        return None

    def land(self, granules: Array, threads: Array) -> None:
        """An asynchronous write has arrived, and the thread that started it has waited for it."""
        self.epoch[granules] = self.clocks.now[threads // WARP]

    def _against_writes(self, granules: Array, threads: Array, *, own: bool) -> Race | None:
        epoch, writer = self.epoch[granules], self.writer[granules]
        late = epoch > self.clocks.seen[threads // WARP, writer // WARP]
        if not late.any():
            return None
        late &= (epoch == PENDING) | (writer != threads) if own else True
        if not late.any():
            return None
        i = int(late.any(axis=1).argmax())
        k = int(late[i].argmax())
        thread, other = int(threads[i, 0]), int(writer[i, k])
        if epoch[i, k] == PENDING:
            return Race(i, f"what a copy of thread {other} is still writing; nobody has waited for it", other)
        if not own and thread == other:
            return Race(i, "what the same thread wrote in this epoch", other)
        return Race(i, f"what thread {other} wrote, {_missing(thread, other)}", other)

    def _note_read(self, granules: Array, threads: Array) -> None:
        warps = threads // WARP
        place = granules * self.warps + warps
        now = numpy.broadcast_to(self.clocks.now[warps], place.shape)
        who = numpy.broadcast_to(threads, place.shape)
        epochs, readers = self.read_epoch.reshape(-1), self.reader.reshape(-1)
        again = (epochs[place] == now) & (readers[place] != who)
        epochs[place] = now
        readers[place] = who
        again |= readers[place] != who
        if again.any():
            readers[place[again]] = _SEVERAL

    def _against_reads(self, granules: Array, threads: Array) -> Race | None:
        warps = threads // WARP
        late = self.read_epoch[granules] > self.clocks.seen[warps]
        if not late.any():
            return None
        reader = self.reader[granules]
        late &= reader != threads[:, :, None]
        if not late.any():
            return None
        i, k, warp = (int(n) for n in numpy.argwhere(late)[0])
        other = int(reader[i, k, warp])
        if other == _SEVERAL:
            what = "a warp barrier" if warp == int(warps[i, 0]) else "a block barrier"
            return Race(i, f"what lanes of warp {warp} read, with no {what[2:]} in between")
        return Race(i, f"what thread {other} read, {_missing(int(threads[i, 0]), other)}", other)


def _missing(thread: int, other: int) -> str:
    same = thread // WARP == other // WARP
    return f"with no {'warp or block' if same else 'block'} barrier in between"


class GridShadow:
    """Which block last wrote each granule of a global buffer, and which read it: blocks are never ordered.

    >>> shadow = GridShadow(64, 4, Clocks(1))
    >>> lane, x = numpy.array([[0]]), numpy.array([[5]])
    >>> shadow.block = 0
    >>> shadow.write(x, lane)
    >>> shadow.block = 1
    >>> shadow.write(x, lane).text
    'what block 0 wrote; blocks are not ordered'
    """

    def __init__(self, size_bytes: int, granule_bytes: int, clocks: Clocks, *, reads: bool = True) -> None:
        self.inside = Shadow(size_bytes, granule_bytes, clocks, reads=reads)
        self.block = 0
        self.reads = reads
        count = len(self.inside.epoch)
        self.writer: Array = numpy.zeros(count, dtype=numpy.int32)  # block + 1
        self.reader: Array = numpy.zeros(count if reads else 0, dtype=numpy.int32)
        self.granules = self.inside.granules

    def read(self, granules: Array, threads: Array) -> Race | None:
        """As Shadow.read, and against the writes of other blocks."""
        race = self._meets(self.writer[granules], "wrote")
        if race is None and self.reads:
            me, before = self.block + 1, self.reader[granules]
            self.reader[granules] = numpy.where((before == 0) | (before == me), me, _SEVERAL)
        return race or self.inside.read(granules, threads)

    def write(self, granules: Array, threads: Array) -> Race | None:
        """As Shadow.write, and against the writes and reads of other blocks."""
        race = self._meets(self.writer[granules], "wrote")
        if race is None and self.reads:
            race = self._meets(self.reader[granules], "read")
        self.writer[granules] = self.block + 1
        return race or self.inside.write(granules, threads)

    def _meets(self, blocks: Array, did: str) -> Race | None:
        foreign = (blocks != 0) & (blocks != self.block + 1)
        if not foreign.any():
            return None
        i = int(foreign.any(axis=1).argmax())
        block = int(blocks[i][foreign[i]][0])
        who = "several blocks" if block == _SEVERAL else f"block {block - 1}"
        return Race(i, f"what {who} {did}; blocks are not ordered")
