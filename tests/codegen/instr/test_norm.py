"""Exponentials and moments in registers: effects are near their definitions, texts near their effects."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.codegen import instr as isa
from layoutalg.errors import UnsupportedError
from tests.codegen.instr.probe import LANES, Case, floats, ran, word

RANDOM = np.random.default_rng(4)


def drawn(n: int, scale: float = 3.0) -> np.ndarray:
    return (RANDOM.standard_normal((LANES, n)) * scale).astype(np.float32).view(np.uint32)


def close(got: np.ndarray, wanted: np.ndarray, ulps: float) -> None:
    np.testing.assert_allclose(floats(got).astype(float), wanted, rtol=ulps * 2.0**-23, atol=1e-37)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 1), (8, 1), (4, 4)])
def test_exponentials_and_squares_of_differences_are_added(n: int, k: int) -> None:
    s, v, m, t = drawn(k) & 0x7FFFFFFF, drawn(n), word(0.5).repeat(k, 1), word(0.25).repeat(k, 1)
    less = floats(v).astype(float) - 0.5

    def summed(x: np.ndarray) -> np.ndarray:
        return np.asarray(floats(s) + (x.sum(1, keepdims=True) if k == 1 else x))

    close(isa.add_exp(n, k).effect(None, None, s, v, m), summed(np.exp(less)), 32)
    close(isa.apply_softmax(n, k).effect(None, None, v, m, t), np.exp(less) / 4, 64)
    close(isa.add_square(n, k).effect(None, None, s, v, m), summed(less**2), 8)
    close(isa.apply_norm(n, k).effect(None, None, v, m, t), less / 4, 4)


def test_ends_of_the_floats() -> None:
    """A row of minus infinities adds nothing and becomes NaN; infinity and NaN reach the sum."""
    low, zero = word(-np.inf), word(0.0)
    assert (floats(isa.add_exp(4, 1).effect(None, None, zero, low.repeat(4, 1), low)) == 0).all()
    applied = isa.apply_softmax(4, 1).effect(None, None, low.repeat(4, 1), low, word(np.inf))
    assert np.isnan(floats(applied)).all()
    for most in (low, word(3.0)):
        assert (floats(isa.rescale(1).effect(None, None, zero, low, most)) == 0).all()
    for special, other, wanted in ((np.inf, 1.0, np.nan), (np.nan, 1.0, np.nan), (3e38, -3e38, 1.0)):
        v = np.concatenate([word(other), word(special)], axis=1)
        got = floats(isa.add_exp(2, 1).effect(None, None, zero, v, word(special)))
        np.testing.assert_array_equal(got, np.full_like(got, wanted))


def test_a_sum_is_rescaled_to_a_larger_maximum() -> None:
    s, old, m = drawn(2), drawn(2), word(5.0).repeat(2, 1)
    close(isa.rescale(2).effect(None, None, s, old, m), floats(s) * np.exp(floats(old).astype(float) - 5), 64)


def test_merged_moments_are_those_of_all_values() -> None:
    values = RANDOM.standard_normal((LANES, 12)) * 2 + 100
    left, right = values[:, :5], values[:, 5:]

    def moments(x: np.ndarray) -> list[np.ndarray]:
        mean = x.mean(1, keepdims=True)
        parts = (np.full_like(mean, x.shape[1]), mean, ((x - mean) ** 2).sum(1, keepdims=True))
        return [p.astype(np.float32).view(np.uint32) for p in parts]

    count, mean, q = isa.merge_moments(1).effect(None, None, *moments(left), *moments(right))
    assert (floats(count) == 12).all()
    close(mean, values.mean(1, keepdims=True), 4)
    close(q, ((values - values.mean(1, keepdims=True)) ** 2).sum(1, keepdims=True), 32)
    nothing = [word(0.0)] * 3
    for a, b in ((moments(left), nothing), (nothing, moments(left)), (nothing, nothing)):
        got = isa.merge_moments(1).effect(None, None, *a, *b)
        wanted = moments(left) if a is not b else nothing
        np.testing.assert_array_equal(
            np.hstack([floats(x) for x in got]), np.hstack([floats(x) for x in wanted])
        )


def test_factors_and_summands() -> None:
    v, w, three = drawn(4), drawn(4), word(3.0)
    for got, wanted in (
        (isa.multiply(4, 4).effect(None, None, v, w), floats(v) * floats(w)),
        (isa.multiply(4, 1).effect(None, None, v, three), floats(v) * np.float32(3)),
        (isa.add_same(4, "f32").effect(None, None, v, three), floats(v) + np.float32(3)),
    ):
        np.testing.assert_array_equal(floats(got), wanted)
    close(isa.reciprocal(1).effect(None, None, three), np.full((LANES, 1), 1 / 3), 1)
    got = isa.deviation(1).effect(None, None, word(8.0), word(0.5), word(1e-5))
    close(got, np.full((LANES, 1), 0.4999994), 2)


@pytest.mark.parametrize(
    "make", [isa.add_exp, isa.apply_softmax, isa.add_square, isa.apply_norm, isa.multiply]
)
def test_other_shares_are_refused(make: object) -> None:
    with pytest.raises(UnsupportedError, match="1 or 4"):
        make(4, 2)  # type: ignore[operator]


# --- the text ------------------------------------------------------------------------------------------

POSITIVE = drawn(4) & 0x7FFFFFFF
CASES: list[Case] = [
    (isa.add_exp(4, 1), [drawn(1) & 0x7FFFFFFF, drawn(4), word(7.0)], []),
    (isa.add_exp(4, 1), [word(0.0), word(-np.inf).repeat(4, 1), word(-np.inf)], []),
    (isa.add_exp(4, 4), [POSITIVE, drawn(4), drawn(4)], []),
    (isa.rescale(2), [drawn(2), drawn(2), drawn(2)], []),
    (isa.apply_softmax(4, 1), [drawn(4), word(7.0), word(0.3)], []),
    (isa.apply_softmax(4, 4), [drawn(4), drawn(4), drawn(4)], []),
    (isa.reciprocal(2), [drawn(2)], []),
    (isa.add_square(4, 1), [drawn(1), drawn(4), word(1.0)], []),
    (isa.add_square(4, 4), [drawn(4), drawn(4), drawn(4)], []),
    (isa.merge_moments(2), [word(3.0), drawn(2), drawn(2), word(4.0), drawn(2), drawn(2)], []),
    (isa.merge_moments(1), [word(0.0)] * 6, []),
    (isa.average(2), [drawn(2), word(3.0)], []),
    (isa.average(1), [word(0.0), word(0.0)], []),
    (isa.deviation(4), [POSITIVE], [0.125, 1e-5]),
    (isa.apply_norm(4, 1), [drawn(4), word(1.0), word(3.0)], []),
    (isa.apply_norm(4, 4), [drawn(4), drawn(4), drawn(4)], []),
    (isa.multiply(4, 4), [drawn(4), drawn(4)], []),
    (isa.add_same(4, "f32"), [drawn(4), word(2.0)], []),
]


def test_the_texts_compute_the_effects() -> None:
    for instr, got, outputs in ran(CASES):
        for mine, wanted in zip(got, outputs, strict=False):
            np.testing.assert_allclose(floats(mine), floats(wanted), rtol=1e-6, err_msg=instr.name)
