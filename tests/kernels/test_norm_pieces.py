"""Vectors at the ends of a row hold what lies between low and high, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
from layoutalg.kernels.rowwise.norm_pieces import Bases, Chunk
from layoutalg.kernels.rowwise.norm_walk import NormConfig, Walk


@pytest.mark.parametrize(("at", "held"), [(0, [3]), (4, [0, 1, 2, 3]), (8, [0, 1]), (12, [])])
def test_a_vector_has_the_elements_of_its_row(at: int, held: list[int]) -> None:
    chunk = Chunk(100 + at, 200 + at, 0, at, 3, 10)
    assert [e for e in range(4) if chunk.has(e)] == held
    places = np.full(5, at)
    assert bool(Chunk(0, 0, 0, places, 3, 10).has(2).all()) == (2 in held)


def test_bases_are_where_rows_begin() -> None:
    x = shortest(norm_problem("softmax", (6, 100), 1, "f32", src_offset=8))
    assert Walk(x, NormConfig(4, 1, 32, "registers")).bases(3) == Bases(308, 300, 0)
