"""What counts as one warp's addresses, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg.analysis import (
    MAX_ADDRESS,
    active_lanes,
    batch_lanes,
    sectors,
    sectors_batch,
    warp_rule,
    wavefronts,
    wavefronts_batch,
)
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)

LANES = [4 * lane for lane in range(32)]


def test_a_misaligned_lane_is_named() -> None:
    with pytest.raises(AlignmentError, match=r"multiples of 16 bytes; lane 1 has 132") as caught:
        wavefronts("ld.shared.b128", [132 * lane for lane in range(32)])
    assert (caught.value.offset, caught.value.required_bytes) == (132, 16)
    with pytest.raises(AlignmentError, match=r"lane 1 has 132"):
        wavefronts_batch("ld.shared.b128", 132 * np.arange(32)[None, :])
    with pytest.raises(AlignmentError, match=r"ld.global.b64"):
        sectors("ld.global.b64", [4 * lane for lane in range(32)])


def test_lanes_that_supply_no_address_may_hold_anything() -> None:
    rule, machine = warp_rule("ldmatrix.x1", "shared", "sm_90")
    assert active_lanes(rule, machine, [16 * n for n in range(8)] + [-1] * 24) == tuple(
        (n, 16 * n) for n in range(8)
    )
    given, mask = batch_lanes(rule, machine, np.array([[16 * n for n in range(8)] + [-1] * 24]))
    assert given.shape == mask.shape == (1, 8)


@pytest.mark.parametrize("call", [wavefronts, sectors])
def test_names_are_checked(call: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown instruction 'ld.shared.b33'"):
        call("ld.shared.b33", LANES)
    with pytest.raises(UnknownNameError, match=r"unknown architecture 'sm_1'"):
        call("ld.shared.b32", LANES, "sm_1")


def test_the_other_space_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"wavefronts are counted for shared memory.*ask for its sectors"
    ):
        wavefronts("ld.global.b32", LANES)
    with pytest.raises(UnsupportedError, match=r"sectors are counted for global memory"):
        sectors("ldmatrix.x4", LANES)


@pytest.mark.parametrize("count", [0, 31, 33])
def test_one_offset_a_lane(count: int) -> None:
    with pytest.raises(ShapeError, match=rf"takes 32 offsets.*{count} were given"):
        wavefronts("ld.shared.b32", LANES[:1] * count)
    with pytest.raises(ShapeError, match=r"shape"):
        wavefronts_batch("ld.shared.b32", np.zeros((2, count), dtype=int))


@pytest.mark.parametrize("bad", [-4, MAX_ADDRESS])
def test_addresses_are_bounded(bad: int) -> None:
    with pytest.raises(ShapeError, match=r"lane 0 is not a byte address"):
        wavefronts("ld.shared.b32", [bad, *LANES[1:]])
    with pytest.raises(ShapeError, match=r"byte addresses"):
        wavefronts_batch("ld.shared.b32", np.array([[bad, *LANES[1:]]]))


@pytest.mark.parametrize("bad", [1.0, True, "0", (0,)])
def test_offsets_are_integers(bad: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"offset of lane 0"):
        wavefronts("ld.shared.b32", [bad, *LANES[1:]])


def test_numpy_offsets_are_welcome_and_other_types_are_not() -> None:
    assert wavefronts("ld.shared.b32", list(np.array(LANES, dtype=np.uint16))) == 1
    with pytest.raises(ArgumentTypeError, match=r"float64"):
        wavefronts_batch("ld.shared.b32", np.zeros((1, 32)))
    with pytest.raises(ShapeError, match=r"active needs shape"):
        sectors_batch("ld.global.b32", np.zeros((1, 32), dtype=int), np.ones((1, 32)))
