"""The definition itself: one instruction spelled out, the block form that counts all, and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from layoutalg import analysis
from layoutalg.analysis import Access, Place, instruction_offsets
from layoutalg.analysis.enumerated import count_all
from layoutalg.arch import ARCHS
from layoutalg.budget import UNITS
from layoutalg.errors import AlignmentError, ShapeError, UndecidedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import accesses
from tests.sweeps import each

SM90 = ARCHS["sm_90"]


def shared(bits: int, tv: Layout, element: str = "f32", **more: Any) -> Access:
    return Access(f"ld.shared.b{bits}", tv, element, **more)  # type: ignore[arg-type]


def counted(layout: AnyLayout, access: Access) -> Any:
    return count_all(layout, access, SM90.instructions[access.op], SM90)


def cost(layout: AnyLayout, access: Access, place: Place) -> tuple[int, ...]:
    """One instruction through `instruction_offsets` and the definitions on 32 offsets."""
    offsets = instruction_offsets(layout, access, place)
    if SM90.instructions[access.op].space == "shared":
        ways = analysis.worst_clash(access.op, offsets).ways
        return analysis.wavefronts(access.op, offsets), analysis.ideal_wavefronts(access.op, offsets), ways
    return analysis.traffic(access.op, offsets)


@given(accesses(max_size=64))
def test_blocks_count_what_the_definition_counts(pair: tuple[AnyLayout, Access]) -> None:
    """And the place of a kind is an instruction of it."""
    layout, access = pair
    extent = analysis.access_extent(layout, access, SM90.instructions[access.op], SM90)
    warps, registers, iterations = (range(n) for n in (extent.warps, extent.registers, extent.iterations))
    places = [Place(w, r, i) for w in warps for r in registers for i in iterations]
    kinds = counted(layout, access)
    assert {kind.cost: kind.instructions for kind in kinds} == Counter(cost(*pair, at) for at in places)
    assert all(cost(*pair, kind.place) == kind.cost for kind in kinds)


LEAKY = shared(32, Layout((32, 1), (2, 0)), active=lambda t, v, i: t < 17)
SCATTERED = shared(64, Layout((32, 2), (2, 1)))


@each(
    ("layout", "access", "error", "part"),
    [
        (Layout((2, 32), (32, 1)), SCATTERED, AlignmentError, "value 1 is at offset 32 instead of 1"),
        (ComposedLayout(Swizzle(1, 0, 5), 0, Layout(64)), SCATTERED, AlignmentError, "contiguous"),
        (Layout(64), shared(64, Layout((8, 2), (3, 1))), AlignmentError, "lane 1 has 12"),
        (Layout(64), shared(8, Layout((8, 2), (3, 1)), "s4"), AlignmentError, "lane 1"),
        (
            Layout(64),
            shared(128, Layout((8, 4), (4, 1)), base_alignment_bytes=8),
            AlignmentError,
            "base known",
        ),
        (Layout(32), shared(32, Layout((32, 1), (2, 0))), ShapeError, "flat index 62 of 32:1"),
        (Layout(32), LEAKY, ShapeError, "thread 16, value 0, iteration 0"),
        (Layout(64), shared(128, Layout((8, 6), (8, 1))), ShapeError, "the 6 values of tv"),
        (Layout((32, 2), (1 << 60, 1)), shared(32, Layout((32, 1), (1, 0))), ShapeError, r"2\^62"),
    ],
)
def test_what_no_instruction_does(
    layout: AnyLayout, access: Access, error: type[Exception], part: str
) -> None:
    calls: list[Callable[..., Any]] = [lambda: counted(layout, access)]
    if access in (LEAKY, SCATTERED) and isinstance(layout, Layout):
        calls.append(lambda: instruction_offsets(layout, access, Place(0, 0, 0)))
    for call in calls:
        with pytest.raises(error, match=part):
            call()


def test_lanes_that_are_left_out_may_leave_the_layout() -> None:
    inside = shared(32, LEAKY.tv, active=lambda t, v, i: t < 16)
    assert counted(Layout(32), inside)[0].cost == (1, 1, 1)


def test_counting_stops_at_a_budget() -> None:
    side = 1 << 20
    with pytest.raises(UndecidedError, match="one by one") as caught:
        counted(Layout((side, side)), shared(32, Layout((side, 1, side), (1, 0, side))))
    assert caught.value.budget == UNITS
