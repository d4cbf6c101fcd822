"""Sectors that several requests ask for together: the closed form beside the list of all addresses."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from layoutalg.analysis import Access, reuse_of
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, size
from tests.sweeps import each


def test_three_channels_of_a_picture_are_fetched_once() -> None:
    """NHWC, one pixel per lane: 96 bytes in each of three requests; and 4-byte pixels do it in one."""
    channels = Access("ld.global.b8", Layout((32, 3), (1, 32)), dtype("u8"))
    found = reuse_of(Layout((32, 3), (3, 1)), [channels])
    assert (found.requests, found.asked, found.different, found.again) == (3, 9, 3, 6)
    padded = Access("ld.global.b32", Layout((32, 4), (1, 32)), dtype("u8"))
    one = reuse_of(Layout((32, 4), (4, 1)), [padded])
    assert (one.requests, one.asked, one.different) == (1, 4, 4)


@each("seed", range(4), sample=1)
def test_the_closed_form_is_the_list(seed: int) -> None:
    rng, closed = random.Random(seed), 0
    for _ in range(60):
        rows, columns = rng.choice((8, 24, 32, 64)), rng.choice((3, 8, 16, 40, 64))
        pitch = columns + rng.choice((0, 0, 1, 8, 13))
        tile = rng.choice((Layout((rows, columns), (pitch, 1)), Layout((rows, columns), (1, rows + 3))))
        element = rng.choice(("u8", "f16", "f32"))
        bits = dtype(element).bits
        texts = [f"ld.global.b{bits}@{way}" for way in rng.choice((["row"], ["col"], ["row", "col"]))]
        wanted = [Access.of(text, tile, element) for text in texts]
        wanted = [replace(a, base_bytes=rng.choice((0, 0, 4, 16, 32))) for a in wanted]
        found, listed = reuse_of(tile, wanted), reuse_of(tile, wanted, method="enumerated")
        assert (found.requests, found.asked, found.different) == (
            listed.requests,
            listed.asked,
            listed.different,
        )
        closed += found.method == "digit-classes"
    assert closed >= 20


def test_large_tiles_need_no_list() -> None:
    tile = Layout((1 << 20, 1 << 10), (1 << 10, 1))
    found = reuse_of(tile, [Access.of(f"ld.global.b32@{way}", tile, "f32") for way in ("row", "col")])
    assert found.different == size(tile) // 8 and found.method == "digit-classes"


def test_swizzled_tiles_and_predicates_are_listed() -> None:
    tile = ComposedLayout(Swizzle(2, 3, 3), 0, Layout((16, 32), (32, 1)))
    found = reuse_of(tile, [Access.of("ld.global.b32@col", tile, "f32")])
    assert (found.different, found.method) == (64, "enumerated")


def test_what_is_no_global_access_is_refused() -> None:
    tile = Layout((32, 32), (32, 1))
    with pytest.raises(ArgumentTypeError, match="one or more are needed"):
        reuse_of(tile, [])
    with pytest.raises(ArgumentTypeError, match="global memory"):
        reuse_of(tile, [Access.of("ld.shared.b32@row", tile, "f32")])
    with pytest.raises(UnsupportedError, match="'auto' or 'enumerated'"):
        reuse_of(tile, [Access.of("ld.global.b32@row", tile, "f32")], method="gcd")
