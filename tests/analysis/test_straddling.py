"""Accesses that run over the ends of modes: the rewriting names every instruction, and costs what it did."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from layoutalg.analysis import (
    Access,
    GlobalReport,
    Guard,
    Place,
    SharedReport,
    access_extent,
    analyze,
    instruction_offsets,
    sectors,
    wavefronts,
)
from layoutalg.analysis.classes.classes import count_classes
from layoutalg.analysis.classes.straddling import find_straddling
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import accesses
from tests.sweeps import each

SM90 = ARCHS["sm_90"]
F32 = dtype("f32")


@given(accesses(kind="loops", max_size=512))
def test_every_kind_is_an_instruction_of_the_access_and_costs_that(pair: tuple[AnyLayout, Access]) -> None:
    """Named as the access names it, the instruction of every kind costs by the definition what is claimed."""
    layout, access = pair
    rule = SM90.instructions[access.op]
    over = find_straddling(layout, access, rule, SM90)
    if over is None:
        return
    extent = access_extent(layout, access, rule, SM90)
    kinds = [over.renamed(kind) for kind in count_classes(over.table)]
    assert sum(kind.instructions for kind in kinds) == extent.instructions
    for kind in kinds:
        assert kind.place.warp < extent.warps
        assert kind.place.register < extent.registers and kind.place.iteration < extent.iterations
        offsets = instruction_offsets(layout, access, kind.place)
        count = wavefronts if rule.space == "shared" else sectors
        assert count(access.op, offsets) == kind.cost[0]


def test_every_instruction_is_in_one_class() -> None:
    """1536 threads go on twice over rows of 48: costs of the classes are those of all instructions."""
    tile = Layout((48, 100), (101, 1))
    loop = Access("ld.shared.b32", Layout((128, (1, 3), 12), (1, (0, 128), 384)), F32)
    rule = SM90.instructions[loop.op]
    over = find_straddling(tile, loop, rule, SM90)
    assert over is not None and over.as_threads == ((1, 3), (2, 12))
    found: Counter[int] = Counter()
    for kind in count_classes(over.table):
        found[kind.cost[0]] += kind.instructions
    places = [Place(w, r, i) for w in range(4) for r in range(3) for i in range(12)]
    defined = Counter(wavefronts(loop.op, instruction_offsets(tile, loop, place)) for place in places)
    assert found == defined


@each(
    ("layout", "tv"),
    [
        (Layout((48, 100), (101, 1)), ((256, 1, 18), (1, 0, 256))),
        (Layout((48, 100), (101, 1)), ((256, 1, 5), (1, 0, 256))),
        (Layout((100, 60), (61, 1)), ((200, 1), (1, 0))),
        (Layout((100, 60), (1, 104)), ((32, (1, 7), 11), (1, (0, 32), 224))),
        (Layout((3, 640), (1, 3)), ((64, 3, 5), (1, 64, 192))),
        (ComposedLayout(Swizzle(3, 2, 3), 0, Layout((60, 34), (34, 1))), ((96, 1, 21), (1, 0, 96))),
        (Layout((7, 9, 11), (1, 7, 64)), ((32, 1, 21), (1, 0, 32))),
        (Layout((6, 50), (50, 1)), ((1, 1, 70), (0, 0, 1))),
    ],
)
@each("op", ["ld.shared.b32", "ld.global.b32"])
@each("guard", [None, Guard((40,)), Guard(lanes=range(0, 32, 3))])
def test_loops_over_ragged_tiles(
    layout: AnyLayout, tv: tuple[tuple[int, ...], tuple[int, ...]], op: str, guard: Guard | None
) -> None:
    access = Access(op, Layout(*tv), F32, active=guard)
    report, defined = analyze(layout, access), analyze(layout, access, method="enumerated")
    assert report.method != "enumerated" and report.instructions == defined.instructions
    if isinstance(report, SharedReport) and isinstance(defined, SharedReport):
        assert (report.total, report.worst, report.ideal_total) == (
            defined.total, defined.worst, defined.ideal_total)  # fmt: skip
        assert report.witness is not None and defined.witness is not None
        assert report.witness.ways == defined.witness.ways
    if isinstance(report, GlobalReport) and isinstance(defined, GlobalReport):
        assert (report.sectors, report.worst_alignment, report.useful_bytes) == (
            defined.sectors, defined.worst_alignment, defined.useful_bytes)  # fmt: skip


def test_size_does_not_matter() -> None:
    """2^40 elements in rows of 1000, by 256 threads that go on: 18 million million instructions."""
    rows = (1 << 40) // 1000
    tile = Layout((1000, rows), (1, 1024))
    loop = Access("ld.global.b32", Layout((256, 1, 1000 * rows // 256), (1, 0, 256)), F32)
    report = analyze(tile, loop)
    assert report.method == "digit-classes" and report.instructions == 8 * (1000 * rows // 256)


@pytest.mark.parametrize(
    ("tv", "active"),
    [
        (((20, 1, 4), (1, 0, 20)), None),  # warps of 20 lanes end in the middle of what goes on
        (((64, 1, 7), (3, 0, 5)), None),  # steps that no mode is a multiple of
        (((64, 1, 20), (1, 0, 64)), Guard(threads=50)),  # threads that go on are no longer numbered alike
        (((64, 1, 20), (1, 0, 64)), lambda t, v, i: t < 9),
    ],
)
def test_what_is_left_to_the_definition(tv: tuple[tuple[int, ...], tuple[int, ...]], active: object) -> None:
    access = Access("ld.shared.b32", Layout(*tv), F32, active=active)  # type: ignore[arg-type]
    assert find_straddling(Layout((48, 100), (101, 1)), access, SM90.instructions[access.op], SM90) is None
    assert analyze(Layout((48, 100), (101, 1)), access).method == "enumerated"
