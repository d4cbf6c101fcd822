"""The trace of a simulated kernel, against the analysis and against addresses worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from layoutalg.analysis import sectors, wavefronts
from layoutalg.codegen.sim import MemTrace, Simulation, simulate
from layoutalg.codegen.sim.memtrace import Site
from layoutalg.errors import UnknownNameError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from tests.sweeps import each
from tests.tiles.simt import WAYS, copy_through_shared, floats, transpose_tile

TILES: dict[str, tuple[AnyLayout, int, int, int]] = {
    "plain f32": (Layout((32, 32), (32, 1)), 1024, 4, 32),
    "padded f32": (Layout((32, 32), (33, 1)), 33 * 32, 4, 1),
    "swizzled f32": (ComposedLayout(Swizzle(5, 0, 5), 0, Layout((32, 32), (32, 1))), 1024, 4, 1),
    "half swizzled f32": (ComposedLayout(Swizzle(3, 0, 5), 0, Layout((32, 32), (32, 1))), 1024, 4, 4),
    "plain f16": (Layout((32, 32), (32, 1)), 1024, 2, 16),
    "padded f16": (Layout((32, 32), (34, 1)), 34 * 32, 2, 1),
    "plain f64": (Layout((32, 32), (32, 1)), 1024, 8, 32),
    "padded u8": (Layout((32, 32), (36, 1)), 36 * 32, 1, 1),
}
"""Layout, size in elements, element bytes, and the wavefronts of a column read."""


def _run(tile: str, way: dict[str, Any]) -> Simulation:
    layout, size_elems, element_bytes, _ = TILES[tile]
    x = numpy.arange(32 * 32 * element_bytes, dtype=numpy.uint8).reshape(32, 32, element_bytes)
    y = numpy.zeros_like(x)
    run = simulate(transpose_tile(layout, size_elems, element_bytes), {"x": x, "y": y}, **way)
    assert (y == x.transpose(1, 0, 2)).all()
    return run


@each("way", WAYS[:2], ids=str)
@each("tile", TILES)
def test_a_transpose_costs_what_its_layout_costs(tile: str, way: dict[str, Any]) -> None:
    layout, _, element_bytes, column = TILES[tile]
    trace, bits = _run(tile, way).trace, 8 * element_bytes
    written = [[element_bytes * layout(i, lane) for lane in range(32)] for i in range(32)]
    read = [[element_bytes * layout(lane, j) for lane in range(32)] for j in range(32)]
    for op, offsets in ((f"st.shared.b{bits}", written), (f"ld.shared.b{bits}", read)):
        instructions, total, _ = trace.total(op)
        assert instructions == 32
        assert total == sum(wavefronts(op, row) for row in offsets)
    assert trace.total(f"ld.shared.b{bits}")[1] == 32 * column
    rows = [[element_bytes * (32 * i + lane) for lane in range(32)] for i in range(32)]
    for op in (f"ld.global.b{bits}", f"st.global.b{bits}"):
        assert trace.total(op)[:2] == (32, sum(sectors(op, row) for row in rows))


def test_totals_say_what_is_conflict_free() -> None:
    totals = _run("plain f32", {}).trace.totals()
    assert [(t.site.op, t.conflict_free, t.worst) for t in totals if "shared" in t.site.op] == [
        ("st.shared.b32", True, 1), ("ld.shared.b32", False, 32),
    ]  # fmt: skip
    assert all(t.conflict_free for t in totals if "global" in t.site.op)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_instruction_has_block_warp_addresses_and_mask(way: dict[str, Any]) -> None:
    y = numpy.zeros(48, dtype=numpy.float32)
    trace = simulate(copy_through_shared(48, mirror=15), {"x": floats(48), "y": y}, **way).trace
    assert y.tolist() == [t ^ 15 for t in range(48)]
    ran, order = trace.instructions(3), numpy.argsort(trace.instructions(3).warp)
    assert ran.warp[order].tolist() == [0, 1] and ran.block.tolist() == [0, 0]
    assert ran.active[order].sum(axis=1).tolist() == [32, 16]
    assert ran.addresses[order][ran.active[order]].tolist() == [256 + 4 * t for t in range(48)]
    assert not ran.addresses[~ran.active].any()
    assert [(s.statement, s.op, s.space, s.buffer, s.base_bytes) for s in trace.sites] == [
        (0, "ld.global.b32", "global", "x", 0), (1, "st.shared.b32", "shared", "tile", 0),
        (3, "ld.shared.b32", "shared", "tile", 0), (4, "st.global.b32", "global", "y", 256),
    ]  # fmt: skip
    assert trace.sites[1].text == "sts32(tile[tid * 4], v)"


SITE = Site(0, "lds32(v, tile[0])", "ld.shared.b32", "shared", "tile", 64)


def test_a_warp_without_active_lanes_leaves_no_record() -> None:
    trace, mask = MemTrace((SITE,)), numpy.zeros(96, dtype=bool)
    mask[40:50] = True
    trace.record(0, block=7, first_warp=4, offsets=numpy.arange(96) * 4, mask=mask)
    trace.record(0, block=8, first_warp=4, offsets=12, mask=mask)
    ran = trace.instructions(SITE)
    assert ran.block.tolist() == [7, 8] and ran.warp.tolist() == [5, 5]
    assert ran.addresses[0, 8:18].tolist() == [64 + 4 * n for n in range(40, 50)]
    assert set(ran.addresses[1, 8:18].tolist()) == {76}
    assert trace.total("ld.shared.b32") == (2, 2, 2)


def test_the_ideal_of_part_of_a_sector_is_a_sector() -> None:
    trace, mask = MemTrace((Site(0, "load", "ld.global.b32", "global", "x", 0),)), numpy.arange(32) < 9
    trace.record(0, block=0, first_warp=0, offsets=numpy.arange(32) * 4 + 28, mask=mask)
    trace.record(0, block=0, first_warp=0, offsets=0, mask=mask)
    (total,) = trace.totals()
    assert (total.total, total.ideal_total, total.worst) == (2 + 1, 2 + 1, 2)
    trace.record(0, block=0, first_warp=0, offsets=numpy.arange(32) * 32, mask=mask)
    assert trace.total("ld.global.b32") == (3, 2 + 1 + 9, 2 + 1 + 2)


def test_nothing_executed_costs_nothing_and_an_unknown_operation_is_refused() -> None:
    trace = MemTrace((SITE,))
    assert trace.totals() == () and trace.total("ld.shared.b32") == (0, 0, 0)
    assert trace.instructions(0).addresses.shape == (0, 32)
    trace = MemTrace((Site(0, "odd", "ld.shared.b24", "shared", "tile", 0),))
    trace.record(0, block=0, first_warp=0, offsets=0, mask=numpy.ones(32, dtype=bool))
    with pytest.raises(UnknownNameError, match=r"ld\.shared\.b24"):
        trace.totals()


def test_long_traces_are_counted_in_parts() -> None:
    trace, mask = MemTrace((SITE,)), numpy.ones(32, dtype=bool)
    for n in range(5000):
        trace.record(0, block=n, first_warp=0, offsets=numpy.arange(32) * (4 if n else 128), mask=mask)
    (total,) = trace.totals()
    assert (total.instructions, total.total, total.ideal_total, total.worst) == (5000, 5031, 5000, 32)
