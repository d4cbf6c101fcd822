"""The theorem behind answers in symbols: generic values a period apart cost the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import Access
from layoutalg.errors import UndecidedError
from layoutalg.symbolic import SymbolicLayout
from layoutalg.symbolic.generic_values import linear_terms, special_values, symbol_period
from layoutalg.symbolic.question import count, make_question
from tests.sweeps import each
from tests.symbolic.questions import ANY, LD, access, column, questions


@given(questions(), st.integers(0, 600))
def test_generic_values_a_period_apart_cost_the_same(
    question: tuple[SymbolicLayout, Access, Any], value: int
) -> None:
    layout, what, base = question
    asked = make_question(layout, what, base)
    try:
        terms = linear_terms(asked, ANY)
        special = special_values(asked, terms, 0)
    except UndecidedError:
        return
    period = symbol_period(asked, terms)
    later = value + period
    if value not in special and later not in special:
        assert count(asked, {ANY: value}) == count(asked, {ANY: later})


@each(
    ("what", "shape", "pitch", "period", "special"),
    [
        (column("ld.shared.b32", "f32"), (32, 32), LD, 32, {0}),
        (column("ld.shared.b32", "f32"), (32, 32), 4 * LD, 8, {0}),
        (column("ld.shared.b16", "f16"), (32, 32), LD, 64, {0, 1}),
        (access("st.shared.b64", (((4, 8), 2), ((16, 1), 8)), "f32"), (8, 8), LD, 32, set(range(8))),
        (column("ld.global.b32", "f32"), (32, 32), LD, 8, set(range(8))),
        (column("ld.shared.b32", "f32"), (32, 32), 32, 1, set()),
    ],
)
def test_known_periods_and_single_values(
    what: Access, shape: tuple[int, int], pitch: Any, period: int, special: set[int]
) -> None:
    asked = make_question((shape, (pitch, 1)), what)
    terms = linear_terms(asked, LD)
    assert symbol_period(asked, terms) == period
    assert special_values(asked, terms, 0) == special


def test_single_values_start_where_they_are_asked_for() -> None:
    asked = make_question(((32, 32), (LD, 1)), column("ld.global.b32", "f32"))
    assert special_values(asked, linear_terms(asked, LD), 5) == {5, 6, 7}


def test_values_with_negative_strides_are_counted_one_by_one() -> None:
    asked = make_question(((32, 32), (LD - 40, 1)), column("ld.shared.b32", "f32"))
    assert special_values(asked, linear_terms(asked, LD), 0) == set(range(41))
    falling = make_question(((32, 32), (100 - LD, 1)), column("ld.shared.b32", "f32"))
    with pytest.raises(UndecidedError, match="negative without end"):
        special_values(falling, linear_terms(falling, LD), 0)
