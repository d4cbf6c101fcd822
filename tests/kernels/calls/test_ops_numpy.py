"""Functions on arrays beside NumPy: a test for each row of the table in docs/ops.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.kernels.calls import matmul, reduce, softmax
from tests.sweeps import each

NUMPY: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "mean": np.mean}
X = np.arange(24, dtype="f4").reshape(2, 3, 4)


def same(op: str, x: Any, axes: Any = None, **options: Any) -> None:
    """What a reduction of small integers gives is what NumPy gives, in value, shape and type."""
    with np.errstate(all="ignore"):
        wanted = NUMPY[op](x, axis=axes, **options)
    found = reduce(x, op, axes, **options)
    assert isinstance(found, np.ndarray) and found.shape == wanted.shape and found.dtype == wanted.dtype
    assert np.allclose(found, wanted, equal_nan=True)


@each("op", NUMPY)
def test_no_axis_is_all_of_them(op: str) -> None:
    same(op, X)
    assert reduce(X, op).shape == ()


@each("op", NUMPY)
@each("axes", [0, -1, -3, (0, 2), (-1, 0), (), (1,), np.int64(1)])
def test_axes_are_negative_several_or_none(op: str, axes: Any) -> None:
    same(op, X, axes)


@each("op", NUMPY)
@each(
    ("axes", "error"),
    [
        ((0, 0), ShapeError), ((0, -3), ShapeError), (3, ShapeError), (-4, ShapeError),
        (True, ArgumentTypeError), (1.0, ArgumentTypeError), ("0", ArgumentTypeError),
    ],
)  # fmt: skip
def test_wrong_axes_are_refused_as_numpys(op: str, axes: Any, error: type[Exception]) -> None:
    with pytest.raises((ValueError, TypeError)) as numpys:
        NUMPY[op](X, axis=axes)
    with pytest.raises(error) as ours:
        reduce(X, op, axes)
    assert isinstance(ours.value, ValueError | TypeError)
    assert isinstance(ours.value, ValueError) == isinstance(numpys.value, ValueError)


@each("op", NUMPY)
@each("axes", [None, 1, (0, -1), ()])
def test_keepdims_keeps_extents_of_one(op: str, axes: Any) -> None:
    same(op, X, axes, keepdims=True)


@each("op", NUMPY)
def test_an_array_of_no_modes_has_a_last_axis_but_for_the_mean(op: str) -> None:
    x = np.array(3, "f4")
    same(op, x)
    same(op, x, ())
    for axis in (0, -1, 1, (0,)):
        try:
            np_result = NUMPY[op](x, axis=axis)
        except ValueError:
            with pytest.raises(ShapeError):
                reduce(x, op, axis)
        else:
            assert reduce(x, op, axis) == np_result
    assert softmax(x, ()).tolist() == 1.0


def test_a_result_of_no_modes_is_an_array() -> None:
    for found in (reduce(X, "sum"), matmul(X[0, 0], X[0, 0])):
        assert isinstance(found, np.ndarray) and found.shape == ()


@each("axes", [None, 0, 1, 2, (0, 1), ()])
@each("keepdims", [False, True])
def test_reductions_of_nothing_are_numpys(axes: Any, keepdims: bool) -> None:
    x = np.zeros((3, 0, 2), "f4")
    same("sum", x, axes, keepdims=keepdims)
    try:
        wanted = np.max(x, axis=axes, keepdims=keepdims)
    except ValueError:
        with pytest.raises(ShapeError, match="maximum over"):
            reduce(x, "max", axes, keepdims)
    else:
        assert reduce(x, "max", axes, keepdims).shape == wanted.shape
    with np.errstate(all="ignore"):
        if axes in (None, 1, (0, 1)):
            with pytest.warns(RuntimeWarning, match="mean of nothing"):
                found = reduce(x, "mean", axes, keepdims)
            with pytest.warns(RuntimeWarning, match="[Mm]ean of empty"):
                wanted = np.mean(x, axis=axes, keepdims=keepdims)
            assert found.shape == wanted.shape and np.isnan(found).all() and np.isnan(wanted).all()
        else:
            same("mean", x, axes, keepdims=keepdims)


def test_dtype_is_that_of_x_or_float32() -> None:
    x = np.full((2, 3000), 0.25, "f2")
    for dtype in ("float32", np.float32, "f4", "f32"):
        assert reduce(x, "sum", 1, dtype=dtype).dtype == np.float32
    assert reduce(x, "sum", 1, dtype="f2").dtype == np.float16
    assert reduce(x, "sum", 1, dtype="f4").tolist() == np.sum(x, 1, dtype="f4").tolist() == [750.0] * 2
    with pytest.raises(
        UnsupportedError, match="results of float16 as float64: float16 and float32 are accepted"
    ):
        reduce(x, "sum", 1, dtype="f8")
    with pytest.raises(ArgumentTypeError, match="out holds float16, x float16: out may hold float32"):
        reduce(x, "sum", 1, out=np.zeros(2, "f2"), dtype="f4")
    assert reduce(X[:0], "sum", 0, dtype="f4").dtype == np.float32


def test_out_is_of_the_very_shape_and_of_xs_type_or_float32() -> None:
    x = np.ones((2, 3), "f2")
    for dtype in ("f2", "f4"):
        out = np.zeros(2, dtype)
        assert reduce(x, "sum", 1, out=out) is out and out.tolist() == [3, 3]
    with pytest.raises(ArgumentTypeError, match="out holds float64"):
        reduce(x, "sum", 1, out=np.zeros(2, "f8"))
    with pytest.raises(ShapeError, match="out has shape"):
        reduce(x, "sum", 1, out=np.zeros((2, 1), "f2"))
    kept = np.zeros((2, 1), "f2")
    assert reduce(x, "sum", 1, True, kept) is kept


def test_sums_of_float16_are_rounded_once() -> None:
    x = np.full(5000, 0.5, "f2")
    x[0] = 2048
    assert reduce(x, "sum").tolist() == float(np.float16(x.astype("f8").sum()))
    assert reduce(x, "sum", simulate=True).tolist() == float(np.float16(x.astype("f8").sum()))


@each("dtype", ["u4", "f8", "c8", "?"])
def test_other_types_are_not_reduced(dtype: str) -> None:
    with pytest.raises(UnsupportedError, match=r"sum of .* elements: float32, float16, bfloat16"):
        reduce(np.ones(3, dtype), "sum")


def test_products_that_numpy_makes_otherwise() -> None:
    """The rows of matmul that are not in test_product_api.py."""
    i = np.full((2, 2), 100, "i1")
    assert matmul(i, i).tolist() == [[20000] * 2] * 2 and matmul(i, i).dtype == np.int32
    assert np.matmul(i, i).dtype == np.int8
    with pytest.raises(ArgumentTypeError, match="such as float32"):
        matmul(X[0, :2, :2].astype("f2"), X[0, :2, :2])
    x, wide = np.ones((2, 2), "f4"), np.zeros((5, 2, 2), "f4")
    assert np.matmul(x, x, out=wide) is wide
    with pytest.raises(ShapeError, match="out has shape"):
        matmul(x, x, wide)
    assert np.matmul(x, x, out=x) is x
    with pytest.raises(ArgumentTypeError, match="out overlaps a"):
        matmul(x, x.copy(), x)
