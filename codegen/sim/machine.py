"""The machine a tile program runs on: memory, registers, barriers and copies of one block of threads.

The idea.  Instructions are data; what they do to state goes through here, and is checked here.  A group is
a run of warps with one program counter; its lanes are NumPy vectors.

    load, store          bounds, alignment, races, then bytes        (lanes, words) of uint32
    start_copy           the same, but the bytes arrive at the wait
    registers            32-bit words that know whether they were written
    barriers, copies     what the effects of instructions call: the methods that take a group alone

Uninitialised data.  Shared memory has a twin of the same size, in which a bit is set where nobody has
written yet: poison.  Loads carry poison into registers, stores carry it back; an instruction that computes
is run once with the poisoned bits 0 and once with them 1, and what differs is poison.  So ragged tiles
may load what they never use, byte by byte; only storing poison to global memory is an error, and so is
reading a register that no instruction has written.

Copies of cp.async.  Each thread has its own queue.  `start` adds a copy, `commit` closes what was started
since the last commit into the thread's next group, `wait(n)` lands every group but the n newest.  Data land
at the latest moment that the program allows, its wait, so that a program that relies on an earlier one fails:

    start start commit start commit wait(1)      lands the first two, the third is still in flight

Lanes of a group of warps usually agree; each lane's tickets are kept apart, so that they need not.

Notes.  Offsets count bytes from the start of a buffer.  Every error names thread, buffer and statement.

Source: PTX ISA 9.0, 9.7.9.25.3 (cp.async, cp.async.commit_group, cp.async.wait_group).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from layoutalg.codegen.instr import WARP, WARPGROUP
from layoutalg.codegen.sim.atomics import update
from layoutalg.codegen.sim.hazards import Array, Clocks, GridShadow, Race, Shadow
from layoutalg.errors import SimulationError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.sim.engines import Cluster, Grid, MatrixEngine, Mbarriers, TensorCopies

_DONE, _OPEN = -2, -1


@dataclass(slots=True, eq=False)
class _Copy:
    """The copies of one instruction: per lane the number of its group, and how to land a set of lanes."""

    ticket: Array
    land: Callable[[Array], None]


class CopyQueue:
    """The asynchronous copies of a group of warps, `lanes` wide; masks are bool arrays over the lanes.

    >>> queue, landed, every = CopyQueue(2), [], numpy.ones(2, dtype=bool)
    >>> for name in "abc":
    ...     queue.start(every, lambda lanes, name=name: landed.append(name))
    ...     queue.commit(every)
    >>> queue.wait(every, 1)
    >>> landed
    ['a', 'b']
    """

    def __init__(self, lanes: int) -> None:
        self._closed: Array = numpy.zeros(lanes, dtype=numpy.int64)  # groups each lane has closed
        self._copies: list[_Copy] = []

    def start(self, mask: Array, land: Callable[[Array], None]) -> None:
        """Start a copy in the lanes of `mask`; `land(lanes)` will perform it for some of them."""
        self._copies.append(_Copy(numpy.where(mask, _OPEN, _DONE), land))

    def commit(self, mask: Array) -> None:
        """Close the open copies of the lanes of `mask` into their next group."""
        for copy in self._copies:
            numpy.copyto(copy.ticket, self._closed, where=mask & (copy.ticket == _OPEN))
        self._closed += mask

    def wait(self, mask: Array, newest: int) -> None:
        """Land, oldest first, the closed copies of the lanes of `mask` but those of the `newest` groups."""
        due = numpy.where(mask, self._closed - newest, 0)
        for copy in self._copies:
            lanes = (copy.ticket >= 0) & (copy.ticket < due)
            if lanes.any():
                copy.land(lanes)
                copy.ticket[lanes] = _DONE
        self._copies = [copy for copy in self._copies if (copy.ticket != _DONE).any()]

    def never_committed(self) -> int | None:
        """A lane with a copy that no commit has closed, or None."""
        for copy in self._copies:
            lanes = copy.ticket == _OPEN
            if lanes.any():
                return int(lanes.argmax())
        return None

    def first_unfinished(self) -> int | None:
        """A lane with a copy that it has not waited for, or None."""
        for copy in self._copies:
            lanes = copy.ticket != _DONE
            if lanes.any():
                return int(lanes.argmax())
        return None

    def clear(self) -> None:
        """Forget everything: a new block starts."""
        self._copies.clear()
        self._closed[:] = 0


Found: TypeAlias = tuple[Array, Array, Array]
"""Byte addresses in a buffer's memory, inside of it and aligned; their granules; their numbers by width."""

_CARRIER = {1: numpy.uint8, 2: numpy.uint16}


class Memory:
    """Bytes, seen as rows of 32-bit words for each access width; narrower values are zero-extended.

    >>> memory = Memory(numpy.arange(16, dtype=numpy.uint8))
    >>> memory.gather(numpy.array([8, 0]), 8).tolist() == [[0x0B0A0908, 0x0F0E0D0C], [0x03020100, 0x07060504]]
    True
    """

    def __init__(self, raw: Array) -> None:
        self.raw = raw
        self._rows: dict[int, Array] = {}

    def gather(self, offsets: Array, width: int) -> Array:
        """The values at byte offsets, multiples of `width`: uint32 of shape (n, words)."""
        return self.take(offsets // width, width)

    def scatter(self, offsets: Array, values: Any, width: int) -> None:
        """Write (n, words) values, or one for all, at byte offsets that are multiples of `width`."""
        self.rows(width)[offsets // width] = values

    def take(self, numbers: Array, width: int) -> Array:
        """Gather as `gather` does, values by their numbers."""
        return self.rows(width).take(numbers, axis=0).astype(numpy.uint32, copy=False)

    def put(self, numbers: Array, values: Any, width: int) -> None:
        """Scatter as `scatter` does, values by their numbers."""
        self.rows(width)[numbers] = values

    def rows(self, width: int) -> Array:
        """All whole values of `width` bytes: (count, words) of u8, u16 or u32."""
        if width not in self._rows:
            values = self.raw[: len(self.raw) // width * width].view(_CARRIER.get(width, numpy.uint32))
            self._rows[width] = values.reshape(-1, max(1, width // 4))
        return self._rows[width]


@dataclass(slots=True, eq=False)
class Buffer:
    """A declared buffer: `size_bytes` of `memory` from byte `base` on; `poison` and `shadow` watch it."""

    name: str
    memory: Memory
    base: int
    size_bytes: int
    poison: Memory | None = None
    shadow: Shadow | None = None

    def watched(self) -> tuple[Shadow, Memory]:
        """The shadow and the poison of shared memory.  Raises UnsupportedError for a global buffer."""
        if self.shadow is None or self.poison is None:
            raise UnsupportedError(f"asynchronous copies write shared memory; {self.name} is global")
        return self.shadow, self.poison


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """A set of lanes of a group.

    `mask` over all lanes, `index` picks the active ones, `threads` are theirs, shape (n, 1); `warps` says
    which warps have an active lane.
    """

    mask: Array
    index: Any
    threads: Array
    warps: Array

    @classmethod
    def of(cls, mask: Array, first_thread: int) -> Lanes:
        """The lanes where `mask` is set; lane 0 is thread `first_thread`."""
        index = slice(None) if mask.all() else numpy.flatnonzero(mask)
        threads = numpy.arange(first_thread, first_thread + len(mask))[index, None]
        return cls(mask, index, threads, numpy.any(mask.reshape(-1, WARP), axis=1))

    def spread(self, values: Array) -> Array:
        """Values of the active lanes as values of all lanes, 0 in the others."""
        if isinstance(self.index, slice):
            return values
        out = numpy.zeros((len(self.mask), values.shape[1]), dtype=values.dtype)
        out[self.index] = values
        return out


class Registers:
    """The register words of a group's lanes, (lanes, words): values, which are written, and poison."""

    def __init__(self, lanes: int, words: int) -> None:
        self.values: Array = numpy.zeros((lanes, words), dtype=numpy.uint32)
        self.written: Array = numpy.zeros((lanes, words), dtype=bool)
        self.poison: Array | None = None
        self.locks: Array | None = None  # how many unfinished products own a word
        self._touched: Array | None = None  # read or written since the last wgmma.fence
        self._whole: set[tuple[int, int]] = set()  # (start, words) written in every lane

    def clear(self) -> None:
        """Nothing is written: a new block starts."""
        self.written[:] = False
        self.poison = self.locks = self._touched = None
        self._whole.clear()

    def unwritten(self, start: int, words: int, lanes: Lanes) -> int | None:
        """The first active lane (counted among these) that reads a word nobody has written, or None."""
        if (start, words) in self._whole:
            return None
        written = self.written[:, start : start + words]
        if numpy.count_nonzero(written) == written.size:
            self._whole.add((start, words))
            return None
        bad = ~written[lanes.index].all(axis=1)
        return int(bad.argmax()) if bad.any() else None

    def watch(self) -> Array:
        """The words (lanes, words) read or written since this was last cleared, noted from now on."""
        if self._touched is None:
            self._touched = numpy.ones(self.values.shape, dtype=bool)
        return self._touched

    def lock(self, lanes: slice, part: slice, change: int) -> None:
        """Count one more, or with a `change` of -1 one fewer, unfinished product that owns words."""
        if self.locks is None:
            self.locks = numpy.zeros(self.values.shape, dtype=numpy.int32)
        self.locks[lanes, part] += change

    def locked(self, start: int, words: int, lanes: Lanes) -> int | None:
        """The first active lane (counted among these) of which an unfinished product owns a word, or None."""
        if self.locks is None:
            return None
        owned = self.locks[lanes.index, start : start + words].any(axis=1)
        return int(owned.argmax()) if owned.any() else None

    def read(self, start: int, words: int, lanes: Lanes) -> tuple[Array, Array | None]:
        """Values (lanes, words) and their poison, None where there is none."""
        part = slice(start, start + words)
        if self._touched is not None:
            self._touched[lanes.index, part] = True
        if self.poison is None or not numpy.count_nonzero(self.poison[lanes.index, part]):
            return self.values[:, part], None
        return self.values[:, part], self.poison[:, part]

    def write(self, start: int, lanes: Lanes, values: Array, poison: Array | None) -> None:
        """Write (lanes, words) values where lanes are active."""
        part = slice(start, start + values.shape[1])
        if self._touched is not None:
            self._touched[lanes.index, part] = True
        self.values[lanes.index, part] = values[lanes.index]
        if (start, values.shape[1]) not in self._whole:
            self.written[lanes.index, part] = True
        if poison is not None and self.poison is None:
            self.poison = numpy.zeros_like(self.values)
        if self.poison is not None:
            self.poison[lanes.index, part] = 0 if poison is None else poison[lanes.index]


@dataclass(slots=True, eq=False)
class Wait:
    """A wait of some lanes of a group: `asked()` is true once its event has happened, and then `passed()` is
    called; `missing()` says what has not."""

    asked: Callable[[], bool]
    passed: Callable[[], None]
    missing: Callable[[], str]


class Group:
    """Warps from `first_warp` on that share one program counter: what an effect knows of who executes it.

    The clocks know them as agents from `first_agent` on.  It is `lanes` wide: `exists` are the lanes that
    have a thread, `active` those that execute now, `frame` the values of their variables, `waits` what they
    wait for; they are at statement `number`, which `statement()` spells out.  `executed` counts how often
    which lanes have executed a statement, by its number; `found` is where lanes access memory, by the number
    of an operand whose offsets are kept, and the offsets.
    """

    def __init__(
        self, first_warp: int, exists: Lanes, register_words: int, frame: list[Any], *, first_agent: int = -1
    ) -> None:
        self.first_warp, self.exists, self.frame = first_warp, exists, frame
        self.first_agent = first_warp if first_agent < 0 else first_agent
        self.lanes = len(exists.mask)
        self.registers = Registers(self.lanes, register_words)
        self.copies = CopyQueue(self.lanes)
        self.active = exists
        self.number = 0
        self.statement: Callable[[], str] = str
        self.block = ""
        self.barrier_ticket = -1
        self.waits: list[Wait] = []
        self.executed: dict[tuple[int, Lanes], int] = {}
        self.found: dict[tuple[int, Lanes, int], Found] = {}
        self._masks: dict[bytes, Lanes] = {}

    def start(self, block: str) -> None:
        """A new block begins."""
        self.block, self.active, self.barrier_ticket = block, self.exists, -1
        self.waits.clear()
        self.registers.clear()
        self.copies.clear()

    @property
    def agents(self) -> list[int]:
        """The warps with an active lane, as the clocks know them."""
        agents: list[int] = (self.first_agent + numpy.flatnonzero(self.active.warps)).tolist()
        return agents

    def narrowed(self, condition: Array) -> Lanes | None:
        """The active lanes for which `condition` holds, None where there is none."""
        mask = self.active.mask & condition
        key = mask.tobytes()
        if key not in self._masks:
            self._masks[key] = Lanes.of(mask, self.first_agent * WARP)
        lanes = self._masks[key]
        return lanes if len(lanes.threads) else None

    def absent(self) -> int | None:
        """A thread of the group that does not execute now, None when all do."""
        idle = self.exists.mask & ~self.active.mask
        return self.first_warp * WARP + int(idle.argmax()) if idle.any() else None

    def fail(self, what: str, i: int = 0, address: int | None = None) -> SimulationError:
        """The error that active lane number `i` raises: '<who> <what> at <statement>'."""
        thread = int(self.active.threads[i, 0]) - (self.first_agent - self.first_warp) * WARP
        warp, lane = divmod(thread, WARP)
        statement = self.statement()
        return SimulationError(
            f"thread {thread} (warp {warp}, lane {lane}) of block {self.block} {what}, at {statement}",
            lane=lane,
            address=address,
            statement=statement,
        )


class Machine:
    """The state of one block, and the rules of touching it.

    Of several blocks of a cluster, `rank` counts them and `clocks` are shared.  `mbarriers`, `tma`,
    `matrix`, `cluster` and `grid` are there for kernels that use them (see engines).

    >>> machine = Machine(warps=1, shared_bytes=64)
    >>> group = Group(0, Lanes.of(numpy.ones(32, dtype=bool), 0), 0, [])
    >>> tile = machine.shared_buffer("tile", 0, 64, machine.watch_shared(0, 64, 4))
    >>> values, poison = machine.load(group, tile, numpy.arange(32) // 16 * 4, 4)
    >>> values.shape, poison is None
    ((32, 1), False)
    """

    mbarriers: Mbarriers
    tma: TensorCopies
    matrix: MatrixEngine
    cluster: Cluster
    grid: Grid

    def __init__(self, warps: int, shared_bytes: int, *, clocks: Clocks | None = None, rank: int = 0) -> None:
        self.clocks = clocks or Clocks(warps)
        self.agents = slice(rank * warps, (rank + 1) * warps)
        self.rank = rank
        self.buffers: dict[str, Buffer] = {}
        self.shared = Memory(numpy.zeros(-(-shared_bytes // 16) * 16, dtype=numpy.uint8))
        self.poison = Memory(numpy.zeros_like(self.shared.raw))
        self._shared_shadows: list[Shadow] = []
        self._grid_shadows: list[GridShadow] = []
        self._arrived: dict[int, tuple[int, str]] = {}  # warp -> the statement it waits at
        self._barriers = 0
        self.warps, self.block, self.backwards = warps, 0, False  # the order of lanes in atomics
        self.start_block(0)

    def start_block(self, number: int) -> None:
        """Block `number` of the grid begins, with shared memory that nobody has written."""
        self.block = number
        self.poison.raw[:] = 0xFF
        self._arrived.clear()
        if self.rank == 0:
            self.clocks.start()
        for shadow in self._shared_shadows:
            shadow.forget()
        for watched in self._grid_shadows:
            watched.block = number

    def watch_shared(
        self, first_byte: int, size_bytes: int, granule_bytes: int, *, updates: bool = False
    ) -> Shadow:
        """A shadow over a part of shared memory; buffers that overlap must share one."""
        make = partial(Shadow, size_bytes, granule_bytes, self.clocks, first_byte=first_byte, rank=self.rank)
        self._shared_shadows.append(made := make())
        if updates:
            self._shared_shadows.append(further := make())
            made.updates = further
        return made

    def watch_global(
        self, size_bytes: int, granule_bytes: int, *, reads: bool, updates: bool = False
    ) -> GridShadow:
        """A shadow over a global buffer that the kernel writes, and also reads if `reads`."""
        made = GridShadow(size_bytes, granule_bytes, self.clocks, reads=reads or updates)
        if updates:
            made.updates = further = GridShadow(size_bytes, granule_bytes, self.clocks)
            self._grid_shadows.append(further)
        self._grid_shadows.append(made)
        return made

    def shared_buffer(self, name: str, base: int, size_bytes: int, shadow: Shadow) -> Buffer:
        """A buffer that lies `base` bytes into shared memory."""
        return Buffer(name, self.shared, base, size_bytes, self.poison, shadow)

    # --- memory ----------------------------------------------------------------------------------------

    def load(
        self, group: Group, buffer: Buffer, offsets: Any, width: int, fixed: int = -1
    ) -> tuple[Array, Array | None]:
        """Read for the active lanes: values (lanes, words), and poison or None.  Raises SimulationError.

        `fixed` is the number of a memory operand whose offsets are kept: the same array comes again.
        """
        lanes = group.active
        at, granules, rows = self._found(group, buffer, offsets, width, "reads", fixed)
        if buffer.shadow is not None:
            race = buffer.shadow.read(granules, lanes.threads)
            if race is not None:
                raise refusal(group, buffer, at, "reads", race)
        values = lanes.spread(buffer.memory.take(rows, width))
        if buffer.poison is None:
            return values, None
        poison = buffer.poison.take(rows, width)
        return values, lanes.spread(poison) if numpy.count_nonzero(poison) else None

    def store(
        self, group: Group, buffer: Buffer, offsets: Any, width: int, values: Array, poison: Array | None,
        fixed: int = -1,
    ) -> None:  # fmt: skip
        """Write (lanes, words) values where lanes are active; `fixed` is that of `load`.

        Raises SimulationError.
        """
        lanes = group.active
        at, granules, rows = self._found(group, buffer, offsets, width, "writes", fixed)
        if buffer.shadow is not None:
            race = buffer.shadow.write(granules, lanes.threads)
            if race is not None:
                raise refusal(group, buffer, at, "writes", race)
        buffer.memory.put(rows, values[lanes.index], width)
        if poison is not None:
            poison = poison[lanes.index] & (0xFFFFFFFF >> 32 - 8 * min(4, width))
        if buffer.poison is not None:
            buffer.poison.put(rows, 0 if poison is None else poison, width)
        elif poison is not None and poison.any():
            i = int(poison.any(axis=1).argmax())
            raise group.fail(f"stores uninitialised shared memory to {buffer.name}", i, int(at[i]))

    def start_copy(
        self, group: Group, buffer: Buffer, offsets: Any, width: int, values: Array,
        poison: Array | None = None, fixed: int = -1,
    ) -> None:  # fmt: skip
        """Write like `store`, but let the bytes arrive when the thread waits for them.  They come from global
        memory, which has no poison."""
        lanes = group.active
        at, granules, rows = self._found(group, buffer, offsets, width, "copies into", fixed)
        (shadow, poisoned), mine = buffer.watched(), values[lanes.index].copy()
        race = shadow.write(granules, lanes.threads, pending=True)
        if race is not None:
            raise refusal(group, buffer, at, "copies into", race)

        def land(which: Array) -> None:
            chosen = which[lanes.index]
            buffer.memory.put(rows[chosen], mine[chosen], width)
            poisoned.put(rows[chosen], 0, width)
            shadow.land(granules[chosen], lanes.threads[chosen])

        group.copies.start(lanes.mask, land)

    # --- what effects call -----------------------------------------------------------------------------

    update = update

    def commit_copies(self, group: Group) -> None:
        """Close the group of copies that the active lanes have started since the last one."""
        group.copies.commit(group.active.mask)

    def wait_copies(self, group: Group, newest: int) -> None:
        """Land all but the `newest` groups of copies of the active lanes."""
        group.copies.wait(group.active.mask, newest)

    def check_whole_warps(self, group: Group, instruction: str) -> None:
        """Raise SimulationError where a warp executes an instruction of all its lanes with some of them."""
        lanes = group.active
        if isinstance(lanes.index, slice):
            return
        idle = ~lanes.mask & numpy.repeat(lanes.warps, WARP)
        if idle.any():
            thread = group.first_warp * WARP + int(idle.argmax())
            here = thread + (group.first_agent - group.first_warp) * WARP
            i = int((lanes.threads[:, 0] // WARP == here // WARP).argmax())
            raise group.fail(
                f"executes {instruction} of a whole warp, which thread {thread} does not reach", i
            )

    def check_whole_warpgroups(self, group: Group, instruction: str) -> None:
        """Raise SimulationError where not all four warps of a warpgroup execute an instruction of it."""
        active = group.active
        for i, warp in enumerate(numpy.flatnonzero(active.warps).tolist()):
            first = WARP * (group.first_warp + warp) // WARPGROUP * WARPGROUP
            last, lane = first + WARPGROUP - 1, first - WARP * group.first_warp
            if lane < 0 or lane + WARPGROUP > group.lanes or not active.mask[lane : lane + WARPGROUP].all():
                raise group.fail(
                    f"executes {instruction} of a whole warpgroup, threads {first} to {last}, of which not "
                    "all reach it", i * WARP,
                )  # fmt: skip

    def sync_warp(self, group: Group) -> None:
        """The lanes of each executing warp meet, and see what the others wrote."""
        self.clocks.sync_warps(numpy.array(group.agents))

    def arrive_block_barrier(self, group: Group) -> None:
        """The group's warps arrive.  Raises SimulationError in divergent code."""
        thread = group.absent()
        if thread is not None:
            raise group.fail(f"meets a block barrier that thread {thread} does not reach")
        here = (group.number, group.statement())
        for warp, (number, statement) in self._arrived.items():
            if number != group.number:
                raise group.fail(f"meets a block barrier while warp {warp} waits at another, {statement}")
        for warp in range(group.first_warp, group.first_warp + len(group.exists.warps)):
            self._arrived[warp] = here
        group.barrier_ticket = self._barriers
        if len(self._arrived) == self.warps:
            self._arrived.clear()
            self._barriers += 1
            self.clocks.sync_block(self.agents)

    def block_barrier_open(self, group: Group) -> bool:
        """True once every warp has arrived at the barrier that the group waits at."""
        return self._barriers > group.barrier_ticket

    def _found(self, group: Group, buffer: Buffer, offsets: Any, width: int, does: str, fixed: int) -> Found:
        """The place the active lanes access; kept by the group for the offsets of a `fixed` operand."""
        if fixed < 0:
            return self.places(group, buffer, offsets, width, does)
        key = fixed, group.active, id(offsets) if isinstance(offsets, numpy.ndarray) else offsets
        access = group.found.get(key)
        if access is None:
            access = group.found[key] = self.places(group, buffer, offsets, width, does)
        return access

    def places(self, group: Group, buffer: Buffer, offsets: Any, width: int, does: str) -> Found:
        at = self.checked(group, buffer, offsets, width, does)
        granules = at if buffer.shadow is None else buffer.shadow.granules(at, width)
        return at, granules, at // width

    def checked(self, group: Group, buffer: Buffer, offsets: Any, width: int, does: str) -> Array:
        """Addresses of the active lanes in the buffer's memory: inside the buffer and aligned."""
        if not isinstance(offsets, numpy.ndarray):
            offsets = numpy.full(group.lanes, offsets, dtype=numpy.int64)
        at: Array = offsets[group.active.index]
        if int(numpy.maximum.reduce(at)) + width > buffer.size_bytes:
            i = int((at > buffer.size_bytes - width).argmax())
            raise group.fail(
                f"{does} bytes {at[i]} to {at[i] + width - 1} of {buffer.name}, which has "
                f"{buffer.size_bytes}", i, int(at[i]),
            )  # fmt: skip
        if buffer.base:
            at = at + buffer.base
        if int(numpy.bitwise_or.reduce(at)) & (width - 1):
            i = int((at & (width - 1)).argmax())
            raise group.fail(
                f"{does} {width} bytes at byte {at[i] - buffer.base} of {buffer.name}, which is no multiple "
                f"of {width}", i, int(at[i] - buffer.base),
            )  # fmt: skip
        return at


def as_bits(lanes: Array) -> int:
    """A warp's lanes, a bool array of 32, as the bits of an int."""
    return int(numpy.packbits(lanes, bitorder="little").view("<u4")[0])


def refusal(
    group: Group, buffer: Buffer, at: Array, does: str, race: Race, where: str = ""
) -> SimulationError:
    """The error of a race of active lanes that access a buffer at addresses; `where` it is, if elsewhere."""
    offset = int(at[race.index]) - buffer.base
    return group.fail(f"{does} byte {offset} of {buffer.name}{where}: {race.text}", race.index, offset)
