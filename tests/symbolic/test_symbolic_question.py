"""What stays open comes back as the condition, which still answers for numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy

from layoutalg.analysis import SharedReport, analyze
from layoutalg.errors import UndecidedError, UnsupportedError
from layoutalg.layout import Layout, Swizzle
from layoutalg.symbolic import Condition, SymbolicLayout, solve_conflict_free, solve_sectors, symbolic_cost
from tests.symbolic.questions import LD, access, column


@pytest.mark.parametrize(
    ("pitch", "why"),
    [
        (LD * sympy.Symbol("k"), "k is not known"),
        (LD * LD, "ld**2 is not an integer times ld plus an integer"),
        (LD // 2, "floor(ld/2) is not an integer times ld plus an integer"),
        (sympy.floor(LD / 3), "floor(ld/3) is not an integer times ld plus an integer"),
    ],
)
def test_open_conditions_are_returned(pitch: Any, why: str) -> None:
    k = sympy.Symbol("k")
    found = solve_conflict_free(((32, 32), (pitch, 1)), column("ld.shared.b32", "f32"), LD)
    assert isinstance(found, Condition) and found.why == why
    assert str(found) == f"ld.shared.b32 on (32,32):({pitch},1) has no bank conflicts (open: {why})"
    for n in range(2, 40, 2):
        actual = int(pitch.subs({LD: n, k: 5}))
        assert found.holds({LD: n, k: 5}) == (actual % 2 == 1 or actual == 0)
    with pytest.raises(UnsupportedError, match="an integer is needed"):
        found.holds({})
    with pytest.raises(UndecidedError, match="is not"):
        symbolic_cost(((32, 32), (pitch, 1)), column("ld.shared.b32", "f32"), LD)


def test_open_conditions_as_latex() -> None:
    found = solve_conflict_free(((32, 32), (LD * LD, 1)), column("ld.shared.b32", "f32"), LD)
    both = (r"\operatorname{wavefronts}{\left(ld \right)}", r"\operatorname{ideal}{\left(ld \right)}")
    assert sympy.latex(found) == " = ".join(both)
    share = solve_sectors(
        ((32, 32), (LD * LD, 1)), column("ld.global.b32", "f32"), LD, efficiency=Fraction(9, 10)
    )
    assert sympy.latex(share) == r"\operatorname{efficiency}{\left(ld \right)} \geq \frac{9}{10}"


def test_the_fewest_sectors_stay_open_without_a_list_of_values() -> None:
    found = solve_sectors(((32, 32), (LD * LD, 1)), column("ld.global.b32", "f32"), LD)
    assert isinstance(found, Condition)
    with pytest.raises(UndecidedError, match="the fewest sectors are not known"):
        found.holds({LD: 3})


def test_strides_that_do_not_compose_leave_it_open() -> None:
    what = access("ld.shared.b32", ((8, 1), (3, 0)), "f32")
    found = solve_conflict_free(((4, 8), (LD, 1)), what, LD)
    assert isinstance(found, Condition) and "do not compose" in found.why
    report = analyze(Layout((4, 8), (9, 1)), what)
    assert isinstance(report, SharedReport) and found.holds({LD: 9}) == report.conflict_free


def test_periods_too_long_leave_it_open() -> None:
    tile = SymbolicLayout((32, 32), (LD, 1), (Swizzle(5, 5, 9),))
    found = solve_conflict_free(tile, column("ld.shared.b32", "f32"), LD)
    assert isinstance(found, Condition) and "the limit is 4096" in found.why
