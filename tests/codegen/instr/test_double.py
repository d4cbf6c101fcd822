"""Epilogue arithmetic on doubles, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.instr import encode
from layoutalg.codegen.instr.arithmetic.double import ONE_F64, add_same, add_scaled, scale

doubles = st.floats(allow_nan=True, allow_infinity=True)
pairs = st.lists(st.tuples(doubles, doubles), min_size=1, max_size=4)


def _words(values: Any) -> Any:
    return encode(np.array(values, dtype=np.float64).reshape(1, -1), "f64")


def _same(words: Any, values: Any) -> None:
    np.testing.assert_array_equal(np.ascontiguousarray(words).view(np.float64).ravel(), values)


@given(pairs, doubles)
def test_scale_and_add_scaled(values: list[tuple[float, float]], factor: float) -> None:
    v, c = np.array(values).T
    words = _words(factor)
    low, high = words[:, :1], words[:, 1:]
    with np.errstate(all="ignore"):
        _same(scale(len(v)).effect(None, None, _words(v), low, high), v * factor)
        _same(add_scaled(len(v)).effect(None, None, _words(v), _words(c), low, high), v + factor * c)


@given(st.lists(doubles, min_size=1, max_size=4), doubles)
def test_adding_one_number(values: list[float], c: float) -> None:
    v = np.array(values)
    with np.errstate(all="ignore"):
        _same(add_same(len(v)).effect(None, None, _words(v), _words(c)), v + c)


def test_one() -> None:
    assert np.array(ONE_F64, dtype=np.uint32).view(np.float64)[0] == 1.0
