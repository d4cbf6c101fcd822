"""Softmax and layer norm as data: what is accepted, and that the shortest form is the same problem."""

from __future__ import annotations

import itertools
import random

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
from layoutalg.kernels.rowwise import norm_problem, normed
from layoutalg.kernels.rowwise.norm_plan import form_of
from layoutalg.kernels.rowwise.problems import Form
from tests.norms import random_problem
from tests.sweeps import each


def places(x: Form) -> dict[int, tuple[int, int]]:
    """Destination offset -> (source offset, weight offset) of every element, by the shortest form."""
    found = {}
    for crd in itertools.product(*(range(m.extent) for m in x.modes)):
        source, target, weight = x.src_offset, x.dst_offset, 0
        for m, i in zip(x.modes, crd, strict=True):
            source += i * m.src
            target += i * m.dst if m.dst >= 0 else (m.extent - 1 - i) * -m.dst
            weight += i * m.weight if m.weight >= 0 else (m.extent - 1 - i) * -m.weight
        found[target] = (source, weight)
    return found


@each("seed", range(30))
def test_the_shortest_form_moves_the_same_elements(seed: int) -> None:
    p = random_problem(random.Random(seed), 600)
    a, x = p.axes, form_of(p)
    weighted = p.weight or p.bias
    wanted = {}
    for crd in itertools.product(*map(range, a.shape)):
        source = a.src_offset + sum(i * s for i, s in zip(crd, a.src, strict=True))
        target = a.dst_offset + sum(i * s for i, s in zip(crd, a.dst, strict=True))
        inner = tuple(crd[k] for k in a.axes)
        weight = int(np.ravel_multi_index(inner, tuple(a.shape[k] for k in a.axes))) if weighted else 0
        wanted[target] = (source, weight)
    got = places(x)
    if not weighted:
        got = {target: (source, 0) for target, (source, _) in got.items()}
    assert got == wanted
    assert x.outputs * x.count == len(wanted) and all(m.src >= 0 for m in x.modes)
    assert list(x.modes) == sorted(x.modes, key=lambda m: (m.src == 0, m.src, m.reduced, abs(m.dst)))


def test_modes_merge_only_where_weights_do_too() -> None:
    strides = (48, 1, 6)
    plain = norm_problem("layer_norm", (4, 6, 8), (1, 2), "f32", strides, strides)
    assert str(form_of(plain)) == "R 48:1->1, K 4:48->48"
    weighted = form_of(norm_problem("layer_norm", (4, 6, 8), (1, 2), "f32", strides, strides, weight=True))
    assert str(weighted) == "R 6:1->1 w8, R 8:6->6 w1, K 4:48->48"
    assert str(form_of(norm_problem("softmax", (1, 1), 0, "f32"))) == "one element"


REFUSED: list[tuple[dict[str, object], type[LayoutAlgError], str]] = [
    ({"op": "hardmax"}, UnknownNameError, "hardmax"),
    ({"dtype": "f64"}, UnsupportedError, "f64"),
    ({"dtype": "u8"}, UnsupportedError, "u8"),
    ({"axes": 2}, ShapeError, "axis 2"),
    ({"op": "softmax", "bias": True}, UnsupportedError, "no weight"),
    ({"eps": -1.0}, ShapeError, "eps"),
    ({"eps": float("nan")}, ShapeError, "eps"),
    ({"eps": "small"}, ArgumentTypeError, "eps"),
    ({"in_place": True, "dst": (1, 4)}, ShapeError, "in place"),
    ({"in_place": True, "src_offset": 4, "dst": (6, 1)}, ShapeError, "in place"),
    ({"dst": (0, 1)}, NotInjectiveError, "one place"),
]


@each(("change", "error", "text"), REFUSED)
def test_what_cannot_be_is_refused(change: dict[str, object], error: type[Exception], text: str) -> None:
    asked = {"op": "layer_norm", "shape": (4, 6), "axes": 1, "dtype": "f32", **change}
    with pytest.raises(error, match=text):
        norm_problem(**asked)  # type: ignore[arg-type]


def test_nothing_has_no_shortest_form() -> None:
    with pytest.raises(ShapeError, match="nothing to compute"):
        form_of(norm_problem("softmax", (4, 0), 0, "f32"))


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
