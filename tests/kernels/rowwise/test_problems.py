"""Norms and reductions as data: what is accepted, and that the shortest form is the same problem."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    NotInjectiveError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.kernels.checks.rows import norm_bound, reduction_bound
from layoutalg.kernels.rowwise import axes_problem, find_axes, norm_problem, normed, plans, reduce_problem
from layoutalg.kernels.rowwise.programs.block import float_word
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.tensors import normalise
from layoutalg.kernels.rowwise.walk import can_vector, row_ends
from layoutalg.kernels.rowwise.ways.norm_plan import form_of
from tests.draws.norms import random_problem
from tests.draws.reductions import random_axes
from tests.kernels.rowwise.definition import groups, of_form, of_problem
from tests.sweeps import each


@each("seed", range(60))
def test_the_shortest_form_of_a_reduction_has_the_same_groups(seed: int) -> None:
    p = random_axes(random.Random(seed), 400, keeps=seed % 2 == 0)
    x = normalise(p)
    assert groups(of_form(x)) == groups(of_problem(p))
    assert (x.outputs, x.count) == (p.outputs, p.count)
    steps = [m.src for m in x.modes if m.src]
    assert all(m.extent > 1 and m.src >= 0 for m in x.modes)
    assert steps == sorted(steps) and all(m.src == 0 for m in x.modes[len(steps) :])


@each("seed", range(30))
def test_the_shortest_form_of_a_norm_moves_the_same_elements(seed: int) -> None:
    p = random_problem(random.Random(seed), 600)
    x, weighted = form_of(p), p.weight or p.bias
    got, wanted = (
        {e.target: (e.source, e.weight if weighted else 0) for e in some}
        for some in (of_form(x), of_problem(p.axes))
    )
    assert got == wanted and groups(of_form(x)) == groups(of_problem(p.axes))
    assert x.outputs * x.count == len(wanted) and all(m.src >= 0 for m in x.modes)
    assert list(x.modes) == sorted(x.modes, key=lambda m: (m.src == 0, m.src, m.reduced, abs(m.dst)))


TURNED = (48, 1, 6)


@each(
    ("form", "expected"),
    [
        *((normalise(axes_problem(shape, axes, "f32")), text) for shape, axes, text in (
            ((8192, 8192), (0,), "K 8192:1->1, R 8192:8192"), ((4, 5, 6), (1, 2), "R 30:1, K 4:30->1"),
            ((4, 5, 6), (), "K 120:1->1"), ((1, 1), (0,), "one element"),
            ((2, 3, 4, 5), (1, 3), "R 5:1, K 4:5->1, R 3:20, K 2:60->4"),
        )),
        (normalise(axes_problem((3, 4, 5), 2, "f32", dst=(40, 5, 1), keeps=True)),
         "R 5:1->1, K 4:5->5, K 3:20->40"),
        (form_of(norm_problem("layer_norm", (4, 6, 8), (1, 2), "f32", TURNED, TURNED)),
         "R 48:1->1, K 4:48->48"),
        (form_of(norm_problem("layer_norm", (4, 6, 8), (1, 2), "f32", TURNED, TURNED, weight=True)),
         "R 6:1->1 w8, R 8:6->6 w1, K 4:48->48"),
    ],
    ids=str,
)  # fmt: skip
def test_forms_by_hand(form: Any, expected: str) -> None:
    """Modes merge where both sides, and weights, do too."""
    assert str(form) == expected


def norm(**change: Any) -> Any:
    """A layer norm with something else about it."""
    return norm_problem(**{"op": "layer_norm", "shape": (4, 6), "axes": 1, "dtype": "f32", **change})


REFUSED: list[tuple[Any, type[LayoutAlgError], str]] = [
    *((lambda change=change: norm(**change), error, text) for change, error, text in (
        ({"op": "hardmax"}, UnknownNameError, "hardmax"), ({"dtype": "f64"}, UnsupportedError, "f64"),
        ({"dtype": "u8"}, UnsupportedError, "u8"), ({"axes": 2}, ShapeError, "axis 2"),
        ({"op": "softmax", "bias": True}, UnsupportedError, "no weight"),
        ({"op": "rms_norm", "bias": True}, UnsupportedError, "rms_norm has no bias"),
        ({"eps": -1.0}, ShapeError, "eps"), ({"eps": float("nan")}, ShapeError, "eps"),
        ({"eps": "small"}, ArgumentTypeError, "eps"),
        ({"in_place": True, "dst": (1, 4)}, ShapeError, "in place"),
        ({"in_place": True, "src_offset": 4, "dst": (6, 1)}, ShapeError, "in place"),
        ({"dst": (0, 1)}, NotInjectiveError, "one place"))),
    (lambda: form_of(norm(shape=(4, 0), axes=0)), ShapeError, "nothing to compute"),
    (lambda: plan(norm(shape=(0, 4))), ShapeError, "nothing to compute"),
    *((lambda axes=axes: find_axes(axes, 3), ShapeError, "axis") for axes in (3, -4, (0, 3), True)),
    (lambda: find_axes((1, -2), 3), ShapeError, "twice"),
    (lambda: axes_problem((2, -1), 0, "f32"), ShapeError, "negative"),
    (lambda: axes_problem((1,) * 9, 0, "f32"), ShapeError, "9 modes"),
    (lambda: axes_problem((2, 3), 0, "f32", src=(1,)), ShapeError, "every mode"),
    (lambda: axes_problem((2, 3), 0, "f32", src=(-3, 1)), ShapeError, "source of offset 0"),
    (lambda: axes_problem((2, 3, 4), 2, "f32", dst=(1, 1, 0)), NotInjectiveError, "two coordinates"),
    (lambda: reduce_problem((2, 3), 0, "product", "f32"), UnknownNameError, "reduction"),
    (lambda: reduce_problem((2, 3), 0, "mean", "u8"), UnsupportedError, "u8"),
    (lambda: reduce_problem((2, 3), 0, "sum", "f16", result="bf16"), UnsupportedError, "bf16"),
    (lambda: reduce_problem((2, 3), 1, "sum", "f32", dst=(0, 0)), NotInjectiveError, "coordinates"),
    (lambda: reduce_problem((4, 0), 1, "max", "f16"), ShapeError, "no elements"),
    (lambda: plans(reduce_problem((4, 0), 1, "sum", "f16")), ShapeError, "nothing to launch"),
]  # fmt: skip


@each(("call", "error", "text"), REFUSED)
def test_what_cannot_be_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_what_is_near_a_refusal_is_accepted() -> None:
    assert find_axes((-1, 0), 3) == (0, 2)
    assert axes_problem((2, 3, 4), (0, 2), "f32", dst=(7, 1, 7)).dst == (0, 1, 0)
    assert axes_problem((4, 0), 1, "f16").source_elems == 1
    assert reduce_problem((0, 3), 1, "max", "f16").empty
    nothing = [reduce_problem(shape, 1, op, "f16").of_nothing for shape, op in (
        ((4, 0), "sum"), ((4, 0), "mean"), ((4, 3), "mean"))]  # fmt: skip
    assert nothing[0] == 0.0 and math.isnan(nothing[1] or 0.0) and nothing[2] is None


def test_the_reference_is_the_definition() -> None:
    x = np.array([[1.0, 2.0], [-np.inf, -np.inf], [np.inf, 0.0], [np.nan, 0.0]])
    got = normed(norm_problem("softmax", (4, 2), 1, "f32"), x)
    np.testing.assert_allclose(got[0], np.exp([1, 2]) / np.exp([1, 2]).sum())
    assert np.isnan(got[1:]).all()
    y = normed(
        norm_problem("layer_norm", (3, 2), 0, "f32", eps=0.0, weight=True, bias=True),
        [[1.0, 5.0], [2.0, 5.0], [3.0, 8.0]], [1.0, 2.0, 3.0], [0.0, 1.0, 0.0],
    )  # fmt: skip
    np.testing.assert_allclose(y[:, 0], [-(1.5**0.5), 1.0, 3 * 1.5**0.5])
    z = normed(norm_problem("rms_norm", (1, 2), 1, "f32", eps=1.0), [[3.0, 4.0]])
    np.testing.assert_allclose(z, [[3 / 13.5**0.5, 4 / 13.5**0.5]])


@each("op", ["softmax", "logsumexp"])
def test_a_bound_grows_with_how_far_numbers_are_apart_alone(op: str) -> None:
    """Not with what is added to all of them, nor with those that count for nothing beside the largest."""

    def bound(*row: float) -> float:
        x = np.array([row])
        if op == "logsumexp":
            return float(reduction_bound(reduce_problem(x.shape, 1, op, "f32"), 3, x.ravel())[0])
        p = norm_problem("softmax", x.shape, 1, "f32")
        wanted = normed(p, x)
        return float((norm_bound(p, x, wanted) / wanted)[0, -1])

    grown = np.diff([bound(100.0 - s, 100.0) for s in (0, 10, 20, 90)]) / np.diff([0, 10, 20, 90])
    assert (grown * 2**24 > 2).all() and (grown * 2**24 < 20).all()
    if op == "softmax":
        assert bound(-20.0, 0.0) == pytest.approx(bound(980.0, 1000.0), rel=1e-3)
        assert bound(-100.0, 100.0) == pytest.approx(bound(100.0, 100.0), rel=1e-3)


# --- steps, and vectors --------------------------------------------------------------------------------


def test_words_are_the_nearest_floats() -> None:
    for x in (0.0, 1.0, 1 / 3, 1e-5, 1e-45, -2.5, 1 / 16777216):
        assert np.array(float_word(x), np.uint32).view(np.float32) == np.float32(x)


def test_whole_vectors_are_those_that_divide_every_place() -> None:
    """Of rows those too that have one phase on both sides."""
    seen = set()
    for seed in range(300):
        p = random_problem(random.Random(seed), 500)
        x, lead = form_of(p), form_of(p).lead
        for vec in (2, 4, 8):
            dense = lead.src == lead.dst == 1 and lead.extent >= vec
            whole = dense and all(v % vec == 0 for v in row_ends(x))
            some = can_vector(x, vec, in_place=p.in_place)
            assert some == whole or (some and lead.reduced)
            seen.add((lead.reduced, whole, some))
    assert len(seen) == 5
    for at, to, in_place, widest in ((0, 0, False, 8), (0, 0, True, 1), (2, 0, False, 2), (3, 3, False, 8)):
        x = form_of(norm_problem("softmax", (9, 33), 1, "f16", None, None, at, to, in_place=in_place))
        assert max(v for v in (1, 2, 4, 8) if can_vector(x, v, in_place=in_place)) == widest
