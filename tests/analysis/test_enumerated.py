"""The definition itself: one instruction spelled out, and the block form that counts them all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from layoutalg.analysis import (
    Access,
    Place,
    access_extent,
    ideal_wavefronts,
    instruction_offsets,
    traffic,
    wavefronts,
)
from layoutalg.analysis.enumerated import count_all
from layoutalg.arch import ARCHS
from layoutalg.budget import UNITS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ShapeError, UndecidedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import accesses

SM90 = ARCHS["sm_90"]
F32 = dtype("f32")


def counted_one_by_one(layout: AnyLayout, access: Access) -> Counter[tuple[int, ...]]:
    """Every instruction through `instruction_offsets` and the definitions on 32 offsets."""
    rule = SM90.instructions[access.op]
    extent = access_extent(layout, access, rule, SM90)
    out: Counter[tuple[int, ...]] = Counter()
    for warp in range(extent.warps):
        for register in range(extent.registers):
            for iteration in range(extent.iterations):
                offsets = instruction_offsets(layout, access, Place(warp, register, iteration))
                if rule.space == "shared":
                    out[wavefronts(access.op, offsets), ideal_wavefronts(access.op, offsets)] += 1
                else:
                    out[traffic(access.op, offsets)] += 1
    return out


@given(accesses(max_size=64))
def test_blocks_count_what_the_definition_counts(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    kinds = count_all(layout, access, SM90.instructions[access.op], SM90)
    assert {kind.cost: kind.instructions for kind in kinds} == counted_one_by_one(layout, access)


@given(accesses(max_size=64))
def test_the_place_of_a_kind_is_one_of_it(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    rule = SM90.instructions[access.op]
    for kind in count_all(layout, access, rule, SM90):
        offsets = instruction_offsets(layout, access, kind.place)
        if rule.space == "shared":
            cost: tuple[int, ...] = wavefronts(access.op, offsets), ideal_wavefronts(access.op, offsets)
        else:
            cost = traffic(access.op, offsets)
        assert cost == kind.cost


def test_values_must_be_contiguous() -> None:
    scattered = Access("ld.shared.b64", Layout((32, 2), (2, 1)), F32)
    column = Layout((2, 32), (32, 1))
    with pytest.raises(AlignmentError, match="value 1 is at offset 32 instead of 1"):
        instruction_offsets(column, scattered, Place(0, 0, 0))
    with pytest.raises(AlignmentError, match="value 1 is at offset 32 instead of 1"):
        count_all(column, scattered, SM90.instructions["ld.shared.b64"], SM90)


def test_a_swizzle_inside_a_vector_scatters_it() -> None:
    tile = ComposedLayout(Swizzle(1, 0, 5), 0, Layout(64))
    access = Access("ld.shared.b64", Layout((32, 2), (2, 1)), F32)
    with pytest.raises(AlignmentError, match="contiguous"):
        count_all(tile, access, SM90.instructions["ld.shared.b64"], SM90)


def test_vectors_must_be_aligned() -> None:
    access = Access("ld.shared.b64", Layout((8, 2), (3, 1)), F32)
    with pytest.raises(AlignmentError, match="lane 1 has 12"):
        count_all(Layout(64), access, SM90.instructions["ld.shared.b64"], SM90)
    nibbles = Access("ld.shared.b8", Layout((8, 2), (3, 1)), dtype("s4"))
    with pytest.raises(AlignmentError, match="lane 1"):
        count_all(Layout(64), nibbles, SM90.instructions["ld.shared.b8"], SM90)


def test_the_base_must_be_known_well_enough() -> None:
    access = Access("ld.shared.b128", Layout((8, 4), (4, 1)), F32, base_alignment_bytes=8)
    with pytest.raises(AlignmentError, match="base known to 16 bytes"):
        count_all(Layout(64), access, SM90.instructions["ld.shared.b128"], SM90)


def test_the_access_stays_inside_the_layout() -> None:
    access = Access("ld.shared.b32", Layout((32, 1), (2, 0)), F32)
    with pytest.raises(ShapeError, match="reaches the flat index 62 of 32:1, whose size is 32"):
        count_all(Layout(32), access, SM90.instructions["ld.shared.b32"], SM90)
    guarded = Access("ld.shared.b32", access.tv, F32, active=lambda t, v, i: t < 16)
    assert count_all(Layout(32), guarded, SM90.instructions["ld.shared.b32"], SM90)[0].cost == (1, 1)
    leaky = Access("ld.shared.b32", access.tv, F32, active=lambda t, v, i: t < 17)
    for call in (
        lambda: count_all(Layout(32), leaky, SM90.instructions["ld.shared.b32"], SM90),
        lambda: instruction_offsets(Layout(32), leaky, Place(0, 0, 0)),
    ):
        with pytest.raises(ShapeError, match="thread 16, value 0, iteration 0"):
            call()


def test_values_come_in_whole_vectors() -> None:
    access = Access("ld.shared.b128", Layout((8, 6), (8, 1)), F32)
    with pytest.raises(ShapeError, match="the 6 values of tv"):
        count_all(Layout(64), access, SM90.instructions["ld.shared.b128"], SM90)


def test_counting_stops_at_a_budget() -> None:
    side = 1 << 20
    access = Access("ld.shared.b32", Layout((side, 1, side), (1, 0, side)), F32)
    with pytest.raises(UndecidedError, match=r"counting [0-9]+ instructions one by one means") as caught:
        count_all(Layout((side, side)), access, SM90.instructions["ld.shared.b32"], SM90)
    assert caught.value.budget == UNITS


def test_offsets_past_64_bits_are_refused() -> None:
    huge = Layout((32, 2), (1 << 60, 1))
    access = Access("ld.shared.b32", Layout((32, 1), (1, 0)), F32)
    with pytest.raises(ShapeError, match=r"2\^62"):
        count_all(huge, access, SM90.instructions["ld.shared.b32"], SM90)
