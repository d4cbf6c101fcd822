"""Footprints: the strides say what the definition says, and alignment is decided as it decides."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from layoutalg.analysis import (
    Access,
    GlobalReport,
    Place,
    SharedReport,
    access_extent,
    analyze,
    instruction_offsets,
)
from layoutalg.analysis.classes.footprint import AccessStrides, find_footprint
from layoutalg.analysis.enumerated import count_all
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ShapeError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.testing import accesses, swizzles
from tests.sweeps import each

SM90 = ARCHS["sm_90"]
F32 = dtype("f32")


def of(layout: AnyLayout, access: Access) -> AccessStrides | None:
    return find_footprint(layout, access, SM90.instructions[access.op], SM90)


@given(accesses(max_size=128))
def test_lane_offsets_are_the_definition(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    if access.active is not None:
        return
    found = of(layout, access)
    assume(found is not None)  # steps that no mode is a multiple of have no footprint
    assert found is not None
    extent = access_extent(layout, access, found.rule, SM90)
    last = Place(extent.warps - 1, extent.registers - 1, extent.iterations - 1)
    for place in (Place(0, 0, 0), last):
        assert found.lane_offsets(place) == instruction_offsets(layout, access, place)


@each(
    ("layout", "op", "tv", "base"),
    [
        (Layout((2, 32), (32, 1)), "ld.shared.b64", Layout((32, 2), (2, 1)), 0),
        (Layout((6, 8), (1, 8)), "ld.shared.b128", Layout((1, 12), (0, 1)), 0),
        (Layout(64), "ld.shared.b64", Layout((8, 2), (3, 1)), 0),
        (Layout((4, 8), (1, 5)), "ld.shared.b128", Layout((8, 4), (4, 1)), 0),
        (Layout((4, 8)), "ld.shared.b128", Layout((8, 4), (4, 1)), 4),
        (Layout((4, 8, 2), (1, 4, 33)), "ld.shared.b128", Layout((8, 4, 2), (4, 1, 32)), 0),
    ],
)
def test_what_the_definition_refuses(layout: Layout, op: str, tv: Layout, base: int) -> None:
    access = Access(op, tv, F32, base_bytes=base)
    for call in (lambda: of(layout, access), lambda: count_all(layout, access, SM90.instructions[op], SM90)):
        with pytest.raises(AlignmentError):
            call()


def test_a_base_may_make_up_for_an_offset() -> None:
    layout = ComposedLayout(Layout(64), 2, Layout((4, 8), (1, 4)))
    access = Access("ld.shared.b128", Layout((8, 4), (4, 1)), F32, base_bytes=8)
    found = of(layout, access)
    assert found is not None and found.lane_offsets(Place(0, 0, 0))[:3] == [16, 32, 48]


def test_a_swizzle_that_reaches_into_vectors() -> None:
    access = Access("ld.shared.b64", Layout((32, 2), (2, 1)), F32)
    with pytest.raises(AlignmentError, match="value 1 is at offset 3 instead of 1"):
        of(ComposedLayout(Swizzle(1, 0, -1), 0, Layout(64)), access)
    harmless = ComposedLayout(Swizzle(1, 0, 6), 0, Layout(64))
    found = of(harmless, access)
    assert found is not None and found.lane_offsets(Place(0, 0, 0)) == [8 * n for n in range(32)]
    assert of(ComposedLayout(Swizzle(1, 1, 5), 2, Layout(64)), access) is not None


@pytest.mark.parametrize(
    "layout",
    [
        ComposedLayout(Swizzle(1, 0, 5), 0, Layout(64)),
        ComposedLayout(Swizzle(1, 1, 5), 1, Layout(64)),
        ComposedLayout(Swizzle(1, 0, 5), 0, Layout((6, 8), (1, 6))),
    ],
)
def test_a_split_vector_is_an_error_however_it_is_seen(layout: ComposedLayout) -> None:
    """By columns, by alignment, or, where nothing is linear, by enumerating."""
    wide = Access("ld.shared.b64", Layout((size(layout) // 2, 2), (2, 1)), F32)
    with pytest.raises(AlignmentError):
        analyze(layout, wide)


@given(accesses(kind="plain", max_size=64), swizzles(max_bits=2, max_base=3))
def test_low_swizzles_are_decided_as_the_definition_decides(
    pair: tuple[AnyLayout, Access], swizzle: Swizzle
) -> None:
    layout, access = pair
    swizzled = ComposedLayout(swizzle, 0, layout)
    try:
        counted = analyze(swizzled, access, method="enumerated")
    except AlignmentError:
        with pytest.raises(AlignmentError):
            analyze(swizzled, access)
    else:
        report = analyze(swizzled, access)
        assert isinstance(report, type(counted)) and report.instructions == counted.instructions
        if isinstance(report, SharedReport) and isinstance(counted, SharedReport):
            assert (report.total, report.ideal_total) == (counted.total, counted.ideal_total)
        if isinstance(report, GlobalReport) and isinstance(counted, GlobalReport):
            assert (report.sectors, report.worst_alignment) == (counted.sectors, counted.worst_alignment)


def test_strides_that_do_not_compose() -> None:
    carrying = Access("ld.shared.b32", Layout((8, 1), (3, 0)), F32)
    assert of(Layout((4, 8), (8, 1)), carrying) is None


def test_negative_addresses_are_refused() -> None:
    access = Access("ld.shared.b32", Layout((32, 1), (1, 0)), F32)
    with pytest.raises(ShapeError, match="negative byte offset -124"):
        of(Layout(32, -1), access)
    found = of(Layout(32, -1), Access("ld.shared.b32", access.tv, F32, base_bytes=124))
    assert found is not None and found.lane_offsets(Place(0, 0, 0))[-1] == 0


def test_huge_offsets_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"2\^62"):
        of(Layout((32, 2), (1 << 56, 1)), Access("ld.shared.b32", Layout((32, 1), (1, 0)), F32))
