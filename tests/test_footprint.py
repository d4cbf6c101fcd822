"""Footprints: the strides say what the definition says, and alignment is decided as it decides."""

from __future__ import annotations

import pytest
from hypothesis import given

from layoutalg.analysis.access import Access
from layoutalg.analysis.enumerated import access_extent, count_all, instruction_offsets
from layoutalg.analysis.footprint import Footprint, find_footprint
from layoutalg.analysis.report import Place
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ShapeError
from layoutalg.layout import Layout
from layoutalg.strategies import accesses
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle

SM90 = ARCHS["sm_90"]
F32 = dtype("f32")


def of(layout: AnyLayout, access: Access) -> Footprint | None:
    return find_footprint(layout, access, SM90.instructions[access.op], SM90)


@given(accesses(max_size=128))
def test_lane_offsets_are_the_definition(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    if access.active is not None:
        return
    found = of(layout, access)
    assert found is not None
    extent = access_extent(layout, access, found.rule, SM90)
    last = Place(extent.warps - 1, extent.registers - 1, extent.iterations - 1)
    for place in (Place(0, 0, 0), last):
        assert found.lane_offsets(place) == instruction_offsets(layout, access, place)


@pytest.mark.parametrize(
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


def test_a_swizzle_that_may_split_vectors_has_no_footprint() -> None:
    access = Access("ld.shared.b64", Layout((32, 2), (2, 1)), F32)
    assert of(ComposedLayout(Swizzle(1, 0, 5), 0, Layout(64)), access) is None
    assert of(ComposedLayout(Swizzle(1, 1, 5), 1, Layout(64)), access) is None
    assert of(ComposedLayout(Swizzle(1, 1, 5), 2, Layout(64)), access) is not None


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
