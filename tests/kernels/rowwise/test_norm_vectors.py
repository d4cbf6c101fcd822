"""Which vectors a norm is moved by, against what they would hold."""

from __future__ import annotations

import random

from layoutalg.kernels.rowwise import NormProblem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import form_of
from layoutalg.kernels.rowwise.unaligned import can_skew, can_vector, row_ends
from tests.norms import random_problem


def test_vectors_need_a_common_phase() -> None:
    def widest(p: NormProblem) -> int:
        return max(v for v in (1, 2, 4, 8) if can_vector(form_of(p), v, in_place=p.in_place))

    assert widest(norm_problem("softmax", (9, 33), 1, "f16")) == 8
    assert widest(norm_problem("softmax", (9, 33), 1, "f16", in_place=True)) == 1
    assert widest(norm_problem("softmax", (9, 33), 1, "f16", src_offset=2)) == 2
    assert widest(norm_problem("softmax", (9, 33), 1, "f16", src_offset=3, dst_offset=3)) == 8
    assert widest(norm_problem("softmax", (9, 36), 0, "f16")) == 4
    assert widest(norm_problem("softmax", (4, 6), 1, "f32", dst=(1, 4))) == 1


def test_whole_vectors_are_those_that_divide_every_place() -> None:
    seen = set()
    for seed in range(300):
        p = random_problem(random.Random(seed), 500)
        x, lead = form_of(p), form_of(p).lead
        for vec in (2, 4, 8):
            dense = lead.src == lead.dst == 1 and lead.extent >= vec
            whole = dense and all(v % vec == 0 for v in row_ends(x))
            assert can_vector(x, vec, in_place=p.in_place) or not whole
            assert not (can_skew(x, vec, in_place=p.in_place) and lead.reduced)
            if not lead.reduced:
                assert can_vector(x, vec, in_place=p.in_place) == whole
                assert can_skew(x, vec, in_place=p.in_place) or not whole or len(x.modes) != 2 or p.in_place
            seen.add(
                (
                    lead.reduced,
                    whole,
                    can_vector(x, vec, in_place=p.in_place),
                    can_skew(x, vec, in_place=p.in_place),
                )
            )
    assert len(seen) > 6
