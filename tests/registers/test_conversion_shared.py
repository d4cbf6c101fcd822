"""Exchanges through shared memory: right, without conflicts, and in vectors where there are any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import ideal_wavefronts, wavefronts
from layoutalg.arch import ARCHS
from layoutalg.errors import ResourceError, ShapeError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import AnyLayout
from layoutalg.registers import Load, Store, Transfer, converted
from layoutalg.registers.exchange import exchange_plan
from layoutalg.registers.steps import PlanStep, run
from tests.draws.fragments import LARGE, conversions, elements
from tests.registers.test_conversion import ROWS, WGMMA

SM90 = ARCHS["sm_90"]


def _addresses(tile: AnyLayout, transfer: Transfer, unit_bits: int, warp: int) -> list[list[int]]:
    """The byte addresses that the lanes of one warp give to each instruction, by the definition."""
    found: list[list[int]] = []
    for base, vector in zip(transfer.bases, transfer.vectors, strict=True):
        lanes: list[int] = []
        for lane in range(1 << len(transfer.lane_columns)):
            start = base
            for j, column in enumerate(transfer.lane_columns):
                start ^= column * (lane >> j & 1)
            for j, column in enumerate(transfer.warp_columns):
                start ^= column * (warp >> j & 1)
            places = [tile(start ^ k) for k in range(len(vector))]
            assert places == list(range(places[0], places[0] + len(vector)))  # a vector is contiguous
            assert places[0] % len(vector) == 0  # and aligned
            lanes.append(places[0] * unit_bits // 8)
        found.append(lanes)
    return found


def _sides(steps: tuple[PlanStep, ...]) -> tuple[Store, Load]:
    store, load = steps[:2]
    assert isinstance(store, Store) and isinstance(load, Load) and store.tile == load.tile
    assert sorted(store.tile(i) for i in range(store.size)) == list(range(store.size))
    return store, load


@given(conversions(), st.sampled_from((8, 16, 32, 64, 128)))
def test_every_exchange_is_the_conversion(pair: tuple[LinearLayout, LinearLayout], unit_bits: int) -> None:
    src, dst = pair
    steps = exchange_plan(src, dst, 0, unit_bits, SM90)
    assert np.array_equal(run(steps, elements(src)), converted(src, dst, elements(src)))


@given(conversions(max_lanes=5), st.sampled_from((8, 16, 32, 64, 128)))
def test_wavefronts_are_those_of_the_addresses_and_the_fewest(
    pair: tuple[LinearLayout, LinearLayout], unit_bits: int
) -> None:
    steps = exchange_plan(*pair, 0, unit_bits, SM90)
    store, load = _sides(steps)
    for side, silent in ((store.transfer, store.silent_lanes), (load.transfer, 0)):
        assert side.op.endswith(f".b{unit_bits * len(side.vectors[0])}")
        for warp in range(1 << len(side.warp_columns)):
            instructions = _addresses(store.tile, side, unit_bits, warp)
            lanes = [
                [
                    *(None if lane & silent else x for lane, x in enumerate(offsets)),
                    *[None] * (32 - len(offsets)),
                ]
                for offsets in instructions
            ]
            assert sum(wavefronts(side.op, offsets) for offsets in lanes) == side.wavefronts
            assert sum(ideal_wavefronts(side.op, offsets) for offsets in lanes) == side.wavefronts


@given(conversions(max_lanes=5), st.sampled_from((8, 32, 128)))
def test_every_element_is_stored_once(pair: tuple[LinearLayout, LinearLayout], unit_bits: int) -> None:
    """Lanes that hold the same would race."""
    store, _ = _sides(exchange_plan(*pair, 0, unit_bits, SM90))
    transfer = store.transfer
    stored: list[int] = []
    for warp in range(1 << len(transfer.warp_columns)):
        for addresses in _addresses(store.tile, transfer, 8, warp):
            for lane, start in enumerate(addresses):
                if not (lane & store.silent_lanes or warp & store.silent_warps):
                    stored += range(start, start + len(transfer.vectors[0]))
    assert len(stored) == len(set(stored)) == len(set(elements(pair[0]).ravel().tolist()))


def test_what_both_sides_hold_together_moves_in_vectors() -> None:
    """Rows of 16 bytes a lane on one side, wgmma's pairs of columns on the other: 4 bytes in common."""
    turned = LinearLayout({name: bases[::-1] for name, bases in ROWS.ins}, ROWS.outs)
    for dst, bits, width, served in ((WGMMA, 1, "b32", 16), (WGMMA, 0, "b64", 32), (turned, 0, "b128", 32)):
        store, load = _sides(exchange_plan(ROWS, dst, bits, 32, SM90))
        assert store.transfer.op == f"st.shared.{width}"
        if dst is WGMMA:
            assert load.transfer.op == f"ld.shared.{width}"
        assert store.transfer.wavefronts == load.transfer.wavefronts == served


def test_registers_that_repeat_are_stored_and_loaded_once() -> None:
    twice = LinearLayout({"register": [1, 1], "lane": [2, 4], "warp": [8]}, {"n": 16})
    other = LinearLayout({"register": [8, 8, 8], "lane": [2, 4], "warp": [1]}, {"n": 16})
    steps = exchange_plan(twice, other, 0, 32, SM90)
    store, load = _sides(steps)
    assert len(store.transfer.vectors) == len(load.transfer.vectors) == 2
    assert np.array_equal(run(steps, elements(twice)), elements(other))


def test_what_cannot_be_exchanged_is_refused() -> None:
    turned = LinearLayout({name: bases[::-1] for name, bases in LARGE.ins}, LARGE.outs)
    many = LinearLayout({"lane": [1, 2, 4, 8, 16, 32]}, {"n": 64})
    refused: list[tuple[type[Exception], str, LinearLayout, LinearLayout, int]] = [
        (ResourceError, "in bytes: 524288", LARGE, turned, 32),
        (ShapeError, "64 lanes, a warp of sm_90 32", many, many, 32),
        (UnsupportedError, "units of 4 bits", LARGE, turned, 4),
    ]
    for error, part, src, dst, unit_bits in refused:
        with pytest.raises(error, match=part):
            exchange_plan(src, dst, 0, unit_bits, SM90)
