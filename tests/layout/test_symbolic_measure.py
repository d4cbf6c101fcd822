"""Spans, continuations and strides that move, in symbols, against values."""

from __future__ import annotations

import random

import pytest
import sympy

from layoutalg.decide import cosize
from layoutalg.errors import UndecidedError, UnsupportedError
from layoutalg.layout import (
    Layout,
    ScaledBasis,
    coalesce,
    filter,
    filter_zeros,
    make_identity_layout,
    size,
    span,
    with_assumptions,
)
from layoutalg.layout.measure import continues
from tests.draws.symbolic_cases import K, M, N, layout, numbers, put
from tests.sweeps import each


def test_modes_continue_each_other_for_all_values_or_stay_apart() -> None:
    assert continues(N, M + 1, N * M + N) and not continues(N, M, K)
    assert continues(N, ScaledBasis(M, 0), ScaledBasis(N * M, 0))
    assert not continues(N, ScaledBasis(M, 0), ScaledBasis(N * M, 1))
    assert not continues(N, 1, ScaledBasis(N, 0))
    assert str(coalesce(Layout((N, M + 1, K), (1, N, N * M + N)))) == "k*m*n+k*n:1"
    assert str(coalesce(Layout((N, M), (1, K)))) == "(n,m):(1,k)"
    assert str(coalesce(make_identity_layout((N, M)))) == "(n,m):(1@0,1@1)"


@each("seed", range(60), sample=36)
def test_span_cosize_and_size_agree_with_the_values(seed: int) -> None:
    draw = random.Random(seed)
    symbolic = layout(draw, steps=(0, 1, -1, N, -N, M * K, N - N * M - 1))
    low, high = span(symbolic)
    for _ in range(5):
        v = numbers(draw)
        whole = put(symbolic, v)
        assert (put(low, v), put(high, v)) == span(whole)
        assert put(cosize(symbolic), v) == cosize(whole)
        assert put(size(symbolic), v) == size(whole)


def test_a_sign_that_is_not_known_is_a_condition() -> None:
    sign = sympy.Symbol("d", integer=True)
    with pytest.raises(UndecidedError) as info:
        cosize(Layout(4, sign))
    assert info.value.condition == sympy.Le(0, sign)
    assert with_assumptions(cosize, Layout(4, sign)) == (3 * sign + 1, (sympy.Le(0, sign),))
    with pytest.raises(UnsupportedError, match=r"cosize, extremes of .*: its strides move along modes"):
        span(make_identity_layout((N, 2)))


def test_a_stride_that_may_be_zero_is_a_condition_of_the_filters() -> None:
    maybe = sympy.Symbol("d", integer=True, nonnegative=True)
    for operation in (filter, filter_zeros):
        with pytest.raises(UndecidedError, match=r"filter.* of \(4,2\):\(1,d\)") as info:
            operation(Layout((4, 2), (1, maybe)))
        assert info.value.condition == sympy.Ne(maybe, 0)
    assert str(filter(Layout((4, 2), (0, N)))) == "2:n"
    assert str(filter(Layout((4, 3, N), (1, 0, 4)))) == "4*n:1"
