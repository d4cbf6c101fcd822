"""wgmma in the simulator: products that own registers and bytes from their start until they are waited for.

The idea.  Each warpgroup has a queue.  `start` notes a product, `commit` closes what was started since the
last commit into the next group, `wait(n)` finishes every group but the n newest, oldest first.  A product
reads its tiles when it is finished, the latest moment that the program allows, and adds to D then:

    fence start start commit | start commit wait(1) | wait(0)
                               finishes the first two  and the third

What an unfinished product owns nobody else may touch: its registers are locked, and the writes that its tiles
had seen when it started are the last ones they may see.  A register that anything else has read or written
since the last fence needs another one before wgmma may use it.

Notes.  For other warps, the bytes are read at the wait: who writes them next has to be ordered after that.
Never written bytes are refused here, since their product is no use to anybody.

Source: PTX ISA 9.0, 9.7.15.5 (wgmma.mma_async), 9.7.15.7 (wgmma.fence, commit_group, wait_group).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from layoutalg.codegen.instr import WARP, WARPGROUP, Product, SharedTile
from layoutalg.codegen.sim.hazards import Array, Shadow
from layoutalg.errors import SimulationError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.sim.machine import Buffer, Group, Machine

WARPS = WARPGROUP // WARP
"""Warps of a warpgroup."""


@dataclass(frozen=True, slots=True, eq=False)
class RegisterPlace:
    """Words `start` to `start + words` of a group's registers, called `name`."""

    start: int
    words: int
    name: str

    @property
    def part(self) -> slice:
        """The columns of the register file."""
        return slice(self.start, self.start + self.words)


@dataclass(frozen=True, slots=True, eq=False)
class SharedPlace:
    """Byte offsets in a buffer, one per lane of the group or one for all."""

    buffer: Buffer
    offsets: Any


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A tile's chunks: their addresses, and the last writes that they had seen at the start."""

    buffer: Buffer
    tile: SharedTile
    addresses: Array
    granules: Array
    epochs: Array
    writers: Array


@dataclass(slots=True, eq=False)
class _Flight:
    """A product that is not finished: what started it, and the number of its group, None before a commit."""

    product: Product
    started_at: str
    reads: tuple[_Read, ...]
    accumulates: bool
    group: int | None = None


@dataclass(slots=True, eq=False)
class _Queue:
    """The products of a warpgroup.

    `shapes` are those of the products that D, by its place, was last given to since the last fence.
    """

    flights: list[_Flight] = field(default_factory=list)
    closed: int = 0
    fenced: bool = False
    shapes: dict[tuple[int, int], tuple[int, int, int, str]] = field(default_factory=dict)


class MatrixEngine:
    """The matrix engines of a block's warpgroups, by the number of the warpgroup.

    Its methods are called by the effects of the instructions, for the active warpgroups of a group.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._queues: dict[int, _Queue] = {}

    def clear(self) -> None:
        """A new block begins."""
        self._queues.clear()

    def fence(self, group: Group) -> None:
        """What was done to registers so far is ordered before what products will do to them."""
        for number, lanes in _warpgroups(group):
            queue = self._queue(number)
            queue.fenced = True
            queue.shapes.clear()
            group.registers.watch()[lanes] = False

    def start(self, group: Group, product: Product) -> None:
        """Start a product in every active warpgroup.  Raises SimulationError."""
        for number, lanes in _warpgroups(group):
            queue, registers = self._queue(number), group.registers
            self._check_registers(group, queue, lanes, product)
            accumulates = bool(_uniform(group, lanes, product.accumulate[:, 0], "accumulates"))
            self._check_written(group, lanes, product.d if accumulates else None, queue.flights)
            self._check_written(group, lanes, product.a, ())
            reads = tuple(self._read(group, lanes, place, tile) for place, tile in product.tiles)
            queue.flights.append(_Flight(product, group.statement(), reads, accumulates))
            queue.shapes[product.d.start, product.d.words] = product.shape
            for place in _held(product):
                registers.lock(lanes, place.part, 1)

    def commit(self, group: Group) -> None:
        """Close the group of products that the active warpgroups have started since the last one."""
        for number, _ in _warpgroups(group):
            queue = self._queue(number)
            for flight in queue.flights:
                if flight.group is None:
                    flight.group = queue.closed
            queue.closed += 1

    def wait(self, group: Group, newest: int) -> None:
        """Finish, oldest first, all groups of the active warpgroups but the `newest`."""
        for number, lanes in _warpgroups(group):
            queue = self._queue(number)
            due = [f for f in queue.flights if f.group is not None and f.group < queue.closed - newest]
            for flight in due:
                self._finish(group, lanes, flight)
            queue.flights = [f for f in queue.flights if f not in due]

    def owner(self, group: Group, lane: int) -> str:
        """What a message says of the unfinished product that owns a register of a lane of the group."""
        queue = self._queue((group.first_warp + lane // WARP) // WARPS)
        if any(flight.group is None for flight in queue.flights):
            flight = next(flight for flight in queue.flights if flight.group is None)
            return f"which belongs to {flight.started_at}, that no wgmma.commit_group has closed"
        return f"which belongs to {queue.flights[-1].started_at}, that no wgmma.wait_group has finished"

    def check_end(self, group: Group) -> None:
        """Raise SimulationError for products that are unfinished where a group ends."""
        for number, lanes in _warpgroups(group):
            for flight in self._queue(number).flights:
                todo = "commits" if flight.group is None else "waits for"
                raise _error(
                    group, f"has started a product that it never {todo}, {flight.started_at}", lanes.start
                )

    def _queue(self, number: int) -> _Queue:
        return self._queues.setdefault(number, _Queue())

    def _check_registers(self, group: Group, queue: _Queue, lanes: slice, product: Product) -> None:
        """D and A are fenced, and nobody else's but of products of the same shape on the same D."""
        if not queue.fenced:
            raise _error(group, "starts a wgmma before any wgmma.fence", lanes.start)
        mine = product.d.start, product.d.words
        if queue.shapes.get(mine, product.shape) != product.shape:
            raise _error(
                group,
                f"starts a wgmma on {product.d.name} behind one of another shape, with no wgmma.fence in "
                "between",
                lanes.start,
            )
        for place in _held(product):
            touched = group.registers.watch()[lanes, place.part].any(axis=1)
            if touched.any():
                raise _error(
                    group,
                    f"starts a wgmma on {place.name}, which was read or written since the last wgmma.fence",
                    lanes.start + int(touched.argmax()),
                )
        for flight in queue.flights:
            chained = flight.product.shape == product.shape
            for place, other in itertools.product(_held(product), _held(flight.product)):
                both_d = place is product.d and other is flight.product.d
                both_a = place is product.a and other is flight.product.a
                if both_a or (both_d and chained and mine == (other.start, other.words)):
                    continue
                if place.start < other.start + other.words and other.start < place.start + place.words:
                    owner = self.owner(group, lanes.start)
                    raise _error(group, f"starts a wgmma on {place.name}, {owner}", lanes.start)

    def _check_written(
        self, group: Group, lanes: slice, place: RegisterPlace | None, flights: Sequence[_Flight]
    ) -> None:
        """Registers that a product reads have been written, or will be by one of `flights`."""
        if place is None or any(flight.product.d.start == place.start for flight in flights):
            return
        registers = group.registers
        missing = ~registers.written[lanes, place.part].all(axis=1)
        if missing.any():
            lane = lanes.start + int(missing.argmax())
            raise _error(group, f"multiplies with {place.name}, which nothing has written", lane)
        if registers.poison is not None and registers.poison[lanes, place.part].any():
            raise _error(group, f"multiplies with {place.name}, which holds uninitialised bytes", lanes.start)

    def _read(self, group: Group, lanes: slice, place: SharedPlace, tile: SharedTile) -> _Read:
        """The chunks of a tile.  Raises SimulationError where they are not all there to be read."""
        buffer = place.buffer
        offset = int(_uniform(group, lanes, place.offsets, f"reads {buffer.name}"))
        if (buffer.base + offset) % 16:
            raise _error(
                group, f"reads a tile from byte {offset} of {buffer.name}, no multiple of 16", lanes.start
            )
        addresses = tile.chunks(buffer.base + offset)
        outside = (addresses < buffer.base) | (addresses + 16 > buffer.base + buffer.size_bytes)
        if outside.any():
            far = int(addresses[outside][0]) - buffer.base
            raise _error(group,
                f"reads bytes {far} to {far + 15} of {buffer.name}, which has {buffer.size_bytes}, by the "
                f"descriptor {tile.descriptor}", lanes.start, far,
            )  # fmt: skip
        shadow = _shadow(buffer)
        granules = shadow.granules(addresses.reshape(-1), 16).reshape(1, -1)
        read = _Read(buffer, tile, addresses, granules, shadow.epoch[granules], shadow.writer[granules])
        self._note(group, lanes, read)
        poison = self.machine.poison.gather(addresses.reshape(-1), 16).any(axis=1)
        if poison.any():
            at = int(addresses.reshape(-1)[poison.argmax()]) - buffer.base
            raise _error(
                group, f"multiplies byte {at} of {buffer.name}, which nothing has written", lanes.start, at
            )
        return read

    def _note(self, group: Group, lanes: slice, read: _Read) -> None:
        """All warps of a warpgroup read a tile: in order with the writes to it that they have seen."""
        threads = WARP * group.first_warp + numpy.arange(lanes.start, lanes.stop, WARP)[:, None]
        granules = numpy.broadcast_to(read.granules, (WARPS, read.granules.shape[1]))
        race = _shadow(read.buffer).read(granules, threads)
        if race is not None:
            raise _error(
                group,
                f"multiplies a tile in {read.buffer.name}: {race.text}",
                lanes.start + WARP * race.index,
            )

    def _finish(self, group: Group, lanes: slice, flight: _Flight) -> None:
        """Read the tiles, write D, and let go of what the product owned."""
        product, registers, tiles = flight.product, group.registers, []
        for read in flight.reads:
            shadow = _shadow(read.buffer)
            epochs, writers = shadow.epoch[read.granules], shadow.writer[read.granules]
            late = (epochs != read.epochs) | (writers != read.writers)
            if late.any():
                n = int(late[0].argmax())
                granule, writer = int(read.granules[0, n]), int(writers[0, n])
                at = granule * shadow.granule_bytes + shadow.first_byte - read.buffer.base
                raise _error(
                    group, f"multiplies byte {at} of {read.buffer.name}, which thread {writer} has written "
                    f"since {flight.started_at} started to read it", lanes.start, at,
                )  # fmt: skip
            self._note(group, lanes, read)
            found = self.machine.shared.gather(read.addresses.reshape(-1), 16).view(numpy.uint8)
            tiles.append(found.reshape(*read.addresses.shape, 16))
        d = registers.values[lanes, product.d.part] if flight.accumulates else None
        a = None if product.a is None else registers.values[lanes, product.a.part]
        registers.values[lanes, product.d.part] = product.multiply(d, a, tiles)
        registers.written[lanes, product.d.part] = True
        for place in _held(product):
            registers.lock(lanes, place.part, -1)


def _warpgroups(group: Group) -> Iterator[tuple[int, slice]]:
    """(number in the block, lanes in the group) of the active warpgroups of a group, whole ones."""
    first = group.first_warp
    for warp in numpy.flatnonzero(group.active.warps):
        if (first + int(warp)) % WARPS == 0:
            yield (first + int(warp)) // WARPS, slice(WARP * int(warp), WARP * int(warp) + WARPGROUP)


def _held(product: Product) -> tuple[RegisterPlace, ...]:
    """The registers that a product owns."""
    return (product.d,) if product.a is None else (product.d, product.a)


def _shadow(buffer: Buffer) -> Shadow:
    if not isinstance(buffer.shadow, Shadow):
        raise UnsupportedError(f"wgmma reads shared memory; {buffer.name} is global")
    return buffer.shadow


def _error(group: Group, what: str, lane: int, address: int | None = None) -> SimulationError:
    """The error that an active lane of the group, by its number in it, raises."""
    return group.fail(what, int(group.active.mask[:lane].sum()), address)


def _uniform(group: Group, lanes: slice, values: Any, does: str) -> Any:
    """The one value of a warpgroup's lanes.  Raises SimulationError where they have several."""
    if not isinstance(values, numpy.ndarray):
        return values
    mine = values[lanes]
    if (mine != mine[0]).any():
        other = int((mine != mine[0]).argmax())
        raise _error(
            group,
            f"{does} with {mine[other]}, and the first lane of its warpgroup with {mine[0]}",
            lanes.start + other,
        )
    return mine[0]
