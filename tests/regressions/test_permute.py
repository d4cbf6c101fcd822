"""Permutes that left their tile, and copies of slices that were refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

import layoutalg
from layoutalg.codegen.program.checks import check
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.draws.moves import Move, plans, verdict

INTO_A_BUFFER = (
    Move((5, 8), 8, (8, 272), (64, 8), 96, 40),  # float64 (8, 34)[:, 12:17], turned, to element 5
    Move((2, 15), 4, (4, 8), (60, 4), 0, 4),  # f32 (15, 2) to (2, 15), out at byte 4
    Move((7, 72), 2, (2, 20), (144, 2), 0, 28),  # f16 (72, 10)[:, :7], 66 bytes past the tile
)


@pytest.mark.deep(only=("Move(shape=(7, 72), item_bytes=2, src=(2, 20), dst=(144, 2), src_at=0, dst_at=28)",))
@pytest.mark.parametrize("case", INTO_A_BUFFER, ids=str)
def test_a_destination_that_starts_between_vectors_has_room_in_the_tile(case: Move) -> None:
    for c in plans(case):
        assert verdict(case, c, 1) == ""


def test_relayout_to_a_swizzle_with_an_offset() -> None:
    x = np.arange(28, dtype="u4")
    target = ComposedLayout(Swizzle(1, 1, 1), 1, Layout(28))
    y = layoutalg.ops.relayout(x, Layout(28), target)
    assert [int(y[target(i)]) for i in range(28)] == x.tolist()


def test_a_copy_of_columns_is_proven_aligned() -> None:
    case = Move((8, 32), 2, (68, 2), (64, 2), 2, 0)  # f16 (8, 34)[:, 1:33]
    for c in plans(case):
        assert verdict(case, c, 1) == ""


@pytest.mark.deep(only=("1",))
@pytest.mark.parametrize("item", [1, 2, 4])
def test_copies_of_random_slices_are_proven_aligned(item: int) -> None:
    rng = random.Random(item)
    for _ in range(15):
        rows, row = rng.randint(2, 64), 2 * rng.randint(16, 150)
        first, width = rng.randrange(row - 16), 8 * rng.randint(1, 30)
        width = min(width, row - first)
        case = Move((rows, width), item, (row * item, item), (width * item, item), first * item % 16, 0)
        x = normalise(case.problem)
        check(build(x, configs(x)[0]))


def test_a_large_permute_that_ends_apart_by_blocks_is_proven_to_stay_in_its_tile() -> None:
    """Where a row begins within its chunk differs between blocks, of which there are many thousands."""
    case = Move((256, 65536, 59), 1, (1, -256, 16777216), (-3866624, 59, 1), 16776960, 985989120)
    x = normalise(case.problem)
    check(build(x, configs(x)[0]))
