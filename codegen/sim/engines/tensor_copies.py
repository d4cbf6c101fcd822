"""TMA: boxes of tensors that an engine copies to and from shared memory.

The idea.  A tensor map, with the numbers of a launch, says which elements a box has (see arch.TensorMap).
Its rows are written one pitch apart, in chunks of 16 bytes, whose addresses the swizzle mode permutes: the
XOR takes the absolute address.  Elements outside the tensor are zeros on the way in.  On the way out rows,
planes and so on outside of it are left out; but a row is written in whole chunks, up to the multiple of 16
bytes behind its last element, whatever lies there.

    load     the bytes are PENDING from here on; they are read, and land, when their barrier's phase completes
    store    the bytes are read at the wait for the bulk group (.read), and written at the other wait, or when
             the block ends

So what is written over a box too early shows as wrong data, and as a race in any schedule.

Sources: PTX ISA 9.0, 5.5 (tensors, tiled mode, swizzling modes), 9.7.9.27.1.2 (cp.async.bulk.tensor); what is
written: MEASURED on an H200, tests/data/h200_tma_writes.jsonl, and for stores test_tma_store_ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy

from layoutalg.arch import CHUNK_BYTES, MULTICAST_LEAST, MULTICAST_ZEROS, TensorMap
from layoutalg.budget import spend
from layoutalg.codegen.instr import decode, encode
from layoutalg.codegen.sim.engines.knowledge import AgentClocks
from layoutalg.codegen.sim.engines.mbarriers import BarrierPlace, Flight
from layoutalg.codegen.sim.hazards import WARP_BITS, Array, GridShadow, Race, Shadow
from layoutalg.codegen.sim.machine import Buffer, CopyQueue, Group, Machine, Memory, as_bits
from layoutalg.errors import UnsupportedError

SECTOR_BYTES = 32
"""The bytes in which global memory is read and written."""

LINE_SECTORS = 4
"""Sectors of a line of the L2, 128 bytes."""

PLACE_BITS = 44
"""Bits of the number of a sector in a buffer: above them is the part of the box, so that both sort as one."""


class Place(NamedTuple):
    """An operand: where in a buffer each lane means, byte offsets (lanes,) from its start."""

    buffer: Buffer
    offsets: Array


class BoundMap:
    """A tensor map with the numbers of a launch, over the bytes of its source.

    >>> from layoutalg.arch import SWIZZLE_MODES
    >>> from layoutalg.codegen.sim.machine import Memory
    >>> from layoutalg.dtype import dtype
    >>> raw = numpy.arange(256, dtype=numpy.uint8)
    >>> m = TensorMap(dtype("u8"), (64, 4), (64,), (32, 2), (1, 1), mode=SWIZZLE_MODES["32B"])
    >>> bound = BoundMap("m", m, Buffer("x", Memory(raw), 0, 256))
    >>> bound.chunks(128).tolist(), bound.read((48, 3))[0, 16:].tolist() == [0] * 16
    ([[144, 128], [176, 160]], True)
    """

    def __init__(self, name: str, tensor_map: TensorMap, source: Buffer) -> None:
        self.name, self.map, self.source = name, tensor_map, source
        self.element_bytes = tensor_map.element.nbytes
        steps = (1, *tensor_map.element_strides[1:])
        self.counts = tuple(-(-n // step) for n, step in zip(tensor_map.box, steps, strict=True))
        self.steps = steps
        self._rows: Array = numpy.zeros((0, 1), dtype=numpy.int64)  # of a tensor of one dimension
        if len(steps) > 1:
            rows = numpy.indices(self.counts[:0:-1]).reshape(len(steps) - 1, -1)[::-1]
            self._rows = rows * numpy.array(steps[1:])[:, None]
        self.row_bytes = self.counts[0] * self.element_bytes
        mode = tensor_map.mode
        self.pitch = max(self.row_bytes, mode.row_bytes if mode.swizzle.bits else 0)
        self.box_bytes = self.row_bytes * self._rows.shape[1]
        self.span_bytes = self.pitch * self._rows.shape[1]

    def chunks(self, start: int) -> Array:
        """The shared addresses of the chunks of a box that starts at one, (rows, chunks per row)."""
        rows = start + self.pitch * numpy.arange(self._rows.shape[1])[:, None]
        at = rows + numpy.arange(0, self.row_bytes, CHUNK_BYTES)[None, :]
        swizzle = self.map.mode.swizzle
        mask = ((1 << swizzle.bits) - 1) << (swizzle.base + swizzle.shift)
        addresses: Array = at ^ ((at & mask) >> swizzle.shift)
        return addresses

    def elements(self, crd: Sequence[int], *, stored: bool = False) -> tuple[Array, Array]:
        """Byte offsets in the source of a box's elements, (rows, elements per row), and which exist; or, of a
        box that is stored, which are written."""
        dims, strides = self.map.dims, (self.element_bytes, *self.map.strides_bytes)
        inner = crd[0] + numpy.arange(self.counts[0])
        end = -(-dims[0] * self.element_bytes // CHUNK_BYTES) * CHUNK_BYTES // self.element_bytes
        exists = ((inner >= 0) & (inner < (end if stored else dims[0])))[None, :]
        at = inner[None, :] * strides[0]
        for start, rows, n, stride in zip(crd[1:], self._rows, dims[1:], strides[1:], strict=True):
            index = start + rows
            exists = exists & ((index >= 0) & (index < n))[:, None]
            at = at + (index * stride)[:, None]
        return at, numpy.broadcast_to(exists, at.shape)

    def sector_bytes(self, crd: Sequence[int], *, stored: bool = False, shared: bool = False) -> int:
        """Bytes that a copy of a box moves over the interconnect: of each row the sectors that it touches,
        and on the way in whole sectors of zeros for what is out of bounds; of one that several blocks get,
        `shared`, what each of them gets: see MULTICAST_LEAST.

        Source: measured on an H200, tests/gpu/async_counters and tests/gpu/multicast_counters.
        """
        at, exists = self.elements(crd, stored=stored)
        size = self.element_bytes
        first, last = (x // SECTOR_BYTES for x in (at, at + size - 1))
        begins = numpy.ones_like(exists)  # elements of a row that are not of the sector of the one before
        begins[:, 1:] = (first[:, 1:] != last[:, :-1]) | ~exists[:, :-1]
        sectors = int(((begins + (last - first)) * exists).sum())
        missing = (~exists).sum(axis=1) * size
        zeros = 0 if stored else -(-missing // SECTOR_BYTES)
        if shared:  # line by line of each 128 bytes of a row
            chunks = numpy.arange(at.shape[1]) * size // (LINE_SECTORS * SECTOR_BYTES)
            parts = numpy.arange(len(at))[:, None] * (int(chunks[-1]) + 1) + chunks
            touched = numpy.unique(((parts << PLACE_BITS) + first)[exists])
            counts = numpy.unique(touched // LINE_SECTORS, return_counts=True)[1]
            sectors = int(numpy.maximum(counts, MULTICAST_LEAST).sum())
            zeros = numpy.where(missing > 0, numpy.maximum(zeros, MULTICAST_ZEROS), 0)
        return SECTOR_BYTES * (sectors + int(numpy.sum(zeros)))

    def read(self, crd: Sequence[int]) -> Array:
        """The bytes of a box, (rows, bytes per row), zeros out of bounds; tf32 is rounded, as on an H200."""
        at, exists = self.elements(crd)
        if self.map.nan_fill and not exists.all():
            raise UnsupportedError(
                f"{self.name} fills elements out of bounds with NaN; the simulator does not"
            )
        inside = numpy.where(exists, at, 0)
        data = self.source.memory.raw[inside[..., None] + numpy.arange(self.element_bytes)]
        data[~exists] = 0
        rows: Array = data.reshape(len(at), -1)
        if self.map.element.name == "tf32":  # to the nearest, ties to even; NaN stays NaN
            return encode(decode(rows.view(numpy.uint32), "f32"), "tf32").view(numpy.uint8)
        return rows

    def write(self, crd: Sequence[int], rows: Array) -> None:
        """Write a box, its rows in whole chunks."""
        at, exists = self.elements(crd, stored=True)
        values = rows.reshape(*at.shape, self.element_bytes)
        self.source.memory.raw[at[exists][:, None] + numpy.arange(self.element_bytes)] = values[exists]

    def check(self, group: Group, crd: Sequence[int], i: int, does: str) -> Array:
        """Byte offsets of the elements that are loaded or stored; raises where they leave the array."""
        at, exists = self.elements(crd, stored=does == "stores")
        offsets: Array = at[exists]
        if len(offsets) and int(offsets.max()) + self.element_bytes > self.source.size_bytes:
            raise group.fail(
                f"{does} byte {int(offsets.max())} of {self.source.name} through {self.name}, which has "
                f"{self.source.size_bytes}", i, int(offsets.max()),
            )  # fmt: skip
        return offsets


def _distinct(granules: Array) -> Array:
    """The numbers of granules, each once and in order: marked rather than sorted where they lie together."""
    low = int(granules.min())
    span = int(granules.max()) - low + 1
    if span > 8 * granules.size:
        return numpy.unique(granules)
    touched = numpy.zeros(span, dtype=bool)
    touched[granules.reshape(-1) - low] = True
    return numpy.flatnonzero(touched) + low


class TensorCopies:
    """The TMA engine of one block.

    `moved` counts bytes of whole boxes, `sectors` those of the sectors that came and went.
    """

    def __init__(self, machine: Machine, clocks: AgentClocks, bulk_engine: int) -> None:
        self.machine, self.clocks, self.bulk_engine = machine, clocks, bulk_engine
        self.moved, self.sectors = {"load": 0, "store": 0}, {"load": 0, "store": 0}
        self._groups: dict[Group, tuple[CopyQueue, CopyQueue]] = {}  # to be read, to be written

    def start(self) -> None:
        """A new block begins."""
        self._groups.clear()

    # --- loads -----------------------------------------------------------------------------------------

    def load(
        self, group: Group, place: Place, tensor: BoundMap, bar: BarrierPlace, *crd: Array, multicast: bool
    ) -> None:
        """Every active lane starts a load into its own block, or, `multicast`, into those whose bits are set
        in the word in front of the coordinates."""
        blocks, crd = (crd[0], crd[1:]) if multicast else (None, crd)
        stages = numpy.broadcast_to(numpy.asarray(bar.stage), group.lanes)
        self._check_one(group, place)
        for i, lane in enumerate(numpy.flatnonzero(group.active.mask).tolist()):
            start, where = self._start(group, place, tensor, lane, i), _coordinate(crd, lane)
            elements = tensor.check(group, where, i, "loads")
            thread = group.active.threads[i : i + 1]
            self._note_global(group, tensor, elements, thread, i)
            ranks = [self.machine.rank]
            if blocks is not None:
                mask = int(blocks[lane, 0])
                ranks = [r for r in range(mask.bit_length()) if mask >> r & 1]
                if not ranks:
                    raise group.fail("multicasts to no block", i)
            rows = partial(tensor.read, where)
            for rank in ranks:
                self._load_into(
                    group, rank, place, tensor, bar.name, int(stages[lane]), start, rows, thread, i
                )
            self.moved["load"] += tensor.box_bytes
            counted = tensor.sector_bytes(where, shared=blocks is not None)
            self.sectors["load"] += counted * len(ranks)

    def _load_into(
        self, group: Group, rank: int, place: Place, tensor: BoundMap, bar: str, stage: int, start: int,
        rows: Any, thread: Array, i: int,
    ) -> None:  # fmt: skip
        if rank != self.machine.rank:
            self.machine.cluster.reach(group, rank, by_engine=True)
        barriers = self.machine.mbarriers.peers[rank]
        phases, target = barriers.of[bar][stage], barriers.machine.buffers[place.buffer.name]
        barriers.usable(group, phases, i, by_engine=True)
        box = _Box(target, tensor.chunks(start).reshape(-1))
        race = box.shadow.start(box.granules, thread, phases.engine)
        _refuse(group, target, box.shadow, box.granules, "loads a box into", race, i)
        what = f"by {group.statement()}"

        def land() -> None:
            box.fill(rows())
            box.shadow.finish(box.granules, phases.engine)

        barriers.bring(group, phases, Flight(tensor.box_bytes, land, what), i)

    def _note_global(self, group: Group, tensor: BoundMap, elements: Array, thread: Array, i: int) -> None:
        watched = tensor.source.shadow
        if isinstance(watched, GridShadow) and len(elements):
            granules = _distinct(watched.granules(elements, tensor.element_bytes))[None, :]
            race = watched.read_for(granules, thread)
            _refuse(group, tensor.source, watched, granules, "loads", race, i)

    # --- stores ----------------------------------------------------------------------------------------

    def store(self, group: Group, tensor: BoundMap, place: Place, *crd: Array) -> None:
        """Every active lane starts a store; it belongs to the lane's next bulk group."""
        self._check_one(group, place)
        for i, lane in enumerate(numpy.flatnonzero(group.active.mask).tolist()):
            self._store(group, place, tensor, lane, i, _coordinate(crd, lane))

    def _store(
        self, group: Group, place: Place, tensor: BoundMap, lane: int, i: int, crd: tuple[int, ...]
    ) -> None:
        start, elements = self._start(group, place, tensor, lane, i), tensor.check(group, crd, i, "stores")
        thread, warp = group.active.threads[i : i + 1], int(group.active.threads[i, 0]) >> WARP_BITS
        engine = self.bulk_engine + warp - self.machine.agents.start
        box = _Box(place.buffer, tensor.chunks(start).reshape(-1))
        race = box.shadow.read_by(box.granules, thread, engine)
        _refuse(group, place.buffer, box.shadow, box.granules, "stores a box of", race, i)
        if box.rows(box.poison).any():
            raise group.fail(f"stores bytes of {place.buffer.name} that nobody has written", i, start)
        writes, watched = engine + self.machine.warps, tensor.source.shadow
        if isinstance(watched, GridShadow) and len(elements):
            spots = _distinct(watched.granules(elements, tensor.element_bytes))[None, :]
            race = watched.write_by(spots, thread, writes)
            _refuse(group, tensor.source, watched, spots, "stores", race, i)
        done, written = self.clocks.engine_done(engine), self.clocks.engine_done(writes)
        lanes = as_bits(numpy.arange(32) == lane % 32)
        held: list[Array] = []

        def read(which: Array) -> None:
            held.append(box.rows(place.buffer.memory))
            self.clocks.acquire(warp, lanes, done)

        def write(which: Array) -> None:
            tensor.write(crd, held[0].reshape(-1, tensor.row_bytes))
            self.clocks.acquire(warp, lanes, written)

        mine = numpy.arange(group.lanes) == lane
        reading, writing = self._queues(group)
        reading.start(mine, read)
        writing.start(mine, write)
        self.moved["store"] += tensor.box_bytes
        self.sectors["store"] += tensor.sector_bytes(crd, stored=True)

    def commit(self, group: Group) -> None:
        """Close the bulk groups of the active lanes."""
        for queue in self._queues(group):
            queue.commit(group.active.mask)

    def wait(self, group: Group, newest: int, *, written: bool) -> None:
        """Until at most the `newest` bulk groups of the active lanes have yet to read, or to be `written`."""
        reading, writing = self._queues(group)
        reading.wait(group.active.mask, newest)
        if written:
            writing.wait(group.active.mask, newest)

    def finish(self, groups: Sequence[Group]) -> None:
        """The block ends: what is read is written.  Raises SimulationError for what is not read."""
        for group, (reading, writing) in self._groups.items():
            if group not in groups:
                continue
            lane = reading.never_committed()
            group.statement = lambda: "the end of the kernel"
            if lane is not None:
                raise group.fail("has started a TMA store that it never commits", lane)
            if (lane := reading.first_unfinished()) is not None:
                raise group.fail(
                    "exits while its TMA store still reads shared memory: a bulk_wait_read is needed", lane
                )
            writing.wait(numpy.ones(group.lanes, dtype=bool), 0)

    def _queues(self, group: Group) -> tuple[CopyQueue, CopyQueue]:
        if group not in self._groups:
            self._groups[group] = CopyQueue(group.lanes), CopyQueue(group.lanes)
        return self._groups[group]

    def _check_one(self, group: Group, place: Place) -> None:
        starts = place.offsets[group.active.index]
        if len(starts) > 1 and len(numpy.unique(starts)) == 1:
            raise group.fail(
                f"is one of {len(starts)} lanes that copy one box of {place.buffer.name}; one does"
            )

    def _start(self, group: Group, place: Place, tensor: BoundMap, lane: int, i: int) -> int:
        """The address of a box in shared memory, inside of its buffer and aligned."""
        start, buffer = int(place.offsets[lane]), place.buffer
        spend(tensor.span_bytes // CHUNK_BYTES)
        if start + tensor.span_bytes > buffer.size_bytes:
            raise group.fail(
                f"copies {tensor.span_bytes} bytes at byte {start} of {buffer.name}, which has "
                f"{buffer.size_bytes}",
                i, start,
            )  # fmt: skip
        if (start + buffer.base) % 128:
            raise group.fail(f"copies a box at byte {start} of {buffer.name}: no multiple of 128", i, start)
        return start + buffer.base


def _coordinate(crd: Sequence[Array], lane: int) -> tuple[int, ...]:
    """Signed coordinates of a lane."""
    return tuple(int(c[lane, 0].astype(numpy.int32)) for c in crd)


class _Box:
    """Chunks of shared memory, by their addresses; `granules` of its shadow, (1, n)."""

    def __init__(self, buffer: Buffer, chunks: Array) -> None:
        self.memory, self._places = buffer.memory, chunks // CHUNK_BYTES
        self.shadow, self.poison = buffer.watched()
        self.granules: Array = self.shadow.granules(chunks, CHUNK_BYTES).reshape(1, -1)

    def rows(self, memory: Memory) -> Array:
        """The bytes of the chunks in a memory, (chunks, 16)."""
        chunks: Array = memory.raw.reshape(-1, CHUNK_BYTES)[self._places]
        return chunks

    def fill(self, rows: Array) -> None:
        """Write the chunks."""
        self.memory.raw.reshape(-1, CHUNK_BYTES)[self._places] = rows.reshape(-1, CHUNK_BYTES)
        self.poison.raw.reshape(-1, CHUNK_BYTES)[self._places] = 0


def _refuse(
    group: Group, buffer: Buffer, shadow: Shadow, granules: Array, does: str, race: Race | None, i: int
) -> None:
    if race is not None:
        at = int(granules[0, race.granule]) * shadow.granule_bytes + shadow.first_byte - buffer.base
        raise group.fail(f"{does} byte {at} of {buffer.name}: {race.text}", i, at)
