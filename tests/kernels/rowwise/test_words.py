"""Reductions of values of several words: indices, integers, variances, logarithms of sums."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.rowwise.reductions import INTEGERS
from layoutalg.ops import prepare, reduce
from tests.sweeps import each
from tests.tiers import first_tier

OF_FLOATS = ("min", "prod", "argmax", "argmin", "var", "logsumexp")
OF_INTEGERS = ("sum", "max", "min", "prod", "argmax", "argmin")
CASES = [(op, "f32") for op in OF_FLOATS] + [(op, kind) for op in OF_INTEGERS for kind in INTEGERS]
NUMPY = {"f32": "f4", "f16": "f2", "s8": "i1", "u8": "u1", "s16": "i2", "s32": "i4", "s64": "i8"}


def numbers(rng: np.random.Generator, count: int, kind: str, op: str) -> np.ndarray:
    """Elements with ties, NaN and infinities; of products, near 1."""
    if kind in INTEGERS:
        ends = np.iinfo(NUMPY[kind])
        wild = rng.integers(ends.min, ends.max, count, NUMPY[kind], endpoint=True)
        return np.where(rng.random(count) < 0.5, wild, rng.integers(0, 3, count)).astype(NUMPY[kind])
    x = np.round(rng.standard_normal(count) * 2) if op.startswith("arg") else rng.standard_normal(count)
    return np.asarray(1 + np.tanh(x) / 64 if op == "prod" else x).astype(NUMPY[kind])


HALVES = [(op, kind) for kind in ("f16", "bf16") for op in OF_FLOATS]


@each(("op", "kind"), [("argmax", "s16"), ("sum", "s16"), *CASES, *HALVES], sample=1)
def test_configurations_verify(op: str, kind: str) -> None:
    family, rng = FAMILIES[op], random.Random(f"{op} {kind}")
    for one in checks_of(family).verified if not first_tier() else [{"shape": (3, 70), "axes": (1,)}]:
        p = family.problem(**one, dtype=kind)
        found = family.configs(p)
        for c in [found[-1]] if first_tier() else rng.sample(found, min(3, len(found))):
            verify(family, p, c).require()


# --- calls ---------------------------------------------------------------------------------------------


def numpy_of(op: str, x: np.ndarray, axes: Any, **rest: Any) -> np.ndarray:
    if op == "logsumexp":
        wide = x.astype("f8")
        most = wide.max(axis=axes, keepdims=True)
        base = np.where(np.isfinite(most), most, 0)
        with np.errstate(all="ignore"):
            total = np.log(np.exp(wide - base).sum(axis=axes, keepdims=True)) + base
        return np.asarray(total if rest.get("keepdims") else total.squeeze(axes))
    wide = x.astype("f8" if x.dtype.kind == "f" else "i8")
    with np.errstate(all="ignore"):
        return np.asarray(getattr(wide, op)(axis=axes, **rest))


@each("op", [*OF_FLOATS, "sum", "max"], sample=2)
@each("dtype", ["f4", "f2", "u1", "i1", "i2", "i4", "i8"])
@each("simulate", [False, True])
def test_reductions_are_numpys(op: str, dtype: str, simulate: bool) -> None:
    if dtype[0] != "f" and op in ("var", "logsumexp"):
        return
    rng = np.random.default_rng(5)
    kind = {v: k for k, v in NUMPY.items()}[dtype]
    x = numbers(rng, 3 * 14 * 5, kind, op).reshape(3, 14, 5)
    if op in ("argmax", "argmin", "logsumexp", "min") and dtype[0] == "f":
        x[0, 3] = np.nan
        x[1, :, 2] = -np.inf
        x[2, 5, 1] = np.inf
    for axes in (1,) if simulate else (0, 1, -1):
        for view in (x[::-1, ::2],) if simulate else (x, x[::-1, ::2], x.transpose(2, 0, 1)):
            found = reduce(view, op, axes, keepdims=axes == 1, simulate=simulate)
            wanted = numpy_of(op, view, axes, keepdims=axes == 1)
            if dtype[0] != "f" or op.startswith("arg"):
                np.testing.assert_array_equal(found, wanted.astype(found.dtype))
                assert found.dtype == (np.int64 if op in ("argmax", "argmin", "sum", "prod") else x.dtype)
            else:
                np.testing.assert_allclose(found, wanted.astype(dtype), rtol=2e-3 if dtype == "f2" else 1e-5)


@each("simulate", [False, True])
def test_reductions_that_are_special_are_numpys(simulate: bool) -> None:
    """Indices among several axes count by rows, broadcast elements as often as they stand, integers wrap."""
    x = np.random.default_rng(1).integers(0, 50, (4, 5, 6)).astype("i2")
    for axes in ((0, 2), (1, 2), None):
        kept = [k for k in range(3) if axes is not None and k not in axes]
        turned = x.transpose(*kept, *(k for k in range(3) if k not in kept))
        flat = turned.reshape(*(x.shape[k] for k in kept), -1)
        np.testing.assert_array_equal(reduce(x, "argmin", axes, simulate=simulate), flat.argmin(-1))
    x, y = (
        np.broadcast_to(np.array(v, kind), (2, 5)) for v, kind in (([[3], [-2]], "i4"), ([[1.5], [-2]], "f4"))
    )
    for op in ("sum", "prod", "argmax", "max"):
        np.testing.assert_array_equal(reduce(x, op, 1, simulate=simulate), numpy_of(op, x, 1))
    for op in ("prod", "var", "logsumexp", "argmin"):
        wanted = numpy_of(op, y, (0, 1) if op != "argmin" else None)
        np.testing.assert_allclose(reduce(y, op, None, simulate=simulate), wanted, rtol=1e-6)
    z = np.random.default_rng(2).standard_normal((3, 7)).astype("f4")
    for ddof in (0, 1, 6, 7, 9):
        with np.errstate(all="ignore"), pytest.warns() if ddof >= 7 else np.errstate():
            wanted = z.astype("f8").var(1, ddof=ddof)
        np.testing.assert_allclose(reduce(z, "var", 1, ddof=ddof, simulate=simulate), wanted, rtol=1e-5)
    large = np.array([2**62, 2**62, 2**62], "i8")
    with np.errstate(over="ignore"):
        for op in ("sum", "prod"):
            assert int(reduce(large, op, simulate=simulate)) == int(getattr(large, op)())


def test_of_nothing() -> None:
    f, i = np.zeros((2, 0), "f4"), np.zeros((2, 0), "i4")
    assert reduce(f, "prod", 1).tolist() == [1, 1] and reduce(i, "prod", 1).tolist() == [1, 1]
    assert reduce(i, "sum", 1).dtype == np.int64 and reduce(f, "logsumexp", 1).tolist() == [-np.inf] * 2
    with pytest.warns(RuntimeWarning, match="var of nothing"):
        assert np.isnan(reduce(f, "var", 1)).all()

    assert reduce(np.zeros((0, 2), "i4"), "argmax", 1).shape == (0,)


X, I8, WHOLE = np.ones((2, 3), "f4"), np.ones((2, 3), "i1"), np.zeros(64, "i8")


@each(
    ("call", "error", "text"),
    [
        (lambda: reduce(X, "median"), UnknownNameError, "argmax"),
        (lambda: reduce(I8, "mean"), UnsupportedError, "mean of int8"),
        (lambda: reduce(I8, "var"), UnsupportedError, "var of int8"),
        (lambda: reduce(I8.astype("u4"), "sum"), UnsupportedError, "sum of uint32 elements: .*int64"),
        (lambda: reduce(I8, "sum", dtype="i4"), UnsupportedError, "int64 is"),
        (lambda: reduce(X, "argmax", dtype="f4"), UnsupportedError, "int64 is"),
        (lambda: reduce(X, "argmax", 1, out=np.zeros(2, "i4")), ArgumentTypeError, "out may hold int64"),
        (lambda: reduce(X, "argmax", (1, 1)), ShapeError, "twice"),
        (lambda: reduce(X, "sum", ddof=1), UnsupportedError, "no ddof"),
        (lambda: reduce(X, "var", ddof=-1), ShapeError, "ddof of var is -1"),
        *((lambda ddof=ddof: reduce(X, "var", ddof=ddof), ArgumentTypeError, "ddof") for ddof in (1.0, True)),
        (lambda: reduce(np.broadcast_to(I8[0, :1], (1 << 31,)), "argmax"), ResourceError, "argmax counts"),
        (lambda: reduce(WHOLE[:40].reshape(4, 10), "sum", 1, out=WHOLE[38:42]), ArgumentTypeError, "overlap"),
        (lambda: prepare("argmax", X, np.zeros(2, "i8"), axes=2), ShapeError, "axis 2"),
        *((lambda op=op: reduce(np.zeros((2, 0), "i4"), op, 1), ShapeError, "no elements")
          for op in ("min", "argmax", "argmin")),
    ],
)  # fmt: skip
def test_what_cannot_be_reduced_is_refused_by_name(call: Any, error: type[LayoutAlgError], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
