"""Memory, registers and lanes: what the machine does to state, apart from any program."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.sim.hazards import Array
from layoutalg.codegen.sim.machine import Buffer, Group, Lanes, Machine, Memory, Registers
from layoutalg.errors import SimulationError, UnsupportedError

WIDTHS = st.sampled_from((1, 2, 4, 8, 16))
ALL = numpy.ones(32, dtype=bool)
LANE = numpy.arange(32)


def _group(words: int = 8, mask: Array = ALL) -> Group:
    return Group(0, Lanes.of(mask, 0), words, [])


def _words(raw: bytes) -> list[int]:
    """Little-endian 32-bit words, a short value zero-extended."""
    padded = raw.ljust(4, b"\0")
    return [int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4)]


@given(WIDTHS, st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(80, 95))
def test_memory_is_bytes(width: int, places: list[int], size: int) -> None:
    raw = numpy.random.default_rng(0).integers(0, 256, size, dtype=numpy.uint8)
    got = Memory(raw).gather(numpy.array(places) * width, width)
    assert got.dtype == numpy.uint32
    assert got.tolist() == [_words(raw[p * width : (p + 1) * width].tobytes()) for p in places]


@given(WIDTHS, st.permutations(range(5)))
def test_what_is_scattered_is_gathered(width: int, order: list[int]) -> None:
    memory, offsets = Memory(numpy.zeros(80, dtype=numpy.uint8)), numpy.array(order) * width
    values = numpy.random.default_rng(1).integers(0, 1 << 32, (5, max(1, width // 4)), dtype=numpy.uint32)
    memory.scatter(offsets, values, width)
    kept = values & (0xFFFFFFFF >> max(0, 32 - 8 * width))
    assert (memory.gather(offsets, width) == kept).all()
    assert not memory.raw[5 * width :].any()


@given(st.lists(st.booleans(), min_size=64, max_size=64))
def test_lanes_pick_and_spread(mask: list[bool]) -> None:
    lanes = Lanes.of(numpy.array(mask), 32)
    active = [n for n, on in enumerate(mask) if on]
    assert lanes.threads[:, 0].tolist() == [32 + n for n in active]
    assert lanes.warps.tolist() == [any(mask[:32]), any(mask[32:])]
    values = numpy.arange(64, dtype=numpy.uint32)[:, None] + 1
    spread = lanes.spread(values[lanes.index])
    assert spread[:, 0].tolist() == [n + 1 if on else 0 for n, on in enumerate(mask)]


def test_registers_know_what_was_written_and_poison_lives_in_single_words_of_single_lanes() -> None:
    registers, half, every = Registers(32, 4), Lanes.of(LANE < 16, 0), Lanes.of(ALL, 0)
    value = numpy.arange(64, dtype=numpy.uint32).reshape(32, 2)
    registers.write(1, half, value, None)
    written = [registers.unwritten(*asked) for asked in ((1, 2, half), (1, 2, every), (0, 2, half))]
    assert written == [None, 16, 0]
    registers.write(1, every, value + numpy.uint32(1), None)
    assert registers.unwritten(1, 2, every) is None
    assert (registers.read(1, 2, every)[0] == value + 1).all()
    poison = numpy.zeros((32, 1), dtype=numpy.uint32)
    poison[3] = 0xFF00
    registers.write(1, every, value[:, :1], poison)
    seen = registers.read(1, 1, every)[1]
    assert seen is not None and seen[:, 0].tolist() == [0xFF00 if n == 3 else 0 for n in range(32)]
    assert registers.read(2, 1, every)[1] is None
    assert registers.read(1, 1, Lanes.of(LANE != 3, 0))[1] is None, "the poisoned lane is not active"
    registers.write(1, Lanes.of(LANE == 3, 0), value[:, :1], None)
    assert registers.read(1, 1, every)[1] is None
    registers.clear()
    assert registers.unwritten(1, 2, half) == 0


def _tile(machine: Machine, granule: int = 1) -> Buffer:
    return machine.shared_buffer("tile", 0, 128, machine.watch_shared(0, 128, granule))


def test_poison_of_shared_memory_is_a_matter_of_bytes() -> None:
    machine, group = Machine(1, 128), _group()
    tile = _tile(machine)
    one = numpy.ones((32, 1), dtype=numpy.uint32)
    machine.store(group, tile, LANE * 4 + 1, 1, one, None)
    values, poison = machine.load(group, tile, LANE * 4, 4)
    assert poison is not None and (poison == 0xFFFF00FF).all()
    assert ((values & ~poison) == 0x0100).all()
    machine.store(group, tile, LANE * 4, 4, values, poison)
    assert (machine.poison.gather(LANE * 4, 4) == 0xFFFF00FF).all(), "a store carries poison along"
    machine.store(group, tile, LANE * 4 + 2, 2, one, None)
    again = machine.load(group, tile, LANE * 4, 4)[1]
    assert again is not None and (again == 0xFF).all()
    assert machine.load(group, tile, LANE * 4 + 2, 2)[1] is None


def test_a_narrow_store_ignores_poison_above_it() -> None:
    machine, group = Machine(1, 128), _group()
    out = Buffer("out", Memory(numpy.zeros(32, dtype=numpy.uint8)), 0, 32)
    value = numpy.full((32, 1), 0x1234, dtype=numpy.uint32)
    machine.store(group, out, LANE, 1, value, numpy.full((32, 1), 0xFF00, dtype=numpy.uint32))
    assert (out.memory.raw == 0x34).all()
    with pytest.raises(SimulationError, match="stores uninitialised shared memory to out"):
        machine.store(group, out, LANE, 1, value, numpy.full((32, 1), 0x80, dtype=numpy.uint32))


def test_a_place_that_is_kept_is_checked_for_each_set_of_lanes() -> None:
    machine, group = Machine(1, 128), _group()
    source, offsets = Buffer("source", Memory(numpy.arange(64, dtype=numpy.uint8)), 0, 64), LANE * 4
    every, group.active = group.active, Lanes.of(LANE < 16, 0)
    for _ in range(2):
        values, _ = machine.load(group, source, offsets, 4, 0)
        assert (values[:16, 0] == source.memory.raw.view(numpy.uint32)).all() and not values[16:].any()
    group.active = every
    for _ in range(2):
        with pytest.raises(SimulationError, match="reads bytes 64 to 67 of source, which has 64") as error:
            machine.load(group, source, offsets, 4, 0)
        assert error.value.lane == 16
    assert (machine.load(group, source, 4, 4, 0)[0] == 0x07060504).all()
    assert (machine.load(group, source, 8, 4, 0)[0] == 0x0B0A0908).all()


def test_a_copy_brings_what_it_was_given_and_each_lane_waits_for_itself() -> None:
    machine, group = Machine(1, 128), _group()
    tile, value = _tile(machine, 4), numpy.full((32, 1), 7, dtype=numpy.uint32)
    machine.start_copy(group, tile, LANE * 4, 4, value)
    value[:] = 9
    machine.commit_copies(group)
    lower = group.narrowed(LANE < 16)
    assert lower is not None
    group.active = lower
    machine.wait_copies(group, 0)
    assert (machine.load(group, tile, LANE * 4, 4)[0][:16] == 7).all()
    group.active = group.exists
    with pytest.raises(SimulationError, match=r"thread 16 .* thread 16 has started a copy into it"):
        machine.load(group, tile, LANE * 4, 4)
    out = Buffer("out", Memory(numpy.zeros(128, dtype=numpy.uint8)), 0, 128)
    with pytest.raises(UnsupportedError, match="asynchronous copies write shared memory; out is global"):
        machine.start_copy(group, out, LANE * 4, 4, value)


@pytest.mark.parametrize("offset", [0, 64])
def test_an_offset_counts_from_the_start_of_its_buffer(offset: int) -> None:
    machine, group = Machine(1, 256), _group()
    part = machine.shared_buffer("part", offset, 128, machine.watch_shared(offset, 128, 4))
    machine.store(group, part, LANE * 4, 4, LANE[:, None].astype(numpy.uint32), None)
    assert machine.shared.rows(4)[offset // 4 : offset // 4 + 32, 0].tolist() == LANE.tolist()
    with pytest.raises(SimulationError, match=r"thread 31 .* writes bytes 128 to 131 of part, which has 128"):
        machine.store(group, part, LANE * 4 + 4, 4, numpy.zeros((32, 1), dtype=numpy.uint32), None)


def test_an_error_speaks_of_the_thread_in_its_block() -> None:
    group: Any = Group(2, Lanes.of(LANE > 4, 64), 0, [])
    group.start("(1, 0, 0)")
    group.statement = lambda: "'x'"
    error = group.fail("fails", 1, 16)
    assert str(error) == "thread 70 (warp 2, lane 6) of block (1, 0, 0) fails, at 'x'"
    assert (error.lane, error.address, error.statement) == (6, 16, "'x'")
