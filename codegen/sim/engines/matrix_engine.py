"""wgmma: products that own registers and bytes from their start until they are waited for.

The idea.  Each warpgroup has a queue.  `start` notes a product, `commit` closes what was started since the
last commit into the next group, `wait(n)` finishes every group but the n newest, oldest first.  A product
reads its tiles when it is finished, the latest moment that the program allows, and adds to D then:

    fence start start commit | start commit wait(1) | wait(0)
                               finishes the first two  and the third

No one else may touch what an unfinished product owns.  Its registers are locked.  Its bytes are read by an
engine, an agent of the clocks, whose epoch is over at the commit and known at the wait: who writes them has
to know that epoch.  A register that anything else has read or written since the last fence needs another one
before wgmma may use it.

Notes.  Bytes that were never written are refused, since their product has no use.

Source: PTX ISA 9.0, 9.7.15.5 (wgmma.mma_async), 9.7.15.7 (wgmma.fence, commit_group, wait_group).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy

from layoutalg.arch import CHUNK_BYTES
from layoutalg.budget import spend
from layoutalg.codegen.instr import WARP, WARPGROUP, Product, SharedTile
from layoutalg.codegen.sim.engines.knowledge import ALL_LANES, AgentClocks, Knowledge
from layoutalg.codegen.sim.engines.tensor_copies import Place
from layoutalg.codegen.sim.hazards import Array
from layoutalg.codegen.sim.machine import Group, Machine
from layoutalg.errors import SimulationError, UnsupportedError

WARPS = WARPGROUP // WARP
"""Warps of a warpgroup."""

PRODUCT = 60
"""Units of work (layoutalg.budget) of a product: as a statement's, beside those of its tiles' chunks."""


class RegisterPlace(NamedTuple):
    """Words `start` to `start + words` of a group's registers, called `name`."""

    start: int
    words: int
    name: str

    @property
    def part(self) -> slice:
        """The columns of the register file."""
        return slice(self.start, self.start + self.words)

    def meets(self, other: RegisterPlace) -> bool:
        """Whether a word belongs to both."""
        return self.start < other.start + other.words and other.start < self.start + self.words


@dataclass(slots=True, eq=False)
class _Flight:
    """An unfinished product: what started it, where its tiles' chunks lie, the number of its group."""

    product: Product
    started_at: str
    addresses: tuple[Array, ...]
    accumulates: bool
    group: int | None = None


@dataclass(slots=True, eq=False)
class _Queue:
    """The products of a warpgroup, and the knowledge that each closed group is over.

    `shapes` are those of the products that a D, by its place, was given to since the last fence.
    """

    flights: list[_Flight] = field(default_factory=list)
    closed: list[Knowledge] = field(default_factory=list)
    fenced: bool = False
    shapes: dict[tuple[int, int], tuple[int, int, int, str]] = field(default_factory=dict)


class MatrixEngine:
    """The matrix engines of a block's warpgroups; `first_engine` is that of warpgroup 0.

    Its methods are called by the effects of the instructions, for the active warpgroups of a group.
    """

    def __init__(self, machine: Machine, first_engine: int) -> None:
        if not isinstance(machine.clocks, AgentClocks):
            raise UnsupportedError("wgmma needs clocks that know of engines")
        self.machine, self.clocks, self.first_engine = machine, machine.clocks, first_engine
        self._queues: dict[int, _Queue] = {}
        self.read_bytes = 0
        """The bytes of shared memory that products have read, 128 per wavefront."""

    def start_block(self) -> None:
        """A new block begins."""
        self._queues.clear()

    def fence(self, group: Group) -> None:
        """Order what was done to registers so far before what products will do to them."""
        for number, lanes in _warpgroups(group):
            queue = self._queue(number)
            queue.fenced = True
            queue.shapes.clear()
            group.registers.watch()[lanes] = False

    def start(self, group: Group, product: Product) -> None:
        """Start a product in every active warpgroup.  Raises SimulationError."""
        for number, lanes in _warpgroups(group):
            spend(PRODUCT)
            queue = self._queue(number)
            self._check_registers(group, queue, lanes, product)
            accumulates = bool(_uniform(group, lanes, product.accumulate[:, 0], "accumulates"))
            _check_written(group, lanes, product.d if accumulates else None, queue.flights)
            _check_written(group, lanes, product.a, ())
            engine = self.first_engine + number
            addresses = tuple(self._chunks(group, lanes, engine, *tile) for tile in product.tiles)
            self.read_bytes += CHUNK_BYTES * sum(chunks.size for chunks in addresses)
            queue.flights.append(_Flight(product, group.statement(), addresses, accumulates))
            for warp in range(WARPS):
                here = group.first_agent + lanes.start // WARP + warp
                self.machine.mbarriers.work_started(here, ALL_LANES, engine)
            queue.shapes[product.d.start, product.d.words] = product.shape
            for place in product.held:
                group.registers.lock(lanes, place.part, 1)

    def commit(self, group: Group) -> None:
        """Close the group of products that the active warpgroups have started since the last one."""
        for number, _ in _warpgroups(group):
            queue = self._queue(number)
            for flight in queue.flights:
                if flight.group is None:
                    flight.group = len(queue.closed)
            queue.closed.append(self.clocks.engine_done(self.first_engine + number))

    def wait(self, group: Group, newest: int) -> None:
        """Finish, oldest first, all groups of the active warpgroups but the `newest`."""
        for number, lanes in _warpgroups(group):
            queue = self._queue(number)
            due = len(queue.closed) - newest
            over = [f for f in queue.flights if f.group is not None and f.group < due]
            for flight in over:
                self._finish(group, lanes, flight)
            queue.flights = [f for f in queue.flights if f not in over]
            if due > 0:
                for lane in range(lanes.start, lanes.stop, WARP):
                    self.clocks.acquire(group.first_agent + lane // WARP, ALL_LANES, queue.closed[due - 1])

    def owner(self, group: Group, lane: int, start: int, words: int) -> str:
        """The words of a message for the unfinished product that owns registers of a lane of the group."""
        wanted = RegisterPlace(start, words, "")
        for flight in self._queue((group.first_warp + lane // WARP) // WARPS).flights:
            if any(place.meets(wanted) for place in flight.product.held):
                todo = "commit_group has closed" if flight.group is None else "wait_group has finished"
                return f"which belongs to {flight.started_at}, that no wgmma.{todo}"
        return "which belongs to a wgmma"

    def finish(self, groups: Sequence[Group]) -> None:
        """The block ends.  Raises SimulationError for products that are unfinished."""
        for group in groups:
            group.statement = lambda: "the end of the kernel"
            for number, lanes in _warpgroups(group):
                for flight in self._queue(number).flights:
                    todo = "commits" if flight.group is None else "waits for"
                    what = f"has started a product that it never {todo}, {flight.started_at}"
                    raise _error(group, what, lanes.start)

    def _queue(self, number: int) -> _Queue:
        return self._queues.setdefault(number, _Queue())

    def _check_registers(self, group: Group, queue: _Queue, lanes: slice, product: Product) -> None:
        """D and A are fenced, and nobody else's but of products of the same shape on the same D."""
        if not queue.fenced:
            raise _error(group, "starts a wgmma before any wgmma.fence", lanes.start)
        mine = product.d.start, product.d.words
        if queue.shapes.get(mine, product.shape) != product.shape:
            what = (
                f"starts a wgmma on {product.d.name} behind one of another shape, with no wgmma.fence between"
            )
            raise _error(group, what, lanes.start)
        for place in product.held:
            touched = group.registers.watch()[lanes, place.part].any(axis=1)
            if touched.any():
                what = f"starts a wgmma on {place.name}, which was read or written since the last wgmma.fence"
                raise _error(group, what, lanes.start + int(touched.argmax()))
        for flight in queue.flights:
            chained = flight.product.shape == product.shape
            for place, other in itertools.product(product.held, flight.product.held):
                both_d = place is product.d and other is flight.product.d
                both_a = place is product.a and other is flight.product.a
                if both_a or (both_d and chained and mine == (other.start, other.words)):
                    continue
                if place.meets(other):
                    owner = self.owner(group, lanes.start, place.start, place.words)
                    raise _error(group, f"starts a wgmma on {place.name}, {owner}", lanes.start)

    def _chunks(self, group: Group, lanes: slice, engine: int, place: Place, tile: SharedTile) -> Array:
        """The addresses of a tile's chunks, which an engine reads from here on.  Raises SimulationError."""
        buffer = place.buffer
        offset = int(_uniform(group, lanes, place.offsets, f"reads {buffer.name}"))
        if (buffer.base + offset) % CHUNK_BYTES:
            what = f"reads a tile from byte {offset} of {buffer.name}, which is no multiple of {CHUNK_BYTES}"
            raise _error(group, what, lanes.start, offset)
        addresses = tile.chunks(buffer.base + offset)
        outside = (addresses < buffer.base) | (addresses + CHUNK_BYTES > buffer.base + buffer.size_bytes)
        if outside.any():
            far = int(addresses[outside][0]) - buffer.base
            raise _error(
                group, f"reads bytes {far} to {far + CHUNK_BYTES - 1} of {buffer.name}, which has "
                f"{buffer.size_bytes}, by a descriptor with {_fields(tile)}", lanes.start, far,
            )  # fmt: skip
        (shadow, _), chunks = buffer.watched(), addresses.reshape(-1)
        granules = shadow.granules(chunks, CHUNK_BYTES).reshape(1, -1)
        ends = numpy.arange(WARPGROUP).reshape(WARPS, WARP)[:, [0, -1]].reshape(-1, 1)
        threads = WARP * group.first_agent + lanes.start + ends
        race = shadow.read_by(
            numpy.broadcast_to(granules, (len(threads), granules.shape[1])), threads, engine
        )
        if race is not None:
            at = int(granules[0, race.granule]) * shadow.granule_bytes + shadow.first_byte - buffer.base
            what = f"multiplies byte {at} of {buffer.name}: {race.text}"
            raise _error(group, what, lanes.start + int(ends[race.index, 0]), at)
        poison = self.machine.poison.gather(chunks, CHUNK_BYTES).any(axis=1)
        if poison.any():
            at = int(chunks[poison.argmax()]) - buffer.base
            raise _error(
                group, f"multiplies byte {at} of {buffer.name}, which nobody has written", lanes.start, at
            )
        return addresses

    def _finish(self, group: Group, lanes: slice, flight: _Flight) -> None:
        """Read the tiles, write D, and release what the product owned."""
        product, registers = flight.product, group.registers
        tiles = []
        for addresses in flight.addresses:
            data = self.machine.shared.gather(addresses.reshape(-1), CHUNK_BYTES).view(numpy.uint8)
            tiles.append(data.reshape(*addresses.shape, CHUNK_BYTES))
        d = registers.values[lanes, product.d.part] if flight.accumulates else None
        a = None if product.a is None else registers.values[lanes, product.a.part]
        registers.values[lanes, product.d.part] = product.multiply(d, a, tiles)
        registers.written[lanes, product.d.part] = True
        if registers.poison is not None:
            registers.poison[lanes, product.d.part] = 0
        for place in product.held:
            registers.lock(lanes, place.part, -1)


def _warpgroups(group: Group) -> Iterator[tuple[int, slice]]:
    """(number in the block, lanes in the group) of the active warpgroups of a group, whole ones."""
    for warp in numpy.flatnonzero(group.active.warps).tolist():
        if (group.first_warp + warp) % WARPS == 0:
            yield (group.first_warp + warp) // WARPS, slice(WARP * warp, WARP * warp + WARPGROUP)


def _fields(tile: SharedTile) -> str:
    d = tile.descriptor
    return f"LBO {d.lbo_bytes} and SBO {d.sbo_bytes} bytes, mode {d.mode}, {tile.major}-major"


def _check_written(
    group: Group, lanes: slice, place: RegisterPlace | None, flights: Sequence[_Flight]
) -> None:
    """Registers that a product reads have been written, or will be by one of `flights`."""
    if place is None or any(flight.product.d[:2] == place[:2] for flight in flights):
        return
    registers = group.registers
    missing = ~registers.written[lanes, place.part].all(axis=1)
    if missing.any():
        lane = lanes.start + int(missing.argmax())
        raise _error(group, f"multiplies with {place.name}, which nothing has written", lane)
    if registers.poison is not None and registers.poison[lanes, place.part].any():
        raise _error(group, f"multiplies with {place.name}, which holds uninitialised bytes", lanes.start)


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
        what = f"{does} at {mine[other]}, and the first lane of its warpgroup at {mine[0]}"
        raise _error(group, what, lanes.start + other)
    return mine[0]
