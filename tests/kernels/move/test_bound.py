"""The least that memory moves for a permute: in closed form what the definition lists."""

from __future__ import annotations

import random

import pytest

from layoutalg.errors import UndecidedError, UnsupportedError
from layoutalg.kernels.move import least_bytes
from layoutalg.kernels.move.problem import move_problem, normalise, permute_problem
from layoutalg.layout import Swizzle, Swizzles
from tests.permutations import random_conversion, random_problem


@pytest.mark.parametrize("batch", range(3))
def test_the_closed_form_is_the_definition(batch: int) -> None:
    for seed in range(100 * batch, 100 * batch + 100):
        rng = random.Random(seed)
        x = normalise((random_conversion if seed % 2 else random_problem)(rng, 3000))
        found = least_bytes(x)
        assert found == least_bytes(x, listed=True), x
        assert found.read % 32 == found.written % 32 == 0 and found.total == found.read + found.written


def test_gaps_and_sectors_in_part_count() -> None:
    """24 floats of each 100 bytes: the half lines that hold them, and sectors in part are read first."""
    x = normalise(move_problem((100, 24), "f32", (25, 1), (25, 1)))
    found = least_bytes(x)
    assert found.written > 100 * 96 and found.read > found.written


def test_swizzles_are_listed_and_much_is_refused() -> None:
    still = move_problem((64, 8), "u16", (8, 1), (8, 1))
    moved = move_problem(
        (64, 8), "u16", (8, 1), (8, 1), src_swizzle=Swizzles(Swizzle(3, 3, 3)), elems=(512, 512)
    )
    assert least_bytes(normalise(moved)) == least_bytes(normalise(still))
    x = normalise(move_problem((1 << 13, 1 << 12), "u8", (96, 64), (1 << 12, 1)))
    with pytest.raises(UndecidedError, match="not listed"):
        least_bytes(x)
    with pytest.raises(UnsupportedError, match="was not counted"):
        least_bytes(normalise(permute_problem((4, 4), (1, 0), "f32")), "sm_80")
