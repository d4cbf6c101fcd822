"""Which vectors a norm is moved by, against what they would hold."""

from __future__ import annotations

import random

from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
from layoutalg.kernels.rowwise.norm_vectors import can_skew, can_vector, places_of_rows, words
from tests.norms import random_problem


def test_vectors_need_a_common_phase() -> None:
    def widest(p: object) -> int:
        return max(v for v in (1, 2, 4, 8) if can_vector(shortest(p), v))  # type: ignore[arg-type]

    assert widest(norm_problem("softmax", (9, 33), 1, "f16")) == 8
    assert widest(norm_problem("softmax", (9, 33), 1, "f16", in_place=True)) == 1
    assert widest(norm_problem("softmax", (9, 33), 1, "f16", src_offset=2)) == 2
    assert widest(norm_problem("softmax", (9, 33), 1, "f16", src_offset=3, dst_offset=3)) == 8
    assert widest(norm_problem("softmax", (9, 36), 0, "f16")) == 4
    assert widest(norm_problem("softmax", (4, 6), 1, "f32", dst=(1, 4))) == 1


def test_whole_vectors_are_those_that_divide_every_place() -> None:
    seen = set()
    for seed in range(300):
        x = shortest(random_problem(random.Random(seed), 500))
        lead = x.modes[0]
        for vec in (2, 4, 8):
            dense = lead.src == lead.dst == 1 and lead.extent >= vec
            whole = dense and all(v % vec == 0 for v in places_of_rows(x))
            assert can_vector(x, vec) or not whole
            assert not (can_skew(x, vec) and lead.reduced)
            if not lead.reduced:
                assert can_vector(x, vec) == whole
                assert can_skew(x, vec) or not whole or len(x.modes) != 2 or x.problem.in_place
            seen.add((lead.reduced, whole, can_vector(x, vec), can_skew(x, vec)))
    assert len(seen) > 6


def test_registers_of_a_vector() -> None:
    assert [words(v, 2) for v in (1, 2, 8)] == [1, 1, 4] and words(4, 4) == 4
