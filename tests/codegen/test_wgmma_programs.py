"""Products of one warpgroup, in every swizzle mode, major and type, run by the simulator."""

from __future__ import annotations

import pytest

from layoutalg import codegen as cg
from tests.wgmma_programs import Case, all_pairs, cases, expected, one_block, operands, result


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_product_is_right(case: Case) -> None:
    kernel, (a, b), d = one_block(case), operands(case), result(case)
    cg.simulate(kernel, {"a": a.stored, "b": b.stored, "d": d}, trace=False)
    assert (d == expected(a, b)).all()


@pytest.mark.deep
@pytest.mark.parametrize("case", all_pairs(), ids=str)
def test_every_pair_of_layouts_is_right_in_any_order(case: Case) -> None:
    kernel, (a, b) = one_block(case), operands(case, 5)
    for group in ("block", "warp"):
        d = result(case)
        cg.simulate(kernel, {"a": a.stored, "b": b.stored, "d": d}, group=group, trace=False)
        assert (d == expected(a, b)).all()
    assert cg.compile(kernel).spill_bytes == 0
