"""Bounds on rounding hold for sums made in the worst order, and are not much more than what can happen."""

from __future__ import annotations

import numpy as np

from layoutalg.kernels.checks.rows import norm_bound, reduction_bound
from layoutalg.kernels.rowwise import norm_problem, normed, reduce_problem
from tests.sweeps import each


@each("n", [2, 100, 5000])
@each("op", ["sum", "mean"])
def test_one_addition_after_the_other_stays_within_the_bound(n: int, op: str) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    total = np.float32(0)
    for value in x:
        total = np.float32(total + value)
    got = total if op == "sum" else np.float32(total / np.float32(n))
    p, exact = reduce_problem((1, n), 1, op, "f32"), getattr(x.astype(float), op)()
    allowed = reduction_bound(p, n + 1, x.astype(float))
    assert allowed.shape == (1,) and abs(float(got) - exact) <= allowed[0]
    sizes = np.abs(x).sum() / (1 if op == "sum" else n)
    assert allowed[0] <= 1.01 * (n + 1) * 2.0**-24 * sizes + 1e-40


def test_a_narrow_result_may_be_rounded_once_more() -> None:
    values = np.array([1.0, 2.0**-12])
    wide, narrow = (reduce_problem((1, 2), 1, "sum", "f16", result=to) for to in ("f32", "f16"))
    assert abs(float(np.float16(values.sum())) - values.sum()) <= reduction_bound(narrow, 1, values)[0]
    assert reduction_bound(wide, 1, values)[0] < 1e-6 < reduction_bound(narrow, 1, values)[0]


def test_a_maximum_is_exact() -> None:
    assert reduction_bound(reduce_problem((2, 3), 1, "max", "f16"), 9, np.ones(6)).tolist() == [0.0, 0.0]


def test_norms_may_lose_more_where_numbers_are_larger() -> None:
    small, large = np.linspace(-1, 1, 64)[None], np.linspace(-50, 50, 64)[None]
    for op in ("softmax", "layer_norm"):
        p = norm_problem(op, (1, 64), 1, "f32")
        one, two = (norm_bound(p, x, normed(p, x)) for x in (small, large))
        assert (one > 0).all() and one.max() < 2e-5
        if op == "softmax":
            assert (two / normed(p, large)).max() > (one / normed(p, small)).max()


def test_weights_widen_the_bound_of_a_layer_norm() -> None:
    x = np.random.default_rng(0).standard_normal((2, 8))
    p = norm_problem("layer_norm", (2, 8), 1, "f32", weight=True, bias=True)
    w = [np.full(8, v) for v in (1.0, 100.0)]
    plain, heavy = (norm_bound(p, x, normed(p, x, v, v), v, v) for v in w)
    assert (heavy > 50 * plain).all()
